// Tries a set of policies from files: its errors, its changes, what it lets pass, and what it would have changed.

import { post } from "./api.js";
import { errorBox, field, fill, h } from "./dom.js";
import { hindsight } from "./hindsight.js";
import { passTables, versionCode } from "./tables.js";

/** The analysis of a large set, and the journal, take a while. */
const DEADLINE_MS = 90_000;

/** @param {App} app */
export function trialSection(app) {
  if (!app.may("policy-admin")) return null;
  const files = h("input", { type: "file", multiple: true, accept: ".toml" });
  const result = h("div", { class: "stack trial", "aria-live": "polite" });
  files.addEventListener("change", async () => {
    const chosen = [...(files.files ?? [])];
    if (chosen.length === 0) return;
    fill(result, h("p", { class: "waiting" }, "The set is being compared…"));
    try {
      const read = await Promise.all(chosen.map(async (file) => ({ name: file.name, text: await file.text() })));
      fill(result, tried((await post("policies/try", { files: read }, DEADLINE_MS)).body));
    } catch (failure) {
      fill(result, errorBox(failure));
    }
  });
  return h(
    "section",
    { class: "card", "aria-labelledby": "trial" },
    h("h2", { id: "trial" }, "Try a set"),
    h("p", { class: "muted" }, "Compares it with the rules in force. Nothing comes into force, and nothing is kept."),
    field("Policy files", files, "All `.toml` files of a set together, at most 32 KiB."),
    result,
  );
}

/** @param {TriedPolicies} set */
function tried(set) {
  const errors = set.findings.filter((finding) => finding.error);
  const warnings = set.findings.filter((finding) => !finding.error);
  /** @param {{ text: string }[]} some */
  const list = (some) => some.map(({ text }) => h("pre", { class: "words" }, text));
  if (set.version === null)
    return h(
      "div",
      { class: "trouble", role: "alert" },
      h("p", {}, h("strong", {}, "This set could not come into force.")),
      list(errors),
    );
  return [
    h(
      "p",
      { class: `became ${set.loosens ? "warn" : "good"}` },
      "Version ",
      versionCode(set.version),
      set.version === set.inForce
        ? " is the one in force."
        : set.loosens
          ? " may allow more than the one in force."
          : " is proved to allow no more than the one in force.",
    ),
    warnings.length > 0 && h("details", {}, h("summary", {}, `Warnings: ${warnings.length}`), list(warnings)),
    h("h3", {}, "Changes"),
    h("pre", { class: "words", tabindex: "0", "aria-label": "Changes of the tried set" }, set.words),
    h("h3", {}, "What it would have changed"),
    hindsight(set.history),
    h("h3", {}, "What would pass, and with how many people"),
    passTables(set.table),
  ];
}
