// Tables and lists of rules, for the set in force and for others.

import { badge, h, table, withCode } from "./dom.js";

/** @param {string} version */
export function versionCode(version) {
  return h("code", { title: version }, version.slice(0, 16));
}

/** @param {PassTable} table */
export function passTables({ people, operations }) {
  const heads = people.map((count) => (count === 0 ? "Nobody" : count === 1 ? "1 person" : `${count} people`));
  return operations.map(({ operation, rows, limits }) => [
    h("h3", {}, h("code", {}, operation)),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": operation },
      table(
        ["Caller", "Destination", ...heads],
        rows.map(({ environment, caller, destination, most }) => [
          withCode(environment === null ? caller : `${environment}, ${caller}`),
          withCode(destination),
          ...most.map(({ words }) => words),
        ]),
        Infinity,
      ),
    ),
    limits.length > 0 && h("dl", { class: "rules" }, limits.map(ruleItem)),
  ]);
}

/** @param {Rule} rule */
export function ruleItem({ id, words, mode }) {
  return h(
    "div",
    {},
    h("dt", {}, h("code", {}, id), mode === "shadow" && badge("shadow mode", "note")),
    h("dd", {}, withCode(words)),
  );
}
