// The statement of a day: sums of what was sent, how it ended, and what is open.

import { asFailure, get, now, post } from "./api.js";
import { errorBox, field, fill, h, toast } from "./dom.js";
import { download, formatDay, groupDigits, shorten } from "./words.js";

const SUMS = "opening sent reopened settled failed returned notExecuted givenUp open unknown foreign".split(" ");

/** @returns {View} */
export function statementView() {
  const day = h("input", { type: "date", value: formatDay(now() - 86_400_000), onchange: () => load() });
  const body = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Statement" });
  async function load() {
    try {
      fill(body, table((await get("payments/statement", { day: day.value })).body));
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
      h("h1", {}, "Statement"),
      field("Day (UTC)", day),
      h("div", { class: "acts" }, act("csv", "Export CSV"), act("jsonl", "Export JSON lines")),
      body,
    ),
    refresh: load,
  };
}

/** @param {PaymentStatement} statement */
function table({ totals, lines }) {
  const all = [...totals, ...lines];
  if (all.length === 0) return h("p", { class: "muted" }, "No payment was sent, ended or open.");
  const used = SUMS.filter((name) => all.some(({ sums }) => sums[name].count));
  const heads = ["Payments", "Caller", "To", ...used];
  return h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        heads.map((head) => h("th", { scope: "col" }, head)),
      ),
    ),
    h(
      "tbody",
      {},
      all.map(({ environment, operation, owner, to, currency, chain, sums }) =>
        h(
          "tr",
          {},
          h("td", {}, [operation ?? "All", environment, currency?.toUpperCase(), chain].filter(Boolean).join(" ")),
          h("td", {}, owner?.subject),
          h("td", {}, to && shorten(to.name ?? to.keyed)),
          used.map((name) =>
            h("td", {}, sums[name].count > 0 && `${sums[name].count}: ${groupDigits(sums[name].amount ?? "?")}`),
          ),
        ),
      ),
    ),
  );
}
