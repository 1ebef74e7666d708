// The form of filters above a list. Where there is little room, one button shows and hides it.

import { now } from "./api.js";
import { field, h, select } from "./dom.js";
import { formatDay } from "./words.js";

const DAY_MS = 86_400_000;

/** @param {string} value */
export function environmentFilter(value) {
  return select(
    [
      ["", "All environments"],
      ["production", "Production"],
      ["sandbox", "Sandbox"],
    ],
    value,
    { name: "environment" },
  );
}

/**
 * Returns a field for text.
 * @param {string} name
 * @param {string} value
 * @param {Props} [props]
 */
export function textFilter(name, value, props) {
  return h("input", {
    type: "text",
    name,
    value,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    ...props,
  });
}

/**
 * Returns a form. It puts what a person enters into `filters`, and then loads the list.
 * @param {object} form
 * @param {Record<string, string>} form.filters
 * @param {Record<string, HTMLInputElement | HTMLSelectElement>} form.inputs
 * @param {Record<string, string>} form.first the labels of the filters that are always shown
 * @param {Record<string, string>} form.more those of the others
 * @param {Record<string, string>} [form.hints]
 * @param {() => void} form.load
 */
export function filterForm({ filters, inputs, first, more, hints = {}, load }) {
  const fields = (/** @type {Record<string, string>} */ labels) =>
    h(
      "div",
      { class: "grid" },
      Object.entries(labels).map(([name, label]) => field(label, inputs[name], hints[name])),
    );
  const details = h(
    "details",
    { open: Object.keys(more).some((name) => filters[name] !== "") },
    h("summary", {}, "More filters"),
    fields(more),
  );
  const panel = h("div", { id: "filters" }, fields(first), details);
  const disclosure = h("button", { type: "button", class: "quiet disclosure", "aria-controls": panel.id });
  /** @param {boolean} isOpen whether a narrow screen shows the filters */
  function disclose(isOpen) {
    const used = Object.values(filters).filter((value) => value !== "").length;
    disclosure.textContent = used === 0 ? "Filters" : `Filters (${used})`;
    disclosure.setAttribute("aria-expanded", String(isOpen));
  }
  function take() {
    for (const [name, input] of Object.entries(inputs)) filters[name] = input.value.trim();
    // What was asked for is shown: on a narrow screen the filters would hide it.
    disclose(false);
    load();
  }
  const days = (/** @type {string} */ label, /** @type {number} */ before) =>
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        onclick: () => {
          inputs.from.value = formatDay(now() - before * DAY_MS);
          inputs.until.value = formatDay(now());
          take();
        },
      },
      label,
    );
  const form = h(
    "form",
    { class: "search money", role: "search", novalidate: true },
    disclosure,
    panel,
    h(
      "div",
      { class: "acts" },
      h("button", { type: "submit", class: "primary" }, "Show"),
      days("Today", 0),
      days("7 days", 6),
      days("30 days", 29),
      h("button", { type: "reset", class: "quiet" }, "Clear"),
    ),
  );
  disclosure.addEventListener("click", () => disclose(disclosure.getAttribute("aria-expanded") !== "true"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    take();
    disclosure.focus();
  });
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    for (const input of Object.values(inputs)) input.value = "";
    take();
    disclosure.focus();
  });
  disclose(Object.values(filters).some((value) => value !== ""));
  return form;
}
