// Passkeys of people, with authenticators that Chromium has for tests.

import { TIMEOUT_MS } from "./browser.mjs";
import { personToken } from "./gate.mjs";
import { confirm } from "./people.mjs";

/** @typedef {import("./browser.mjs").Page} Page */
/** @typedef {import("./gate.mjs").Gate} Gate */

/** No other browser has authenticators for tests. */
export const CHROMIUM_ALONE = { skip: process.env.FIREFOX ? "Firefox has no authenticators for tests" : false };
/** Chromium warns of pages that make no RSA keys. */
export const NO_RSA = /pubKeyCredParams is missing/;

/**
 * Returns the address at which browsers make passkeys, and the table of the policies that allows it: browsers make none
 * for an IP address.
 * @param {Gate} gate
 */
export function signingAt(gate) {
  const local = { url: gate.url.replace("127.0.0.1", "localhost") };
  const table = `[signing]\ninstallation = "browser"\nrp_id = "localhost"\norigins = ["${local.url}"]\n`;
  return { local, table };
}

/**
 * Gives a page an authenticator that verifies its person. Returns acts: `refuse` has it refuse from now on, or not; `keys`
 * returns its keys, and `add` gives it keys of another.
 * @param {Page | import("playwright-core").Page} page
 */
export async function addAuthenticator(page) {
  const debug = await page.context().newCDPSession(page);
  await debug.send("WebAuthn.enable");
  const options = {
    protocol: "ctap2",
    transport: "internal",
    hasResidentKey: true,
    hasUserVerification: true,
    isUserVerified: true,
    automaticPresenceSimulation: true,
  };
  const made = await debug.send("WebAuthn.addVirtualAuthenticator", /** @type {any} */ ({ options }));
  const { authenticatorId } = made;
  return {
    refuse: (/** @type {boolean} */ isRefusing) =>
      debug.send("WebAuthn.setUserVerified", { authenticatorId, isUserVerified: !isRefusing }),
    keys: async () => (await debug.send("WebAuthn.getCredentials", { authenticatorId })).credentials,
    add: async (/** @type {any[]} */ keys) => {
      for (const credential of keys) await debug.send("WebAuthn.addCredential", { authenticatorId, credential });
    },
  };
}

/**
 * Waits until the gate knows the passkeys of a person.
 * @param {Gate} gate
 * @param {string} who
 * @param {number} count
 * @param {number} acts how many acts must be signed
 */
export async function untilKnown(gate, who, count, acts = 0) {
  for (const begin = Date.now(); Date.now() - begin < TIMEOUT_MS; ) {
    const { body } = await gate.callConsole("GET", "signing", personToken(who));
    if (body.signing?.passkeys.length === count && body.signing.acts.length === acts) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`the policies with ${count} passkeys of ${who} are not in force`);
}

/**
 * Enrols a passkey; returns its table for the policies.
 * @param {Page} page
 * @param {string} name
 */
export async function enrol(page, name) {
  await page.getByRole("link", { name: "Rules" }).click();
  await page.getByRole("button", { name: "Enrol a passkey…" }).click();
  await page.getByLabel("A name for the device").fill(name);
  await confirm(page, "Enrol");
  return page.locator("#passkey-table").innerText();
}

/**
 * Has the authenticator of a page sign what the gate asks for, whatever the page shows; returns it as a vote has it.
 * @param {Page} page
 * @param {{ statement: string, credentials: string[], nonce: string, rpId?: string }} asked
 * @param {"required" | "discouraged"} [userVerification]
 */
export function signAsked(page, asked, userVerification = "required") {
  return page.evaluate(
    async ({ statement, credentials, nonce, rpId, userVerification }) => {
      const decode = (/** @type {string} */ text) =>
        Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
      const encode = (/** @type {ArrayBuffer} */ bytes) =>
        btoa(String.fromCharCode(...new Uint8Array(bytes)))
          .replaceAll("+", "-")
          .replaceAll("/", "_")
          .replaceAll("=", "");
      const challenge = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(statement));
      const allowCredentials = [{ type: /** @type {"public-key"} */ ("public-key"), id: decode(credentials[0]) }];
      const publicKey = { challenge, rpId, allowCredentials, userVerification };
      const made = /** @type {any} */ (await navigator.credentials.get({ publicKey }));
      const { authenticatorData, clientDataJSON, signature } = made.response;
      return {
        nonce,
        credential: made.id,
        authenticatorData: encode(authenticatorData),
        clientData: encode(clientDataJSON),
        signature: encode(signature),
      };
    },
    { rpId: "localhost", ...asked, userVerification },
  );
}

/**
 * Returns for each of these holds which of its votes are signed.
 * @param {Gate} gate
 * @param {{ id: string }[]} holds
 * @returns {Promise<(boolean | undefined)[][]>}
 */
export function signedVotes(gate, holds) {
  const one = async (/** @type {{ id: string }} */ { id }) => {
    const { body } = await gate.callConsole("GET", `holds/${id}`, personToken("ops-1"));
    return body.votes.map((/** @type {any} */ vote) => vote.signed);
  };
  return Promise.all(holds.map(one));
}
