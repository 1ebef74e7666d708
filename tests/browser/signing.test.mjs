// Votes signed with the command line: it computes what is signed, a page asks the passkey, and no page of the gate is believed.

import assert from "node:assert/strict";
import { createHash, X509Certificate } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:https";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { after, test } from "node:test";

import { openBrowser, openPage, openTab, PLAIN_HOST } from "./support/browser.mjs";
import { Gate, Program, personToken, RULES } from "./support/gate.mjs";
import { addAuthenticator, CHROMIUM_ALONE, enrol, NO_RSA, signAsked, untilKnown } from "./support/passkeys.mjs";
import { assertNoProblems, confirm, openHold, signIn } from "./support/people.mjs";

/** @typedef {import("./support/browser.mjs").Page} Page */
/** @typedef {{ id: string }} MadeHold */

const QUORUM = 'all = [{ of = "ops", n = 1 }, { of = "finance", n = 1 }]';
/** Nothing looks for an icon of the page. */
const NO_ICON = /favicon\.ico/;
// The certificate of the second gate is of this test alone.
process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0";

/**
 * Has two people enrol at a gate whose console is at this address, and puts rules in force that take signatures of these
 * origins alone. Returns the page of the first, and its authenticator.
 * @param {import("./support/browser.mjs").Browser} browser
 * @param {Gate} gate
 * @param {string} console
 * @param {string} rpId
 * @param {string} origin
 */
async function enrolTwo(browser, gate, console, rpId, origin) {
  const signing = `[signing]\ninstallation = "browser"\nrp_id = "${rpId}"\norigins = ["${origin}"]\n`;
  await gate.writePolicies(`${RULES}${signing}`);
  await untilKnown(gate, "ops-1", 0);
  const options = { expects: [NO_RSA, NO_ICON], ignoreHTTPSErrors: true };
  const people = ["ops-1", "ops-2"].map((who) => signIn(browser, { url: console }, who, ["approver"], options));
  const [page, other] = await Promise.all(people);
  const [authenticator] = [await addAuthenticator(page), await addAuthenticator(other)];
  const keys = [await enrol(page, "first"), await enrol(other, "second")];
  await other.close();
  await gate.writePolicies(`${RULES.replace(QUORUM, 'signed = true\nof = "ops"\nn = 1')}${signing}${keys.join("")}`);
  await untilKnown(gate, "ops-1", 1);
  return { page, authenticator };
}

/**
 * Starts `sluice approvals sign`, and waits until it shows its link.
 * @param {Gate} gate
 * @param {string} origin
 * @param {MadeHold[]} holds
 * @param {string[]} [more]
 */
async function beginSigning(gate, origin, holds, more = []) {
  const ids = holds.map(({ id }) => id);
  const args = ["approvals", "sign", ...ids, "--page", origin, "--console", gate.url, ...more];
  const program = new Program(args, { SLUICE_TOKEN: personToken("ops-1") });
  const link = await program.waitFor((line) => /^http:\/\/localhost:[0-9]+\/#[0-9a-f]+$/.exec(line)?.[0]);
  const code = await program.waitFor((line) => /^Code: ([0-9A-V]{4}-[0-9A-V]{4}-[0-9A-V]{4})$/.exec(line)?.[1]);
  return { program, link, code };
}

/**
 * @param {Gate} gate
 * @param {MadeHold} hold
 */
async function votes(gate, hold) {
  return (await gate.callConsole("GET", `holds/${hold.id}`, personToken("ops-1"))).body.votes;
}

/**
 * Waits until a swap that was held is executed.
 * @param {Gate} gate
 * @param {string} requestId
 */
async function untilPaid(gate, requestId) {
  for (;;) {
    const { status } = await gate.swap(requestId, "2500");
    if (status === 201 || status === 200) return;
    assert.ok([202, 409].includes(status), String(status));
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** @returns {Promise<number>} */
function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = /** @type {net.AddressInfo} */ (server.address());
      server.close(() => resolve(port));
    });
  });
}

