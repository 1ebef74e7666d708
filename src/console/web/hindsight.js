// What a set that waits would have changed in the last days of recorded decisions.

import { h } from "./dom.js";
import { formatUsd } from "./words.js";

/** @type {Record<Effect, string>} */
const DONE = { allow: "allowed", hold: "held", deny: "denied" };

/** @param {DecisionHistory | null} history */
export function hindsight(history) {
  if (history === null) return h("p", { class: "waiting" }, "The journal is being read…");
  const { until, windows, notes } = history;
  return h(
    "div",
    { role: "region", "aria-label": "What it would have changed" },
    until === null
      ? h("p", { class: "muted" }, "No decision is recorded.")
      : h("dl", { class: "rules" }, windows.map(windowItem)),
    notes.length > 0 &&
      h(
        "ul",
        { class: "muted" },
        notes.map((note) => h("li", {}, note)),
      ),
  );
}

/** @param {HistoryWindow} window */
function windowItem({ days, whole, decisions, changes, cannotSay }) {
  const short = whole ? "" : ", as far as the journal goes back";
  return h(
    "div",
    {},
    h("dt", {}, `The last ${days} days`),
    h("dd", { class: "muted" }, `${decisions} recorded ${decisions === 1 ? "decision" : "decisions"}${short}`),
    changes.length === 0 && cannotSay.length === 0 && h("dd", {}, "None would have been decided differently."),
    changes.map((sum) =>
      h("dd", {}, `${sum.environment}: now ${DONE[sum.then]}, ${DONE[sum.before]} before: `, figures(sum)),
    ),
    cannotSay.map((sum) => h("dd", {}, `${sum.environment}: cannot say (${sum.why}): `, figures(sum))),
  );
}

/** @param {HistorySum} sum */
function figures({ count, microUsd, unvalued, largest }) {
  const valued = unvalued < count ? `, ${formatUsd(microUsd)}` : "";
  const without = unvalued > 0 ? `, ${unvalued} without a value` : "";
  return [
    h("strong", {}, `${count} ${count === 1 ? "call" : "calls"}${valued}${without}`),
    largest !== null && [
      `; the largest: ${formatUsd(largest.microUsd)}, `,
      h("code", {}, largest.request),
      ` of ${largest.caller}`,
    ],
  ];
}
