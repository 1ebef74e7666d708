// Computes the fingerprint of the bytes that the page shows, because the page does not trust the gate's own figure.

/** Returns true if this browser can compute fingerprints: it can on pages from HTTPS or from this machine. */
export function canCompute() {
  return globalThis.isSecureContext && globalThis.crypto?.subtle !== undefined;
}

/**
 * Returns the SHA-256 over operation, method, path, query and body, each after its length.
 * @param {string} operation
 * @param {SentRequest} request
 */
export async function fingerprint(operation, { method, target, body }) {
  const at = target.indexOf("?");
  const [path, query] = at < 0 ? [target, ""] : [target.slice(0, at), target.slice(at + 1)];
  return digestOf([operation, method, path, query, body]);
}

/**
 * Returns the SHA-256 over the rule and the text of each reason, each after its length: a vote is for these.
 * @param {Hold["reasons"]} reasons
 */
export async function causesDigest(reasons) {
  return digestOf(reasons.flatMap(({ rule, text }) => [rule ?? "", text]));
}

/**
 * Returns the digest of figures that a signature names. Fails where these say something else than the reasons on the page.
 * @param {Hold} hold
 */
export async function figuresDigest({ figures, reasons }) {
  const wrong = new Error("The figures of the gate are not those that this page shows. Nothing was signed.");
  if (figures === undefined) throw wrong;
  /** @type {{ rule: string | null, text: string, over: OverWindow | null }[]} */
  const told = JSON.parse(figures);
  if (told.length !== reasons.length) throw wrong;
  for (const [at, { rule, text, over }] of told.entries()) {
    if ((rule ?? undefined) !== reasons[at].rule || text !== reasons[at].text) throw wrong;
    if (over && (!text.includes(windowText(over)) || unitsOf(over.words) !== String(over.upTo))) throw wrong;
  }
  return digestOf([figures]);
}

/**
 * Returns how a reason tells which window a call may exceed, and how far.
 * @param {OverWindow} over
 */
function windowText({ period, words }) {
  return `${period === null ? "" : ` ${period}`}, up to ${words}:`;
}

/**
 * Returns the units of a figure in words: millionths of a USD, or calls.
 * @param {string} words
 */
function unitsOf(words) {
  const [number, unit] = words.split(" ");
  const [whole, decimals = ""] = number.split(".");
  const units = unit === "USD" ? `${whole}${decimals.padEnd(6, "0")}` : number;
  return units.replace(/^0+(?=\d)/, "");
}

/** @param {string[]} texts */
async function digestOf(texts) {
  const parts = texts.map((text) => new TextEncoder().encode(text));
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + 8 + part.length, 0));
  const view = new DataView(whole.buffer);
  let offset = 0;
  for (const part of parts) {
    view.setBigUint64(offset, BigInt(part.length));
    whole.set(part, offset + 8);
    offset += 8 + part.length;
  }
  return hex(await crypto.subtle.digest("SHA-256", whole));
}

/**
 * Returns the SHA-256 of a text, as every other tool computes it.
 * @param {string} text
 */
export async function sha256Hex(text) {
  return hex(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
}

/** @param {ArrayBuffer} bytes */
function hex(bytes) {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Compares a hold's bytes with its fingerprint and with its description: the gate wrote the description, so each amount in
 * it must also be in the bytes.
 * @param {Hold} hold
 * @param {SentRequest} sent
 * @param {string[]} amounts
 * @returns {Promise<ByteCheck>}
 */
export async function checkBytes(hold, sent, amounts) {
  if (!canCompute()) {
    return {
      kind: "insecure",
      text: "This page was loaded without HTTPS, so the browser cannot compute fingerprints and cannot verify what is shown. Open it over HTTPS to vote, or use the command `sluice approvals`.",
    };
  }
  const computed = await fingerprint(hold.operation, sent);
  if (computed !== hold.fingerprint) {
    return {
      kind: "wrong",
      text: "The bytes on this page do not match the fingerprint from the gate. Do not vote, and report this to the gate's operators at once.",
    };
  }
  const present = textsAndNumbers(sent.body);
  const missing = amounts.filter((amount) => !present.has(amount));
  if (missing.length > 0) {
    return {
      kind: "wrong",
      text: `The description has an amount that is not in the bytes (${missing.join(", ")}). Do not vote, and report this to the gate's operators at once.`,
    };
  }
  return { kind: "good", text: "" };
}

/**
 * Returns every text and number in a body.
 * @param {string} body
 */
function textsAndNumbers(body) {
  /** @type {Set<string>} */
  const found = new Set();
  /** @param {any} value */
  const walk = (value) => {
    if (value !== null && typeof value === "object") Object.values(value).forEach(walk);
    else if (value !== null) found.add(String(value));
  };
  try {
    walk(body === "" ? null : JSON.parse(body));
  } catch {
    found.clear();
  }
  return found;
}
