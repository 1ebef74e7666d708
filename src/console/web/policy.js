// The rules in force, what they say of a request, and the set that waits for two people.

import { get, post } from "./api.js";
import { ask, reasonField } from "./dialog.js";
import { badge, field, fill, h, moment, offer, prose, select, toast, trouble } from "./dom.js";
import { ago, counted, person, usd } from "./words.js";

const EFFECTS = { allow: ["Allowed", "good"], hold: ["Waits for people", "waits"], deny: ["Denied", "bad"] };

export function view(desk) {
  const place = h("div", { class: "cards" }, h("p", { class: "waiting" }, "One moment…"));
  const explain = explainSection();
  const element = h("div", { class: "page" }, h("h1", {}, "Rules"), place, explain.element);
  let last = "";

  async function refresh() {
    let told;
    try {
      told = (await get("policies")).body;
    } catch (failure) {
      if (last === "") fill(place, trouble(failure, refresh));
      return;
    }
    const print = JSON.stringify(told);
    if (print === last) return;
    last = print;
    fill(place, waiting(desk, told, refresh), inForce(told));
    explain.offer(told.operations);
  }

  refresh();
  return { title: "Rules", element, refresh };
}

function version(of) {
  return h("code", { title: of }, of.slice(0, 16));
}

function inForce(told) {
  const { rules = [], limits = [], approvals = [] } = told;
  return h(
    "section",
    { class: "card", "aria-labelledby": "in-force" },
    h("h2", { id: "in-force" }, "In force"),
    h("p", {}, "Version ", version(told.version), told.loosening === "two-people" ? ". A set that lets more pass waits until two policy admins agree." : ". A new set takes force as soon as it is loaded."),
    h("p", { class: "muted" }, "Deny beats hold beats allow; what no rule is about is denied."),
    ["deny", "hold", "allow"].map((effect) => {
      const some = rules.filter((rule) => rule.effect === effect);
      const [word, kind] = EFFECTS[effect];
      return some.length > 0 && h("div", {}, h("h3", {}, badge(word, kind)), h("dl", { class: "rules" }, some.map(rule)));
    }),
    limits.length > 0 && [h("h3", {}, "Limits"), h("dl", { class: "rules" }, limits.map(rule))],
    approvals.length > 0 && [h("h3", {}, "Who must agree"), h("dl", { class: "rules" }, approvals.map(rule))],
  );
}

function rule({ id, words, mode }) {
  return h("div", {}, h("dt", {}, h("code", {}, id), mode === "shadow" && badge("not in force", "note")), h("dd", {}, prose(words)));
}

function waiting(desk, { candidate, version: now }, refresh) {
  if (candidate === null) return null;
  const mine = candidate.agreed.includes(person(desk.me.person));
  const decided = candidate.decisions.filter(({ from, to }) => from !== to);
  return h(
    "section",
    { class: "card waits", "aria-labelledby": "candidate" },
    h("h2", { id: "candidate" }, "A new set waits"),
    h("p", {}, "Version ", version(candidate.version), " waits since ", moment(ago(candidate.since), candidate.since), ". It may let pass what the set in force does not, so two policy admins must agree."),
    h("p", {}, candidate.agreed.length > 0 ? `${candidate.agreed.join(", ")} agreed; ${candidate.missing} more must.` : "Nobody has agreed yet."),
    h("h3", {}, "What is otherwise"),
    h("pre", { class: "words", tabindex: "0", "aria-label": "What is otherwise" }, candidate.words),
    candidate.rates.length > 0 && [h("h3", {}, "Rates"), h("ul", {}, candidate.rates.map((rate) => h("li", {}, rate)))],
    h("h3", {}, "Calls since then that it decides otherwise"),
    decided.length === 0
      ? h("p", { class: "muted" }, "None at this node.")
      : h("ul", {}, decided.map(({ from, to, calls }) => h("li", {}, `${calls} ${calls === 1 ? "call" : "calls"}: now ${EFFECTS[from][0].toLowerCase()}, then ${EFFECTS[to][0].toLowerCase()}`))),
    mine && h("p", {}, "You have agreed. It takes one more person."),
    desk.may("policy-admin") && !mine && h("p", {}, h("button", { type: "button", class: "good", id: "agree", onclick: () => agree(candidate, now, refresh) }, "Agree to it…")),
    !desk.may("policy-admin") && h("p", { class: "muted" }, "Policy admins agree."),
  );
}

