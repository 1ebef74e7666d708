// The risk of a hold: earlier payments to its destination, and what is said where they cannot be had.

import assert from "node:assert/strict";
import { test } from "node:test";

import { alterResponses } from "./support/browser.mjs";
import { swapBody } from "./support/gate.mjs";
import { assertNoProblems, confirm, openHold, signIn } from "./support/people.mjs";
import { setUp } from "./support/setup.mjs";

/** @typedef {import("./support/browser.mjs").Page} Page */

const PAYMENTS = /\/sluice\/v1\/payments\?/;
const UNREAD = "Earlier payments could not be read: judge this call without them.";
const REFUSED = { expects: [/status of 503/] };

const { browser, gate } = await setUp({ sandbox: true });

/**
 * Returns a wallet that no other test pays, and swaps to it.
 * @param {string} digit
 */
function wallet(digit) {
  const destination = { chain: "POLYGON", currency: "usdc", walletAddress: `0x${digit.repeat(40)}` };
  return {
    /** @param {string} name @param {string} amount */
    swap: (name, amount, environment = "production") =>
      gate.call("/v2/wallets/swaps", swapBody(name, amount, { destination }), { environment }),
    /** @param {string} name @param {string} amount */
    async hold(name, amount) {
      const { status, body } = await this.swap(name, amount);
      assert.equal(status, 202);
      return body.hold;
    },
  };
}

/**
 * Opens a hold, and returns its risk.
 * @param {Page} page
 * @param {{ id: string }} hold
 */
async function riskOf(page, hold) {
  await page.getByRole("link", { name: "Queue" }).click();
  await openHold(page, hold);
  return page.locator("article.hold section").filter({ has: page.getByRole("heading", { name: "Risk" }) });
}

test("a hold says how many times the mean it is, and from three times on that it must be checked", async () => {
  const to = wallet("1");
  for (const name of ["mean-1", "mean-2"]) assert.equal((await to.swap(name, "500")).status, 201);
  const page = await signIn(browser, gate, "ops-1");
  for (const [amount, words] of [
    ["1500", "Check: 3.0 times the mean of 2 earlier payments to it."],
    ["1499.99", "Note: 2.9 times the mean of 2 earlier payments to it."],
  ])
    await (await riskOf(page, await to.hold(`mean-of-${amount}`, amount))).getByText(words).waitFor();
  assertNoProblems(page);
});

test("a payment of the sandbox to the same address does not count for a hold of production", async () => {
  const to = wallet("2");
  assert.equal((await to.swap("paid-1", "1000")).status, 201);
  for (const [name, amount] of [
    ["tried-1", "10"],
    ["tried-2", "20"],
  ])
    assert.equal((await to.swap(name, amount, "sandbox")).status, 201);
  assert.equal((await to.swap("tried-3", "2500", "sandbox")).status, 202);
  const page = await signIn(browser, gate, "ops-1");
  const risk = await riskOf(page, await to.hold("real", "2500"));
  await risk.getByText("2.5 times the mean of 1 earlier payment to it.").waitFor();
  assert.equal(await risk.getByText("The same amount").count(), 0);
  assertNoProblems(page);
});

test("the same amount to the same destination links the earlier payment, in the hold and in the dialog", async () => {
  const to = wallet("3");
  await to.hold("once", "1700");
  const again = await to.hold("twice", "1700");
  const page = await signIn(browser, gate, "ops-1");
  const risk = await riskOf(page, again);
  const link = /^The same amount to the same destination: once, waiting, /;
  await risk.getByText("Check: The same amount").waitFor();
  await page.getByRole("button", { name: "Approve…" }).click();
  await page.getByRole("dialog").getByRole("link", { name: link }).waitFor();
  await page.keyboard.press("Escape");
  await risk.getByRole("link", { name: link }).click();
  await page.getByRole("heading", { name: "once" }).waitFor();
  await page.getByRole("heading", { name: "1,700 USDT" }).waitFor();
  assertNoProblems(page);
});

