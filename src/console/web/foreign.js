// Payments that upstream lists and no gate sent, or sent otherwise.

import { get } from "./api.js";
import { badge, card, h, timeTag } from "./dom.js";
import { formatAgo, groupDigits } from "./words.js";

const SHOWN = 20;

export function section() {
  /** @returns {Promise<{ payments: ForeignPayment[], next: string | null, lists: FollowedList[] }>} */
  const load = async () => (await get("payments/foreign", { limit: SHOWN })).body;
  return card("foreign", "Payments that no gate sent", load, ({ payments: all, next, lists }) => [
    unread(lists),
    all.length === 0
      ? h("p", { class: "muted" }, noneFound(lists))
      : [
          h("p", { class: "muted" }, "Find out who made each: somebody pays past the gate, or a record was changed."),
          h("ul", { class: "plain" }, all.map(item)),
          next && h("p", { class: "muted" }, "There are more; `sluice payments foreign` lists all of them."),
        ],
  ]);
}

/** @param {FollowedList[]} lists */
function noneFound(lists) {
  const some = lists.some(({ read }) => read);
  return some ? "None in the last 35 days in the lists of the payments API that a gate reads." : "None is known.";
}

/**
 * Names the lists in which nobody looks.
 * @param {FollowedList[]} lists
 */
function unread(lists) {
  const names = lists.filter(({ read }) => !read).map(({ environment, operation }) => `${operation} in ${environment}`);
  if (lists.length > 0 && names.length === 0) return null;
  const which = names.length === 0 ? "any list of the payments API" : `the lists of ${names.join(", ")}`;
  return h("p", { class: "became warn" }, `No gate reads ${which} now: such payments are not found there.`);
}

/** @param {ForeignPayment} payment */
function item({ environment, operation, record, requestId, text, state, foundAt, source }) {
  const amount = [source.amount && groupDigits(source.amount), source.currency?.toUpperCase()]
    .filter(Boolean)
    .join(" ");
  return h(
    "li",
    { class: "became warn" },
    h(
      "p",
      {},
      h("strong", {}, amount || "no amount"),
      ` ${operation} (${state}) `,
      environment === "sandbox" && badge("Sandbox", "note"),
      timeTag(formatAgo(foundAt), foundAt),
    ),
    h("p", {}, `${text}.`),
    h("p", { class: "muted" }, "Record ", h("span", { class: "code" }, record), requestId && `, request ${requestId}`),
  );
}
