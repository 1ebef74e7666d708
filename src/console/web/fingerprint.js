// The fingerprint of the bytes that are shown, computed here: what the gate says of it is not believed.

/** Whether this browser can; it does so on pages that came by HTTPS or from this very machine. */
export function canCompute() {
  return globalThis.isSecureContext && globalThis.crypto?.subtle !== undefined;
}

/** SHA-256 over operation, method, path, query and body, each behind its length. */
export async function fingerprint(operation, { method, target, body }) {
  const at = target.indexOf("?");
  const [path, query] = at < 0 ? [target, ""] : [target.slice(0, at), target.slice(at + 1)];
  const parts = [operation, method, path, query, body].map((part) => new TextEncoder().encode(part));
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + 8 + part.length, 0));
  const view = new DataView(whole.buffer);
  let place = 0;
  for (const part of parts) {
    view.setBigUint64(place, BigInt(part.length));
    whole.set(part, place + 8);
    place += 8 + part.length;
  }
  const digest = await crypto.subtle.digest("SHA-256", whole);
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * What is wrong with the bytes of a hold, or nothing. The words are the gate's, so each amount that they tell must stand
 * in the bytes.
 */
export async function doubts(hold, amounts) {
  if (!canCompute()) {
    return {
      kind: "insecure",
      text: "This page came without HTTPS, so the browser does not compute fingerprints, and nobody can be sure of what is shown. Open it by HTTPS to vote; the command line, `sluice approvals`, does it too.",
    };
  }
  const computed = await fingerprint(hold.operation, hold.sent);
  if (computed !== hold.fingerprint) {
    return {
      kind: "wrong",
      computed,
      text: "The bytes that are shown have another fingerprint than the gate tells. Do not judge this, and tell at once who runs the gate.",
    };
  }
  const there = values(hold.sent.body);
  const missing = amounts.filter((amount) => !there.has(amount));
  if (missing.length > 0) {
    return {
      kind: "wrong",
      computed,
      text: `The words tell an amount that does not stand in the bytes (${missing.join(", ")}). Do not judge this, and tell at once who runs the gate.`,
    };
  }
  return { kind: "good", computed };
}

/** Every text and number in a body. */
function values(body) {
  const found = new Set();
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
