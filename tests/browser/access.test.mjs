// Nobody is kept out: every view, light and dark, on a phone and at a desk, by what axe knows.

import assert from "node:assert/strict";
import { test } from "node:test";

import { DESK, PHONE, barriers, visit } from "./support/browser.mjs";
import { person } from "./support/gate.mjs";
import { BUSY, enough } from "./support/scenes.mjs";
import { calm, go, signedIn } from "./support/people.mjs";
import { stage } from "./support/stage.mjs";

const ROLES = ["approver", "operator", "policy-admin"];

const { browser, gate } = await stage({ sandbox: true, rules: BUSY });
const hold = await enough(gate, 40);

for (const [size, viewport] of Object.entries({ desk: DESK, phone: PHONE, narrow: { width: 320, height: 640 } })) {
  for (const scheme of ["light", "dark"]) {
    test(`no barrier, and nothing wider than the screen: ${size}, ${scheme}`, async () => {
      const outside = await visit(browser, gate.url, { viewport, scheme });
      await outside.getByLabel("Token").waitFor();
      await sound(outside, "sign-in");
      const page = await signedIn(browser, gate, "ops-1", ROLES, { viewport, scheme });
      for (const place of ["#/queue", `#/hold/${hold.id}`, "#/overview", "#/policy", "#/history", "#/history/production/paid-1", "#/nowhere"]) {
        await go(page, gate, place);
        await settled(page);
        await sound(page, place);
      }
      await go(page, gate, "#/queue");
      await page.locator(".person summary").click();
      await sound(page, "the menu");
      await page.locator(".person summary").click();
      await page.getByRole("button", { name: "All", exact: true }).click();
      await page.locator(".rows a").nth(1).click();
      await page.getByRole("button", { name: "Approve…" }).click();
      await page.getByRole("dialog").waitFor();
      await sound(page, "the second look");
      calm(outside, page);
      for (const one of [outside, page]) await one.context().close();
    });
  }
}

test("each view has a title, and going there is heard", async () => {
  const page = await signedIn(browser, gate, "ops-1", ROLES);
  const titles = new Set();
  for (const place of ["#/queue", "#/overview", "#/policy", "#/history"]) {
    await go(page, gate, place);
    await settled(page);
    titles.add(await page.title());
    assert.equal(await page.evaluate(() => document.activeElement.id), "main", place);
  }
  assert.equal(titles.size, 4);
  assert.equal((await gate.act("GET", "holds?limit=1", person("ops-1"))).status, 200);
});

async function settled(page) {
  await page.locator("h1:visible, h2:visible").first().waitFor();
  await page.locator(".waiting").first().waitFor({ state: "detached" });
}

async function sound(page, where) {
  assert.deepEqual(await barriers(page), [], where);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${where} is ${wide} px too wide`);
}
