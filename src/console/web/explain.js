// Explains how a call would be decided: a form with the fields of each operation, and the rules that decide.

import { get, post } from "./api.js";
import { badge, errorBox, field, fill, h, offerOperations, select } from "./dom.js";
import { EFFECTS, formatUnits, formatUsd } from "./words.js";

/** The fields that decide most calls; the others stand below them. */
const MAIN = /\/(amount|currency|chain|walletAddress|externalWalletId|accountId|userId)$/;
/** @type {[string, string][]} */
const FACTS = [
  ["store", "As recorded: earlier payments, and what limits have left"],
  ["known", "Assume a known destination and unused limits"],
  ["new", "Assume a new destination and unused limits"],
];

/**
 * Returns the section. `like` names the payment whose fields the form begins with.
 * @param {string[]} like its environment and name
 */
export function explainSection(like) {
  /** @type {Map<string, string>} the values, by pointer; they stay while another operation is chosen */
  const values = new Map([["/requestId", "example"]]);
  /** @type {Operation[]} */
  let operations = [];
  const environment = select(
    [
      ["production", "Production"],
      ["sandbox", "Sandbox"],
    ],
    "production",
  );
  const operation = select([["createSwap", "createSwap"]], "createSwap");
  const issuer = select([], "");
  const [subject, roles] = [text(), text()];
  const time = h("input", { type: "datetime-local" });
  const facts = select(FACTS, "store");
  const fields = h("div", { class: "stack" });
  const result = h("div", { "aria-live": "polite" });
  const button = h("button", { type: "submit", class: "primary" }, "Explain");
  const form = h(
    "form",
    { novalidate: true },
    h(
      "div",
      { class: "grid" },
      field("Environment", environment),
      field("Operation", operation),
      field("Caller", subject),
      field("Caller's issuer", issuer),
      field("Roles", roles, "Separated by commas."),
      field("Time", time, "Empty: now."),
    ),
    fields,
    field("Facts", facts),
    button,
  );

  /** Draws the fields of the chosen operation. */
  function draw() {
    const chosen = operations.find((one) => one.operation === operation.value);
    if (chosen === undefined) return;
    const path = chosen.path.map((name) => ({ pointer: name, kind: "text", choices: [] }));
    const all = [...path, ...chosen.fields];
    const isTarget = (/** @type {FormField} */ one) => Number(one.pointer.startsWith("/destination"));
    const main = all
      .filter(({ pointer }) => MAIN.test(pointer) || !pointer.startsWith("/"))
      .sort((a, b) => isTarget(a) - isTarget(b));
    const rest = all.filter((one) => !main.includes(one));
    const isMade = fields.querySelector("details")?.open ?? false;
    fill(
      fields,
      h("div", { class: "grid" }, main.map(input)),
      rest.length > 0 &&
        h(
          "details",
          { open: isMade },
          h("summary", {}, `${rest.length} more fields`),
          h("div", { class: "grid" }, rest.map(input)),
        ),
    );
  }

  /** @param {FormField} one */
  function input({ pointer, kind, choices }) {
    const offered = kind === "boolean" ? ["true", "false"] : choices;
    const element =
      offered.length > 0
        ? select([["", ""], .../** @type {[string, string][]} */ (offered.map((one) => [one, one]))], "")
        : text();
    element.value = values.get(pointer) ?? "";
    element.addEventListener("input", () => values.set(pointer, element.value.trim()));
    return field(labelOf(pointer), element);
  }

  /** Returns the body and the path that the form describes. */
  function written() {
    /** @type {any} */
    const [body, path] = [{}, {}];
    const chosen = operations.find((one) => one.operation === operation.value);
    for (const name of chosen?.path ?? []) if (values.get(name)) path[name] = values.get(name);
    for (const { pointer, kind } of chosen?.fields ?? []) {
      const value = values.get(pointer);
      // A side of a payment may be empty, and is there.
      const [, side, ...inner] = pointer.split("/");
      if (MAIN.test(pointer) && inner.length === 1) body[side] ??= {};
      if (value) put(body, pointer, kind === "text" ? value : kind === "boolean" ? value === "true" : numberOf(value));
    }
    return { body, path };
  }

  async function explain() {
    const caller = {
      issuer: issuer.value,
      subject: subject.value.trim() || "someone",
      roles: roles.value
        .split(",")
        .map((role) => role.trim())
        .filter(Boolean),
    };
    button.disabled = true;
    try {
      const call = {
        environment: environment.value,
        operation: operation.value,
        caller,
        ...written(),
        time: time.value ? new Date(time.value).toISOString() : undefined,
        byStore: facts.value === "store",
        paidBefore: facts.value !== "new",
      };
      fill(result, explanation((await post("explain", call)).body));
    } catch (failure) {
      fill(result, errorBox(failure));
    }
    button.disabled = false;
  }

  /** Fills the form with the fields of a payment, and explains it. */
  async function begin() {
    const [of, name] = like;
    if (!name) return;
    try {
      /** @type {Payment} */
      const payment = (await get(`payments/${of}/${encodeURIComponent(name).replaceAll("%3A", ":")}`)).body;
      environment.value = payment.environment;
      operation.value = payment.operation;
      issuer.value = payment.owner.issuer ?? "";
      subject.value = payment.owner.subject;
      const ways = {
        wallet: "walletAddress",
        account: "accountId",
        user: "userId",
        "external wallet": "externalWalletId",
      };
      /** @type {[string, string | null | undefined][]} */
      const found = [
        ["/source/amount", payment.amount],
        ["/source/currency", payment.currency],
        ["/source/chain", payment.chain],
        ["/destination/currency", payment.otherCurrency],
        ["/destination/chain", payment.chain],
        [`/destination/${/** @type {Record<string, string>} */ (ways)[payment.to?.kind ?? ""]}`, payment.to?.name],
      ];
      for (const [pointer, value] of found) if (value) values.set(pointer, value);
      draw();
      await explain();
      element.scrollIntoView();
    } catch (failure) {
      fill(result, errorBox(failure));
    }
  }

  operation.addEventListener("change", draw);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    explain();
  });
  const element = h(
    "section",
    { class: "card", "aria-labelledby": "explain" },
    h("h2", { id: "explain" }, "How would a call be decided?"),
    h("p", { class: "muted" }, "Nothing is sent and nothing is counted."),
    form,
    result,
  );
  /** @param {Policies} policies */
  const offer = (policies) => {
    const isFirst = operations.length === 0;
    operations = policies.operations;
    offerOperations(operation, operations, (one) => one.class !== "read");
    const { value } = issuer;
    fill(
      issuer,
      policies.issuers.map((name) => h("option", { value: name }, name)),
    );
    if (policies.issuers.includes(value)) issuer.value = value;
    if (isFirst) {
      draw();
      begin();
    }
  };
  return { element, offer };
}