test("a cancelled call of the same amount is only noted", async () => {
  const to = wallet("4");
  const hold = await to.hold("withdrawn", "1800");
  const cancelled = await gate.call(`/sluice/v1/holds/${hold.id}/cancel`, undefined, { method: "POST" });
  assert.equal(cancelled.status, 200);
  const page = await signIn(browser, gate, "ops-1");
  const risk = await riskOf(page, await to.hold("anew", "1800"));
  await risk.getByText("Note: The same amount to the same destination: withdrawn, cancelled").waitFor();
  assertNoProblems(page);
});

test("payments that cannot be read are said so, and are looked for again", async () => {
  const to = wallet("5");
  assert.equal((await to.swap("read-1", "900")).status, 201);
  const hold = await to.hold("unread", "1100");
  const page = await signIn(browser, gate, "ops-1", ["approver"], REFUSED);
  const error = { code: "OVERLOADED", message: "too many searches of the audit log are running" };
  await page.route(PAYMENTS, (route) => route.fulfill({ status: 503, json: { error } }));
  const risk = await riskOf(page, hold);
  await risk.getByText(`Check: ${UNREAD}`).waitFor();
  assert.equal(await risk.getByText("Nothing unusual").count(), 0);
  await page.getByRole("button", { name: "Approve…" }).click();
  await page.getByRole("dialog").getByText(UNREAD).waitFor();
  await page.keyboard.press("Escape");
  await page.unroute(PAYMENTS);
  // A change of anything has the page look again.
  await to.swap("read-2", "900");
  await risk.getByText("1.2 times the mean of").waitFor();
  assert.equal(await risk.getByText(UNREAD).count(), 0);
  assertNoProblems(page);
});

test("one confirmation for many does not mark a hold whose earlier payments are not known", async () => {
  const to = wallet("6");
  for (const name of ["usual-1", "usual-2"]) assert.equal((await to.swap(name, "900")).status, 201);
  const holds = [await to.hold("many-1", "1101"), await to.hold("many-2", "1102")];
  const page = await signIn(browser, gate, "ops-2", ["approver"], REFUSED);
  for (const hold of holds) await riskOf(page, hold);
  await page.getByRole("link", { name: "Queue" }).click();
  const open = page.getByRole("button", { name: "Approve 2 you looked at…" });
  const boxes = page.getByRole("dialog").getByRole("checkbox");
  await open.click();
  await boxes.nth(1).waitFor();
  for (const box of await boxes.all()) assert.ok(await box.isChecked());
  await page.keyboard.press("Escape");
  // Only the payments of one amount fail: the box of the other hold stays marked.
  await page.route(/\/sluice\/v1\/payments\?.*amountFrom=1101/, (route) =>
    route.fulfill({ status: 503, json: { error: { code: "OVERLOADED", message: "busy" } } }),
  );
  await open.click();
  await page.getByRole("dialog").getByText(UNREAD).waitFor();
  for (const { id } of holds)
    assert.equal(await page.locator(`#batch-${id}`).isChecked(), id === holds[1].id, "only what is known is marked");
  await confirm(page, "Approve those marked");
  await page.getByText("You approved 1 hold.").waitFor();
  assertNoProblems(page);
});

test("the page says since when earlier payments count", async () => {
  const to = wallet("7");
  assert.equal((await to.swap("old-1", "900")).status, 201);
  const hold = await to.hold("partly", "1200");
  const since = new Date(Date.now() - 60_000).toISOString();
  for (const { reading, words } of [
    { reading: true, words: /Check: Earlier payments count only since \d\d:\d\d; older ones are still being read\./ },
    { reading: false, words: /Note: Earlier payments count only since \d\d:\d\d: the console has no older ones\./ },
  ]) {
    const page = await signIn(browser, gate, "ops-3");
    await alterResponses(page, PAYMENTS, (answer) => ({ ...answer, since, reading, complete: false }));
    const risk = await riskOf(page, hold);
    await risk.getByText(words).waitFor();
    await risk.getByText("1.3 times the mean of 1 earlier payment to it.").waitFor();
    assertNoProblems(page);
  }
});
