// Votes: two approvals send a hold, one rejection ends it, and nobody votes by accident.

import assert from "node:assert/strict";
import { test } from "node:test";

import { alterResponses, loseAnswer, openTab, PHONE, PLAIN_HOST } from "./support/browser.mjs";
import { personToken } from "./support/gate.mjs";
import { approve, assertNoProblems, confirm, goTo, openHold, signIn } from "./support/people.mjs";
import { setUp } from "./support/setup.mjs";

const { browser, gate } = await setUp();

test("two people approve, on a phone and on a desktop, and see the outcome", async () => {
  const hold = await gate.holdSwap("two-agree", "2500");
  const [first, second] = await Promise.all([
    signIn(browser, gate, "ops-1", ["approver"], { viewport: PHONE }),
    signIn(browser, gate, "finance-1"),
  ]);
  await openHold(first, hold);
  const seen = await first.locator("article.hold").innerText();
  for (const text of [
    "2,500 USDT",
    "USDT → USDC on POLYGON",
    "callers/payroll",
    "larger",
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    hold.fingerprint,
  ]) {
    assert.ok(seen.includes(text), `the page lacks ${text}: ${seen}`);
  }
  await first.getByText("Verified in this browser: the bytes below have the fingerprint that a vote is for.").waitFor();
  await first.getByText("Show the exact bytes").click();
  assert.match(await first.getByLabel("The exact bytes").innerText(), /^POST \/v2\/wallets\/swaps\n\n\{"destination":/);

  await approve(first, "2,500 USDT", "the invoice is on my desk");
  await first.getByText("You approved. Needs 1 of finance.").waitFor();
  // The other person's page updates by itself.
  await second.getByText("1 of 2 approved").waitFor();
  await openHold(second, hold);
  await second.getByText("the invoice is on my desk").waitFor();
  await approve(second, "2,500 USDT");
  for (const page of [first, second]) await page.getByText("Executed: upstream answered 201.").waitFor();
  assert.equal((await gate.swap("two-agree", "2500")).status, 201);
  assertNoProblems(first, second);
});

test("a rejection needs a reason, is final, and tells the caller why", async () => {
  const hold = await gate.holdSwap("rejected", "3000");
  const page = await signIn(browser, gate, "finance-1");
  await openHold(page, hold);
  await page.getByRole("button", { name: "Reject…" }).click();
  await confirm(page, "Reject 3,000 USDT");
  await page.getByText("Enter a reason").waitFor();
  await page.getByLabel("Why").fill("nobody ordered this");
  await confirm(page, "Reject 3,000 USDT");
  await page.locator("article.hold").getByText("Rejected. The caller got the reason.").waitFor();
  const answer = await gate.swap("rejected", "3000");
  assert.equal(answer.status, 403);
  assert.match(JSON.stringify(answer.body), /nobody ordered this/);
  assertNoProblems(page);
});

test("neither two quick taps nor pressing Enter twice approves anything", async () => {
  const hold = await gate.holdSwap("by-accident", "4000");
  const page = await signIn(browser, gate, "ops-1");
  await openHold(page, hold);
  const first = page.getByRole("button", { name: "Approve…" });
  await first.focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.getByLabel("Comment").press("Enter");
  await page
    .getByRole("dialog")
    .getByRole("button", { name: "Approve 4,000 USDT" })
    .evaluate((button) => button instanceof HTMLElement && button.click());
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  // The focus is back on the first button.
  assert.equal(await first.evaluate((button) => button === document.activeElement), true);
  const { body } = await gate.callConsole("GET", `holds/${hold.id}`, personToken("ops-1"));
  assert.deepEqual(body.votes, []);
  assertNoProblems(page);
});

test("a vote needs only the keyboard", async () => {
  const hold = await gate.holdSwap("by-keyboard", "4100");
  const page = await signIn(browser, gate, "ops-2");
  const row = page.locator(`a[data-id="${hold.id}"]`);
  await row.focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement?.id === "hold-title");
  await page.getByRole("button", { name: "Approve…" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.waitForTimeout(700);
  // From the title to the comment, to Cancel, to Approve.
  for (let times = 0; times < 3; times += 1) await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement?.textContent), "Approve 4,100 USDT");
  await page.keyboard.press("Enter");
  await page.getByText("You approved. Needs 1 of finance.").waitFor();
  assertNoProblems(page);
});

