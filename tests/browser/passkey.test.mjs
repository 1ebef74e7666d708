// Passkeys in a real browser, with authenticators of Chromium: people enrol, sign votes, and a call is sent.

import assert from "node:assert/strict";
import { createHash, verify } from "node:crypto";
import { test } from "node:test";

import { alterResponses } from "./support/browser.mjs";
import { personToken, RULES } from "./support/gate.mjs";
import {
  addAuthenticator,
  CHROMIUM_ALONE,
  enrol,
  NO_RSA,
  signedVotes,
  signingAt,
  untilKnown,
} from "./support/passkeys.mjs";
import { approve, assertNoProblems, confirm, openHold, signIn } from "./support/people.mjs";
import { setUp } from "./support/setup.mjs";

/** @typedef {import("./support/browser.mjs").Page} Page */

const { browser, gate } = await setUp({ rules: RULES });
const { local, table: SIGNING } = signingAt(gate);
const QUORUM = 'all = [{ of = "ops", n = 1 }, { of = "finance", n = 1 }]';
const PEOPLE = ["ops-1", "ops-2", "ops-3"];

/**
 * Makes holds, and looks at each on a page. Leaves the page at the queue.
 * @param {Page} page
 * @param {string[]} names
 */
async function holdsLookedAt(page, names) {
  const holds = [];
  await page.getByRole("link", { name: "Queue" }).click();
  for (const name of names) {
    const hold = await gate.holdSwap(name);
    await openHold(page, hold);
    await page.getByRole("link", { name: "Queue" }).click();
    holds.push(hold);
  }
  return holds;
}

/**
 * @param {Page} page
 * @param {{ id: string }[]} two
 */
async function approveBoth(page, two) {
  await page.getByRole("button", { name: "Approve 2 you looked at…" }).click();
  await page.getByText("your device asks you once").waitFor();
  for (const { id } of two) await page.locator(`#batch-${id}`).check();
  await confirm(page, "Approve those marked");
}

/** @param {string} table */
function publicKey(table) {
  const key = Buffer.from(/^key = "([^"]+)"$/m.exec(table)?.[1] ?? "", "base64url");
  const part = (/** @type {number} */ at) => key.subarray(at, at + 32).toString("base64url");
  return { kty: "EC", crv: "P-256", x: part(10), y: part(45) };
}

/** @param {Buffer | string} bytes */
function sha256(bytes) {
  return createHash("sha256").update(bytes).digest();
}

