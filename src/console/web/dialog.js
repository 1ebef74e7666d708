// A second look before an act: what will be done is said again, and a button says it once more.

import { fill, fresh, h, trouble } from "./dom.js";

/** A second tap that follows the first at once was not meant. */
const SETTLE_MS = 600;

/**
 * Asks, and gives what `perform` gave; undefined if the person let it be. `perform` may throw: that is said in place, and
 * can be tried again. `check` says what is still missing, or nothing.
 */
export function ask({ title, content, label, kind = "primary", check = () => null, perform }) {
  return new Promise((done) => {
    const before = document.activeElement;
    const opened = performance.now();
    const heading = h("h2", { id: fresh("title"), tabindex: "-1" }, title);
    const told = h("div", { class: "told" });
    const no = h("button", { type: "button" }, "Go back");
    const yes = h("button", { type: "button", class: kind }, label);
    const box = h("dialog", { "aria-labelledby": heading.id }, heading, content, told, h("div", { class: "acts" }, no, yes));
    let result;
    let isBusy = false;
    no.addEventListener("click", () => isBusy || box.close());
    box.addEventListener("cancel", (event) => isBusy && event.preventDefault());
    box.addEventListener("close", () => {
      box.remove();
      if (before?.isConnected) before.focus({ preventScroll: true });
      done(result);
    });
    yes.addEventListener("click", async () => {
      if (isBusy || performance.now() - opened < SETTLE_MS) return;
      const missing = check();
      if (missing) {
        fill(told, h("p", { class: "trouble", role: "alert" }, missing));
        return;
      }
      isBusy = true;
      yes.setAttribute("aria-disabled", "true");
      fill(told, h("p", { class: "muted", role: "status" }, "One moment…"));
      try {
        result = await perform();
        isBusy = false;
        box.close();
      } catch (failure) {
        fill(told, trouble(failure));
      } finally {
        isBusy = false;
        yes.removeAttribute("aria-disabled");
      }
    });
    document.body.append(box);
    box.showModal();
    // Not a button: whoever presses Enter twice has not agreed.
    heading.focus();
  });
}

/** A line in which people say why. */
export function reasonField(label, hint, isRequired = true) {
  const input = h("input", { type: "text", maxlength: "500", autocomplete: "off", "aria-required": isRequired ? "true" : undefined });
  const id = (input.id = fresh("reason"));
  const element = h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    input,
    hint && h("p", { class: "hint", id: `${id}-hint` }, hint),
  );
  if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
  return { element, input, text: () => input.value.trim(), check: () => (isRequired && input.value.trim() === "" ? (input.focus(), "Say why first: it stands in the audit chain.") : null) };
}
