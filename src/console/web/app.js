// The page: who is signed in, which view is shown, and whether what is shown is fresh.

import { call, get, now, post, session } from "./api.js";
import { Changes } from "./changes.js";
import { ask, reasonField } from "./dialog.js";
import { field, fill, h, toast, trouble } from "./dom.js";
import * as freezes from "./freezes.js";
import * as history from "./history.js";
import * as hold from "./hold.js";
import * as overview from "./overview.js";
import * as policy from "./policy.js";
import * as queue from "./queue.js";
import { signIn, takeError, takeToken } from "./signin.js";
import { ago, left, person, when } from "./words.js";

/** Views look at most so often. */
const REST_MS = 2_000;
/** They look by themselves so often, whatever they hear. */
const LOOK_MS = 15_000;
/** Who is told that their time here ends. */
const ENDS_SOON_MS = 3 * 60_000;

const PLACES = [
  ["queue", "Queue"],
  ["overview", "Overview"],
  ["policy", "Rules"],
  ["history", "History"],
];

const main = document.getElementById("main");
const top = document.getElementById("top");
const places = document.getElementById("places");
const standing = document.getElementById("standing");
const changes = new Changes();
const tabs = "BroadcastChannel" in globalThis ? new BroadcastChannel("sluice") : null;

/** What views know of the page. */
const desk = {
  me: null,
  frozen: [],
  may: (role) => desk.me?.roles.includes(role) ?? false,
  /** All that is shown is looked at again. */
  refresh: () => refresh(),
  /** Whoever is signed in by now; false if it is not who stands here. */
  async isStillMe() {
    const { body } = await get("session");
    const isSame = person(body.person) === person(desk.me.person);
    if (!isSame) enter(body);
    return isSame;
  },
};

let shown = [];
let pane = null;

async function begin() {
  const token = takeToken();
  if (token !== null) {
    try {
      return enter((await call("POST", "session", { token })).body);
    } catch (failure) {
      return leave(failure.message);
    }
  }
  const refused = takeError();
  try {
    enter((await get("session")).body);
  } catch (failure) {
    if (failure.status === 401) leave(refused);
    else fill(main, h("div", { class: "page" }, trouble(failure, () => location.reload())));
  }
}

function enter(me) {
  desk.me = me;
  head();
  changes.start();
  go();
  refresh();
}

/** Nobody is signed in. */
function leave(why) {
  close();
  desk.me = null;
  desk.frozen = [];
  changes.stop();
  fill(top);
  fill(standing);
  places.hidden = true;
  document.title = "Sign in – Sluice";
  fill(main, signIn(enter, why));
}

async function signOut() {
  try {
    await call("DELETE", "session");
  } catch (failure) {
    return toast(failure.message, "bad");
  }
  tabs?.postMessage("person");
  leave("You are signed out.");
}

/** All sessions of whoever is signed in; an operator says whose. */
async function endSessions() {
  const me = desk.me.person.subject;
  const who = h("input", { type: "text", value: me, autocomplete: "off", autocapitalize: "off", spellcheck: "false", maxlength: "512" });
  const reason = reasonField("Why", "It stands in the audit chain.");
  const answer = await ask({
    title: "End all sessions?",
    content: [
      h("p", {}, desk.may("operator") ? "Every browser in which this person is signed in is signed out." : "Every browser in which you are signed in is signed out, this one too."),
      h("p", { class: "muted" }, "Tokens stay good until they expire: who must stay out is shut out where tokens are made."),
      desk.may("operator") && field("Person", who, "Their subject, as `finance-2`."),
      reason.element,
    ],
    label: "End all sessions",
    kind: "bad",
    check: () => (who.value.trim() === "" ? "Say whose." : reason.check()),
    perform: async () => (await post("sessions/end", { person: who.value.trim(), reason: reason.text() })).body,
  });
  if (!answer) return;
  if (who.value.trim() === me) leave("All your sessions have ended.");
  else toast(answer.ended === 1 ? "1 session was ended." : `${answer.ended} sessions were ended.`);
}

/** The bar at the top, and that of places. */
function head() {
  const live = h("p", { class: "live", role: "status", id: "live" });
  const links = PLACES.map(([name, label]) => h("a", { href: `#/${name}`, "data-place": name }, label));
  const { me } = desk;
  const menu = h(
    "details",
    { class: "person" },
    h("summary", {}, h("span", { class: "who" }, me.person.subject)),
    h(
      "div",
      { class: "menu" },
      h("p", {}, h("strong", {}, me.person.subject), h("br"), h("span", { class: "muted" }, `of ${me.person.issuer}`)),
      h("p", {}, me.roles.length > 0 ? `May act as ${me.roles.join(", ")}.` : "Has no role here: ask who runs the gate for one."),
      me.expiresAt && h("p", { class: "muted" }, `Signed in until ${when(me.expiresAt)}.`),
      h("button", { type: "button", onclick: signOut }, "Sign out"),
      h("button", { type: "button", onclick: endSessions }, "End all sessions…"),
    ),
  );
  fill(top, h("a", { href: "#/queue", class: "brand" }, mark(), "Sluice"), live, menu);
  fill(places, links);
  places.hidden = false;
  tellLive();
}

function mark() {
  return h("span", { class: "mark", "aria-hidden": "true" });
}

