// The policies in force, the set that waits for approval, sets that somebody tries, and explanations of calls.

import { get, post } from "./api.js";
import { ask, reasonField } from "./dialog.js";
import { badge, errorBox, fill, h, timeTag, toast } from "./dom.js";
import { explainSection } from "./explain.js";
import { hindsight } from "./hindsight.js";
import { passkeySection, signAct } from "./passkey.js";
import { passTables, ruleItem, versionCode } from "./tables.js";
import { trialSection } from "./trial.js";
import { EFFECTS, formatAgo, personName } from "./words.js";

/** When to look again for what the gate is still reading. */
const SOON_MS = 1000;

/**
 * @param {App} app
 * @param {string[]} path `like`, and the environment and name of a payment to explain
 * @returns {View}
 */
export function view(app, [word, ...like]) {
  const body = h("div", { class: "cards" }, h("p", { class: "waiting" }, "One moment…"));
  const explain = explainSection(word === "like" ? like : []);
  const element = h(
    "div",
    { class: "page" },
    h("h1", {}, "Rules"),
    body,
    explain.element,
    passkeySection(app),
    trialSection(app),
  );
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
    explain.offer(policies);
  }

  refresh();
  return { title: "Rules", element, refresh };
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
      candidate.mustSign
        ? ". Two policy admins must sign it with their passkeys before it comes into force."
        : ". It may allow more than the version in force, so two policy admins must approve it.",
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
    perform: async () => {
      const path = `policies/${candidate.version}/agree`;
      const signed = candidate.mustSign
        ? await signAct("activation", null, { path }, { from: now, to: candidate.version })
        : {};
      return (await post(path, { ...signed, reason: reason.text() })).body;
    },
  });
  if (!answer) return;
  toast(
    answer.missing > 0
      ? "Approved. One more person must approve it."
      : "Fully approved: it comes into force on every node.",
  );
  refresh();
}
