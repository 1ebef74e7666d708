// Reads JSON texts as a JavaScript service would: a line of base64 comes in, a line with what was read goes out.
// What was read is written so that no other reader can take it otherwise: numbers as the 64 bits of the double,
// members sorted by UTF-16. differential.py writes the same of its own reading.

import { createInterface } from "node:readline";

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function bits(number) {
  const view = new DataView(new ArrayBuffer(8));
  view.setFloat64(0, number);
  return view.getBigUint64(0).toString(16).padStart(16, "0");
}

function units(text) {
  return Array.from({ length: text.length }, (_, at) => text.charCodeAt(at).toString(16).padStart(4, "0")).join("");
}

function told(value) {
  if (value === null || typeof value === "boolean") return String(value);
  if (typeof value === "number") return `n${bits(value)}`;
  if (typeof value === "string") return `s${units(value)}`;
  if (Array.isArray(value)) return `[${value.map(told).join(",")}]`;
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${units(name)}:${told(value[name])}`).join(",")}}`;
}

for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = told(JSON.parse(utf8.decode(Buffer.from(line, "base64"))));
  } catch {
    answer = "refused";
  }
  process.stdout.write(`${answer}\n`);
}
