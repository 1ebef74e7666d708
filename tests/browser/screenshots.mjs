// Pictures of every view, to be looked at: phone and desk, light and dark, with no hold, one, and many.
//
// node tests/browser/screenshots.mjs [VIEW...]     → target/screenshots; HOLDS=n says how many are many (10,000)

import { mkdir } from "node:fs/promises";
import path from "node:path";

import { DESK, PHONE, openBrowser, visit } from "./support/browser.mjs";
import { Gate, RULES, person } from "./support/gate.mjs";
import { BUSY, enough } from "./support/scenes.mjs";
import { TARGET } from "./support/tools.mjs";

const FOLDER = path.join(TARGET, "screenshots");
const MANY = Number(process.env.HOLDS ?? 10_000);
const SIZES = { desk: DESK, phone: PHONE, narrow: { width: 320, height: 640 } };
const ROLES = ["approver", "operator", "policy-admin"];

const browser = await openBrowser();
await mkdir(FOLDER, { recursive: true });
const wanted = process.argv.slice(2);

/** Every size and scheme of what stands at this address. */
async function shoot(gate, name, hash, { act, whole = false } = {}) {
  if (wanted.length > 0 && !wanted.some((word) => name.includes(word))) return;
  for (const [size, viewport] of Object.entries(SIZES)) {
    for (const scheme of ["light", "dark"]) {
      if (size === "narrow" && scheme === "dark") continue;
      const address = hash === "signed out" ? gate.url : `${gate.url}/#token=${person("ops-1", ROLES)}`;
      const page = await visit(browser, address, { viewport, scheme });
      if (hash !== "signed out") {
        await page.locator("#places a").first().waitFor();
        await page.goto(`${gate.url}/${hash}`);
      }
      await page.locator("h1:visible, h2:visible").first().waitFor();
      await page.locator(".waiting").first().waitFor({ state: "detached" });
      if (act) await act(page);
      await page.screenshot({ path: path.join(FOLDER, `${name}-${size}-${scheme}.png`), fullPage: whole });
      if (page.complaints.length > 0) console.log(`${name} ${size} ${scheme}:`, page.complaints);
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
const hold = await one.held("invoice-2026-11-0042", "2500");
await shoot(one, "queue-one", "#/queue");
await shoot(one, "hold", `#/hold/${hold.id}`, { whole: true });
await shoot(one, "approve", `#/hold/${hold.id}`, { act: (page) => page.getByRole("button", { name: "Approve…" }).click() });
await shoot(one, "reject", `#/hold/${hold.id}`, { act: (page) => page.getByRole("button", { name: "Reject…" }).click() });
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
await waiting.rules(RULES.replace("(0, 1000]", "(0, 5000]").replace("(1000, inf)", "(5000, inf)"));
await shoot(waiting, "rules", "#/policy", { whole: true, act: (page) => page.getByRole("heading", { name: "A new set waits" }).waitFor() });
await waiting.stop();

const many = await Gate.start({ sandbox: true, rules: BUSY });
const long = await enough(many, MANY);
await shoot(many, "queue-many", "#/queue");
await shoot(many, "hold-long", `#/hold/${long.id}`, { whole: true });
await shoot(many, "overview-busy", "#/overview", { whole: true });
await shoot(many, "history-busy", "#/history");
await shoot(many, "story", "#/history/production/paid-1");
await many.stop();
await browser.close();
