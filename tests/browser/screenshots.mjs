// Takes screenshots of every view: phone and desktop, light and dark, with no hold, few, and many.
//
// Usage: `node tests/browser/screenshots.mjs [VIEW...]`. The files go to target/screenshots. HOLDS is the number of holds
// in the busiest scenes, 10,000 by default; there are scenes of 200, too. SIZES names some of the sizes, such as `wide,phone`. With CONSOLE and TOKEN, the
// address of a console and the token of a person there, only the views of payments are taken, from that gate.

import { mkdir } from "node:fs/promises";
import path from "node:path";

import { openBrowser, openPage } from "./support/browser.mjs";
import { Gate, personToken, RULES, swapBody } from "./support/gate.mjs";
import { waitUntilLoaded } from "./support/people.mjs";
import { fillGate, HIGH_LIMITS } from "./support/scenes.mjs";
import { TARGET } from "./support/tools.mjs";

const FOLDER = path.join(TARGET, "screenshots");
const SOME = 200;
const MANY = Number(process.env.HOLDS ?? 10_000);
/** The page at 200 % on a screen of 1280 is as wide as on one of 640. */
const SIZES = {
  wide: { width: 1440, height: 900 },
  laptop: { width: 1024, height: 768 },
  zoomed: { width: 640, height: 450 },
  phone: { width: 390, height: 844 },
  narrow: { width: 320, height: 640 },
  readme: { width: 1280, height: 720 },
};
/** The sizes that are also taken dark. */
const BOTH = ["wide", "laptop", "phone"];
const ROLES = ["approver", "operator", "policy-admin"];

const browser = await openBrowser();
await mkdir(FOLDER, { recursive: true });
const wanted = process.argv.slice(2);
const sizes = Object.entries(SIZES).filter(([size]) => (process.env.SIZES ?? size).split(",").includes(size));

/** @type {("light" | "dark")[]} */
const SCHEMES = ["light", "dark"];

/**
 * Takes a screenshot of a view in every size and scheme.
 * @param {{ url: string }} gate
 * @param {string} name
 * @param {string} hash
 * @param {{ act?: (page: import("./support/browser.mjs").Page) => Promise<void>, whole?: boolean, token?: string }} [options]
 */
