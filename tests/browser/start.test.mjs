// How the gate serves the page, and what the page may do.

import assert from "node:assert/strict";
import { test } from "node:test";

import { openPage } from "./support/browser.mjs";
import { setUp } from "./support/setup.mjs";

const { browser, gate } = await setUp();

test("the page runs its own scripts only, in no frame, and is revalidated each time", async () => {
  for (const path of ["/", "/page/app.js", "/page/style.css"]) {
    const answer = await fetch(gate.url + path);
    assert.equal(answer.status, 200, path);
    const policy = answer.headers.get("content-security-policy") ?? "";
    for (const part of [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "frame-ancestors 'none'",
      "base-uri 'none'",
      "form-action 'self'",
    ]) {
      assert.ok(policy.includes(part), `${path}: ${policy}`);
    }
    assert.ok(!policy.includes("unsafe"), policy);
    assert.equal(answer.headers.get("x-frame-options"), "DENY");
    assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
    assert.equal(answer.headers.get("referrer-policy"), "no-referrer");
    assert.equal(answer.headers.get("cache-control"), "no-cache");
    const again = await fetch(gate.url + path, { headers: { "if-none-match": answer.headers.get("etag") ?? "" } });
    assert.equal(again.status, 304, path);
  }
  assert.equal((await fetch(`${gate.url}/page/other.js`)).status, 404);
  assert.equal((await fetch(gate.url, { method: "POST", body: "{}" })).status, 405);
});

test("a visitor without a session is asked to sign in", async () => {
  const page = await openPage(browser, gate.url);
  await page.getByRole("heading", { name: "Sluice" }).waitFor();
  assert.deepEqual(
    page.problems.filter((text) => !text.includes("/session/ways")),
    [],
  );
});
