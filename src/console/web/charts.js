// Bars and columns, drawn here: each says in words what it shows.

import { h, svg } from "./dom.js";
import { counted, when } from "./words.js";

/** A limit: what is used and of it in flight, what a call would add or what waits to, what is left. */
export function limitBar({ limit, key, unit, used, max, inFlight = 0, adds = 0, mode, words, isShort = false, environment }) {
  const share = (units) => (max === 0 ? 0 : Math.min(100, (units / max) * 100));
  const [taken, flying] = [share(used), Math.min(share(used), share(inFlight))];
  const more = Math.min(share(adds), 100 - taken);
  const isFull = used >= max;
  const of = Object.entries(key).filter(([name]) => name !== "environment" || environment === undefined).map(([name, value]) => `${name} ${value}`).join(", ");
  return h(
    "div",
    { class: `limit ${isFull || isShort ? "full" : taken > 80 ? "tight" : ""}` },
    h("p", { class: "name" }, h("strong", {}, limit), mode === "shadow" && h("span", { class: "badge note" }, "not in force"), h("span", { class: "number" }, `${counted(used, unit)} of ${counted(max, unit)}`)),
    of && h("p", { class: "muted key" }, of),
    svg(
      "svg",
      { class: "bar-chart", "aria-hidden": "true", width: "100%", height: "10", preserveAspectRatio: "none" },
      svg("rect", { class: "room", width: "100%", height: "10", rx: "3" }),
      svg("rect", { class: "used", width: `${taken}%`, height: "10", rx: "3" }),
      flying > 0 && svg("rect", { class: "flying", x: `${taken - flying}%`, width: `${flying}%`, height: "10" }),
      more > 0 && svg("rect", { class: "adds", x: `${taken}%`, width: `${more}%`, height: "10" }),
    ),
    h("p", { class: "muted words" }, words),
  );
}

const VERDICTS = [
  ["allowed", "Allowed"],
  ["held", "Held"],
  ["denied", "Denied"],
];

/** Decisions over time by verdict. `buckets`: the earliest first. */
export function decisions(buckets) {
  const total = (of) => buckets.reduce((sum, bucket) => sum + bucket[of], 0);
  const most = Math.max(1, ...buckets.map((bucket) => VERDICTS.reduce((sum, [of]) => sum + bucket[of], 0)));
  const [width, height, gap] = [600, 140, 2];
  const each = width / Math.max(1, buckets.length);
  const columns = buckets.flatMap((bucket, at) => {
    let foot = height;
    return VERDICTS.map(([of, label]) => {
      const tall = (bucket[of] / most) * (height - 4);
      foot -= tall;
      if (tall === 0) return null;
      return svg("rect", { class: of, x: at * each + gap / 2, y: foot, width: Math.max(1, each - gap), height: tall }, svg("title", {}, `${when(bucket.at)}: ${bucket[of]} ${label.toLowerCase()}`));
    });
  });
  const summary = VERDICTS.map(([of, label]) => `${total(of)} ${label.toLowerCase()}`).join(", ");
  return h(
    "figure",
    { class: "decisions" },
    svg(
      "svg",
      { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Decisions over time: ${summary}.`, preserveAspectRatio: "none" },
      svg("line", { class: "ground", x1: "0", x2: String(width), y1: String(height), y2: String(height) }),
      columns,
    ),
    h("div", { class: "axis muted" }, h("span", {}, buckets.length > 0 ? when(buckets[0].at) : ""), h("span", {}, `most at once: ${most}`), h("span", {}, "now")),
    h("figcaption", {}, VERDICTS.map(([of, label]) => h("span", { class: `key ${of}` }, h("span", { class: "swatch", "aria-hidden": "true" }), `${total(of)} ${label.toLowerCase()}`))),
    h(
      "details",
      { "data-name": "decisions" },
      h("summary", {}, "As a table"),
      h(
        "div",
        { class: "scroll", tabindex: "0", role: "region", "aria-label": "Decisions as a table" },
        h(
          "table",
          {},
          h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "From"), VERDICTS.map(([, label]) => h("th", { scope: "col", class: "number" }, label)))),
          h("tbody", {}, buckets.map((bucket) => h("tr", {}, h("th", { scope: "row" }, when(bucket.at)), VERDICTS.map(([of]) => h("td", { class: "number" }, String(bucket[of])))))),
        ),
      ),
    ),
  );
}
