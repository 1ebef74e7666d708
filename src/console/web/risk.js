// What makes a hold risky, in the order in which people ask: where to, whether twice, how much against the usual, limits.

import { get } from "./api.js";
import { h } from "./dom.js";
import { formatAgo, formatTime, formatUnits, groupDigits, movement, tenthsOfMean } from "./words.js";

/**
 * @typedef {object} RiskFact
 * @property {"bad" | "warn" | "good" | ""} kind
 * @property {string} text
 * @property {string} [href]
 * @property {string[]} [unlike] a name, and the known one that it is not
 * @property {boolean} [isPartial] not all earlier payments were there to look at: later there may be more
 */

/**
 * The statuses of payments that certainly moved nothing.
 * @type {PaymentStatus[]}
 */
const NOT_MOVED = ["refused", "cancelled", "expired", "not-sent"];

/**
 * Returns what the list knows of a hold's risk, for its row. The list has no amounts of limits: the text of a reason says
 * that a limit is exceeded. A row is one link, so that the earlier payment is linked in the hold.
 * @param {Hold} hold
 * @returns {RiskFact[]}
 */
export function rowRisk(hold) {
  const { destination, equalPayment, newDestination } = hold;
  /** @type {RiskFact[]} */
  const facts = [];
  if (destination?.lookAlike)
    facts.push({ kind: "bad", text: `Looks like ${destination.lookAlike.lists.join(", ")}, and is not` });
  if (newDestination) facts.push({ kind: "warn", text: "New destination" });
  if (equalPayment) facts.push({ kind: "warn", text: "Same payment again" });
  if (hold.reasons.some((reason) => reason.text.startsWith("over the limit")))
    facts.push({ kind: "warn", text: "Over a limit" });
  return facts;
}

/**
 * Returns everything that speaks for and against an open hold, the worst first.
 * @param {Hold} hold
 * @returns {Promise<RiskFact[]>}
 */
export async function riskOf(hold) {
  const { destination, paidBefore } = hold;
  const moves = movement(hold);
  const [amount] = moves.amounts;
  /** @type {RiskFact[]} */
  const facts = [];
  if (destination?.lookAlike) {
    const { name, lists } = destination.lookAlike;
    facts.push({
      kind: "bad",
      text: `This address begins and ends like ${name} of ${lists.join(", ")}, and is another one.`,
      unlike: destination.name ? [destination.name, name] : undefined,
    });
  }
  if (destination && destination.lists.length > 0)
    facts.push({ kind: "good", text: `The destination is in the list ${destination.lists.join(", ")}.` });
  if (paidBefore?.some(({ at }) => !at))
    facts.push({ kind: "warn", text: "New destination: it was never paid before through Sluice." });
  const name = destination?.name;
  const currency = moves.currency;
  if (name && amount) {
    const { environment } = hold;
    const [same, usual] = await Promise.all([
      payments({ environment, destination: name, amountFrom: amount, amountTo: amount, currency }),
      payments({ environment, destination: name, status: "paid", currency }),
    ]);
    facts.push(...missingPayments(same, usual));
    const others = same?.payments.filter((one) => one.name !== hold.requestId && one.hold !== hold.id) ?? [];
    for (const { name, status, at } of others.slice(0, 3))
      facts.push({
        kind: NOT_MOVED.includes(status) ? "" : "warn",
        text: `The same amount to the same destination: ${name}, ${status}, ${formatAgo(at)}.`,
        href: `#/payments/${environment}/${encodeURIComponent(name)}`,
      });
    const sum = usual?.sums.find((one) => one.currency === currency);
    if (sum?.amount) {
      const times = tenthsOfMean(amount, sum.amount, sum.count);
      const mean = `the mean of ${groupDigits(sum.count)} earlier ${sum.count === 1 ? "payment" : "payments"} to it`;
      const shown = times >= 100n ? groupDigits(times / 10n) : `${times / 10n}.${times % 10n}`;
      const isMuch = times >= 30n;
      facts.push({ kind: isMuch ? "warn" : "", text: `${shown} times ${mean}.` });
    }
  }
  for (const limit of hold.limits ?? [])
    if (limit.adds > limit.left)
      facts.push({
        kind: "warn",
        text: `It exceeds the limit ${limit.limit}: ${formatUnits(limit.left, limit.unit)} left, it needs ${formatUnits(limit.adds, limit.unit)}.`,
      });
  const order = ["bad", "warn", "", "good"];
  return facts.sort((a, b) => order.indexOf(a.kind) - order.indexOf(b.kind));
}

/**
 * Says which earlier payments are not among those that were found.
 * @param {(PaymentPage | null)[]} pages
 * @returns {RiskFact[]}
 */
function missingPayments(...pages) {
  if (pages.includes(null)) {
    const text = "Earlier payments could not be read: judge this call without them.";
    return [{ kind: "warn", text, isPartial: true }];
  }
  const page = pages.find((one) => one?.reading) ?? pages.find((one) => one?.since);
  const since = page?.since ? ` count only since ${formatTime(page.since)}` : "";
  if (page?.reading) {
    const text = `Earlier payments${since ? `${since}; older ones` : ""} are still being read.`;
    return [{ kind: "warn", text, isPartial: true }];
  }
  return since ? [{ kind: "", text: `Earlier payments${since}: the console has no older ones.` }] : [];
}

/**
 * Returns payments, or null where they cannot be had.
 * @param {Record<string, string | null | undefined>} query
 * @returns {Promise<PaymentPage | null>}
 */
function payments(query) {
  return get("payments", { ...query, limit: 10 }).then(
    ({ body }) => body,
    () => null,
  );
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
    facts.map(({ kind, text, href, unlike }) =>
      h(
        "li",
        { class: kind },
        h("strong", {}, `${words[kind]}: `),
        href ? h("a", { href }, text) : h("span", {}, text),
        unlike && h("span", { class: "code unlike" }, differences(unlike[0], unlike[1])),
      ),
    ),
  );
}

/**
 * Marks the characters of a name that another one does not have at their place.
 * @param {string} name
 * @param {string} other
 * @returns {Child[]}
 */
function differences(name, other) {
  return [...name].map((letter, at) => (letter === other[at] ? letter : h("mark", {}, letter)));
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
  return "When it is fully approved, it is sent at once, if the limits have room.";
}
