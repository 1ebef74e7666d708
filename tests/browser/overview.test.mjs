// The overview's first screen, and the queue, with many holds and many keys of limits.

import assert from "node:assert/strict";
import { test } from "node:test";

import { assertNoProblems, goTo, signIn, waitUntilLoaded } from "./support/people.mjs";
import { fillGate, HIGH_LIMITS } from "./support/scenes.mjs";
import { setUp } from "./support/setup.mjs";

/** Limits with a window for each payment, each caller and each destination. */
const MANY_KEYS = `
[[limit]]
id = "same-payment-twice"
ops = ["createSwap"]
window = "rolling 1h"
per = ["payment"]
max = "1 call"
over = "hold"
approval = "payment"
[[limit]]
id = "per-caller"
ops = ["createSwap"]
window = "rolling 24h"
per = ["environment", "caller"]
max = "2000 USD"
over = "hold"
approval = "payment"
[[rate]]
id = "swaps"
ops = ["createSwap"]
per = ["caller"]
quota = "1000/s burst 10000"
`;
const ROLES = ["approver", "operator", "policy-admin"];

const { browser, gate } = await setUp({ sandbox: true, rules: HIGH_LIMITS + MANY_KEYS });
await fillGate(gate, 200);

for (const { width, height, isOneScreen } of [
  { width: 1440, height: 900, isOneScreen: true },
  { width: 1024, height: 900, isOneScreen: false },
  { width: 390, height: 844, isOneScreen: false },
]) {
  test(`the overview answers its four questions at ${width}`, async () => {
    const page = await signIn(browser, gate, "ops-1", ROLES, { viewport: { width, height } });
    await goTo(page, gate, "#/overview");
    await waitUntilLoaded(page);
    for (const name of ["Money", "Needs you", "Paid money", "Unusual in 7 days", "Fullest limits"])
      await page.locator(".glance").getByRole("heading", { name, exact: true }).waitFor();
    await page.locator(".glance").getByText("Frozen in sandbox: all money").waitFor();
    await page.locator(".glance").getByText("holds wait for your vote").waitFor();
    await page.locator(".glance").getByText("same-payment-twice").waitFor();
    await page
      .locator(".glance")
      .getByText(/^The fullest of 2[0-9]{2} keys/)
      .waitFor();
    const { bottom, wide } = await page.evaluate(() => ({
      bottom: document.querySelector(".glance")?.getBoundingClientRect().bottom ?? 0,
      wide: document.documentElement.scrollWidth,
    }));
    assert.ok(wide <= width, `the page is ${wide} wide`);
    if (isOneScreen) assert.ok(bottom <= height, `the answers end at ${bottom}`);
    assertNoProblems(page);
  });
}

test("the columns of the overview have no hole above what follows", async () => {
  const page = await signIn(browser, gate, "ops-1", ROLES, { viewport: { width: 1280, height: 860 } });
  await goTo(page, gate, "#/overview");
  await waitUntilLoaded(page);
  const ends = await page
    .locator(".glance > .stack")
    .evaluateAll((stacks) => stacks.map((stack) => stack.lastElementChild?.getBoundingClientRect().bottom ?? 0));
  const begins = await page.locator(".glance + .cards").evaluate((cards) => cards.getBoundingClientRect().top);
  assert.equal(ends.length, 2);
  for (const end of ends)
    assert.ok(begins - end < 24, `a column ends at ${end}, and the next part begins at ${begins}`);
  assertNoProblems(page);
});

test("the pages with times name their time zone", async () => {
  for (const [timezone, words] of [
    ["UTC", "Times and days are in UTC."],
    ["Asia/Tokyo", "Times are those of this browser: Asia/Tokyo, GMT+9. Days are in UTC."],
  ]) {
    const page = await signIn(browser, gate, "ops-1", ROLES, { timezone });
    for (const view of ["overview", "payments", "history"]) {
      await goTo(page, gate, `#/${view}`);
      await page.getByText(words, { exact: true }).waitFor();
    }
    await page.context().close();
  }
});

test("the queue shows many holds at once, in groups with exact sums", async () => {
  const page = await signIn(browser, gate, "finance-1", ["approver"], { viewport: { width: 1440, height: 900 } });
  await page.getByText("100+ for you").waitFor();
  const visible = await page.locator(".rows a.row").evaluateAll((rows) => {
    return rows.filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length;
  });
  assert.ok(visible >= 12, `${visible} holds fit the screen`);
  const row = page.locator(".rows a.row").filter({ hasText: "Over a limit" }).first();
  await row
    .getByText(/needs 1 of/)
    .first()
    .waitFor();
  await page.getByLabel("Order").selectOption("caller");
  const groups = page.locator(".rows .group");
  await groups.first().waitFor();
  // The order is that of all holds, so that the last callers come behind the first hundred.
  const more = page.getByRole("button", { name: "Show 100 more" });
  for (let shown = 0; (await more.count()) > 0; ) {
    shown = await page.locator(".rows a.row").count();
    await more.click();
    await page.waitForFunction((before) => document.querySelectorAll(".rows a.row").length > before, shown);
  }
  const names = await groups.locator("h2").allTextContents();
  assert.deepEqual(names, [...names].sort());
  assert.ok(names.includes("erp") && names.includes("payroll"), names.join());
  await groups
    .filter({ hasText: "erp" })
    .getByText(/^[0-9]+ · [0-9,]+\.[0-9]+ USDT$/)
    .waitFor();
  const all = (await page.locator(".queue .sums").textContent()) ?? "";
  const sums = await groups.locator(".number").allTextContents();
  const micros = (/** @type {string} */ text) => {
    const [whole, part = ""] = (/([0-9,]+)(?:\.([0-9]+))? USDT/.exec(text)?.[0] ?? "0 USDT")
      .replace(" USDT", "")
      .split(".");
    return BigInt(whole.replaceAll(",", "") + part.padEnd(6, "0"));
  };
  assert.equal(
    sums.reduce((sum, one) => sum + micros(one), 0n),
    micros(all),
  );
  await page.getByLabel("Order").selectOption("destination");
  await groups.first().getByText("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed").waitFor();
  await page.getByLabel("Order").selectOption("");
  assert.equal(await groups.count(), 0);
  assertNoProblems(page);
});

test("a hidden tab notifies of a new hold, once the person allowed it, and says nothing of its content", async () => {
  const page = await signIn(browser, gate, "ops-3");
  await page.getByText("100+ for you").waitFor();
  await page.evaluate(() => {
    /** @type {any} */
    const world = globalThis;
    world.shown = [];
    world.Notification = class {
      static permission = "default";
      static async requestPermission() {
        world.Notification.permission = "granted";
        return "granted";
      }
      /**
       * @param {string} title
       * @param {{ body: string }} options
       */
      constructor(title, { body }) {
        world.shown.push(`${title}: ${body}`);
      }
      close() {}
    };
    document.hasFocus = () => false;
  });
  assert.match(await page.title(), /^\(100\+\) Queue/);
  await page.locator("details.person summary").click();
  // The button was made before the test put its own notifications in place.
  await page.getByRole("button", { name: "Notify me of new holds" }).click();
  await page.getByRole("button", { name: "Stop notifications" }).waitFor();
  // It expires after the hundred that the list shows.
  await gate.holdSwap("just-made", "3333");
  await page.waitForFunction(() => /** @type {any} */ (globalThis).shown.length > 0);
  assert.deepEqual(await page.evaluate(() => /** @type {any} */ (globalThis).shown), [
    "Sluice: A new hold waits for your vote.",
  ]);
  assertNoProblems(page);
});
