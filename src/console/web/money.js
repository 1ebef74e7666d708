// The overview's answers about money: what needs this person, what was paid, and what is odd.

import { get, now } from "./api.js";
import { drawMoney } from "./charts.js";
import { card, h, select } from "./dom.js";
import { formatDay, formatUsd, groupDigits } from "./words.js";

/**
 * Returns the section on what waits for this person.
 * @param {App} app
 * @returns {Card}
 */
export function needsMe(app) {
  return card(
    "needs",
    "Needs you",
    async () => {
      const query = { limit: 100, mine: app.may("approver") ? "true" : undefined };
      const [holds, unknown] = await Promise.all([
        get("holds", query),
        get("requests", { state: "unknown", limit: 100 }),
      ]);
      return {
        holds: holds.body.holds.length,
        more: holds.body.next !== null,
        soon: holds.body.holds[0]?.expiresAt ?? null,
        unknown: unknown.body.requests.length,
        moreUnknown: unknown.body.next !== null,
      };
    },
    ({ holds, more, soon, unknown, moreUnknown }) => {
      const mine = app.may("approver");
      return h(
        "ul",
        { class: "plain figures" },
        figure(`${holds}${more ? "+" : ""}`, mine ? "holds wait for your vote" : "holds are open", "#/queue", soon),
        figure(
          `${unknown}${moreUnknown ? "+" : ""}`,
          "calls have an unknown outcome",
          "#/payments/only/status/unknown",
        ),
      );
    },
  );
}

/**
 * @param {string} number
 * @param {string} words
 * @param {string} href
 * @param {string | null} [due]
 */
function figure(number, words, href, due) {
  return h(
    "li",
    {},
    h("a", { href }, h("strong", { class: "number large" }, number), ` ${words}`),
    due && h("span", { class: "muted" }, ", the first with ", h("span", { "data-left": due }, "")),
  );
}

/**
 * Returns the section on what was paid, day by day.
 * @returns {Card}
 */
export function paid() {
  const days = select(
    [
      ["7", "7 days"],
      ["30", "30 days"],
      ["90", "90 days"],
    ],
    "30",
    { "aria-label": "Days" },
  );
  const made = card(
    "paid",
    "Paid money",
    /** @returns {Promise<{ days: PaymentDay[], since: string | null, reading: boolean }>} */
    async () => (await get("payments/days", { days: days.value })).body,
    (data) => {
      const today = formatDay(now());
      /** @param {number} count */
      const sum = (count) => {
        const sums = data.days.slice(-count).flatMap((day) => day.sums.filter(({ status }) => status === "paid"));
        return {
          value: sums.reduce((total, one) => total + BigInt(one.value), 0n),
          count: sums.reduce((total, one) => total + one.count, 0),
          unvalued: sums.reduce((total, one) => total + one.unvalued, 0),
        };
      };
      const spans = /** @type {[string, number][]} */ ([
        ["Today", 1],
        ["7 days", 7],
        ["30 days", 30],
      ]).filter(([, count]) => count <= data.days.length);
      return [
        h(
          "dl",
          { class: "totals" },
          spans.map(([label, count]) => {
            const { value, count: calls, unvalued } = sum(count);
            return h(
              "div",
              {},
              h("dt", { class: "muted" }, label),
              h("dd", {}, h("strong", { class: "number large" }, formatUsd(value))),
              h(
                "dd",
                { class: "muted" },
                `${groupDigits(calls)} ${calls === 1 ? "payment" : "payments"}`,
                unvalued > 0 && `, ${groupDigits(unvalued)} without a value`,
              ),
            );
          }),
        ),
        drawMoney(data.days),
        data.since && h("p", { class: "muted" }, `Counted since ${new Date(data.since).toLocaleString()}.`),
        h("p", {}, h("a", { href: `#/payments/only/from/${today}` }, "Payments of today (UTC)")),
      ];
    },
    days,
  );
  days.addEventListener("change", made.refresh);
  return made;
}

/**
 * Returns the section on what is odd today.
 * @returns {Card}
 */
export function odd() {
  const kinds = /** @type {[string, Record<string, string>, string][]} */ ([
    ["refused", { status: "refused" }, "payments were refused"],
    ["unknown", { status: "unknown" }, "payments have an unknown outcome"],
    ["failed", { status: "failed" }, "payments were executed and failed"],
    ["returned", { status: "returned" }, "payments were executed and came back"],
    ["first", { first: "true" }, "payments go to a destination that a rule found never paid before"],
  ]);
  return card(
    "odd",
    "Unusual in 7 days",
    async () => {
      const from = formatDay(now() - 6 * 86_400_000);
      /** @type {number[]} */
      const counts = [];
      for (const [, query] of kinds) counts.push((await get("payments", { ...query, from, limit: 1 })).body.count);
      return counts;
    },
    (counts) =>
      h(
        "ul",
        { class: "plain figures" },
        kinds.map(([, query, words], at) => {
          const [[name, value]] = Object.entries(query);
          return figure(groupDigits(counts[at]), words, `#/payments/only/${name}/${value}`);
        }),
      ),
  );
}
