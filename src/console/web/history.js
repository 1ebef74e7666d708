// The audit log: a search, and the history of one request.

import { amountOf, partyOf, statusBadge, statusWord } from "./amounts.js";
import { asFailure, get } from "./api.js";
import { badge, errorBox, fill, h, select, timedHeading, timeTag, withCode } from "./dom.js";
import { exportAll } from "./exports.js";
import { environmentFilter, filterForm, textFilter } from "./filters.js";
import { formatTime, personName } from "./words.js";

/**
 * The label of each event, and its kind of badge.
 * @type {Record<string, [string, string]>}
 */
const EVENTS = {
  sending: ["Sending to upstream", ""],
  refused: ["Denied by the rules", "bad"],
  executed: ["Executed", "good"],
  "not-executed": ["Not executed", "bad"],
  undone: ["Certainly not executed; may be sent again", "waits"],
  unknown: ["Unknown outcome", "warn"],
  late: ["Late answer", ""],
  "said-absent": ["Confirmed once: not executed", "waits"],
  "said-abandoned": ["Confirmed once: nobody will know", "waits"],
  abandoned: ["Given up", "bad"],
  "journal-lost": ["A gate lost its journal", "warn"],
  "took-plain": ["Plain records taken", "warn"],
  "sealed-anew": ["Record sealed anew", ""],
  "said-gone": ["Confirmed once: a gate is gone", "waits"],
  gone: ["A gate is gone", "warn"],
  retired: ["A gate retired", "good"],
  "said-executed": ["Confirmed once: executed", "waits"],
  frozen: ["Frozen", "bad"],
  "said-unfrozen": ["Confirmed once: unfreeze", "waits"],
  unfrozen: ["Unfrozen", "good"],
  waits: ["New policies wait", "waits"],
  agreed: ["One approval of new policies", "waits"],
  "recovery-signed": ["Recovery keys enrol passkeys", "warn"],
  "took-force": ["New policies in force", "note"],
  rebuilt: ["Store rebuilt from a journal", "note"],
  remembered: ["Restored to the store", "note"],
  held: ["Held for approval", "waits"],
  voted: ["One approval", "good"],
  withdrawn: ["Vote withdrawn", "waits"],
  noted: ["Comment", "note"],
  approved: ["Fully approved", "good"],
  reopened: ["More approvals needed", "waits"],
  rejected: ["Rejected", "bad"],
  expired: ["Expired: too few approvals", "bad"],
  cancelled: ["Cancelled by the caller", "bad"],
  blocked: ["Denied by the rules at release", "bad"],
  reminded: ["Reminder sent", "note"],
  "signed-in": ["Signed in", "note"],
  "stayed-in": ["Used the session", "note"],
  "signed-out": ["Signed out", "note"],
  "sessions-ended": ["Sessions ended", "note"],
  exported: ["Exported payments", "note"],
  follows: ["Reads the list of payments", "note"],
  followed: ["Seen in the list of payments", "note"],
  foreign: ["Payment that no gate sent", "bad"],
  "stand-in": ["Named a stand-in", "note"],
  challenged: ["Was asked to sign a vote", "note"],
  "stand-in-revoked": ["Revoked a stand-in", "note"],
};

/**
 * Returns the address of the search for a destination, which a hold writes as its kind, for a wallet its chain, and its name, with
 * colons between.
 * @param {string} destination
 */
export function destinationLink(destination) {
  return `#/history/to/${encodeURIComponent(destination.slice(destination.lastIndexOf(":") + 1))}`;
}

/**
 * @param {App} _app
 * @param {string[]} path
 * @returns {View}
 */
export function view(_app, [first, second]) {
  if (!second) return searchView();
  if (first !== "to") return requestView(first, second);
  Object.assign(filters, NOTHING, { destination: second });
  return searchView();
}

/** @type {Record<string, string>} */
const NOTHING = { environment: "", requestId: "", destination: "", person: "", from: "", until: "", sessions: "" };
const filters = { ...NOTHING };