test("people enrol, sign what they see, and a call is sent by their signatures alone", CHROMIUM_ALONE, async () => {
  await gate.writePolicies(`${RULES}${SIGNING}`);
  await untilKnown(gate, "ops-1", 0);
  const pages = await Promise.all(
    PEOPLE.map((who) => signIn(browser, local, who, ["approver", "operator", "policy-admin"], { expects: [NO_RSA] })),
  );
  /** @type {string[]} */
  const tables = [];
  for (const [at, page] of pages.entries()) {
    await addAuthenticator(page);
    tables.push(await enrol(page, `key of ${PEOPLE[at]}`));
  }
  const signed = RULES.replace(QUORUM, 'signed = true\nof = "ops"\nn = 2');
  assert.notEqual(signed, RULES);
  await gate.writePolicies(`${signed}${SIGNING}${tables.join("")}`);
  await untilKnown(gate, "ops-1", 1);

  const hold = await gate.holdSwap("signed-1");
  const [first, second] = pages;
  await first.reload();
  await first.getByRole("listitem").filter({ hasText: "key of ops-1" }).waitFor();
  await first.getByText("sluice passkeys revokes, rotates or removes it").waitFor();
  await first.getByRole("link", { name: "Queue" }).click();
  await openHold(first, hold);
  const asked = first.waitForResponse(/\/challenge$/);
  const voted = first.waitForRequest(/\/approve$/);
  await approve(first, "2,500 USDT");
  const { statement } = await (await asked).json();
  const { signature } = (await voted).postDataJSON();
  // Another implementation agrees: what was signed is this statement, by the enrolled key.
  const part = (/** @type {string} */ name) => Buffer.from(signature[name], "base64url");
  const client = JSON.parse(part("clientData").toString());
  assert.equal(client.challenge, sha256(statement).toString("base64url"));
  assert.equal(client.origin, local.url);
  const message = Buffer.concat([part("authenticatorData"), sha256(part("clientData"))]);
  const key = {
    key: publicKey(tables[0]),
    format: /** @type {"jwk"} */ ("jwk"),
    dsaEncoding: /** @type {"der"} */ ("der"),
  };
  assert.ok(verify("sha256", message, /** @type {any} */ (key), part("signature")));
  const stated = JSON.parse(statement);
  assert.deepEqual([stated.hold, stated.fingerprint, stated.person], [hold.id, hold.fingerprint, "people:ops-1"]);

  await second.getByRole("link", { name: "Queue" }).click();
  await openHold(second, hold);
  await approve(second, "2,500 USDT");
  for (;;) {
    const { status } = await gate.swap("signed-1", "2500");
    if (status === 201 || status === 200) break;
    assert.ok([202, 409].includes(status), String(status));
    await new Promise((resolve) => setTimeout(resolve, 50));
  }

  // One signature for two holds that the person looked at.
  const two = await holdsLookedAt(first, ["signed-2", "signed-3"]);
  /** @type {any[]} */
  const sent = [];
  first.on("request", (request) => {
    if (request.url().endsWith("/approve")) sent.push(request.postDataJSON());
  });
  await approveBoth(first, two);
  await first.getByText("You approved 2 holds.").waitFor();
  assert.equal(sent.length, 2);
  const [one, other] = sent.map((vote) => vote.signature);
  assert.deepEqual({ ...one, nonce: "" }, { ...other, nonce: "" }, "one signature is for both");
  assert.equal(one.together.length, 2);
  assert.deepEqual(await signedVotes(gate, two), [[true], [true]]);
  // A challenge for something else than was shown stops its own vote, and no other.
  const more = await holdsLookedAt(first, ["signed-4", "signed-5"]);
  await alterResponses(first, `**/holds/${more[0].id}/challenge`, (asked) => {
    const stated = JSON.parse(asked.statement);
    return { ...asked, statement: JSON.stringify({ ...stated, environment: "sandbox" }) };
  });
  await approveBoth(first, more);
  await first.getByText(/^1 approved\. Not approved: 2,500 USDT: The gate asks for a signature on something/).waitFor();
  assert.deepEqual(await signedVotes(gate, more), [[], [true]]);
  await first.keyboard.press("Escape");

  // The same keys sign acts of two people.
  const acts = SIGNING.replace("[signing]\n", '[signing]\nacts = ["activation", "unfreezing"]\n');
  await gate.writePolicies(`${signed}${acts}${tables.join("")}`);
  await untilKnown(gate, "ops-1", 1, 2);
  await gate.callConsole("POST", "freezes", personToken("ops-1", ["operator"]), {
    environment: "production",
    scope: "all",
    reason: "a drill",
  });
  for (const page of [first, second]) {
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByRole("button", { name: "Unfreeze…" }).click();
    await page.getByLabel("Why").fill("it was a drill");
    await confirm(page, "Unfreeze in production");
    await page
      .getByText(page === first ? "One more operator must confirm it." : "Unfrozen.")
      .first()
      .waitFor();
  }
  const stricter =
    '[[rule]]\nid = "huge"\neffect = "deny"\nwhen = { op = "createSwap", amount = "(900000, inf) USD" }\n';
  await gate.writePolicies(`${signed}${stricter}${acts}${tables.join("")}`);
  for (const page of [first, second]) {
    // The overview links to what waits, too.
    await page.getByRole("link", { name: "Rules" }).first().click();
    await page.locator("#agree").click();
    await page.getByLabel("Why").fill("no huge swaps");
    const button = page.getByRole("dialog").getByRole("button", { name: page === first ? /^Approve/ : /^Put/ });
    await page.waitForTimeout(700);
    await button.click();
    await page
      .getByText(page === first ? "One more person must approve it." : "Fully approved")
      .first()
      .waitFor();
  }
  assertNoProblems(...pages);
});

/** @type {[string, (stated: any) => object, string][]} */
const LIES = [
  ["other bytes", () => ({ fingerprint: "0".repeat(64) }), "something else than this page shows"],
  ["other figures", () => ({ figures: "0".repeat(64) }), "something else than this page shows"],
  [
    "another amount",
    ({ amounts }) => ({ amounts: { ...amounts, source: { ...amounts.source, amount: "1" } } }),
    "other amounts than this page shows",
  ],
];

for (const [at, [what, lie, told]] of LIES.entries()) {
  test(`the page does not sign ${what} than it shows`, CHROMIUM_ALONE, async () => {
    const hold = await gate.holdSwap(`signed-lie-${at}`);
    const page = await signIn(browser, local, "ops-1");
    await addAuthenticator(page);
    await alterResponses(page, /\/challenge$/, (asked) => {
      const stated = JSON.parse(asked.statement);
      return { ...asked, statement: JSON.stringify({ ...stated, ...lie(stated) }) };
    });
    await openHold(page, hold);
    await page.getByRole("button", { name: "Approve…" }).click();
    await confirm(page, "Approve 2,500 USDT");
    await page.getByText(told).waitFor();
    const { body } = await gate.callConsole("GET", `holds/${hold.id}`, personToken("ops-1"));
    assert.deepEqual(body.votes, []);
    await page.close();
  });
}
