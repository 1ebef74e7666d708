// The list of holds: those that wait for this person first, in order of expiry.

import { get } from "./api.js";
import { approveAll, lookedAt } from "./batch.js";
import { badge, byId, errorBox, fill, h, select, withCode } from "./dom.js";
import { ago, rowRisk } from "./risk.js";
import { otherValue } from "./vote.js";
import {
  addAmounts,
  countVotes,
  formatAgo,
  formatTime,
  groupSum,
  missingVotes,
  movement,
  personName,
  shorten,
  stateLabel,
  timeLeft,
} from "./words.js";

const PAGE_SIZE = 100;
/** @type {Record<string, string>} */
const COUNT_WORDS = { mine: "for you", open: "open", approved: "approved", ended: "closed" };
/** Pages may hold few holds; the list reads up to this many more. */
const SPARE_PAGES = 5;
/** The search begins this long after the last key. */
const SEARCH_DELAY_MS = 250;
/** When to ask again while the gate still reads earlier payments. */
const READING_MS = 3_000;

/**
 * @param {App} app
 * @returns {QueueView}
 */
export function view(app) {
  const isJudge = app.may("approver");
  const filters = { whose: isJudge ? "mine" : "open", environment: "", operation: "", words: "", order: "" };
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let typing;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let again;
  /** @type {Set<string>} */
  const operations = new Set();
  /** @type {Hold[]} */
  let holds = [];
  /** @type {string | null} */
  let next = null;
  let pages = 1;
  /** @type {string | null} */
  let chosen = null;
  let turn = 0;
  /** @type {Promise<void> | null} */
  let loading = null;
  let isWaiting = false;

  /** @type {Map<string, { element: HTMLElement, text: string }>} */
  const rows = new Map();
  const list = h("ol", { class: "rows" });
  const status = h("div", { class: "below" });
  const count = h("p", { class: "count", role: "status" });
  const more = h("button", { type: "button", class: "wide", onclick: () => load(pages + 1) }, `Show ${PAGE_SIZE} more`);
  const heading = h("h1", {}, "Queue");

  const whose = h("div", { class: "segments", role: "group", "aria-label": "Which holds" });
  const choices = [
    ["mine", "For me"],
    ["open", "All"],
    ["approved", "Approved"],
    ["ended", "Closed"],
  ].filter(([word]) => word !== "mine" || isJudge);
  for (const [word, label] of choices) {
    const button = h("button", { type: "button", "aria-pressed": String(word === filters.whose) }, label);
    button.addEventListener("click", () => {
      filters.whose = word;
      for (const other of whose.children) other.setAttribute("aria-pressed", String(other === button));
      // Closed holds come latest first.
      order.disabled = word === "ended";
      reload();
    });
    whose.append(button);
  }
  const environment = select(
    [
      ["", "All environments"],
      ["production", "Production"],
      ["sandbox", "Sandbox"],
    ],
    "",
    { "aria-label": "Environment" },
  );
  environment.addEventListener("change", () => {
    filters.environment = environment.value;
    reload();
  });
  const operation = select([["", "All operations"]], "", { "aria-label": "Operation" });
  operation.addEventListener("change", () => {
    filters.operation = operation.value;
    reload();
  });
  const words = h("input", {
    type: "search",
    placeholder: "Search",
    "aria-label": "Search holds",
    autocomplete: "off",
  });
  words.addEventListener("input", () => {
    filters.words = words.value.trim();
    clearTimeout(typing);
    typing = setTimeout(reload, SEARCH_DELAY_MS);
  });
  const order = select(
    [
      ["", "First to expire"],
      ["value", "Largest value"],
      ["caller", "Group by caller"],
      ["destination", "Group by destination"],
    ],
    "",
    { "aria-label": "Order" },
  );
  order.addEventListener("change", () => {
    filters.order = order.value;
    reload();
  });
  const sums = h("p", { class: "muted sums", role: "status" });
  const batch = h("button", { type: "button", class: "good", id: "batch", hidden: true });
  batch.addEventListener("click", () => approveAll(app, lookedAt(app, holds)));

  const element = h(
    "div",
    { class: "queue" },
    h("div", { class: "heading" }, heading, count),
    h("div", { class: "tools" }, whose, h("div", { class: "filters" }, environment, operation, order, words)),
    sums,
    batch,
    list,
    status,
  );

  function reload() {
    holds = [];
    rows.clear();
    fill(list);
    load(1);
  }

  /** @param {number} upTo the number of pages */
  function load(upTo) {
    loading = loadPages(upTo);
  }

  /** Loads the same pages again, after any load that a person began. */
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

  /** @param {number} upTo */
  async function loadPages(upTo) {
    turn += 1;
    const ownTurn = turn;
    /** @type {Record<string, any>} */
    const query = {
      limit: PAGE_SIZE,
      earlier: "true",
      environment: filters.environment,
      operation: filters.operation,
      text: filters.words,
    };
    if (filters.whose === "mine") query.mine = "true";
    if (["approved", "ended"].includes(filters.whose)) query.state = filters.whose;
    if (filters.whose !== "ended") query.order = filters.order;
    if (upTo > pages) fill(status, h("p", { class: "waiting" }, "One moment…"));
    /** @type {Hold[]} */
    const found = [];
    let after;
    try {
      for (let page = 0; page < upTo + SPARE_PAGES && found.length < (upTo - 1) * PAGE_SIZE + 1; page += 1) {
        const { body } = await get("holds", { ...query, after });
        if (ownTurn !== turn) return;
        found.push(...body.holds);
        after = body.next;
        if (after === null) break;
      }
    } catch (failure) {
      if (ownTurn !== turn) return;
      fill(
        status,
        errorBox(failure, () => load(upTo)),
      );
      return;
    }
    [holds, next, pages] = [found, after ?? null, upTo];
    draw();
    clearTimeout(again);
    if (found.some(({ earlier }) => earlier?.reading))
      again = setTimeout(() => element.isConnected && refresh(), READING_MS);
  }

  function draw() {
    for (const hold of holds) {
      if (operations.has(hold.operation)) continue;
      operations.add(hold.operation);
      operation.append(h("option", { value: hold.operation }, hold.operation));
    }
    /**
     * Returns the element that shows these data; one that shows them already stays.
     * @param {string} id
     * @param {unknown} data
     * @param {() => HTMLElement} make
     */
    const kept = (id, data, make) => {
      const text = JSON.stringify(data);
      const old = rows.get(id);
      if (old?.text === text) return old.element;
      const element = make();
      rows.set(id, { element, text });
      return element;
    };
    const groups = grouped(holds, filters.whose === "ended" ? "" : filters.order);
    const wanted = groups.flatMap(([name, some], at) => {
      // The last group may go on behind what is loaded.
      const soFar = next !== null && at === groups.length - 1 ? " so far" : "";
      const sum = `${some.length} · ${sumsOf(some)}${soFar}`;
      const heading = name === null ? [] : [kept(`group ${name}`, [name, sum], () => groupHeading(name, sum))];
      return [...heading, ...some.map((hold) => kept(hold.id, hold, () => row(hold, app)))];
    });
    arrange(list, wanted);
    mark();
    count.textContent =
      holds.length === 0 ? "" : `${holds.length}${next === null ? "" : "+"} ${COUNT_WORDS[filters.whose]}`;
    more.textContent = holds.length === 0 ? "Search further" : `Show ${PAGE_SIZE} more`;
    fill(status, holds.length === 0 && (next === null ? emptyNote(filters) : notYet()), next !== null && more);
    const sum = sumsOf(holds);
    sums.textContent = sum && next !== null ? `Shown: ${sum}` : sum;
    const isPlain = filters.environment === "" && filters.operation === "" && filters.words === "";
    if (filters.whose === "mine" && isPlain) app.waiting(holds, next !== null);
    const ready = lookedAt(app, holds).length;
    batch.hidden = ready < 2;
    batch.textContent = `Approve ${ready} you looked at…`;
  }

  function mark() {
    for (const link of list.querySelectorAll("a.row")) {
      if (!(link instanceof HTMLAnchorElement)) continue;
      if (link.dataset.id === chosen) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
  }

  fill(status, h("p", { class: "waiting" }, "One moment…"));
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
      const link = list.querySelector(`a.row[data-id="${CSS.escape(id)}"]`);
      if (link instanceof HTMLElement) link.focus();
      else byId("main").focus({ preventScroll: true });
    },
  };
}

