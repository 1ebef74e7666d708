// Sessions: sign-in by token, sign-out, other sites, and traces in the browser.

import assert from "node:assert/strict";
import http from "node:http";
import { test } from "node:test";

import { openPage, openTab } from "./support/browser.mjs";
import { Gate, personToken } from "./support/gate.mjs";
import { approve, assertNoProblems, confirm, goTo, openHold, signIn } from "./support/people.mjs";
import { listen } from "./support/provider.mjs";
import { setUp } from "./support/setup.mjs";

/** Browsers report every refused request. */
const REFUSED = /status of (401|403)/;

const { browser, gate } = await setUp();

test("a sign-in link leaves no trace of its token, and scripts cannot read the cookie", async () => {
  const page = await signIn(browser, gate, "ops-1");
  assert.equal(page.url(), `${gate.url}/#/queue`);
  const traces = await page.evaluate(() =>
    JSON.stringify([
      location.href,
      history.state,
      document.cookie,
      { ...localStorage },
      { ...sessionStorage },
      document.documentElement.outerHTML,
    ]),
  );
  assert.doesNotMatch(traces, /eyJ|sluice-session/);
  const [cookie] = await page.context().cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/"]);
  await page.goBack().catch(() => {});
  assert.doesNotMatch(page.url(), /token/);
  assertNoProblems(page);
});

test("a sign-in link signs nobody in before a click, and says as whom", async () => {
  const page = await openPage(browser, `${gate.url}/#token=${personToken("mallory")}`, { expects: [REFUSED] });
  await page.getByRole("heading", { name: "Sign in by this link?" }).waitFor();
  await page.getByText("The link signs you in as mallory from").waitFor();
  assert.doesNotMatch(page.url(), /token/);
  const session = () => page.context().request.get(`${gate.url}/sluice/v1/session`);
  assert.equal((await session()).status(), 401);
  await page.getByRole("button", { name: "Do not sign in" }).click();
  await page.getByLabel("Token").waitFor();
  assert.equal((await session()).status(), 401);
  assertNoProblems(page);
});

test("a link shows who is signed in, and leaves that session alone until a click", async () => {
  const page = await signIn(browser, gate, "ops-1");
  await page.goto(`${gate.url}/#token=${personToken("mallory")}`);
  await page.getByText("You are signed in as ops-1 now.").waitFor();
  const { person } = await (await page.context().request.get(`${gate.url}/sluice/v1/session`)).json();
  assert.equal(person.subject, "ops-1");
  await page.getByRole("button", { name: "Do not sign in" }).click();
  await page.locator(".person summary").getByText("ops-1").waitFor();
  assertNoProblems(page);
});

test("beside an organization's sign-in, links are off", async () => {
  const provided = await Gate.start({
    console: `public_url = "http://sluice.test"
oidc_client_id = "sluice"
oidc_name = "the bank"`,
  });
  try {
    const page = await openPage(browser, `${provided.url}/#token=${personToken("mallory")}`, { expects: [REFUSED] });
    await page.getByText("Sign-in links are switched off here, because people sign in with the bank.").waitFor();
    assert.equal(await page.getByRole("button", { name: "Sign in as mallory" }).count(), 0);
    assertNoProblems(page);
  } finally {
    await provided.stop();
  }
});

test("a session from the provider is renewed silently, and the view that was open returns", async () => {
  const page = await signIn(browser, gate, "ops-1");
  let renewals = 0;
  // The provider's part: it sends the browser back with a new session.
  await page.route("**/sluice/v1/session/start?silent=true", async (route) => {
    renewals += 1;
    await route.fulfill({ contentType: "text/html", body: '<meta http-equiv="refresh" content="0;url=/">' });
  });
  await page.route("**/sluice/v1/session", async (route) => {
    const response = await route.fetch();
    const session = await response.json();
    const isOld = renewals === 0;
    const expiresAt = isOld ? new Date(Date.now() + 8_000).toISOString() : session.expiresAt;
    await route.fulfill({ response, json: { ...session, renews: true, expiresAt } });
  });
  await goTo(page, gate, "#/overview");
  await page.reload();
  await page.waitForURL(`${gate.url}/#/overview`);
  for (let waits = 0; renewals === 0 && waits < 100; waits += 1) await page.waitForTimeout(100);
  assert.equal(renewals, 1);
  await page.waitForURL(`${gate.url}/#/overview`);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  assert.equal(renewals, 1, "a renewed session is not renewed again at once");
  assertNoProblems(page);
});

