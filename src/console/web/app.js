// The page: the person who is signed in, the view that is shown, and its refresh.

import { asFailure, call, get, idleTime, now, post, sessionEvents } from "./api.js";
import { Attention, notificationButton } from "./attention.js";
import { Changes } from "./changes.js";
import { ask, reasonField } from "./dialog.js";
import { byId, errorBox, field, fill, h, toast } from "./dom.js";
import * as freezes from "./freezes.js";
import * as history from "./history.js";
import * as hold from "./hold.js";
import "./keys.js";
import * as overview from "./overview.js";
import * as payments from "./payments.js";
import * as policy from "./policy.js";
import * as queue from "./queue.js";
import { renew, returnToPlace } from "./renewal.js";
import { linkSignIn, signIn, takeError, takeToken } from "./signin.js";
import { formatAgo, formatTime, personName, timeLeft } from "./words.js";

/** Views load again at most this often. */
const MIN_REFRESH_MS = 2_000;
/** Views load again at least this often. */
const MAX_REFRESH_MS = 15_000;
/** The page warns this long before the session ends. */
const WARNING_MS = 3 * 60_000;
/** The page signs in again at the provider this long before the session ends. */
const RENEWAL_MS = 30_000;
/** A person without input for this long is not signed in again. */
const RENEWAL_IDLE_MS = 5 * 60_000;

const TABS = [
  ["queue", "Queue"],
  ["overview", "Overview"],
  ["payments", "Payments"],
  ["policy", "Rules"],
  ["history", "History"],
];

const main = byId("main");
const header = byId("top");
const tabs = byId("places");
const banner = byId("standing");
const changes = new Changes();
/** Tells the other tabs of this browser that another person has signed in or out. */
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("sluice") : null;

/** @type {App} */
const app = {
  me: null,
  frozen: [],
  isMoreFrozen: false,
  stops: [],
  isWarned: false,
  may: (role) => app.me?.roles.includes(role) ?? false,
  refresh: () => refresh(),
  waiting: (holds, isMore) => attention.take(holds, isMore),
  session() {
    if (app.me === null) throw new Error("nobody is signed in");
    return app.me;
  },
  /** Asks the gate who is signed in; shows that person's page and returns false if it is another one. */
  async isStillMe() {
    const { body } = await get("session");
    const isSame = personName(body.person) === personName(app.session().person);
    if (!isSame) enter(body);
    return isSame;
  },
};

let title = "Sluice";
const attention = new Attention(app, showTitle);

/** Shows the name of the view, and how many holds wait, in the title of the browser's tab. */
function showTitle() {
  document.title = attention.count && app.me !== null ? `(${attention.count}) ${title}` : title;
}

/** @param {string} text */
function setTitle(text) {
  title = text;
  showTitle();
}

/** @type {View[]} */
let shown = [];
/**
 * The queue with the open hold beside it.
 * @type {{ list: QueueView, body: HTMLElement, element: HTMLElement, id: string | null } | null}
 */
let split = null;

async function start() {
  const token = takeToken();
  if (token !== null) {
    try {
      showOutside(await linkSignIn(token, enter, () => start()), "Sign in by a link – Sluice");
    } catch (failure) {
      leave(asFailure(failure).message);
    }
    return;
  }
  const error = takeError();
  try {
    enter((await get("session")).body);
  } catch (failure) {
    if (asFailure(failure).status === 401) leave(error);
    else
      fill(
        main,
        h(
          "div",
          { class: "page" },
          errorBox(failure, () => location.reload()),
        ),
      );
  }
}

/** @param {Session} me */
function enter(me) {
  app.me = me;
  app.isWarned = false;
  attention.reset();
  returnToPlace();
  drawHeader();
  changes.start();
  showAddress();
  refresh();
}

/**
 * Shows the sign-in page.
 * @param {string} [notice]
 */
function leave(notice) {
  showOutside(signIn(enter, notice), "Sign in – Sluice");
}

/** Signs in again at the provider if the session began there and the person is at work; otherwise asks for a sign-in. */
function endSession() {
  if (app.me === null) return;
  if (app.me.renews && idleTime() < RENEWAL_IDLE_MS && renew()) return;
  leave("Your session has ended. Sign in to return to this page.");
}

/**
 * Shows a page to somebody who is not signed in.
 * @param {HTMLElement} page
 * @param {string} title
 */
function showOutside(page, title) {
  closeViews();
  app.me = null;
  app.frozen = [];
  app.isMoreFrozen = false;
  app.stops = [];
  changes.stop();
  fill(header);
  fill(banner);
  tabs.hidden = true;
  setTitle(title);
  fill(main, page);
}

