// A real browser, and people in it: each has cookies of their own.

import { readFile } from "node:fs/promises";

import { AXE, chromium, firefox } from "./tools.mjs";

/** A name of this machine that no browser takes for one: without TLS, what it serves is not trusted. */
export const PLAIN_HOST = "console.test";
const ARGUMENTS = [
  `--host-resolver-rules=MAP ${PLAIN_HOST} 127.0.0.1`,
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
/** How long anything may take on a crowded machine. */
export const PATIENCE_MS = Number(process.env.PATIENCE_MS ?? 30_000);

export const DESK = { width: 1280, height: 860 };
export const PHONE = { width: 360, height: 740 };

/** Alters what the page is told at these addresses; what is under way when the page closes is nobody's. */
export async function tellOtherwise(page, addresses, alter) {
  await page.route(addresses, async (route) => {
    try {
      const answer = await route.fetch();
      await route.fulfill({ response: answer, json: alter(await answer.json()) });
    } catch (failure) {
      if (!page.isClosed()) page.complaints.push(`told otherwise: ${failure}`);
    }
  });
}

/** Chromium, or the Firefox that `FIREFOX` names. */
export async function openBrowser() {
  if (process.env.FIREFOX) {
    const firefoxUserPrefs = { "network.dns.localDomains": PLAIN_HOST };
    return firefox.launch({ channel: "moz-firefox", executablePath: process.env.FIREFOX, firefoxUserPrefs });
  }
  return chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ARGUMENTS });
}

/**
 * A person's page at this address; all that it complains of is kept in `complaints`. What is expected to be complained of
 * is named by `expects`, a list of patterns.
 */
export async function visit(browser, url, { viewport = DESK, scheme = "light", expects = [], ignoreHTTPSErrors = false } = {}) {
  const context = await browser.newContext({ viewport, colorScheme: scheme, reducedMotion: "reduce", ignoreHTTPSErrors });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.complaints = [];
  watch(page, expects);
  await page.goto(url);
  return page;
}

/** One more tab of the same person. */
export async function tab(page, url, expects = []) {
  const other = await page.context().newPage();
  other.setDefaultTimeout(PATIENCE_MS);
  other.complaints = [];
  watch(other, expects);
  await other.goto(url);
  return other;
}

/** Who leaves ends what they waited for; as Chromium and Firefox say it. */
const LEFT = ["net::ERR_ABORTED", "NS_BINDING_ABORTED"];
/** A browser notes every 401; the first question of the page is whether anybody is signed in. */
const NOBODY_YET = /401 \(Unauthorized\) \(.*\/sluice\/v1\/session\)/;

function watch(page, wanted) {
  const expects = [NOBODY_YET, ...wanted];
  const note = (text) => {
    if (!expects.some((pattern) => pattern.test(text))) page.complaints.push(text);
  };
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) note(`${message.text()} (${message.location().url})`);
  });
  page.on("pageerror", (error) => note(String(error)));
  page.on("requestfailed", (request) => {
    const { errorText } = request.failure() ?? {};
    if (!LEFT.includes(errorText)) note(`${request.url()}: ${errorText}`);
  });
  // Nothing that data says may ever run.
  page.on("dialog", (dialog) => {
    note(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
}

/** What keeps people out, serious or critical. */
export async function barriers(page) {
  const script = await readFile(AXE, "utf8");
  // The page's policy lets no script in; this comes by the debugger.
  await page.evaluate(script);
  const found = await page.evaluate(async () => {
    const rules = await globalThis.axe.run(document, { resultTypes: ["violations"] });
    return rules.violations.map(({ id, impact, nodes }) => ({ id, impact, at: nodes.map((node) => `${node.target} ${node.failureSummary}`) }));
  });
  return found.filter(({ impact }) => ["serious", "critical"].includes(impact));
}
