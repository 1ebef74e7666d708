// Sign-in: by the organization's provider, or with a token.

import { asFailure, call, get } from "./api.js";
import { errorBox, field, fill, h } from "./dom.js";
import { formatTime } from "./words.js";

/** Returns the token of a sign-in link, and removes it from the address. */
export function takeToken() {
  const found = /^#token=([A-Za-z0-9_.=-]+)$/.exec(location.hash);
  if (location.hash.startsWith("#token=")) history.replaceState(null, "", `${location.pathname}#/queue`);
  return found ? found[1] : null;
}

/** @type {Record<string, string>} */
const ERRORS = {
  declined: "Your organization's sign-in declined.",
  "other-browser": "This sign-in was started in another browser, or was already used. Start again.",
  expired: "The sign-in took too long. Start again.",
  provider:
    "Your organization's sign-in cannot be reached, or its answer is invalid. Try again; if that fails, tell the gate's operators.",
  "invalid-token": "The token from your organization's sign-in is not valid here. Tell the gate's operators.",
  "no-role": "You have no role here: ask an administrator for one.",
  store: "The gate's store does not answer. Try again in a moment.",
  "signed-out": "Your session has ended. Sign in to return to this page.",
  busy: "Too many people are signing in. Try again in a moment.",
};

/** Returns why the provider's sign-in failed, if it did, and removes the error from the address. */
export function takeError() {
  const found = /^#error=([a-z-]+)$/.exec(location.hash);
  if (!found) return undefined;
  history.replaceState(null, "", `${location.pathname}#/queue`);
  return ERRORS[found[1]] ?? "The sign-in failed. Start again.";
}

/**
 * Returns the sign-in page.
 * @param {(session: Session) => void} enter receives the new session
 * @param {string} [notice]
 */
export function signIn(enter, notice) {
  const body = h("div", {}, h("p", { class: "waiting" }, "One moment…"));
  const page = h(
    "div",
    { class: "signin" },
    h("span", { class: "mark large", "aria-hidden": "true" }),
    h("h1", { tabindex: "-1" }, "Sluice"),
    h("p", { class: "muted" }, "Approve and control payments."),
    notice && h("p", { class: "notice", role: "status" }, notice),
    body,
  );
  showWays(body, enter);
  return page;
}

/**
 * @param {HTMLElement} body
 * @param {(session: Session) => void} enter
 */
async function showWays(body, enter) {
  /** @type {{ oidc?: { name?: string }, token?: boolean }} */
  let ways;
  try {
    ways = (await get("session/ways")).body;
  } catch (failure) {
    fill(
      body,
      errorBox(failure, () => showWays(body, enter)),
    );
    return;
  }
  fill(
    body,
    ways.oidc &&
      h(
        "a",
        { class: "button primary wide", href: "/sluice/v1/session/start" },
        `Sign in with ${ways.oidc.name ?? "your organization"}`,
      ),
    ways.oidc && ways.token
      ? h("details", { class: "other" }, h("summary", {}, "With a token"), tokenForm(enter))
      : ways.token && tokenForm(enter),
    !ways.oidc && !ways.token && h("p", {}, "Sign-in is not configured. Ask the gate's operators."),
  );
}

/**
 * Returns what a token says, unverified: the gate verifies it.
 * @param {string} token
 * @returns {{ iss?: unknown, sub?: unknown, exp?: unknown } | null}
 */
function statementsOf(token) {
  try {
    const text = atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"));
    return JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (one) => one.charCodeAt(0))));
  } catch {
    return null;
  }
}

/**
 * Returns a page that asks before it signs in by a link, because anyone can send a link with a token of theirs: people
 * would then act under another name.
 * @param {string} token
 * @param {(session: Session) => void} enter receives the new session
 * @param {() => void} decline
 */
export async function linkSignIn(token, enter, decline) {
  /** @type {{ oidc?: { name?: string } }} */
  const ways = (await get("session/ways")).body;
  if (ways.oidc) {
    const name = ways.oidc.name ?? "your organization";
    return signIn(enter, `Sign-in links are switched off here, because people sign in with ${name}.`);
  }
  const stated = statementsOf(token);
  if (typeof stated?.sub !== "string") return signIn(enter, "The sign-in link is damaged. Ask for another.");
  const current = await get("session").catch(() => null);
  const status = h("div", {});
  const accept = h("button", { type: "button", class: "primary wide" }, `Sign in as ${stated.sub}`);
  accept.addEventListener("click", async () => {
    fill(status);
    accept.disabled = true;
    try {
      const { body } = await call("POST", "session", { token });
      dispatchEvent(new Event("sluice-signed-in"));
      enter(body);
    } catch (failure) {
      fill(status, errorBox(asFailure(failure)));
      accept.disabled = false;
    }
  });
  const until = typeof stated.exp === "number" ? formatTime(new Date(stated.exp * 1000).toISOString()) : null;
  return h(
    "div",
    { class: "signin" },
    h("span", { class: "mark large", "aria-hidden": "true" }),
    h("h1", { tabindex: "-1" }, "Sign in by this link?"),
    h("p", {}, "The link signs you in as ", h("strong", {}, stated.sub), ` from ${stated.iss}.`),
    until && h("p", { class: "muted" }, `Its token is valid until ${until}.`),
    current && h("p", { class: "notice" }, `You are signed in as ${current.body.person.subject} now.`),
    h("p", {}, "Continue only if this is you. What you approve is recorded under this name."),
    status,
    accept,
    h("button", { type: "button", class: "wide", onclick: decline }, "Do not sign in"),
  );
}

/** @param {(session: Session) => void} enter */
function tokenForm(enter) {
  // Browsers neither remember this form nor send it by themselves.
  const input = h("input", {
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    name: "token",
  });
  const status = h("div", {});
  const button = h("button", { class: "primary wide" }, "Sign in");
  const form = h(
    "form",
    { novalidate: true },
    field("Token", input, "A token of the console's issuer: from whoever runs it, or from what `sluice demo` printed."),
    status,
    button,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    fill(status);
    const token = input.value.trim();
    if (token === "") return input.focus();
    button.disabled = true;
    try {
      const { body } = await call("POST", "session", { token });
      dispatchEvent(new Event("sluice-signed-in"));
      enter(body);
    } catch (failure) {
      fill(status, errorBox(failure));
      button.disabled = false;
      input.select();
    }
  });
  return form;
}
