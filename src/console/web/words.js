// Formats amounts, times and people.

import { now } from "./api.js";

/**
 * Groups the digits of a number and changes none: `1234567.8900` becomes `1,234,567.8900`.
 * @param {string | number | bigint} digits
 */
export function groupDigits(digits) {
  const [whole, rest] = String(digits).split(".");
  const parts = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return rest === undefined ? parts : `${parts}.${rest}`;
}

/**
 * Formats a sum of amounts as USD are: with two decimals, or as many more as it needs. A whole one stays whole.
 * @param {string} sum
 */
export function groupSum(sum) {
  const [whole, rest] = sum.split(".");
  return groupDigits(rest === undefined ? whole : `${whole}.${rest.replace(/0+$/, "").padEnd(2, "0")}`);
}

/**
 * Groups the digits of each sum of USD in a text.
 * @param {string} text
 */
export function groupSums(text) {
  return text.replace(/(?<![0-9.,A-Za-z])[0-9]{4,}(?=(?:\.[0-9]+)? USD\b)/g, groupDigits);
}

/**
 * Cuts a text that people wrote.
 * @param {string} text
 * @param {number} most
 */
export function cut(text, most) {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

/** @param {number | bigint} microUsd */
export function formatUsd(microUsd) {
  const units = BigInt(microUsd);
  const part = String(units % 1_000_000n)
    .padStart(6, "0")
    .replace(/0+$/, "")
    .padEnd(2, "0");
  return `${groupDigits(units / 1_000_000n)}.${part} USD`;
}

/**
 * Formats the units of a limit, which are micro-USD or calls.
 * @param {number} units
 * @param {string} unit
 */
export function formatUnits(units, unit) {
  return unit === "microUsd" ? formatUsd(units) : `${groupDigits(units)} ${units === 1 ? "call" : "calls"}`;
}

/**
 * Parses one end of a movement from its description.
 * @param {string | undefined} text
 */
export function parseParty(text) {
  /** @type {Party} */
  const party = { amount: null, currency: null, chain: null, names: [] };
  for (const [at, part] of (text ?? "").split(", ").entries()) {
    const money = at === 0 && /^(\d[\d.]*)(?: ([A-Za-z0-9.]+))?$/.exec(part);
    const name = /^(user|external wallet|wallet|account) (.+)$/.exec(part);
    if (money) [party.amount, party.currency] = [money[1], money[2] ?? null];
    else if (part.startsWith("on ")) party.chain = part.slice(3);
    else if (name) party.names.push([name[1], name[2]]);
    else if (at === 0) party.currency = part;
  }
  return party;
}

/**
 * @param {{ words: Word[] }} call
 * @param {string} name
 */
export function wordOf(call, name) {
  return call.words.find((word) => word.name === name)?.text;
}

/**
 * Returns what moves in a hold, or in a call. The headline is the amount, or the kind of operation if there is no amount.
 * @param {{ words: Word[], operation: string }} call
 * @returns {Movement}
 */
export function movement(call) {
  const [from, to] = [parseParty(wordOf(call, "from")), parseParty(wordOf(call, "to"))];
  const does = (wordOf(call, "does") ?? call.operation).replace(/ \([A-Za-z0-9]+\)$/, "");
  const main = [from, to].find((end) => end.amount !== null);
  const isOneChain = from.chain === to.chain;
  const ends = [from, to].map((end, at) =>
    [end.currency?.toUpperCase(), end.chain && (at === 1 || !isOneChain) && `on ${end.chain}`]
      .filter(Boolean)
      .join(" "),
  );
  const last =
    to.names.at(-1) ??
    call.words
      .filter((word) => word.name === "at")
      .map((word) => word.text.split(/ (.+)/))
      .at(-1);
  return {
    headline: main ? formatMoney(main) : does,
    amounts: [from.amount, to.amount].filter((amount) => amount !== null),
    currency: main?.currency?.toLowerCase() ?? null,
    hasAmount: main !== undefined,
    direction: ends.filter(Boolean).join(" → "),
    destination: last ? { what: last[0], name: last[1] } : null,
  };
}

/** @param {Party} party */
function formatMoney({ amount, currency }) {
  return amount === null
    ? (currency ?? "").toUpperCase()
    : [groupDigits(amount), currency?.toUpperCase()].filter(Boolean).join(" ");
}

/**
 * Keeps the two ends of a long name, because people compare these.
 * @param {string} name
 */
export function shorten(name, longest = 22) {
  return name.length <= longest ? name : `${name.slice(0, 10)}…${name.slice(-8)}`;
}

/** @param {Subject} person */
export function personName({ issuer, subject }) {
  return issuer ? `${issuer}/${subject}` : subject;
}

/**
 * Formats a duration, such as `2 h 5 min`.
 * @param {number} ms
 */
export function formatDuration(ms) {
  const secs = Math.max(0, Math.floor(ms / 1000));
  const [days, hours, mins] = [Math.floor(secs / 86_400), Math.floor(secs / 3_600) % 24, Math.floor(secs / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${mins} min`;
  if (mins > 0) return mins < 5 ? `${mins} min ${secs % 60} s` : `${mins} min`;
  return `${secs} s`;
}

/** @param {string} iso */
export function formatAgo(iso) {
  const ms = now() - Date.parse(iso);
  return ms < 10_000 ? "just now" : `${formatDuration(ms)} ago`;
}

/**
 * Returns how much time is left, and how urgent that is.
 * @param {string} iso
 */
export function timeLeft(iso) {
  const ms = Date.parse(iso) - now();
  if (ms <= 0) return { text: "Expired", press: "over" };
  return {
    text: `${formatDuration(ms)} left`,
    press: ms < 10 * 60_000 ? "urgent" : ms < 60 * 60_000 ? "soon" : "calm",
  };
}

/**
 * Formats a time of today without its date, any other time with it.
 * @param {string} iso
 */
export function formatTime(iso) {
  const at = new Date(iso);
  const isToday = at.toDateString() === new Date(now()).toDateString();
  /** @type {Intl.DateTimeFormatOptions} */
  const time = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return isToday
    ? at.toLocaleTimeString("en-GB", time)
    : at.toLocaleString("en-GB", { ...time, day: "numeric", month: "short", year: "numeric" });
}

/** Says in which zone `formatTime` shows times; days of filters and sums are in UTC. */
export function zoneWords() {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  if (timeZone === "UTC") return "Times and days are in UTC.";
  const parts = new Intl.DateTimeFormat("en-GB", { timeZoneName: "shortOffset" }).formatToParts(now());
  const offset = parts.find(({ type }) => type === "timeZoneName")?.value ?? "";
  return `Times are those of this browser: ${timeZone}, ${offset}. Days are in UTC.`;
}

/** @type {Record<Effect, [string, string]>} */
export const EFFECTS = { allow: ["Allowed", "good"], hold: ["Held for approval", "waits"], deny: ["Denied", "bad"] };

/** @type {Record<HoldState, [string, string]>} */
const STATES = {
  pending: ["Pending approval", "waits"],
  approved: ["Fully approved", "good"],
  released: ["Sent", "good"],
  rejected: ["Rejected", "bad"],
  expired: ["Expired: too few approvals", "bad"],
  cancelled: ["Cancelled by the caller", "bad"],
  blocked: ["Denied by the rules at release", "bad"],
  forgotten: ["No longer stored", "bad"],
};

/**
 * Returns the label of a hold's state, and its kind of badge.
 * @param {HoldState} state
 */
export function stateLabel(state) {
  return STATES[state] ?? [state, ""];
}

/**
 * Lists the votes that a hold lacks, such as `1 of ops, 2 of finance`.
 * @param {Hold} hold
 */
export function missingVotes(hold) {
  const groups = hold.approvals.flatMap((approval) => approval.missing);
  return groups.map(({ group, count }) => `${count} of ${group}`).join(", ");
}

/**
 * Counts the votes given and needed, over all approvals.
 * @param {Hold} hold
 */
export function countVotes(hold) {
  /** @param {"given" | "needed"} name */
  const sum = (name) => hold.approvals.reduce((total, approval) => total + approval[name], 0);
  return { given: sum("given"), needed: sum("needed") };
}

/**
 * Returns the day of a time in UTC, such as `2026-11-20`.
 * @param {number} ms
 */
export function formatDay(ms) {
  return new Date(ms).toISOString().slice(0, 10);
}

/**
 * Saves a text as a file.
 * @param {string} name
 * @param {string} content
 */
export function download(name, content) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type: "text/plain" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/**
 * Returns two decimals as integers of one unit, and the decimals of that unit.
 * @param {string} one
 * @param {string} other
 */
function unitsOf(one, other) {
  const places = Math.max(...[one, other].map((text) => text.split(".")[1]?.length ?? 0));
  const units = [one, other].map((text) => {
    const [whole, rest = ""] = text.split(".");
    return BigInt(whole + rest.padEnd(places, "0"));
  });
  return { units, places };
}

/**
 * Adds two decimals exactly.
 * @param {string} one
 * @param {string} other
 */
export function addAmounts(one, other) {
  const { units, places } = unitsOf(one, other);
  const digits = String(units[0] + units[1]).padStart(places + 1, "0");
  return places === 0 ? digits : `${digits.slice(0, -places)}.${digits.slice(-places)}`;
}

/**
 * @param {string} one
 * @param {string} other
 */
export function compareAmounts(one, other) {
  const [a, b] = unitsOf(one, other).units;
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * Returns an amount in tenths of the mean of others, rounded down.
 * @param {string} amount
 * @param {string} sum of the others
 * @param {number} count of the others
 */
export function tenthsOfMean(amount, sum, count) {
  const [own, all] = unitsOf(amount, sum).units;
  return all === 0n ? 0n : (own * BigInt(count) * 10n) / all;
}
