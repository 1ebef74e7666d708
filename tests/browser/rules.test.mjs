// The rules: what is in force, calls that are explained by a form, and sets that are tried from files.

import assert from "node:assert/strict";
import { test } from "node:test";

import { RULES } from "./support/gate.mjs";
import { assertNoProblems, goTo, signIn } from "./support/people.mjs";
import { setUp } from "./support/setup.mjs";

const { browser, gate } = await setUp();

test("a form explains a call as of now, by the fields of its operation", async () => {
  const page = await signIn(browser, gate, "vera", ["viewer"], { expects: [/status of 400/] });
  await goTo(page, gate, "#/policy");
  await page.getByRole("heading", { name: "In force" }).waitFor();
  const swaps = page.getByRole("region", { name: "createSwap" });
  await swaps.getByRole("columnheader", { name: "Nobody" }).waitFor();
  await swaps.getByRole("cell", { name: "1000 USD", exact: true }).first().waitFor();
  assert.equal(await page.locator("textarea").count(), 0);

  const explained = page
    .locator("section")
    .filter({ has: page.locator("#explain") })
    .locator(".became, .trouble");
  await page.getByLabel("Source amount").fill("2500");
  await page.getByLabel("Source currency").fill("usdt");
  await page.getByRole("button", { name: "Explain" }).click();
  await explained.getByText("worth 2,500.00 USD; needs approval: payment").waitFor();
  await explained.getByText("rule larger: needs 1 of `ops` and 1 of `finance`").waitFor();
  await page.getByLabel("Source amount").fill("12");
  await page.getByRole("button", { name: "Explain" }).click();
  await explained.getByText("rule small: allowed by rule").waitFor();

  // A value that the contract refuses is named; fields keep their values for the next operation.
  await page.getByLabel("Source amount").fill("twelve");
  await page.getByRole("button", { name: "Explain" }).click();
  await explained.getByText("/body/source/amount").first().waitFor();
  await page.getByLabel("Operation").selectOption("createOfframp");
  assert.equal(await page.getByLabel("Source amount").inputValue(), "twelve");
  await page.getByText(/^[0-9]+ more fields$/).click();
  await page.getByLabel("Developer fee fees 1 type").waitFor();
  await page.getByLabel("Operation").selectOption("acceptOffer");
  await page.getByRole("button", { name: "Explain" }).click();
  await explained.getByText("rule changes: needs 1 of `ops`").waitFor();
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= 1280, `the page is ${width} wide`);
  assertNoProblems(page);
});

test("a refused payment leads to the rules that refused it, and to what would let it pass", async () => {
  assert.equal((await gate.swap("over-the-day", "99999999")).status, 403);
  const page = await signIn(browser, gate, "vera", ["viewer"]);
  await page.getByRole("link", { name: "Payments" }).click();
  await page.getByRole("link", { name: "over-the-day" }).click();
  await page.getByRole("link", { name: "Why, and what would let it pass" }).click();
  const explained = page
    .locator("section")
    .filter({ has: page.locator("#explain") })
    .locator(".became");
  await explained.getByText("limit all-payments: over the limit of 100000 USD").waitFor();
  assert.equal(await page.getByLabel("Source amount").inputValue(), "99999999");
  assertNoProblems(page);
});

test("a policy admin tries a set from its files, and nothing comes into force", async () => {
  const page = await signIn(browser, gate, "paula", ["policy-admin"]);
  await goTo(page, gate, "#/policy");
  const files = page.getByLabel("Policy files");
  /** @param {string} text */
  const choose = (text) =>
    files.setInputFiles({ name: "everything.toml", mimeType: "application/toml", buffer: Buffer.from(text) });
  await choose(RULES.replace("(0, 1000]", "(0, 5000]").replace("(1000, inf)", "(5000, inf)"));
  const section = page.locator("section").filter({ has: page.locator("#trial") });
  await section.getByText("may allow more than the one in force").waitFor();
  await section.getByLabel("Changes of the tried set").getByText("5000 USD").first().waitFor();
  await section.getByRole("region", { name: "What it would have changed" }).waitFor();
  await section.getByRole("cell", { name: "5000 USD", exact: true }).first().waitFor();
  await choose(RULES.replace("(0, 1000]", "(0, 500]").replace("(1000, inf)", "(500, inf)"));
  await section.getByText("is proved to allow no more than the one in force").waitFor();
  await choose(RULES.replace('"createSwap"', '"createSwop"'));
  await section.getByText("did you mean `createSwap`?").waitFor();
  assert.equal((await gate.swap("still", "1200")).status, 202);
  assertNoProblems(page);

  const viewer = await signIn(browser, gate, "vera", ["viewer"]);
  await goTo(viewer, gate, "#/policy");
  await viewer.getByRole("heading", { name: "In force" }).waitFor();
  assert.equal(await viewer.getByLabel("Policy files").count(), 0);
});
