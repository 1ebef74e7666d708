// One hold: what it would do, why it is held, who approved it, and the exact bytes that a vote is for.

import { asFailure, get } from "./api.js";
import { markLooked } from "./batch.js";
import { limitBar } from "./charts.js";
import { badge, errorBox, fill, h, timeTag, withCode } from "./dom.js";
import { checkBytes } from "./fingerprint.js";
import { destinationLink } from "./history.js";
import { openBeside } from "./keys.js";
import { receiptButton } from "./receipts.js";
import { drawRisk, riskOf, whenSent } from "./risk.js";
import { commentButton, voteBar } from "./vote.js";
import {
  formatAgo,
  formatTime,
  formatUnits,
  groupDigits,
  missingVotes,
  movement,
  personName,
  stateLabel,
  timeLeft,
} from "./words.js";

/** @typedef {{ state: string, status?: number }} SentState the state of a request that was sent */

const OPEN = ["pending", "approved"];
/** When to ask again while the gate still reads earlier payments. */
const READING_MS = 1_000;

/**
 * @param {App} app
 * @param {string} id
 * @returns {HoldView}
 */
export function view(app, id) {
  const element = h("article", { class: "hold", "aria-busy": "true" }, h("p", { class: "waiting" }, "One moment…"));
  let last = "";
  /** @type {Hold | null} */
  let seen = null;
  let isClosed = false;
  let wantsFocus = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let again;

  async function load() {
    if (!/^[0-9a-f]{32}$/.test(id)) {
      fill(element, back(), h("h2", {}, "Hold not found"), h("p", {}, "Not a hold id (32 hex digits)."));
      return;
    }
    let hold;
    try {
      hold = (await get(`holds/${id}`)).body;
    } catch (failure) {
      // A hold that is already shown stays, so that people can read on.
      if (isClosed || seen !== null) return;
      const isMissing = asFailure(failure).status === 404;
      fill(
        element,
        back(),
        h("h2", { tabindex: "-1" }, isMissing ? "Hold not found" : "The hold cannot be shown"),
        errorBox(failure, isMissing ? undefined : load),
      );
      return;
    }
    if (!isClosed) await draw(hold);
    clearTimeout(again);
    if (hold.earlier?.reading && !isClosed) again = setTimeout(load, READING_MS);
  }

  /** @param {Hold} hold */
  async function draw(hold) {
    const text = JSON.stringify(hold);
    if (text === last) return;
    const check = hold.sent ? await checkBytes(hold, hold.sent, movement(hold).amounts) : null;
    const request = hold.state === "released" ? await requestOf(hold) : null;
    const risk = OPEN.includes(hold.state) ? riskOf(hold) : null;
    if (isClosed) return;
    const before = seen;
    [last, seen] = [text, hold];
    const opened = [...element.querySelectorAll("details")].filter((one) => one.open).map((one) => one.dataset.name);
    const focused = document.activeElement;
    const focusedId = element.contains(focused) ? focused?.id : null;
    fill(element, content(app, hold, check, request, risk, draw));
    element.removeAttribute("aria-busy");
    if (check?.kind === "good") markLooked(hold);
    for (const one of element.querySelectorAll("details")) if (opened.includes(one.dataset.name)) one.open = true;
    if (before && before.state !== hold.state) stateChanged(hold);
    if (focusedId) document.getElementById(focusedId)?.focus({ preventScroll: true });
    if (wantsFocus) focus();
  }

  /**
   * Closes the open dialog: the hold was closed meanwhile, so that its question no longer applies.
   * @param {Hold} hold
   */
  function stateChanged(hold) {
    if (OPEN.includes(hold.state)) return;
    for (const open of document.querySelectorAll("dialog")) open.close();
    const note = element.querySelector(".became");
    if (note instanceof HTMLElement) note.focus();
  }

  /**
   * Returns the request that a released hold became.
   * @param {Hold} hold
   */
  async function requestOf(hold) {
    if (hold.requestId === undefined) return null;
    return get(`requests/${hold.environment}/${hold.requestId}`).then(
      ({ body }) => body,
      () => null,
    );
  }

  function focus() {
    const heading = element.querySelector("h2");
    wantsFocus = heading === null;
    heading?.focus({ preventScroll: true });
  }

  load();
  return {
    title: "Hold",
    element,
    focus,
    // The request of a released hold changes after the hold itself.
    refresh() {
      if (seen?.state === "released") last = "";
      load();
    },
    close() {
      isClosed = true;
      clearTimeout(again);
    },
  };
}

