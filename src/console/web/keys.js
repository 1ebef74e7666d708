// Keys of the queue: j and k to the next and the previous hold, a and r to approve and reject, ? for this list.

import { ask } from "./dialog.js";
import { h } from "./dom.js";

const KEYS = [
  ["j", "next hold"],
  ["k", "previous hold"],
  ["a", "approve the open hold (asks first)"],
  ["r", "reject the open hold (asks first)"],
  ["?", "show these keys"],
];

/**
 * Opens the hold beside the chosen one.
 * @param {number} step
 */
export function openBeside(step) {
  const links = [...document.querySelectorAll("a.row")].filter((one) => one instanceof HTMLAnchorElement);
  const at = links.findIndex((link) => link.getAttribute("aria-current") === "true");
  const next = links[at === -1 ? (step > 0 ? 0 : links.length - 1) : at + step];
  if (!next) return false;
  location.hash = next.hash;
  return true;
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  const { key, target } = event;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (target instanceof Element && target.matches("input, select, textarea")) return;
  if (document.querySelector(".queue") === null) return;
  if (key === "j" || key === "k") openBeside(key === "j" ? 1 : -1);
  else if (key === "a") document.getElementById("approve")?.click();
  else if (key === "r") document.getElementById("reject")?.click();
  else if (key === "?") showKeys();
  else return;
  event.preventDefault();
}

function showKeys() {
  ask({
    title: "Keys of the queue",
    content: h(
      "dl",
      { class: "lines" },
      KEYS.map(([key, words]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, words))),
    ),
    label: "Close",
    perform: async () => true,
  });
}

addEventListener("keydown", pressed);
