// Payments that upstream lists and no gate sent, or that are not as they were sent.

import { get } from "./api.js";
import { badge, card, h, timeTag } from "./dom.js";
import { formatAgo, groupDigits } from "./words.js";

const MAX_SHOWN = 20;

export function section() {
  /** @returns {Promise<ForeignPayment[]>} */
  const load = async () => (await get("payments/foreign")).body.payments;
  return card("foreign", "Payments that no gate sent", load, (all) =>
    all.length === 0
      ? h("p", { class: "muted" }, "None in the last 35 days, as far as the payments API lists payments.")
      : [
          h("p", { class: "muted" }, "Find out who made each: somebody pays past the gate, or a record was changed."),
          h("ul", { class: "plain" }, all.slice(0, MAX_SHOWN).map(item)),
          all.length > MAX_SHOWN && h("p", { class: "muted" }, "There are more; `sluice payments foreign` lists them."),
        ],
  );
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