test("the keys a and r ask before they vote, and are letters in a field", async () => {
  const hold = await gate.holdSwap("by-letter", "4150");
  const page = await signIn(browser, gate, "ops-1");
  const dialogs = page.getByRole("dialog");
  // Without an open hold there is nothing to judge.
  await page.locator(`a[data-id="${hold.id}"]`).waitFor();
  await page.keyboard.press("a");
  await page.keyboard.press("r");
  assert.equal(await dialogs.count(), 0);
  await openHold(page, hold);
  await page.getByRole("button", { name: "Approve…" }).waitFor();
  const search = page.getByLabel("Search holds");
  await search.pressSequentially("jkar?");
  assert.equal(await search.inputValue(), "jkar?");
  const order = page.getByLabel("Order");
  await order.focus();
  await page.keyboard.press("a");
  assert.equal(await dialogs.count(), 0);
  await search.fill("");
  for (const [key, title, label, words] of [
    ["a", "Approve this?", "Comment", "a rather dear one"],
    ["r", "Reject this?", "Why", "a rather dear one"],
  ]) {
    await page.locator("#hold-title").focus();
    await page.keyboard.press(key);
    await dialogs.getByRole("heading", { name: title }).waitFor();
    // In the dialog the keys are letters, too: it stays the only one.
    await page.keyboard.press("r");
    await dialogs.getByLabel(label).pressSequentially(words);
    assert.equal(await dialogs.getByLabel(label).inputValue(), words);
    assert.equal(await dialogs.count(), 1);
    await page.keyboard.press("Escape");
    await dialogs.waitFor({ state: "detached" });
  }
  const { body } = await gate.callConsole("GET", `holds/${hold.id}`, personToken("ops-1"));
  assert.deepEqual([body.state, body.votes], ["pending", []]);
  assertNoProblems(page);
});

test("a vote can be withdrawn, and a comment added", async () => {
  const hold = await gate.holdSwap("taken-back", "4200");
  const page = await signIn(browser, gate, "ops-3");
  await openHold(page, hold);
  await approve(page, "4,200 USDT");
  await page.getByRole("button", { name: "Withdraw…" }).click();
  await confirm(page, "Withdraw vote");
  await page.getByRole("button", { name: "Approve…" }).waitFor();
  await page.getByRole("button", { name: "Comment…" }).click();
  await page.getByRole("textbox", { name: "Comment" }).fill("who is this for?");
  await confirm(page, "Comment");
  await page.locator("article.hold").getByText("who is this for?").waitFor();
  assertNoProblems(page);
});

test("a comment whose answer is lost stands once, however often it is sent", async () => {
  const hold = await gate.holdSwap("said-twice", "4250");
  const page = await signIn(browser, gate, "ops-3", undefined, { expects: [/ERR_FAILED|NS_ERROR/] });
  await openHold(page, hold);
  await page.getByRole("button", { name: "Comment…" }).click();
  await page.getByRole("textbox", { name: "Comment" }).fill("is it known?");
  await loseAnswer(page, "**/comment");
  await confirm(page, "Comment");
  await page.getByRole("dialog").getByText("trying again is harmless").waitFor();
  await confirm(page, "Comment");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  assert.equal(await page.locator("article.hold .quote").filter({ hasText: "is it known?" }).count(), 1);
  assertNoProblems(page);
});

test("a link leads to earlier requests to the same destination", async () => {
  await gate.swap("sent-before", "120");
  const hold = await gate.holdSwap("sent-again", "4300");
  const page = await signIn(browser, gate, "ops-1");
  await openHold(page, hold);
  await page.getByText("last paid").first().waitFor();
  await page.getByRole("link", { name: "All requests to it" }).first().click();
  await page.locator(".entry").getByRole("link", { name: "sent-before" }).first().waitFor();
  await page.goBack();
  await page.locator("article.hold").getByText("last paid").first().waitFor();
  assertNoProblems(page);
});

