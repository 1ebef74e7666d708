// Passkeys: the signature of a vote or of an act of two people, and the enrolment of a person's own key.

import { get, post } from "./api.js";
import { challengeOf, decode, encode, sha256, sign, TIMEOUT_MS } from "./assertion.js";
import { ask } from "./dialog.js";
import { errorBox, fill, h } from "./dom.js";
import { figuresDigest, sha256Hex } from "./fingerprint.js";
import { movement } from "./words.js";

/** ES256 and EdDSA, as WebAuthn numbers them. */
const ALGORITHMS = [-7, -8];
/** Where the id of a new credential begins in the authenticator's data: behind the domain, flags, counter and model. */
const ID_OFFSET = 55;
/** The length of a public key, by its first byte: five members for ES256, four for EdDSA. */
const KEY_BYTES = new Map([
  [0xa5, 77],
  [0xa4, 42],
]);

/** For how many votes one signature can be. */
export const MAX_TOGETHER = 32;

/** @typedef {{ nonce: string, statement: string, rpId: string, credentials: string[] }} AskedSignature */

/**
 * Has a passkey sign statements of votes, all with one signature. Returns the signature of each vote.
 * @param {AskedSignature[]} all at least one, and at most `MAX_TOGETHER`
 * @returns {Promise<VoteSignature[]>}
 */
export async function signTogether(all) {
  /** @type {{ signing: Signing | null }} */
  const { signing } = (await get("signing")).body;
  if (signing && !signing.origins.includes(location.origin)) throw new Error(elsewhere(signing));
  const [{ nonce, rpId, credentials }] = all;
  const signed = await sign(rpId, credentials, await challengeOf(all.map(({ statement }) => statement)));
  if (all.length === 1) return [{ nonce, ...signed }];
  const together = await Promise.all(all.map((asked) => sha256Hex(asked.statement)));
  return all.map(({ nonce }) => ({ nonce, ...signed, together }));
}

/**
 * Says where signatures count, if they do not count on this page.
 * @param {Signing} signing
 */
function elsewhere({ origins }) {
  return `Only what is signed at ${origins.join(", ")} counts: sign with the command line on your own machine, such as "sluice approvals sign". Nothing was signed.`;
}

/**
 * Asks for the statement of a vote, and compares it with what this page shows.
 * @param {Hold} hold as it was shown
 * @param {Seen} seen
 */
export async function askForVote(hold, { fingerprint, causes }) {
  /** @type {AskedSignature} */
  const asked = (await post(`holds/${hold.id}/challenge`, { fingerprint, causes })).body;
  const stated = JSON.parse(asked.statement);
  const figures = await figuresDigest(hold);
  const expected = { word: "approve", hold: hold.id, environment: hold.environment, fingerprint, causes, figures };
  for (const [name, value] of Object.entries(expected)) {
    if (stated[name] !== value)
      throw new Error("The gate asks for a signature on something else than this page shows. Nothing was signed.");
  }
  // The page has found these amounts in the bytes.
  const shown = movement(hold).amounts;
  const amounts = [stated.amounts.source.amount, stated.amounts.destination.amount].filter((one) => one !== null);
  if (amounts.join(" ") !== shown.join(" "))
    throw new Error("The gate asks for a signature on other amounts than this page shows. Nothing was signed.");
  return asked;
}

/**
 * Has a passkey sign an act of two people, where the policies in force want it signed: asks for the statement, and
 * compares it with what this page shows. Returns what the act's request must have besides.
 * @param {SignableAct} act
 * @param {string | null} environment null for a set of policies, which is one for all
 * @param {{ path: string, body?: unknown }} request of the act; its path with `/challenge` asks for the statement
 * @param {Record<string, string>} shown the facts of the act that this page shows
 * @returns {Promise<{ signature?: VoteSignature }>}
 */
export async function signAct(act, environment, { path, body }, shown) {
  /** @type {{ signing: Signing | null }} */
  const { signing } = (await get("signing")).body;
  if (!signing?.acts.includes(act)) return {};
  if (!signing.origins.includes(location.origin)) throw new Error(elsewhere(signing));
  /** @type {{ nonce: string, statement: string, rpId: string, credentials: string[] }} */
  const asked = (await post(`${path}/challenge`, body)).body;
  const stated = JSON.parse(asked.statement);
  const isShown = Object.entries({ act, ...shown }).every(([name, value]) => stated.act[name] === value);
  const isHere = environment === null || stated.environment === environment;
  if (stated.statement !== "sluice-act-1" || !isHere || !isShown)
    throw new Error("The gate asks for a signature on something else than this page shows. Nothing was signed.");
  const signed = await sign(asked.rpId, asked.credentials, await sha256(asked.statement));
  return { signature: { nonce: asked.nonce, ...signed } };
}

/**
 * Returns the section in which people see their passkeys, and enrol one.
 * @param {App} app
 */
