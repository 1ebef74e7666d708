// A queue of 250 holds.

import assert from "node:assert/strict";
import { test } from "node:test";
import { alterResponses } from "./support/browser.mjs";
import { personToken } from "./support/gate.mjs";
import { assertNoProblems, confirm, signIn } from "./support/people.mjs";
import { fillGate, HIGH_LIMITS } from "./support/scenes.mjs";
import { setUp } from "./support/setup.mjs";

const { browser, gate } = await setUp({ sandbox: true, rules: HIGH_LIMITS });
await fillGate(gate, 250);

test("the queue shows a hundred holds at a time, each once, and finds holds by their words", async () => {
  const page = await signIn(browser, gate, "finance-1");
  const rows = page.locator(".rows a.row");
  await page.getByText("100+ for you").waitFor();
  await page.getByRole("button", { name: "Show 100 more" }).click();
  await page.getByText("200+ for you").waitFor();
  await page.getByRole("button", { name: "Show 100 more" }).click();
  await page.getByText(/^25[0-9] for you$/).waitFor();
  const ids = await rows.evaluateAll((links) => links.map((link) => link.getAttribute("data-id")));
  assert.equal(new Set(ids).size, ids.length);
  await page.getByLabel("Search holds").fill("batch-17");
  await page.getByText(/^1[0-9] for you$/).waitFor();
  // The search is the gate's: it finds what the list has not loaded.
  await page.getByLabel("Search holds").fill("batch-249");
  await page.getByText("1 for you").waitFor();
  await page.getByLabel("Search holds").fill("no such thing");
  await page.getByText("No holds in this list match.").waitFor();
  await page.getByLabel("Search holds").fill("");
  await page.getByLabel("Operation").selectOption("createSwap");
  await page.getByText("100+ for you").waitFor();
  assertNoProblems(page);
});

test("more holds load on request, even while the queue changes and responses are slow", async () => {
  const page = await signIn(browser, gate, "finance-2");
  await page.getByText("100+ for you").waitFor();
  await page.route("**/sluice/v1/holds?*", async (route) => {
    await new Promise((resolve) => setTimeout(resolve, 700));
    await route.continue().catch(() => {});
  });
  await page.getByRole("button", { name: "Show 100 more" }).click();
  await gate.holdSwap("meanwhile-1", "1999");
  await page.getByText("200+ for you").waitFor();
  await gate.holdSwap("meanwhile-2", "1999");
  await page.getByRole("button", { name: "Show 100 more" }).click();
  await page.getByText(/^25[0-9] for you$/).waitFor();
  assertNoProblems(page);
});

test("keys go from hold to hold, sums are exact, and several that were looked at are approved at once", async () => {
  const page = await signIn(browser, gate, "ops-1");
  await page.getByText("100+ for you").waitFor();
  assert.match(await page.title(), /^\(100\+\) Queue/);
  await page.locator(".queue .sums").getByText("USDT").waitFor();
  await page.getByLabel("Order").selectOption("value");
  await page.locator(".rows li:nth-child(1) a.row").waitFor();
  await page.locator("#main").focus();
  for (const step of [0, 1]) {
    await page.keyboard.press("j");
    await page.locator(`.rows li:nth-child(${step + 1}) a.row[aria-current]`).waitFor();
    await page.getByText("Verified in this browser").waitFor();
  }
  await page.keyboard.press("k");
  await page.locator(".rows li:nth-child(1) a.row[aria-current]").waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog").getByText("previous hold").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Approve 2 you looked at…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("One vote for each that is marked.").waitFor();
  for (const box of await dialog.getByRole("checkbox").all()) await box.check();
  await confirm(page, "Approve those marked");
  await page.getByText("You approved 2 holds.").waitFor();
  await page.getByRole("button", { name: "Next hold" }).waitFor();
  assertNoProblems(page);
});

test("a hold whose bytes are not those that were shown gets no vote with the others", async () => {
  const page = await signIn(browser, gate, "ops-3");
  await page.getByText("100+ for you").waitFor();
  await page.locator("#main").focus();
  const ids = [];
  for (const step of [0, 1]) {
    await page.keyboard.press("j");
    const row = page.locator(`.rows li:nth-child(${step + 1}) a.row[aria-current]`);
    await row.waitFor();
    ids.push(await row.getAttribute("data-id"));
    await page.getByText("Verified in this browser").waitFor();
  }
  // From now on the gate sends other bytes for the first, with the fingerprint that belongs to them.
  const other = await gate.holdSwap("other-bytes", "1888");
  const { body } = await gate.callConsole("GET", `holds/${other.id}`, personToken("ops-4"));
  await alterResponses(page, `**/sluice/v1/holds/${ids[0]}`, (hold) => ({
    ...hold,
    sent: body.sent,
    fingerprint: body.fingerprint,
  }));
  await page.getByRole("button", { name: "Approve 2 you looked at…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("One vote for each that is marked.").waitFor();
  for (const box of await dialog.getByRole("checkbox").all()) await box.check();
  await confirm(page, "Approve those marked");
  await dialog.getByText(/^1 approved\. Not approved: .+: The held call is not the one that was shown/).waitFor();
  const votes = [];
  for (const id of ids) {
    const { body: hold } = await gate.callConsole("GET", `holds/${id}`, personToken("ops-4"));
    votes.push(hold.votes.filter((/** @type {any} */ vote) => vote.subject === "ops-3").length);
  }
  assert.deepEqual(votes, [0, 1]);
  assertNoProblems(page);
});
