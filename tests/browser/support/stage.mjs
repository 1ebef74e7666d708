// What the tests of a file play on.

import { after } from "node:test";

import { openBrowser } from "./browser.mjs";
import { Gate } from "./gate.mjs";

/** A browser and a gate of these settings; both end with the file's tests. */
export async function stage(settings) {
  const gate = await Gate.start(settings);
  let browser;
  after(async () => {
    // Pages that are open would complain of a gate that is gone.
    await browser?.close();
    await gate.stop();
  });
  browser = await openBrowser();
  return { browser, gate };
}
