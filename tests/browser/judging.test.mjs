// People judge what waits: two agree and it is sent, one rejects and it is not, and nobody does it by accident.

import assert from "node:assert/strict";
import { test } from "node:test";

import { PHONE, PLAIN_HOST, tab, tellOtherwise } from "./support/browser.mjs";
import { person } from "./support/gate.mjs";
import { approve, calm, go, open, press, signedIn } from "./support/people.mjs";
import { stage } from "./support/stage.mjs";

const { browser, gate } = await stage();

test("two people agree, on a phone and at a desk, and see that it was executed", async () => {
  const hold = await gate.held("two-agree", "2500");
  const [first, second] = await Promise.all([signedIn(browser, gate, "ops-1", ["approver"], { viewport: PHONE }), signedIn(browser, gate, "finance-1")]);
  await open(first, hold);
  const seen = await first.locator("article.hold").innerText();
  for (const told of ["2,500 USDT", "USDT on POLYGON → USDC on POLYGON", "callers/payroll", "larger", "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed", hold.fingerprint]) {
    assert.ok(seen.includes(told), `${told} is not told: ${seen}`);
  }
  await first.getByText("computed in this browser, is the one that a vote is for").waitFor();
  await first.getByText("Show the exact bytes").click();
  assert.match(await first.getByLabel("The exact bytes").innerText(), /^POST \/v2\/wallets\/swaps\n\n\{"destination":/);

  await approve(first, "2,500 USDT", "the invoice is on my desk");
  await first.getByText("You agreed. Missing: 1 of finance.").waitFor();
  // The other hears of it without doing anything.
  await second.getByText("1 of 2 agreed").waitFor();
  await open(second, hold);
  await second.getByText("the invoice is on my desk").waitFor();
  await approve(second, "2,500 USDT");
  for (const page of [first, second]) await page.getByText("Executed: upstream answered 201.").waitFor();
  assert.equal((await gate.swap("two-agree", "2500")).status, 201);
  calm(first, second);
});

test("a rejection needs a reason, is final, and its caller hears why", async () => {
  const hold = await gate.held("rejected", "3000");
  const page = await signedIn(browser, gate, "finance-1");
  await open(page, hold);
  await page.getByRole("button", { name: "Reject…" }).click();
  await press(page, "Reject 3,000 USDT");
  await page.getByText("Say why first").waitFor();
  await page.getByLabel("Why").fill("nobody ordered this");
  await press(page, "Reject 3,000 USDT");
  await page.locator("article.hold").getByText("It was rejected, and its caller was told why.").waitFor();
  const answer = await gate.swap("rejected", "3000");
  assert.equal(answer.status, 403);
  assert.match(JSON.stringify(answer.body), /nobody ordered this/);
  calm(page);
});

test("neither two quick taps nor two presses of Enter agree to anything", async () => {
  const hold = await gate.held("by-accident", "4000");
  const page = await signedIn(browser, gate, "ops-1");
  await open(page, hold);
  const first = page.getByRole("button", { name: "Approve…" });
  await first.focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.getByLabel("Comment").press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Approve 4,000 USDT" }).evaluate((button) => button.click());
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  // Who lets it be is where they were.
  assert.equal(await first.evaluate((button) => button === document.activeElement), true);
  const { body } = await gate.act("GET", `holds/${hold.id}`, person("ops-1"));
  assert.deepEqual(body.votes, []);
  calm(page);
});

test("all of it goes by keyboard alone", async () => {
  const hold = await gate.held("by-keyboard", "4100");
  const page = await signedIn(browser, gate, "ops-2");
  const row = page.locator(`a[data-id="${hold.id}"]`);
  await row.focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement?.id === "hold-title");
  await page.getByRole("button", { name: "Approve…" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").waitFor();
  await page.waitForTimeout(700);
  // The title, the comment, going back, and then agreeing.
  for (let times = 0; times < 3; times += 1) await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Approve 4,100 USDT");
  await page.keyboard.press("Enter");
  await page.getByText("You agreed. Missing: 1 of finance.").waitFor();
  calm(page);
});

test("a vote is taken back, and a remark is left", async () => {
  const hold = await gate.held("taken-back", "4200");
  const page = await signedIn(browser, gate, "ops-3");
  await open(page, hold);
  await approve(page, "4,200 USDT");
  await page.getByRole("button", { name: "Take back…" }).click();
  await press(page, "Take my word back");
  await page.getByRole("button", { name: "Approve…" }).waitFor();
  await page.getByRole("button", { name: "Remark…" }).click();
  await page.getByRole("textbox", { name: "Remark" }).fill("who is this for?");
  await press(page, "Remark");
  await page.locator("article.hold").getByText("who is this for?").waitFor();
  calm(page);
});

test("what was asked for a destination before is one tap away", async () => {
  await gate.swap("sent-before", "120");
  const hold = await gate.held("sent-again", "4300");
  const page = await signedIn(browser, gate, "ops-1");
  await open(page, hold);
  await page.getByText("last paid").first().waitFor();
  await page.getByRole("link", { name: "all that was asked for it" }).first().click();
  await page.locator(".entry").getByRole("link", { name: "sent-before" }).first().waitFor();
  await page.goBack();
  await page.locator("article.hold").getByText("last paid").first().waitFor();
  calm(page);
});

test("what somebody else decided meanwhile closes the question, and is told", async () => {
  const hold = await gate.held("meanwhile", "5000");
  const page = await signedIn(browser, gate, "ops-1");
  await open(page, hold);
  await page.getByRole("button", { name: "Approve…" }).click();
  await page.getByRole("dialog").waitFor();
  const body = { fingerprint: hold.fingerprint, reason: "not today" };
  assert.equal((await gate.act("POST", `holds/${hold.id}/reject`, person("finance-2"), body)).status, 200);
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.getByText("It was rejected, and its caller was told why.").waitFor();
  assert.equal(await page.getByRole("button", { name: "Approve…" }).count(), 0);
  await page.locator(`a[data-id="${hold.id}"]`).waitFor({ state: "detached" });
  calm(page);
});

test("a second tab shows what was done in the first", async () => {
  const hold = await gate.held("two-tabs", "5100");
  const page = await signedIn(browser, gate, "finance-2");
  const other = await tab(page, `${gate.url}/#/hold/${hold.id}`);
  await other.locator("article.hold h2").waitFor();
  await open(page, hold);
  await page.bringToFront();
  await approve(page, "5,100 USDT");
  await other.bringToFront();
  await other.getByText("You agreed. Missing: 1 of ops.").waitFor();
  calm(page, other);
});

test("bytes that are not what the gate says are not voted for", async () => {
  const hold = await gate.held("altered", "6000");
  const page = await signedIn(browser, gate, "ops-1");
  await tellOtherwise(page, `**/sluice/v1/holds/${hold.id}`, (told) => {
    told.sent.body = told.sent.body.replace("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359");
    return told;
  });
  await go(page, gate, `#/hold/${hold.id}`);
  await page.getByRole("alert").getByText("Do not judge this").first().waitFor();
  assert.equal(await page.getByRole("button", { name: "Approve…" }).count(), 0);
  assert.equal(await page.getByRole("button", { name: "Reject…" }).count(), 0);
  calm(page);
});

test("words that tell another amount than the bytes are not believed", async () => {
  const hold = await gate.held("other-words", "6100");
  const page = await signedIn(browser, gate, "ops-1");
  await tellOtherwise(page, `**/sluice/v1/holds/${hold.id}`, (told) => {
    for (const word of told.words) word.text = word.text.replace("6100", "61");
    return told;
  });
  await go(page, gate, `#/hold/${hold.id}`);
  await page.getByRole("alert").getByText("does not stand in the bytes").first().waitFor();
  assert.equal(await page.getByRole("button", { name: "Approve…" }).count(), 0);
  calm(page);
});

test("a browser that cannot compute the fingerprint lets nobody vote, and says what to do", async () => {
  const hold = await gate.held("unprotected", "6150");
  const url = gate.url.replace("127.0.0.1", PLAIN_HOST);
  const page = await signedIn(browser, { url }, "ops-1", ["approver"], { expects: [/origin was untrustworthy/] });
  await go(page, { url }, `#/hold/${hold.id}`);
  await page.getByRole("alert").getByText("This page came without HTTPS").waitFor();
  assert.equal(await page.getByRole("button", { name: "Approve…" }).count(), 0);
  assert.equal(await page.getByRole("button", { name: "Reject…" }).count(), 0);
  calm(page);
});

test("who may not judge is told why, and has no button", async () => {
  const hold = await gate.held("not-mine", "6200");
  for (const [subject, roles, why] of [
    ["finance-1", ["viewer"], "Whoever judges it has the role approver."],
    ["stranger", ["approver"], "you are in none of the groups"],
  ]) {
    const page = await signedIn(browser, gate, subject, roles);
    await go(page, gate, `#/hold/${hold.id}`);
    await page.getByText(why).waitFor();
    assert.equal(await page.getByRole("button", { name: "Approve…" }).count(), 0);
    calm(page);
  }
});
