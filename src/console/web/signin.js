// Who comes in: by the organization's own sign-in, or with a token.

import { call, get } from "./api.js";
import { field, fill, h, trouble } from "./dom.js";

/** The token of a link that signs in, once: it leaves the address at once. */
export function takeToken() {
  const found = /^#token=([A-Za-z0-9_.=-]+)$/.exec(location.hash);
  if (location.hash.startsWith("#token=")) history.replaceState(null, "", `${location.pathname}#/queue`);
  return found ? found[1] : null;
}

const REFUSED = {
  declined: "Your organization's sign-in said no.",
  "other-browser": "This sign-in was begun elsewhere, or was used already. Begin again.",
  expired: "That took too long. Begin again.",
  provider: "Your organization's sign-in cannot be reached, or answers otherwise than it should. Try again, and then tell who runs the gate.",
  "not-believed": "What your organization's sign-in says of you is not believed here. Tell who runs the gate.",
  "no-role": "You have no role here: ask who runs the gate for one.",
  store: "The gate's store does not answer. Try again in a moment.",
  busy: "Too many people are signing in. Try again in a moment.",
};

/** Why the provider's way led nowhere, if it did. */
export function takeError() {
  const found = /^#error=([a-z-]+)$/.exec(location.hash);
  if (!found) return undefined;
  history.replaceState(null, "", `${location.pathname}#/queue`);
  return REFUSED[found[1]] ?? "Nobody is signed in by that. Begin again.";
}

/** `enter` is told who came in; `why` is said above. */
export function signIn(enter, why) {
  const place = h("div", {}, h("p", { class: "waiting" }, "One moment…"));
  const page = h(
    "div",
    { class: "signin" },
    h("span", { class: "mark large", "aria-hidden": "true" }),
    h("h1", { tabindex: "-1" }, "Sluice"),
    h("p", { class: "muted" }, "Payments that wait for people."),
    why && h("p", { class: "notice", role: "status" }, why),
    place,
  );
  ways(place, enter);
  return page;
}

async function ways(place, enter) {
  let there;
  try {
    there = (await get("session/ways")).body;
  } catch (failure) {
    fill(place, trouble(failure, () => ways(place, enter)));
    return;
  }
  fill(
    place,
    there.oidc && h("a", { class: "button primary wide", href: "/sluice/v1/session/start" }, `Sign in with ${there.oidc.name ?? "your organization"}`),
    there.oidc && there.token ? h("details", { class: "other" }, h("summary", {}, "With a token"), byToken(enter)) : there.token && byToken(enter),
    !there.oidc && !there.token && h("p", {}, "Nobody can sign in here: the configuration names no way. Ask who runs the gate."),
  );
}

function byToken(enter) {
  // Not a form that a browser would remember, and nothing that it would send by itself.
  const input = h("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true, name: "token" });
  const told = h("div", {});
  const button = h("button", { class: "primary wide" }, "Sign in");
  const form = h("form", { novalidate: true }, field("Token", input, "From `sluice token make`, or the demo's own lines."), told, button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    fill(told);
    const token = input.value.trim();
    if (token === "") return input.focus();
    button.disabled = true;
    try {
      const { body } = await call("POST", "session", { token });
      dispatchEvent(new Event("sluice-signed-in"));
      enter(body);
    } catch (failure) {
      fill(told, trouble(failure));
      button.disabled = false;
      input.select();
    }
  });
  return form;
}