test(
  "a page of the command line signs; the gate's own page and what it signs count for nothing",
  CHROMIUM_ALONE,
  async (t) => {
    const gate = await Gate.start({ rules: RULES });
    t.after(() => gate.stop());
    const browser = await openBrowser();
    t.after(() => browser.close());
    const console = gate.url.replace("127.0.0.1", "localhost");
    const origin = `http://localhost:${await freePort()}`;
    const { page } = await enrolTwo(browser, gate, console, "localhost", origin);

    // The gate's page says where to sign.
    const hold = await gate.holdSwap("cli-1");
    await page.getByRole("link", { name: "Queue" }).click();
    await openHold(page, hold);
    await page.getByRole("button", { name: "Approve…" }).click();
    await confirm(page, "Approve 2,500 USDT");
    await page.getByText(`Only what is signed at ${origin} counts`).waitFor();
    // A page of the gate that has the passkey sign all the same gets nothing by it.
    const seen = { fingerprint: hold.fingerprint, causes: (await shownCauses(gate, hold)).causes };
    const asked = (await gate.callConsole("POST", `holds/${hold.id}/challenge`, personToken("ops-1"), seen)).body;
    const signature = await signAsked(page, asked);
    const refused = await gate.callConsole("POST", `holds/${hold.id}/approve`, personToken("ops-1"), {
      ...seen,
      signature,
    });
    assert.deepEqual([refused.status, refused.body.error.code], [403, "SIGNATURE_REFUSED"]);
    assert.match(refused.body.error.message, /another origin/);

    // A page that is given something else than the terminal shows has another code, and its signature goes nowhere.
    const lied = await beginSigning(gate, origin, [hold]);
    await page.route("**/task", async (route) => {
      const response = await route.fetch();
      const task = await response.json();
      task.statements = [task.statements[0].replace('"production"', '"sandbox"')];
      await route.fulfill({ response, json: task });
    });
    await page.goto(lied.link);
    await page.locator("#code").waitFor();
    assert.notEqual(await page.locator("#code").innerText(), lied.code);
    await page.getByRole("button", { name: "Sign with your passkey" }).click();
    await page.getByText("it was not sent to the gate").waitFor();
    assert.equal(await lied.program.ended, 1);
    assert.deepEqual(await votes(gate, hold), []);
    await page.unroute("**/task");

    const { program, link, code } = await beginSigning(gate, origin, [hold]);
    await page.goto(link);
    await page.reload();
    await page.locator("#code").waitFor();
    assert.equal(await page.locator("#code").innerText(), code);
    await page.getByText("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed").first().waitFor();
    await page.getByText("Approve createSwap in production of browser").waitFor();
    await page.getByRole("button", { name: "Sign with your passkey" }).click();
    await page.getByText("Signed. ").waitFor();
    assert.equal(await program.ended, 0);
    assert.ok(
      program.lines.some((line) => line.startsWith(`${hold.id}: approved. Fully approved`)),
      program.lines.join("\n"),
    );
    assert.deepEqual(
      (await votes(gate, hold)).map((/** @type {any} */ vote) => vote.signed),
      [true],
    );
    await untilPaid(gate, "cli-1");
    assertNoProblems(page);
  },
);

/**
 * @param {Gate} gate
 * @param {MadeHold} hold
 */
async function shownCauses(gate, hold) {
  return (await gate.callConsole("GET", `holds/${hold.id}`, personToken("ops-1"))).body;
}

/**
 * Serves the files of the signing page as a second host does, with the certificate of a gate.
 * @param {Gate} gate
 * @param {string} folder
 */
