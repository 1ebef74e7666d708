// How people come and go, what others can make their browsers do, and what is left behind.

import assert from "node:assert/strict";
import http from "node:http";
import { test } from "node:test";

import { tab, visit } from "./support/browser.mjs";
import { Gate, person } from "./support/gate.mjs";
import { approve, calm, go, open, press, signedIn } from "./support/people.mjs";
import { stage } from "./support/stage.mjs";

/** A browser notes every refusal. */
const REFUSED = /status of (401|403)/;

const { browser, gate } = await stage();

test("a token signs in, its link leaves no trace of it, and the cookie is no script's", async () => {
  const page = await signedIn(browser, gate, "ops-1");
  assert.equal(page.url(), `${gate.url}/#/queue`);
  const traces = await page.evaluate(() => JSON.stringify([location.href, history.state, document.cookie, { ...localStorage }, { ...sessionStorage }, document.documentElement.outerHTML]));
  assert.doesNotMatch(traces, /eyJ|sluice-session/);
  const [cookie] = await page.context().cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite, cookie.path], [true, "Strict", "/"]);
  await page.goBack().catch(() => {});
  assert.doesNotMatch(page.url(), /token/);
  calm(page);
});

test("a token is typed in; one that is none is told so", async () => {
  const page = await visit(browser, gate.url, { expects: [REFUSED] });
  await page.getByLabel("Token").fill("not.a.token");
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("alert").waitFor();
  await page.getByLabel("Token").fill(person("ops-1"));
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.getByRole("heading", { name: "Queue" }).waitFor();
  calm(page);
});

test("who signs out is out, in every tab, and going back shows nothing", async () => {
  const hold = await gate.held("left-behind", "2600");
  const page = await signedIn(browser, gate, "ops-1", ["approver"], { expects: [REFUSED] });
  const other = await tab(page, `${gate.url}/#/hold/${hold.id}`, [REFUSED]);
  await other.locator("article.hold h2").waitFor();
  await page.bringToFront();
  await open(page, hold);
  await page.locator(".person summary").click();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("You are signed out.").waitFor();
  await other.getByLabel("Token").waitFor();
  await page.goBack();
  await page.getByLabel("Token").waitFor();
  assert.doesNotMatch(await page.locator("body").innerText(), /2,600/);
  calm(page, other);
});

test("who signs in as somebody else is told in every tab, before anything is said in the wrong name", async () => {
  const hold = await gate.held("who-am-i", "2700");
  const page = await signedIn(browser, gate, "ops-1");
  await open(page, hold);
  // Another tab of the same browser, and nobody told the first.
  await page.context().request.post(`${gate.url}/sluice/v1/session`, {
    headers: { "sluice-console": "1", origin: gate.url },
    data: { token: person("finance-1") },
  });
  await page.getByRole("button", { name: "Approve…" }).click();
  await press(page, "Approve 2,700 USDT");
  await page.locator(".person summary").getByText("finance-1").waitFor();
  const { body } = await gate.act("GET", `holds/${hold.id}`, person("ops-1"));
  assert.deepEqual(body.votes, []);
  calm(page);
});

test("a session that has ended is said so, and signing in again leads back", async () => {
  const hold = await gate.held("ended", "2800");
  const page = await signedIn(browser, gate, "ops-1", ["approver"], { expects: [REFUSED] });
  await open(page, hold);
  // Ended elsewhere. The page asks by itself soon, or when somebody does something.
  const cookies = await page.context().cookies();
  await page.context().request.delete(`${gate.url}/sluice/v1/session`, { headers: { "sluice-console": "1", origin: gate.url } });
  await page.context().addCookies(cookies);
  await page.getByText("Your time here has ended.").waitFor();
  await page.getByLabel("Token").fill(person("ops-1"));
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator("article.hold").getByRole("heading", { name: "2,800 USDT" }).waitFor();
  calm(page);
});

test("who has lost a phone is signed out everywhere, by an operator or at another browser", async () => {
  const [lost, operator] = await Promise.all([
    signedIn(browser, gate, "ops-2", ["approver"], { expects: [REFUSED] }),
    signedIn(browser, gate, "olga", ["operator"]),
  ]);
  const end = async (page, whose) => {
    await page.locator(".person summary").click();
    await page.getByRole("button", { name: "End all sessions…" }).click();
    if (whose) await page.getByLabel("Person").fill(whose);
    await press(page, "End all sessions");
    await page.getByText("Say why first").waitFor();
    await page.getByLabel("Why").fill("a lost phone");
    await press(page, "End all sessions");
  };
  await end(operator, "ops-2");
  await operator.getByText("1 session was ended.").waitFor();
  await lost.getByText("Your time here has ended.").waitFor();
  const other = await signedIn(browser, gate, "ops-2", ["approver"]);
  await end(other);
  await other.getByText("All your sessions have ended.").waitFor();
  assert.equal((await other.context().request.get(`${gate.url}/sluice/v1/session`)).status(), 401);
  calm(lost, operator, other);
});