export function passkeySection(app) {
  const body = h("div", {}, h("p", { class: "waiting" }, "One moment…"));
  const element = h(
    "section",
    { class: "card", "aria-labelledby": "passkeys" },
    h("h2", { id: "passkeys" }, "Your passkeys"),
    body,
  );

  async function load() {
    try {
      /** @type {{ person: string, signing: Signing | null }} */
      const { person, signing } = (await get("signing")).body;
      fill(body, signing ? content(person, signing) : noSigning());
    } catch (failure) {
      fill(body, errorBox(failure, load));
    }
  }

  /**
   * @param {string} person
   * @param {Signing} signing
   */
  function content(person, signing) {
    const { passkeys, origins, rpId } = signing;
    const place = h("div", { role: "status" });
    return [
      passkeys.length === 0
        ? h("p", {}, "The policies in force have no passkey of yours.")
        : [
            h(
              "ul",
              { class: "plain" },
              passkeys.map(({ name }) => h("li", {}, name)),
            ),
            h(
              "p",
              { class: "muted" },
              "Lost one, changed the device, or leaving? Tell the authors of the policies: ",
              h("code", {}, "sluice passkeys"),
              " revokes, rotates or removes it, and refuses where too few people could sign afterwards.",
            ),
          ],
      isOfDomain(location.hostname, rpId)
        ? h("button", { type: "button", id: "enrol", onclick: () => enrol(person, signing, place) }, "Enrol a passkey…")
        : h("p", { class: "muted" }, `Passkeys of ${rpId} are used at ${origins.join(", ")}, not on this page.`),
      place,
    ];
  }

  if (app.may("approver")) load();
  return app.may("approver") ? element : null;
}

/**
 * Returns whether a page of this host can make passkeys of a domain. A key may be made on any page of the domain.
 * @param {string} host
 * @param {string} domain
 */
function isOfDomain(host, domain) {
  return host === domain || host.endsWith(`.${domain}`);
}

function noSigning() {
  return h("p", { class: "muted" }, "No vote can be signed: the policies in force have no [signing].");
}

/**
 * @param {string} person
 * @param {Signing} signing
 * @param {HTMLElement} place
 */
async function enrol(person, signing, place) {
  const input = h("input", { id: "passkey-name", type: "text", maxlength: "60", autocomplete: "off" });
  const table = await ask({
    title: "Enrol a passkey?",
    content: [
      h("p", {}, "Your device makes a key, and then signs with it whom it belongs to: it asks you twice."),
      h("label", { for: "passkey-name" }, "A name for the device"),
      input,
    ],
    label: "Enrol",
    check: () => (input.value.trim() === "" ? "Enter a name." : null),
    perform: async () => passkeyTable(person, input.value.trim(), signing),
  });
  if (!table) return;
  fill(
    place,
    h(
      "p",
      {},
      "Made. Give this text to the authors of the policies: your key counts when two people have agreed to it.",
    ),
    h("pre", { id: "passkey-table", tabindex: "0", "aria-label": "The table for the policies" }, table),
  );
}

/**
 * Makes a key, has it sign whom it belongs to, and returns its table for the policies.
 * @param {string} person
 * @param {string} name
 * @param {Signing} signing
 */
async function passkeyTable(person, name, { rpId, passkeys }) {
  /** @type {PublicKeyCredentialDescriptor[]} */
  const excludeCredentials = passkeys.map(({ credential }) => ({ type: "public-key", id: decode(credential) }));
  const made = await navigator.credentials.create({
    publicKey: {
      rp: { id: rpId, name: "Sluice" },
      user: { id: await sha256(person), name: person, displayName: person },
      challenge: await sha256(person),
      pubKeyCredParams: ALGORITHMS.map((alg) => ({ type: "public-key", alg })),
      authenticatorSelection: { userVerification: "required", residentKey: "discouraged" },
      attestation: "none",
      excludeCredentials,
      timeout: TIMEOUT_MS,
    },
  });
  if (!(made instanceof PublicKeyCredential) || !(made.response instanceof AuthenticatorAttestationResponse))
    throw new Error("No key was made.");
  const data = new Uint8Array(made.response.getAuthenticatorData());
  const start = ID_OFFSET + data[ID_OFFSET - 2] * 256 + data[ID_OFFSET - 1];
  const length = KEY_BYTES.get(data[start]);
  if (length === undefined) throw new Error("This device makes keys of another kind than ES256 and EdDSA.");
  const key = encode(data.slice(start, start + length));
  const credential = made.id;
  // The members stand in the order of their names, as the gate writes them.
  const enrolment = JSON.stringify({ credential, key, person, rpId, statement: "sluice-passkey-1" });
  const proof = await sign(rpId, [credential], await sha256(enrolment));
  const parts = [proof.authenticatorData, proof.clientData, proof.signature].join(".");
  const fields = { person, name, credential, key, proof: parts };
  const lines = Object.entries(fields).map(([field, value]) => `${field} = ${JSON.stringify(value)}`);
  return `[[passkey]]\n${lines.join("\n")}\n`;
}
