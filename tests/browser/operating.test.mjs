// Freezes, calls of unknown outcome, policies, stand-ins, the audit log and lost connections.

import assert from "node:assert/strict";
import { rename } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";

import { personToken, RULES } from "./support/gate.mjs";
import { assertNoProblems, confirm, goTo, signIn } from "./support/people.mjs";
import { setUp } from "./support/setup.mjs";

/** The problems that a browser reports while the gate is down. */
const NO_ANSWER = [/net::ERR_/, /NS_ERROR_/];

const { browser, gate } = await setUp({ general: 'loosening = "two-people"' });

/**
 * Confirms the dialog again while upstream may still execute the call.
 * @param {import("./support/browser.mjs").Page} page
 * @param {RegExp} name
 */
async function confirmInTime(page, name) {
  const dialog = page.getByRole("dialog");
  await page.waitForTimeout(700);
  for (let tries = 0; tries < 40 && (await dialog.count()) > 0; tries += 1) {
    await dialog.getByRole("button", { name }).click();
    await Promise.race([
      dialog.waitFor({ state: "detached" }),
      dialog
        .getByText("Too early")
        .waitFor()
        .then(() => page.waitForTimeout(500)),
    ]);
  }
}

/**
 * Has a person confirm that a freeze is to be lifted.
 * @param {import("./support/browser.mjs").Page} page
 * @param {string} reason
 */
async function confirmUnfreeze(page, reason) {
  await goTo(page, gate, "#/overview");
  await page.getByRole("button", { name: "Unfreeze…" }).click();
  await page.getByLabel("Why").fill(reason);
  await confirm(page, "Unfreeze in production");
}

test("two operators unfreeze what one froze, and everybody sees it", async () => {
  const [operator, second, viewer] = await Promise.all([
    signIn(browser, gate, "olga", ["operator"]),
    signIn(browser, gate, "otto", ["operator"]),
    signIn(browser, gate, "vera", ["viewer"]),
  ]);
  await goTo(operator, gate, "#/overview");
  await operator.getByRole("button", { name: "Freeze…" }).click();
  await confirm(operator, "Freeze now");
  await operator.getByText("Enter a reason").waitFor();
  await operator.getByLabel("Why").fill("a drill");
  await confirm(operator, "Freeze now");
  await operator.getByText("Frozen in production: all money", { exact: true }).waitFor();
  await viewer.locator(".frozen").getByText("a drill").waitFor();
  assert.equal((await gate.swap("while-frozen", "10")).status, 503);
  assert.equal(await viewer.getByRole("button", { name: "Freeze…" }).count(), 0);
  await operator.getByRole("button", { name: "Unfreeze…" }).click();
  await operator.getByLabel("Why").fill("it was a drill");
  await confirm(operator, "Unfreeze in production");
  await operator.getByText("people/olga confirmed that it can be lifted. One more operator must confirm it.").waitFor();
  assert.equal((await gate.swap("still-frozen", "10")).status, 503);
  await confirmUnfreeze(second, "so have I");
  await second.getByText("Nothing is frozen").waitFor();
  await operator.getByText("Nothing is frozen").waitFor();
  await viewer.locator(".frozen").waitFor({ state: "detached" });
  assert.equal((await gate.swap("after-frozen", "10")).status, 201);
  assertNoProblems(operator, second, viewer);
});

test("an operator freezes one of the operations that move money", async () => {
  const [page, second] = await Promise.all([
    signIn(browser, gate, "olga", ["operator"]),
    signIn(browser, gate, "otto", ["operator"]),
  ]);
  await goTo(page, gate, "#/overview");
  await page.getByRole("button", { name: "Freeze…" }).click();
  await page.getByLabel("What").selectOption("operation");
  const operations = page.getByLabel("Operation");
  await operations.selectOption("createOfframp");
  const offered = await operations
    .locator("option")
    .evaluateAll((options) => options.map((option) => option.getAttribute("value") ?? ""));
  assert.ok(offered.includes("createSwap") && !offered.includes("getUser"), offered.join());
  await page.getByLabel("Why").fill("the bank is closed");
  await confirm(page, "Freeze now");
  await page.getByText("Frozen in production: the operation createOfframp", { exact: true }).waitFor();
  assert.equal((await gate.swap("beside-frozen", "10")).status, 201);
  await confirmUnfreeze(page, "it opened");
  await page.getByText("One more operator must confirm it.", { exact: false }).first().waitFor();
  await confirmUnfreeze(second, "it did");
  await page.getByText("Nothing is frozen").waitFor();
  assertNoProblems(page, second);
});

