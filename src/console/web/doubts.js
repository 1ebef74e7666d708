// Calls of unknown outcome, and how operators settle them.

import { get, post } from "./api.js";
import { ask, reasonField } from "./dialog.js";
import { badge, card, field, h, timeTag, toast } from "./dom.js";
import { signAct } from "./passkey.js";
import { formatAgo, movement, personName, wordOf } from "./words.js";

/** @type {Record<string, string>} */
const WHY = {
  silent: "upstream did not answer",
  broken: "upstream's answer was cut off",
  unproven: "upstream's answer does not show the outcome",
  unbelieved: "upstream answered with a success that is not the answer to this call",
  lapsed: "the gate that sent it stopped",
  forgotten: "the store lost its record",
};

/** @param {App} app */
export function section(app) {
  /** @returns {Promise<{ requests: UnknownRequest[], next: string | null }>} */
  const load = async () => (await get("requests", { state: "unknown", limit: 50 })).body;
  return card("doubts", "Unknown outcome", load, (all, refresh) =>
    all.requests.length === 0
      ? h(
          "p",
          { class: "muted" },
          "None. Calls with an unknown outcome appear here; limits count them until the outcome is known.",
        )
      : [
          h(
            "p",
            { class: "muted" },
            "Upstream may have executed these calls, so limits count them, and the gate never sends them again. Check the outcome with upstream.",
          ),
          h(
            "ul",
            { class: "plain" },
            all.requests.map((request) => requestItem(app, request, refresh)),
          ),
          all.next && h("p", { class: "muted" }, "There are more; `sluice requests list` lists all of them."),
        ],
  );
}

/**
 * @param {App} app
 * @param {UnknownRequest} request
 * @param {() => void} refresh
 */
export function requestItem(app, request, refresh) {
  const isOperator = app.may("operator");
  const isMine = request.saidAbsent === personName(app.session().person);
  const gaveUp = request.saidAbandoned === personName(app.session().person);
  const label = request.requestId ?? request.name;
  return h(
    "li",
    { class: "became warn" },
    h(
      "p",
      {},
      h("strong", { class: "code" }, label),
      " ",
      badge(request.environment === "sandbox" ? "Sandbox" : "Production", "note"),
    ),
    moves(request),
    h(
      "p",
      {},
      `${request.operation}, requested by ${personName(request.owner)}: ${WHY[request.doubt] ?? request.doubt}, `,
      request.since && timeTag(formatAgo(request.since), request.since),
      request.lookup
        ? `. Looked for its record with ${request.lookup} ${request.looks === 1 ? "once" : `${request.looks ?? 0} times`}.`
        : ". No read of the API finds such a call: only people can find out what became of it.",
    ),
    request.saidExecuted &&
      h("p", {}, `${request.saidExecuted} showed that it was executed. One more operator must show the same record.`),
    request.saidAbsent &&
      h(
        "p",
        {},
        isMine
          ? "You confirmed that it was not executed. One more operator must confirm it."
          : `${request.saidAbsent} confirmed that it was not executed. One more operator must confirm it.`,
      ),
    request.saidAbandoned &&
      h(
        "p",
        {},
        gaveUp
          ? "You confirmed that nobody will ever know. One more operator must confirm it."
          : `${request.saidAbandoned} confirmed that nobody will ever know. One more operator must confirm it.`,
      ),
    h(
      "p",
      {},
      h(
        "a",
        { href: `#/history/${request.environment}/${encodeURIComponent(request.name)}` },
        "Audit entries of this request",
      ),
    ),
    isOperator &&
      h(
        "div",
        { class: "acts" },
        h(
          "button",
          { type: "button", onclick: () => settleAsAbsent(request, refresh), disabled: isMine },
          "Not executed…",
        ),
        h("button", { type: "button", onclick: () => settleAsExecuted(request, refresh) }, "Executed…"),
        h("button", { type: "button", onclick: () => giveUp(request, refresh), disabled: gaveUp }, "Nobody will know…"),
      ),
  );
}

/**
 * Says what a call moves, and to whom: nobody should settle money that they do not see.
 * @param {UnknownRequest} request
 */
