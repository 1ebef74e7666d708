// Signatures that must not count, made by authenticators of Chromium and brought to the gate by a thief; and a lost key.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

import { personToken, RULES } from "./support/gate.mjs";
import {
  addAuthenticator,
  CHROMIUM_ALONE,
  enrol,
  NO_RSA,
  signAsked,
  signingAt,
  untilKnown,
} from "./support/passkeys.mjs";
import { approve, assertNoProblems, openHold, signIn } from "./support/people.mjs";
import { setUp } from "./support/setup.mjs";
import { SLUICE } from "./support/tools.mjs";

/** @typedef {import("./support/browser.mjs").Page} Page */
/** @typedef {{ id: string, fingerprint: string }} MadeHold */

const { browser, gate } = await setUp({ rules: RULES });
const { local, table: SIGNING } = signingAt(gate);
const QUORUM = 'all = [{ of = "ops", n = 1 }, { of = "finance", n = 1 }]';
const SIGNED = RULES.replace(QUORUM, 'signed = true\nof = "ops"\nn = 2');
const PEOPLE = ["ops-1", "ops-2", "ops-3"];

/**
 * Asks what a person is to sign for a hold, as the page does.
 * @param {MadeHold} hold
 */
async function challenge(hold, who = "ops-1") {
  const { body } = await gate.callConsole("GET", `holds/${hold.id}`, personToken(who));
  const seen = { fingerprint: hold.fingerprint, causes: body.causes };
  const asked = await gate.callConsole("POST", `holds/${hold.id}/challenge`, personToken(who), seen);
  assert.equal(asked.status, 200, JSON.stringify(asked.body));
  return { seen, asked: asked.body };
}

/**
 * Votes with a signature; returns why it does not count, or nothing.
 * @param {MadeHold} hold
 * @param {unknown} seen
 * @param {unknown} signature
 */
async function refusal(hold, seen, signature, who = "ops-1") {
  const body = { .../** @type {object} */ (seen), signature };
  const answer = await gate.callConsole("POST", `holds/${hold.id}/approve`, personToken(who), body);
  if (answer.status === 200) return "";
  assert.deepEqual([answer.status, answer.body.error.code], [403, "SIGNATURE_REFUSED"], JSON.stringify(answer.body));
  return answer.body.error.message;
}

/** @param {MadeHold} hold */
async function withdraw(hold) {
  const { fingerprint } = hold;
  const answer = await gate.callConsole("POST", `holds/${hold.id}/withdraw`, personToken("ops-1"), { fingerprint });
  assert.equal(answer.status, 200, JSON.stringify(answer.body));
}

/** Three people enrol, and two of them must sign from then on. Returns their pages and authenticators. */
async function enrolAll() {
  await gate.writePolicies(`${RULES}${SIGNING}`);
  await untilKnown(gate, "ops-1", 0);
  const roles = ["approver", "operator", "policy-admin"];
  const pages = await Promise.all(PEOPLE.map((who) => signIn(browser, local, who, roles, { expects: [NO_RSA] })));
  const [authenticators, tables] = [[], []].map((list) => /** @type {any[]} */ (list));
  for (const page of pages) {
    authenticators.push(await addAuthenticator(page));
    tables.push(await enrol(page, "a device"));
  }
  return { pages, authenticators, tables };
}

test("what a thief makes of signatures and of authenticators counts for nothing", CHROMIUM_ALONE, async () => {
  const { pages, authenticators, tables } = await enrolAll();
  await gate.writePolicies(`${SIGNED}${SIGNING}${tables.join("")}`);
  await untilKnown(gate, "ops-1", 1);
  const [page, otherPage] = pages;
  const [authenticator] = authenticators;
  const [hold, other] = [await gate.holdSwap("forged-1"), await gate.holdSwap("forged-2")];

  // Nobody was verified: a device that was left unlocked signs, and says so.
  const unverified = await challenge(hold);
  await authenticator.refuse(true);
  const weak = await signAsked(page, unverified.asked, "discouraged");
  assert.match(await refusal(hold, unverified.seen, weak), /did not verify/);
  await authenticator.refuse(false);

  // The signature of one hold for another one, and of one statement for another one.
  const [one, two] = [await challenge(hold), await challenge(other)];
  const first = await signAsked(page, one.asked);
  assert.match(await refusal(other, two.seen, first), /answers no challenge/);
  assert.match(await refusal(other, two.seen, { ...first, nonce: two.asked.nonce }), /another challenge/);
  // Another person brings it, or signs with another's name.
  assert.match(await refusal(hold, one.seen, first, "ops-2"), /answers no challenge/);
  const alien = await challenge(hold, "ops-2");
  const posing = await signAsked(page, { ...alien.asked, credentials: one.asked.credentials });
  assert.match(await refusal(hold, alien.seen, posing, "ops-2"), /none of this person/);
  // Other figures than the person was shown: the statement that they sign is another one.
  const figures = JSON.parse(one.asked.statement);
  const shown = JSON.stringify({ ...figures, figures: "0".repeat(64) });
  const lied = await signAsked(page, { ...one.asked, statement: shown });
  assert.match(await refusal(hold, one.seen, lied), /another challenge/);

  // It counts once, and not again after its person took it back.
  assert.equal(await refusal(hold, one.seen, first), "");
  await withdraw(hold);
  assert.match(await refusal(hold, one.seen, first), /used before/);

  // A copy of the device: it counts on from where it was copied, and the owner goes on meanwhile.
  const copied = await authenticator.keys();
  for (const turn of [1, 2]) {
    const next = await challenge(hold);
    assert.equal(await refusal(hold, next.seen, await signAsked(page, next.asked)), "", `turn ${turn}`);
    await withdraw(hold);
  }
  const thief = await signIn(browser, local, "ops-1", ["approver"], { expects: [NO_RSA] });
  await (await addAuthenticator(thief)).add(copied);
  const stolen = await challenge(other);
  assert.match(await refusal(other, stolen.seen, await signAsked(thief, stolen.asked)), /may have a copy/);
  const { body } = await gate.callConsole("GET", `holds/${other.id}`, personToken("ops-1"));
  assert.deepEqual(body.votes, []);
  assert.equal((await gate.swap("forged-1", "2500")).status, 202);
  assertNoProblems(page, otherPage, thief);
  for (const one of [...pages, thief]) await one.close();
});

