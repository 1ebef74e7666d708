// Operators stop money and settle doubts, two people put rules in force, and the page says whether it is fresh.

import assert from "node:assert/strict";
import { test } from "node:test";

import { RULES, person } from "./support/gate.mjs";
import { calm, go, press, signedIn } from "./support/people.mjs";
import { stage } from "./support/stage.mjs";

/** What a browser notes while nobody answers. */
const NOBODY = [/net::ERR_/, /NS_ERROR_/];

const { browser, gate } = await stage({ general: 'loosening = "two-people"' });

test("an operator freezes money and lets it go again, and everyone sees it", async () => {
  const [operator, viewer] = await Promise.all([signedIn(browser, gate, "olga", ["operator"]), signedIn(browser, gate, "vera", ["viewer"])]);
  await go(operator, gate, "#/overview");
  await operator.getByRole("button", { name: "Freeze…" }).click();
  await press(operator, "Freeze now");
  await operator.getByText("Say why first").waitFor();
  await operator.getByLabel("Why").fill("a drill");
  await press(operator, "Freeze now");
  await operator.getByText("Frozen in production: all money", { exact: true }).waitFor();
  await viewer.locator(".frozen").getByText("a drill").waitFor();
  assert.equal((await gate.swap("while-frozen", "10")).status, 503);
  assert.equal(await viewer.getByRole("button", { name: "Freeze…" }).count(), 0);
  await operator.getByRole("button", { name: "Let it go again…" }).click();
  await operator.getByLabel("Why").fill("it was a drill");
  await press(operator, "Let it go again in production");
  await operator.getByText("Nothing is frozen").waitFor();
  await viewer.locator(".frozen").waitFor({ state: "detached" });
  assert.equal((await gate.swap("after-frozen", "10")).status, 201);
  calm(operator, viewer);
});

test("one operation is frozen, chosen from those that move money", async () => {
  const page = await signedIn(browser, gate, "olga", ["operator"]);
  await go(page, gate, "#/overview");
  await page.getByRole("button", { name: "Freeze…" }).click();
  await page.getByLabel("What").selectOption("operation");
  const operations = page.getByLabel("Operation");
  await operations.selectOption("createOfframp");
  const offered = await operations.locator("option").evaluateAll((options) => options.map(({ value }) => value));
  assert.ok(offered.includes("createSwap") && !offered.includes("getUser"), offered.join());
  await page.getByLabel("Why").fill("the bank is closed");
  await press(page, "Freeze now");
  await page.getByText("Frozen in production: the operation createOfframp", { exact: true }).waitFor();
  assert.equal((await gate.swap("beside-frozen", "10")).status, 201);
  await page.getByRole("button", { name: "Let it go again…" }).click();
  await page.getByLabel("Why").fill("it opened");
  await press(page, "Let it go again in production");
  await page.getByText("Nothing is frozen").waitFor();
  calm(page);
});

