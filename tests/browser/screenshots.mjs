// Takes screenshots of every view: phone and desktop, light and dark, with no hold, one, and many.
//
// Usage: `node tests/browser/screenshots.mjs [VIEW...]`. The files go to target/screenshots. HOLDS is the number of holds
// in the busy scenes, 10,000 by default.

import { mkdir } from "node:fs/promises";
import path from "node:path";

import { DESKTOP, openBrowser, openPage, PHONE } from "./support/browser.mjs";
import { Gate, personToken, RULES } from "./support/gate.mjs";
import { waitUntilLoaded } from "./support/people.mjs";
import { fillGate, HIGH_LIMITS } from "./support/scenes.mjs";
import { TARGET } from "./support/tools.mjs";

const FOLDER = path.join(TARGET, "screenshots");
const MANY = Number(process.env.HOLDS ?? 10_000);
const SIZES = { desktop: DESKTOP, phone: PHONE, narrow: { width: 320, height: 640 } };
const ROLES = ["approver", "operator", "policy-admin"];

const browser = await openBrowser();
await mkdir(FOLDER, { recursive: true });
const wanted = process.argv.slice(2);

/** @type {("light" | "dark")[]} */
const SCHEMES = ["light", "dark"];

/**
 * Takes a screenshot of a view in every size and scheme.
 * @param {Gate} gate
 * @param {string} name
 * @param {string} hash
 * @param {{ act?: (page: import("./support/browser.mjs").Page) => Promise<void>, whole?: boolean }} [options]
 */
async function shoot(gate, name, hash, { act, whole = false } = {}) {
  if (wanted.length > 0 && !wanted.some((word) => name.includes(word))) return;
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const scheme of SCHEMES) {
      if (size === "narrow" && scheme === "dark") continue;
      const address = hash === "signed out" ? gate.url : `${gate.url}/#token=${personToken("ops-1", ROLES)}`;
      const page = await openPage(browser, address, { viewport, scheme });
      if (hash !== "signed out") {
        await page.getByRole("button", { name: "Sign in as ops-1" }).click();
        await page.locator("#places a").first().waitFor();
        await page.goto(`${gate.url}/${hash}`);
      }
      await waitUntilLoaded(page);
      if (act) await act(page);
      await page.screenshot({ path: path.join(FOLDER, `${name}-${size}-${scheme}.png`), fullPage: whole });
      if (page.problems.length > 0) console.log(`${name} ${size} ${scheme}:`, page.problems);
      await page.context().close();
    }
  }
  console.log(name);
}

const empty = await Gate.start();
await shoot(empty, "sign-in", "signed out");
await shoot(empty, "queue-empty", "#/queue");
await shoot(empty, "overview-empty", "#/overview", { whole: true });
await shoot(empty, "history-empty", "#/history");
await empty.stop();

const one = await Gate.start();
const hold = await one.holdSwap("invoice-2026-11-0042", "2500");
await shoot(one, "queue-one", "#/queue");
await shoot(one, "hold", `#/hold/${hold.id}`, { whole: true });
await shoot(one, "approve", `#/hold/${hold.id}`, {
  act: (page) => page.getByRole("button", { name: "Approve…" }).click(),
});
await shoot(one, "reject", `#/hold/${hold.id}`, {
  act: (page) => page.getByRole("button", { name: "Reject…" }).click(),
});
await shoot(one, "freeze", "#/overview", { act: (page) => page.getByRole("button", { name: "Freeze…" }).click() });
await shoot(one, "lost", "#/queue", {
  act: async (page) => {
    await page.route("**/sluice/v1/**", (route) => route.abort());
    await page.evaluate(() => dispatchEvent(new Event("offline")));
    await page.locator("#live").getByText("Connection lost").waitFor();
  },
});
await one.stop();

const waiting = await Gate.start({ general: 'loosening = "two-people"' });
for (const [name, amount] of [
  ["invoice-1", "900"],
  ["invoice-2", "2500"],
  ["invoice-3", "4800.5"],
  ["invoice-4", "8000"],
]) {
  await waiting.swap(name, amount);
}
await waiting.writePolicies(RULES.replace("(0, 1000]", "(0, 5000]").replace("(1000, inf)", "(5000, inf)"));
await shoot(waiting, "rules", "#/policy", {
  whole: true,
  act: (page) => page.getByRole("region", { name: "What it would have changed" }).waitFor(),
});
await waiting.stop();

const many = await Gate.start({ sandbox: true, rules: HIGH_LIMITS });
const long = await fillGate(many, MANY);
await shoot(many, "queue-many", "#/queue");
await shoot(many, "hold-long", `#/hold/${long.id}`, { whole: true });
await shoot(many, "overview-busy", "#/overview", { whole: true });
await shoot(many, "history-busy", "#/history");
await shoot(many, "story", "#/history/production/paid-1");
await many.stop();
await browser.close();
