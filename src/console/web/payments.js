// Payments: every call that moves money, with filters, sums, exports, and a page for each.

import { asFailure, get, now, post } from "./api.js";
import { badge, errorBox, field, fill, h, select, timeTag, toast } from "./dom.js";
import { addFreeze } from "./freezes.js";
import { entriesOf, entryItem } from "./history.js";
import { extentWords, statementView } from "./statement.js";
import { download, formatDay, formatTime, formatUsd, groupDigits, personName, shorten } from "./words.js";

const PAGE_SIZE = 50;
/** A list of which the gate still reads older payments loads again after this time. */
const READING_MS = 1_000;

/** @type {Record<PaymentStatus, [string, string]>} */
const STATUSES = {
  paid: ["Paid", "good"],
  sending: ["Being sent", "waits"],
  waiting: ["Waiting", "waits"],
  unknown: ["Unknown outcome", "warn"],
  refused: ["Refused", "bad"],
  cancelled: ["Cancelled", "bad"],
  expired: ["Expired", "bad"],
  "not-sent": ["Not sent", "note"],
  "given-up": ["Given up", "bad"],
  failed: ["Failed", "bad"],
  returned: ["Returned", "bad"],
};

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
export function view(app, [first, second, third]) {
  if (first === "only" && second in NOTHING && third) {
    Object.assign(filters, NOTHING, { [second]: third });
    history.replaceState(null, "", "#/payments");
  } else if (first === "statement") return statementView();
  else if (first && second) return paymentView(app, first, second);
  return listView();
}

/** @param {PaymentStatus} status */
function statusBadge(status) {
  return badge(...(STATUSES[status] ?? [status, ""]));
}

/** @param {Payment} payment */
function amountOf({ amount, currency }) {
  return amount === null ? "no amount" : [groupDigits(amount), currency?.toUpperCase()].filter(Boolean).join(" ");
}

/** @param {Payment} payment */
function addressOf({ environment, name }) {
  return `#/payments/${environment}/${encodeURIComponent(name)}`;
}

/**
 * Returns an end of a payment: the lists that know it, and its address.
 * @param {PaymentParty | null} party
 * @param {boolean} isWhole
 */
function partyOf(party, isWhole = false) {
  if (party === null) return h("span", { class: "muted" }, "not stated");
  const name = party.name ?? party.keyed;
  return [
    party.lists.map((list) => h("strong", { class: "known" }, `${list} `)),
    h("span", { class: "code", title: `${party.kind} ${name}` }, isWhole ? name : shorten(name)),
    party.name === null && h("span", { class: "muted" }, " (name in the audit log)"),
  ];
}

