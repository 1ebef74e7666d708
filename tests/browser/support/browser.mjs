// A real browser. Each person in it has their own cookies.

import { readFile } from "node:fs/promises";
import path from "node:path";

import { AXE, chromium, firefox } from "./tools.mjs";

/** @typedef {import("playwright-core").Browser} Browser */
/** @typedef {import("playwright-core").Page & { problems: string[] }} Page a page, and the problems that it reported */
/**
 * @typedef {object} PageOptions
 * @property {{ width: number, height: number }} [viewport]
 * @property {"light" | "dark"} [scheme]
 * @property {RegExp[]} [expects] problems that the test expects
 * @property {boolean} [ignoreHTTPSErrors]
 * @property {string} [timezone]
 */

/** A name that resolves to this machine, but that browsers do not trust without TLS. */
export const PLAIN_HOST = "console.test";
const ARGUMENTS = [
  `--host-resolver-rules=MAP ${PLAIN_HOST} 127.0.0.1, MAP *.${PLAIN_HOST} 127.0.0.1`,
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
/** The time limit of each step, long enough for a busy machine. */
export const TIMEOUT_MS = Number(process.env.TIMEOUT_MS ?? 30_000);

export const DESKTOP = { width: 1280, height: 860 };
export const PHONE = { width: 360, height: 740 };

/**
 * Alters the JSON responses that a page gets from these addresses.
 * @param {Page} page
 * @param {string | RegExp} addresses
 * @param {(content: any) => any} alter
 */
export async function alterResponses(page, addresses, alter) {
  await page.route(addresses, async (route) => {
    try {
      const response = await route.fetch();
      await route.fulfill({ response, json: alter(await response.json()) });
    } catch (error) {
      if (!page.isClosed()) page.problems.push(`altered response: ${error}`);
    }
  });
}

/**
 * Has the gate do an act once, and loses its answer.
 * @param {Page} page
 * @param {string} address
 */
export async function loseAnswer(page, address) {
  await page.route(
    address,
    async (route) => {
      await route.fetch();
      await route.abort();
    },
    { times: 1 },
  );
}

/**
 * Starts Chromium, or the Firefox that `FIREFOX` names.
 * @param {string[]} [more] arguments of Chromium
 */
export async function openBrowser(more = []) {
  if (process.env.FIREFOX) {
    const firefoxUserPrefs = { "network.dns.localDomains": PLAIN_HOST };
    return firefox.launch({ channel: "moz-firefox", executablePath: process.env.FIREFOX, firefoxUserPrefs });
  }
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium-headless-shell",
    args: [...ARGUMENTS, ...more],
  });
}

/**
 * Serves the page's files from the folder that `PAGE` names, so that a change can be looked at without a build.
 * @param {import("playwright-core").BrowserContext} context
 */
async function serveFromFolder(context) {
  const folder = process.env.PAGE;
  if (folder)
    await context.route("**/page/*", (route) =>
      route.fulfill({ path: path.join(folder, path.basename(route.request().url())) }),
    );
}

/**
 * Opens a page for a new person, and records its problems.
 * @param {Browser} browser
 * @param {string} url
 * @param {PageOptions} [options]
 */
export async function openPage(
  browser,
  url,
  { viewport = DESKTOP, scheme = "light", expects = [], ignoreHTTPSErrors = false, timezone } = {},
) {
  const context = await browser.newContext({
    viewport,
    colorScheme: scheme,
    reducedMotion: "reduce",
    ignoreHTTPSErrors,
    timezoneId: timezone,
  });
  await serveFromFolder(context);
  return openRecorded(context, url, expects);
}

/**
 * Does something that has a page save a file, and returns the name and the content of the file.
 * @param {Page} page
 * @param {() => Promise<void>} act
 */
export async function savedFile(page, act) {
  if (!process.env.FIREFOX) {
    const [download] = await Promise.all([page.waitForEvent("download"), act()]);
    return { name: download.suggestedFilename(), text: await readFile(await download.path(), "utf8") };
  }
  // Playwright leaves out downloads of Firefox that are no navigation: the page itself tells what it saves.
  const saved = await page.evaluateHandle(() => {
    /** @type {Blob | null} */
    let content = null;
    const [make, click] = [URL.createObjectURL, HTMLAnchorElement.prototype.click];
    const file = new Promise((resolve) => {
      URL.createObjectURL = (blob) => {
        content = /** @type {Blob} */ (blob);
        return make.call(URL, blob);
      };
      HTMLAnchorElement.prototype.click = function () {
        URL.createObjectURL = make;
        HTMLAnchorElement.prototype.click = click;
        click.call(this);
        resolve(content?.text().then((text) => ({ name: this.download, text })));
      };
    });
    return { file };
  });
  await act();
  return saved.evaluate(({ file }) => /** @type {Promise<{ name: string, text: string }>} */ (file));
}

/**
 * Opens another tab of the same person.
 * @param {Page} page
 * @param {string} url
 * @param {RegExp[]} [expects]
 */
export async function openTab(page, url, expects = []) {
  return openRecorded(page.context(), url, expects);
}

/**
 * @param {import("playwright-core").BrowserContext} context
 * @param {string} url
 * @param {RegExp[]} expects
 * @returns {Promise<Page>}
 */
async function openRecorded(context, url, expects) {
  const page = Object.assign(await context.newPage(), { problems: [] });
  page.setDefaultTimeout(TIMEOUT_MS);
  recordProblems(page, expects);
  await page.goto(url);
  return page;
}

/** The errors of requests that a closing page aborts, in Chromium and Firefox. */
const ABORTED = ["net::ERR_ABORTED", "NS_BINDING_ABORTED"];
/** The page first asks whether anybody is signed in, and browsers report every 401. */
const NOT_SIGNED_IN = /401 \(Unauthorized\) \(.*\/sluice\/v1\/session\)/;

/**
 * @param {Page} page
 * @param {RegExp[]} expects
 */
function recordProblems(page, expects) {
  const ignored = [NOT_SIGNED_IN, ...expects];
  /** @param {string} text */
  const record = (text) => {
    if (!ignored.some((pattern) => pattern.test(text))) page.problems.push(text);
  };
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) record(`${message.text()} (${message.location().url})`);
  });
  page.on("pageerror", (error) => record(String(error)));
  page.on("requestfailed", (request) => {
    const errorText = request.failure()?.errorText ?? "";
    if (!ABORTED.includes(errorText)) record(`${request.url()}: ${errorText}`);
  });
  // A dialog of the browser means that a script in some data has run.
  page.on("dialog", (dialog) => {
    record(`a dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
}

/**
 * Returns the serious and critical accessibility violations of a page, targets that are too small, and a missing title.
 * @param {Page} page
 */
export async function accessibilityViolations(page) {
  // The page's policy admits no script, but the debugger can run one.
  await page.evaluate(await readFile(AXE, "utf8"));
  const found = await page.evaluate(async () => {
    /** @type {any} */
    const { axe } = globalThis;
    const rules = { "target-size": { enabled: true } };
    /** @type {{ violations: { id: string, impact: string, nodes: any[] }[] }} */
    const results = await axe.run(document, { resultTypes: ["violations"], rules });
    return results.violations.map(({ id, impact, nodes }) => ({
      id,
      impact,
      at: nodes.map((node) => `${node.target} ${node.failureSummary}`),
    }));
  });
  return found.filter(({ id, impact }) => ["serious", "critical"].includes(impact) || id === "page-has-heading-one");
}
