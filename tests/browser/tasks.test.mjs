// Five tasks as a new user does them, from the page alone. Each asserts how many clicks it takes, and reports seconds.

import assert from "node:assert/strict";
import { test } from "node:test";

import { RULES, swapBody } from "./support/gate.mjs";
import { assertNoProblems, confirm, signIn } from "./support/people.mjs";
import { setUp } from "./support/setup.mjs";

/** @typedef {import("./support/browser.mjs").Page} Page */

const KNOWN = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const LOOK_ALIKE = "0x5aa0000000000000000000000000000000000aed";
const LISTED = `[list.payouts]\nwallet = ["${KNOWN}"]\n`;
const WAIT_MS = 700;

const { browser, gate } = await setUp({ rules: `${RULES}${LISTED}` });

/**
 * Does a task, and counts the clicks and the choices in lists that it takes.
 * @param {import("node:test").TestContext} context
 * @param {Page} page
 * @param {number} clicks
 * @param {() => Promise<void>} act
 */
async function task(context, page, clicks, act) {
  await page.evaluate(() => {
    /** @type {any} */
    const world = globalThis;
    world.clicks = 0;
    addEventListener("click", (event) => event.isTrusted && event.detail > 0 && world.clicks++, { capture: true });
    addEventListener("change", (event) => event.target instanceof HTMLSelectElement && world.clicks++, {
      capture: true,
    });
  });
  const begin = performance.now();
  await act();
  const seconds = ((performance.now() - begin) / 1000).toFixed(1);
  const counted = await page.evaluate(() => /** @type {any} */ (globalThis).clicks);
  context.diagnostic(`${counted} clicks, ${seconds} s`);
  assert.equal(counted, clicks);
  assertNoProblems(page);
}

test("find the largest payment of today, and who approved it", async (context) => {
  await gate.swap("small-1", "10");
  const hold = await gate.holdSwap("large-1", "4200");
  for (const who of ["ops-1", "finance-1"]) {
    const page = await signIn(browser, gate, who);
    await page.locator(`a[data-id="${hold.id}"]`).click();
    await page.getByRole("button", { name: "Approve…" }).click();
    await confirm(page, "Approve 4,200 USDT");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  }
  const page = await signIn(browser, gate, "auditor", ["viewer"]);
  await task(context, page, 3, async () => {
    await page.getByRole("link", { name: "Payments" }).click();
    await page.getByRole("button", { name: "Today" }).click();
    await page.getByLabel("Order").selectOption("value");
    const first = page.locator("table.payments tbody tr").first();
    await first.getByText("4,200 USDT").waitFor();
    await first.getByText("ops-1, finance-1").waitFor();
  });
});

test("judge five holds, one of which goes to a look-alike address", async (context) => {
  for (const n of [1, 2, 3, 4]) await gate.holdSwap(`invoice-${n}`, `200${n}`);
  const destination = { chain: "POLYGON", currency: "usdc", walletAddress: LOOK_ALIKE };
  assert.equal((await gate.swap("invoice-5", "2005", { destination })).status, 202);
  const page = await signIn(browser, gate, "ops-2");
  // One click opens the first, two judge each, and one leads to the next.
  await task(context, page, 1 + 5 * 2 + 4, async () => {
    await page.locator(".rows a.row").first().click();
    for (let n = 1; n <= 5; n += 1) {
      await page.locator("article.hold .risk").waitFor();
      const title = await page.locator("article.hold h2").innerText();
      const isFalse = (await page.locator("article.hold .risk").getByText("begins and ends like").count()) > 0;
      assert.equal(isFalse, title === "2,005 USDT");
      await page.getByRole("button", { name: isFalse ? "Reject…" : "Approve…" }).click();
      if (isFalse) await page.getByLabel("Why").fill("a look-alike address");
      await confirm(page, `${isFalse ? "Reject" : "Approve"} ${title}`);
      await page.getByRole("dialog").waitFor({ state: "detached" });
      if (n < 5) {
        await page.getByRole("button", { name: "Next hold" }).click();
        await page.getByRole("button", { name: "Approve…" }).waitFor();
      }
    }
  });
});

test("find why a call was denied, and what would let it pass", async (context) => {
  await gate.swap("denied", "20000000");
  const page = await signIn(browser, gate, "auditor", ["viewer"]);
  await task(context, page, 3, async () => {
    await page.getByRole("link", { name: "Payments" }).click();
    await page.getByRole("link", { name: "denied", exact: true }).click();
    await page.getByRole("link", { name: "Why, and what would let it pass" }).click();
    await page.getByText("limit all-payments: over the limit of 100000 USD").waitFor();
    await page.getByText("small: if the value is at most 1000 USD").waitFor();
  });
});

test("settle a call of unknown outcome", async (context) => {
  await gate.addFault({ operation: "createSwap", kind: "html500", effect: false, times: 1 });
  await gate.swap("doubtful", "70");
  for (const who of ["ops-8", "ops-9"]) {
    const page = await signIn(browser, gate, who, ["operator"], { expects: [/status of 409/] });
    await task(context, page, 3, async () => {
      await page.getByRole("link", { name: "Overview" }).click();
      await page.getByRole("button", { name: "Not executed…" }).click();
      await page.getByLabel("How you know").fill("upstream's support says so");
      await page.waitForTimeout(WAIT_MS);
      const dialog = page.getByRole("dialog");
      const button = dialog.getByRole("button", { name: /ot executed$/ });
      await button.click();
      // Upstream may still execute it for a moment: the dialog stays, and a key confirms it again.
      const closed = dialog.waitFor({ state: "detached" });
      const again = setInterval(() => button.press("Enter", { timeout: 400 }).catch(() => {}), 500);
      await closed.finally(() => clearInterval(again));
    });
  }
});

test("stop one caller", async (context) => {
  // The caller is known by the name that everybody has for it: the page knows its issuer, and the environment.
  const other = await gate.call("/v2/wallets/swaps", swapBody("of-treasury", "6"), { subject: "treasury" });
  assert.equal(other.status, 201);
  const page = await signIn(browser, gate, "ops-8", ["operator"]);
  await task(context, page, 4, async () => {
    await page.getByRole("link", { name: "Payments" }).click();
    await page.getByLabel("Search", { exact: true }).fill("treasury");
    await page.getByLabel("Search", { exact: true }).press("Enter");
    await page.getByText("1 payment", { exact: true }).waitFor();
    await page.locator("table.payments tbody tr").getByRole("link").click();
    await page.getByRole("button", { name: "Freeze this caller…" }).click();
    await page.getByLabel("Why").fill("its key has leaked");
    await confirm(page, "Freeze now");
    await page.locator("#standing").getByText("the money of caller callers/treasury").waitFor();
  });
  const again = await gate.call("/v2/wallets/swaps", swapBody("of-treasury-2", "6"), { subject: "treasury" });
  assert.equal(again.body.error, "FROZEN");
  assert.equal((await gate.swap("of-payroll", "5")).status, 201);
});
