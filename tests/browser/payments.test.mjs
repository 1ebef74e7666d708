// Payments: what was paid, to whom, who approved it; the risk of a hold, and exports.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { alterResponses, loseAnswer, PHONE, savedFile } from "./support/browser.mjs";
import { Gate, personToken, RULES, swapBody } from "./support/gate.mjs";
import { approve, assertNoProblems, confirm, goTo, openHold, signIn } from "./support/people.mjs";
import { setUp } from "./support/setup.mjs";
import { SLUICE } from "./support/tools.mjs";

const KNOWN = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
const LOOK_ALIKE = "0x5aa0000000000000000000000000000000000aed";
const LISTED = `[list.payouts]\nwallet = ["${KNOWN}"]\n`;

const { browser, gate } = await setUp({ rules: `${RULES}${LISTED}`, sandbox: true });

test("the largest payment of today and its approvers are found from the page", async () => {
  for (const [name, amount] of [
    ["paid-1", "10.25"],
    ["paid-2", "20.5"],
  ])
    assert.equal((await gate.swap(name, amount)).status, 201);
  const hold = await gate.holdSwap("paid-big", "2500");
  for (const who of ["ops-1", "finance-1"]) {
    const page = await signIn(browser, gate, who);
    await openHold(page, hold);
    await approve(page, "2,500 USDT");
  }
  const page = await signIn(browser, gate, "v-1", ["viewer"]);
  await page.getByRole("link", { name: "Payments" }).click();
  const rows = page.locator("table.payments tbody tr");
  await rows.filter({ hasText: "paid-big" }).getByText("Paid", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Today" }).click();
  await page.getByLabel("Order").selectOption("value");
  await rows.first().getByText("paid-big").waitFor();
  const first = await rows.first().innerText();
  for (const text of ["2,500 USDT", "payouts", "ops-1, finance-1"]) assert.ok(first.includes(text), first);
  // The sum is exact, whatever the amounts.
  await page.locator(".sums").getByText("2,530.75 USDT").waitFor();
  await page.getByRole("link", { name: "paid-big" }).click();
  await page.getByRole("heading", { name: "2,500 USDT" }).waitFor();
  const one = await page.locator("main").innerText();
  for (const text of [KNOWN, "people/ops-1, people/finance-1", "upstream executed it"])
    assert.ok(one.includes(text), one);
  assert.equal(await page.getByRole("button", { name: "Freeze this caller…" }).count(), 0);
  assertNoProblems(page);
});

test("payments are filtered, exported, and fit a phone", async () => {
  const page = await signIn(browser, gate, "v-2", ["viewer"], { viewport: PHONE });
  await page.getByRole("link", { name: "Payments" }).click();
  await page.getByRole("button", { name: "Filters", exact: true }).click();
  await page.getByLabel("Search", { exact: true }).fill("paid-2");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.getByRole("button", { name: "Filters (1)", expanded: false }).waitFor();
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(width <= PHONE.width, `the page is ${width} wide`);
  const file = await savedFile(page, () => page.getByRole("button", { name: "Export CSV" }).click());
  assert.match(file.name, /^payments-\d{14}-production-\d+\.csv$/);
  assert.match(file.text, /,paid-2,createSwap,paid,/);
  await page.getByText("Exported 1 payment; audit entry").waitFor();
  // A filter that is set is not hidden from somebody who comes back.
  await page.getByRole("link", { name: "Queue" }).click();
  await page.getByRole("link", { name: "Payments" }).click();
  await page.getByRole("button", { name: "Filters (1)", expanded: true }).waitFor();
  await page.getByRole("button", { name: "Clear" }).click();
  await page.getByRole("button", { name: "Filters", exact: true, expanded: false }).click();
  await page.getByLabel("Search", { exact: true }).fill("no such payment");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.getByText("No payments match.").waitFor();
  assertNoProblems(page);
});

test("payments begin on the first screen of a phone, and all filters are shown on a desktop", async () => {
  const [width, height] = [390, 844];
  const phone = await signIn(browser, gate, "v-4", ["viewer"], { viewport: { width, height } });
  await phone.getByRole("link", { name: "Payments" }).click();
  const first = phone.locator("table.payments tbody tr").first();
  await first.waitFor();
  const [row, bar] = await Promise.all([first.boundingBox(), phone.locator("#places").boundingBox()]);
  assert.ok(row && bar && row.y + row.height <= bar.y, `${JSON.stringify(row)} above ${JSON.stringify(bar)}`);
  assert.ok(await phone.getByLabel("Status").isHidden());
  // The day is one press away, and is counted as what it sets.
  await phone.getByRole("button", { name: "Today" }).click();
  await phone.getByRole("button", { name: "Filters (2)", expanded: false }).click();
  assert.ok(await phone.getByLabel("Status").isVisible());
  const desktop = await signIn(browser, gate, "v-5", ["viewer"]);
  await desktop.getByRole("link", { name: "Payments" }).click();
  await desktop.getByLabel("Status").waitFor();
  assert.equal(await desktop.getByRole("button", { name: /^Filters/ }).count(), 0);
  assertNoProblems(phone, desktop);
});

test("at 200 % the filters hide neither what was paid nor the first entry of the history", async () => {
  const viewport = { width: 640, height: 450 };
  const page = await signIn(browser, gate, "v-7", ["viewer"], { viewport });
  for (const [place, item] of [
    ["Payments", ".sums li"],
    ["History", ".entries li"],
  ]) {
    await page.getByRole("link", { name: place, exact: true }).click();
    await page.getByRole("button", { name: "Filters", exact: true, expanded: false }).waitFor();
    const first = page.locator(item).first();
    await first.waitFor();
    const [box, bar] = await Promise.all([first.boundingBox(), page.locator("#places").boundingBox()]);
    assert.ok(
      box && bar && box.y + box.height <= bar.y,
      `${place}: ${JSON.stringify(box)} above ${JSON.stringify(bar)}`,
    );
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= viewport.width, `${place} is ${width} wide`);
  }
  assertNoProblems(page);
});