function tellLive() {
  const live = document.getElementById("live");
  if (!live) return;
  const isLost = changes.state === "lost";
  live.className = `live ${changes.state}`;
  if (!isLost) fill(live, h("span", {}, h("span", { class: "dot", "aria-hidden": "true" }), changes.state === "live" ? "Live" : "Connecting…"));
  else {
    const again = h("button", { type: "button", class: "quiet", onclick: () => changes.retry() }, "Try now");
    const since = h("span", {}, h("span", { class: "dot", "aria-hidden": "true" }), `Connection lost at ${when(new Date().toISOString())}.`, h("span", { class: "wordy" }, " This may be old."));
    fill(live, since, again);
  }
}

/** A menu closes when something else is touched. */
function closeMenu({ target }) {
  const menu = top.querySelector("details[open]");
  if (menu && !menu.contains(target)) menu.removeAttribute("open");
}

/** What is frozen stands above everything. */
async function tellFrozen() {
  try {
    desk.frozen = (await get("freezes")).body.freezes;
  } catch {
    return;
  }
  fill(standing, freezes.banner(desk.frozen));
}

function close() {
  for (const view of shown) view.close?.();
  shown = [];
  pane = null;
  for (const open of document.querySelectorAll("dialog[open]")) open.close();
}

/** Shows what the address names. */
function go() {
  if (desk.me === null) return;
  const [place, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const isQueue = place === "hold" || place === "queue" || place === "";
  const name = isQueue ? "queue" : place;
  for (const link of places.children) {
    if (link.dataset.place === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (isQueue) return showQueue(place === "hold" ? rest[0] : undefined);
  close();
  const view = { overview, policy, history }[place];
  if (view === undefined) {
    document.title = "Nothing here – Sluice";
    fill(main, h("div", { class: "page" }, h("h1", {}, "Nothing here"), h("p", {}, "No place has this address. ", h("a", { href: "#/queue" }, "Go to the queue"))));
    return;
  }
  show(view.view(desk, rest));
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
}

function show(view) {
  shown = [view];
  document.title = `${view.title} – Sluice`;
  fill(main, view.element);
}

/** The queue, and beside it the hold that is looked at. */
function showQueue(id) {
  if (pane === null) {
    close();
    const list = queue.view(desk);
    pane = { list, place: h("div", { class: "one" }), id: null };
    pane.element = h("div", { class: "split" }, h("div", { class: "list" }, list.element), pane.place);
    shown = [list];
    fill(main, pane.element);
  }
  const before = pane.id;
  pane.id = id ?? null;
  pane.element.toggleAttribute("data-open", id !== undefined);
  pane.list.choose(pane.id);
  shown.slice(1).forEach((view) => view.close?.());
  shown = [pane.list];
  document.title = "Queue – Sluice";
  if (id === undefined) {
    fill(pane.place);
    if (before !== null) pane.list.focus(before);
    else main.focus({ preventScroll: true });
    return;
  }
  const one = hold.view(desk, id);
  shown.push(one);
  document.title = "A hold – Sluice";
  fill(pane.place, one.element);
  one.focus();
  if (matchMedia("(max-width: 62rem)").matches) scrollTo(0, 0);
  else pane.place.scrollTo?.(0, 0);
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return "";
  }
}

let resting = null;
let isAgain = false;

/** Looks again at all that is shown, and soon once more if that is asked for meanwhile. */
function refresh() {
  if (desk.me === null) return;
  if (resting !== null) {
    isAgain = true;
    return;
  }
  resting = setTimeout(() => {
    resting = null;
    if (isAgain) {
      isAgain = false;
      refresh();
    }
  }, REST_MS);
  tellFrozen();
  for (const view of shown) view.refresh?.();
}

/** Times that pass. */
function tick() {
  for (const element of document.querySelectorAll("[data-left], [data-ago]")) {
    const { left: due, ago: since } = element.dataset;
    const told = due ? left(due) : { text: ago(since) };
    if (element.textContent !== told.text) element.textContent = told.text;
    if (told.press && element.dataset.press !== told.press) element.dataset.press = told.press;
  }
  const ends = desk.me ? Date.parse(desk.me.expiresAt) - now() : Infinity;
  if (ends < ENDS_SOON_MS && ends > 0 && !desk.isWarned) {
    desk.isWarned = true;
    toast("Your time here ends in three minutes. What you have not sent by then, you send after you sign in again.", "warn");
  }
}

addEventListener("hashchange", () => {
  // A link to sign in that is opened in this very tab.
  if (location.hash.startsWith("#token=")) begin();
  else go();
});
session.addEventListener("ended", () => desk.me && leave("Your time here has ended. Sign in, and you are back where you were."));
changes.addEventListener("ended", () => desk.me && leave("Your time here has ended. Sign in, and you are back where you were."));
changes.addEventListener("changed", refresh);
changes.addEventListener("state", tellLive);
document.addEventListener("visibilitychange", async () => {
  if (document.hidden || desk.me === null) return;
  await desk.isStillMe().catch(() => {});
});
if (tabs) tabs.onmessage = () => (desk.me ? desk.isStillMe().catch(() => {}) : begin());
addEventListener("click", closeMenu);
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("sluice-signed-in", () => tabs?.postMessage("person"));
setInterval(tick, 1_000);
// Limits roll over and rules are loaded without anything being written.
setInterval(() => document.hidden || refresh(), LOOK_MS);
begin();
