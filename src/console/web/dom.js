// Builds elements one by one. Data becomes text, and never markup.

import { asFailure } from "./api.js";
import { groupSums, zoneWords } from "./words.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * @template {Element} E
 * @param {E} element
 * @param {Props | undefined} props
 * @param {Child[]} children
 * @returns {E}
 */
function build(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "href") element.setAttribute("href", localAddress(value));
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...flatten(children));
  return element;
}

/**
 * @param {Child} child
 * @returns {(Node | string)[]}
 */
function flatten(child) {
  if (Array.isArray(child)) return child.flatMap(flatten);
  if (child === undefined || child === null || child === false) return [];
  if (typeof child === "string") return [visible(child)];
  return [typeof child === "number" ? String(child) : child];
}

// Control characters, characters that a screen hides or shows as a space, and those that change the order of text.
const INVISIBLE = /(?![ \n\t])[\p{Cc}\p{Cf}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\ufff0-\ufff8]/gu;

/**
 * Writes each invisible character as `\u{202E}`: a false address must not read as the known one.
 * @param {string} text
 */
export function visible(text) {
  return text.replace(INVISIBLE, (c) => `\\u{${(c.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`);
}

/**
 * Builds an element: `h("p", { class: "muted" }, "text", child)`. Properties that begin with `on` are listeners.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Props} [props]
 * @param {Child[]} children
 */
export function h(tag, props, ...children) {
  return build(document.createElement(tag), props, children);
}

/**
 * Builds an element of SVG.
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Props} [props]
 * @param {Child[]} children
 */
export function svg(tag, props, ...children) {
  return build(document.createElementNS(SVG, tag), props, children);
}

/**
 * Returns an address of this page: a link leads nowhere else, and is no script.
 * @param {string} address
 */
function localAddress(address) {
  return /^(#|\/(?!\/))/.test(address) ? address : "#/";
}

/**
 * Replaces the content of an element. Empty texts are left out.
 * @template {Element} E
 * @param {E} element
 * @param {Child[]} children
 * @returns {E}
 */
export function fill(element, ...children) {
  element.replaceChildren(...flatten(children).filter(Boolean));
  return element;
}

/**
 * Returns the page's element with this id.
 * @param {string} id
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (element === null) throw new Error(`the page has no element ${id}`);
  return element;
}

let ids = 0;

/**
 * Returns an id that no other element has.
 * @param {string} prefix
 */
export function uniqueId(prefix) {
  ids += 1;
  return `${prefix}-${ids}`;
}

/**
 * Returns a labelled field, with an optional hint below it.
 * @param {string} label
 * @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} input
 * @param {string} [hint]
 */
export function field(label, input, hint) {
  const id = input.id || uniqueId("field");
  input.id = id;
  const note = hint ? h("p", { class: "hint", id: `${id}-hint` }, withCode(hint)) : null;
  if (note) input.setAttribute("aria-describedby", note.id);
  return h("div", { class: "field" }, h("label", { for: id }, label), input, note);
}

/**
 * Returns a select element.
 * @param {[string, string][]} options values and labels
 * @param {string} value
 * @param {Props} [props]
 */
export function select(options, value, props) {
  const element = h(
    "select",
    props,
    options.map(([word, label]) => h("option", { value: word }, label)),
  );
  element.value = value;
  return element;
}

/**
 * Fills a select element with the wanted operations, and keeps its value if that is one of them.
 * @param {HTMLSelectElement} element
 * @param {Operation[]} operations
 * @param {(operation: Operation) => boolean} isWanted
 */
export function offerOperations(element, operations, isWanted) {
  const { value } = element;
  const wanted = operations.filter(isWanted);
  fill(
    element,
    wanted.map(({ operation, summary }) => h("option", { value: operation }, `${operation}: ${summary}`)),
  );
  if (wanted.some(({ operation }) => operation === value)) element.value = value;
}

/**
 * Returns a text with its parts between backticks as code.
 * @param {string} text
 * @returns {Child[]}
 */
export function withCode(text) {
  return text.split("`").map((part, at) => (at % 2 === 1 ? h("code", {}, part) : groupSums(part)));
}

/**
 * Returns the title of a page, beside the time zone of its times.
 * @param {string} title
 * @param {Props} [props]
 */
export function timedHeading(title, props = {}) {
  return h("div", { class: "timed" }, h("h1", props, title), h("p", { class: "muted" }, zoneWords()));
}

/**
 * Returns a time element, whose title is the whole date.
 * @param {string} text
 * @param {string} iso
 */
export function timeTag(text, iso) {
  return h("time", { datetime: iso, title: new Date(iso).toLocaleString("en-GB", { timeZoneName: "short" }) }, text);
}

/**
 * @param {string} word
 * @param {string} [kind]
 */
export function badge(word, kind) {
  return h("span", { class: `badge ${kind ?? ""}` }, word);
}

/**
 * Returns a table. The first cell of a row is its heading; from the column `numbers` on, cells are numbers.
 * @param {string[]} heads
 * @param {Child[][]} rows
 * @param {number} numbers
 */
export function table(heads, rows, numbers) {
  const kind = (/** @type {number} */ at) => (at >= numbers ? "number" : undefined);
  return h(
    "table",
    {},
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        heads.map((head, at) => h("th", { scope: "col", class: kind(at) }, head)),
      ),
    ),
    h(
      "tbody",
      {},
      rows.map((cells) =>
        h(
          "tr",
          {},
          cells.map((cell, at) => (at === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: kind(at) }, cell))),
        ),
      ),
    ),
  );
}

/**
 * Shows a message at the foot of the page for a while; screen readers read it aloud.
 * @param {string} text
 * @param {string} [kind]
 */
export function toast(text, kind = "good") {
  const message = h("p", { class: `toast ${kind}` }, text);
  byId("toasts").append(message);
  setTimeout(() => message.remove(), 8000);
}

/**
 * Shows an error, with a button that tries again.
 * @param {unknown} thrown
 * @param {() => void} [retry]
 */
export function errorBox(thrown, retry) {
  const { message, violations } = asFailure(thrown);
  return h(
    "div",
    { class: "trouble", role: "alert" },
    h("p", {}, message),
    violations.length > 0 &&
      h(
        "ul",
        {},
        violations.map((one) => h("li", {}, one)),
      ),
    retry && h("button", { type: "button", class: "quiet", onclick: retry }, "Try again"),
  );
}

/**
 * Returns a section of a page. It draws the data that `load` returns whenever they change, and shows an error while they
 * cannot be loaded.
 * @template T
 * @param {string} id
 * @param {string} title
 * @param {() => Promise<T>} load
 * @param {(data: T, refresh: () => Promise<void>) => Child} draw
 * @param {Child[]} more elements beside the title
 * @returns {Card}
 */
export function card(id, title, load, draw, ...more) {
  const body = h("div", {}, h("p", { class: "waiting" }, "One moment…"));
  const heading = h("h2", { id }, title);
  const element = h(
    "section",
    { class: "card", "aria-labelledby": id },
    more.length > 0 ? h("div", { class: "heading" }, heading, more) : heading,
    body,
  );
  let last = "";

  async function refresh() {
    let data;
    try {
      data = await load();
    } catch (failure) {
      last = "";
      fill(body, errorBox(failure, refresh));
      return;
    }
    const text = JSON.stringify(data);
    if (text === last) return;
    last = text;
    const isOpen = body.querySelector("details")?.open ?? false;
    fill(body, draw(data, refresh));
    const details = body.querySelector("details");
    if (isOpen && details) details.open = true;
  }

  return { element, refresh };
}