test("payments that the console dropped are told, with the command that reads them", async () => {
  const page = await signIn(browser, gate, "v-8", ["viewer"]);
  const since = "2026-01-15T12:00:00Z";
  const extent = { since, reading: false, auditFolder: "/srv/audit log" };
  await alterResponses(page, /\/sluice\/v1\/payments\?/, (answer) => ({ ...answer, ...extent }));
  await page.getByRole("link", { name: "Payments" }).click();
  await page.getByText(/^Payments before .*2026.* are neither listed nor counted here\./).waitFor();
  await page.getByText("sluice audit show '/srv/audit log' --what sending --day 2026-01-15").waitFor();
  assertNoProblems(page);
});

test("the history has amounts, destinations and statuses, and is exported by its dates", async () => {
  const page = await signIn(browser, gate, "v-9", ["viewer"]);
  await page.getByRole("link", { name: "History" }).click();
  await page.getByLabel("Request", { exact: true }).fill("paid-big");
  await page.getByRole("button", { name: "Today" }).click();
  const entry = page.locator(".entries li").filter({ hasText: "Executed" }).first();
  await entry.getByText("2,500 USDT").waitFor();
  for (const text of ["payouts", "Paid"]) await entry.getByText(text, { exact: true }).waitFor();
  const file = await savedFile(page, () => page.getByRole("button", { name: "Export CSV" }).click());
  assert.match(file.name, /^history-\d{14}-production-\d+\.csv$/);
  assert.match(file.text, /,paid-big,createSwap,paid,2500,usdt,wallet,/);
  await page.getByText(/^Exported [0-9]+ entries; audit entry [0-9]+\.$/).waitFor();
  // Sign-ins are many, and are shown to those who ask.
  await page.getByRole("button", { name: "Clear" }).click();
  await page.locator(".entries li").first().waitFor();
  assert.equal(await page.getByText("Signed in", { exact: true }).count(), 0);
  await page.getByText("More filters").click();
  await page.getByLabel("Sign-ins").selectOption("true");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.getByText("Signed in", { exact: true }).first().waitFor();
  await page.getByRole("button", { name: "Clear" }).click();
  assertNoProblems(page);
});

