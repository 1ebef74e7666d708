// What waits: for this person first, what expires first above.

import { get } from "./api.js";
import { badge, fill, h, prose, select, trouble } from "./dom.js";
import { ago, left, missing, movement, person, shortened, state, tally, when } from "./words.js";

const PAGE = 100;
const COUNTED = { mine: "for you", open: "open", approved: "approved", ended: "over" };
/** So many more are asked for where they hold next to nothing. */
const SPARE_PAGES = 5;

export function view(desk) {
  const isJudge = desk.may("approver");
  const asked = { whose: isJudge ? "mine" : "open", environment: "", operation: "", words: "" };
  const known = { operations: new Set() };
  let holds = [];
  let next = null;
  let pages = 1;
  let chosen = null;
  let turn = 0;
  let loading = null;
  let isWaiting = false;

  const rows = new Map();
  const list = h("ol", { class: "rows" });
  const told = h("div", { class: "below" });
  const count = h("p", { class: "count", role: "status" });
  const more = h("button", { type: "button", class: "wide", onclick: () => load(pages + 1) }, `Show ${PAGE} more`);
  const heading = h("h1", {}, "Queue");

  const whose = h("div", { class: "segments", role: "group", "aria-label": "Which ones" });
  const choices = [
    ["mine", "For me"],
    ["open", "All"],
    ["approved", "Approved"],
    ["ended", "Over"],
  ].filter(([word]) => word !== "mine" || isJudge);
  for (const [word, label] of choices) {
    const button = h("button", { type: "button", "aria-pressed": String(word === asked.whose) }, label);
    button.addEventListener("click", () => {
      asked.whose = word;
      for (const other of whose.children) other.setAttribute("aria-pressed", String(other === button));
      anew();
    });
    whose.append(button);
  }
  const environment = select([["", "Everywhere"], ["production", "Production"], ["sandbox", "Sandbox"]], "", { "aria-label": "Environment" });
  environment.addEventListener("change", () => {
    asked.environment = environment.value;
    anew();
  });
  const operation = select([["", "Every operation"]], "", { "aria-label": "Operation" });
  operation.addEventListener("change", () => {
    asked.operation = operation.value;
    anew();
  });
  const words = h("input", { type: "search", placeholder: "Find in these", "aria-label": "Find in these", autocomplete: "off" });
  words.addEventListener("input", () => {
    asked.words = words.value.trim().toLowerCase();
    draw();
  });

  const element = h(
    "div",
    { class: "queue" },
    h("div", { class: "heading" }, heading, count),
    h("div", { class: "tools" }, whose, h("div", { class: "filters" }, environment, operation, words)),
    list,
    told,
  );

  function anew() {
    holds = [];
    rows.clear();
    fill(list);
    load(1);
  }

  function load(upTo) {
    loading = look(upTo);
  }

  /** What somebody asked for is not cut off by a look at what has changed: that comes after it. */
  async function refresh() {
    if (isWaiting) return;
    isWaiting = true;
    let last;
    do {
      last = loading;
      await last;
    } while (last !== loading);
    isWaiting = false;
    load(pages);
  }

  async function look(upTo) {
    turn += 1;
    const mine = turn;
    const query = { limit: PAGE, environment: asked.environment, operation: asked.operation };
    if (asked.whose === "mine") query.mine = "true";
    if (["approved", "ended"].includes(asked.whose)) query.state = asked.whose;
    if (upTo > pages) fill(told, h("p", { class: "waiting" }, "One moment…"));
    const found = [];
    let after;
    try {
      // Pages that had to be searched may hold few.
      for (let page = 0; page < upTo + SPARE_PAGES && found.length < (upTo - 1) * PAGE + 1; page += 1) {
        const { body } = await get("holds", { ...query, after });
        if (mine !== turn) return;
        found.push(...body.holds);
        after = body.next;
        if (after === null) break;
      }
    } catch (failure) {
      if (mine === turn) fill(told, trouble(failure, () => load(upTo)));
      return;
    }
    [holds, next, pages] = [found, after ?? null, upTo];
    draw();
  }

  function draw() {
    for (const hold of holds) {
      if (known.operations.has(hold.operation)) continue;
      known.operations.add(hold.operation);
      operation.append(h("option", { value: hold.operation }, hold.operation));
    }
    const shown = asked.words === "" ? holds : holds.filter((hold) => text(hold).includes(asked.words));
    const wanted = shown.map((hold) => {
      const print = JSON.stringify(hold);
      const old = rows.get(hold.id);
      if (old?.print === print) return old.element;
      const made = row(hold, desk);
      rows.set(hold.id, { element: made, print });
      return made;
    });
    arrange(list, wanted);
    mark();
    count.textContent = holds.length === 0 ? "" : `${shown.length}${next === null ? "" : "+"} ${COUNTED[asked.whose]}`;
    fill(
      told,
      shown.length === 0 && empty(asked, holds.length > 0),
      next !== null && more,
    );
  }

  function mark() {
    for (const link of list.querySelectorAll("a")) {
      if (link.dataset.id === chosen) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  fill(told, h("p", { class: "waiting" }, "One moment…"));
  load(1);
  return {
    title: "Queue",
    element,
    refresh,
    choose(id) {
      chosen = id;
      mark();
    },
    focus(id) {
      const link = [...list.querySelectorAll("a")].find((one) => one.dataset.id === id);
      if (link) link.focus();
      else document.getElementById("main").focus({ preventScroll: true });
    },
  };
}

/** Elements that stay are not touched, so that nobody's place is lost. */
function arrange(list, wanted) {
  const keep = new Set(wanted);
  for (const child of [...list.children]) if (!keep.has(child)) child.remove();
  wanted.forEach((child, at) => {
    if (list.children[at] !== child) list.insertBefore(child, list.children[at] ?? null);
  });
}

function row(hold, desk) {
  const moves = movement(hold);
  const { text: due, press } = left(hold.expiresAt);
  const { given, needed } = tally(hold);
  const lacks = missing(hold);
  const [word, kind] = state(hold.state);
  const mine = hold.votes.some((vote) => person(vote) === person(desk.me.person));
  const isOpen = hold.state === "pending";
  return h(
    "li",
    {},
    h(
      "a",
      { href: `#/hold/${hold.id}`, class: "row", "data-id": hold.id },
      h("span", { class: moves.hasAmount ? "amount" : "amount words" }, moves.headline),
      h("span", { class: "due" }, hold.endedAt ? h("span", { class: "left" }, when(hold.endedAt)) : h("span", { class: "left", "data-left": hold.expiresAt, "data-press": press }, due)),
      h("span", { class: "what" }, moves.direction || hold.operation),
      moves.destination && h("span", { class: "to" }, h("span", { class: "muted" }, `to ${moves.destination.what} `), h("span", { class: "code", title: moves.destination.name }, shortened(moves.destination.name))),
      h("span", { class: "who" }, h("span", { class: "muted" }, "asked by "), hold.requester ?? hold.owner.subject, h("span", { class: "muted age" }, ", ", h("span", { "data-ago": hold.createdAt }, ago(hold.createdAt)))),
      h("span", { class: "why" }, moves.direction && `${hold.operation} · `, hold.reasons.map((reason, at) => [at > 0 && "; ", reason.rule && `${reason.rule}: `, prose(reason.text)])),
      h(
        "span",
        { class: "votes" },
        hold.environment === "sandbox" && badge("Sandbox", "note"),
        isOpen ? h("span", { class: "tally" }, `${given} of ${needed} agreed`, lacks && h("span", { class: "muted" }, `, missing ${lacks}`)) : badge(word, kind),
        mine && badge("You agreed", "good"),
        hold.stuck && badge("Stuck", "warn"),
      ),
    ),
  );
}

function text(hold) {
  const parts = [hold.id, hold.requestId, hold.owner.subject, hold.requester, ...hold.words.map((word) => word.text), ...hold.reasons.map((reason) => `${reason.rule ?? ""} ${reason.text}`)];
  return parts.filter(Boolean).join(" ").toLowerCase();
}

function empty(asked, isHidden) {
  if (isHidden) return note("Nothing here has these words.", "Find looks at what is listed alone; another filter, or History, looks further.");
  if (asked.operation || asked.environment) return note("Nothing waits that is so.", "Choose every operation and both environments to see the rest.");
  if (asked.whose === "mine") return note("Nothing waits for you.", "What needs your word appears here by itself. All shows what waits for others.");
  if (asked.whose === "approved") return note("Nothing waits to be sent.", "What was approved is sent at once, unless a limit is full, money is frozen, or upstream is away.");
  if (asked.whose === "ended") return note("Nothing is over yet.", "What was sent, rejected or expired is listed here for a while; History tells all of it.");
  return note("Nothing waits.", "Calls that a rule holds appear here by themselves.");
}

function note(first, second) {
  return h("div", { class: "empty" }, h("p", {}, h("strong", {}, first)), h("p", { class: "muted" }, second));
}