test("a person types a token; the page refuses a wrong one", async () => {
  const page = await openPage(browser, gate.url, { expects: [REFUSED] });
  await page.getByLabel("Token").fill("not.a.token");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("Token").fill(personToken("ops-1"));
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Queue" }).waitFor();
  assertNoProblems(page);
});

test("signing out affects every tab, and going back shows nothing", async () => {
  const hold = await gate.holdSwap("left-behind", "2600");
  const page = await signIn(browser, gate, "ops-1", ["approver"], { expects: [REFUSED] });
  const other = await openTab(page, `${gate.url}/#/hold/${hold.id}`, [REFUSED]);
  await other.locator("article.hold h2").waitFor();
  await page.bringToFront();
  await openHold(page, hold);
  await page.locator(".person summary").click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("You are signed out.").waitFor();
  await other.getByLabel("Token").waitFor();
  await page.goBack();
  await page.getByLabel("Token").waitFor();
  assert.doesNotMatch(await page.locator("body").innerText(), /2,600/);
  assertNoProblems(page, other);
});

test("another person's sign-in in the same browser is noticed before a vote", async () => {
  const hold = await gate.holdSwap("who-am-i", "2700");
  const page = await signIn(browser, gate, "ops-1");
  await openHold(page, hold);
  // Somebody else signs in in the same browser, but the page is not notified.
  await page.context().request.post(`${gate.url}/sluice/v1/session`, {
    headers: { "sluice-console": "1", origin: gate.url },
    data: { token: personToken("finance-1") },
  });
  await page.getByRole("button", { name: "Approve…" }).click();
  await confirm(page, "Approve 2,700 USDT");
  await page.locator(".person summary").getByText("finance-1").waitFor();
  const { body } = await gate.callConsole("GET", `holds/${hold.id}`, personToken("ops-1"));
  assert.deepEqual(body.votes, []);
  assertNoProblems(page);
});

test("the page shows that the session has ended, and returns after sign-in", async () => {
  const hold = await gate.holdSwap("ended", "2800");
  const page = await signIn(browser, gate, "ops-1", ["approver"], { expects: [REFUSED] });
  await openHold(page, hold);
  // The session ends elsewhere; the page notices at its next request.
  const cookies = await page.context().cookies();
  await page
    .context()
    .request.delete(`${gate.url}/sluice/v1/session`, { headers: { "sluice-console": "1", origin: gate.url } });
  await page.context().addCookies(cookies);
  await page.getByText("Your session has ended.").waitFor();
  await page.getByLabel("Token").fill(personToken("ops-1"));
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("article.hold").getByRole("heading", { name: "2,800 USDT" }).waitFor();
  assertNoProblems(page);
});

test("an operator, or the person elsewhere, ends all sessions after a lost phone", async () => {
  const [lost, operator] = await Promise.all([
    signIn(browser, gate, "ops-2", ["approver"], { expects: [REFUSED] }),
    signIn(browser, gate, "olga", ["operator"]),
  ]);
  /**
   * @param {import("./support/browser.mjs").Page} page
   * @param {string} [person]
   */
  const endSessions = async (page, person) => {
    await page.locator(".person summary").click();
    await page.getByRole("button", { name: "End all sessions…" }).click();
    if (person) await page.getByLabel("Person").fill(person);
    await confirm(page, "End all sessions");
    await page.getByText("Enter a reason").waitFor();
    await page.getByLabel("Why").fill("a lost phone");
    await confirm(page, "End all sessions");
  };
  await endSessions(operator, "ops-2");
  await operator.getByText("Ended every session of ops-2. The store showed 1.").waitFor();
  await lost.getByText("Your session has ended.").waitFor();
  // The page may be reading when its session ends.
  const other = await signIn(browser, gate, "ops-2", ["approver"], { expects: [REFUSED] });
  await endSessions(other);
  await other.getByText("All your sessions have ended.").waitFor();
  assert.equal((await other.context().request.get(`${gate.url}/sluice/v1/session`)).status(), 401);
  assertNoProblems(lost, operator, other);
});

