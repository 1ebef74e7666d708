// Signatures of passkeys: what they sign, the code of it, and the browser's part. The page of `sluice approvals sign` uses this
// file, too.

import { sha256Hex } from "./fingerprint.js";

export const TIMEOUT_MS = 240_000;

/** @param {string} text */
export function decode(text) {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
}

/** @param {ArrayBuffer | Uint8Array} bytes */
export function encode(bytes) {
  const text = String.fromCharCode(...new Uint8Array(bytes));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** @param {string} text */
export async function sha256(text) {
  return crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
}

/**
 * Returns what a passkey signs for these statements, one or several.
 * @param {string[]} statements
 */
export async function challengeOf(statements) {
  if (statements.length === 1) return sha256(statements[0]);
  const digests = await Promise.all(statements.map(sha256Hex));
  return sha256(JSON.stringify({ digests, statement: "sluice-votes-1" }));
}

/**
 * Returns the code by which a person compares a challenge on two screens: the first 60 bits of the SHA-256 of a salt and the
 * challenge, in base 32.
 * @param {string} salt
 * @param {ArrayBuffer} challenge
 */
export async function codeOf(salt, challenge) {
  const salted = Uint8Array.from([...decode(salt), ...new Uint8Array(challenge)]);
  const first = new DataView(await crypto.subtle.digest("SHA-256", salted)).getBigUint64(0) >> 4n;
  const digits = first.toString(32).toUpperCase().padStart(12, "0");
  return digits.replaceAll(/.{4}(?=.)/g, "$&-");
}

/**
 * Has a passkey sign a challenge.
 * @param {string} rpId
 * @param {string[]} credentials
 * @param {ArrayBuffer} challenge
 * @returns {Promise<PasskeySignature>}
 */
export async function sign(rpId, credentials, challenge) {
  /** @type {PublicKeyCredentialDescriptor[]} */
  const allowCredentials = credentials.map((id) => ({ type: "public-key", id: decode(id) }));
  /** @type {PublicKeyCredentialRequestOptions} */
  const publicKey = { challenge, rpId, allowCredentials, userVerification: "required", timeout: TIMEOUT_MS };
  const credential = await navigator.credentials.get({ publicKey }).catch((error) => {
    throw new Error(`Nothing was signed. ${error.message}`);
  });
  if (!(credential instanceof PublicKeyCredential)) throw new Error("Nothing was signed.");
  const { response } = credential;
  if (!(response instanceof AuthenticatorAssertionResponse)) throw new Error("The passkey did not sign.");
  return {
    credential: credential.id,
    authenticatorData: encode(response.authenticatorData),
    clientData: encode(response.clientDataJSON),
    signature: encode(response.signature),
  };
}
