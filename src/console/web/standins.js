// Stand-ins: people who vote in the place of others for some days.

import { get, now, post } from "./api.js";
import { ask, reasonField } from "./dialog.js";
import { badge, card, field, h, select, timeTag, toast } from "./dom.js";
import { formatTime } from "./words.js";

const DAY_MS = 86_400_000;
/** The limit of the gate. */
const MAX_DAYS = 31;

/** @param {App} app */
export function section(app) {
  /** @returns {Promise<StandIn[]>} */
  const load = async () => (await get("stand-ins")).body.standIns;
  return card("stand-ins", "Stand-ins", load, (all, refresh) => [
    all.length === 0
      ? h("p", { class: "muted" }, "No stand-ins are named.")
      : h(
          "ul",
          { class: "plain" },
          all.map((one) => standInItem(app, one, refresh)),
        ),
    app.may("approver") &&
      h(
        "p",
        {},
        h("button", { type: "button", id: "stand-in", onclick: () => addStandIn(refresh) }, "Name a stand-in…"),
      ),
  ]);
}

/**
 * @param {App} app
 * @param {StandIn} one
 * @param {() => void} refresh
 */
function standInItem(app, one, refresh) {
  const me = app.session().person.subject;
  const mayRevoke = [one.for, one.person].includes(me) || app.may("operator") || app.may("policy-admin");
  return h(
    "li",
    { class: "became" },
    h(
      "p",
      {},
      h("strong", {}, one.person),
      " votes in place of ",
      h("strong", {}, one.for),
      one.environment === "sandbox" && [" ", badge("Sandbox", "note")],
    ),
    h(
      "p",
      {},
      "From ",
      timeTag(formatTime(one.from), one.from),
      " to ",
      timeTag(formatTime(one.until), one.until),
      `. “${one.reason}”`,
    ),
    mayRevoke && h("button", { type: "button", onclick: () => revokeStandIn(one, refresh) }, "Revoke…"),
  );
}

/** @param {() => void} refresh */
async function addStandIn(refresh) {
  const person = h("input", {
    type: "text",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    maxlength: "512",
  });
  const days = h("input", { type: "number", min: "1", max: String(MAX_DAYS), value: "7", inputmode: "numeric" });
  const environment = select(
    [
      ["production", "Production"],
      ["sandbox", "Sandbox"],
    ],
    "production",
  );
  const reason = reasonField("Why", "The audit log keeps it.");
  const answer = await ask({
    title: "Name a stand-in?",
    content: [
      h(
        "p",
        {},
        "Your seat has one vote: yours or theirs. They cannot vote in your place on calls that either of you requested.",
      ),
      field("Person", person, "The subject of their tokens, such as `finance-2`."),
      field("Number of days", days, `Starting now; at most ${MAX_DAYS}.`),
      field("Environment", environment),
      reason.element,
    ],
    label: "Name stand-in",
    check: () => {
      if (person.value.trim() === "") return "Enter a person.";
      const count = Number(days.value);
      if (!Number.isInteger(count) || count < 1 || count > MAX_DAYS)
        return `Enter a number of days from 1 to ${MAX_DAYS}.`;
      return reason.check();
    },
    perform: async () => {
      // A minute less, because clocks differ.
      const until = new Date(now() + Number(days.value) * DAY_MS - 60_000).toISOString();
      return (
        await post("stand-ins", {
          environment: environment.value,
          person: person.value.trim(),
          until,
          reason: reason.text(),
        })
      ).body;
    },
  });
  if (!answer) return;
  toast(`${answer.standIn.person} votes in your place until ${formatTime(answer.standIn.until)}.`);
  refresh();
}

/**
 * @param {StandIn} one
 * @param {() => void} refresh
 */
async function revokeStandIn(one, refresh) {
  const reason = reasonField("Why", "The audit log keeps it.");
  const answer = await ask({
    title: "Revoke the stand-in?",
    content: [
      h(
        "p",
        {},
        h("strong", {}, one.person),
        " no longer votes in place of ",
        h("strong", {}, one.for),
        ". Their votes no longer count for calls that were not sent yet.",
      ),
      reason.element,
    ],
    label: "Revoke",
    kind: "bad",
    check: reason.check,
    perform: async () =>
      (
        await post("stand-ins/revoke", {
          environment: one.environment,
          for: one.for,
          person: one.person,
          reason: reason.text(),
        })
      ).body,
  });
  if (!answer) return;
  toast(answer.changed ? "Stand-in revoked." : "Already revoked.");
  refresh();
}
