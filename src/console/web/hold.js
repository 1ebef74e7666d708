// One call that waits: what it would do, why it waits, who agreed, and the exact bytes that a vote is for.

import { get } from "./api.js";
import { limitBar } from "./charts.js";
import { badge, fill, h, moment, prose, trouble } from "./dom.js";
import { doubts } from "./fingerprint.js";
import { sentTo } from "./history.js";
import { acts, remarkButton } from "./vote.js";
import { ago, counted, grouped, left, missing, movement, person, state, when } from "./words.js";

const OPEN = ["pending", "approved"];

export function view(desk, id) {
  const element = h("article", { class: "hold", "aria-busy": "true" }, h("p", { class: "waiting" }, "One moment…"));
  let last = "";
  let seen = null;
  let isClosed = false;
  let wantsFocus = false;

  async function load() {
    if (!/^[0-9a-f]{32}$/.test(id)) return fill(element, back(), h("h2", {}, "No such hold"), h("p", {}, "This address names none."));
    let hold;
    try {
      hold = (await get(`holds/${id}`)).body;
    } catch (failure) {
      if (isClosed) return;
      // What stood here stays: it may be read on.
      if (seen === null) fill(element, back(), h("h2", { tabindex: "-1" }, failure.status === 404 ? "Nothing waits here" : "It cannot be shown"), trouble(failure, failure.status === 404 ? undefined : load));
      return;
    }
    if (!isClosed) await draw(hold);
  }

  async function draw(hold) {
    const print = JSON.stringify(hold);
    if (print === last) return;
    const checked = hold.sent ? await doubts(hold, movement(hold).amounts) : null;
    const sequel = hold.state === "released" ? await sequelOf(hold) : null;
    if (isClosed) return;
    const before = seen;
    [last, seen] = [print, hold];
    const opened = [...element.querySelectorAll("details[open]")].map((one) => one.dataset.name);
    const hadFocus = element.contains(document.activeElement) ? document.activeElement.id : null;
    fill(element, content(desk, hold, checked, sequel, draw));
    element.removeAttribute("aria-busy");
    for (const one of element.querySelectorAll("details")) if (opened.includes(one.dataset.name)) one.open = true;
    if (before && before.state !== hold.state) happened(hold, before);
    if (hadFocus && document.getElementById(hadFocus)) document.getElementById(hadFocus).focus({ preventScroll: true });
    if (wantsFocus) focus();
  }

  /** Somebody else was first: what is being asked has no sense any more. */
  function happened(hold) {
    if (OPEN.includes(hold.state)) return;
    for (const open of document.querySelectorAll("dialog[open]")) open.close();
    const note = element.querySelector(".became");
    note?.focus();
  }

  async function sequelOf(hold) {
    if (hold.requestId === undefined) return null;
    return get(`requests/${hold.environment}/${hold.requestId}`).then(({ body }) => body, () => null);
  }

  function focus() {
    const heading = element.querySelector("h2");
    wantsFocus = heading === null;
    heading?.focus({ preventScroll: true });
  }

  load();
  return {
    title: "A hold",
    element,
    focus,
    // What has been sent still becomes something: executed, or in doubt.
    refresh() {
      if (seen?.state === "released") last = "";
      load();
    },
    close() {
      isClosed = true;
    },
  };
}

function back() {
  return h("p", { class: "back" }, h("a", { href: "#/queue" }, "‹ Queue"));
}