async function secondHost(gate, folder) {
  const read = (/** @type {string} */ name) => readFile(path.join(gate.folder, name));
  const [key, cert] = await Promise.all(["key.pem", "certificate.pem"].map(read));
  const kinds = new Map([
    [".html", "text/html"],
    [".css", "text/css"],
    [".js", "text/javascript"],
  ]);
  /** @type {string[]} */
  const asked = [];
  const server = createServer({ key, cert }, async ({ url = "/", headers }, response) => {
    asked.push(`${headers.host?.split(":")[0]}${url}`);
    // A page of somebody else under the same domain.
    if (headers.host?.startsWith("other.")) return response.end("<!doctype html><title>other</title>");
    const name = url === "/" ? "index.html" : path.basename(url);
    const content = await readFile(path.join(folder, name)).catch(() => null);
    const policy =
      "default-src 'none'; script-src 'self'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'";
    const kind = kinds.get(path.extname(name)) ?? "text/plain";
    response.writeHead(content ? 200 : 404, { "content-type": kind, "content-security-policy": policy });
    return response.end(content ?? "");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const { port } = /** @type {net.AddressInfo} */ (server.address());
  return { server, port, cert, asked };
}

test(
  "a second host under the same domain signs for the command line, and for no other page",
  CHROMIUM_ALONE,
  async (t) => {
    const gate = await Gate.start({ rules: RULES, tls: true });
    t.after(() => gate.stop());
    const folder = await mkdtemp(path.join(os.tmpdir(), "sluice-page-"));
    after(() => rm(folder, { recursive: true, force: true }));
    assert.equal(await new Program(["approvals", "signing-page", "--folder", folder]).ended, 0);
    const { server, port, cert, asked } = await secondHost(gate, folder);
    t.after(() => server.close());
    const spki = new X509Certificate(cert).publicKey.export({ type: "spki", format: "der" });
    const known = createHash("sha256").update(spki).digest("base64");
    const browser = await openBrowser([`--ignore-certificate-errors-spki-list=${known}`]);
    t.after(() => browser.close());
    const console = gate.url.replace("127.0.0.1", PLAIN_HOST);
    const origin = `https://sign.${PLAIN_HOST}:${port}`;
    const { page, authenticator } = await enrolTwo(browser, gate, console, PLAIN_HOST, origin);
    const keys = await authenticator.keys();
    const trusted = ["--ca", path.join(gate.folder, "certificate.pem")];

    const holds = [await gate.holdSwap("two-1"), await gate.holdSwap("two-2")];
    const { program, link, code } = await beginSigning(gate, origin, holds, trusted);
    const start = await openTab(page, link, [NO_ICON]);
    await start.locator("#code").waitFor();
    assert.equal(await start.locator("#code").innerText(), code);
    const opened = start.waitForEvent("popup");
    await start.getByRole("button", { name: `Go on at sign.${PLAIN_HOST}:${port}` }).click();
    const second = await opened;
    const itsAuthenticator = await addAuthenticator(second);
    await itsAuthenticator.add(keys);
    await second.locator("#code").waitFor();
    assert.equal(new URL(second.url()).origin, origin);
    assert.equal(await second.locator("#code").innerText(), code);
    assert.equal((await second.getByText("0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed").count()) > 0, true);
    await second.getByRole("button", { name: "Sign with your passkey" }).click();
    await start.getByText("Signed. ").waitFor();
    assert.equal(await program.ended, 0);
    for (const hold of holds) {
      assert.deepEqual(
        (await votes(gate, hold)).map((/** @type {any} */ vote) => vote.signed),
        [true],
      );
    }
    await untilPaid(gate, "two-1");
    await untilPaid(gate, "two-2");
    // It fetched its own files, and nothing else.
    const files = ["", "sign.css", "sign.js", "assertion.js", "fingerprint.js", "favicon.ico"];
    const others = asked.filter((one) => !files.some((file) => one === `sign.${PLAIN_HOST}/${file}`));
    assert.deepEqual(others, []);

    // Another page of the domain opens it, and gives it a task.
    const other = await openPage(browser, `https://other.${PLAIN_HOST}:${port}/`, { ignoreHTTPSErrors: true });
    const fooled = other.waitForEvent("popup");
    await other.evaluate((origin) => {
      const opened = window.open(`${origin}/`);
      const task = { page: origin, rpId: "console.test", credentials: [], statements: ["{}"], shown: [] };
      addEventListener("message", () => opened?.postMessage(task, origin));
    }, origin);
    const alone = await fooled;
    await alone.getByText("it was not opened from there").waitFor();
    await alone.waitForTimeout(500);
    assert.equal(await alone.locator("#code, button").count(), 0);
    assertNoProblems(page, start);
  },
);