test("two people lose their devices, and recovery keys enrol new ones", CHROMIUM_ALONE, async () => {
  /** @param {string[]} args */
  const sluice = async (...args) => {
    const env = { SLUICE_TOKEN: personToken("ops-3", ["operator"]) };
    try {
      return (await promisify(execFile)(SLUICE, args, { cwd: gate.folder, env })).stdout;
    } catch (error) {
      const { stdout, stderr } = /** @type {any} */ (error);
      throw new Error(`${args.join(" ")}: ${stdout}${stderr}`);
    }
  };
  const { pages, tables } = await enrolAll();
  let keys = "";
  for (const id of ["safe-1", "safe-2", "safe-3"]) keys += await sluice("recovery", "new", `${id}.key`, "--id", id);
  const acts = SIGNING.replace("[signing]\n", '[signing]\nacts = ["activation"]\n');
  const before = `${SIGNED}${acts}${tables.join("")}\n[recovery]\nneeds = 2\n${keys}`;
  await gate.writePolicies(before);
  await untilKnown(gate, "ops-1", 1, 1);
  const read = () => gate.callConsole("GET", "policies", personToken("ops-3", ["policy-admin"]));
  const inForce = (await read()).body.version;
  const hold = await gate.holdSwap("lost-1");

  // ops-1 and ops-2 have new devices. Nobody else could sign with them for another set: one is too few.
  await Promise.all(pages.slice(0, 2).map((page) => page.close()));
  const people = await Promise.all(
    ["ops-1", "ops-2"].map((who) => signIn(browser, local, who, ["approver"], { expects: [NO_RSA] })),
  );
  const files = [];
  for (const [at, page] of people.entries()) {
    await addAuthenticator(page);
    const file = `ops-${at + 1}.toml`;
    await writeFile(path.join(gate.folder, file), await enrol(page, "a new device"));
    files.push(file);
  }
  const added = (
    await Promise.all(
      files.map((file) => sluice("passkeys", "enrol", "policies", "--table", file, "--config", "sluice.toml")),
    )
  ).join();
  assert.match(added, /a new device/);
  const until = new Date(Date.now() + 3_600_000).toISOString().replace(/\.[0-9]+/, "");
  const set = ["--in-force", `sluice-audit/policies/${inForce}`, "--until", until, "--yes"];
  for (const id of ["safe-1", "safe-3"]) {
    await sluice("recovery", "sign", ...files, "--key", `${id}.key`, "--to", `${id}.json`, ...set);
  }
  const news = await Promise.all(files.map((file) => readFile(path.join(gate.folder, file), "utf8")));
  await gate.writePolicies(before + news.join(""));
  for (;;) {
    if ((await read()).body.candidate) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  const words = ["--reason", "two phones were lost", "--console", gate.url];
  await assert.rejects(sluice("recovery", "hand-in", "safe-1.json", ...words), /1 of 2 different recovery keys/);
  await sluice("recovery", "hand-in", "safe-1.json", "safe-3.json", ...words);
  await untilKnown(gate, "ops-1", 2, 1);

  for (const page of people) {
    await page.getByRole("link", { name: "Queue" }).click();
    await openHold(page, hold);
    await approve(page, "2,500 USDT");
  }
  for (;;) {
    const { status } = await gate.swap("lost-1", "2500");
    if (status === 201 || status === 200) break;
    assert.ok([202, 409].includes(status), String(status));
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assertNoProblems(...people);
});