function back() {
  return [
    // On a narrow screen the queue is hidden, and its title with it.
    h("h1", { class: "sr only-narrow" }, "Queue"),
    h("p", { class: "back" }, h("a", { href: "#/queue" }, "‹ Queue")),
  ];
}

/**
 * @param {App} app
 * @param {Hold} hold
 * @param {ByteCheck | null} check
 * @param {SentState | null} request
 * @param {import("./risk.js").RiskFact[] | null} risk
 * @param {(hold: Hold) => Promise<void>} draw
 * @returns {Child[]}
 */
function content(app, hold, check, request, risk, draw) {
  const moves = movement(hold);
  const [word, kind] = stateLabel(hold.state);
  const isOpen = OPEN.includes(hold.state);
  const { text: due, press } = timeLeft(hold.expiresAt);
  return [
    back(),
    h(
      "header",
      {},
      h(
        "h2",
        { tabindex: "-1", id: "hold-title", class: moves.headline.length > 18 ? "long" : undefined },
        moves.headline,
      ),
      moves.direction && h("p", { class: "lead" }, moves.direction),
      h(
        "p",
        { class: "badges" },
        badge(hold.environment === "production" ? "Production" : "Sandbox", "note"),
        badge(word, kind),
        isOpen && h("span", { class: "left", "data-left": hold.expiresAt, "data-press": press }, due),
      ),
    ),
    outcomeBox(app, hold, request),
    (!isOpen || hold.votes.some((vote) => personName(vote) === personName(app.session().person))) && nextButton(),
    hold.stuck && h("p", { class: "became warn" }, hold.stuck),
    check && check.kind !== "good" && h("p", { class: "alarm", role: "alert" }, check.text),
    risk && section("Risk", drawRisk(risk)),
    section("What it does", wordList(hold.words)),
    section(
      "Why it is held",
      h(
        "ul",
        { class: "reasons" },
        hold.reasons.map((reason) =>
          h(
            "li",
            {},
            withCode(reason.text),
            reason.rule && h("span", { class: "muted" }, " – rule "),
            reason.rule && h("code", {}, reason.rule),
          ),
        ),
      ),
    ),
    section(
      "Requested by",
      h(
        "dl",
        { class: "lines" },
        hold.requester && line("person", hold.requester),
        line("caller", personName(hold.owner)),
        line("requested", [
          timeTag(formatTime(hold.createdAt), hold.createdAt),
          ", ",
          h("span", { "data-ago": hold.createdAt }, formatAgo(hold.createdAt)),
        ]),
        line("expires", timeTag(formatTime(hold.expiresAt), hold.expiresAt)),
        hold.requestId &&
          line(
            "requestId",
            h(
              "a",
              { href: `#/history/${hold.environment}/${encodeURIComponent(hold.requestId)}`, class: "code" },
              hold.requestId,
            ),
          ),
        hold.tries > 0 && line("tries", `Sent ${hold.tries} times and certainly not executed. The gate tries again.`),
      ),
    ),
    section("Approvals", approvals(hold), receiptButton(`holds/${hold.id}`, hold.id)),
    hold.paidBefore && section("Earlier payments to this destination", earlierPayments(hold.paidBefore)),
    hold.limits && section("Limits before and after", limitBars(hold.limits)),
    section("Comments", comments(hold), commentButton(app, hold, draw)),
    hold.sent && section("Exact bytes", sentBytes(hold, hold.sent, check)),
    voteBar(app, hold, moves, check, risk, draw),
  ];
}

