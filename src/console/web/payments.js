// Payments: every call that moves money, with filters, sums, exports, and a page for each.

import { amountOf, partyOf, STATUSES, statusBadge } from "./amounts.js";
import { asFailure, get } from "./api.js";
import { badge, errorBox, fill, h, select, timedHeading, timeTag } from "./dom.js";
import { requestItem } from "./doubts.js";
import { exportAll } from "./exports.js";
import { environmentFilter, filterForm, textFilter } from "./filters.js";
import { addFreeze } from "./freezes.js";
import { entriesOf, entryItem } from "./history.js";
import { receiptButton } from "./receipts.js";
import { drawExtent, statementView } from "./statement.js";
import { formatTime, formatUsd, groupDigits, groupSum, personName } from "./words.js";

const PAGE_SIZE = 50;
/** A list of which the gate still reads older payments loads again after this time. */
const READING_MS = 1_000;

/** The filters of the form; they stay while the person looks at other pages. */
const NOTHING = {
  text: "",
  status: "",
  environment: "",
  operation: "",
  caller: "",
  destination: "",
  currency: "",
  amountFrom: "",
  amountTo: "",
  from: "",
  until: "",
  first: "",
};
/** @type {Record<string, string>} */
const filters = { ...NOTHING };
let sort = "time";

/**
 * @param {App} app
 * @param {string[]} path
 * @returns {View}
 */
export function view(app, [first, second, ...rest]) {
  if (first === "only" && second in NOTHING && rest[0]) {
    // Each filter is followed by its value.
    const words = [second, ...rest];
    const wanted = words.flatMap((name, at) => (at % 2 === 0 && name in NOTHING ? [[name, words[at + 1] ?? ""]] : []));
    Object.assign(filters, NOTHING, Object.fromEntries(wanted));
    history.replaceState(null, "", "#/payments");
  } else if (first === "statement") return statementView();
  else if (first && second) return paymentView(app, first, second);
  return listView();
}

/** @param {Payment} payment */
function addressOf({ environment, name }) {
  return `#/payments/${environment}/${encodeURIComponent(name)}`;
}

function listView() {
  /** @type {string | null} */
  let next = null;
  let turn = 0;
  let isMore = false;
  const text = (/** @type {string} */ name, /** @type {Props} */ props = {}) => textFilter(name, filters[name], props);
  const order = select(
    [
      ["time", "Latest first"],
      ["value", "Largest first"],
    ],
    sort,
    { "aria-label": "Order" },
  );
  const form = filterForm({
    filters,
    inputs: {
      text: text("text", { type: "search" }),
      status: select(
        [
          ["", "Every status"],
          .../** @type {[string, string][]} */ (Object.entries(STATUSES).map(([word, [label]]) => [word, label])),
        ],
        filters.status,
        { name: "status" },
      ),
      from: text("from", { type: "date" }),
      until: text("until", { type: "date" }),
      environment: environmentFilter(filters.environment),
      operation: text("operation"),
      caller: text("caller"),
      destination: text("destination"),
      first: select(
        [
          ["", "All destinations"],
          ["true", "Never paid before"],
        ],
        filters.first,
        { name: "first" },
      ),
      currency: text("currency"),
      amountFrom: text("amountFrom", { inputmode: "decimal" }),
      amountTo: text("amountTo", { inputmode: "decimal" }),
    },
    first: { text: "Search", status: "Status", from: "From (UTC)", until: "Until (UTC)" },
    more: {
      environment: "Environment",
      operation: "Operation",
      caller: "Caller",
      destination: "Destination or list",
      first: "Destinations",
      currency: "Currency",
      amountFrom: "Amount from",
      amountTo: "Amount to",
    },
    load: () => load(),
  });
  const sums = h("div", { class: "sums", role: "status" });
  const body = h("tbody", {});
  const table = h(
    "table",
    { class: "payments" },
    h("caption", { class: "sr" }, "Payments"),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        ["When", "Status", "Amount", "To", "Caller", "Approved by", "Request"].map((name) =>
          h("th", { scope: "col", class: name === "Amount" ? "number" : undefined }, name),
        ),
      ),
    ),
    body,
  );
  const below = h("div", { class: "below" });
  const extent = h("div", {});
  const exports = h(
    "div",
    { class: "acts" },
    order,
    h(
      "button",
      { type: "button", onclick: () => exportAll("payments/export", "csv", filters, ["payment", "payments"]) },
      "Export CSV",
    ),
    h(
      "button",
      { type: "button", onclick: () => exportAll("payments/export", "jsonl", filters, ["payment", "payments"]) },
      "Export JSON lines",
    ),
    h("a", { class: "button", href: "#/payments/statement" }, "Statement"),
  );

  order.addEventListener("change", () => {
    sort = order.value;
    load();
  });

  /** @param {string} [after] */
  async function load(after) {
    turn += 1;
    const own = turn;
    isMore = after !== undefined;
    if (body.children.length + below.children.length === 0) fill(below, h("p", { class: "waiting" }, "One moment…"));
    /** @type {PaymentPage} */
    let page;
    try {
      page = (await get("payments", { ...filters, sort, limit: PAGE_SIZE, after })).body;
    } catch (failure) {
      if (own === turn)
        fill(
          below,
          errorBox(failure, () => load(after)),
        );
      return;
    }
    if (own !== turn) return;
    if (page.reading) setTimeout(() => own === turn && !isMore && load(), READING_MS);
    next = page.next;
    const rows = page.payments.map(row);
    if (after === undefined) fill(body, rows);
    else body.append(...rows);
    fill(sums, drawSums(page));
    fill(extent, drawExtent(page));
    fill(
      below,
      body.children.length === 0 &&
        h(
          "div",
          { class: "empty" },
          h("p", {}, h("strong", {}, "No payments match.")),
          h("p", { class: "muted" }, "Use fewer filters or another day. Days are in UTC."),
        ),
      next !== null &&
        h("button", { type: "button", class: "wide", onclick: () => load(next ?? undefined) }, "Show more"),
    );
  }

  load();
  return {
    title: "Payments",
    element: h(
      "div",
      { class: "page wide-page" },
      timedHeading("Payments"),
      form,
      sums,
      extent,
      exports,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Payments" }, table),
      below,
    ),
    refresh: () => {
      // A longer list would lose its later pages.
      if (!isMore) load();
    },
    close: () => {
      turn += 1;
    },
  };
}