test("two operators settle an unknown outcome; one is not enough", async () => {
  await gate.addFault({ operation: "createSwap", kind: "html500", effect: false, times: 1 });
  assert.equal((await gate.swap("doubtful", "70")).body.error, "OUTCOME_UNKNOWN");
  const [first, second] = await Promise.all([
    signIn(browser, gate, "olga", ["operator"], { expects: [/status of 409/] }),
    signIn(browser, gate, "otto", ["operator"], { expects: [/status of 409/] }),
  ]);
  for (const page of [first, second]) await goTo(page, gate, "#/overview");
  for (const { page, text } of [
    { page: first, text: "You confirmed that it was not executed. One more operator must confirm it." },
    { page: second, text: "None. Calls with an unknown outcome appear here" },
  ]) {
    await page.locator("[aria-labelledby=doubts]").getByText("70 USDT").waitFor();
    await page.getByRole("button", { name: "Not executed…" }).click();
    await page.getByRole("dialog").getByText("70 USDT").waitFor();
    await page.getByLabel("How you know").fill("it is not in upstream's list");
    await confirmInTime(page, /^(Not executed|Confirm: not executed)$/);
    await page.getByText(text).waitFor();
  }
  assert.equal((await gate.swap("doubtful", "70")).status, 201);
  assertNoProblems(first, second);
});

test("two operators give up a call whose outcome nobody will know", async () => {
  await gate.addFault({ operation: "createSwap", kind: "html500", effect: false, times: 1 });
  assert.equal((await gate.swap("given-up", "71")).body.error, "OUTCOME_UNKNOWN");
  const [first, second] = await Promise.all([
    signIn(browser, gate, "olga", ["operator"], { expects: [/status of 409/] }),
    signIn(browser, gate, "otto", ["operator"], { expects: [/status of 409/] }),
  ]);
  for (const page of [first, second]) await goTo(page, gate, "#/overview");
  for (const { page, text } of [
    { page: first, text: "You confirmed that nobody will ever know. One more operator must confirm it." },
    { page: second, text: "None. Calls with an unknown outcome appear here" },
  ]) {
    await page.getByRole("button", { name: "Nobody will know…" }).click();
    await page.getByLabel("What you tried").fill("upstream has no list of swaps");
    await confirmInTime(page, /^(Nobody will know|Confirm: nobody will know)$/);
    await page.getByText(text).waitFor();
  }
  assert.equal((await gate.swap("given-up", "71")).body.error.code, "OUTCOME_ABANDONED");
  assertNoProblems(first, second);
});

test("limits and decisions are shown in words and in charts", async () => {
  await gate.swap("counted", "900");
  await gate.swap("too-much", "900000");
  const page = await signIn(browser, gate, "vera", ["viewer"]);
  await goTo(page, gate, "#/overview");
  await page
    .getByLabel("Fullest limits")
    .getByText(/ of 100,000\.00 USD$/)
    .waitFor();
  await page
    .getByRole("img", { name: /^Decisions over time: [0-9]+ allowed, [0-9]+ held, [1-9][0-9]* denied\.$/ })
    .waitFor();
  assertNoProblems(page);
});

test("tighter rules come into force at once, looser ones after two policy admins approve", async () => {
  const [first, second] = await Promise.all([
    signIn(browser, gate, "paula", ["policy-admin"]),
    signIn(browser, gate, "pete", ["policy-admin"]),
  ]);
  for (const page of [first, second]) await goTo(page, gate, "#/policy");
  const version = () =>
    gate.callConsole("GET", "policies", personToken("vera", ["viewer"])).then(({ body }) => body.version);
  const before = await version();
  await gate.writePolicies(RULES.replace("(0, 1000] USD", "(0, 500] USD").replace("(1000, inf)", "(500, inf)"));
  await waitUntil(async () => (await version()) !== before);
  const tight = await version();
  await first.locator(`code[title="${tight}"]`).waitFor();
  assert.equal((await gate.swap("tighter", "600")).status, 202);

  await gate.writePolicies(RULES);
  for (const page of [first, second]) {
    await page.getByRole("heading", { name: "A new version waits for approval" }).waitFor();
    const past = page.getByRole("region", { name: "What it would have changed" });
    // Other tests made calls as well.
    const change = past.getByText(/^production: now allowed, held before: [0-9]+ calls?, .* USD; the largest: /);
    await change.first().waitFor();
    await page.getByRole("button", { name: "Approve…" }).click();
    await page.getByLabel("Why").fill("as the treasurer decided");
    await page.waitForTimeout(700);
    await page
      .getByRole("dialog")
      .getByRole("button", { name: /^(Approve|Put) / })
      .click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
  }
  await waitUntil(async () => (await version()) === before);
  await second.getByRole("heading", { name: "A new version waits for approval" }).waitFor({ state: "detached" });
  assert.equal((await gate.swap("looser", "610")).status, 201);
  assertNoProblems(first, second);
});