test("over TLS the cookie is bound to the host and to encrypted connections", async () => {
  const secured = await Gate.start({ tls: true });
  try {
    const hold = await secured.holdSwap("by-tls", "2500");
    const page = await signIn(browser, secured, "ops-1", ["approver"], { ignoreHTTPSErrors: true });
    const cookies = (await page.context().cookies()).map(({ name, secure, httpOnly, sameSite, path }) => ({
      name,
      secure,
      httpOnly,
      sameSite,
      path,
    }));
    assert.deepEqual(cookies, [
      { name: "__Host-sluice-session", secure: true, httpOnly: true, sameSite: "Strict", path: "/" },
    ]);
    await openHold(page, hold);
    await approve(page, "2,500 USDT");
    await page.getByText("You approved.").waitFor();
    const answer = await page.context().request.get(`${secured.url}/`);
    assert.match(answer.headers()["strict-transport-security"], /^max-age=[0-9]{7,}/);
    await page
      .context()
      .request.delete(`${secured.url}/sluice/v1/session`, { headers: { "sluice-console": "1", origin: secured.url } });
    assert.deepEqual(await page.context().cookies(), []);
    assertNoProblems(page);
  } finally {
    await secured.stop();
  }
});

test("another site can neither frame the page nor call its API", async () => {
  const hold = await gate.holdSwap("from-elsewhere", "2900");
  const elsewhere = http.createServer((_request, response) => {
    response.setHeader("content-type", "text/html");
    response.end(`<!doctype html><iframe src="${gate.url}/"></iframe>`);
  });
  const other = `http://localhost:${await listen(elsewhere)}`;
  const page = await signIn(browser, gate, "ops-1");
  const evil = await openTab(page, other, [/./]);
  const framed = await evil
    .frames()[1]
    .evaluate(() => document.body?.innerText ?? "")
    .catch(() => "");
  assert.doesNotMatch(framed, /Queue|Sign in/);
  const reject = `${gate.url}/sluice/v1/holds/${hold.id}/reject`;
  const body = JSON.stringify({ fingerprint: hold.fingerprint, reason: "from elsewhere" });
  await evil.evaluate(
    async ([url, text]) => {
      /** @type {RequestInit[]} */
      const attempts = [
        {
          method: "POST",
          mode: "no-cors",
          credentials: "include",
          headers: { "content-type": "text/plain" },
          body: text,
        },
        { method: "POST", credentials: "include", headers: { "content-type": "application/json" }, body: text },
        {
          method: "POST",
          credentials: "include",
          headers: { "content-type": "application/json", "sluice-console": "1" },
          body: text,
        },
      ];
      for (const attempt of attempts) await fetch(url, attempt).catch(() => {});
    },
    [reject, body],
  );
  // Browsers treat another port of this machine as the same site, so the cookie may be sent from there.
  const [cookie] = await page.context().cookies();
  /** @type {Record<string, string>[]} */
  const attempts = [
    { "content-type": "application/json" },
    { "content-type": "application/json", "sluice-console": "1", origin: other },
    { "content-type": "application/json", "sluice-console": "1", origin: gate.url, "sec-fetch-site": "same-site" },
    { "content-type": "text/plain", "sluice-console": "1", origin: gate.url },
  ];
  for (const headers of attempts) {
    const status = await postWith(reject, { ...headers, cookie: `${cookie.name}=${cookie.value}` }, body);
    assert.ok([400, 403, 415].includes(status), `${status} for ${JSON.stringify(headers)}`);
  }
  const { body: now } = await gate.callConsole("GET", `holds/${hold.id}`, personToken("ops-1"));
  assert.equal(now.state, "pending");
  elsewhere.closeAllConnections();
  elsewhere.close();
  assertNoProblems(page);
});

test("browsers store no response of the API", async () => {
  const page = await signIn(browser, gate, "ops-1");
  /** @type {string[]} */
  const stored = [];
  page.on("response", (answer) => {
    if (answer.url().includes("/sluice/v1/") && answer.headers()["cache-control"] !== "no-store")
      stored.push(answer.url());
  });
  for (const place of ["#/overview", "#/policy", "#/history", "#/queue"]) {
    await goTo(page, gate, place);
    await page.locator("h1").waitFor();
  }
  assert.deepEqual(stored, []);
});

/**
 * Posts with headers that a page could not set; returns the status.
 * @param {string} url
 * @param {Record<string, string>} headers
 * @param {string} body
 * @returns {Promise<number>}
 */
function postWith(url, headers, body) {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method: "POST", headers }, (answer) => {
      answer.resume();
      resolve(answer.statusCode ?? 0);
    });
    request.on("error", reject);
    request.end(body);
  });
}