/**
 * Makes `wanted` the children of a list. Children that stay are not touched, so that focus and scroll position stay too.
 * @param {HTMLElement} list
 * @param {HTMLElement[]} wanted
 */
function arrange(list, wanted) {
  /** @type {Set<Element>} */
  const keep = new Set(wanted);
  for (const child of [...list.children]) if (!keep.has(child)) child.remove();
  wanted.forEach((child, at) => {
    if (list.children[at] !== child) list.insertBefore(child, list.children[at] ?? null);
  });
}

/**
 * @param {Hold} hold
 * @param {App} app
 */
function row(hold, app) {
  const moves = movement(hold);
  const { text: due, press } = timeLeft(hold.expiresAt);
  const { given, needed } = countVotes(hold);
  const lacks = missingVotes(hold);
  const [word, kind] = stateLabel(hold.state);
  const mine = hold.votes.some((vote) => personName(vote) === personName(app.session().person));
  const isOpen = hold.state === "pending";
  const risk = isOpen ? rowRisk(hold) : [];
  const who = hold.requester ?? hold.owner.subject;
  return h(
    "li",
    {},
    h(
      "a",
      { href: `#/hold/${hold.id}`, class: "row", "data-id": hold.id },
      h("span", { class: moves.hasAmount ? "amount" : "amount words" }, moves.headline),
      h(
        "span",
        { class: "due" },
        hold.endedAt
          ? h("span", { class: "left" }, formatTime(hold.endedAt))
          : h("span", { class: "left", "data-left": hold.expiresAt, "data-press": press }, due),
      ),
      h("span", { class: "what" }, moves.direction || hold.operation, otherValue(hold, moves)),
      moves.destination &&
        h(
          "span",
          { class: "to" },
          h("span", { class: "muted" }, `to ${moves.destination.what} `),
          hold.destination?.lists.map((name) => h("strong", { class: "known" }, `${name} `)),
          h("span", { class: "code", title: moves.destination.name }, shorten(moves.destination.name)),
        ),
      h(
        "span",
        { class: "who" },
        h("span", { class: "muted" }, "requested by "),
        h("span", { class: "name", title: who }, who),
        h("span", { class: "muted age" }, h("span", { "data-ago": hold.createdAt }, formatAgo(hold.createdAt))),
      ),
      h(
        "span",
        { class: "why" },
        hold.environment === "sandbox" && badge("Sandbox", "note"),
        risk.filter(({ href, link }) => !href || link).map(({ kind, short }) => badge(short ?? "", kind)),
        h(
          "span",
          { class: "text" },
          hold.reasons.map((reason, at) => [at > 0 && "; ", reason.rule && `${reason.rule}: `, withCode(reason.text)]),
          moves.direction && ` · ${hold.operation}`,
        ),
      ),
      h(
        "span",
        { class: "votes" },
        isOpen
          ? h(
              "span",
              { class: "tally" },
              `${given} of ${needed} approved`,
              lacks && h("span", { class: "muted" }, `, needs ${lacks}`),
            )
          : badge(word, kind),
        mine && badge("You approved", "good"),
        hold.stuck && badge("Stuck", "warn"),
      ),
    ),
    // The row is one link: those to earlier payments stand below it.
    risk.map(
      ({ href, link, short, at }) => href && h("p", { class: "twin" }, h("a", { href }, link ?? short, ago(at))),
    ),
  );
}