test("sums that are not complete yet say so, and are read again", async () => {
  const page = await signIn(browser, gate, "v-6", ["viewer"]);
  const since = new Date(Date.now() - 3_600_000).toISOString();
  const payments = /\/sluice\/v1\/payments\?/;
  await alterResponses(page, payments, (answer) => ({ ...answer, since, reading: true, complete: false }));
  await page.getByRole("link", { name: "Payments" }).click();
  const sums = page.locator(".sums");
  await sums.getByText("so far: older ones are still being read").waitFor();
  await page.getByText("Counted since").waitFor();
  await page.unroute(payments);
  await sums.getByText("so far").waitFor({ state: "detached" });
  await sums.getByText(/^[0-9]+ payments$/).waitFor();
  assert.equal(await page.getByText("Counted since").count(), 0);
  assertNoProblems(page);
});

test("a payment that is still to be read is waited for, and not called unknown", async () => {
  const page = await signIn(browser, gate, "v-11", ["viewer"], { expects: [/status of 503/] });
  const one = /\/sluice\/v1\/payments\/production\/paid-1$/;
  const message = "the gate still reads its audit log, and has not met this payment yet; try again shortly.";
  const json = { error: { code: "OVERLOADED", message } };
  await page.route(one, (route) => route.fulfill({ status: 503, json }));
  await goTo(page, gate, "#/payments/production/paid-1");
  await page.getByText("The gate still reads its audit log, and has not met this payment yet").waitFor();
  await page.unroute(one);
  await page.getByRole("heading", { name: "10.25 USDT" }).waitFor();
  assertNoProblems(page);
});

test("the statement of a day says what was sent, and is exported", async () => {
  const page = await signIn(browser, gate, "v-5", ["viewer"]);
  await page.getByRole("link", { name: "Payments" }).click();
  const paidAt = await page.locator("td time").first().getAttribute("datetime");
  await page.getByRole("link", { name: "Statement" }).click();
  await page.getByRole("heading", { name: "Statement" }).waitFor();
  await page.getByLabel("Day (UTC)").fill(paidAt?.slice(0, 10) ?? "");
  await page.getByLabel("Day (UTC)").blur();
  await page.locator("tbody tr").filter({ hasText: "2,530.75" }).first().waitFor();
  const file = await savedFile(page, () => page.getByRole("button", { name: "Export CSV" }).click());
  assert.match(file.name, /^statement-\d{4}-\d\d-\d\d-UTC-\d{14}-production-\d+\.csv$/);
  assert.match(file.text, /createSwap/);
  await page.getByText("Exported; audit entry").waitFor();
  assertNoProblems(page);
});

test("an export whose answer is lost is not said to be harmless to repeat", async () => {
  const page = await signIn(browser, gate, "v-9", ["viewer"], { expects: [/ERR_FAILED|NS_ERROR/] });
  await page.getByRole("link", { name: "Payments" }).click();
  await page.getByRole("link", { name: "Statement" }).click();
  await loseAnswer(page, "**/sluice/v1/payments/export");
  await page.getByRole("button", { name: "Export CSV" }).click();
  await page.getByText("exporting again makes another entry").waitFor();
  assert.equal(await page.getByText("harmless").count(), 0);
  assertNoProblems(page);
});

