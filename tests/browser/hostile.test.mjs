// Whatever callers, people and policies write is text, in every view.

import assert from "node:assert/strict";
import { test } from "node:test";

import { tellOtherwise } from "./support/browser.mjs";
import { person } from "./support/gate.mjs";
import { calm, go, signedIn } from "./support/people.mjs";
import { stage } from "./support/stage.mjs";

const EVIL = [
  '<img src=x onerror="document.title=`pwned`">',
  "<script>document.title='pwned'</script>",
  '"><svg onload=document.title="pwned">',
  "javascript:document.title='pwned'",
  "{{constructor.constructor('document.title=`pwned`')()}}",
  "\u202egnihton fo tnemyap",
];
const NAME = EVIL[0];

const { browser, gate } = await stage();

test("no field of a body, no name, reason or comment becomes markup", async () => {
  const offers = [];
  for (const [n, evil] of EVIL.entries()) {
    const hold = (await gate.call("/v2/users/u-1", { firstName: evil, lastName: evil, email: "a@example.com" }, { subject: evil })).body;
    offers.push(hold);
    const swap = await gate.call(
      "/v2/wallets/swaps",
      { requestId: `evil-${n}`, source: { chain: evil, currency: "usdt", amount: "5000" }, destination: { chain: evil, currency: evil, walletAddress: evil } },
      { subject: evil },
    );
    offers.push(swap.body);
  }
  const hold = (await gate.call("/v2/wallets/swaps", { requestId: "evil", source: { chain: "POLYGON", currency: "usdt", amount: "5000" }, destination: { chain: "POLYGON", currency: "usdc", walletAddress: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed" } }, { subject: NAME })).body.hold;
  for (const text of EVIL.filter((evil) => !/[\x00-\x1f]/.test(evil))) {
    await gate.act("POST", `holds/${hold.id}/comment`, person("ops-1"), { text });
  }
  await gate.act("POST", `holds/${hold.id}/approve`, person("ops-1"), { fingerprint: hold.fingerprint, comment: NAME });
  await gate.act("POST", "freezes", person(NAME, ["operator"]), { environment: "production", scope: { caller: { issuer: "callers", subject: NAME } }, reason: NAME });
  const page = await signedIn(browser, gate, "finance-1", ["approver", "operator", "policy-admin"]);
  const waiting = (await gate.act("GET", "holds?limit=100", person("ops-1"))).body.holds;
  assert.ok(waiting.length > 1, JSON.stringify(offers));
  const places = ["#/queue", "#/overview", "#/policy", "#/history", "#/history/production/evil", ...waiting.map((one) => `#/hold/${one.id}`)];
  for (const place of places) {
    await go(page, gate, place);
    await page.locator("h1:visible, h2:visible").first().waitFor();
    await page.locator(".waiting").first().waitFor({ state: "detached" });
    assert.doesNotMatch(await page.title(), /pwned/);
    assert.equal(await page.locator("main img, main script, main [onload], main [onerror], main a[href^='javascript']").count(), 0, place);
  }
  await go(page, gate, `#/hold/${hold.id}`);
  // It is shown, as it was written.
  await page.getByText(NAME).first().waitFor();
  calm(page);
});

test("what a gate would never say becomes no markup either", async () => {
  const hold = await gate.held("beyond", "5000");
  const page = await signedIn(browser, gate, "ops-1", ["approver", "operator", "policy-admin"]);
  // Every text of every answer, as if groups, rules, keys and nodes were called so.
  const spoil = (value, name) => {
    if (typeof value === "string") return ["id", "state", "issuer", "subject", "fingerprint", "environment", "createdAt", "expiresAt", "idleUntil", "at", "since", "what", "effect", "from", "to", "unit"].includes(name) ? value : `${NAME}${value}`;
    if (Array.isArray(value)) return value.map((one) => spoil(one, name));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, spoil(one, key)]));
  };
  await tellOtherwise(page, /\/sluice\/v1\/(?!session|holds\/changes)/, (told) => spoil(told));
  for (const place of ["#/overview", "#/policy", "#/history", "#/history/production/beyond", "#/queue", `#/hold/${hold.id}`]) {
    await go(page, gate, place);
    await page.locator("h1:visible, h2:visible").first().waitFor();
    await page.locator(".waiting").first().waitFor({ state: "detached" });
    assert.equal(await page.locator("main img, main script, main [onload], main [onerror]").count(), 0, place);
    assert.doesNotMatch(await page.title(), /pwned/);
  }
  calm(page);
});

test("markup that a script of the page made from a text would be refused by the browser", async () => {
  const page = await signedIn(browser, gate, "ops-1", ["approver"], { expects: [/TrustedHTML|Trusted Type|Content Security Policy/] });
  const refused = await page.evaluate(() => {
    try {
      document.createElement("p").innerHTML = "<b>x</b>";
      return "made";
    } catch (error) {
      return error.name;
    }
  });
  assert.equal(refused, "TypeError");
  const ran = await page.evaluate(async () => {
    const script = document.createElement("script");
    script.append("document.title = 'pwned'");
    try {
      document.body.append(script);
    } catch {
      return "refused";
    }
    return document.title;
  });
  assert.notEqual(ran, "pwned");
});
