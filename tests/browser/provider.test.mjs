// Sign-in at an OpenID provider, a public package, which is honest or not.

import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { after, afterEach, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import { Gate } from "./support/gate.mjs";
import {
  CALLBACK,
  CLIENT,
  CONSOLE,
  HttpClient,
  locationOf,
  SECRET,
  signToken,
  TestProvider,
} from "./support/provider.mjs";

const provider = await TestProvider.start();
const gate = await Gate.start({
  people: `issuer = "${provider.url}"
audience = ["${CLIENT}"]
environments = []
algorithms = ["RS256"]
roles = "roles"
jwks_url = "${provider.url}/jwks"`,
  console: `public_url = "${CONSOLE}"
oidc_client_id = "${CLIENT}"
oidc_client_secret = "${SECRET}"
oidc_name = "the bank"`,
});

afterEach(() => provider.reset());

after(async () => {
  await gate.stop();
  await provider.stop();
  const output = gate.program?.lines.join("\n") ?? "";
  for (const secret of [SECRET, ...provider.secrets]) assert.ok(!output.includes(secret), "the gate logged a secret");
});

/** @param {Response} response */
const cookies = (response) => response.headers.getSetCookie();

/**
 * Checks that a response signs nobody in, and gives the page this reason.
 * @param {HttpClient} client
 * @param {Response} response
 * @param {string} reason
 */
async function assertRefused(client, response, reason) {
  assert.equal(response.status, 303);
  assert.equal(locationOf(response), `/#error=${reason}`);
  assert.ok(!cookies(response).some((line) => line.startsWith("sluice-session=")), reason);
  assert.equal((await client.session()).status, 401);
}

/**
 * Checks that the gate refuses an altered token.
 * @param {import("./support/provider.mjs").AlterToken} alter
 */
async function assertTokenRefused(alter) {
  provider.alterToken = alter;
  const client = new HttpClient(gate);
  await assertRefused(client, await client.signIn(), "invalid-token");
}

test("a session lasts no longer than the token", async () => {
  const ways = await (await fetch(`${gate.url}/sluice/v1/session/ways`)).json();
  assert.deepEqual(ways, { token: true, oidc: { name: "the bank" } });
  const client = new HttpClient(gate);
  const { response, to } = await client.beginSignIn();
  assert.equal(response.status, 302);
  const address = new URL(to);
  assert.equal(address.origin, provider.url);
  const parameters = Object.fromEntries(address.searchParams);
  const { state, nonce, code_challenge, ...plain } = parameters;
  assert.deepEqual(plain, {
    response_type: "code",
    client_id: CLIENT,
    redirect_uri: CALLBACK,
    scope: "openid",
    code_challenge_method: "S256",
  });
  for (const one of [state, nonce, code_challenge]) assert.match(one, /^[A-Za-z0-9_-]{43}$/);
  const [kept] = cookies(response);
  assert.match(kept, /^sluice-sign-in=[^;]+; Path=\/; HttpOnly; SameSite=Lax; Max-Age=600$/);
  for (const one of [state, nonce, code_challenge]) assert.ok(!kept.includes(one));

  let expires = 0;
  provider.alterToken = (claims) => {
    expires = claims.exp;
    return claims;
  };
  const back = await client.get(await client.logIn(to));
  assert.equal(back.status, 303);
  assert.equal(locationOf(back), "/");
  assert.equal(back.headers.get("cache-control"), "no-store");
  assert.ok(
    cookies(back).some((line) => /^sluice-session=[A-Za-z0-9_-]{43}; Path=\/; HttpOnly; SameSite=Strict$/.test(line)),
  );
  assert.ok(cookies(back).some((line) => /^sluice-sign-in=; .*Max-Age=0$/.test(line)));
  const session = await client.session();
  assert.equal(session.status, 200);
  assert.deepEqual(session.body.person, { issuer: "people", subject: "ops-1" });
  assert.deepEqual(session.body.roles, ["approver"]);
  // The leeway of the provider is 30 seconds.
  assert.ok(Date.parse(session.body.expiresAt) / 1000 <= expires + 31);
});

test("a session ends soon and begins again silently, with the roles of today", async () => {
  const client = new HttpClient(gate);
  assert.equal(locationOf(await client.signIn()), "/");
  const { body } = await client.session();
  assert.equal(body.renews, true);
  assert.ok(Date.parse(body.expiresAt) - Date.now() <= 901_000, body.expiresAt);
  const renew = async () => {
    const { to } = await client.beginSignIn("?silent=true");
    assert.equal(new URL(to).searchParams.get("prompt"), "none");
    return locationOf(await client.get(await client.logIn(to)));
  };
  provider.person = { subject: "ops-1", roles: ["viewer"] };
  assert.equal(await renew(), "/");
  assert.deepEqual((await client.session()).body.roles, ["viewer"]);
  provider.person = { subject: "ops-1", roles: [] };
  assert.equal(await renew(), "/#error=no-role");

  const stranger = new HttpClient(gate);
  const { to } = await stranger.beginSignIn("?silent=true");
  await assertRefused(stranger, await stranger.get(await stranger.logIn(to)), "signed-out");
  assert.equal((await stranger.get(`${CONSOLE}/sluice/v1/session/start?silent=false`)).status, 400);
});

test("an answer to another sign-in is refused", async () => {
  const client = new HttpClient(gate);
  const other = await client.signIn((url) => url.replace(/state=[^&]*/, `state=${"A".repeat(43)}`));
  await assertRefused(client, other, "other-browser");
  const without = await client.signIn((url) => url.replace(/state=[^&]*&?/, ""));
  await assertRefused(client, without, "other-browser");
  const twice = await client.signIn((url) => `${url}&code=another`);
  await assertRefused(client, twice, "provider");
});

test("nobody can sign a browser in as somebody else", async () => {
  const [mallory, victim] = [new HttpClient(gate), new HttpClient(gate)];
  const back = await mallory.logIn((await mallory.beginSignIn()).to);
  await assertRefused(victim, await victim.get(back), "other-browser");
  const { to } = await victim.beginSignIn();
  await assertRefused(victim, await victim.get(back), "other-browser");
  // The victim's own sign-in still works.
  assert.equal(locationOf(await victim.get(await victim.logIn(to))), "/");
});

test("an answer works once, and a code only for its own sign-in", async () => {
  const client = new HttpClient(gate);
  const { to } = await client.beginSignIn();
  const kept = new Map(client.cookies(CONSOLE));
  const back = await client.logIn(to);
  assert.equal(locationOf(await client.get(back)), "/");
  const again = new HttpClient(gate);
  for (const [name, value] of kept) again.cookies(CONSOLE).set(name, value);
  await assertRefused(again, await again.get(back), "other-browser");

  const [mallory, victim] = [new HttpClient(gate), new HttpClient(gate)];
  const stolen = new URL(await victim.logIn((await victim.beginSignIn()).to)).searchParams.get("code") ?? "";
  const answer = await mallory.signIn((url) => url.replace(/code=[^&]*/, `code=${encodeURIComponent(stolen)}`));
  await assertRefused(mallory, answer, "expired");
});

test("an old code is refused", async () => {
  provider.codeSecs = 1;
  const client = new HttpClient(gate);
  const back = await client.logIn((await client.beginSignIn()).to);
  await pause(2_100);
  await assertRefused(client, await client.get(back), "expired");
});

test("a token with another nonce, audience, issuer, key or time is refused", async () => {
  await assertTokenRefused((claims) => ({ ...claims, nonce: "another" }));
  await assertTokenRefused(({ nonce, ...claims }) => claims);
  await assertTokenRefused((claims) => ({ ...claims, aud: "another" }));
  await assertTokenRefused((claims) => ({ ...claims, aud: [CLIENT, "another"] }));
  await assertTokenRefused((claims) => ({ ...claims, aud: [CLIENT, "another"], azp: "another" }));
  await assertTokenRefused((claims) => ({ ...claims, azp: "another" }));
  await assertTokenRefused((claims) => ({ ...claims, iss: "http://127.0.0.1:1" }));
  await assertTokenRefused((claims) => ({ ...claims, iss: `${provider.url}/` }));
  await assertTokenRefused((claims) => ({ ...claims, exp: claims.iat - 3600, iat: claims.iat - 7200 }));
  await assertTokenRefused((claims) => ({ ...claims, iat: claims.iat + 3600, exp: claims.exp + 3600 }));
  await assertTokenRefused(({ iat, ...claims }) => claims);
  await assertTokenRefused(({ sub, ...claims }) => claims);
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  await assertTokenRefused((claims) => signToken(claims, privateKey.export({ format: "jwk" })));
  await assertTokenRefused((claims) => signToken(claims, provider.jwk, { alg: "none" }));
  await assertTokenRefused((claims) => signToken(claims, provider.jwk, { alg: "RS256", kid: "k1", jwk: {} }));
  await assertTokenRefused(() => "x");
  provider.alterToken = (claims) => ({ ...claims, aud: [CLIENT, "another"], azp: CLIENT });
  assert.equal(locationOf(await new HttpClient(gate).signIn()), "/");
});

test("an answer of another provider is refused", async () => {
  const client = new HttpClient(gate);
  const other = await client.signIn((url) => url.replace(/iss=[^&]*/, `iss=${encodeURIComponent("http://evil.test")}`));
  await assertRefused(client, other, "provider");
  const silent = await client.signIn((url) => url.replace(/[&?]iss=[^&]*/, ""));
  await assertRefused(client, silent, "provider");
});

test("the page explains a missing role and the provider's refusal", async () => {
  const client = new HttpClient(gate);
  provider.person = { subject: "guest", roles: ["janitor"] };
  await assertRefused(client, await client.signIn(), "no-role");
  const declined = await client.signIn((url) =>
    url.replace(/code=[^&]*/, "error=access_denied&error_description=%3Cb%3E"),
  );
  await assertRefused(client, declined, "declined");
});

test("no parameter of a request changes where the browser is sent", async () => {
  const client = new HttpClient(gate);
  const begun = await client.get(`${CONSOLE}/sluice/v1/session/start?next=https%3A%2F%2Fevil.test`);
  assert.ok(begun.status === 400 || locationOf(begun).startsWith(`${provider.url}/`));
  const back = await client.signIn((url) => `${url}&next=https%3A%2F%2Fevil.test&redirect_uri=%2F%2Fevil.test`);
  assert.equal(locationOf(back), "/");
});

test("an unreachable or broken provider signs nobody in", async () => {
  /** @type {[number, Record<string, string>, string][]} */
  const answers = [
    [500, {}, "{}"],
    [200, {}, "<html>"],
    [200, {}, "{}"],
    [200, {}, JSON.stringify({ id_token: 7 })],
    [302, { location: "http://127.0.0.1:1/" }, ""],
    [200, {}, " ".repeat(400_000)],
  ];
  for (const [status, headers, body] of answers) {
    const client = new HttpClient(gate);
    const back = await client.logIn((await client.beginSignIn()).to);
    provider.intercept = (request, response) => {
      if (!request.url?.startsWith("/token")) return false;
      response.writeHead(status, headers).end(body);
      return true;
    };
    await assertRefused(client, await client.get(back), "provider");
    provider.intercept = undefined;
  }
});

test("a provider with another issuer in its metadata is not used", async () => {
  const another = await TestProvider.start();
  another.intercept = (request, response) => {
    if (!request.url?.startsWith("/.well-known/")) return false;
    const metadata = {
      issuer: "http://127.0.0.1:1",
      authorization_endpoint: "http://127.0.0.1:1/a",
      token_endpoint: "http://127.0.0.1:1/t",
    };
    response.end(JSON.stringify(metadata));
    return true;
  };
  const people = gate.options.people.replaceAll(provider.url, another.url);
  const misled = await Gate.start({ people, console: gate.options.console });
  try {
    const client = new HttpClient(misled);
    await assertRefused(client, (await client.beginSignIn()).response, "provider");
  } finally {
    await misled.stop();
    await another.stop();
  }
});
