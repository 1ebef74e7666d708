// The policies in force, the set that waits for approval, and explanations of calls.

import { asFailure, get, post } from "./api.js";
import { ask, reasonField } from "./dialog.js";
import { badge, errorBox, field, fill, h, offerOperations, select, timeTag, toast, withCode } from "./dom.js";
import { hindsight } from "./hindsight.js";
import { formatAgo, formatUnits, formatUsd, personName } from "./words.js";

/** @type {Record<Effect, [string, string]>} */
const EFFECTS = { allow: ["Allowed", "good"], hold: ["Held for approval", "waits"], deny: ["Denied", "bad"] };

/** When to look again for what the gate is still reading. */
const SOON_MS = 1000;

/**
 * @param {App} app
 * @returns {View}
 */
export function view(app) {
  const body = h("div", { class: "cards" }, h("p", { class: "waiting" }, "One moment…"));
  const explain = explainSection();
  const element = h("div", { class: "page" }, h("h1", {}, "Rules"), body, explain.element);
  let last = "";

  async function refresh() {
    /** @type {Policies} */
    let policies;
    try {
      policies = (await get("policies")).body;
    } catch (failure) {
      if (last === "") fill(body, errorBox(failure, refresh));
      return;
    }
    const text = JSON.stringify(policies);
    if (text === last) {
      if (policies.candidate?.history === null) setTimeout(refresh, SOON_MS);
      return;
    }
    last = text;
    fill(body, candidateSection(app, policies, refresh), tableSection(policies), inForce(policies));
    if (policies.candidate?.history === null) setTimeout(refresh, SOON_MS);
    explain.offer(policies.operations);
  }

  refresh();
  return { title: "Rules", element, refresh };
}

/** @param {string} version */
function versionCode(version) {
  return h("code", { title: version }, version.slice(0, 16));
}

/** @param {Policies} policies */
function inForce(policies) {
  const { rules = [], limits = [], approvals = [] } = policies;
  /** @type {Effect[]} */
  const effects = ["deny", "hold", "allow"];
  return h(
    "section",
    { class: "card", "aria-labelledby": "in-force" },
    h("h2", { id: "in-force" }, "In force"),
    h(
      "p",
      {},
      "Version ",
      versionCode(policies.version),
      policies.loosening === "two-people"
        ? ". A version that may allow more comes into force when two policy admins have approved it."
        : ". A new version comes into force as soon as it is loaded.",
    ),
    h("p", { class: "muted" }, "Deny overrides hold, and hold overrides allow. Calls that match no rule are denied."),
    effects.map((effect) => {
      const some = rules.filter((rule) => rule.effect === effect);
      const [word, kind] = EFFECTS[effect];
      return (
        some.length > 0 && h("div", {}, h("h3", {}, badge(word, kind)), h("dl", { class: "rules" }, some.map(ruleItem)))
      );
    }),
    limits.length > 0 && [h("h3", {}, "Limits"), h("dl", { class: "rules" }, limits.map(ruleItem))],
    approvals.length > 0 && [h("h3", {}, "Approvals"), h("dl", { class: "rules" }, approvals.map(ruleItem))],
  );
}

/**
 * The largest amounts that pass, filled in when the gate has made the table.
 *
 * @param {Policies} policies
 */
function tableSection({ version }) {
  const content = h("div", { "aria-live": "polite" }, h("p", { class: "waiting" }, "One moment…"));
  const load = async () => {
    try {
      /** @type {PassTable} */
      const table = (await get("policies/table")).body;
      fill(content, table.version === version ? passTables(table) : h("p", {}, "The rules have just changed."));
    } catch (failure) {
      fill(content, errorBox(failure, load));
    }
  };
  load();
  return h(
    "section",
    { class: "card", "aria-labelledby": "pass-table" },
    h("h2", { id: "pass-table" }, "What passes, and with how many people"),
    h(
      "p",
      { class: "muted" },
      "The largest single amounts, as the analysis proves them; limits that are used up stop smaller ones.",
    ),
    content,
  );
}