test("an approver names a stand-in, and revokes it", async () => {
  const page = await signIn(browser, gate, "ops-1");
  await goTo(page, gate, "#/overview");
  await page.getByRole("button", { name: "Name a stand-in…" }).click();
  await confirm(page, "Name stand-in");
  await page.getByText("Enter a person.").waitFor();
  await page.getByLabel("Person").fill("visitor");
  await page.getByLabel("Why").fill("two weeks at sea");
  await confirm(page, "Name stand-in");
  await page.getByText("visitor votes in place of ops-1").waitFor();
  await page.getByRole("button", { name: "Revoke…" }).click();
  await page.getByLabel("Why").fill("back ashore");
  await confirm(page, "Revoke");
  await page.getByText("No stand-ins are named.").waitFor();
  assertNoProblems(page);
});

test("the audit log finds the history of a call", async () => {
  await gate.swap("storied", "12");
  const page = await signIn(browser, gate, "vera", ["viewer"]);
  await goTo(page, gate, "#/history");
  await page.getByLabel("Request", { exact: true }).fill("storied");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.getByRole("link", { name: "storied" }).first().click();
  await page.getByRole("heading", { name: "storied" }).waitFor();
  await page.locator(".story").getByText("Executed", { exact: true }).waitFor();
  assertNoProblems(page);
});

test("the page shows a lost connection, and catches up once it is back", async () => {
  const page = await signIn(browser, gate, "ops-1", ["approver"], { expects: NO_ANSWER });
  await page.locator("#live").getByText("Live", { exact: true }).waitFor();
  await gate.kill();
  await page.locator("#live").getByText("Connection lost").waitFor();
  await gate.serve();
  const hold = await gate.holdSwap("while-away", "7000");
  await page.locator("#live").getByText("Live", { exact: true }).waitFor();
  await page.locator(`a[data-id="${hold.id}"]`).waitFor();
  assertNoProblems(page);
});

test("sections that could not be loaded come back", async () => {
  const page = await signIn(browser, gate, "ops-1", ["approver"], { expects: [/status of 503/] });
  await goTo(page, gate, "#/overview");
  const cards = ["doubts", "limits", "decisions", "stand-ins"].map((id) =>
    page.locator(`section[aria-labelledby="${id}"]`),
  );
  for (const card of cards) await card.locator(".waiting").waitFor({ state: "detached" });
  const lost = /\/sluice\/v1\/(requests|usage|decisions|stand-ins)/;
  await page.route(lost, (route) => route.fulfill({ status: 503, json: {} }));
  await gate.swap("seen-by-nobody", "10");
  for (const card of cards) await card.locator(".trouble").waitFor();
  await page.unroute(lost);
  for (const card of cards) {
    // The page may load again by itself before that.
    await card
      .getByRole("button", { name: "Try again" })
      .click({ timeout: 1_000 })
      .catch(() => {});
    await card.locator(".trouble").waitFor({ state: "detached" });
  }
  assertNoProblems(page);
});

/**
 * Waits until a condition holds.
 * @param {() => Promise<boolean>} holds
 */
async function waitUntil(holds) {
  const end = Date.now() + 30_000;
  while (!(await holds())) {
    assert.ok(Date.now() < end, "the condition did not hold in time");
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

test("money that is closed without a freeze is told above every view, in the overview and in the dialog", async () => {
  const hold = await gate.holdSwap("while-closed");
  // Payments are read from the audit log, which is gone as well.
  const page = await signIn(browser, gate, "ops-1", ["approver", "operator"], { expects: [/status of 503/] });
  await goTo(page, gate, "#/overview");
  await page.getByText("Nothing stops money at this gate: nothing is frozen.").waitFor();
  // Its disk is gone: nothing that is paid could be recorded.
  const [audit, away] = ["sluice-audit", "away"].map((name) => path.join(gate.folder, name));
  await rename(audit, away);
  assert.equal((await gate.swap("while-closed-2", "10")).status, 503);
  await page.locator("#standing").getByText("No money moves: the audit log cannot be written").waitFor();
  await page.locator(".glance .frozen").getByText("Reads go on.").waitFor();
  assert.equal(await page.getByText("Nothing stops money").count(), 0);
  await goTo(page, gate, `#/hold/${hold.id}`);
  await page.getByRole("button", { name: "Approve…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("Money is closed at the moment: approved now").waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  await rename(away, audit);
  await page.locator("#standing .frozen").waitFor({ state: "detached" });
  await goTo(page, gate, "#/overview");
  await page.getByText("Nothing stops money at this gate: nothing is frozen.").waitFor();
  assertNoProblems(page);
});
