// Draws the bars of limits and the columns of decisions. Each chart also says in words what it shows.

import { h, svg, table } from "./dom.js";
import { formatTime, formatUnits, formatUsd, groupDigits, shorten } from "./words.js";

/**
 * Draws a limit: the units in use, those of them that are in flight, and those that a call would add.
 * @param {LimitBar} bar
 */
export function limitBar({
  limit,
  key,
  unit,
  used,
  max,
  inFlight = 0,
  adds = 0,
  mode,
  words,
  isShort = false,
  environment,
}) {
  /** @param {number} units */
  const share = (units) => (max === 0 ? 0 : Math.min(100, (units / max) * 100));
  const [taken, flying] = [share(used), Math.min(share(used), share(inFlight))];
  const more = Math.min(share(adds), 100 - taken);
  const isFull = used >= max;
  const keyText = Object.entries(key)
    .filter(([name]) => name !== "environment" || environment === undefined)
    .map(([name, value]) => `${name} ${shorten(value, 44)}`)
    .join(", ");
  return h(
    "div",
    { class: `limit ${isFull || isShort ? "full" : taken > 80 ? "tight" : ""}` },
    h(
      "p",
      { class: "name" },
      h("strong", {}, limit),
      mode === "shadow" && h("span", { class: "badge note" }, "shadow mode"),
      h("span", { class: "number" }, `${formatUnits(used, unit)} of ${formatUnits(max, unit)}`),
    ),
    keyText && h("p", { class: "muted key" }, keyText),
    svg(
      "svg",
      { class: "bar-chart", "aria-hidden": "true", width: "100%", height: "10", preserveAspectRatio: "none" },
      svg("rect", { class: "room", width: "100%", height: "10", rx: "3" }),
      svg("rect", { class: "used", width: `${taken}%`, height: "10", rx: "3" }),
      flying > 0 && svg("rect", { class: "flying", x: `${taken - flying}%`, width: `${flying}%`, height: "10" }),
      more > 0 && svg("rect", { class: "adds", x: `${taken}%`, width: `${more}%`, height: "10" }),
    ),
    words && h("p", { class: "muted words" }, words),
  );
}

/** @type {["allowed" | "held" | "denied", string][]} */
const VERDICTS = [
  ["allowed", "Allowed"],
  ["held", "Held"],
  ["denied", "Denied"],
];

/**
 * Draws the decisions over time by verdict.
 * @param {Bucket[]} buckets the earliest first
 */
export function drawDecisions(buckets) {
  /** @param {"allowed" | "held" | "denied"} verdict */
  const total = (verdict) => buckets.reduce((sum, bucket) => sum + bucket[verdict], 0);
  const most = Math.max(1, ...buckets.map((bucket) => VERDICTS.reduce((sum, [verdict]) => sum + bucket[verdict], 0)));
  const [width, height, gap] = [600, 140, 2];
  const each = width / Math.max(1, buckets.length);
  const columns = buckets.flatMap((bucket, at) => {
    let foot = height;
    return VERDICTS.map(([verdict, label]) => {
      const tall = (bucket[verdict] / most) * (height - 4);
      foot -= tall;
      if (tall === 0) return null;
      return svg(
        "rect",
        { class: verdict, x: at * each + gap / 2, y: foot, width: Math.max(1, each - gap), height: tall },
        svg("title", {}, `${formatTime(bucket.at)}: ${groupDigits(bucket[verdict])} ${label.toLowerCase()}`),
      );
    });
  });
  const summary = VERDICTS.map(([verdict, label]) => `${groupDigits(total(verdict))} ${label.toLowerCase()}`).join(
    ", ",
  );
  return h(
    "figure",
    { class: "decisions" },
    svg(
      "svg",
      {
        viewBox: `0 0 ${width} ${height}`,
        role: "img",
        "aria-label": `Decisions over time: ${summary}.`,
        preserveAspectRatio: "none",
      },
      svg("line", { class: "ground", x1: "0", x2: String(width), y1: String(height), y2: String(height) }),
      columns,
    ),
    h(
      "div",
      { class: "axis muted" },
      h("span", {}, buckets.length > 0 ? formatTime(buckets[0].at) : ""),
      h("span", {}, `highest: ${groupDigits(most)}`),
      h("span", {}, "now"),
    ),
    h(
      "figcaption",
      {},
      VERDICTS.map(([verdict, label]) =>
        h(
          "span",
          { class: `key ${verdict}` },
          h("span", { class: "swatch", "aria-hidden": "true" }),
          `${groupDigits(total(verdict))} ${label.toLowerCase()}`,
        ),
      ),
    ),
    h(
      "details",
      { "data-name": "decisions" },
      h("summary", {}, "As a table"),
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Decisions as a table" },
        table(
          ["From", ...VERDICTS.map(([, label]) => label)],
          buckets.map((bucket) => [formatTime(bucket.at), ...VERDICTS.map(([verdict]) => String(bucket[verdict]))]),
          1,
        ),
      ),
    ),
  );
}

/**
 * Draws the paid money of each day (UTC).
 * @param {PaymentDay[]} days the earliest first
 */
export function drawMoney(days) {
  const sums = days.map(({ day, sums: of }) => {
    const paid = of.filter(({ status }) => status === "paid");
    const value = paid.reduce((total, one) => total + BigInt(one.value), 0n);
    return { day, paid, value, count: paid.reduce((total, one) => total + one.count, 0) };
  });
  const most = sums.reduce((max, { value }) => (value > max ? value : max), 0n);
  const [width, height, gap] = [600, 70, 2];
  const each = width / Math.max(1, sums.length);
  const columns = sums.map(({ day, value, count }, at) => {
    if (value === 0n) return null;
    // A thousandth is enough for a column; the words have the exact sum.
    const tall = Math.max(1, (Number((value * 1000n) / most) / 1000) * (height - 4));
    return svg(
      "rect",
      { class: "allowed", x: at * each + gap / 2, y: height - tall, width: Math.max(1, each - gap), height: tall },
      svg("title", {}, `${day}: ${formatUsd(value)} in ${groupDigits(count)}`),
    );
  });
  const total = sums.reduce((sum, { value }) => sum + value, 0n);
  return h(
    "figure",
    { class: "decisions" },
    svg(
      "svg",
      {
        viewBox: `0 0 ${width} ${height}`,
        role: "img",
        "aria-label": `Paid in ${sums.length} days: ${formatUsd(total)}; most in a day: ${formatUsd(most)}.`,
        preserveAspectRatio: "none",
      },
      svg("line", { class: "ground", x1: "0", x2: String(width), y1: String(height), y2: String(height) }),
      columns,
    ),
    h(
      "div",
      { class: "axis muted" },
      h("span", {}, sums[0]?.day ?? ""),
      h("span", {}, `highest: ${formatUsd(most)}`),
      h("span", {}, "today"),
    ),
    h(
      "details",
      { "data-name": "money" },
      h("summary", {}, "As a table"),
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Paid money as a table" },
        table(
          ["Day (UTC)", "Operation", "Payments", "Value"],
          sums.flatMap(({ day, paid }) =>
            paid.map((one) => [day, one.operation, String(one.count), formatUsd(BigInt(one.value))]),
          ),
          2,
        ),
      ),
    ),
  );
}
