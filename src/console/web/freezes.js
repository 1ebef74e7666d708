// Whether money can move: the banner above every view, and the acts that freeze and unfreeze.

import { get, post } from "./api.js";
import { ask, reasonField } from "./dialog.js";
import { errorBox, field, h, offerOperations, select, timeTag, toast } from "./dom.js";
import { signAct } from "./passkey.js";
import { cut, formatTime, personName } from "./words.js";

/**
 * Describes what a freeze stops.
 * @param {Scope} scope
 */
function describeScope(scope) {
  if (scope === "all") return "all money";
  if (scope === "restored") return "all money, because the store was restored or lost data";
  if (scope === "clock") return "all money, because the store's clock leapt";
  if (scope.gateClock) return `the money of gate ${scope.gateClock}, for its clock`;
  if (scope.reads !== undefined) return `the reads of caller ${scope.reads.issuer}/${scope.reads.subject}`;
  if (scope.caller === undefined) return `the operation ${scope.operation}`;
  return `the money of caller ${scope.caller.issuer}/${scope.caller.subject}`;
}

/**
 * Returns the name of a scope, as statements have it.
 * @param {Scope} scope
 */
function scopeName(scope) {
  if (typeof scope === "string") return scope;
  if (scope.gateClock) return `gate-clock/${scope.gateClock}`;
  if (scope.reads !== undefined) return `reads/${scope.reads.issuer}/${scope.reads.subject}`;
  if (scope.caller === undefined) return `operation/${scope.operation}`;
  return `caller/${scope.caller.issuer}/${scope.caller.subject}`;
}

/** How much of a reason the banner above every view has. */
const MAX_BANNER_REASON = 80;
/** Reasons for which the gate serves no reads either. */
const WITHOUT_READS = ["draining", "upstream-unknown", "keys-unknown"];

/**
 * Notes what is frozen, and why else no money moves at this gate. Where the freezes cannot be read, the gate still knows
 * its reasons.
 * @param {App} app
 */
export async function noteMoney(app) {
  const [money, freezes] = await Promise.all([
    get("money"),
    get("freezes").catch((failure) => {
      if (failure.status === 401) throw failure;
      return null;
    }),
  ]);
  /** @type {Stop[]} */
  const reasons = money.body.reasons;
  app.stops = freezes ? reasons.filter((reason) => !reason.frozen) : reasons;
  app.frozen = freezes ? freezes.body.freezes : [];
  app.isMoreFrozen = freezes?.body.more === true;
}

/**
 * Returns the banner above every view, or null if money can move.
 * @param {Freeze[]} freezes
 * @param {Stop[]} stops
 */
export function banner(freezes, stops) {
  if (stops.length > 0) return stopped(stops);
  if (freezes.length === 0) return null;
  const first = freezes[0];
  const many = freezes.length > 1 ? ` And ${freezes.length - 1} more.` : "";
  return h(
    "p",
    { class: "frozen", role: "status" },
    h("strong", {}, `Frozen in ${first.environment}: `),
    `${describeScope(first.scope)}${first.reason ? ` – ${cut(first.reason, MAX_BANNER_REASON)}` : ""}.${many} `,
    h("a", { href: "#/overview" }, "Details"),
  );
}

/**
 * Says why no money moves, although nobody froze it.
 * @param {Stop[]} stops
 */
function stopped(stops) {
  const places = new Set(stops.map(({ environment }) => environment));
  const [place] = places;
  const heading = places.size === 1 && place ? `No money moves in ${place}: ` : "No money moves: ";
  const texts = stops.map(
    ({ environment, text }) => `${places.size > 1 && environment ? `in ${environment}, ` : ""}${text}`,
  );
  const isRead = !stops.some(({ reason }) => WITHOUT_READS.includes(reason));
  const since = stops.map((stop) => stop.since).sort()[0];
  return h(
    "p",
    { class: "frozen", role: "status" },
    h("strong", {}, heading),
    `${texts.join("; ")}. ${isRead ? "Reads go on. " : ""}Since `,
    timeTag(formatTime(since), since),
    ".",
  );
}

/**
 * Returns the section that lists the freezes, with the acts of operators.
 * @param {App} app
 * @param {() => void} redraw
 */
export function section(app, redraw) {
  const { frozen, stops } = app;
  const isOperator = app.may("operator");
  return h(
    "section",
    { class: "card", "aria-labelledby": "money" },
    h(
      "div",
      { class: "heading" },
      h("h2", { id: "money" }, "Money"),
      isOperator &&
        h("button", { type: "button", class: "bad", id: "freeze", onclick: () => addFreeze(redraw) }, "Freeze…"),
    ),
    stops.length > 0 && stopped(stops),
    frozen.length === 0
      ? stops.length === 0 && h("p", { class: "became good" }, "Nothing stops money at this gate: nothing is frozen.")
      : h(
          "ul",
          { class: "plain" },
          frozen.map((freeze) =>
            h(
              "li",
              { class: "became bad" },
              h("p", {}, h("strong", {}, `Frozen in ${freeze.environment}: ${describeScope(freeze.scope)}`)),
              h(
                "p",
                {},
                freeze.reason ? `“${freeze.reason}”` : "No reason was given.",
                freeze.by && ` – ${freeze.by}`,
                ", ",
                timeTag(formatTime(freeze.at), freeze.at),
              ),
              freeze.lastPaid !== undefined && h("p", {}, lost(freeze.lastPaid)),
              freeze.saidUnfrozen &&
                h(
                  "p",
                  {},
                  `${freeze.saidUnfrozen} confirmed that it can be lifted. One more operator must confirm it.`,
                ),
              isOperator && h("button", { type: "button", onclick: () => unfreeze(freeze, redraw) }, "Unfreeze…"),
            ),
          ),
        ),
    app.isMoreFrozen && h("p", {}, "More callers are frozen than are listed here: lift those that are needed no more."),
    !isOperator && h("p", { class: "muted" }, "Operators can freeze and unfreeze."),
  );
}