test("two operators settle a doubt; one is not enough", async () => {
  await gate.fault({ operation: "createSwap", kind: "html500", effect: false, times: 1 });
  assert.equal((await gate.swap("doubtful", "70")).body.error, "OUTCOME_UNKNOWN");
  const [first, second] = await Promise.all([signedIn(browser, gate, "olga", ["operator"]), signedIn(browser, gate, "otto", ["operator"])]);
  for (const page of [first, second]) await go(page, gate, "#/overview");
  for (const [page, told] of [
    [first, "You say that it was not executed. One more operator has to."],
    [second, "None. Calls whose outcome nobody knows appear here"],
  ]) {
    await page.getByRole("button", { name: "It was not executed…" }).click();
    await page.getByLabel("How you know").fill("it is not in upstream's list");
    const dialog = page.getByRole("dialog");
    await page.waitForTimeout(700);
    await dialog.getByRole("button", { name: /^It was not executed/ }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByText(told).waitFor();
  }
  assert.equal((await gate.swap("doubtful", "70")).status, 201);
  calm(first, second);
});

test("limits and decisions are told in words and in pictures", async () => {
  await gate.swap("counted", "900");
  await gate.swap("too-much", "900000");
  const page = await signedIn(browser, gate, "vera", ["viewer"]);
  await go(page, gate, "#/overview");
  await page.getByText(/ of 100,000\.00 USD$/).waitFor();
  await page.getByRole("img", { name: /^Decisions over time: [0-9]+ allowed, [0-9]+ held, [1-9][0-9]* denied\.$/ }).waitFor();
  calm(page);
});

test("the rules are told, and explain what would become of a call", async () => {
  const page = await signedIn(browser, gate, "vera", ["viewer"], { expects: [/status of 400/] });
  await go(page, gate, "#/policy");
  await page.getByRole("heading", { name: "In force" }).waitFor();
  await page.getByLabel("Caller's issuer").fill("callers");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByText("Waits for people, worth 2,500.00 USD; to agree: payment.").waitFor();
  await page.getByLabel("Operation").selectOption("createOfframp");
  await page.getByRole("button", { name: "Explain" }).click();
  // The body is of another one.
  await page.locator(".card").getByRole("alert").waitFor();
  await page.getByLabel("Body, as JSON").fill("{");
  await page.getByRole("button", { name: "Explain" }).click();
  await page.getByRole("alert").getByText("The body is no JSON").waitFor();
  calm(page);
});

test("tighter rules take force by themselves, looser ones when two policy admins agree", async () => {
  const [first, second] = await Promise.all([signedIn(browser, gate, "paula", ["policy-admin"]), signedIn(browser, gate, "pete", ["policy-admin"])]);
  for (const page of [first, second]) await go(page, gate, "#/policy");
  const version = () => gate.act("GET", "policies", person("vera", ["viewer"])).then(({ body }) => body.version);
  const before = await version();
  await gate.rules(RULES.replace('(0, 1000] USD', '(0, 500] USD').replace('(1000, inf)', '(500, inf)'));
  await until(async () => (await version()) !== before);
  const tight = await version();
  await first.locator(`code[title="${tight}"]`).waitFor();
  assert.equal((await gate.swap("tighter", "600")).status, 202);

  await gate.rules(RULES);
  for (const page of [first, second]) {
    await page.getByRole("heading", { name: "A new set waits" }).waitFor();
    await page.getByRole("button", { name: "Agree to it…" }).click();
    await page.getByLabel("Why").fill("as the treasurer decided");
    await page.waitForTimeout(700);
    await page.getByRole("dialog").getByRole("button", { name: /^(Agree to|Put) / }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
  }
  await until(async () => (await version()) === before);
  await second.getByRole("heading", { name: "A new set waits" }).waitFor({ state: "detached" });
  assert.equal((await gate.swap("looser", "610")).status, 201);
  calm(first, second);
});

test("an approver names who votes in their place, and takes it back", async () => {
  const page = await signedIn(browser, gate, "ops-1");
  await go(page, gate, "#/overview");
  await page.getByRole("button", { name: "Name a stand-in…" }).click();
  await press(page, "Let them stand in for me");
  await page.getByText("Say who.").waitFor();
  await page.getByLabel("Person").fill("visitor");
  await page.getByLabel("Why").fill("two weeks at sea");
  await press(page, "Let them stand in for me");
  await page.getByText("visitor votes in the place of ops-1").waitFor();
  await page.getByRole("button", { name: "Take it back…" }).click();
  await page.getByLabel("Why").fill("back ashore");
  await press(page, "Take it back");
  await page.getByText("Nobody stands in for anybody.").waitFor();
  calm(page);
});

test("one call's whole story is found", async () => {
  await gate.swap("storied", "12");
  const page = await signedIn(browser, gate, "vera", ["viewer"]);
  await go(page, gate, "#/history");
  await page.getByLabel("requestId").fill("storied");
  await page.getByRole("button", { name: "Search" }).click();
  await page.getByRole("link", { name: "storied" }).first().click();
  await page.getByRole("heading", { name: "storied" }).waitFor();
  await page.locator(".story").getByText("Executed", { exact: true }).waitFor();
  calm(page);
});

test("a lost connection is shown, and what changed meanwhile stands there when it is back", async () => {
  const page = await signedIn(browser, gate, "ops-1", ["approver"], { expects: NOBODY });
  await page.locator("#live").getByText("Live", { exact: true }).waitFor();
  await gate.down("SIGKILL");
  await page.locator("#live").getByText("Connection lost").waitFor();
  await gate.again();
  const hold = await gate.held("while-away", "7000");
  await page.locator("#live").getByText("Live", { exact: true }).waitFor();
  await page.locator(`a[data-id="${hold.id}"]`).waitFor();
  calm(page);
});

test("what could not be had for a moment stands there again, changed or not", async () => {
  const page = await signedIn(browser, gate, "ops-1", ["approver"], { expects: [/status of 503/] });
  await go(page, gate, "#/overview");
  const cards = ["doubts", "limits", "decisions", "stand-ins"].map((id) => page.locator(`section[aria-labelledby="${id}"]`));
  for (const card of cards) await card.locator(".waiting").waitFor({ state: "detached" });
  const lost = /\/sluice\/v1\/(requests|usage|decisions|stand-ins)/;
  await page.route(lost, (route) => route.fulfill({ status: 503, json: {} }));
  await gate.swap("seen-by-nobody", "10");
  for (const card of cards) await card.locator(".trouble").waitFor();
  await page.unroute(lost);
  for (const card of cards) {
    // It may look again by itself before that.
    await card.getByRole("button", { name: "Try again" }).click({ timeout: 1_000 }).catch(() => {});
    await card.locator(".trouble").waitFor({ state: "detached" });
  }
  calm(page);
});

/** Waits for what the gate does by itself. */
async function until(isSo) {
  const end = Date.now() + 30_000;
  while (!(await isSo())) {
    assert.ok(Date.now() < end, "it does not become so");
    await new Promise((later) => setTimeout(later, 100));
  }
}