async function shoot(gate, name, hash, { act, whole = false, token = personToken("ops-1", ROLES) } = {}) {
  if (wanted.length > 0 && !wanted.some((word) => name.includes(word))) return;
  for (const [size, viewport] of sizes) {
    for (const scheme of SCHEMES) {
      if (scheme === "dark" && !BOTH.includes(size)) continue;
      const address = hash === "signed out" ? gate.url : `${gate.url}/#token=${token}`;
      const page = await openPage(browser, address, { viewport, scheme });
      if (hash !== "signed out") {
        await page.getByRole("button", { name: /^Sign in as/ }).click();
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

if (process.env.CONSOLE) {
  const [many, token] = [{ url: process.env.CONSOLE }, process.env.TOKEN];
  await shoot(many, "payments-many", "#/payments", { token });
  await shoot(many, "overview-of-many", "#/overview", { token, whole: true });
  await browser.close();
  process.exit();
}

// The picture of README: `SIZES=readme node tests/browser/screenshots.mjs readme` makes deploy/docs/console.png.
const KNOWN = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const LOOK_ALIKE = `0x5aaeb6053${"0".repeat(23)}ef1beaed`;
const shown = await Gate.start({ rules: `${RULES}[list.payouts]\nwallet = ["${KNOWN}"]\n` });
for (const [name, amount] of [
  ["invoice-0038", "840.5"],
  ["invoice-0039", "910"],
])
  await shown.swap(name, amount);
for (const [name, amount] of [
  ["invoice-0040", "1250"],
  ["invoice-0041", "1250"],
  ["invoice-0042", "3800.75"],
])
  await shown.holdSwap(name, amount);
const { body: risky } = await shown.call(
  "/v2/wallets/swaps",
  swapBody("invoice-0043", "9500", { destination: { chain: "POLYGON", currency: "usdc", walletAddress: LOOK_ALIKE } }),
);
await shoot(shown, "readme", `#/hold/${risky.hold.id}`);
await shown.stop();

const empty = await Gate.start();
await shoot(empty, "sign-in", "signed out");
await shoot(empty, "queue-empty", "#/queue");
await shoot(empty, "overview-empty", "#/overview", { whole: true });
await shoot(empty, "history-empty", "#/history");
await empty.stop();

const one = await Gate.start();
const hold = await one.holdSwap("invoice-2026-11-0042", "2500");
await shoot(one, "queue-one", "#/queue");
for (const amount of ["1200", "3800.75"]) await one.holdSwap(`invoice-${amount}`, amount);
await shoot(one, "queue-three", "#/queue");
const { body: rightToLeft } = await one.call("/v2/wallets/swaps", swapBody("invoice-rtl", "1500"), {
  subject: "הנהלת-חשבונות 7",
});
const { body: whole } = await one.callConsole("GET", `holds/${rightToLeft.hold.id}`, personToken("ops-2"));
await one.callConsole("POST", `holds/${whole.id}/comment`, personToken("ops-2"), {
  text: "التحويل رقم 12 من 500 USDT صحيح, see invoice 12.",
});
await shoot(one, "right-to-left-queue", "#/queue");
await shoot(one, "right-to-left-hold", `#/hold/${whole.id}`, { whole: true });
await shoot(one, "right-to-left-payments", "#/payments");
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
const tried = RULES.replace("(0, 1000]", "(0, 3000]").replace("(1000, inf)", "(3000, inf)");
await shoot(waiting, "trial", "#/policy", {
  whole: true,
  act: async (page) => {
    const file = { name: "everything.toml", mimeType: "application/toml", buffer: Buffer.from(tried) };
    await page.getByLabel("Policy files").setInputFiles(file);
    const result = page.locator("section").filter({ has: page.locator("#trial") });
    await result.getByRole("region", { name: "What it would have changed" }).waitFor();
  },
});
await waiting.stop();

const some = await Gate.start({ sandbox: true, rules: HIGH_LIMITS });
await fillGate(some, SOME);
await shoot(some, "queue-some", "#/queue");
await shoot(some, "overview-some", "#/overview", { whole: true });
await shoot(some, "payments-some", "#/payments");
await shoot(some, "payment", "#/payments/production/paid-1", { whole: true });
await shoot(some, "payment-refused", "#/payments/production/much", { whole: true });
await shoot(some, "statement", "#/payments/statement", {
  whole: true,
  act: async (page) => {
    const day = page.getByLabel("Day (UTC)");
    await day.fill(new Date().toISOString().slice(0, 10));
    await day.blur();
    await page.locator("tbody tr").first().waitFor();
  },
});
await shoot(some, "batch", "#/queue", {
  act: async (page) => {
    const rows = await page.locator("a.row").evaluateAll((all) => all.map((one) => one.getAttribute("href") ?? ""));
    for (const hash of rows.slice(0, 4)) {
      await page.goto(`${some.url}/${hash}`);
      await page.getByText("Verified in this browser").waitFor();
    }
    await page.goto(`${some.url}/#/queue`);
    await page.getByRole("button", { name: /^Approve [0-9]+ you looked at…$/ }).click();
    await page.getByRole("dialog").waitFor();
  },
});
await shoot(some, "doubt", "#/overview", {
  act: (page) => page.getByRole("button", { name: "Not executed…" }).first().click(),
});
await shoot(some, "doubt-executed", "#/overview", {
  act: (page) => page.getByRole("button", { name: "Executed…", exact: true }).first().click(),
});
await shoot(some, "freeze-caller", "#/payments/production/paid-1", {
  act: (page) => page.getByRole("button", { name: "Freeze this caller…" }).click(),
});
await some.stop();

const ROOM = "[limits]\nholds = 100_000\nholds_bytes = 1_000_000_000";
const many = await Gate.start({ sandbox: true, rules: HIGH_LIMITS, console: ROOM });
const long = await fillGate(many, MANY);
await shoot(many, "queue-many", "#/queue");
await shoot(many, "hold-long", `#/hold/${long.id}`, { whole: true });
await shoot(many, "overview-busy", "#/overview", { whole: true });
await shoot(many, "history-busy", "#/history");
await shoot(many, "story", "#/history/production/paid-1");
await many.stop();
await browser.close();
