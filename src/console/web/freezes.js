// Money that is stopped: said above everything, and done or lifted with a second look.

import { get, post } from "./api.js";
import { ask, reasonField } from "./dialog.js";
import { field, h, moment, offer, select, toast, trouble } from "./dom.js";
import { when } from "./words.js";

/** What a freeze stops. */
function scope(of) {
  if (of === "all") return "all money";
  if (of === "restored") return "all money, until somebody knows what was paid that a restored store does not know";
  if (of.operation) return `the operation ${of.operation}`;
  return `what ${of.caller.issuer}/${of.caller.subject} asks for`;
}

/** Above everything, as long as anything is frozen. */
export function banner(freezes) {
  if (freezes.length === 0) return null;
  const first = freezes[0];
  const many = freezes.length > 1 ? ` And ${freezes.length - 1} more.` : "";
  return h(
    "p",
    { class: "frozen", role: "status" },
    h("strong", {}, `Frozen in ${first.environment}: `),
    `${scope(first.scope)}${first.reason ? ` – ${first.reason}` : ""}.${many} `,
    h("a", { href: "#/overview" }, "See"),
  );
}

/** Whether money moves, and the acts of operators. */
export function section(desk, redraw) {
  const { frozen } = desk;
  const isOperator = desk.may("operator");
  return h(
    "section",
    { class: "card", "aria-labelledby": "money" },
    h("h2", { id: "money" }, "Money"),
    frozen.length === 0
      ? h("p", { class: "became good" }, "Nothing is frozen: money moves as the rules say.")
      : h(
          "ul",
          { class: "plain" },
          frozen.map((freeze) =>
            h(
              "li",
              { class: "became bad" },
              h("p", {}, h("strong", {}, `Frozen in ${freeze.environment}: ${scope(freeze.scope)}`)),
              h("p", {}, freeze.reason ? `“${freeze.reason}”` : "No reason was given.", freeze.by && ` – ${freeze.by}`, ", ", moment(when(freeze.at), freeze.at)),
              isOperator && h("button", { type: "button", onclick: () => lift(freeze, redraw) }, "Let it go again…"),
            ),
          ),
        ),
    isOperator && h("p", {}, h("button", { type: "button", class: "bad", id: "freeze", onclick: () => freeze(redraw) }, "Freeze…")),
    !isOperator && h("p", { class: "muted" }, "Operators freeze, and lift."),
  );
}

async function freeze(redraw) {
  const environment = select([["production", "Production"], ["sandbox", "Sandbox"]], "production");
  const of = select([["all", "All money"], ["operation", "One operation"], ["caller", "One caller"]], "all");
  const operation = select([], "");
  const caller = h("input", { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
  const fields = { operation: field("Operation", operation), caller: field("Caller", caller, "As issuer/subject.") };
  const choose = () => Object.entries(fields).forEach(([name, element]) => (element.hidden = of.value !== name));
  of.addEventListener("change", choose);
  choose();
  // Who freezes all money waits for no list.
  get("policies").then(({ body }) => offer(operation, body.operations, (one) => one.class === "money"), (failure) => fields.operation.append(trouble(failure)));
  const reason = reasonField("Why", "Everyone who looks here reads it.");
  const answer = await ask({
    title: "Freeze money?",
    content: [
      h("p", {}, "What has not begun gets 503 FROZEN on every node at once. What was done is answered as ever, and reads go on."),
      field("Environment", environment),
      field("What", of),
      fields.operation,
      fields.caller,
      reason.element,
    ],
    label: "Freeze now",
    kind: "bad",
    check: () => ({ all: "all", operation: operation.value, caller: caller.value.trim() })[of.value] === "" ? "Say which one." : reason.check(),
    perform: async () => {
      const [issuer, ...subject] = caller.value.trim().split("/");
      const scopes = { all: "all", operation: { operation: operation.value }, caller: { caller: { issuer, subject: subject.join("/") } } };
      return (await post("freezes", { environment: environment.value, scope: scopes[of.value], reason: reason.text() })).body;
    },
  });
  if (answer) {
    toast(answer.changed ? "It is frozen." : "It was frozen already.", "warn");
    redraw();
  }
}

async function lift({ environment, scope: of }, redraw) {
  const reason = reasonField("Why", "Everyone who looks into the audit chain reads it.");
  const answer = await ask({
    title: "Let money go again?",
    content: [
      h("p", {}, h("strong", {}, `In ${environment}: ${scope(of)}.`)),
      of === "restored" && h("p", { class: "alarm" }, "Whatever this store does not know may be paid again. Lift this when you know what was paid since the copy was made."),
      reason.element,
    ],
    label: `Let it go again in ${environment}`,
    check: reason.check,
    perform: async () => (await post("freezes/lift", { environment, scope: of, reason: reason.text() })).body,
  });
  if (answer) {
    toast(answer.changed ? "It goes again." : "It was not frozen any more.");
    redraw();
  }
}
