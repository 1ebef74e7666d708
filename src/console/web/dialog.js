// A confirmation before an act: the dialog says again what will be done, and its button names the act.

import { errorBox, fill, h, uniqueId } from "./dom.js";

/** A click this soon after the dialog opened is ignored, because it may be the second of a double click. */
const SETTLE_MS = 600;

/**
 * Asks for confirmation. Returns the result of `perform`, or undefined if the person cancelled. The dialog shows an error
 * that `perform` throws, and can be confirmed again. `check` returns what is still missing, or null.
 * @param {object} options
 * @param {string} options.title
 * @param {Child} options.content
 * @param {string} options.label
 * @param {string} [options.kind]
 * @param {() => string | null} [options.check]
 * @param {() => Promise<any>} options.perform
 * @returns {Promise<any>}
 */
export function ask({ title, content, label, kind = "primary", check = () => null, perform }) {
  return new Promise((resolve) => {
    const before = document.activeElement;
    const opened = performance.now();
    const heading = h("h2", { id: uniqueId("title"), tabindex: "-1" }, title);
    const status = h("div", { class: "told" });
    const no = h("button", { type: "button" }, "Cancel");
    const yes = h("button", { type: "button", class: kind }, label);
    const box = h(
      "dialog",
      { "aria-labelledby": heading.id },
      heading,
      content,
      status,
      h("div", { class: "acts" }, no, yes),
    );
    /** @type {any} */
    let result;
    let isBusy = false;
    no.addEventListener("click", () => isBusy || box.close());
    box.addEventListener("cancel", (event) => isBusy && event.preventDefault());
    box.addEventListener("close", () => {
      box.remove();
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
      resolve(result);
    });
    yes.addEventListener("click", async () => {
      if (isBusy || performance.now() - opened < SETTLE_MS) return;
      const missing = check();
      if (missing) {
        fill(status, h("p", { class: "trouble", role: "alert" }, missing));
        return;
      }
      isBusy = true;
      yes.setAttribute("aria-disabled", "true");
      fill(status, h("p", { class: "muted", role: "status" }, "One moment…"));
      try {
        result = await perform();
        isBusy = false;
        box.close();
      } catch (failure) {
        fill(status, errorBox(failure));
      } finally {
        isBusy = false;
        yes.removeAttribute("aria-disabled");
      }
    });
    document.body.append(box);
    box.showModal();
    // The focus is on no button, so that pressing Enter twice confirms nothing.
    heading.focus();
  });
}

/**
 * Returns a field for a reason.
 * @param {string} label
 * @param {string} hint
 * @returns {ReasonField}
 */
export function reasonField(label, hint, isRequired = true) {
  const input = h("input", {
    type: "text",
    maxlength: "500",
    autocomplete: "off",
    "aria-required": isRequired ? "true" : undefined,
  });
  const id = uniqueId("reason");
  input.id = id;
  const element = h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    input,
    hint && h("p", { class: "hint", id: `${id}-hint` }, hint),
  );
  if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
  return {
    element,
    input,
    text: () => input.value.trim(),
    check: () => {
      if (!isRequired || input.value.trim() !== "") return null;
      input.focus();
      return "Enter a reason: the audit log keeps it.";
    },
  };
}