/** @param {PassTable} table */
function passTables({ people, operations }) {
  const heads = people.map((count) => (count === 0 ? "Nobody" : count === 1 ? "1 person" : `${count} people`));
  return operations.map(({ operation, rows, limits }) => [
    h("h3", {}, h("code", {}, operation)),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": operation },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Caller", "Destination", ...heads].map((head) => h("th", { scope: "col" }, head)),
          ),
        ),
        h(
          "tbody",
          {},
          rows.map(({ environment, caller, destination, most }) =>
            h(
              "tr",
              {},
              h("td", {}, withCode(environment === null ? caller : `${environment}, ${caller}`)),
              h("td", {}, withCode(destination)),
              most.map(({ words }) => h("td", {}, words)),
            ),
          ),
        ),
      ),
    ),
    limits.length > 0 && h("dl", { class: "rules" }, limits.map(ruleItem)),
  ]);
}

/** @param {Rule} rule */
function ruleItem({ id, words, mode }) {
  return h(
    "div",
    {},
    h("dt", {}, h("code", {}, id), mode === "shadow" && badge("shadow mode", "note")),
    h("dd", {}, withCode(words)),
  );
}

/**
 * @param {App} app
 * @param {Policies} policies
 * @param {() => void} refresh
 */
function candidateSection(app, { candidate, version: now }, refresh) {
  if (candidate === null) return null;
  const mine = candidate.agreed.includes(personName(app.session().person));
  const decided = candidate.decisions.filter(({ from, to }) => from !== to);
  return h(
    "section",
    { class: "card waits", "aria-labelledby": "candidate" },
    h("h2", { id: "candidate" }, "A new version waits for approval"),
    h(
      "p",
      {},
      "Version ",
      versionCode(candidate.version),
      " was loaded ",
      timeTag(formatAgo(candidate.since), candidate.since),
      ". It may allow more than the version in force, so two policy admins must approve it.",
    ),
    h(
      "p",
      {},
      candidate.agreed.length > 0
        ? `Approved by ${candidate.agreed.join(", ")}; needs ${candidate.missing} more.`
        : "Not approved by anyone yet.",
    ),
    h("h3", {}, "Changes"),
    h("pre", { class: "words", tabindex: "0", "aria-label": "Changes" }, candidate.words),
    candidate.rates.length > 0 && [
      h("h3", {}, "Rates"),
      h(
        "ul",
        {},
        candidate.rates.map((rate) => h("li", {}, rate)),
      ),
    ],
    h("h3", {}, "What it would have changed"),
    hindsight(candidate.history),
    h("h3", {}, "Calls since then with another decision"),
    decided.length === 0
      ? h("p", { class: "muted" }, "None on this node.")
      : h(
          "ul",
          {},
          decided.map(({ from, to, calls }) =>
            h(
              "li",
              {},
              `${calls} ${calls === 1 ? "call" : "calls"}: now ${EFFECTS[from][0].toLowerCase()}, with the new version ${EFFECTS[to][0].toLowerCase()}`,
            ),
          ),
        ),
    mine && h("p", {}, "You approved it. One more person must approve it."),
    app.may("policy-admin") &&
      !mine &&
      h(
        "p",
        {},
        h(
          "button",
          { type: "button", class: "good", id: "agree", onclick: () => agree(candidate, now, refresh) },
          "Approve…",
        ),
      ),
    !app.may("policy-admin") && h("p", { class: "muted" }, "Policy admins can approve it."),
  );
}

/**
 * @param {Candidate} candidate
 * @param {string} now the version in force
 * @param {() => void} refresh
 */
async function agree(candidate, now, refresh) {
  const reason = reasonField("Why", "The audit log keeps it.");
  const answer = await ask({
    title: "Approve the new version?",
    content: [
      h("p", {}, "Version ", versionCode(candidate.version), " replaces version ", versionCode(now), "."),
      h("pre", { class: "words", tabindex: "0", "aria-label": "Changes" }, candidate.words),
      reason.element,
    ],
    label:
      candidate.missing <= 1
        ? `Put ${candidate.version.slice(0, 8)} in force`
        : `Approve ${candidate.version.slice(0, 8)}`,
    kind: "good",
    check: reason.check,
    perform: async () => (await post(`policies/${candidate.version}/agree`, { reason: reason.text() })).body,
  });
  if (!answer) return;
  toast(
    answer.missing > 0
      ? "Approved. One more person must approve it."
      : "Fully approved: it comes into force on every node.",
  );
  refresh();
}

