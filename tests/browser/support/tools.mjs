// Finds the tools that tests/run installed, and the program under test.

import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../../../", import.meta.url));

/** Cargo's target folder. */
export const TARGET = process.env.CARGO_TARGET_DIR ?? path.join(root, "target");
/** The program under test. */
export const SLUICE = process.env.SLUICE ?? path.join(TARGET, "debug", "sluice");

/** Loads packages of tests/browser/package.json. */
export const requireTool = createRequire(path.join(TARGET, "tools", "browser", "package.json"));

/** @type {typeof import("playwright-core")} */
const playwright = requireTool("playwright-core");
export const { chromium, firefox } = playwright;
/** The script that looks for accessibility violations; it runs in the page. */
export const AXE = requireTool.resolve("axe-core/axe.min.js");
