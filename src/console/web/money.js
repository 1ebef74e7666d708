// The overview's answers about money: what needs this person, what was paid, and what is odd.

import { mainEnvironment, ofEnvironment } from "./amounts.js";
import { get, now } from "./api.js";
import { drawMoney } from "./charts.js";
import { card, h, select, table } from "./dom.js";
import { formatDay, formatTime, formatUsd, groupDigits, timeLeft } from "./words.js";

/** While the gate still reads payments, a section asks again after this time. */
const READING_MS = 1_000;

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
      const [holds, unknown, sets] = await Promise.all([
        get("holds", query),
        get("requests", { state: "unknown", limit: 100 }),
        app.may("policy-admin") ? get("policies") : null,
      ]);
      if (query.mine) app.waiting(holds.body.holds, holds.body.next !== null);
      return {
        isSet: Boolean(sets?.body.candidate),
        holds: holds.body.holds.length,
        inSandbox: countSandbox(app, holds.body.holds),
        more: holds.body.next !== null,
        soon: holds.body.holds[0]?.expiresAt ?? null,
        unknown: unknown.body.requests.length,
        unknownInSandbox: countSandbox(app, unknown.body.requests),
        moreUnknown: unknown.body.next !== null,
      };
    },
    ({ holds, inSandbox, more, soon, unknown, unknownInSandbox, moreUnknown, isSet }) => {
      const mine = app.may("approver");
      return h(
        "ul",
        { class: "plain figures" },
        figure(
          `${holds}${more ? "+" : ""}`,
          holds === 1
            ? `hold ${mine ? "waits for your vote" : "is open"}`
            : `holds ${mine ? "wait for your vote" : "are open"}${inSandbox}`,
          "#/queue",
          soon,
        ),
        figure(
          `${unknown}${moreUnknown ? "+" : ""}`,
          `${unknown === 1 ? "call" : "calls"} with an unknown outcome${unknownInSandbox}`,
          "#/payments/only/status/unknown",
        ),
        isSet && figure("1", "set of rules waits for two people", "#/policy"),
      );
    },
  );
}

/**
 * Says how many of these are of the sandbox, where the person sees production as well.
 * @param {App} app
 * @param {{ environment: string }[]} some
 */
function countSandbox(app, some) {
  const count = some.filter(({ environment }) => environment !== mainEnvironment(app)).length;
  return count > 0 ? ` (${count} in the sandbox)` : "";
}

/**
 * @param {string} number
 * @param {string} words
 * @param {string | null} href
 * @param {string | null} [due]
 */
function figure(number, words, href, due) {
  const text = [h("strong", { class: "number large" }, number), ` ${words}`];
  return h(
    "li",
    {},
    href ? h("a", { href }, text) : text,
    due && h("span", { class: "muted" }, ", the first with ", h("span", { "data-left": due }, timeLeft(due).text)),
  );
}

/**
 * Returns the section on what was paid, day by day.
 * @param {App} app
 * @returns {Card}
 */
export function paid(app) {
  const main = mainEnvironment(app);
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
    (data, refresh) => {
      const today = formatDay(now());
      const own = data.days.map(({ day, sums }) => ({ day, sums: sums.filter((one) => one.environment === main) }));
      /** @param {number} count */
      const sum = (count) => {
        const sums = own.slice(-count).flatMap((day) => day.sums.filter(isPaid));
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
        data.reading && soFar(refresh),
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
        byOperation(own, spans),
        drawMoney(own),
        ofEnvironment(app),
        h(
          "p",
          { class: "muted" },
          h("a", { href: `#/payments/only/environment/${main}/from/${today}` }, "Payments of today (UTC)"),
          data.since && `. Counted since ${formatTime(data.since)}.`,
        ),
      ];
    },
    days,
  );
  days.addEventListener("change", made.refresh);
  return made;
}

/**
 * Returns what each operation paid in the last days; null where there is only one.
 * @param {PaymentDay[]} days
 * @param {[string, number][]} spans
 */
function byOperation(days, spans) {
  const operations = [...new Set(days.flatMap(({ sums }) => sums.filter(isPaid).map(({ operation }) => operation)))];
  if (operations.length < 2) return null;
  /**
   * @param {string} operation
   * @param {number} count
   */
  const sum = (operation, count) =>
    formatUsd(
      days
        .slice(-count)
        .flatMap(({ sums }) => sums.filter((one) => isPaid(one) && one.operation === operation))
        .reduce((total, one) => total + BigInt(one.value), 0n),
    );
  const rows = operations.map((operation) => [operation, ...spans.map(([, count]) => sum(operation, count))]);
  return table(["Operation", ...spans.map(([label]) => label)], rows, 1);
}

/** @param {{ status: PaymentStatus }} sum */
function isPaid({ status }) {
  return status === "paid";
}

/**
 * Says that more payments are still being read, and asks again soon.
 * @param {() => Promise<void>} refresh
 */
function soFar(refresh) {
  const note = h("p", { class: "became waits" }, "So far: the gate still reads older payments.");
  const again = () => {
    // Other figures have another note.
    if (!note.isConnected) return;
    refresh();
    setTimeout(again, READING_MS);
  };
  setTimeout(again, READING_MS);
  return note;
}

/**
 * Returns the section on what is odd.
 * @param {App} app
 * @param {UsageSource} source
 * @returns {Card}
 */
export function odd(app, source) {
  const environment = mainEnvironment(app);
  const kinds = /** @type {[string, Record<string, string>, string][]} */ ([
    ["refused", { status: "refused" }, "refused"],
    ["unknown", { status: "unknown" }, "of unknown outcome"],
    ["failed", { status: "failed" }, "executed and failed"],
    ["returned", { status: "returned" }, "executed and came back"],
    ["first", { first: "true" }, "to a new destination, if a rule checks that"],
  ]);
  return card(
    "odd",
    "Unusual in 7 days",
    async () => {
      const from = formatDay(now() - 6 * 86_400_000);
      /** @type {number[]} */
      const counts = [];
      let reading = false;
      for (const [, query] of kinds) {
        /** @type {PaymentPage} */
        const page = (await get("payments", { ...query, environment, from, limit: 1 })).body;
        counts.push(page.count);
        reading = page.reading;
      }
      const { usage, more, rates } = await source.get();
      const isTight = (/** @type {Usage} */ one) =>
        one.environment === environment && one.used > 0 && one.used >= 0.8 * one.max;
      return {
        from,
        counts,
        reading,
        tight: usage.filter(isTight).length,
        hasMore: more,
        rates: rates.filter(({ near, limited }) => near + limited > 0),
      };
    },
    ({ from, counts, reading, tight, hasMore, rates }, refresh) => [
      reading && soFar(refresh),
      h(
        "ul",
        { class: "plain figures two" },
        kinds.map(([, query, words], at) => {
          const [[name, value]] = Object.entries(query);
          return figure(
            groupDigits(counts[at]),
            words,
            `#/payments/only/${name}/${value}/environment/${environment}/from/${from}`,
          );
        }),
        figure(
          groupDigits(tight),
          `${hasMore ? "or more limits" : tight === 1 ? "limit" : "limits"} at least 80 % full`,
          null,
        ),
      ),
      ofEnvironment(app),
      rates.map(({ rate, near, limited }) =>
        h(
          "p",
          { class: "muted" },
          "Rate ",
          h("code", {}, rate),
          `: ${groupDigits(limited)} calls refused, ${groupDigits(near)} near it, since this gate runs.`,
        ),
      ),
    ],
  );
}
