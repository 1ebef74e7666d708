// What was, from the audit chain: found by what people know of it, and one request's whole story.

import { get } from "./api.js";
import { badge, field, fill, h, moment, prose, select, trouble } from "./dom.js";
import { person, when } from "./words.js";

/** What happened, in words, and how it looks. */
const WHAT = {
  sending: ["Sent to upstream", ""],
  refused: ["Denied by the rules", "bad"],
  executed: ["Executed", "good"],
  "not-executed": ["Not executed", "bad"],
  undone: ["Certainly not executed; may be tried again", "waits"],
  unknown: ["In doubt", "warn"],
  late: ["A late answer came", ""],
  "said-absent": ["Somebody says it was not executed", "waits"],
  frozen: ["Frozen", "bad"],
  unfrozen: ["Lifted", "good"],
  agreed: ["Agreed to a looser set of rules", "waits"],
  "took-force": ["Another set of rules took force", "note"],
  remembered: ["Given back to a store that forgot", "note"],
  held: ["Waits for people", "waits"],
  voted: ["Agreed", "good"],
  withdrawn: ["Took their word back", "waits"],
  noted: ["Remarked", "note"],
  approved: ["People enough agree", "good"],
  reopened: ["Takes more people", "waits"],
  rejected: ["Rejected", "bad"],
  expired: ["Expired", "bad"],
  cancelled: ["Cancelled by its caller", "bad"],
  blocked: ["Blocked by today's rules", "bad"],
  reminded: ["Reminded that it expires soon", "note"],
  "signed-in": ["Signed in", "note"],
  "stayed-in": ["Stayed signed in", "note"],
  "signed-out": ["Signed out", "note"],
  "sessions-ended": ["Sessions ended", "note"],
  "stand-in": ["Named a stand-in", "note"],
  "stand-in-revoked": ["Took a stand-in back", "note"],
};

/** The address of all that went to a destination, as a hold names it: what it is, a colon, its name. */
export function sentTo(destination) {
  return `#/history/to/${encodeURIComponent(destination.slice(destination.indexOf(":") + 1))}`;
}

export function view(desk, [first, second]) {
  if (!second) return search();
  if (first !== "to") return story(first, second);
  Object.assign(kept, NOTHING, { destination: second });
  return search();
}

const NOTHING = { environment: "", requestId: "", destination: "", person: "", day: "" };
const kept = { ...NOTHING };

function search() {
  const text = (name, props) => h("input", { type: "text", name, value: kept[name], autocomplete: "off", autocapitalize: "off", spellcheck: "false", ...props });
  const environment = select([["", "Both"], ["production", "Production"], ["sandbox", "Sandbox"]], kept.environment, { name: "environment" });
  const inputs = { environment, requestId: text("requestId"), destination: text("destination"), person: text("person"), day: text("day", { type: "date" }) };
  const list = h("ol", { class: "entries" });
  const told = h("div", {});
  const of = h("p", { class: "muted" });
  const form = h(
    "form",
    { class: "search", role: "search", novalidate: true },
    field("requestId", inputs.requestId),
    h(
      "details",
      { open: Object.values(kept).some(Boolean) || matchMedia("(min-width: 40rem)").matches },
      h("summary", {}, "More to search by"),
      h(
        "div",
        { class: "grid" },
        field("Destination", inputs.destination, "Wallet or account, whole."),
        field("Person", inputs.person, "The subject of who asked or acted."),
        field("Day", inputs.day, "Of UTC."),
        field("Environment", environment),
      ),
    ),
    h("div", { class: "acts" }, h("button", { type: "reset" }, "Clear"), h("button", { type: "submit", class: "primary" }, "Search")),
  );
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    for (const [name, input] of Object.entries(inputs)) kept[name] = input.value.trim();
    load();
  });
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    for (const [name, input] of Object.entries(inputs)) input.value = kept[name] = "";
    load();
  });

  async function load(after) {
    fill(told, h("p", { class: "waiting" }, "One moment…"));
    if (after === undefined) fill(list);
    let found;
    try {
      found = (await get("history", { ...kept, limit: 50, after })).body;
    } catch (failure) {
      return fill(told, trouble(failure, () => load(after)));
    }
    of.textContent = found.of ? `From the audit chain of ${found.of}.` : "";
    list.append(...found.entries.map((entry) => line(entry, true)));
    fill(
      told,
      list.children.length === 0 && !found.next && h("div", { class: "empty" }, h("p", {}, h("strong", {}, "Nothing is so.")), h("p", { class: "muted" }, "Ask for less, or for another day. Names are compared whole.")),
      found.next && h("button", { type: "button", class: "wide", onclick: () => load(found.next) }, found.entries.length === 0 ? "Nothing so far; look further back" : "Show more"),
    );
  }

  load();
  return { title: "History", element: h("div", { class: "page" }, h("h1", {}, "History"), form, of, list, told) };
}

