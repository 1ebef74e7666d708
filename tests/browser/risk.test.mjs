// The risk of a hold: earlier payments to its destination, and what is said where they cannot be had.

import assert from "node:assert/strict";
import { test } from "node:test";

import { accessibilityViolations, alterResponses } from "./support/browser.mjs";
import { RULES, swapBody } from "./support/gate.mjs";
import { assertNoProblems, confirm, openHold, signIn } from "./support/people.mjs";
import { setUp } from "./support/setup.mjs";

/** @typedef {import("./support/browser.mjs").Page} Page */

const HOLD = /\/sluice\/v1\/holds\/[0-9a-f]{32}$/;
const HOLDS = /\/sluice\/v1\/holds\?/;
const UNREAD = "Earlier payments could not be read: judge this call without them.";
/** Beyond it, a hold takes more than what is left. */
const LIMIT = `
[[limit]]
id = "per-caller"
ops = ["createSwap"]
window = "rolling 24h"
per = ["environment", "caller"]
max = "90000 USD"
over = "hold"
approval = "payment"
`;

const { browser, gate } = await setUp({ sandbox: true, rules: RULES + LIMIT });

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

test("a row of the queue has the facts of its hold, and links the earlier payment", async () => {
  const to = wallet("8");
  for (const name of ["row-1", "row-2"]) assert.equal((await to.swap(name, "500")).status, 201);
  const [first, second] = [await to.hold("row-3", "5000"), await to.hold("row-4", "5000")];
  const beyond = await to.hold("row-5", "95000");
  const page = await signIn(browser, gate, "ops-1");
  const row = (/** @type {{ id: string }} */ { id }) =>
    page.locator(".rows li").filter({ has: page.locator(`[data-id="${id}"]`) });
  for (const [hold, other] of /** @type {[any, string][]} */ ([
    [first, "row-4"],
    [second, "row-3"],
  ])) {
    await row(hold).getByText("10 times the usual").waitFor();
    await row(hold)
      .getByRole("link", { name: `Same amount, same destination: ${other}, waiting, ` })
      .waitFor();
    assert.equal(await row(hold).getByText("Over a limit").count(), 0);
  }
  await row(beyond).getByText("190 times the usual").waitFor();
  await row(beyond).getByText("Over a limit").waitFor();
  assert.deepEqual(await accessibilityViolations(page), [], "links of a row");
  await (await riskOf(page, beyond)).getByText("It exceeds the limit per-caller: ").waitFor();
  await page.getByRole("button", { name: "Approve…" }).click();
  await page.getByRole("dialog").getByText("its approval lets it exceed the limit that holds it").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "Queue", exact: true }).click();
  // What is dangerous is neither cut nor does it cover anything, however narrow the row is.
  for (const width of [1440, 1024, 640, 390]) {
    await page.setViewportSize({ width, height: 768 });
    await row(beyond).scrollIntoViewIfNeeded();
    const covered = await row(beyond).evaluate((item) => {
      const boxOf = (/** @type {Element} */ one) => one.getBoundingClientRect();
      const others = [...item.querySelectorAll(".amount, .what, .to, .who, .due, .votes")].map(boxOf);
      const whole = boxOf(item);
      return [...item.querySelectorAll(".why .badge")].map(boxOf).filter((one) => {
        const isCut = one.right > whole.right || one.bottom > whole.bottom || one.height === 0;
        const isOver = (/** @type {DOMRect} */ other) =>
          one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;
        return isCut || others.some(isOver);
      }).length;
    });
    assert.equal(covered, 0, `at ${width}`);
  }
  await row(second).getByRole("link", { name: "Same amount" }).click();
  await page.getByRole("heading", { name: "row-3" }).waitFor();
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
  const page = await signIn(browser, gate, "ops-1");
  await alterResponses(page, HOLD, (answer) => ({ ...answer, earlier: null }));
  const risk = await riskOf(page, hold);
  await risk.getByText(`Check: ${UNREAD}`).waitFor();
  assert.equal(await risk.getByText("Nothing unusual").count(), 0);
  await page.getByRole("button", { name: "Approve…" }).click();
  await page.getByRole("dialog").getByText(UNREAD).waitFor();
  await page.keyboard.press("Escape");
  await page.unroute(HOLD);
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
  const page = await signIn(browser, gate, "ops-2");
  for (const hold of holds) await riskOf(page, hold);
  await page.getByRole("link", { name: "Queue" }).click();
  const open = page.getByRole("button", { name: "Approve 2 you looked at…" });
  const boxes = page.getByRole("dialog").getByRole("checkbox");
  await open.click();
  await boxes.nth(1).waitFor();
  for (const box of await boxes.all()) assert.ok(await box.isChecked());
  await page.keyboard.press("Escape");
  // What the queue says now counts, not what the hold said before: the box of the other hold stays marked.
  const unread = (/** @type {any} */ hold) => (hold.id === holds[0].id ? { ...hold, earlier: null } : hold);
  await alterResponses(page, HOLDS, (answer) => ({ ...answer, holds: answer.holds.map(unread) }));
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("link", { name: "Queue" }).click();
  await page.locator(`a.row[data-id="${holds[0].id}"]`).getByText("Earlier payments not read").waitFor();
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
    await alterResponses(page, HOLD, (answer) => ({ ...answer, earlier: { ...answer.earlier, since, reading } }));
    const risk = await riskOf(page, hold);
    await risk.getByText(words).waitFor();
    await risk.getByText("1.3 times the mean of 1 earlier payment to it.").waitFor();
    assertNoProblems(page);
  }
});