/** Returns the button to the next hold of the queue. */
function nextButton() {
  return h(
    "p",
    { class: "acts" },
    h(
      "button",
      { type: "button", id: "next", class: "quiet", onclick: () => openBeside(1) },
      "Next hold ",
      h("kbd", {}, "j"),
    ),
  );
}

/**
 * @param {string} title
 * @param {Child[]} children
 */
function section(title, ...children) {
  return h("section", {}, h("h3", {}, title), children);
}

/**
 * @param {string} name
 * @param {Child} value
 */
function line(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

/**
 * Returns the outcome of a hold that is no longer pending.
 * @param {App} app
 * @param {Hold} hold
 * @param {SentState | null} request
 */
function outcomeBox(app, hold, request) {
  /** @type {Partial<Record<HoldState, string>>} */
  const texts = {
    approved: `Fully approved. ${whenSent(app, hold)}`,
    released: "Fully approved and sent.",
    rejected: "Rejected. The caller got the reason.",
    expired: "Expired: too few approvals. The caller may send a new request.",
    cancelled: "Cancelled by the caller.",
    blocked: "Fully approved, but the current rules deny it; nothing was sent.",
    forgotten: "Its content is no longer stored.",
  };
  const text = texts[hold.state];
  if (!text) return null;
  /** @type {Record<string, string>} */
  const outcomes = {
    executed: `Executed: upstream answered ${request?.status ?? "with success"}.`,
    "not-executed": `Not executed: upstream answered ${request?.status ?? "with a refusal"}.`,
    sending: "It is being sent now.",
    unknown: "Unknown outcome: upstream may have executed it. See Overview.",
  };
  const outcome = outcomes[request?.state ?? ""];
  const [, kind] = stateLabel(hold.state);
  return h(
    "div",
    { class: `became ${request?.state === "unknown" ? "warn" : kind}`, tabindex: "-1", role: "status" },
    h("p", {}, text),
    outcome && h("p", {}, h("strong", {}, outcome)),
  );
}

/** @param {Word[]} words */
function wordList(words) {
  return h(
    "dl",
    { class: "lines" },
    words.map(({ name, text }) => line(name, wordValue(name, text))),
  );
}

/**
 * Groups the digits of an amount at the beginning, and keeps everything else.
 * @param {string} name
 * @param {string} text
 * @returns {Child}
 */
function wordValue(name, text) {
  const money = ["from", "to", "value"].includes(name) && /^(\d[\d.]*)( [A-Za-z0-9.]+)?(.*)$/s.exec(text);
  if (!money) return h("span", { class: "text" }, text);
  return [
    h("strong", { class: "number" }, groupDigits(money[1]), (money[2] ?? "").toUpperCase()),
    h("span", { class: "text" }, money[3]),
  ];
}

/**
 * @param {Hold} hold
 * @returns {Child[]}
 */
function approvals(hold) {
  const lacks = missingVotes(hold);
  return [
    h(
      "ul",
      { class: "approvals" },
      hold.approvals.map((approval) =>
        h(
          "li",
          {},
          h(
            "span",
            { class: "pips", "aria-hidden": "true" },
            Array.from({ length: Math.min(approval.needed, 12) }, (_, at) =>
              h("span", { class: at < approval.given ? "pip given" : "pip" }),
            ),
          ),
          h("span", {}, h("code", {}, approval.name), ` – ${approval.given} of ${approval.needed} approved`),
        ),
      ),
    ),
    lacks && OPEN.includes(hold.state) && h("p", {}, `Needs ${lacks}.`),
    hold.votes.length > 0 &&
      h(
        "ol",
        { class: "said" },
        hold.votes.map((vote) => voteItem(vote, "approved")),
      ),
  ];
}

/**
 * @param {Vote} vote a vote or a comment
 * @param {string} [verb]
 */
function voteItem({ issuer, subject, text, at, for: members = [] }, verb) {
  const place = members.length > 0 && ` in place of ${members.join(", ")}`;
  return h(
    "li",
    {},
    h(
      "p",
      {},
      h("strong", {}, personName({ issuer, subject })),
      verb ? ` ${verb} ` : " ",
      timeTag(formatTime(at), at),
      place,
    ),
    text && h("p", { class: "quote" }, text),
  );
}

/** @param {Hold} hold */
function comments(hold) {
  const notes = hold.notes ?? [];
  if (notes.length === 0) return h("p", { class: "muted" }, "None.");
  return h(
    "ol",
    { class: "said" },
    notes.map((note) => voteItem(note)),
  );
}

/** @param {NonNullable<Hold["paidBefore"]>} before */
function earlierPayments(before) {
  if (before.length === 0) return h("p", { class: "muted" }, "The call names no destination.");
  return h(
    "ul",
    { class: "paid" },
    before.map(({ destination, at }) =>
      h(
        "li",
        {},
        h("span", { class: "code" }, destination),
        h("br"),
        at
          ? h("span", { class: "muted" }, "last paid ", timeTag(formatTime(at), at))
          : h("strong", { class: "warn" }, "never paid before through Sluice"),
        " · ",
        h("a", { href: destinationLink(destination) }, "All requests to it"),
      ),
    ),
  );
}

/** @param {HoldLimit[]} all */
function limitBars(all) {
  if (all.length === 0) return h("p", { class: "muted" }, "No limit counts it, or the current rules deny it.");
  return all.map((limit) => {
    const fits = limit.adds <= limit.left;
    const words = fits
      ? `${formatUnits(limit.left, limit.unit)} left now, ${formatUnits(limit.leftAfter, limit.unit)} left afterwards.`
      : `Only ${formatUnits(limit.left, limit.unit)} left, and it needs ${formatUnits(limit.adds, limit.unit)}: ${limit.over === "hold" ? "approval permits it to exceed the limit" : "it is sent when the limit has enough left"}.`;
    return limitBar({ ...limit, words, isShort: !fits });
  });
}

/**
 * @param {Hold} hold
 * @param {SentRequest} sent
 * @param {ByteCheck | null} check
 * @returns {Child[]}
 */
function sentBytes(hold, { method, target, body }, check) {
  const isGood = check?.kind === "good";
  return [
    h(
      "p",
      { class: isGood ? "checked" : "unchecked" },
      isGood
        ? "✓ Verified in this browser: the bytes below have the fingerprint that a vote is for."
        : "✗ Not verified: the bytes below may not be what a vote is for.",
    ),
    h("p", { class: "code fingerprint" }, h("span", { class: "sr" }, "Fingerprint "), hold.fingerprint),
    h(
      "details",
      { "data-name": "bytes" },
      h("summary", { id: "bytes" }, "Show the exact bytes"),
      h("pre", { tabindex: "0", "aria-label": "The exact bytes" }, `${method} ${target}\n\n${body}`),
      body !== "" && h("p", { class: "muted" }, "The body, formatted:"),
      body !== "" && h("pre", { tabindex: "0", "aria-label": "The body, formatted" }, indentJson(body)),
    ),
  ];
}

/**
 * Puts each member of a JSON text on a line of its own, without parsing: every value stays as it is written.
 * @param {string} body
 */
function indentJson(body) {
  let depth = 0;
  let isText = false;
  let made = "";
  let isEscaped = false;
  for (const letter of body) {
    if (isText) {
      made += letter;
      if (isEscaped) isEscaped = false;
      else if (letter === "\\") isEscaped = true;
      else if (letter === '"') isText = false;
      continue;
    }
    if (letter === '"') isText = true;
    if ("}]".includes(letter)) {
      depth -= 1;
      made += `\n${"  ".repeat(depth)}`;
    }
    made += letter === ":" ? ": " : letter;
    if ("{[".includes(letter)) depth += 1;
    if ("{[,".includes(letter)) made += `\n${"  ".repeat(depth)}`;
  }
  return made;
}