function content(desk, hold, checked, sequel, draw) {
  const moves = movement(hold);
  const [word, kind] = state(hold.state);
  const isOpen = OPEN.includes(hold.state);
  const { text: due, press } = left(hold.expiresAt);
  return [
    back(),
    h(
      "header",
      {},
      h("h2", { tabindex: "-1", id: "hold-title", class: moves.headline.length > 18 ? "long" : undefined }, moves.headline),
      moves.direction && h("p", { class: "lead" }, moves.direction),
      h(
        "p",
        { class: "badges" },
        badge(hold.environment === "production" ? "Production" : "Sandbox", "note"),
        badge(word, kind),
        isOpen && h("span", { class: "left", "data-left": hold.expiresAt, "data-press": press }, due),
      ),
    ),
    became(hold, sequel),
    hold.stuck && h("p", { class: "became warn" }, hold.stuck),
    checked && checked.kind !== "good" && h("p", { class: "alarm", role: "alert" }, checked.text),
    part("What will move", lines(hold.words)),
    part("Why it waits", h("ul", { class: "reasons" }, hold.reasons.map((reason) => h("li", {}, prose(reason.text), reason.rule && h("span", { class: "muted" }, " – rule "), reason.rule && h("code", {}, reason.rule))))),
    part(
      "Who asked",
      h(
        "dl",
        { class: "lines" },
        hold.requester && pair("person", hold.requester),
        pair("caller", person(hold.owner)),
        pair("asked", [moment(when(hold.createdAt), hold.createdAt), ", ", h("span", { "data-ago": hold.createdAt }, ago(hold.createdAt))]),
        pair("expires", moment(when(hold.expiresAt), hold.expiresAt)),
        hold.requestId && pair("requestId", h("a", { href: `#/history/${hold.environment}/${encodeURIComponent(hold.requestId)}`, class: "code" }, hold.requestId)),
        hold.tries > 0 && pair("tries", `Sent ${hold.tries} times in vain: certainly nothing was done. It is tried again.`),
      ),
    ),
    part("Who agrees", votes(hold)),
    hold.paidBefore && part("Paid there before", paid(hold.paidBefore)),
    hold.limits && part("Limits, before and after", limits(hold.limits)),
    part("Remarks", remarks(hold), remarkButton(desk, hold, draw)),
    hold.sent && part("Exactly what is sent", bytes(hold, checked)),
    acts(desk, hold, moves, checked, draw),
  ];
}

function part(title, ...children) {
  return h("section", {}, h("h3", {}, title), children);
}

