// How things stand: money, doubts, limits, decisions.

import { get } from "./api.js";
import { decisions, limitBar } from "./charts.js";
import { card, fill, h, select, trouble } from "./dom.js";
import * as doubts from "./doubts.js";
import * as freezes from "./freezes.js";
import * as standIns from "./standins.js";
import { counted } from "./words.js";

export function view(desk) {
  const money = h("div", {});
  const inDoubt = doubts.section(desk);
  const limits = limitsSection();
  const decided = decisionsSection();
  const stands = standIns.section(desk);
  const element = h(
    "div",
    { class: "page" },
    h("h1", {}, "Overview"),
    h("div", { class: "cards" }, h("div", { class: "stack" }, money, inDoubt.element), h("div", { class: "stack" }, limits.element, decided.element, stands.element)),
  );

  async function tellMoney() {
    try {
      desk.frozen = (await get("freezes")).body.freezes;
      const print = JSON.stringify(desk.frozen);
      if (print === money.dataset.print) return;
      money.dataset.print = print;
      fill(money, freezes.section(desk, all));
    } catch (failure) {
      delete money.dataset.print;
      fill(money, h("section", { class: "card" }, h("h2", {}, "Money"), trouble(failure, tellMoney)));
    }
  }

  function refresh() {
    tellMoney();
    inDoubt.refresh();
    limits.refresh();
    decided.refresh();
    stands.refresh();
  }

  /** After an act here: the bar at the top shows it as well. */
  function all() {
    tellMoney();
    desk.refresh();
  }

  refresh();
  return { title: "Overview", element, refresh };
}

function limitsSection() {
  return card("limits", "Limits", async () => (await get("usage")).body, (usage) => {
    const both = new Set(usage.usage.map((one) => one.environment)).size > 1;
    const bar = (one) =>
      limitBar({
        ...one,
        environment: both ? undefined : one.environment,
        adds: one.pending,
        words: [
          `${counted(one.left, one.unit)} left`,
          one.inFlight > 0 && `${counted(one.inFlight, one.unit)} of what is used in flight or in doubt`,
          one.pending > 0 && `${counted(one.pending, one.unit)} more wait for people`,
          one.over === "hold" ? "what goes beyond waits for people" : "what goes beyond is denied",
        ]
          .filter(Boolean)
          .join("; ")
          .concat("."),
      });
    return [
      usage.usage.length === 0
        ? h("p", { class: "muted" }, "Nothing counts under any limit now. What is spent, in flight or in doubt shows here; what waits for people takes nothing yet.")
        : [
            h("p", { class: "legend muted" }, [["used", "used"], ["flying", "in flight or in doubt"], ["adds", "waits for people"]].map(([kind, word]) => h("span", { class: `key ${kind}` }, h("span", { class: "swatch", "aria-hidden": "true" }), word))),
            usage.usage.map(bar),
          ],
      usage.more && h("p", { class: "muted" }, "There are more than are shown: `sluice policy usage --limit ID` shows one limit whole."),
    ];
  });
}

function decisionsSection() {
  const hours = select([["24", "24 hours"], ["72", "3 days"], ["168", "7 days"]], "24", { "aria-label": "How far back" });
  const load = async () => (await get("decisions", { hours: hours.value })).body;
  const draw = (told) => {
    const total = told.buckets.reduce((sum, bucket) => sum + bucket.allowed + bucket.held + bucket.denied, 0);
    return total === 0 ? h("p", { class: "muted" }, "No decision in this time.") : decisions(told.buckets);
  };
  const made = card("decisions", "Decisions", load, draw, hours);
  hours.addEventListener("change", made.refresh);
  return made;
}
