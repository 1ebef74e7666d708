// The overview: freezes, calls of unknown outcome, limits, decisions and stand-ins.

import { get } from "./api.js";
import { drawDecisions, limitBar } from "./charts.js";
import { card, errorBox, fill, h, select } from "./dom.js";
import * as doubts from "./doubts.js";
import * as freezes from "./freezes.js";
import * as standIns from "./standins.js";
import { formatUnits } from "./words.js";

/**
 * @param {App} app
 * @returns {View}
 */
export function view(app) {
  const money = h("div", {});
  const unknown = doubts.section(app);
  const limits = limitsSection();
  const decided = decisionsSection();
  const deputies = standIns.section(app);
  const element = h(
    "div",
    { class: "page" },
    h("h1", {}, "Overview"),
    h(
      "div",
      { class: "cards" },
      h("div", { class: "stack" }, money, unknown.element),
      h("div", { class: "stack" }, limits.element, decided.element, deputies.element),
    ),
  );

  async function showMoney() {
    try {
      const { body } = await get("freezes");
      app.frozen = body.freezes;
      app.stops = body.stops;
      const text = JSON.stringify(body);
      if (text === money.dataset.print) return;
      money.dataset.print = text;
      fill(money, freezes.section(app, refreshMoney));
    } catch (failure) {
      delete money.dataset.print;
      fill(money, h("section", { class: "card" }, h("h2", {}, "Money"), errorBox(failure, showMoney)));
    }
  }

  function refresh() {
    showMoney();
    unknown.refresh();
    limits.refresh();
    decided.refresh();
    deputies.refresh();
  }

  /** Also updates the banner above every view. */
  function refreshMoney() {
    showMoney();
    app.refresh();
  }

  refresh();
  return { title: "Overview", element, refresh };
}

function limitsSection() {
  return card(
    "limits",
    "Limits",
    /** @returns {Promise<{ usage: Usage[], more: boolean }>} */
    async () => (await get("usage")).body,
    (usage) => {
      const hasBoth = new Set(usage.usage.map((one) => one.environment)).size > 1;
      /** @param {Usage} one */
      const bar = (one) =>
        limitBar({
          ...one,
          environment: hasBoth ? undefined : one.environment,
          adds: one.pending,
          words: [
            `${formatUnits(one.left, one.unit)} left`,
            one.inFlight > 0 && `${formatUnits(one.inFlight, one.unit)} of the usage in flight or of unknown outcome`,
            one.pending > 0 && `${formatUnits(one.pending, one.unit)} more held for approval`,
            one.over === "hold" ? "calls beyond it are held" : "calls beyond it are denied",
          ]
            .filter(Boolean)
            .join("; ")
            .concat("."),
        });
      return [
        usage.usage.length === 0
          ? h(
              "p",
              { class: "muted" },
              "No limit has any usage now. Limits count calls that were executed, are in flight or have an unknown outcome; held calls do not count yet.",
            )
          : [
              h(
                "p",
                { class: "legend muted" },
                [
                  ["used", "used"],
                  ["flying", "in flight or unknown outcome"],
                  ["adds", "held for approval"],
                ].map(([kind, word]) =>
                  h("span", { class: `key ${kind}` }, h("span", { class: "swatch", "aria-hidden": "true" }), word),
                ),
              ),
              usage.usage.map(bar),
            ],
        usage.more &&
          h("p", { class: "muted" }, "There are more; `sluice policy usage --limit ID` shows one limit completely."),
      ];
    },
  );
}

function decisionsSection() {
  const hours = select(
    [
      ["24", "24 hours"],
      ["72", "3 days"],
      ["168", "7 days"],
    ],
    "24",
    { "aria-label": "Time range" },
  );
  /** @returns {Promise<{ buckets: Bucket[] }>} */
  const load = async () => (await get("decisions", { hours: hours.value })).body;
  /** @param {{ buckets: Bucket[] }} data */
  const draw = ({ buckets }) => {
    const total = buckets.reduce((sum, bucket) => sum + bucket.allowed + bucket.held + bucket.denied, 0);
    return total === 0 ? h("p", { class: "muted" }, "No decisions in this time.") : drawDecisions(buckets);
  };
  const made = card("decisions", "Decisions", load, draw, hours);
  hours.addEventListener("change", made.refresh);
  return made;
}