const EXAMPLE = `{
  "requestId": "example-1",
  "source": {"chain": "POLYGON", "currency": "usdt", "amount": "2500"},
  "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}
}`;

function explainSection() {
  /**
   * @param {string} value
   * @param {Props} [props]
   */
  const text = (value, props) =>
    h("input", { type: "text", value, autocomplete: "off", autocapitalize: "off", spellcheck: "false", ...props });
  const environment = select(
    [
      ["production", "Production"],
      ["sandbox", "Sandbox"],
    ],
    "production",
  );
  const operation = select([["createSwap", "createSwap"]], "createSwap");
  const issuer = text("");
  const subject = text("someone");
  const roles = text("");
  const body = h("textarea", { rows: "7", spellcheck: "false", autocomplete: "off" });
  body.value = EXAMPLE;
  const byStore = h("input", { type: "checkbox", checked: true, id: "by-store" });
  const result = h("div", { "aria-live": "polite" });
  const button = h("button", { type: "submit", class: "primary" }, "Explain");
  const form = h(
    "form",
    { novalidate: true },
    h(
      "div",
      { class: "grid" },
      field("Environment", environment),
      field("Operation", operation),
      field("Caller's issuer", issuer, "The issuer's name in the configuration."),
      field("Caller", subject),
      field("Roles", roles, "Separated by commas."),
    ),
    field("Body, as JSON", body),
    h(
      "p",
      { class: "check" },
      byStore,
      h("label", { for: "by-store" }, "Include earlier payments and the usage of limits"),
    ),
    button,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    let sent;
    try {
      sent = body.value.trim() === "" ? undefined : JSON.parse(body.value);
    } catch (error) {
      fill(result, errorBox(new Error(`The body is not JSON: ${asFailure(error).message}.`)));
      return;
    }
    const caller = {
      issuer: issuer.value.trim(),
      subject: subject.value.trim(),
      roles: roles.value
        .split(",")
        .map((role) => role.trim())
        .filter(Boolean),
    };
    button.disabled = true;
    try {
      const call = {
        environment: environment.value,
        operation: operation.value.trim(),
        caller,
        body: sent,
        byStore: byStore.checked,
      };
      fill(result, explanation((await post("explain", call)).body));
    } catch (failure) {
      fill(result, errorBox(failure));
    }
    button.disabled = false;
  });
  const element = h(
    "section",
    { class: "card", "aria-labelledby": "explain" },
    h("h2", { id: "explain" }, "How would a call be decided?"),
    h("p", { class: "muted" }, "Nothing is sent and nothing is counted."),
    form,
    result,
  );
  /** @param {Operation[]} operations */
  const offer = (operations) => offerOperations(operation, operations, (one) => one.class !== "read");
  return { element, offer };
}

/** @param {Explanation} answer */
function explanation(answer) {
  const [word, kind] = EFFECTS[answer.effect];
  /**
   * @param {string} title
   * @param {string[]} items
   */
  const list = (title, items) =>
    items.length > 0 && [
      h("h4", {}, title),
      h(
        "ul",
        {},
        items.map((item) => h("li", {}, item)),
      ),
    ];
  return h(
    "div",
    { class: `became ${kind}` },
    h(
      "p",
      {},
      h("strong", {}, word),
      answer.microUsd !== null && `, worth ${formatUsd(answer.microUsd)}`,
      answer.approvals.length > 0 && `; needs approval: ${answer.approvals.join(", ")}`,
      ".",
    ),
    list(
      "Because",
      answer.reasons.map(({ cause, text }) => `${cause}: ${text}`),
    ),
    list(
      "Overridden",
      answer.outweighed.map(({ cause, text }) => `${cause}: ${text}`),
    ),
    list(
      "In shadow mode",
      answer.shadows.map(({ cause, text }) => `${cause}: ${text}`),
    ),
    list(
      "Counts in",
      answer.counts.map(
        ({ limit, unit, units, used, max }) =>
          `${limit}: ${formatUnits(units, unit)}${used === null ? "" : ` on top of ${formatUnits(used, unit)}`} of ${formatUnits(max, unit)}`,
      ),
    ),
    list(
      "Nearly matching rules",
      answer.near.map(({ rule: id, missing }) => `${id}: ${missing}`),
    ),
  );
}
