// Where the tools are that tests/run installed, and the program that is tested.

import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import path from "node:path";

const root = fileURLToPath(new URL("../../../", import.meta.url));

/** Cargo's target folder. */
export const TARGET = process.env.CARGO_TARGET_DIR ?? path.join(root, "target");
/** The program. */
export const SLUICE = process.env.SLUICE ?? path.join(TARGET, "debug", "sluice");

export const installed = createRequire(path.join(TARGET, "tools", "browser", "package.json"));

export const { chromium, firefox } = installed("playwright-core");
/** What looks for faults that keep people out; it runs in the page. */
export const AXE = installed.resolve("axe-core/axe.min.js");
