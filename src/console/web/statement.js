// The statement of a day: sums of what was sent, how it ended, and what is open.

import { asFailure, get, now, post } from "./api.js";
import { errorBox, field, fill, h, toast } from "./dom.js";
import { download, formatDay, formatTime, groupDigits, groupSum, shorten } from "./words.js";

/** The sums of a line, and their headings. */
const SUMS = {
  opening: "Open before",
  sent: "Sent",
  reopened: "Opened again",
  settled: "Settled",
  failed: "Failed",
  returned: "Returned",
  notExecuted: "Not executed",
  absent: "Said not executed",
  givenUp: "Given up",
  open: "Open",
  unknown: "Unknown outcome",
  foreign: "Not sent by a gate",
};

/**
 * Says which payments an answer counts, and how to find older ones.
 * @param {PaymentExtent} extent
 */
export function drawExtent({ since, reading, of, auditFolder }) {
  const source = `From the audit log of node ${of}.`;
  if (!since) return h("p", { class: "muted" }, reading ? "The gate still reads older payments. " : "", source);
  const begin = h("strong", {}, formatTime(since));
  if (reading) return h("p", { class: "muted" }, "Counted since ", begin, ". The gate reads older payments. ", source);
  const day = formatDay(Date.parse(since));
  return h(
    "p",
    { class: "became waits" },
    "Payments before ",
    begin,
    " are neither listed nor counted here. Read them on the machine of the gate: ",
    h("code", {}, `sluice audit show ${shellWord(auditFolder)} --what sending --day ${day}`),
    `. ${source}`,
  );
}

/** Returns a text as one word of a shell. @param {string} text */
function shellWord(text) {
  return /^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** @returns {View} */
export function statementView() {
  const day = h("input", { type: "date", value: formatDay(now() - 86_400_000), onchange: () => load() });
  const waiting = h("p", { class: "waiting" }, "One moment…");
  const body = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Statement" }, waiting);
  const extent = h("div", {});
  async function load() {
    try {
      /** @type {PaymentStatement} */
      const statement = (await get("payments/statement", { day: day.value })).body;
      fill(body, table(statement));
      fill(
        extent,
        !statement.over && !isToCome(statement) && h("p", { class: "muted" }, "The day is not over."),
        drawExtent(statement),
      );
    } catch (failure) {
      fill(body, errorBox(failure, load));
    }
  }
  /** @param {string} format */
  async function takeOut(format) {
    try {
      const { body: file } = await post("payments/export", { format, statement: { day: day.value } });
      download(file.name, file.content);
      toast(`Exported; audit entry ${file.number}.`);
    } catch (failure) {
      toast(asFailure(failure).message, "bad");
    }
  }
  const act = (/** @type {string} */ format, /** @type {string} */ label) =>
    h("button", { type: "button", onclick: () => takeOut(format) }, label);
  load();
  return {
    title: "Statement",
    element: h(
      "div",
      { class: "page wide-page" },
      h("p", { class: "back" }, h("a", { href: "#/payments" }, "‹ Payments")),
      h("h1", {}, "Statement"),
      h("div", { class: "grid" }, field("Day (UTC)", day)),
      h("div", { class: "acts" }, act("csv", "Export CSV"), act("jsonl", "Export JSON lines")),
      body,
      extent,
    ),
    refresh: load,
  };
}

/** Whether the day has not begun. @param {PaymentStatement} statement */
function isToCome({ begin }) {
  return Date.parse(begin) > now();
}

/** @param {PaymentStatement} statement */
function table(statement) {
  const { totals, lines } = statement;
  const all = [...totals, ...lines];
  if (all.length === 0) {
    const none = isToCome(statement)
      ? "This day has not begun."
      : "No payment was sent or ended on this day, and none was open.";
    return h("p", { class: "muted" }, none);
  }
  const used = Object.entries(SUMS).filter(([name]) => all.some(({ sums }) => sums[name].count));
  const heads = ["Payments", "Caller", "To", ...used.map(([, head]) => head)];
  const kind = (/** @type {number} */ at) => (at > 2 ? "number" : undefined);
  return h(
    "table",
    { class: "payments" },
    h("caption", { class: "sr" }, "Sums of the day"),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        heads.map((head, at) => h("th", { scope: "col", class: kind(at) }, head)),
      ),
    ),
    h(
      "tbody",
      {},
      all.map((line) => {
        const to = line.to && h("span", { class: "code" }, shorten(line.to.name ?? line.to.keyed));
        const cells = [lineName(line), line.owner?.subject, to];
        const sums = used.map(([name]) => sumCell(line.sums[name]));
        return h(
          "tr",
          { class: line.operation ? undefined : "total" },
          // On a phone the name of a line is its heading.
          [...cells, ...sums].map((cell, at) => h("td", { class: kind(at), "data-label": at > 0 && heads[at] }, cell)),
        );
      }),
    ),
  );
}

/** @param {StatementLine} line */
function lineName({ environment, operation, currency, chain }) {
  const money = [currency?.toUpperCase(), chain && `on ${chain}`].filter(Boolean).join(" ");
  return [operation ?? "All", environment, money].filter(Boolean).join(", ");
}

/** @param {{ count: number, amount: string | null }} sum */
function sumCell({ count, amount }) {
  if (count === 0) return null;
  return [
    h("strong", {}, amount === null ? "no amount" : groupSum(amount)),
    h("span", { class: "muted" }, ` in ${groupDigits(count)}`),
  ];
}
