// What makes a hold risky, in the order in which people ask: where to, whether twice, how much against the usual, limits.

import { statusWord } from "./amounts.js";
import { h } from "./dom.js";
import { formatAgo, formatTime, formatUnits, groupDigits, movement, tenthsOfMean } from "./words.js";

/**
 * @typedef {object} RiskFact
 * @property {"bad" | "warn" | "good" | ""} kind
 * @property {string} text
 * @property {string} [short] the same in a few words, for a row of the queue
 * @property {string} [href]
 * @property {string} [link] the words of the link in a row, where `short` stands there without it
 * @property {string} [at] when that was
 * @property {string[]} [unlike] a name, and the known one that it is not
 */

/**
 * The statuses of payments that certainly moved nothing.
 * @type {PaymentStatus[]}
 */
const NOT_MOVED = ["refused", "cancelled", "expired", "not-sent"];
/** From so many times the usual amount on, a hold must be checked. */
const MUCH_TENTHS = 30n;

/**
 * Returns what speaks against an open hold, for its row in the queue.
 * @param {Hold} hold
 */
export function rowRisk(hold) {
  return riskOf(hold).filter(({ kind, short }) => short && (kind === "bad" || kind === "warn"));
}

/**
 * Returns everything that speaks for and against an open hold, the worst first.
 * @param {Hold} hold
 * @returns {RiskFact[]}
 */
export function riskOf(hold) {
  const { destination, earlier } = hold;
  /** @type {RiskFact[]} */
  const facts = [];
  if (destination?.lookAlike) {
    const { name, lists } = destination.lookAlike;
    facts.push({
      kind: "bad",
      text: `This address begins and ends like ${name} of ${lists.join(", ")}, and is another one.`,
      short: `Looks like ${lists.join(", ")}, and is not`,
      unlike: destination.name ? [destination.name, name] : undefined,
    });
  }
  if (earlier?.lookAlike && !destination?.lookAlike) facts.push(paidLookAlike(hold, earlier.lookAlike));
  if (destination && destination.lists.length > 0)
    facts.push({ kind: "good", text: `The destination is in the list ${destination.lists.join(", ")}.` });
  if (hold.newDestination)
    facts.push({
      kind: "warn",
      text: "New destination: it was never paid before through Sluice.",
      short: "New destination",
    });
  if (hold.equalPayment)
    facts.push({
      kind: "warn",
      text: "Same payment again: a limit on equal payments holds it.",
      short: "Same payment again",
    });
  facts.push(...earlierRisk(hold), ...limitRisk(hold));
  const order = ["bad", "warn", "", "good"];
  return facts.sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
}

/**
 * Returns that the destination looks like an address that was paid, and is another one.
 * @param {Hold} hold
 * @param {NonNullable<EarlierPayments["lookAlike"]>} known
 * @returns {RiskFact}
 */
function paidLookAlike({ destination, environment }, { name, payment, at }) {
  const short = "Looks like a paid address, and is not";
  if (!name || !payment || !at) {
    const text = "This address begins and ends like one that was paid before, and is another one.";
    return { kind: "bad", text, short };
  }
  return {
    kind: "bad",
    text: `This address begins and ends like ${name}, which ${payment} paid, and is another one: `,
    short,
    link: `${payment} paid the address that it looks like, `,
    href: `#/payments/${environment}/${encodeURIComponent(payment)}`,
    at,
    unlike: destination?.name ? [destination.name, name] : undefined,
  };
}

/**
 * Returns what earlier payments to the destination say of a hold.
 * @param {Hold} hold
 * @returns {RiskFact[]}
 */