async function signOut() {
  try {
    await call("DELETE", "session");
  } catch (failure) {
    toast(asFailure(failure).message, "bad");
    return;
  }
  channel?.postMessage("person");
  leave("You are signed out.");
}

/** Ends all sessions of the person who is signed in; an operator can name another person. */
async function endSessions() {
  const me = app.session().person.subject;
  const who = h("input", {
    type: "text",
    value: me,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    maxlength: "512",
  });
  const reason = reasonField("Why", "The audit log keeps it.");
  const answer = await ask({
    title: "End all sessions?",
    content: [
      h(
        "p",
        {},
        app.may("operator")
          ? "This signs the person out in every browser."
          : "This signs you out in every browser, including this one.",
      ),
      h(
        "p",
        { class: "muted" },
        "Tokens stay valid until they expire: to lock someone out, disable them at the token issuer too.",
      ),
      app.may("operator") && field("Person", who, "The subject of their tokens, such as `finance-2`."),
      reason.element,
    ],
    label: "End all sessions",
    kind: "bad",
    check: () => (who.value.trim() === "" ? "Enter a person." : reason.check()),
    perform: async () => (await post("sessions/end", { person: who.value.trim(), reason: reason.text() })).body,
  });
  if (!answer) return;
  if (who.value.trim() === me) leave("All your sessions have ended.");
  else toast(`Ended every session of ${who.value.trim()}. The store showed ${answer.ended}.`);
}

/** Draws the bar at the top and the tabs. */
function drawHeader() {
  const live = h("p", { class: "live", role: "status", id: "live" });
  const links = TABS.map(([name, label]) => h("a", { href: `#/${name}`, "data-place": name }, label));
  const me = app.session();
  const menu = h(
    "details",
    { class: "person" },
    h("summary", {}, h("span", { class: "who" }, me.person.subject)),
    h(
      "div",
      { class: "menu" },
      h(
        "p",
        {},
        h("strong", {}, me.person.subject),
        h("br"),
        h("span", { class: "muted" }, `from ${me.person.issuer}`),
      ),
      h(
        "p",
        {},
        me.roles.length > 0 ? `Roles: ${me.roles.join(", ")}.` : "No role here: ask an administrator for one.",
      ),
      me.expiresAt && h("p", { class: "muted" }, `Signed in until ${formatTime(me.expiresAt)}.`),
      me.roles.includes("approver") && notificationButton(),
      h("button", { type: "button", onclick: signOut }, "Sign out"),
      h("button", { type: "button", onclick: endSessions }, "End all sessions…"),
    ),
  );
  fill(header, h("a", { href: "#/queue", class: "brand" }, mark(), "Sluice"), live, menu);
  fill(tabs, links);
  tabs.hidden = false;
  showConnection();
}

function mark() {
  return h("span", { class: "mark", "aria-hidden": "true" });
}

function showConnection() {
  const live = document.getElementById("live");
  if (!live) return;
  const isLost = changes.state === "lost";
  live.className = `live ${changes.state}`;
  if (!isLost)
    fill(
      live,
      h(
        "span",
        {},
        h("span", { class: "dot", "aria-hidden": "true" }),
        changes.state === "live" ? "Live" : "Connecting…",
      ),
    );
  else {
    const again = h("button", { type: "button", class: "quiet", onclick: () => changes.retry() }, "Try now");
    const since = h(
      "span",
      {},
      h("span", { class: "dot", "aria-hidden": "true" }),
      `Connection lost at ${formatTime(new Date().toISOString())}.`,
      h("span", { class: "wordy" }, " Data may be out of date."),
    );
    fill(live, since, again);
  }
}

/**
 * Closes the menu after a click elsewhere.
 * @param {MouseEvent} event
 */
function closeMenu({ target }) {
  const menu = header.querySelector("details[open]");
  if (menu && target instanceof Node && !menu.contains(target)) menu.removeAttribute("open");
}

/** Shows above every view why money does not move. */
async function showFreezes() {
  try {
    await freezes.noteMoney(app);
  } catch {
    return;
  }
  fill(banner, freezes.banner(app.frozen, app.stops));
}

function closeViews() {
  for (const view of shown) view.close?.();
  shown = [];
  split = null;
  for (const open of document.querySelectorAll("dialog")) open.close();
}