async function agree(candidate, now, refresh) {
  const reason = reasonField("Why", "It stands in the audit chain.");
  const answer = await ask({
    title: "Agree to the new set?",
    content: [
      h("p", {}, "After ", version(now), " comes exactly ", version(candidate.version), "."),
      h("pre", { class: "words", tabindex: "0", "aria-label": "What is otherwise" }, candidate.words),
      reason.element,
    ],
    label: candidate.missing <= 1 ? `Put ${candidate.version.slice(0, 8)} in force` : `Agree to ${candidate.version.slice(0, 8)}`,
    kind: "good",
    check: reason.check,
    perform: async () => (await post(`policies/${candidate.version}/agree`, { reason: reason.text() })).body,
  });
  if (!answer) return;
  toast(answer.missing > 0 ? "You agreed. One more person has to." : "Two people agree: it takes force at every node.");
  refresh();
}

const EXAMPLE = `{
  "requestId": "example-1",
  "source": {"chain": "POLYGON", "currency": "usdt", "amount": "2500"},
  "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}
}`;

function explainSection() {
  const text = (value, props) => h("input", { type: "text", value, autocomplete: "off", autocapitalize: "off", spellcheck: "false", ...props });
  const environment = select([["production", "Production"], ["sandbox", "Sandbox"]], "production");
  const operation = select([["createSwap", "createSwap"]], "createSwap");
  const issuer = text("");
  const subject = text("somebody");
  const roles = text("");
  const body = h("textarea", { rows: "7", spellcheck: "false", autocomplete: "off" });
  body.value = EXAMPLE;
  const byStore = h("input", { type: "checkbox", checked: true, id: "by-store" });
  const told = h("div", { "aria-live": "polite" });
  const button = h("button", { type: "submit", class: "primary" }, "Explain");
  const form = h(
    "form",
    { novalidate: true },
    h(
      "div",
      { class: "grid" },
      field("Environment", environment),
      field("Operation", operation),
      field("Caller's issuer", issuer, "Its name in the configuration."),
      field("Caller", subject),
      field("Roles", roles, "With commas between."),
    ),
    field("Body, as JSON", body),
    h("p", { class: "check" }, byStore, h("label", { for: "by-store" }, "Ask the store too: what was paid before, and what is used of limits")),
    button,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    let sent;
    try {
      sent = body.value.trim() === "" ? undefined : JSON.parse(body.value);
    } catch (error) {
      return fill(told, trouble({ message: `The body is no JSON: ${error.message}.` }));
    }
    const caller = { issuer: issuer.value.trim(), subject: subject.value.trim(), roles: roles.value.split(",").map((role) => role.trim()).filter(Boolean) };
    button.disabled = true;
    try {
      fill(told, explained((await post("explain", { environment: environment.value, operation: operation.value.trim(), caller, body: sent, byStore: byStore.checked })).body));
    } catch (failure) {
      fill(told, trouble(failure));
    }
    button.disabled = false;
  });
  const element = h(
    "section",
    { class: "card", "aria-labelledby": "explain" },
    h("h2", { id: "explain" }, "What would become of a call?"),
    h("p", { class: "muted" }, "Nothing is sent and nothing is counted."),
    form,
    told,
  );
  return { element, offer: (operations) => offer(operation, operations, (one) => one.class !== "read") };
}

function explained(answer) {
  const [word, kind] = EFFECTS[answer.effect];
  const list = (title, items) => items.length > 0 && [h("h4", {}, title), h("ul", {}, items.map((item) => h("li", {}, item)))];
  return h(
    "div",
    { class: `became ${kind}` },
    h("p", {}, h("strong", {}, word), answer.microUsd !== null && `, worth ${usd(answer.microUsd)}`, answer.approvals.length > 0 && `; to agree: ${answer.approvals.join(", ")}`, "."),
    list("Because", answer.reasons.map(({ cause, text }) => `${cause}: ${text}`)),
    list("Outweighed", answer.outweighed.map(({ cause, text }) => `${cause}: ${text}`)),
    list("Not in force, but would say", answer.shadows.map(({ cause, text }) => `${cause}: ${text}`)),
    list("Counts in", answer.counts.map(({ limit, unit, units, used, max }) => `${limit}: ${counted(units, unit)}${used === null ? "" : ` on top of ${counted(used, unit)}`} of ${counted(max, unit)}`)),
    list("Nearly about it", answer.near.map(({ rule: id, missing }) => `${id}: ${missing}`)),
  );
}