/**
 * Returns the group of a hold: its caller, or its destination with the lists that know it.
 * @param {Hold} hold
 * @param {string} order
 */
function groupOf(hold, order) {
  if (order === "caller") return hold.requester ?? hold.owner.subject;
  const { name, lists } = hold.destination ?? { name: null, lists: [] };
  return [...lists, name ?? "no destination"].join(" ");
}

/**
 * Divides ordered holds into groups; holds in an order without groups are one group without a name.
 * @param {Hold[]} holds
 * @param {string} order
 * @returns {[string | null, Hold[]][]}
 */
function grouped(holds, order) {
  if (order !== "caller" && order !== "destination") return [[null, holds]];
  /** @type {Map<string, Hold[]>} */
  const groups = new Map();
  for (const hold of holds) groups.set(groupOf(hold, order), [...(groups.get(groupOf(hold, order)) ?? []), hold]);
  return [...groups];
}

/**
 * @param {string} name
 * @param {string} sum
 */
function groupHeading(name, sum) {
  return h("li", { class: "group" }, h("h2", {}, name), h("span", { class: "muted number" }, sum));
}

/**
 * Returns the exact sums of the listed holds by currency; those of the sandbox say so.
 * @param {Hold[]} holds
 */
function sumsOf(holds) {
  /** @type {Map<string, string>} */
  const sums = new Map();
  for (const hold of holds) {
    const { amounts, currency } = movement(hold);
    if (amounts.length === 0 || !currency) continue;
    const name = `${currency.toUpperCase()}${hold.environment === "sandbox" ? " in the sandbox" : ""}`;
    sums.set(name, addAmounts(sums.get(name) ?? "0", amounts[0]));
  }
  return [...sums].map(([name, sum]) => `${groupSum(sum)} ${name}`).join(" · ");
}

/**
 * Explains an empty list.
 * @param {{ whose: string, environment: string, operation: string, words: string }} filters
 */
function emptyNote(filters) {
  if (filters.words)
    return note(
      "No holds in this list match.",
      "Search looks at words, reasons, people, names and lists of every hold.",
    );
  if (filters.operation || filters.environment)
    return note("No holds match these filters.", "Choose all operations and all environments to see the others.");
  if (filters.whose === "mine")
    return note(
      "No holds need your vote.",
      "Holds that need your vote appear here automatically. All shows every open hold.",
    );
  if (filters.whose === "approved")
    return note(
      "No approved holds wait to be sent.",
      "An approved call is sent at once, unless a limit is full, money is frozen, or upstream is unreachable.",
    );
  if (filters.whose === "ended")
    return note(
      "No closed holds.",
      "Holds that were sent, rejected or expired stay here for a while; History has all of them.",
    );
  return note("No open holds.", "Calls that a rule holds appear here automatically.");
}

/** Says that only a part of the holds was searched. */
function notYet() {
  return note("No match so far.", "Not all holds were searched yet.");
}

/**
 * @param {string} first
 * @param {string} second
 */
function note(first, second) {
  return h("div", { class: "empty" }, h("p", {}, h("strong", {}, first)), h("p", { class: "muted" }, second));
}
