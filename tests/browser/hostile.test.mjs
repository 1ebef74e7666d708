// Data of callers, people and policies becomes text in every view, and never markup.

import assert from "node:assert/strict";
import { test } from "node:test";

import { alterResponses } from "./support/browser.mjs";
import { personToken, swapBody } from "./support/gate.mjs";
import { assertNoProblems, goTo, signIn, waitUntilLoaded } from "./support/people.mjs";
import { setUp } from "./support/setup.mjs";

const EVIL = [
  '<img src=x onerror="document.title=`pwned`">',
  "<script>document.title='pwned'</script>",
  '"><svg onload=document.title="pwned">',
  "javascript:document.title='pwned'",
  "{{constructor.constructor('document.title=`pwned`')()}}",
  "\u202egnihton fo tnemyap",
];
const NAME = EVIL[0];

/** Members whose values the page parses. */
const PARSED = new Set(
  "id state issuer subject fingerprint causes environment createdAt expiresAt idleUntil at since what effect from to unit".split(
    " ",
  ),
);

const { browser, gate } = await setUp();

test("no field of a body, no name, reason or comment becomes markup", async () => {
  /** @type {any[]} */
  const responses = [];
  for (const [n, evil] of EVIL.entries()) {
    const hold = (
      await gate.call("/v2/users/u-1", { firstName: evil, lastName: evil, email: "a@example.com" }, { subject: evil })
    ).body;
    responses.push(hold);
    const swap = await gate.call(
      "/v2/wallets/swaps",
      {
        requestId: `evil-${n}`,
        source: { chain: evil, currency: "usdt", amount: "5000" },
        destination: { chain: evil, currency: evil, walletAddress: evil },
      },
      { subject: evil },
    );
    responses.push(swap.body);
  }
  const hold = (
    await gate.call(
      "/v2/wallets/swaps",
      {
        requestId: "evil",
        source: { chain: "POLYGON", currency: "usdt", amount: "5000" },
        destination: {
          chain: "POLYGON",
          currency: "usdc",
          walletAddress: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        },
      },
      { subject: NAME },
    )
  ).body.hold;
  for (const text of EVIL) {
    await gate.callConsole("POST", `holds/${hold.id}/comment`, personToken("ops-1"), { text });
  }
  await gate.callConsole("POST", `holds/${hold.id}/approve`, personToken("ops-1"), {
    fingerprint: hold.fingerprint,
    causes: (await gate.callConsole("GET", `holds/${hold.id}`, personToken("ops-1"))).body.causes,
    comment: NAME,
  });
  await gate.callConsole("POST", "freezes", personToken(NAME, ["operator"]), {
    environment: "production",
    scope: { caller: { issuer: "callers", subject: NAME } },
    reason: NAME,
  });
  const page = await signIn(browser, gate, "finance-1", ["approver", "operator", "policy-admin"]);
  const waiting = (await gate.callConsole("GET", "holds?limit=100", personToken("ops-1"))).body.holds;
  assert.ok(waiting.length > 1, JSON.stringify(responses));
  const places = [
    "#/queue",
    "#/overview",
    "#/policy",
    "#/history",
    "#/history/production/evil",
    ...waiting.map((/** @type {{ id: string }} */ { id }) => `#/hold/${id}`),
  ];
  for (const place of places) {
    await goTo(page, gate, place);
    await waitUntilLoaded(page);
    assert.doesNotMatch(await page.title(), /pwned/);
    assert.equal(
      await page.locator("main img, main script, main [onload], main [onerror], main a[href^='javascript']").count(),
      0,
      place,
    );
  }
  await goTo(page, gate, `#/hold/${hold.id}`);
  // The page shows the name as it was written.
  await page.getByText(NAME).first().waitFor();
  assertNoProblems(page);
});

test("no text of any response becomes markup", async () => {
  const hold = await gate.holdSwap("beyond", "5000");
  const page = await signIn(browser, gate, "ops-1", ["approver", "operator", "policy-admin"]);
  await alterResponses(page, /\/sluice\/v1\/(?!session|holds\/changes)/, (content) => withMarkup(content));
  for (const place of [
    "#/overview",
    "#/policy",
    "#/history",
    "#/history/production/beyond",
    "#/queue",
    `#/hold/${hold.id}`,
  ]) {
    await goTo(page, gate, place);
    await waitUntilLoaded(page);
    assert.equal(await page.locator("main img, main script, main [onload], main [onerror]").count(), 0, place);
    assert.doesNotMatch(await page.title(), /pwned/);
  }
  assertNoProblems(page);
});

test("the browser refuses markup that a script makes from a text", async () => {
  const page = await signIn(browser, gate, "ops-1", ["approver"], {
    expects: [/TrustedHTML|Trusted Type|Content Security Policy/],
  });
  const refused = await page.evaluate(() => {
    try {
      document.createElement("p").innerHTML = "<b>x</b>";
      return "made";
    } catch (error) {
      return error instanceof Error ? error.name : "";
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

/**
 * Puts markup into every text of a response, also where the gate would never do so.
 * @param {any} value
 * @param {string} [name]
 * @returns {any}
 */
function withMarkup(value, name) {
  if (typeof value === "string") return PARSED.has(name ?? "") ? value : `${NAME}${value}`;
  if (Array.isArray(value)) return value.map((one) => withMarkup(one, name));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, withMarkup(one, key)]));
}

test("a name that runs from right to left moves no number beside it", async () => {
  const { body } = await gate.call("/v2/wallets/swaps", swapBody("right-to-left", "1500"), {
    subject: "הנהלת-חשבונות 7",
  });
  const person = personToken("ops-2");
  const { body: hold } = await gate.callConsole("GET", `holds/${body.hold.id}`, person);
  const text = "התשלום אושר 12, see 34";
  await gate.callConsole("POST", `holds/${hold.id}/comment`, person, { text });
  const page = await signIn(browser, gate, "ops-1", ["approver"], { viewport: { width: 640, height: 800 } });
  const row = page.locator(`a[data-id="${hold.id}"]`);
  const [name, age] = await Promise.all([row.locator(".who .name").boundingBox(), row.locator(".age").boundingBox()]);
  assert.ok(name && age, "the row names its caller and its age");
  assert.ok(age.x >= name.x + name.width - 1, `${JSON.stringify(age)} is left of the end of ${JSON.stringify(name)}`);
  await row.click();
  const comment = page.locator(".quote").filter({ hasText: text });
  const direction = await comment.evaluate((element) => getComputedStyle(element).unicodeBidi);
  assert.equal(direction, "plaintext");
  assertNoProblems(page);
});