/** @returns {View} */
function searchView() {
  const text = (/** @type {string} */ name, /** @type {Props} */ props = {}) => textFilter(name, filters[name], props);
  const list = h("ol", { class: "entries" });
  const status = h("div", {});
  const source = h("p", { class: "muted" });
  const form = filterForm({
    filters,
    inputs: {
      requestId: text("requestId", { type: "search" }),
      from: text("from", { type: "date" }),
      until: text("until", { type: "date" }),
      person: text("person"),
      destination: text("destination"),
      environment: environmentFilter(filters.environment),
      sessions: select(
        [
          ["", "Left out"],
          ["true", "Shown"],
        ],
        filters.sessions,
        { name: "sessions" },
      ),
    },
    first: { requestId: "Request", from: "From (UTC)", until: "Until (UTC)", person: "Person" },
    more: { destination: "Destination", environment: "Environment", sessions: "Sign-ins" },
    hints: {
      person: "Their subject, as requester or as who acted.",
      destination: "Complete wallet or account.",
    },
    load: () => load(),
  });
  const exportButton = (/** @type {string} */ format, /** @type {string} */ label) =>
    h(
      "button",
      { type: "button", onclick: () => exportAll("history/export", format, filters, ["entry", "entries"]) },
      label,
    );
  const exports = h(
    "div",
    { class: "acts" },
    exportButton("csv", "Export CSV"),
    exportButton("jsonl", "Export JSON lines"),
  );

  /** @param {string} [after] */
  async function load(after) {
    fill(status, h("p", { class: "waiting" }, "One moment…"));
    if (after === undefined) fill(list);
    /** @type {{ entries: AuditLine[], next: string | null, of?: string }} */
    let found;
    try {
      found = (await get("history", { ...filters, limit: 50, after })).body;
    } catch (failure) {
      fill(
        status,
        errorBox(failure, () => load(after)),
      );
      return;
    }
    source.textContent = found.of ? `From the audit log of node ${found.of}.` : "";
    list.append(...found.entries.map((entry) => entryItem(entry, true)));
    fill(
      status,
      list.children.length === 0 &&
        !found.next &&
        h(
          "div",
          { class: "empty" },
          h("p", {}, h("strong", {}, "No matching entries.")),
          h("p", { class: "muted" }, "Use fewer filters, or another day. Names must match completely."),
        ),
      found.next &&
        h(
          "button",
          { type: "button", class: "wide", onclick: () => load(found.next ?? undefined) },
          found.entries.length === 0 ? "No matches so far; search further back" : "Show more",
        ),
    );
  }

  load();
  return {
    title: "History",
    element: h("div", { class: "page" }, timedHeading("History"), form, exports, source, list, status),
  };
}

/** Stands where not the whole audit log was searched. */
const NOT_ALL = "The audit log reaches back further than was searched: “sluice audit show” finds older entries.";

/**
 * Returns the entries of a request, the oldest first, the node whose audit log has them, and what is to be said of them.
 * @param {string} environment
 * @param {string} request
 */
export async function entriesOf(environment, request) {
  /** @type {AuditLine[]} */
  const entries = [];
  /** @type {string | null | undefined} */
  let after;
  let source = "";
  // Each page is older than the one before. A request has few entries, but they may be far back.
  for (let count = 0; count < 20 && after !== null; count += 1) {
    const page = await get(`history/${environment}/${encodeURIComponent(request).replaceAll("%3A", ":")}`, { after });
    entries.unshift(...page.body.entries);
    [after, source] = [page.body.next, page.body.of];
  }
  return { entries, source, note: after === null ? "" : NOT_ALL };
}

/**
 * @param {string} environment
 * @param {string} request
 * @returns {View}
 */
