// Exports of whole lists: the gate writes them in parts, and each part is a file and an entry of the audit log.

import { asFailure, post } from "./api.js";
import { toast } from "./dom.js";
import { download, groupDigits } from "./words.js";

const DEADLINE_MS = 60_000;

/**
 * Saves all that the filters show.
 * @param {string} path
 * @param {string} format
 * @param {Record<string, string>} filters
 * @param {[string, string]} words one row, and several rows
 */
export async function exportAll(path, format, filters, [one, many]) {
  const used = Object.fromEntries(Object.entries(filters).filter(([, value]) => value !== ""));
  try {
    /** @type {string | null | undefined} */
    let after;
    while (after !== null) {
      const { body: file } = await post(path, { format, filters: used, after }, DEADLINE_MS);
      after = file.next;
      // A part in which nothing was found is not the end.
      if (file.rows === 0 && after !== null) continue;
      download(file.name, file.content);
      toast(`Exported ${groupDigits(file.rows)} ${file.rows === 1 ? one : many}; audit entry ${file.number}.`);
    }
  } catch (failure) {
    toast(asFailure(failure).message, "bad");
  }
}