function text() {
  return h("input", { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false" });
}

/**
 * Returns a pointer in words: `/source/walletAddress` is "Source wallet address".
 * @param {string} pointer
 */
function labelOf(pointer) {
  const words = pointer
    .split("/")
    .filter((step) => step !== "")
    .map((step) =>
      /^\d+$/.test(step) ? String(Number(step) + 1) : step.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase(),
    )
    .join(" ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/**
 * Returns a number, or a text that is none: the gate says what is wrong with it.
 * @param {string} value
 */
function numberOf(value) {
  return Number.isNaN(Number(value)) ? value : Number(value);
}

/**
 * Puts a value at a pointer, and makes the objects and lists on the way.
 * @param {any} body
 * @param {string} pointer
 * @param {unknown} value
 */
function put(body, pointer, value) {
  const steps = pointer.slice(1).split("/");
  let at = body;
  steps.forEach((step, index) => {
    if (index === steps.length - 1) at[step] = value;
    else at[step] ??= /^\d+$/.test(steps[index + 1]) ? [] : {};
    at = at[step];
  });
}

/** @param {Explanation} answer */
function explanation(answer) {
  const [word, kind] = EFFECTS[answer.effect];
  /**
   * @param {string} title
   * @param {string[]} items
   */
  const list = (title, items) =>
    items.length > 0 && [
      h("h4", {}, title),
      h(
        "ul",
        {},
        items.map((item) => h("li", {}, item)),
      ),
    ];
  const because = answer.reasons.map(({ cause, text }) => `${cause}: ${text}`);
  return h(
    "div",
    { class: `became ${kind}` },
    h(
      "p",
      {},
      badge(word, kind),
      answer.microUsd !== null && ` worth ${formatUsd(answer.microUsd)}`,
      answer.approvals.length > 0 && `; needs approval: ${answer.approvals.join(", ")}`,
    ),
    list("Because", because),
    list(
      "Would match if one fact were different",
      answer.near.map(({ rule: id, missing }) => `${id}: if ${missing}`),
    ),
    list(
      "Overridden",
      answer.outweighed.map(({ cause, text }) => `${cause}: ${text}`),
    ),
    list(
      "In shadow mode",
      answer.shadows.map(({ cause, text }) => `${cause}: ${text}`),
    ),
    list(
      "Counts in",
      answer.counts.map(
        ({ limit, unit, units, used, max }) =>
          `${limit}: ${formatUnits(units, unit)}${used === null ? "" : ` on top of ${formatUnits(used, unit)}`} of ${formatUnits(max, unit)}`,
      ),
    ),
  );
}