test("an address that looks like a paid one, in no list, is told first: in the row, in the hold and in the dialog", async () => {
  const paid = "0xABCde00000000000000000000000000000000fed".toLowerCase();
  const alike = `0xabc${"9".repeat(34)}fed`;
  const to = (/** @type {string} */ walletAddress) => ({
    destination: { chain: "POLYGON", currency: "usdc", walletAddress },
  });
  assert.equal((await gate.swap("genuine", "40", to(paid))).status, 201);
  // A trial in the sandbox makes no address known.
  const trial = await gate.call("/v2/wallets/swaps", swapBody("trial", "40", to(`0x7a7${"1".repeat(34)}7a7`)), {
    environment: "sandbox",
  });
  assert.equal(trial.status, 201);
  assert.equal((await gate.swap("false-friend", "2222", to(alike))).status, 202);
  assert.equal((await gate.swap("new-friend", "2223", to(`0x7a7${"2".repeat(34)}7a7`))).status, 202);
  const page = await signIn(browser, gate, "ops-1");
  await page.getByRole("link", { name: "Queue" }).click();
  const row = (/** @type {string} */ amount) => page.locator(".rows li").filter({ hasText: amount });
  await row("2,222 USDT").getByText("Looks like a paid address, and is not").waitFor();
  await row("2,222 USDT").getByRole("link", { name: "genuine paid the address that it looks like, " }).waitFor();
  assert.equal(await row("2,223 USDT").getByText("Looks like").count(), 0);
  await row("2,222 USDT").locator("a.row").click();
  const risk = page.locator("article.hold .risk");
  const words =
    /^Danger: This address begins and ends like 0x[0-9a-fA-F]{40}, which genuine paid, and is another one: /;
  await risk.getByRole("listitem").first().filter({ hasText: words }).waitFor();
  assert.equal(await risk.locator(".unlike mark").count(), 34);
  await page.getByRole("button", { name: "Approve…" }).click();
  const link = page.getByRole("dialog").getByRole("link", { name: "which genuine paid, and is another one" });
  await link.waitFor();
  await page.keyboard.press("Escape");
  await risk.getByRole("link", { name: "which genuine paid" }).click();
  await page.getByRole("heading", { name: "genuine" }).waitFor();
  assertNoProblems(page);
});

test("a hold asks again while earlier payments are being read", async () => {
  const to = wallet("c");
  assert.equal((await to.swap("asked-1", "900")).status, 201);
  const hold = await to.hold("asked-2", "1200");
  const page = await signIn(browser, gate, "ops-3");
  await alterResponses(page, HOLD, (answer) => ({ ...answer, earlier: { ...answer.earlier, reading: true } }));
  const risk = await riskOf(page, hold);
  await risk.getByText("Check: Earlier payments are still being read.").waitFor();
  // A row says it, too, and looks again by itself.
  const unread = (/** @type {any} */ one) => ({ ...one, earlier: { ...one.earlier, reading: true } });
  await alterResponses(page, HOLDS, (answer) => ({ ...answer, holds: answer.holds.map(unread) }));
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("link", { name: "Queue" }).click();
  const badge = page.locator(`a.row[data-id="${hold.id}"]`).getByText("Earlier payments still being read");
  await badge.waitFor();
  await page.unroute(HOLDS);
  await badge.waitFor({ state: "detached" });
  await riskOf(page, hold);
  await page.unroute(HOLD);
  await risk.getByText("Earlier payments are still being read.").waitFor({ state: "detached" });
  assertNoProblems(page);
});
