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
  "not-sent": ["Not executed", "note"],
  absent: ["Said not executed", "warn"],
  "given-up": ["Given up", "bad"],
  failed: ["Failed", "bad"],
  returned: ["Returned", "bad"],
};

/**
 * Returns the environment that figures are about: money is real in production.
 * @param {App} app
 */
export function mainEnvironment(app) {
  const { environments } = app.session();
  return environments.includes("production") ? "production" : (environments[0] ?? "production");
}

/**
 * Names the environment of a section's figures, where the person sees more than one.
 * @param {App} app
 */
export function ofEnvironment(app) {
  const { environments } = app.session();
  return environments.length > 1 && h("p", { class: "muted" }, `In ${mainEnvironment(app)} alone.`);
}

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