function story(environment, request) {
  const place = h("div", {}, h("p", { class: "waiting" }, "One moment…"));
  let last = "";
  async function refresh() {
    const entries = [];
    let [after, of] = [undefined, ""];
    try {
      // What is older follows; a story is not long, but may lie far back.
      for (let page = 0; page < 20 && after !== null; page += 1) {
        const { body } = await get(`history/${environment}/${encodeURIComponent(request).replaceAll("%3A", ":")}`, { after });
        entries.unshift(...body.entries);
        [after, of] = [body.next, body.of];
      }
    } catch (failure) {
      if (last === "") fill(place, trouble(failure, failure.status === 404 ? undefined : refresh));
      return;
    }
    const print = JSON.stringify(entries);
    if (print === last) return;
    last = print;
    const asked = entries.map(({ entry }) => entry).find((entry) => entry.owner);
    fill(
      place,
      asked && h("p", {}, asked.operation, `, asked by ${person(asked.owner)}`, asked.requester && ` for ${asked.requester}`),
      entries.length === 0 ? h("p", { class: "muted" }, "The audit chain here tells nothing of it.") : h("ol", { class: "story" }, entries.map((entry) => line(entry, false))),
      of && h("p", { class: "muted" }, `From the audit chain of ${of}.`),
    );
  }
  refresh();
  const element = h(
    "div",
    { class: "page" },
    h("p", { class: "back" }, h("a", { href: "#/history" }, "‹ History")),
    h("h1", { class: "code" }, request),
    h("p", {}, badge(environment === "sandbox" ? "Sandbox" : "Production", "note")),
    place,
  );
  return { title: request, element, refresh };
}

/** Members that are told in words, or that tell people nothing. */
const TOLD = new Set(["what", "operation", "owner", "requester", "by", "requestId", "claim", "reason", "text", "comment", "trace", "fingerprint"]);

function line({ environment, number, at, node, what, words, name, entry }, isLinked) {
  const [word, kind] = WHAT[what] ?? [what, ""];
  const label = entry.requestId ?? name;
  const who = entry.by ? person(entry.by) : null;
  const why = [entry.reason, entry.comment, entry.text].find((text) => typeof text === "string");
  const rest = Object.entries(entry).filter(([member, value]) => !TOLD.has(member) && ["string", "number", "boolean"].includes(typeof value));
  return h(
    "li",
    { class: `entry ${kind}` },
    h("p", { class: "first" }, badge(word, kind), who && h("strong", {}, who), h("span", { class: "at muted" }, moment(when(at), at), `, no. ${number}`)),
    isLinked &&
      h(
        "p",
        {},
        entry.operation && `${entry.operation} `,
        name && h("a", { class: "code", href: `#/history/${environment}/${encodeURIComponent(name)}` }, label),
        entry.owner && h("span", { class: "muted" }, ` asked by ${entry.requester ?? person(entry.owner)}`),
        environment === "sandbox" && " (sandbox)",
      ),
    h("p", { class: "muted words" }, prose(words)),
    why && h("p", { class: "quote" }, why),
    !isLinked && h("details", {}, h("summary", {}, "As it stands in the chain"), rest.length > 0 && h("p", { class: "muted rest" }, `At ${node}.`), h("pre", { tabindex: "0", "aria-label": "The Entry" }, JSON.stringify(entry, null, 2))),
  );
}