function requestView(environment, request) {
  const body = h("div", {}, h("p", { class: "waiting" }, "One moment…"));
  let last = "";
  async function refresh() {
    /** @type {{ entries: AuditLine[], source: string, note: string }} */
    let found;
    try {
      found = await entriesOf(environment, request);
    } catch (failure) {
      if (last === "") fill(body, errorBox(failure, asFailure(failure).status === 404 ? undefined : refresh));
      return;
    }
    const { entries, source, note } = found;
    const text = JSON.stringify([entries, note]);
    if (text === last) return;
    last = text;
    const call = entries.map(({ entry }) => entry).find((entry) => entry.owner);
    fill(
      body,
      call &&
        h(
          "p",
          {},
          call.operation,
          `, requested by ${personName(call.owner)}`,
          call.requester && ` for ${call.requester}`,
        ),
      entries.length === 0
        ? note === "" && h("p", { class: "muted" }, "The audit log of this node has no entries of this request.")
        : h(
            "ol",
            { class: "story" },
            entries.map((entry) => entryItem(entry, false)),
          ),
      note !== "" && h("p", { class: "muted" }, note),
      source && h("p", { class: "muted" }, `From the audit log of node ${source}.`),
    );
  }
  refresh();
  const element = h(
    "div",
    { class: "page" },
    h("p", { class: "back" }, h("a", { href: "#/history" }, "‹ History")),
    timedHeading(request, { class: "code" }),
    h("p", {}, badge(environment === "sandbox" ? "Sandbox" : "Production", "note")),
    body,
  );
  return { title: request, element, refresh };
}

/** Members that the words of a line contain, or that mean nothing to people. */
const HIDDEN = new Set([
  "what",
  "operation",
  "owner",
  "requester",
  "by",
  "requestId",
  "claim",
  "reason",
  "text",
  "comment",
  "trace",
  "fingerprint",
  "causes",
]);

/**
 * @param {AuditLine} line
 * @param {boolean} isLinked
 */
export function entryItem({ environment, number, at, node, what, words, name, entry, payment }, isLinked) {
  const [word, kind] = EVENTS[what] ?? [what, ""];
  const label = entry.requestId ?? name;
  // The words of a line in a list name the person and the reason already.
  const who = entry.by && !isLinked ? personName(entry.by) : null;
  const why = (isLinked ? [entry.comment] : [entry.reason, entry.comment, entry.text]).find(
    (text) => typeof text === "string",
  );
  const rest = Object.entries(entry).filter(
    ([member, value]) => !HIDDEN.has(member) && ["string", "number", "boolean"].includes(typeof value),
  );
  return h(
    "li",
    { class: `entry ${kind}` },
    h(
      "p",
      { class: "first" },
      badge(word, kind),
      isLinked && environment === "sandbox" && badge("Sandbox", "note"),
      who && h("strong", {}, who),
      h("span", { class: "at muted" }, timeTag(formatTime(at), at), `, no. ${number}`),
    ),
    isLinked &&
      (entry.operation || name) &&
      h(
        "p",
        {},
        entry.operation && `${entry.operation} `,
        name && h("a", { class: "code", href: `#/history/${environment}/${encodeURIComponent(name)}` }, label),
        entry.owner && h("span", { class: "muted" }, ` requested by ${entry.requester ?? personName(entry.owner)}`),
      ),
    isLinked && payment && moved(payment, word),
    h("p", { class: "muted words" }, withCode(words)),
    why && h("p", { class: "quote" }, why),
    !isLinked &&
      h(
        "details",
        {},
        h("summary", {}, "Raw audit entry"),
        rest.length > 0 && h("p", { class: "muted rest" }, `Node ${node}.`),
        h("pre", { tabindex: "0", "aria-label": "Raw audit entry" }, JSON.stringify(entry, null, 2)),
      ),
  );
}

/**
 * Says what the call of an entry moves, to whom, and what became of it.
 * @param {EntryMoney} payment
 * @param {string} told what the entry says already
 */
function moved(payment, told) {
  return h(
    "p",
    { class: "moved" },
    h("strong", { class: "number" }, amountOf(payment)),
    " to ",
    partyOf(payment.to),
    " ",
    payment.status && statusWord(payment.status) !== told && statusBadge(payment.status),
  );
}