test("a decision of somebody else closes the dialog, and is shown", async () => {
  const hold = await gate.holdSwap("meanwhile", "5000");
  const page = await signIn(browser, gate, "ops-1");
  await openHold(page, hold);
  await page.getByRole("button", { name: "Approve…" }).click();
  await page.getByRole("dialog").waitFor();
  const body = { fingerprint: hold.fingerprint, reason: "not today" };
  assert.equal((await gate.callConsole("POST", `holds/${hold.id}/reject`, personToken("finance-2"), body)).status, 200);
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByText("Rejected. The caller got the reason.").waitFor();
  assert.equal(await page.getByRole("button", { name: "Approve…" }).count(), 0);
  await page.locator(`a[data-id="${hold.id}"]`).waitFor({ state: "detached" });
  assertNoProblems(page);
});

test("a second tab shows the vote of the first", async () => {
  const hold = await gate.holdSwap("two-tabs", "5100");
  const page = await signIn(browser, gate, "finance-2");
  const other = await openTab(page, `${gate.url}/#/hold/${hold.id}`);
  await other.locator("article.hold h2").waitFor();
  await openHold(page, hold);
  await page.bringToFront();
  await approve(page, "5,100 USDT");
  await other.bringToFront();
  await other.getByText("You approved. Needs 1 of ops.").waitFor();
  assertNoProblems(page, other);
});

test("nobody can vote on bytes with another fingerprint", async () => {
  const hold = await gate.holdSwap("altered", "6000");
  const page = await signIn(browser, gate, "ops-1");
  await alterResponses(page, `**/sluice/v1/holds/${hold.id}`, (hold) => {
    hold.sent.body = hold.sent.body.replace(
      "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
      "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    );
    return hold;
  });
  await goTo(page, gate, `#/hold/${hold.id}`);
  await page.getByRole("alert").getByText("Do not vote").first().waitFor();
  assert.equal(await page.getByRole("button", { name: "Approve…" }).count(), 0);
  assert.equal(await page.getByRole("button", { name: "Reject…" }).count(), 0);
  assertNoProblems(page);
});

test("nobody can vote on a description with another amount than the bytes", async () => {
  const hold = await gate.holdSwap("other-words", "6100");
  const page = await signIn(browser, gate, "ops-1");
  await alterResponses(page, `**/sluice/v1/holds/${hold.id}`, (hold) => {
    for (const word of hold.words) word.text = word.text.replace("6100", "61");
    return hold;
  });
  await goTo(page, gate, `#/hold/${hold.id}`);
  await page.getByRole("alert").getByText("that is not in the bytes").first().waitFor();
  assert.equal(await page.getByRole("button", { name: "Approve…" }).count(), 0);
  assertNoProblems(page);
});

test("without HTTPS nobody can vote, and the page says what to do", async () => {
  const hold = await gate.holdSwap("unprotected", "6150");
  const url = gate.url.replace("127.0.0.1", PLAIN_HOST);
  const page = await signIn(browser, { url }, "ops-1", ["approver"], { expects: [/origin was untrustworthy/] });
  await goTo(page, { url }, `#/hold/${hold.id}`);
  await page.getByRole("alert").getByText("This page was loaded without HTTPS").waitFor();
  assert.equal(await page.getByRole("button", { name: "Approve…" }).count(), 0);
  assert.equal(await page.getByRole("button", { name: "Reject…" }).count(), 0);
  assertNoProblems(page);
});

test("a person who may not vote has no button, and sees why", async () => {
  const hold = await gate.holdSwap("not-mine", "6200");
  for (const { subject, roles, why } of [
    { subject: "finance-1", roles: ["viewer"], why: "Voting needs the role approver." },
    { subject: "stranger", roles: ["approver"], why: "you are in none of the groups" },
  ]) {
    const page = await signIn(browser, gate, subject, roles);
    await goTo(page, gate, `#/hold/${hold.id}`);
    await page.getByText(why).waitFor();
    assert.equal(await page.getByRole("button", { name: "Approve…" }).count(), 0);
    assertNoProblems(page);
  }
});
