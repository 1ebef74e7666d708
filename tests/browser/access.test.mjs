// Accessibility: axe checks every view, light and dark, on a phone and on a desktop.

import assert from "node:assert/strict";
import { test } from "node:test";

import { accessibilityViolations, DESKTOP, openPage, PHONE } from "./support/browser.mjs";
import { personToken } from "./support/gate.mjs";
import { assertNoProblems, goTo, signIn, waitUntilLoaded } from "./support/people.mjs";
import { fillGate, HIGH_LIMITS } from "./support/scenes.mjs";
import { setUp } from "./support/setup.mjs";

const ROLES = ["approver", "operator", "policy-admin"];

const { browser, gate } = await setUp({ sandbox: true, rules: HIGH_LIMITS });
const hold = await fillGate(gate, 40);

/** @type {("light" | "dark")[]} */
const SCHEMES = ["light", "dark"];

for (const [size, viewport] of Object.entries({
  desktop: DESKTOP,
  phone: PHONE,
  narrow: { width: 320, height: 640 },
})) {
  for (const scheme of SCHEMES) {
    test(`every view is accessible and fits the screen: ${size}, ${scheme}`, async () => {
      const outside = await openPage(browser, gate.url, { viewport, scheme });
      await outside.getByLabel("Token").waitFor();
      await assertAccessible(outside, "sign-in");
      const page = await signIn(browser, gate, "ops-1", ROLES, { viewport, scheme });
      for (const place of [
        "#/queue",
        `#/hold/${hold.id}`,
        "#/overview",
        "#/payments",
        "#/payments/production/paid-1",
        "#/policy",
        "#/history",
        "#/history/production/paid-1",
        "#/nowhere",
      ]) {
        await goTo(page, gate, place);
        await waitUntilLoaded(page);
        await assertAccessible(page, place);
      }
      await goTo(page, gate, "#/payments/statement");
      await page.getByLabel("Day (UTC)").fill(new Date().toISOString().slice(0, 10));
      await page.getByRole("cell", { name: "createSwap, production" }).first().waitFor();
      await assertAccessible(page, "the statement");
      await goTo(page, gate, "#/payments");
      if (size !== "desktop") await page.getByRole("button", { name: "Filters" }).click();
      await page.getByText("More filters").click();
      await page.getByLabel("Destination or list").waitFor();
      await assertAccessible(page, "the filters of payments");
      await goTo(page, gate, "#/queue");
      await page.locator(".person summary").click();
      await assertAccessible(page, "the menu");
      await page.locator(".person summary").click();
      await page.getByRole("button", { name: "All", exact: true }).click();
      await page.locator(".rows a.row").nth(1).click();
      await page.getByRole("button", { name: "Approve…" }).click();
      await page.getByRole("dialog").waitFor();
      await assertAccessible(page, "the dialog");
      assertNoProblems(outside, page);
      for (const one of [outside, page]) await one.context().close();
    });
  }
}

test("each view has its own title, and takes the focus", async () => {
  const page = await signIn(browser, gate, "ops-1", ROLES);
  const titles = new Set();
  for (const place of ["#/queue", "#/overview", "#/payments", "#/policy", "#/history"]) {
    await goTo(page, gate, place);
    await waitUntilLoaded(page);
    titles.add(await page.title());
    assert.equal(await page.evaluate(() => document.activeElement?.id), "main", place);
  }
  assert.equal(titles.size, 5);
  assert.equal((await gate.callConsole("GET", "holds?limit=1", personToken("ops-1"))).status, 200);
});

/**
 * @param {import("./support/browser.mjs").Page} page
 * @param {string} where
 */
async function assertAccessible(page, where) {
  assert.deepEqual(await accessibilityViolations(page), [], where);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${where} is ${wide} px too wide`);
}
