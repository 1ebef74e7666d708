// One confirmation for many holds of which some need a signature.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

import { alterResponses } from "./support/browser.mjs";
import { RULES, swapBody } from "./support/gate.mjs";
import {
  addAuthenticator,
  CHROMIUM_ALONE,
  enrol,
  NO_RSA,
  signedVotes,
  signingAt,
  untilKnown,
} from "./support/passkeys.mjs";
import { assertNoProblems, confirm, signIn } from "./support/people.mjs";
import { setUp } from "./support/setup.mjs";

/** @typedef {import("./support/browser.mjs").Page} Page */
/** @typedef {{ id: string }} MadeHold */

const MAX_TOGETHER = 32;
/** Swaps above 5,000 USD need a vote without a signature, those below a signed one. */
const BOTH_KINDS = RULES.replace(
  "[approval.payment]",
  `[[rule]]
id = "largest"
effect = "hold"
approval = "plain"
when = { op = ["createSwap"], amount = "(5000, inf) USD" }
[approval.plain]
of = "ops"
n = 1
expires = "8h"
[approval.payment]`,
)
  .replace("(1000, inf)", "(1000, 5000]")
  .replace('all = [{ of = "ops", n = 1 }, { of = "finance", n = 1 }]', 'signed = true\nof = "ops"\nn = 1');
const { browser, gate } = await setUp({ sandbox: true });

/** Returns the page of a person with a passkey that the policies know, and an act that has the device refuse. */
async function personWithKey() {
  const { local, table } = signingAt(gate);
  await gate.writePolicies(`${RULES}${table}`);
  await untilKnown(gate, "ops-1", 0);
  // Policies that only one person could complete have errors.
  const [first, second] = await Promise.all(
    ["ops-1", "ops-2"].map((who) => signIn(browser, local, who, ["approver"], { expects: [NO_RSA] })),
  );
  const { refuse } = await addAuthenticator(first);
  await addAuthenticator(second);
  const keys = [await enrol(first, "first"), await enrol(second, "second")];
  await second.close();
  await gate.writePolicies(`${BOTH_KINDS}${table}${keys.join("")}`);
  await untilKnown(gate, "ops-1", 1);
  // Counts how often the device is asked.
  await first.addInitScript(() => {
    /** @type {any} */
    const world = globalThis;
    world.asked = 0;
    const get = navigator.credentials.get.bind(navigator.credentials);
    navigator.credentials.get = (options) => {
      world.asked += 1;
      return get(options);
    };
  });
  return { page: first, refuse };
}

const signer = CHROMIUM_ALONE.skip ? null : await personWithKey();

/** Returns the person's page as it is after a new start: it has not looked at any hold. */
async function freshPage() {
  if (signer === null) throw new Error("no browser with passkeys");
  await signer.page.getByRole("link", { name: "Queue" }).click();
  await signer.page.reload();
  await signer.page.locator("#places a").first().waitFor();
  return signer;
}

/** @param {Page} page */
function asked(page) {
  return page.evaluate(() => /** @type {any} */ (globalThis).asked);
}

/**
 * @param {string} name
 * @param {number} amount
 * @returns {Promise<MadeHold>}
 */
async function makeHold(name, amount, environment = "production") {
  const { status, body } = await gate.call("/v2/wallets/swaps", swapBody(name, String(amount)), { environment });
  assert.equal(status, 202, JSON.stringify(body));
  return body.hold;
}

/**
 * Looks at each of these holds, goes back to the queue, and opens the confirmation for all of them.
 * @param {Page} page
 * @param {MadeHold[]} holds
 */
async function lookAt(page, holds) {
  for (const { id } of holds) {
    const row = page.locator(`.rows a[data-id="${id}"]`);
    await row.click();
    await page.locator(`.rows a[data-id="${id}"][aria-current]`).waitFor();
    await page.getByText("Verified in this browser").waitFor();
  }
  await page.getByRole("link", { name: "Queue" }).click();
}

/**
 * Opens the confirmation for so many holds, and marks these.
 * @param {Page} page
 * @param {number} count
 * @param {MadeHold[]} holds
 */
async function confirmAll(page, count, holds) {
  await page.getByRole("button", { name: `Approve ${count} you looked at…` }).click();
  for (const { id } of holds) await page.locator(`#batch-${id}`).check();
  await confirm(page, "Approve those marked");
}