/** @param {Payment} payment */
function row(payment) {
  const { at, status, event, owner, requester, approvedBy, name, environment, first, repeated, otherCurrency } =
    payment;
  return h(
    "tr",
    {},
    h("td", { "data-label": "When" }, timeTag(formatTime(at), at)),
    h(
      "td",
      { "data-label": "Status" },
      h("span", { title: event }, statusBadge(status)),
      environment === "sandbox" && badge("Sandbox", "note"),
      repeated && badge("More than once", "bad"),
    ),
    h(
      "td",
      { class: "number amount", "data-label": "Amount" },
      amountOf(payment),
      otherCurrency &&
        otherCurrency !== payment.currency &&
        h("span", { class: "muted" }, `→ ${otherCurrency.toUpperCase()}`),
    ),
    h("td", { "data-label": "To" }, partyOf(payment.to), first && badge("New destination", "warn")),
    h("td", { "data-label": "Caller" }, requester ?? owner.subject),
    h(
      "td",
      { "data-label": "Approved by" },
      approvedBy.length > 0 ? approvedBy.map((one) => one.subject).join(", ") : h("span", { class: "muted" }, "–"),
    ),
    h("td", { "data-label": "Request" }, h("a", { class: "code", href: addressOf(payment) }, name)),
  );
}

/** @param {PaymentPage} page */
function drawSums({ sums, count, reading }) {
  const more = reading && h("span", { class: "muted" }, " so far: older ones are still being read");
  if (count === 0 && !reading) return null;
  const value = (/** @type {PaymentSum[]} */ some) => formatUsd(some.reduce((sum, one) => sum + BigInt(one.value), 0n));
  /** @type {Map<string, PaymentSum[]>} */
  const groups = new Map();
  for (const sum of sums) {
    const name = `${sum.environment} ${sum.status}`;
    groups.set(name, [...(groups.get(name) ?? []), sum]);
  }
  return [
    h("p", { class: "count" }, `${groupDigits(count)} ${count === 1 ? "payment" : "payments"}`, more),
    h(
      "ul",
      { class: "plain" },
      [...groups.values()].map((some) => {
        const [{ environment, status }] = some;
        const unvalued = some.reduce((sum, one) => sum + one.unvalued, 0);
        const parts = some
          .filter((sum) => sum.amount !== null && sum.currency !== null)
          .map((sum) => `${groupSum(sum.amount ?? "")} ${sum.currency?.toUpperCase()}`);
        return h(
          "li",
          {},
          statusBadge(status),
          environment === "sandbox" && badge("Sandbox", "note"),
          h("strong", { class: "number" }, value(some)),
          h("span", { class: "muted" }, ` in ${groupDigits(some.reduce((sum, one) => sum + one.count, 0))}`),
          parts.length > 0 && h("span", { class: "muted" }, `: ${parts.join(", ")}`),
          unvalued > 0 && h("span", { class: "muted" }, ` (${unvalued} without a value)`),
        );
      }),
    ),
  ];
}

/**
 * @param {App} app
 * @param {string} environment
 * @param {string} name
 * @returns {View}
 */