function listView() {
  /** @type {string | null} */
  let next = null;
  let turn = 0;
  let isMore = false;
  /** @param {string} name @param {Props} [props] */
  const text = (name, props) =>
    h("input", { type: "text", name, value: filters[name], autocomplete: "off", spellcheck: "false", ...props });
  const status = select(
    [
      ["", "Every status"],
      .../** @type {[string, string][]} */ (Object.entries(STATUSES).map(([word, [label]]) => [word, label])),
    ],
    filters.status,
    { name: "status" },
  );
  const environment = select(
    [
      ["", "All environments"],
      ["production", "Production"],
      ["sandbox", "Sandbox"],
    ],
    filters.environment,
    { name: "environment" },
  );
  const order = select(
    [
      ["time", "Latest first"],
      ["value", "Largest first"],
    ],
    sort,
    { "aria-label": "Order" },
  );
  /** @type {Record<string, HTMLInputElement | HTMLSelectElement>} */
  const inputs = {
    text: text("text", { type: "search" }),
    status,
    first: select(
      [
        ["", "All destinations"],
        ["true", "Never paid before"],
      ],
      filters.first,
      { name: "first" },
    ),
    from: text("from", { type: "date" }),
    until: text("until", { type: "date" }),
    environment,
    operation: text("operation"),
    caller: text("caller"),
    destination: text("destination"),
    currency: text("currency"),
    amountFrom: text("amountFrom", { inputmode: "decimal" }),
    amountTo: text("amountTo", { inputmode: "decimal" }),
  };
  const labels = {
    operation: "Operation",
    caller: "Caller",
    destination: "Destination or list",
    first: "Destinations",
    currency: "Currency",
    amountFrom: "Amount from",
    amountTo: "Amount to",
  };
  const details = h(
    "details",
    { open: ["environment", ...Object.keys(labels)].some((name) => filters[name] !== "") },
    h("summary", {}, "More filters"),
    h(
      "div",
      { class: "grid" },
      field("Environment", environment),
      Object.entries(labels).map(([name, label]) => field(label, inputs[name])),
    ),
  );
  const day = (/** @type {string} */ label, /** @type {number} */ days) =>
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        onclick: () => {
          inputs.from.value = formatDay(now() - days * 86_400_000);
          inputs.until.value = formatDay(now());
          take();
        },
      },
      label,
    );
  const panel = h(
    "div",
    { id: "payment-filters" },
    h(
      "div",
      { class: "grid" },
      field("Search", inputs.text),
      field("Status", status),
      field("From (UTC)", inputs.from),
      field("Until (UTC)", inputs.until),
    ),
    details,
  );
  // Only a narrow screen has this button: on others all filters are shown.
  const disclosure = h("button", { type: "button", class: "quiet disclosure", "aria-controls": panel.id });
  const form = h(
    "form",
    { class: "search money", role: "search", novalidate: true },
    disclosure,
    panel,
    h(
      "div",
      { class: "acts" },
      h("button", { type: "submit", class: "primary" }, "Show"),
      day("Today", 0),
      day("7 days", 6),
      day("30 days", 29),
      h("button", { type: "reset", class: "quiet" }, "Clear"),
    ),
  );
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
  const extent = h("p", { class: "muted" });
  const exports = h(
    "div",
    { class: "acts" },
    order,
    h("button", { type: "button", onclick: () => takeOut("csv") }, "Export CSV"),
    h("button", { type: "button", onclick: () => takeOut("jsonl") }, "Export JSON lines"),
    h("a", { class: "button", href: "#/payments/statement" }, "Statement"),
  );

  /** @param {boolean} isOpen whether a narrow screen shows the filters */
  function disclose(isOpen) {
    const used = Object.values(filters).filter((value) => value !== "").length;
    disclosure.textContent = used === 0 ? "Filters" : `Filters (${used})`;
    disclosure.setAttribute("aria-expanded", String(isOpen));
  }
  disclosure.addEventListener("click", () => disclose(disclosure.getAttribute("aria-expanded") !== "true"));
  function take() {
    for (const [name, input] of Object.entries(inputs)) filters[name] = input.value.trim();
    // What was asked for is shown: on a narrow screen the filters would hide it.
    disclose(false);
    load();
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    take();
    disclosure.focus();
  });
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    for (const input of Object.values(inputs)) input.value = "";
    take();
    disclosure.focus();
  });
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
    fill(extent, extentWords(page));
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

  /** @param {string} format */
  async function takeOut(format) {
    const used = Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== ""));
    try {
      /** @type {string | null | undefined} */
      let after;
      for (let part = 1; after !== null; part += 1) {
        const { body: file } = await post("payments/export", { format, filters: used, after });
        download(file.name.replace(/(\.\w+)$/, `-${part}$1`), file.content);
        after = file.next;
        toast(`Exported ${file.rows} payments; audit entry ${file.number}.`);
      }
    } catch (failure) {
      toast(asFailure(failure).message, "bad");
    }
  }

  disclose(Object.values(filters).some((value) => value !== ""));
  load();
  return {
    title: "Payments",
    element: h(
      "div",
      { class: "page wide-page" },
      h("h1", {}, "Payments"),
      form,
      sums,
      exports,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Payments" }, table),
      below,
      extent,
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
  /** @type {PaymentStatus[]} */
  const statuses = [...new Set(sums.map((sum) => sum.status))];
  return [
    h("p", { class: "count" }, `${groupDigits(count)} ${count === 1 ? "payment" : "payments"}`, more),
    h(
      "ul",
      { class: "plain" },
      statuses.map((status) => {
        const some = sums.filter((sum) => sum.status === status);
        const unvalued = some.reduce((sum, one) => sum + one.unvalued, 0);
        const parts = some
          .filter((sum) => sum.amount !== null && sum.currency !== null)
          .map((sum) => `${groupDigits(sum.amount ?? "")} ${sum.currency?.toUpperCase()}`);
        return h(
          "li",
          {},
          statusBadge(status),
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
  async function refresh() {
    try {
      const path = `${environment}/${encodeURIComponent(name).replaceAll("%3A", ":")}`;
      const [{ body: payment }, { entries, note }] = await Promise.all([
        get(`payments/${path}`),
        entriesOf(environment, name),
      ]);
      const text = JSON.stringify([payment, entries, note]);
      if (text === last) return;
      last = text;
      fill(body, drawPayment(app, payment), story(entries, note));
    } catch (failure) {
      if (last === "") fill(body, errorBox(failure, asFailure(failure).status === 404 ? undefined : refresh));
    }
  }
  refresh();
  const element = h(
    "div",
    { class: "page" },
    h("p", { class: "back" }, h("a", { href: "#/payments" }, "‹ Payments")),
    h("h1", { class: "code" }, name),
    body,
  );
  return { title: name, element, refresh };
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