/** Shows the view that the address names. */
function showAddress() {
  if (app.me === null) return;
  const [place, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decode);
  const isQueue = place === "hold" || place === "queue" || place === "";
  const name = isQueue ? "queue" : place;
  for (const link of tabs.querySelectorAll("a")) {
    if (link.dataset.place === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (isQueue) {
    showQueue(place === "hold" ? rest[0] : undefined);
    return;
  }
  closeViews();
  /** @type {Record<string, { view(app: App, path: string[]): View }>} */
  const views = { overview, payments, policy, history };
  const view = Object.hasOwn(views, place) ? views[place] : undefined;
  if (view === undefined) {
    setTitle("Page not found – Sluice");
    fill(
      main,
      h(
        "div",
        { class: "page" },
        h("h1", {}, "Page not found"),
        h("p", {}, "There is no page with this address. ", h("a", { href: "#/queue" }, "Go to the queue")),
      ),
    );
    return;
  }
  show(view.view(app, rest));
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

/** @param {View} view */
function show(view) {
  shown = [view];
  setTitle(`${view.title} – Sluice`);
  fill(main, view.element);
}

/**
 * Shows the queue, and beside it the open hold.
 * @param {string} [id]
 */
function showQueue(id) {
  if (split === null) {
    closeViews();
    const list = queue.view(app);
    const body = h("div", { class: "one" });
    const element = h("div", { class: "split" }, h("div", { class: "list" }, list.element), body);
    split = { list, body, element, id: null };
    shown = [list];
    fill(main, element);
  }
  const before = split.id;
  split.id = id ?? null;
  split.element.toggleAttribute("data-open", id !== undefined);
  split.list.choose(split.id);
  for (const view of shown.slice(1)) view.close?.();
  shown = [split.list];
  setTitle("Queue – Sluice");
  if (id === undefined) {
    fill(split.body);
    if (before !== null) split.list.focus(before);
    else main.focus({ preventScroll: true });
    return;
  }
  const one = hold.view(app, id);
  shown.push(one);
  setTitle("Hold – Sluice");
  fill(split.body, one.element);
  one.focus();
  if (matchMedia("(max-width: 62rem)").matches) scrollTo(0, 0);
  else split.body.scrollTo?.(0, 0);
}

/** @param {string} part */
function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

/** @type {ReturnType<typeof setTimeout> | null} */
let restTimer = null;
let isRefreshDue = false;

/** Loads all views again; during the pause after that it notes that another refresh is due. */
function refresh() {
  if (app.me === null) return;
  if (restTimer !== null) {
    isRefreshDue = true;
    return;
  }
  restTimer = setTimeout(() => {
    restTimer = null;
    if (isRefreshDue) {
      isRefreshDue = false;
      refresh();
    }
  }, MIN_REFRESH_MS);
  showFreezes();
  attention.look();
  for (const view of shown) view.refresh?.();
}

/** Updates the durations on the page, and warns before the session ends. */
function tick() {
  for (const element of document.querySelectorAll("[data-left], [data-ago]")) {
    if (!(element instanceof HTMLElement)) continue;
    const { left: due, ago: since } = element.dataset;
    const { text, press } = due ? timeLeft(due) : { text: formatAgo(since ?? ""), press: undefined };
    if (element.textContent !== text) element.textContent = text;
    if (press && element.dataset.press !== press) element.dataset.press = press;
  }
  const ends = app.me ? Date.parse(app.me.expiresAt) - now() : Infinity;
  const isAtWork = idleTime() < RENEWAL_IDLE_MS && !document.hidden;
  const isBusy = document.querySelector("dialog[open]") !== null || document.activeElement?.matches("input, textarea");
  if (app.me?.renews && ends < RENEWAL_MS && isAtWork && !isBusy && renew()) return;
  if (ends < WARNING_MS && ends > 0 && !app.isWarned && !app.me?.renews) {
    app.isWarned = true;
    toast("Your session ends in three minutes. Sign in again after that to continue.", "warn");
  }
}

addEventListener("hashchange", () => {
  // A sign-in link may be opened in this tab.
  if (location.hash.startsWith("#token=")) start();
  else showAddress();
});
sessionEvents.addEventListener("ended", endSession);
changes.addEventListener("ended", endSession);
changes.addEventListener("changed", refresh);
changes.addEventListener("state", showConnection);
document.addEventListener("visibilitychange", async () => {
  if (document.hidden || app.me === null) return;
  await app.isStillMe().catch(() => {});
});
if (channel) channel.onmessage = () => (app.me ? app.isStillMe().catch(() => {}) : start());
addEventListener("click", closeMenu);
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("sluice-signed-in", () => channel?.postMessage("person"));
setInterval(tick, 1_000);
// No change is announced when a window of a limit ends or another gate loads policies.
setInterval(() => document.hidden || refresh(), MAX_REFRESH_MS);
start();