function earlierRisk({ earlier, environment, ...hold }) {
  if (earlier === undefined) return [];
  if (earlier === null)
    return [
      {
        kind: "warn",
        text: "Earlier payments could not be read: judge this call without them.",
        short: "Earlier payments not read",
      },
    ];
  /** @type {RiskFact[]} */
  const facts = [];
  const since = earlier.since ? ` count only since ${formatTime(earlier.since)}` : "";
  if (earlier.reading) {
    const text = `Earlier payments${since ? `${since}; older ones` : ""} are still being read.`;
    facts.push({ kind: "warn", text, short: "Earlier payments still being read" });
  } else if (since) facts.push({ kind: "", text: `Earlier payments${since}: the console has no older ones.` });
  for (const { name, status, at } of earlier.same) {
    const label = statusWord(status).toLowerCase();
    facts.push({
      kind: NOT_MOVED.includes(status) ? "" : "warn",
      text: `The same amount to the same destination: ${name}, ${label}, `,
      short: `Same amount, same destination: ${name}, ${label}, `,
      href: `#/payments/${environment}/${encodeURIComponent(name)}`,
      at,
    });
  }
  const { count, amount } = earlier.paid;
  const [own] = movement(hold).amounts;
  if (own && count > 0 && /^[0-9][0-9.]*$/.test(amount ?? "")) {
    const tenths = tenthsOfMean(own, amount ?? "", count);
    const times = tenths >= 100n ? groupDigits(tenths / 10n) : `${tenths / 10n}.${tenths % 10n}`;
    facts.push({
      kind: tenths >= MUCH_TENTHS ? "warn" : "",
      text: `${times} times the mean of ${groupDigits(count)} earlier ${count === 1 ? "payment" : "payments"} to it.`,
      short: `${times} times the usual`,
    });
  }
  return facts;
}

/**
 * Returns the limits that a hold exceeds. A row of the queue knows only that there are some.
 * @param {Hold} hold
 * @returns {RiskFact[]}
 */
function limitRisk({ limits, overLimit }) {
  /** @type {RiskFact[]} */
  const exceeded = (limits ?? [])
    .filter(({ adds, left }) => adds > left)
    .map(({ limit, left, adds, unit }) => ({
      kind: "warn",
      text: `It exceeds the limit ${limit}: ${formatUnits(left, unit)} left, it needs ${formatUnits(adds, unit)}.`,
    }));
  if (exceeded.length > 0 || !overLimit) return exceeded;
  return [{ kind: "warn", text: "It was over a limit when it was held; now there is room.", short: "Over a limit" }];
}

/**
 * Draws the facts of a hold's risk.
 * @param {RiskFact[]} facts
 */
export function drawRisk(facts) {
  if (facts.length === 0) return h("p", { class: "muted" }, "Nothing unusual is known of this call.");
  const words = { bad: "Danger", warn: "Check", good: "Known", "": "Note" };
  return h(
    "ul",
    { class: "plain risk" },
    facts.map(({ kind, text, href, at, unlike }) =>
      h(
        "li",
        { class: kind },
        h("strong", {}, `${words[kind]}: `),
        href ? h("a", { href }, text, ago(at)) : h("span", {}, text),
        unlike && h("span", { class: "code unlike" }, differences(unlike[0], unlike[1])),
      ),
    ),
  );
}

/** @param {string} [at] */
export function ago(at) {
  return at && h("span", { "data-ago": at }, formatAgo(at));
}

/**
 * Marks the characters of a name that another one does not have at their place.
 * @param {string} name
 * @param {string} other
 * @returns {Child[]}
 */
function differences(name, other) {
  // The case of hex digits is a checksum of the whole address: where it alone differs, the digit is the same.
  const plain = (/** @type {string} */ text) => (text.startsWith("0x") ? text.toLowerCase() : text);
  const [own, known] = [plain(name), plain(other)];
  return [...name].map((letter, at) => (own[at] === known[at] ? letter : h("mark", {}, letter)));
}

/**
 * Says when an approved call is sent: truth also while money is frozen or closed.
 * @param {App} app
 * @param {Hold} hold
 */
export function whenSent(app, hold) {
  const isStopped = app.stops.some(({ environment }) => !environment || environment === hold.environment);
  const frozen = app.frozen.some(
    ({ environment, scope }) =>
      environment === hold.environment &&
      (typeof scope === "string" ||
        scope.operation === hold.operation ||
        (scope.caller?.subject === hold.owner.subject && scope.caller?.issuer === hold.owner.issuer)),
  );
  if (frozen) return "Money is frozen: approved now, it is sent when it is unfrozen.";
  if (isStopped) return "Money is closed at the moment: approved now, it is sent when money is open again.";
  const begins = hold.state === "approved" ? "It is sent at once" : "When it is fully approved, it is sent at once";
  if (hold.overLimit)
    return `${begins}: its approval lets it exceed the limit that holds it. Limits that deny must have room.`;
  return `${begins}, if the limits have room.`;
}