test("over TLS the cookie is of this very host and for encrypted connections alone", async () => {
  const secured = await Gate.start({ tls: true });
  try {
    const hold = await secured.held("by-tls", "2500");
    const page = await signedIn(browser, secured, "ops-1", ["approver"], { ignoreHTTPSErrors: true });
    const cookies = (await page.context().cookies()).map(({ name, secure, httpOnly, sameSite, path }) => ({ name, secure, httpOnly, sameSite, path }));
    assert.deepEqual(cookies, [{ name: "__Host-sluice-session", secure: true, httpOnly: true, sameSite: "Strict", path: "/" }]);
    await open(page, hold);
    await approve(page, "2,500 USDT");
    await page.getByText("You agreed.").waitFor();
    const answer = await page.context().request.get(`${secured.url}/`);
    assert.match(answer.headers()["strict-transport-security"], /^max-age=[0-9]{7,}/);
    await page.context().request.delete(`${secured.url}/sluice/v1/session`, { headers: { "sluice-console": "1", origin: secured.url } });
    assert.deepEqual(await page.context().cookies(), []);
    calm(page);
  } finally {
    await secured.stop();
  }
});

test("another site can neither frame the page nor act in its name", async () => {
  const hold = await gate.held("from-elsewhere", "2900");
  const elsewhere = http.createServer((request, response) => {
    response.setHeader("content-type", "text/html");
    response.end(`<!doctype html><iframe src="${gate.url}/"></iframe>`);
  });
  await new Promise((done) => elsewhere.listen(0, "127.0.0.1", done));
  const other = `http://localhost:${elsewhere.address().port}`;
  const page = await signedIn(browser, gate, "ops-1");
  const evil = await tab(page, other, [/./]);
  const framed = await evil.frames()[1].evaluate(() => document.body?.innerText ?? "").catch(() => "");
  assert.doesNotMatch(framed, /Queue|Sign in/);
  const reject = `${gate.url}/sluice/v1/holds/${hold.id}/reject`;
  const body = JSON.stringify({ fingerprint: hold.fingerprint, reason: "from elsewhere" });
  await evil.evaluate(
    async ([url, text]) => {
      const ways = [
        { method: "POST", mode: "no-cors", credentials: "include", headers: { "content-type": "text/plain" }, body: text },
        { method: "POST", credentials: "include", headers: { "content-type": "application/json" }, body: text },
        { method: "POST", credentials: "include", headers: { "content-type": "application/json", "sluice-console": "1" }, body: text },
      ];
      for (const way of ways) await fetch(url, way).catch(() => {});
    },
    [reject, body],
  );
  // Even where a browser would show the cookie: the same machine, another port, is the same site to it.
  const [cookie] = await page.context().cookies();
  const said = [
    { "content-type": "application/json" },
    { "content-type": "application/json", "sluice-console": "1", origin: other },
    { "content-type": "application/json", "sluice-console": "1", origin: gate.url, "sec-fetch-site": "same-site" },
    { "content-type": "text/plain", "sluice-console": "1", origin: gate.url },
  ];
  for (const headers of said) {
    const status = await sent(reject, { ...headers, cookie: `${cookie.name}=${cookie.value}` }, body);
    assert.ok([400, 403, 415].includes(status), `${status} for ${JSON.stringify(headers)}`);
  }
  const { body: now } = await gate.act("GET", `holds/${hold.id}`, person("ops-1"));
  assert.equal(now.state, "pending");
  elsewhere.closeAllConnections();
  elsewhere.close();
  calm(page);
});

test("nothing that is anybody's is kept by a browser", async () => {
  const page = await signedIn(browser, gate, "ops-1");
  const kept = [];
  page.on("response", (answer) => {
    if (answer.url().includes("/sluice/v1/") && answer.headers()["cache-control"] !== "no-store") kept.push(answer.url());
  });
  for (const place of ["#/overview", "#/policy", "#/history", "#/queue"]) {
    await go(page, gate, place);
    await page.locator("h1").waitFor();
  }
  assert.deepEqual(kept, []);
});

/** With headers that a page could not set. */
function sent(url, headers, body) {
  return new Promise((done, fail) => {
    const request = http.request(url, { method: "POST", headers }, (answer) => {
      answer.resume();
      done(answer.statusCode);
    });
    request.on("error", fail);
    request.end(body);
  });
}
