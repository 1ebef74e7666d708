// Reads JSON texts as a JavaScript service would: each line of input is a text in base64, each line of output is its
// canonical form. Every parser can read that form alike: numbers are the 64 bits of the double, and members are sorted
// by UTF-16. differential.py writes the same form of its own reading.

import { createInterface } from "node:readline";

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** @param {number} number */
function doubleHex(number) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
}

/** @param {string} text */
function utf16Hex(text) {
  return Array.from({ length: text.length }, (_, at) => text.charCodeAt(at).toString(16).padStart(4, "0")).join("");
}

/**
 * @param {any} value
 * @returns {string}
 */
function canonicalForm(value) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") return `n${doubleHex(value)}`;
  if (typeof value === "string") return `s${utf16Hex(value)}`;
  if (Array.isArray(value)) return `[${value.map(canonicalForm).join(",")}]`;
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${utf16Hex(name)}:${canonicalForm(value[name])}`).join(",")}}`;
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = canonicalForm(JSON.parse(utf8.decode(Buffer.from(line, "base64"))));
  } catch {
    answer = "refused";
  }
  process.stdout.write(`${answer}\n`);
}
