// The browser and the gate that the tests of one file share.

import { after } from "node:test";

import { openBrowser } from "./browser.mjs";
import { Gate } from "./gate.mjs";

/**
 * Starts a browser and a gate with these settings; both stop after the file's tests.
 * @param {import("./gate.mjs").GateOptions} [settings]
 */
export async function setUp(settings) {
  const gate = await Gate.start(settings);
  /** @type {import("playwright-core").Browser | undefined} */
  let browser;
  after(async () => {
    // The browser closes first: open pages would report that the gate is gone.
    await browser?.close();
    await gate.stop();
  });
  browser = await openBrowser();
  return { browser, gate };
}