function moves({ words, operation, destination }) {
  if (!words) return h("p", { class: "muted" }, "What it moves is not stored any more: see its audit entries.");
  const call = { words, operation };
  const { headline, direction, destination: to } = movement(call);
  const value = wordOf(call, "value");
  const name = destination?.name ?? to?.name;
  return h(
    "p",
    {},
    h("strong", { class: "number" }, headline),
    direction && ` ${direction}`,
    value && `, worth ${value}`,
    name && [", to ", h("span", { class: "code" }, name)],
    destination && destination.lists.length > 0 && ` (in the list ${destination.lists.join(", ")})`,
    destination?.lookAlike &&
      h("span", { class: "alarm" }, ` It looks like ${destination.lookAlike.name}, and is another address.`),
  );
}

/**
 * Names a call in a dialog that settles it.
 * @param {UnknownRequest} request
 */
function named(request) {
  return [h("p", {}, h("strong", { class: "code" }, request.requestId ?? request.name)), moves(request)];
}

/**
 * @param {UnknownRequest} request
 * @param {() => void} refresh
 */
async function settleAsAbsent(request, refresh) {
  const reason = reasonField("How you know", "The other operator who must confirm this reads it in the audit log.");
  const answer = await ask({
    title: "Resolve as not executed?",
    content: [
      ...named(request),
      h(
        "p",
        {},
        "When two operators confirm this, limits no longer count the call, and its caller may send it again. If upstream did execute it, it is then paid twice.",
      ),
      reason.element,
    ],
    label: request.saidAbsent ? "Confirm: not executed" : "Not executed",
    kind: "bad",
    check: reason.check,
    perform: () => resolve(request, { outcome: "absent" }, reason.text()),
  });
  if (!answer) return;
  toast(
    answer.missing > 0 ? "Recorded. One more operator must confirm it." : "Resolved: not executed.",
    answer.missing > 0 ? "warn" : "good",
  );
  refresh();
}

/**
 * @param {UnknownRequest} request
 * @param {() => void} refresh
 */
async function giveUp(request, refresh) {
  const reason = reasonField("What you tried", "The other operator who must confirm this reads it in the audit log.");
  const answer = await ask({
    title: "Give up finding the outcome?",
    content: [
      ...named(request),
      h(
        "p",
        {},
        "When two operators confirm this, the call is never sent again, limits keep counting it, and its caller hears that its outcome will stay unknown.",
      ),
      reason.element,
    ],
    label: request.saidAbandoned ? "Confirm: nobody will know" : "Nobody will know",
    kind: "bad",
    check: reason.check,
    perform: () => resolve(request, { outcome: "abandoned" }, reason.text()),
  });
  if (!answer) return;
  toast(answer.missing > 0 ? "Recorded. One more operator must confirm it." : "Given up.", "warn");
  refresh();
}

/**
 * @param {UnknownRequest} request
 * @param {() => void} refresh
 */
async function settleAsExecuted(request, refresh) {
  const record = h("textarea", { rows: "6", spellcheck: "false", autocomplete: "off" });
  const reason = reasonField("How you know", "The audit log keeps it.");
  /** @type {any} */
  let parsed = null;
  const answer = await ask({
    title: "Resolve as executed?",
    content: [
      ...named(request),
      field("Upstream's record of the call, as JSON", record, "The caller gets exactly this as the answer."),
      request.environment === "production" && h("p", {}, "Two operators must show the same record."),
      reason.element,
    ],
    label: "Resolve as executed",
    check: () => {
      try {
        parsed = JSON.parse(record.value);
      } catch {
        parsed = null;
      }
      if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) {
        record.focus();
        return "The record is not a JSON object. Copy the complete record from upstream.";
      }
      return reason.check();
    },
    perform: () => resolve(request, { outcome: "executed", record: parsed }, reason.text()),
  });
  if (!answer) return;
  if (answer.missing > 0) toast("Recorded. One more operator must show the same record.", "warn");
  else toast("Resolved: executed.");
  refresh();
}

/**
 * @param {UnknownRequest} request
 * @param {{ outcome: "executed" | "absent" | "abandoned", record?: unknown }} said
 * @param {string} reason
 */
async function resolve({ environment, name, requestId }, said, reason) {
  const path = `requests/${environment}/${name}/resolve`;
  // The sandbox takes one person to show a record.
  const isJoint = environment === "production" || said.outcome !== "executed";
  /** @type {Record<string, string>} */
  const shown = requestId ? { claim: `request/${requestId}` } : {};
  const signed = isJoint ? await signAct(said.outcome, environment, { path, body: said }, shown) : {};
  return (await post(path, { ...said, ...signed, reason })).body;
}