function pair(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

/** What became of it, once it waits for nobody. */
function became(hold, sequel) {
  const told = {
    approved: "People enough agree. It is sent as soon as limits, freezes and upstream let it.",
    released: "People enough agreed, and it was sent.",
    rejected: "It was rejected, and its caller was told why.",
    expired: "Nobody enough agreed in time. Its caller may ask again.",
    cancelled: "Its caller does not want it any more.",
    blocked: "Today's rules deny what was approved; nothing was sent.",
    forgotten: "Its content is kept no longer.",
  }[hold.state];
  if (!told) return null;
  const outcome = {
    executed: `Executed: upstream answered ${sequel?.status ?? "that it is so"}.`,
    "not-executed": `Not executed: upstream answered ${sequel?.status ?? "that it is not"}.`,
    sending: "It is being sent now.",
    unknown: "Nobody knows what became of it: it is in doubt, see Overview.",
  }[sequel?.state];
  const [, kind] = state(hold.state);
  return h("div", { class: `became ${sequel?.state === "unknown" ? "warn" : kind}`, tabindex: "-1", role: "status" }, h("p", {}, told), outcome && h("p", {}, h("strong", {}, outcome)));
}

function lines(words) {
  return h("dl", { class: "lines" }, words.map(({ name, text }) => pair(name, digits(name, text))));
}

/** Amounts are grouped where they stand first; names stay as they are, whole. */
function digits(name, text) {
  const money = ["from", "to"].includes(name) && /^(\d[\d.]*)( [A-Za-z0-9.]+)?(.*)$/s.exec(text);
  if (!money) return h("span", { class: "text" }, text);
  return [h("strong", { class: "number" }, grouped(money[1]), (money[2] ?? "").toUpperCase()), h("span", { class: "text" }, money[3])];
}

function votes(hold) {
  const lacks = missing(hold);
  return [
    h(
      "ul",
      { class: "approvals" },
      hold.approvals.map((approval) =>
        h(
          "li",
          {},
          h("span", { class: "pips", "aria-hidden": "true" }, Array.from({ length: Math.min(approval.needed, 12) }, (_, at) => h("span", { class: at < approval.given ? "pip given" : "pip" }))),
          h("span", {}, h("code", {}, approval.name), ` – ${approval.given} of ${approval.needed} agreed`),
        ),
      ),
    ),
    lacks && OPEN.includes(hold.state) && h("p", {}, `Missing: ${lacks}.`),
    hold.votes.length > 0 && h("ol", { class: "said" }, hold.votes.map((vote) => said(vote, "agreed"))),
  ];
}

function said({ issuer, subject, text, at, for: members = [] }, did) {
  const place = members.length > 0 && ` in the place of ${members.join(", ")}`;
  return h("li", {}, h("p", {}, h("strong", {}, person({ issuer, subject })), did ? ` ${did} ` : " ", moment(when(at), at), place), text && h("p", { class: "quote" }, text));
}

function remarks(hold) {
  if (hold.notes.length === 0) return h("p", { class: "muted" }, "None.");
  return h("ol", { class: "said" }, hold.notes.map((note) => said(note)));
}

function paid(before) {
  if (before.length === 0) return h("p", { class: "muted" }, "It names no destination.");
  return h(
    "ul",
    { class: "paid" },
    before.map(({ destination, at }) =>
      h(
        "li",
        {},
        h("span", { class: "code" }, destination),
        h("br"),
        at ? h("span", { class: "muted" }, "last paid ", moment(when(at), at)) : h("strong", { class: "warn" }, "never paid from here"),
        ", ",
        h("a", { href: sentTo(destination) }, "all that was asked for it"),
      ),
    ),
  );
}

function limits(all) {
  if (all.length === 0) return h("p", { class: "muted" }, "It counts in none, or today's rules deny it.");
  return all.map((limit) => {
    const fits = limit.adds <= limit.left;
    const words = fits
      ? `${counted(limit.left, limit.unit)} left now, ${counted(limit.leftAfter, limit.unit)} after it.`
      : `Only ${counted(limit.left, limit.unit)} left, and it takes ${counted(limit.adds, limit.unit)}: ${limit.over === "hold" ? "the approval lets it exceed this" : "it waits for room"}.`;
    return limitBar({ ...limit, words, isShort: !fits });
  });
}

function bytes(hold, checked) {
  const { method, target, body } = hold.sent;
  const isGood = checked?.kind === "good";
  return [
    h("p", { class: isGood ? "checked" : "unchecked" }, isGood ? "✓ The fingerprint of the bytes below, computed in this browser, is the one that a vote is for." : "✗ The bytes below are not proved to be what a vote would be for."),
    h("p", { class: "code fingerprint" }, h("span", { class: "sr" }, "Fingerprint "), hold.fingerprint),
    h(
      "details",
      { "data-name": "bytes" },
      h("summary", { id: "bytes" }, "Show the exact bytes"),
      h("pre", { tabindex: "0", "aria-label": "The exact bytes" }, `${method} ${target}\n\n${body}`),
      body !== "" && h("p", { class: "muted" }, "The same, laid out to be read:"),
      body !== "" && h("pre", { tabindex: "0", "aria-label": "The body, laid out" }, laidOut(body)),
    ),
  ];
}

/** A break and an indent per member; no value is read, so that none is written otherwise than it stands. */
function laidOut(body) {
  let [depth, isText, made] = [0, false, ""];
  for (let at = 0; at < body.length; at += 1) {
    const letter = body[at];
    if (isText) {
      made += letter;
      if (letter === "\\") made += body[(at += 1)] ?? "";
      else if (letter === '"') isText = false;
      continue;
    }
    if (letter === '"') isText = true;
    if ("}]".includes(letter)) made += `\n${"  ".repeat((depth -= 1))}`;
    made += letter === ":" ? ": " : letter;
    if ("{[".includes(letter)) depth += 1;
    if ("{[,".includes(letter)) made += `\n${"  ".repeat(depth)}`;
  }
  return made;
}
