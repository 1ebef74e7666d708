// A long list stays in order and in hand.

import assert from "node:assert/strict";
import { test } from "node:test";

import { BUSY, enough } from "./support/scenes.mjs";
import { calm, signedIn } from "./support/people.mjs";
import { stage } from "./support/stage.mjs";

const { browser, gate } = await stage({ sandbox: true, rules: BUSY });
await enough(gate, 250);

test("a hundred are shown, more when asked for, each once, and those found that are looked for", async () => {
  const page = await signedIn(browser, gate, "finance-1");
  const rows = page.locator(".rows a");
  await page.getByText("100+ for you").waitFor();
  await page.getByRole("button", { name: "Show 100 more" }).click();
  await page.getByText("200+ for you").waitFor();
  await page.getByRole("button", { name: "Show 100 more" }).click();
  await page.getByText(/^25[0-9] for you$/).waitFor();
  const ids = await rows.evaluateAll((links) => links.map((link) => link.dataset.id));
  assert.equal(new Set(ids).size, ids.length);
  await page.getByLabel("Find in these").fill("batch-17");
  await page.getByText(/^1[0-9] for you$/).waitFor();
  await page.getByLabel("Find in these").fill("no such thing");
  await page.getByText("Nothing here has these words.").waitFor();
  await page.getByLabel("Find in these").fill("");
  await page.getByLabel("Operation").selectOption("createSwap");
  await page.getByText("100+ for you").waitFor();
  calm(page);
});

test("who asked for more gets it, also where something changes meanwhile and answers are slow", async () => {
  const page = await signedIn(browser, gate, "finance-2");
  await page.getByText("100+ for you").waitFor();
  await page.route("**/sluice/v1/holds?*", async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 700));
    await route.continue().catch(() => {});
  });
  await page.getByRole("button", { name: "Show 100 more" }).click();
  await gate.held("meanwhile-1", "1999");
  await page.getByText("200+ for you").waitFor();
  await gate.held("meanwhile-2", "1999");
  await page.getByRole("button", { name: "Show 100 more" }).click();
  await page.getByText(/^25[0-9] for you$/).waitFor();
  calm(page);
});
