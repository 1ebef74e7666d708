// Elements, made one by one. What data says becomes text and nothing else.

const SVG = "http://www.w3.org/2000/svg";

function put(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "href") element.setAttribute("href", local(value));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** `h("p", { class: "muted" }, "text", child)`; properties that begin with `on` are listeners. */
export function h(tag, props, ...children) {
  return put(document.createElement(tag), props, children);
}

/** The same, of pictures. */
export function svg(tag, props, ...children) {
  return put(document.createElementNS(SVG, tag), props, children);
}

/** No link leads elsewhere, and none is a script. */
function local(address) {
  return /^(#|\/(?!\/))/.test(address) ? address : "#/";
}

/** Puts these in the place of what stands in an element. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
  return element;
}

let names = 0;

/** An id that no other element has. */
export function fresh(of) {
  names += 1;
  return `${of}-${names}`;
}

/** A labelled field; `hint` stands below it. */
export function field(label, input, hint) {
  const id = input.id || fresh("field");
  input.id = id;
  const told = hint ? h("p", { class: "hint", id: `${id}-hint` }, prose(hint)) : null;
  if (told) input.setAttribute("aria-describedby", told.id);
  return h("div", { class: "field" }, h("label", { for: id }, label), input, told);
}

/** A choice of some words. */
export function select(options, value, props) {
  const chosen = h("select", props, options.map(([word, label]) => h("option", { value: word }, label)));
  chosen.value = value;
  return chosen;
}

/** Lets choose among these operations; what was chosen stays if it is among them. */
export function offer(chosen, operations, isWanted) {
  const { value } = chosen;
  const wanted = operations.filter(isWanted);
  fill(chosen, wanted.map(({ operation, summary }) => h("option", { value: operation }, `${operation}: ${summary}`)));
  if (wanted.some(({ operation }) => operation === value)) chosen.value = value;
}

/** A text whose `names` stand out. */
export function prose(text) {
  return text.split("`").map((part, at) => (at % 2 === 1 ? h("code", {}, part) : part));
}

/** A moment, with all of it for who wants to know. */
export function moment(text, iso) {
  return h("time", { datetime: iso, title: new Date(iso).toLocaleString() }, text);
}

/** A short word in a frame. */
export function badge(word, kind) {
  return h("span", { class: `badge ${kind ?? ""}` }, word);
}

/** What is said for a while at the foot of the page, and read aloud. */
export function toast(text, kind = "good") {
  const place = document.getElementById("toasts");
  const told = h("p", { class: `toast ${kind}` }, text);
  place.append(told);
  setTimeout(() => told.remove(), 8000);
}

/** An error in words, with what to do. */
export function trouble(failure, again) {
  return h(
    "div",
    { class: "trouble", role: "alert" },
    h("p", {}, failure.message ?? String(failure)),
    (failure.violations ?? []).length > 0 && h("ul", {}, failure.violations.map((one) => h("li", {}, one))),
    again && h("button", { type: "button", class: "quiet", onclick: again }, "Try again"),
  );
}

/**
 * A part of a page under a title. What `load` gives is drawn when it is new; where nothing can be had, that stands there
 * until something can.
 */
export function card(id, title, load, draw, ...more) {
  const place = h("div", {}, h("p", { class: "waiting" }, "One moment…"));
  const heading = h("h2", { id }, title);
  const element = h("section", { class: "card", "aria-labelledby": id }, more.length > 0 ? h("div", { class: "heading" }, heading, more) : heading, place);
  let last = "";

  async function refresh() {
    let all;
    try {
      all = await load();
    } catch (failure) {
      last = "";
      fill(place, trouble(failure, refresh));
      return;
    }
    const print = JSON.stringify(all);
    if (print === last) return;
    last = print;
    const isOpen = place.querySelector("details")?.open ?? false;
    fill(place, draw(all, refresh));
    if (isOpen && place.querySelector("details")) place.querySelector("details").open = true;
  }

  return { element, refresh };
}
