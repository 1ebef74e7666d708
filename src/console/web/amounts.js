// Amounts, ends and statuses of payments, as the list of payments and the history show them.

import { badge, h } from "./dom.js";
import { groupDigits, shorten } from "./words.js";

/** @type {Record<PaymentStatus, [string, string]>} */
export const STATUSES = {
  paid: ["Paid", "good"],
  sending: ["Being sent", "waits"],
  waiting: ["Waiting", "waits"],
  unknown: ["Unknown outcome", "warn"],
  refused: ["Refused", "bad"],
  cancelled: ["Cancelled", "bad"],
  expired: ["Expired", "bad"],
  "not-sent": ["Not sent", "note"],
  "given-up": ["Given up", "bad"],
  failed: ["Failed", "bad"],
  returned: ["Returned", "bad"],
};

/** @param {PaymentStatus} status */
export function statusBadge(status) {
  return badge(statusWord(status), STATUSES[status]?.[1]);
}

/** @param {PaymentStatus} status */
export function statusWord(status) {
  return STATUSES[status]?.[0] ?? status;
}

/** @param {{ amount: string | null, currency: string | null }} payment */
export function amountOf({ amount, currency }) {
  return amount === null ? "no amount" : [groupDigits(amount), currency?.toUpperCase()].filter(Boolean).join(" ");
}

/**
 * Returns an end of a payment: the lists that know it, and its address.
 * @param {PaymentParty | null} party
 * @param {boolean} isWhole
 */
export function partyOf(party, isWhole = false) {
  if (party === null) return h("span", { class: "muted" }, "not stated");
  const name = party.name ?? party.keyed;
  return [
    party.lists.map((list) => h("strong", { class: "known" }, `${list} `)),
    h("span", { class: "code", title: `${party.kind} ${name}` }, isWhole ? name : shorten(name)),
    party.name === null && h("span", { class: "muted" }, " (name in the audit log)"),
  ];
}
