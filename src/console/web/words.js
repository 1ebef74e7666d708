// How amounts, times and people are written.

import { now } from "./api.js";

/** `1234567.8900` as `1,234,567.8900`: digits are grouped, none is changed. */
export function grouped(digits) {
  const [whole, rest] = String(digits).split(".");
  const parts = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return rest === undefined ? parts : `${parts}.${rest}`;
}

/** An amount of micro-USD. */
export function usd(micros) {
  const units = BigInt(micros);
  const part = String(units % 1_000_000n).padStart(6, "0").replace(/0+$/, "").padEnd(2, "0");
  return `${grouped(units / 1_000_000n)}.${part} USD`;
}

/** What a limit counts. */
export function counted(units, unit) {
  return unit === "microUsd" ? usd(units) : `${grouped(units)} ${units === 1 ? "call" : "calls"}`;
}

/** One end of a movement, read from its words. */
export function party(text) {
  const told = { amount: null, currency: null, chain: null, names: [] };
  for (const [at, part] of (text ?? "").split(", ").entries()) {
    const money = at === 0 && /^(\d[\d.]*)(?: ([A-Za-z0-9.]+))?$/.exec(part);
    const name = /^(user|external wallet|wallet|account) (.+)$/.exec(part);
    if (money) [told.amount, told.currency] = [money[1], money[2] ?? null];
    else if (part.startsWith("on ")) told.chain = part.slice(3);
    else if (name) told.names.push([name[1], name[2]]);
    else if (at === 0) told.currency = part;
  }
  return told;
}

function said(hold, name) {
  return hold.words.find((word) => word.name === name)?.text;
}

/** What moves in a hold: `headline` is its amount, or what it does where it tells none. */
export function movement(hold) {
  const [from, to] = [party(said(hold, "from")), party(said(hold, "to"))];
  const does = (said(hold, "does") ?? hold.operation).replace(/ \([A-Za-z0-9]+\)$/, "");
  const main = [from, to].find((end) => end.amount !== null);
  const headline = main ? money(main) : does;
  const amounts = [from.amount, to.amount].filter((amount) => amount !== null);
  const ends = [from, to].map((end) => [end.currency?.toUpperCase(), end.chain && `on ${end.chain}`].filter(Boolean).join(" "));
  const last = to.names.at(-1) ?? hold.words.filter((word) => word.name === "at").map((word) => word.text.split(/ (.+)/)).at(-1);
  return {
    from,
    to,
    does,
    headline,
    amounts,
    hasAmount: main !== undefined,
    direction: ends.filter(Boolean).join(" → "),
    destination: last ? { what: last[0], name: last[1] } : null,
  };
}

export function money({ amount, currency }) {
  return amount === null ? (currency ?? "").toUpperCase() : [grouped(amount), currency?.toUpperCase()].filter(Boolean).join(" ");
}

/** The two ends of a long name, which is what people compare. */
export function shortened(name, longest = 22) {
  return name.length <= longest ? name : `${name.slice(0, 10)}…${name.slice(-8)}`;
}

export function person({ issuer, subject }) {
  return issuer ? `${issuer}/${subject}` : subject;
}

/** `2 h 5 min`. */
export function span(ms) {
  const secs = Math.max(0, Math.floor(ms / 1000));
  const [days, hours, mins] = [Math.floor(secs / 86_400), Math.floor(secs / 3_600) % 24, Math.floor(secs / 60) % 60];
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${mins} min`;
  if (mins > 0) return mins < 5 ? `${mins} min ${secs % 60} s` : `${mins} min`;
  return `${secs} s`;
}

export function ago(iso) {
  const ms = now() - Date.parse(iso);
  return ms < 10_000 ? "just now" : `${span(ms)} ago`;
}

/** How long is left, and how it presses. */
export function left(iso) {
  const ms = Date.parse(iso) - now();
  if (ms <= 0) return { text: "Time is over", press: "over" };
  return { text: `${span(ms)} left`, press: ms < 10 * 60_000 ? "urgent" : ms < 60 * 60_000 ? "soon" : "calm" };
}

/** A moment of today by its time, any other with its day. */
export function when(iso) {
  const at = new Date(iso);
  const isToday = at.toDateString() === new Date(now()).toDateString();
  const time = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return isToday ? at.toLocaleTimeString(undefined, time) : at.toLocaleString(undefined, { ...time, day: "numeric", month: "short", year: "numeric" });
}

const STATES = {
  pending: ["Waits for people", "waits"],
  approved: ["Approved, to be sent", "good"],
  released: ["Sent", "good"],
  rejected: ["Rejected", "bad"],
  expired: ["Expired", "bad"],
  cancelled: ["Cancelled by its caller", "bad"],
  blocked: ["Blocked by today's rules", "bad"],
  forgotten: ["No longer kept", "bad"],
};

/** A state of a hold: its words, and how they look. */
export function state(of) {
  return STATES[of] ?? [of, ""];
}

/** `1 of ops, 2 of finance`. */
export function missing(hold) {
  const groups = hold.approvals.flatMap((approval) => approval.missing);
  return groups.map(({ group, count }) => `${count} of ${group}`).join(", ");
}

/** Votes given and needed, over all approvals. */
export function tally(hold) {
  const sum = (of) => hold.approvals.reduce((total, approval) => total + approval[of], 0);
  return { given: sum("given"), needed: sum("needed") };
}
