// Checks the format of Lua scripts with StyLua, or corrects it.
//
// Usage: `node tests/tools/format_lua.mjs [--write] FILE...`.

import { readFile, writeFile } from "node:fs/promises";

import { requireTool } from "../browser/support/tools.mjs";

/** @type {typeof import("@johnnymorganz/stylua")} */
const stylua = requireTool("@johnnymorganz/stylua");

/**
 * Returns a Lua text in the project's format.
 * @param {string} text
 */
function format(text) {
  // StyLua consumes the settings with each call.
  const settings = stylua.Config.new();
  settings.column_width = 120;
  settings.indent_type = stylua.IndentType.Spaces;
  settings.indent_width = 2;
  settings.quote_style = stylua.QuoteStyle.AutoPreferSingle;
  settings.syntax = stylua.LuaVersion.Lua51;
  return stylua.formatCode(text, settings, undefined, stylua.OutputVerification.Full);
}

const [first, ...rest] = process.argv.slice(2);
const isWriting = first === "--write";

for (const file of isWriting ? rest : [first, ...rest]) {
  const text = await readFile(file, "utf8");
  const formatted = format(text);
  if (formatted === text) continue;
  if (isWriting) {
    await writeFile(file, formatted);
  } else {
    console.error(`${file} is not formatted: run node tests/tools/format_lua.mjs --write ${file}`);
    process.exitCode = 1;
  }
}
