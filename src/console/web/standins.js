// Who votes in whose place, and for how long.

import { get, now, post } from "./api.js";
import { ask, reasonField } from "./dialog.js";
import { badge, card, field, h, moment, select, toast } from "./dom.js";
import { when } from "./words.js";

const DAY_MS = 86_400_000;
/** As the gate has it. */
const LONGEST_DAYS = 31;

export function section(desk) {
  const load = async () => (await get("stand-ins")).body.standIns;
  return card("stand-ins", "Stand-ins", load, (all, refresh) => [
    all.length === 0 ? h("p", { class: "muted" }, "Nobody stands in for anybody.") : h("ul", { class: "plain" }, all.map((one) => shown(desk, one, refresh))),
    desk.may("approver") && h("p", {}, h("button", { type: "button", id: "stand-in", onclick: () => name(refresh) }, "Name a stand-in…")),
  ]);
}

function shown(desk, one, refresh) {
  const me = desk.me.person.subject;
  const mayRevoke = [one.for, one.person].includes(me) || desk.may("operator") || desk.may("policy-admin");
  return h(
    "li",
    { class: "became" },
    h("p", {}, h("strong", {}, one.person), " votes in the place of ", h("strong", {}, one.for), one.environment === "sandbox" && [" ", badge("Sandbox", "note")]),
    h("p", {}, "From ", moment(when(one.from), one.from), " to ", moment(when(one.until), one.until), `. “${one.reason}”`),
    mayRevoke && h("button", { type: "button", onclick: () => revoke(one, refresh) }, "Take it back…"),
  );
}

async function name(refresh) {
  const who = h("input", { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false", maxlength: "512" });
  const days = h("input", { type: "number", min: "1", max: String(LONGEST_DAYS), value: "7", inputmode: "numeric" });
  const environment = select([["production", "Production"], ["sandbox", "Sandbox"]], "production");
  const reason = reasonField("Why", "It stands in the audit chain.");
  const answer = await ask({
    title: "Who votes in your place?",
    content: [
      h("p", {}, "Your seat is filled once: by you, or by them. They cannot fill it for what either of you asked for."),
      field("Person", who, "Their subject, as `finance-2`."),
      field("For how many days", days, `From now on; ${LONGEST_DAYS} at most.`),
      field("Environment", environment),
      reason.element,
    ],
    label: "Let them stand in for me",
    check: () => {
      if (who.value.trim() === "") return "Say who.";
      const count = Number(days.value);
      if (!Number.isInteger(count) || count < 1 || count > LONGEST_DAYS) return `Say a number of days from 1 to ${LONGEST_DAYS}.`;
      return reason.check();
    },
    perform: async () => {
      // A minute less than the longest, for clocks that differ.
      const until = new Date(now() + Number(days.value) * DAY_MS - 60_000).toISOString();
      return (await post("stand-ins", { environment: environment.value, person: who.value.trim(), until, reason: reason.text() })).body;
    },
  });
  if (!answer) return;
  toast(`${answer.standIn.person} votes in your place until ${when(answer.standIn.until)}.`);
  refresh();
}

async function revoke(one, refresh) {
  const reason = reasonField("Why", "It stands in the audit chain.");
  const answer = await ask({
    title: "Take it back?",
    content: [h("p", {}, h("strong", {}, one.person), " no longer votes in the place of ", h("strong", {}, one.for), ". What was not sent yet is counted without it."), reason.element],
    label: "Take it back",
    kind: "bad",
    check: reason.check,
    perform: async () => (await post("stand-ins/revoke", { environment: one.environment, for: one.for, person: one.person, reason: reason.text() })).body,
  });
  if (!answer) return;
  toast(answer.changed ? "They stand in no more." : "They did not stand in any more.");
  refresh();
}