test("page, contract and gate agree for how many votes one signature is", async () => {
  const read = (/** @type {string} */ name) => readFile(new URL(`../../${name}`, import.meta.url), "utf8");
  const [page, contract, gate] = await Promise.all(
    ["src/console/web/passkey.js", "schemas/console.json", "src/stations/hold/signature.rs"].map(read),
  );
  const told = [
    /^export const MAX_TOGETHER = ([0-9]+);$/m.exec(page)?.[1],
    JSON.parse(contract).components.schemas.signature.properties.together.maxItems,
    /^pub const MAX_TOGETHER: usize = ([0-9]+);$/m.exec(gate)?.[1],
  ];
  assert.deepEqual(told.map(Number), [MAX_TOGETHER, MAX_TOGETHER, MAX_TOGETHER]);
});

test(
  "more holds than one signature is for need two; a device that refuses is not asked again",
  CHROMIUM_ALONE,
  async () => {
    const plain = await makeHold("plain-1", 6000);
    const signed = await Promise.all(
      Array.from({ length: MAX_TOGETHER + 1 }, (_, at) => makeHold(`many-${at}`, 1001 + at)),
    );
    const none = signed.map(() => []);
    const { page, refuse } = await freshPage();
    await lookAt(page, [plain, ...signed]);
    /** @type {any[]} */
    const sent = [];
    page.on("request", (request) => {
      if (request.url().endsWith("/approve")) sent.push(request.postDataJSON());
    });

    await refuse(true);
    await confirmAll(page, signed.length + 1, [plain, ...signed]);
    const dialog = page.getByRole("dialog");
    await dialog.getByText("You sign 33 of these with your passkey: your device asks you up to 2 times.").waitFor();
    await dialog.getByText("1 approved. Not approved: 33 that you did not sign: Nothing was signed.").waitFor();
    assert.equal(await asked(page), 1);
    assert.deepEqual(await signedVotes(gate, [plain, ...signed]), [[undefined], ...none]);
    assert.equal(sent.length, 1);
    // The vote that is given is not marked any more.
    assert.equal(await page.locator(`#batch-${plain.id}`).isChecked(), false);

    await refuse(false);
    await confirm(page, "Approve those marked");
    await page.getByText("You approved 33 holds.").waitFor();
    assert.equal(await asked(page), 3);
    const [, ...votes] = sent.map(({ signature }) => signature);
    const assertions = new Map(votes.map(({ signature, together }) => [signature, together?.length]));
    assert.deepEqual([...assertions.values()], [MAX_TOGETHER, undefined]);
    assert.equal(new Set(votes.map(({ nonce }) => nonce)).size, signed.length);
    assert.deepEqual(
      await signedVotes(gate, signed),
      signed.map(() => [true]),
    );
    assertNoProblems(page);
  },
);

test("one signature is for holds of production and of the sandbox", CHROMIUM_ALONE, async () => {
  const holds = [await makeHold("real", 2001), await makeHold("tried", 2002, "sandbox")];
  const { page } = await freshPage();
  await lookAt(page, holds);
  await confirmAll(page, 2, holds);
  await page.getByText("You approved 2 holds.").waitFor();
  assert.equal(await asked(page), 1);
  assert.deepEqual(await signedVotes(gate, holds), [[true], [true]]);
  assertNoProblems(page);
});

test("a hold whose reasons are others by now gets no vote with the others", CHROMIUM_ALONE, async () => {
  const [listed, late, same] = await Promise.all([3001, 3002, 3003].map((amount) => makeHold(`why-${amount}`, amount)));
  const { page } = await freshPage();
  await lookAt(page, [listed, late, same]);
  const other = { causes: "0".repeat(64) };
  // The queue knows of it: the hold is not offered any more.
  await alterResponses(page, "**/sluice/v1/holds?*", (answer) => ({
    ...answer,
    holds: answer.holds.map((/** @type {MadeHold} */ hold) => (hold.id === listed.id ? { ...hold, ...other } : hold)),
  }));
  // A change after the list was read is found before the vote.
  await alterResponses(page, `**/sluice/v1/holds/${late.id}`, (hold) => ({ ...hold, ...other }));
  await gate.swap("anything", "1");
  await confirmAll(page, 2, [late, same]);
  await page
    .getByRole("dialog")
    .getByText(/^1 approved\. Not approved: 3,002 USDT: The reasons why it is held are others by now\./)
    .waitFor();
  assert.equal(await asked(page), 1);
  assert.deepEqual(await signedVotes(gate, [listed, late, same]), [[], [], [true]]);
  assertNoProblems(page);
});
