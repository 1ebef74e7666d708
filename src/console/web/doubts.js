// Calls of which nobody knows what became, and what people say of them.

import { get, post } from "./api.js";
import { ask, reasonField } from "./dialog.js";
import { badge, card, field, h, moment, toast } from "./dom.js";
import { ago, person } from "./words.js";

const WHY = {
  silent: "upstream did not answer",
  broken: "upstream's answer broke off",
  unproven: "upstream's answer proves nothing",
  lapsed: "the gate that sent it went away",
};

export function section(desk) {
  const load = async () => (await get("requests", { state: "unknown", limit: 50 })).body;
  return card("doubts", "In doubt", load, (all, refresh) =>
    all.requests.length === 0
      ? h("p", { class: "muted" }, "None. Calls whose outcome nobody knows appear here; limits count them until somebody does.")
      : [
          h("p", { class: "muted" }, "It may have been done or not, so it counts, and is never sent again by itself. Find out from upstream what became of it."),
          h("ul", { class: "plain" }, all.requests.map((request) => one(desk, request, refresh))),
          all.next && h("p", { class: "muted" }, "There are more; `sluice requests list` lists them all."),
        ],
  );
}

function one(desk, request, refresh) {
  const isOperator = desk.may("operator");
  const isMine = request.saidAbsent === person(desk.me.person);
  const label = request.requestId ?? request.name;
  return h(
    "li",
    { class: "became warn" },
    h("p", {}, h("strong", { class: "code" }, label), " ", badge(request.environment === "sandbox" ? "Sandbox" : "Production", "note")),
    h("p", {}, `${request.operation}, asked by ${person(request.owner)}: ${WHY[request.doubt] ?? request.doubt}, `, request.since && moment(ago(request.since), request.since), `. Upstream was asked ${request.looks === 1 ? "once" : `${request.looks ?? 0} times`}.`),
    request.saidAbsent && h("p", {}, isMine ? "You say that it was not executed. One more operator has to." : `${request.saidAbsent} says that it was not executed. One more operator has to.`),
    h("p", {}, h("a", { href: `#/history/${request.environment}/${encodeURIComponent(request.name)}` }, "Its story")),
    isOperator &&
      h(
        "div",
        { class: "acts" },
        h("button", { type: "button", onclick: () => absent(request, refresh), disabled: isMine }, "It was not executed…"),
        h("button", { type: "button", onclick: () => executed(request, refresh) }, "It was executed…"),
      ),
  );
}

async function absent(request, refresh) {
  const reason = reasonField("How you know", "Another operator, who has to say the same, reads it in the audit chain.");
  const answer = await ask({
    title: "It was not executed?",
    content: [
      h("p", {}, h("strong", { class: "code" }, request.requestId ?? request.name)),
      h("p", {}, "When two operators say so, limits get back what it took, and its caller may send it again. If it was executed after all, it is then paid twice."),
      reason.element,
    ],
    label: request.saidAbsent ? "It was not executed: settle it" : "It was not executed",
    kind: "bad",
    check: reason.check,
    perform: async () => (await post(path(request), { outcome: "absent", reason: reason.text() })).body,
  });
  if (!answer) return;
  toast(answer.missing > 0 ? "Noted. One more operator has to say so." : "Settled: it was not executed.", answer.missing > 0 ? "warn" : "good");
  refresh();
}

async function executed(request, refresh) {
  const record = h("textarea", { rows: "6", spellcheck: "false", autocomplete: "off" });
  const reason = reasonField("How you know", "It stands in the audit chain.");
  let read = null;
  const answer = await ask({
    title: "It was executed?",
    content: [
      h("p", {}, h("strong", { class: "code" }, request.requestId ?? request.name)),
      field("Upstream's record of it, as JSON", record, "Its caller is answered with exactly this."),
      reason.element,
    ],
    label: "It was executed",
    check: () => {
      try {
        read = JSON.parse(record.value);
      } catch {
        read = null;
      }
      if (read === null || typeof read !== "object" || Array.isArray(read)) {
        record.focus();
        return "The record is not a JSON object. Copy it whole from upstream.";
      }
      return reason.check();
    },
    perform: async () => (await post(path(request), { outcome: "executed", record: read, reason: reason.text() })).body,
  });
  if (!answer) return;
  toast("Settled: it was executed.");
  refresh();
}

function path({ environment, name }) {
  return `requests/${environment}/${name}/resolve`;
}