function paymentView(app, environment, name) {
  const body = h("div", { class: "stack" }, h("p", { class: "waiting" }, "One moment…"));
  let last = "";
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let again;
  async function refresh() {
    try {
      const path = `${environment}/${encodeURIComponent(name).replaceAll("%3A", ":")}`;
      const [{ body: payment }, { entries, note }] = await Promise.all([
        get(`payments/${path}`),
        entriesOf(environment, name),
      ]);
      /** @type {UnknownRequest | null} */
      const doubt = payment.status === "unknown" ? (await get(`requests/${path}`)).body : null;
      const text = JSON.stringify([payment, entries, note, doubt]);
      if (text === last) return;
      last = text;
      fill(body, drawPayment(app, payment), doubt && drawDoubt(app, doubt, refresh), story(entries, note));
    } catch (failure) {
      const { status } = asFailure(failure);
      if (last === "") fill(body, errorBox(failure, status === 404 ? undefined : refresh));
      // The gate still reads its audit log.
      clearTimeout(again);
      if (last === "" && status === 503) again = setTimeout(() => element.isConnected && refresh(), READING_MS);
    }
  }
  const element = h(
    "div",
    { class: "page" },
    h("p", { class: "back" }, h("a", { href: "#/payments" }, "‹ Payments")),
    timedHeading(name, { class: "code" }),
    body,
  );
  refresh();
  return { title: name, element, refresh };
}

/**
 * @param {App} app
 * @param {UnknownRequest} doubt
 * @param {() => void} refresh
 */
function drawDoubt(app, doubt, refresh) {
  return h(
    "section",
    { class: "card", "aria-labelledby": "doubt" },
    h("h2", { id: "doubt" }, "Unknown outcome"),
    h("ul", { class: "plain" }, requestItem(app, doubt, refresh)),
  );
}

/**
 * @param {AuditLine[]} entries
 * @param {string} note
 */
function story(entries, note) {
  return h(
    "section",
    { class: "card", "aria-labelledby": "story" },
    h("h2", { id: "story" }, "What happened"),
    h(
      "ol",
      { class: "story" },
      entries.map((entry) => entryItem(entry, false)),
    ),
    note !== "" && h("p", { class: "muted" }, note),
  );
}

/**
 * Says why nobody approved a payment.
 * @param {Payment} payment
 */
function whyNobody({ hold, status }) {
  if (status === "waiting") return "nobody yet";
  return hold === null && status !== "refused" ? "nobody: it needed no approval" : "nobody";
}

/**
 * @param {App} app
 * @param {Payment} payment
 */
function drawPayment(app, payment) {
  const { environment, to, owner, approvedBy } = payment;
  const toList = to && `#/payments/only/destination/${encodeURIComponent(to.name ?? "")}`;
  /** @type {[string, Child][]} */
  const lines = [
    [
      "Status",
      [
        statusBadge(payment.status),
        ` ${payment.event}`,
        payment.answered !== null && ` (status ${payment.answered})`,
        payment.state !== null && ` (${payment.state})`,
      ],
    ],
    ["Value", payment.value === null ? "none in USD" : formatUsd(payment.value)],
    ["From", partyOf(payment.from, true)],
    ["To", [partyOf(to, true), payment.first && badge("New destination", "warn")]],
    ["Network", payment.chain ?? "not stated"],
    ["Caller", [personName(owner), payment.requester && ` for ${payment.requester}`]],
    ["Decided by", payment.rules.length > 0 ? payment.rules.join(", ") : "no rule"],
    ["Approved by", approvedBy.length > 0 ? approvedBy.map(personName).join(", ") : whyNobody(payment)],
    ["Decided", timeTag(formatTime(payment.at), payment.at)],
    ["Status since", timeTag(formatTime(payment.changedAt), payment.changedAt)],
    ["Operation", payment.operation],
    ["Audit entry", String(payment.number)],
  ];
  return h(
    "section",
    { class: "card", "aria-labelledby": "payment" },
    h("h2", { id: "payment", class: "amount" }, amountOf(payment)),
    environment === "sandbox" && badge("Sandbox", "note"),
    payment.repeated && h("p", { class: "alarm" }, "This call was, or may have been, executed more than once."),
    h(
      "dl",
      { class: "lines" },
      lines.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))),
    ),
    h(
      "p",
      { class: "acts" },
      payment.hold && h("a", { class: "button", href: `#/hold/${payment.hold}` }, "The hold"),
      receiptButton(`payments/${environment}/${payment.name}`, payment.name),
      h(
        "a",
        { class: "button", href: `#/policy/like/${environment}/${encodeURIComponent(payment.name)}` },
        payment.status === "refused" ? "Why, and what would let it pass" : "How it would be decided now",
      ),
      to?.name && toList && h("a", { class: "button", href: toList }, "All payments to this destination"),
      h(
        "a",
        { class: "button", href: `#/payments/only/caller/${encodeURIComponent(owner.subject)}` },
        "All payments of this caller",
      ),
      app.may("operator") &&
        h(
          "button",
          { type: "button", class: "bad", onclick: () => addFreeze(app.refresh, { environment, caller: owner }) },
          "Freeze this caller…",
        ),
    ),
  );
}
