// The overview: freezes, calls of unknown outcome, limits, decisions and stand-ins.

import { mainEnvironment, ofEnvironment } from "./amounts.js";
import { get } from "./api.js";
import { drawDecisions, limitBar } from "./charts.js";
import { card, errorBox, fill, h, select, timedHeading } from "./dom.js";
import * as doubts from "./doubts.js";
import * as foreign from "./foreign.js";
import * as freezes from "./freezes.js";
import * as payments from "./money.js";
import * as standIns from "./standins.js";
import { formatUnits } from "./words.js";

/** How many limits stand in the first screen. */
const MAX_FULLEST = 4;

/**
 * @param {App} app
 * @returns {View}
 */
export function view(app) {
  const money = h("div", {});
  const unknown = doubts.section(app);
  const usage = loadUsage();
  const [few, all] = [fullestSection(usage), limitsSection(usage)];
  const decided = decisionsSection(app);
  const deputies = standIns.section(app);
  const bypass = foreign.section();
  const [needs, paid, odd] = [payments.needsMe(app), payments.paid(app), payments.odd(app, usage)];
  const element = h(
    "div",
    { class: "page overview" },
    timedHeading("Overview"),
    h(
      "div",
      { class: "cards glance" },
      h("div", { class: "stack" }, money, needs.element, odd.element),
      h("div", { class: "stack" }, paid.element, few.element),
    ),
    h(
      "div",
      { class: "cards" },
      h("div", { class: "stack" }, unknown.element, bypass.element, deputies.element),
      h("div", { class: "stack" }, decided.element, all.element),
    ),
  );

  async function showMoney() {
    try {
      await freezes.noteMoney(app);
      const text = JSON.stringify([app.frozen, app.isMoreFrozen, app.stops]);
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
    usage.clear();
    for (const section of [needs, paid, odd, few, unknown, bypass, decided, all, deputies]) section.refresh();
  }

  /** Also updates the banner above every view. */
  function refreshMoney() {
    showMoney();
    app.refresh();
  }

  refresh();
  return { title: "Overview", element, refresh };
}

/**
 * Returns the windows of each limit and environment, the fullest first; limits on all money before those of each key.
 * @param {Usage[]} usage
 */
function groups(usage) {
  /** @type {Map<string, Usage[]>} */
  const found = new Map();
  for (const one of usage) {
    const name = `${one.environment} ${one.limit}`;
    found.set(name, [...(found.get(name) ?? []), one]);
  }
  const share = (/** @type {Usage} */ one) => (one.max === 0 ? 1 : one.used / one.max);
  const sorted = [...found.values()].map((group) => group.sort((a, b) => share(b) - share(a)));
  /** @param {Usage[]} group */
  const isOfAll = ([{ key, unit }]) =>
    Number(unit !== "microUsd") + 2 * Object.keys(key).filter((name) => name !== "environment").length;
  return sorted.sort((a, b) => isOfAll(a) - isOfAll(b) || share(b[0]) - share(a[0]));
}

/** @param {Usage[]} usage */
function hasBoth(usage) {
  return new Set(usage.map((one) => one.environment)).size > 1;
}

/**
 * @param {Usage[]} group
 * @param {boolean} hasMore
 */
function countKeys(group, hasMore) {
  const full = group.filter((one) => one.used >= one.max).length;
  const least = hasMore ? "at least " : "";
  return `${least}${group.length} keys${full > 0 ? `, ${least}${full} of them full` : ""}`;
}

/** Returns the usage of limits, which three sections share: one request for all of them. */
function loadUsage() {
  /** @type {Promise<UsagePage> | null} */
  let pending = null;
  return {
    clear: () => {
      pending = null;
    },
    get: () => {
      pending ??= get("usage").then(({ body }) => body);
      return pending;
    },
  };
}

/**
 * @param {Usage} one
 * @param {boolean} isLeast  Not every open call was read.
 */
function wordsOf(one, isLeast) {
  const least = isLeast ? "at least " : "";
  return [
    `${formatUnits(one.left, one.unit)} left`,
    one.inFlight > 0 && `${least}${formatUnits(one.inFlight, one.unit)} of the usage in flight or of unknown outcome`,
    one.pending > 0 && `${least}${formatUnits(one.pending, one.unit)} more held for approval`,
    one.over === "hold" ? "calls beyond it are held" : "calls beyond it are denied",
  ]
    .filter(Boolean)
    .join("; ");
}

/** Names the colours of the bars. */
function legend() {
  return h(
    "p",
    { class: "legend muted" },
    [
      ["used", "used"],
      ["flying", "in flight or unknown outcome"],
      ["adds", "held for approval"],
    ].map(([kind, word]) =>
      h("span", { class: `key ${kind}` }, h("span", { class: "swatch", "aria-hidden": "true" }), word),
    ),
  );
}

/**
 * Returns the limits on all money and the fullest of the others, a line each.
 * @param {UsageSource} source
 */
function fullestSection(source) {
  return card("fullest", "Fullest limits", source.get, ({ usage, more }) => {
    const first = groups(usage).slice(0, MAX_FULLEST);
    if (first.length === 0) return h("p", { class: "muted" }, "Nothing counts in any limit now.");
    return [
      legend(),
      first.map((group) =>
        limitBar({
          ...group[0],
          environment: hasBoth(usage) ? undefined : group[0].environment,
          adds: group[0].pending,
          words: group.length > 1 ? `The fullest of ${countKeys(group, more)}.` : "",
        }),
      ),
    ];
  });
}

/**
 * Returns every limit; where there are many keys, the fullest.
 * @param {UsageSource} source
 */
function limitsSection(source) {
  return card("limits", "Limits", source.get, (usage) => {
    if (usage.usage.length + usage.unused.length === 0)
      return h("p", { class: "muted" }, "The policies have no limits.");
    /** @param {Usage} one */
    const bar = (one) =>
      limitBar({
        ...one,
        environment: hasBoth(usage.usage) ? undefined : one.environment,
        adds: one.pending,
        words: `${wordsOf(one, usage.unreadCalls)}.`,
      });
    return [
      usage.usage.length > 0 && legend(),
      groups(usage.usage).map((group) =>
        group.length === 1
          ? bar(group[0])
          : [h("p", { class: "muted keys" }, `${countKeys(group, usage.more)}; the fullest:`), bar(group[0])],
      ),
      usage.unused.length > 0 && [
        h("p", { class: "muted keys" }, "Nothing counts in these now; open holds do not count yet:"),
        h(
          "ul",
          { class: "plain unused" },
          usage.unused.map(({ limit, max, unit, over, mode }) =>
            h(
              "li",
              {},
              h("strong", {}, limit),
              `: all of ${formatUnits(max, unit)} left; calls beyond it are ${over === "hold" ? "held" : "denied"}`,
              mode === "enforce" ? "." : ` (${mode}).`,
            ),
          ),
        ),
      ],
      usage.unreadWindows && h("p", { class: "muted" }, "Not every key was read, so a fuller one may be missing."),
      usage.unreadCalls &&
        h("p", { class: "muted" }, "More calls are in flight, of unknown outcome or held than were read."),
      usage.more &&
        h("p", { class: "muted" }, "`sluice policy usage --limit ID` lists the fullest 1000 keys of one limit."),
    ];
  });
}

/** @param {App} app */
function decisionsSection(app) {
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
  const load = async () => (await get("decisions", { hours: hours.value, environment: mainEnvironment(app) })).body;
  /** @param {{ buckets: Bucket[] }} data */
  const draw = ({ buckets }) => {
    const total = buckets.reduce((sum, bucket) => sum + bucket.allowed + bucket.held + bucket.denied, 0);
    const none = h("p", { class: "muted" }, "No decisions in this time.");
    return [total === 0 ? none : drawDecisions(buckets), ofEnvironment(app)];
  };
  const made = card("decisions", "Decisions", load, draw, hours);
  hours.addEventListener("change", made.refresh);
  return made;
}
