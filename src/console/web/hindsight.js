// What a set that waits would have changed in the last days of recorded decisions.

import { h } from "./dom.js";
import { formatUsd } from "./words.js";

/** @type {Record<Effect, string>} */
const DONE = { allow: "allowed", hold: "held", deny: "denied" };
const HEADS = ["Last", "Outcome", "Calls", "Sum", "The largest"];

/** @param {DecisionHistory | null} history */
export function hindsight(history) {
  if (history === null) return h("p", { class: "waiting" }, "The journal is being read…");
  const { until, windows, notes } = history;
  return [
    until === null
      ? h("p", { class: "muted" }, "No decision is recorded.")
      : h(
          "div",
          { class: "scroll", tabindex: "0", role: "region", "aria-label": "What it would have changed" },
          h(
            "table",
            {},
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                HEADS.map((head) => h("th", { scope: "col" }, head)),
              ),
            ),
            h("tbody", {}, windows.map(rows)),
          ),
        ),
    notes.length > 0 &&
      h(
        "ul",
        { class: "muted" },
        notes.map((note) => h("li", {}, note)),
      ),
  ];
}

/** @param {HistoryWindow} window */
function rows({ days, whole, decisions, changes, cannotSay }) {
  const head = h(
    "th",
    { scope: "row" },
    `${days} days`,
    h("div", { class: "muted" }, `${decisions} ${decisions === 1 ? "decision" : "decisions"}`),
    !whole && h("div", { class: "muted" }, "as far as the journal goes back"),
  );
  /** @type {[string, HistorySum][]} */
  const sums = [
    ...changes.map(
      /** @returns {[string, HistorySum]} */ (one) => [
        `${one.environment}: now ${DONE[one.then]}, ${DONE[one.before]} before`,
        one,
      ],
    ),
    ...cannotSay.map(
      /** @returns {[string, HistorySum]} */ (one) => [`${one.environment}: cannot say, ${one.why}`, one],
    ),
  ];
  if (sums.length === 0) {
    return h("tr", {}, head, h("td", { colspan: "4" }, "None would have been decided differently."));
  }
  return sums.map(([words, sum], nth) => h("tr", {}, nth === 0 ? head : h("td", {}), h("td", {}, words), figures(sum)));
}

/** @param {HistorySum} sum */
function figures({ count, microUsd, unvalued, largest }) {
  const without = unvalued > 0 ? `, ${unvalued} without a value` : "";
  return [
    h("td", {}, `${count}`),
    h("td", {}, unvalued === count ? "no value" : `${formatUsd(microUsd)}${without}`),
    h(
      "td",
      {},
      largest === null
        ? "–"
        : [`${formatUsd(largest.microUsd)}, `, h("code", {}, largest.request), ` of ${largest.caller}`],
    ),
  ];
}