test("what is dangerous stands first, in the row, in the hold and in the dialog", async () => {
  const destination = { chain: "POLYGON", currency: "usdc", walletAddress: LOOK_ALIKE };
  const answer = await gate.swap("false-friend", "3000", { destination });
  assert.equal(answer.status, 202);
  const page = await signIn(browser, gate, "ops-1");
  const row = page.locator(".rows a.row").filter({ hasText: "3,000 USDT" });
  await row.getByText("Looks like payouts, and is not").waitFor();
  await row.getByText("New destination").waitFor();
  await row.click();
  const risk = page.locator("article.hold .risk");
  await risk.getByText(`begins and ends like ${KNOWN} of payouts`).waitFor();
  await risk.getByText("never paid before through Sluice").waitFor();
  assert.equal(await page.locator("article.hold h3").first().innerText(), "Risk");
  const freeze = { environment: "production", scope: "all", reason: "a drill" };
  await gate.callConsole("POST", "freezes", personToken("ops-2", ["operator"]), freeze);
  await page.locator("#standing").getByText("frozen").first().waitFor();
  await page.getByRole("button", { name: "Approve…" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(`begins and ends like ${KNOWN} of payouts`).waitFor();
  await dialog.getByText("Money is frozen: approved now, it is sent when it is unfrozen.").waitFor();
  await page.keyboard.press("Escape");
  assertNoProblems(page);
});

test("the overview tells what was paid in a chart and in a table", async () => {
  // Production is frozen by now.
  const denied = swapBody("denied-1", "20000000");
  assert.equal((await gate.call("/v2/wallets/swaps", denied, { environment: "sandbox" })).status, 403);
  const page = await signIn(browser, gate, "v-3", ["viewer"]);
  await page.getByRole("link", { name: "Overview" }).click();
  const paid = page.locator("section").filter({ has: page.locator("#paid") });
  await paid.getByText("2,530.75 USD").first().waitFor();
  await paid.getByRole("img", { name: /Paid in 30 days: 2,530\.75 USD/ }).waitFor();
  await paid.getByText("As a table").click();
  await paid.getByRole("cell", { name: "createSwap" }).waitFor();
  await page.getByRole("heading", { name: "Needs you" }).waitFor();
  await page.getByRole("heading", { name: "Unusual in 7 days" }).waitFor();
  // The link lists the payments that are counted there: the sandbox's are told apart.
  const shown = page.getByRole("link", { name: "0 refused", exact: true });
  await shown.click();
  await page.getByText("No payments match.").waitFor();
  assert.equal(await page.getByLabel("Status").inputValue(), "refused");
  assert.equal(await page.locator("select[name=environment]").inputValue(), "production");
  await page.locator("select[name=environment]").selectOption("");
  await page.getByRole("button", { name: "Show", exact: true }).click();
  await page.locator(".sums li").filter({ hasText: "Refused" }).getByText("Sandbox").waitFor();
  const from = new Date(Date.now() - 6 * 86_400_000).toISOString().slice(0, 10);
  assert.equal(await page.getByLabel("From (UTC)").inputValue(), from);
  await page.getByRole("button", { name: "Clear" }).click();
  assertNoProblems(page);
});

test("the overview sums each operation of today, 7 and 30 days, and says while it does not know all", async () => {
  const page = await signIn(browser, gate, "v-10", ["viewer"]);
  const days = /\/sluice\/v1\/payments\/days/;
  const paid = (/** @type {string} */ operation, /** @type {number} */ usd) => ({
    environment: "production",
    status: "paid",
    operation,
    count: 1,
    value: `${usd}000000`,
    unvalued: 0,
  });
  await alterResponses(page, days, (answer) => ({
    ...answer,
    reading: true,
    days: answer.days.map((/** @type {any} */ day, /** @type {number} */ at) => {
      const ago = answer.days.length - 1 - at;
      const sums = {
        0: [paid("createSwap", 5)],
        3: [paid("createSwap", 20), paid("createOfframp", 300)],
        20: [paid("createOfframp", 4000), { ...paid("createOfframp", 70_000), environment: "sandbox" }],
      };
      return { ...day, sums: /** @type {Record<number, any>} */ (sums)[ago] ?? [] };
    }),
  }));
  await page.getByRole("link", { name: "Overview" }).click();
  const card = page.locator("section").filter({ has: page.locator("#paid") });
  const row = (/** @type {string} */ name) => card.getByRole("row").filter({ hasText: name }).first();
  await row("createSwap").waitFor();
  const cells = async (/** @type {string} */ name) => row(name).getByRole("cell").allTextContents();
  assert.deepEqual(await cells("createSwap"), ["5.00 USD", "25.00 USD", "25.00 USD"]);
  assert.deepEqual(await cells("createOfframp"), ["0.00 USD", "300.00 USD", "4,300.00 USD"]);
  await card.getByText("So far: the gate still reads older payments.").waitFor();
  // The page asks again by itself. A response that is being altered is awaited.
  await page.unrouteAll({ behavior: "wait" });
  await card.getByText("So far").waitFor({ state: "detached" });
  await card.getByText("2,530.75 USD").first().waitFor();
  assertNoProblems(page);
});

test("an approver keeps the receipt of a payment, and of the votes on it", async (t) => {
  const gate = await Gate.start({ signed: true });
  t.after(() => gate.stop());
  const hold = await gate.holdSwap("proved", "2600");
  const page = await signIn(browser, gate, "ops-1");
  await openHold(page, hold);
  await approve(page, "2,600 USDT");
  const token = personToken("ops-1", ["approver"]);
  /** @param {string} target */
  const isCovered = async (target) => {
    while ((await gate.callConsole("GET", target, token)).body.lines === undefined) await page.waitForTimeout(100);
  };
  const save = () => page.getByRole("button", { name: "Receipt" }).click();
  await isCovered(`holds/${hold.id}/receipt`);
  const votes = await savedFile(page, save);
  assert.equal(votes.name, `receipt-${hold.id}.json`);
  const words = JSON.parse(votes.text).lines.map(
    (/** @type {{ line: string }} */ one) => JSON.parse(one.line).entry.what,
  );
  assert.deepEqual(words, ["held", "voted"]);
  assert.equal((await gate.swap("proved-small", "3")).status, 201);
  await isCovered("payments/production/proved-small/receipt");
  await goTo(page, gate, "#/payments/production/proved-small");
  const payment = await savedFile(page, save);
  assert.equal(payment.name, "receipt-proved-small.json");
  await writeFile(path.join(gate.folder, payment.name), payment.text);
  const check = ["audit", "check-receipt", payment.name, "--public-key", "log.pem.pub"];
  const { stdout } = await promisify(execFile)(SLUICE, check, { cwd: gate.folder });
  assert.match(stdout, /proved: these entries are among the first/);
  assertNoProblems(page);
});

test("an operator freezes the caller of a payment, in its environment alone", async () => {
  const call = (/** @type {string} */ name, /** @type {string} */ environment) =>
    gate.call("/v2/wallets/swaps", swapBody(name, "7"), { subject: "erp", environment });
  assert.equal((await call("trial-1", "sandbox")).status, 201);
  const page = await signIn(browser, gate, "ops-3", ["operator"]);
  await goTo(page, gate, "#/payments/sandbox/trial-1");
  await page.getByRole("button", { name: "Freeze this caller…" }).click();
  const dialog = page.getByRole("dialog");
  assert.equal(await dialog.getByLabel("Environment").inputValue(), "sandbox");
  assert.equal(await dialog.getByLabel("What").inputValue(), "caller");
  assert.equal(await dialog.getByLabel("Caller").inputValue(), "callers/erp");
  await dialog.getByLabel("Why").fill("it repeats itself");
  await confirm(page, "Freeze now");
  await page.getByText("Frozen.", { exact: true }).waitFor();
  assert.equal((await call("trial-2", "sandbox")).body.error, "FROZEN");
  // The test before this one has frozen production; a freeze of the sandbox is another one.
  const { body } = await gate.callConsole("GET", "freezes", personToken("ops-3", ["operator"]));
  const scopes = body.freezes.map((/** @type {any} */ one) => [one.environment, one.scope]);
  const caller = { caller: { issuer: "callers", subject: "erp" } };
  assert.deepEqual(
    scopes.filter((/** @type {any} */ [environment]) => environment === "sandbox"),
    [["sandbox", caller]],
  );
  assertNoProblems(page);
});
