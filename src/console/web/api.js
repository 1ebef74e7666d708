// Calls of the console's API. The gate decides everything: the page offers only acts that the gate would allow.

const BASE = "/sluice/v1/";
const DEADLINE_MS = 20_000;
/** After this time without input, the page's own requests do not keep the session alive. */
const IDLE_AFTER_MS = 15_000;

/** The gate's clock minus this machine's, in milliseconds. */
let clockOffset = 0;

/** Returns the time by the gate's clock. */
export function now() {
  return Date.now() + clockOffset;
}

/** The time of the person's last input. */
let lastInput = performance.now();
for (const event of ["pointerdown", "keydown", "hashchange"]) {
  addEventListener(
    event,
    () => {
      lastInput = performance.now();
    },
    { capture: true },
  );
}

/** Returns the time since the person's last input, in milliseconds. */
export function idleTime() {
  return performance.now() - lastInput;
}

/** A call that failed. `code` is the gate's error code, or `LOST` if no answer came. */
export class Failure extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} message
   * @param {any} [details]
   */
  constructor(status, code, message, details) {
    super(message);
    this.status = status;
    this.code = code;
    this.details = details;
    this.violations = violationTexts(details);
  }
}

/**
 * @param {any} details
 * @returns {string[]}
 */
function violationTexts(details) {
  const violations = Array.isArray(details?.violations) ? details.violations : [];
  return violations.map((/** @type {any} */ one) =>
    [one.pointer, one.expected ?? one.message ?? one.keyword].filter(Boolean).join(": "),
  );
}

/**
 * Returns what was thrown as a failure with a message.
 * @param {unknown} thrown
 */
export function asFailure(thrown) {
  return thrown instanceof Failure
    ? thrown
    : new Failure(0, "PAGE", thrown instanceof Error ? thrown.message : String(thrown));
}

/** Sends `ended` when the session has ended. */
export const sessionEvents = new EventTarget();

/**
 * @param {string} path
 * @param {Record<string, any>} [query]
 */
export async function get(path, query) {
  return call("GET", path, undefined, query);
}

/**
 * @param {string} path
 * @param {any} [body]
 * @param {number} [deadlineMs]
 */
export async function post(path, body, deadlineMs) {
  return call("POST", path, body, undefined, deadlineMs);
}

/**
 * @param {string} method
 * @param {string} path
 * @param {any} [body]
 * @param {Record<string, any>} [query]
 * @param {number} [deadlineMs]
 * @returns {Promise<{ status: number, body: any }>}
 */
export async function call(method, path, body, query, deadlineMs = DEADLINE_MS) {
  const pairs = Object.entries(query ?? {}).filter(
    ([, value]) => value !== undefined && value !== null && value !== "",
  );
  // The gate refuses a character that is encoded without need.
  const search = pairs.map(([name, value]) => `${name}=${encodeURIComponent(value).replaceAll("%3A", ":")}`).join("&");
  /** @type {Record<string, string>} */
  const headers = { accept: "application/json" };
  if (method !== "GET") headers["sluice-console"] = "1";
  else if (idleTime() > IDLE_AFTER_MS) headers["sluice-background"] = "1";
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(`${BASE}${path}${search && `?${search}`}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      signal: AbortSignal.timeout(deadlineMs),
    });
  } catch {
    throw noAnswer(method, path);
  }
  const date = Date.parse(response.headers.get("date") ?? "");
  if (Math.abs(date - Date.now()) > 2_000) clockOffset = date - Date.now();
  let content = null;
  try {
    const text = await response.text();
    content = text === "" ? null : JSON.parse(text);
  } catch {
    throw noAnswer(method, path);
  }
  if (response.ok) return { status: response.status, body: content };
  if (response.status === 401 && !path.startsWith("session")) sessionEvents.dispatchEvent(new Event("ended"));
  throw refusal(response.status, content);
}

/**
 * @param {string} method
 * @param {string} path
 */
function noAnswer(method, path) {
  const again = path.endsWith("/export")
    ? "You have no file, but the audit log may have the entry of the export: exporting again makes another entry."
    : "Check before you try again; trying again is harmless.";
  const message =
    method === "GET"
      ? "The gate does not answer. Is it running, and is this machine connected?"
      : `The gate did not answer, so it is unknown whether this was done. ${again}`;
  return new Failure(0, "LOST", message);
}

/**
 * @param {number} status
 * @param {any} content
 */
function refusal(status, content) {
  const error = content?.error;
  if (typeof error === "string") return new Failure(status, error, capitalize(content.errorDetails ?? error));
  if (error?.code === "TOO_EARLY" && error.details?.from) {
    const time = new Date(error.details.from).toLocaleTimeString(undefined, { hourCycle: "h23" });
    const message = `Too early; retry at ${time}. Upstream may still execute this call.`;
    return new Failure(status, error.code, message, error.details);
  }
  if (error) return new Failure(status, error.code, capitalize(error.message), error.details);
  return new Failure(
    status,
    "UNREADABLE",
    `The gate answered ${status} without a message. Report this to its operators.`,
  );
}

/** @param {unknown} text */
function capitalize(text) {
  const trimmed = String(text).trim();
  return trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
}