/**
 * Says since when the payments of a store that may have lost some must be compared.
 * @param {string | null} lastPaid
 */
function lost(lastPaid) {
  const known = lastPaid
    ? `The last payment that the store knows was executed by ${formatTime(lastPaid)}.`
    : "The store knows no payment.";
  return `${known} What was paid since is not known: compare the list of the payments API before you open money.`;
}

/**
 * Asks what to freeze, and freezes it.
 * @param {() => void} redraw
 * @param {{ environment: string, caller: Subject }} [of] the caller whose money the dialog offers to freeze
 */
export async function addFreeze(redraw, of) {
  const environment = select(
    [
      ["production", "Production"],
      ["sandbox", "Sandbox"],
    ],
    of?.environment ?? "production",
  );
  const kind = select(
    [
      ["all", "All money"],
      ["operation", "One operation"],
      ["caller", "The money of one caller"],
      ["reads", "The reads of one caller"],
    ],
    of ? "caller" : "all",
  );
  const operation = select([], "");
  const value = of && personName(of.caller);
  const caller = h("input", { type: "text", value, autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
  const fields = { operation: field("Operation", operation), caller: field("Caller", caller, "As issuer/subject.") };
  const showField = () => {
    fields.operation.hidden = kind.value !== "operation";
    fields.caller.hidden = kind.value !== "caller" && kind.value !== "reads";
  };
  kind.addEventListener("change", showField);
  showField();
  // A freeze of all money does not wait for the list.
  get("policies").then(
    ({ body }) => offerOperations(operation, body.operations, (one) => one.class === "money"),
    (failure) => fields.operation.append(errorBox(failure)),
  );
  const reason = reasonField("Why", "Everyone with a role sees it here.");
  const answer = await ask({
    title: "Freeze money?",
    content: [
      h(
        "p",
        {},
        "New calls get 503 FROZEN on every node at once. Repeated calls still get their recorded answer, and other reads still work.",
      ),
      field("Environment", environment),
      field("What", kind),
      fields.operation,
      fields.caller,
      reason.element,
    ],
    label: "Freeze now",
    kind: "bad",
    check: () => {
      const isMissing =
        (kind.value === "operation" && operation.value === "") || (!fields.caller.hidden && caller.value.trim() === "");
      return isMissing ? "Enter the operation or the caller." : reason.check();
    },
    perform: async () => {
      const [issuer, ...subject] = caller.value.trim().split("/");
      /** @type {Record<string, Scope>} */
      const scopes = {
        all: "all",
        operation: { operation: operation.value },
        caller: { caller: { issuer, subject: subject.join("/") } },
        reads: { reads: { issuer, subject: subject.join("/") } },
      };
      return (
        await post("freezes", { environment: environment.value, scope: scopes[kind.value], reason: reason.text() })
      ).body;
    },
  });
  if (answer) {
    toast(`${answer.changed ? "Frozen." : "Already frozen."}${unmet(answer.caller)}`, "warn");
    redraw();
  }
}

/**
 * Warns where no call of a frozen caller is known, or other spellings of its name are: the freeze is not of them.
 * @param {{ known: boolean, nearest: string[], spellings: string[] } | null} caller
 */
function unmet(caller) {
  if (!caller) return "";
  const spellings = caller.spellings.join(", ");
  const others = spellings ? ` Other spellings of this name are not frozen by it: ${spellings}.` : "";
  if (caller.known) return others;
  const nearest = caller.nearest.length > 0 ? ` Known callers: ${caller.nearest.join(", ")}.` : "";
  return ` No call of this caller is known: check the name.${nearest}${others}`;
}

/**
 * @param {Freeze} freeze
 * @param {() => void} redraw
 */
async function unfreeze({ environment, scope, saidUnfrozen }, redraw) {
  const reason = reasonField("Why", "The audit log keeps it.");
  const answer = await ask({
    title: "Unfreeze?",
    content: [
      h("p", {}, h("strong", {}, `In ${environment}: ${describeScope(scope)}.`)),
      scope === "restored" &&
        h(
          "p",
          { class: "alarm" },
          "Payments that this store does not know may be paid again. Unfreeze only when you know every payment since the copy was made.",
        ),
      scope === "clock" &&
        h(
          "p",
          { class: "alarm" },
          "The store's time follows its clock again. If that clock is wrong, limits, approvals and requestIds end too early or too late. Unfreeze only when it is right.",
        ),
      environment === "production" && !saidUnfrozen && h("p", {}, "Two operators must confirm this."),
      reason.element,
    ],
    label: `Unfreeze in ${environment}`,
    check: reason.check,
    perform: async () => {
      const request = { path: "freezes/lift", body: { environment, scope } };
      const signed =
        environment === "production"
          ? await signAct("unfreezing", environment, request, { freeze: scopeName(scope) })
          : {};
      return (await post(request.path, { ...request.body, ...signed, reason: reason.text() })).body;
    },
  });
  if (answer) {
    if (answer.missing > 0) toast("Recorded. One more operator must confirm it.", "warn");
    else toast(answer.changed ? "Unfrozen." : "Already unfrozen.");
    redraw();
  }
}
