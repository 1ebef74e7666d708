// The console's API, which decides everything: what is refused here is refused there.

const BASE = "/sluice/v1/";
const DEADLINE_MS = 20_000;
/** Whoever touched the page so lately is at it. */
const ATTENDED_MS = 15_000;

/** How far this machine's clock is behind the gate's, in milliseconds. */
let behind = 0;

/** Now, by the gate's clock. */
export function now() {
  return Date.now() + behind;
}

/** When a person last did anything: what the page asks by itself does not keep a session alive. */
let touched = performance.now();
for (const sign of ["pointerdown", "keydown", "hashchange"]) addEventListener(sign, () => (touched = performance.now()), { capture: true });

/** An act that was not done, in words. `code` is the gate's, or `LOST` where it did not answer. */
export class Failure extends Error {
  constructor(status, code, message, details) {
    super(message);
    Object.assign(this, { status, code, details, violations: violations(details) });
  }
}

function violations(details) {
  const told = Array.isArray(details?.violations) ? details.violations : [];
  return told.map((one) => [one.pointer, one.expected ?? one.message ?? one.keyword].filter(Boolean).join(": "));
}

/** What hears that nobody is signed in any more. */
export const session = new EventTarget();

export async function get(path, query) {
  return call("GET", path, undefined, query);
}

export async function post(path, body) {
  return call("POST", path, body);
}

export async function call(method, path, body, query) {
  const pairs = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  // The gate takes names and values that mean themselves, so nothing is encoded that it does not take.
  const asked = pairs.map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%3A", ":")}`).join("&");
  const headers = { accept: "application/json" };
  if (method !== "GET") headers["sluice-console"] = "1";
  else if (performance.now() - touched > ATTENDED_MS) headers["sluice-background"] = "1";
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(`${BASE}${path}${asked && `?${asked}`}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      signal: AbortSignal.timeout(DEADLINE_MS),
    });
  } catch {
    throw lost(method);
  }
  const date = Date.parse(answer.headers.get("date") ?? "");
  if (Math.abs(date - Date.now()) > 2_000) behind = date - Date.now();
  let told = null;
  try {
    const text = await answer.text();
    told = text === "" ? null : JSON.parse(text);
  } catch {
    throw lost(method);
  }
  if (answer.ok) return { status: answer.status, body: told };
  const failure = refused(answer.status, told);
  if (answer.status === 401 && !path.startsWith("session")) session.dispatchEvent(new Event("ended"));
  throw failure;
}

function lost(method) {
  const message =
    method === "GET"
      ? "The gate does not answer. Is it running, and is this machine connected?"
      : "The gate did not answer, so nobody knows whether it heard this. Look at how things stand before you do it again; doing it twice does no harm.";
  return new Failure(0, "LOST", message);
}

function refused(status, told) {
  const error = told?.error;
  if (typeof error === "string") return new Failure(status, error, sentence(told.errorDetails ?? error));
  if (error) return new Failure(status, error.code, sentence(error.message), error.details);
  return new Failure(status, "UNREADABLE", `The gate answered ${status} without a word. Tell who runs it.`);
}

function sentence(text) {
  const trimmed = String(text).trim();
  return trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
}
