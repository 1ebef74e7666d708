// Signing in at an OpenID provider that is a public package, honest and otherwise.

import assert from "node:assert/strict";
import { generateKeyPairSync } from "node:crypto";
import { after, afterEach, before, test } from "node:test";
import { setTimeout as pass } from "node:timers/promises";

import { Gate } from "./support/gate.mjs";
import { CALLBACK, CLIENT, CONSOLE, Issuer, SECRET, Traveller, signed } from "./support/provider.mjs";

let issuer, gate;

before(async () => {
  issuer = await Issuer.start();
  gate = await Gate.start({
    people: `issuer = "${issuer.url}"
audience = ["${CLIENT}"]
environments = []
algorithms = ["RS256"]
roles = "roles"
jwks_url = "${issuer.url}/jwks"`,
    console: `public_url = "${CONSOLE}"
oidc_client_id = "${CLIENT}"
oidc_client_secret = "${SECRET}"
oidc_name = "the bank"`,
  });
});

afterEach(() => {
  Object.assign(issuer, { person: { subject: "ops-1", roles: ["approver"] }, lie: undefined, instead: undefined, codeSecs: 60 });
});

after(async () => {
  await gate.stop();
  await issuer.stop();
  const said = gate.process.lines.join("\n");
  for (const secret of [SECRET, ...issuer.given]) assert.ok(!said.includes(secret), "the gate told a secret");
});

const cookies = (answer) => answer.headers.getSetCookie();
const place = (answer) => answer.headers.get("location");

/** Nobody is signed in by this, and the page is told why. */
async function refused(traveller, answer, why) {
  assert.equal(answer.status, 303);
  assert.equal(place(answer), `/#error=${why}`);
  assert.ok(!cookies(answer).some((line) => line.startsWith("sluice-session=")), why);
  assert.equal((await traveller.session()).status, 401);
}

/** The same, where the provider says this. */
async function disbelieved(lie) {
  issuer.lie = lie;
  const traveller = new Traveller(gate);
  await refused(traveller, await traveller.signIn(), "not-believed");
}

test("a person comes back with a session that is no longer than the token", async () => {
  const ways = await (await fetch(`${gate.url}/sluice/v1/session/ways`)).json();
  assert.deepEqual(ways, { token: true, oidc: { name: "the bank" } });
  const traveller = new Traveller(gate);
  const { answer, to } = await traveller.leave();
  assert.equal(answer.status, 302);
  const asked = new URL(to);
  assert.equal(asked.origin, issuer.url);
  const parameters = Object.fromEntries(asked.searchParams);
  const { state, nonce, code_challenge, ...plain } = parameters;
  assert.deepEqual(plain, {
    response_type: "code", client_id: CLIENT, redirect_uri: CALLBACK, scope: "openid", code_challenge_method: "S256",
  });
  for (const one of [state, nonce, code_challenge]) assert.match(one, /^[A-Za-z0-9_-]{43}$/);
  const [kept] = cookies(answer);
  assert.match(kept, /^sluice-sign-in=[^;]+; Path=\/; HttpOnly; SameSite=Lax; Max-Age=600$/);
  for (const one of [state, nonce, code_challenge]) assert.ok(!kept.includes(one));

  let expires;
  issuer.lie = (claims) => {
    expires = claims.exp;
    return claims;
  };
  const back = await traveller.ask(await traveller.logIn(to));
  assert.equal(back.status, 303);
  assert.equal(place(back), "/");
  assert.equal(back.headers.get("cache-control"), "no-store");
  assert.ok(cookies(back).some((line) => /^sluice-session=[A-Za-z0-9_-]{43}; Path=\/; HttpOnly; SameSite=Strict$/.test(line)));
  assert.ok(cookies(back).some((line) => /^sluice-sign-in=; .*Max-Age=0$/.test(line)));
  const session = await traveller.session();
  assert.equal(session.status, 200);
  assert.deepEqual(session.body.person, { issuer: "people", subject: "ops-1" });
  assert.deepEqual(session.body.roles, ["approver"]);
  // The leeway of the issuer is 30 seconds.
  assert.ok(Date.parse(session.body.expiresAt) / 1000 <= expires + 31);
});

test("an answer to another sign-in signs nobody in", async () => {
  const traveller = new Traveller(gate);
  const other = await traveller.signIn((url) => url.replace(/state=[^&]*/, `state=${"A".repeat(43)}`));
  await refused(traveller, other, "other-browser");
  const without = await traveller.signIn((url) => url.replace(/state=[^&]*&?/, ""));
  await refused(traveller, without, "other-browser");
  const twice = await traveller.signIn((url) => `${url}&code=another`);
  await refused(traveller, twice, "provider");
});

test("a browser is not signed in as somebody else who began", async () => {
  const [mallory, victim] = [new Traveller(gate), new Traveller(gate)];
  const back = await mallory.logIn((await mallory.leave()).to);
  await refused(victim, await victim.ask(back), "other-browser");
  const { to } = await victim.leave();
  await refused(victim, await victim.ask(back), "other-browser");
  // What the victim began goes on all the same.
  assert.equal(place(await victim.ask(await victim.logIn(to))), "/");
});

test("an answer is good once, and a code for its own sign-in alone", async () => {
  const traveller = new Traveller(gate);
  const { to } = await traveller.leave();
  const kept = new Map(traveller.jar(CONSOLE));
  const back = await traveller.logIn(to);
  assert.equal(place(await traveller.ask(back)), "/");
  const again = new Traveller(gate);
  for (const [name, value] of kept) again.jar(CONSOLE).set(name, value);
  await refused(again, await again.ask(back), "other-browser");

  const [mallory, victim] = [new Traveller(gate), new Traveller(gate)];
  const stolen = new URL(await victim.logIn((await victim.leave()).to)).searchParams.get("code");
  const answer = await mallory.signIn((url) => url.replace(/code=[^&]*/, `code=${encodeURIComponent(stolen)}`));
  await refused(mallory, answer, "expired");
});

test("a code that is too old signs nobody in", async () => {
  issuer.codeSecs = 1;
  const traveller = new Traveller(gate);
  const back = await traveller.logIn((await traveller.leave()).to);
  await pass(2_100);
  await refused(traveller, await traveller.ask(back), "expired");
});

test("a token for another sign-in, another client, by another issuer or key, or of another time is not believed", async () => {
  await disbelieved((claims) => ({ ...claims, nonce: "another" }));
  await disbelieved(({ nonce, ...claims }) => claims);
  await disbelieved((claims) => ({ ...claims, aud: "another" }));
  await disbelieved((claims) => ({ ...claims, aud: [CLIENT, "another"] }));
  await disbelieved((claims) => ({ ...claims, aud: [CLIENT, "another"], azp: "another" }));
  await disbelieved((claims) => ({ ...claims, azp: "another" }));
  await disbelieved((claims) => ({ ...claims, iss: "http://127.0.0.1:1" }));
  await disbelieved((claims) => ({ ...claims, iss: `${issuer.url}/` }));
  await disbelieved((claims) => ({ ...claims, exp: claims.iat - 3600, iat: claims.iat - 7200 }));
  await disbelieved((claims) => ({ ...claims, iat: claims.iat + 3600, exp: claims.exp + 3600 }));
  await disbelieved(({ iat, ...claims }) => claims);
  await disbelieved(({ sub, ...claims }) => claims);
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  await disbelieved((claims) => signed(claims, privateKey.export({ format: "jwk" })));
  await disbelieved((claims) => signed(claims, issuer.jwk, { alg: "none" }));
  await disbelieved((claims) => signed(claims, issuer.jwk, { alg: "RS256", kid: "k1", jwk: {} }));
  await disbelieved(() => "x");
  issuer.lie = (claims) => ({ ...claims, aud: [CLIENT, "another"], azp: CLIENT });
  assert.equal(place(await new Traveller(gate).signIn()), "/");
});

test("an answer of another provider is not carried to this one", async () => {
  const traveller = new Traveller(gate);
  const told = await traveller.signIn((url) => url.replace(/iss=[^&]*/, `iss=${encodeURIComponent("http://evil.test")}`));
  await refused(traveller, told, "provider");
  const silent = await traveller.signIn((url) => url.replace(/[&?]iss=[^&]*/, ""));
  await refused(traveller, silent, "provider");
});

test("who has no role here, or is refused by the provider, is told so", async () => {
  const traveller = new Traveller(gate);
  issuer.person = { subject: "guest", roles: ["janitor"] };
  await refused(traveller, await traveller.signIn(), "no-role");
  const declined = await traveller.signIn((url) => url.replace(/code=[^&]*/, "error=access_denied&error_description=%3Cb%3E"));
  await refused(traveller, declined, "declined");
});

test("a browser is sent nowhere that a request names", async () => {
  const traveller = new Traveller(gate);
  const begun = await traveller.ask(`${CONSOLE}/sluice/v1/session/start?next=https%3A%2F%2Fevil.test`);
  assert.ok(begun.status === 400 || place(begun).startsWith(`${issuer.url}/`));
  const back = await traveller.signIn((url) => `${url}&next=https%3A%2F%2Fevil.test&redirect_uri=%2F%2Fevil.test`);
  assert.equal(place(back), "/");
});

test("a provider that is away, or tells nonsense, signs nobody in", async () => {
  for (const [status, headers, body] of [
    [500, {}, "{}"],
    [200, {}, "<html>"],
    [200, {}, "{}"],
    [200, {}, JSON.stringify({ id_token: 7 })],
    [302, { location: "http://127.0.0.1:1/" }, ""],
    [200, {}, " ".repeat(400_000)],
  ]) {
    const traveller = new Traveller(gate);
    const back = await traveller.logIn((await traveller.leave()).to);
    issuer.instead = (request, response) => {
      if (!request.url.startsWith("/token")) return false;
      response.writeHead(status, headers).end(body);
      return true;
    };
    await refused(traveller, await traveller.ask(back), "provider");
    issuer.instead = undefined;
  }
});

test("a provider that calls itself otherwise is not asked", async () => {
  const another = await Issuer.start();
  another.instead = (request, response) => {
    if (!request.url.startsWith("/.well-known/")) return false;
    const told = { issuer: "http://127.0.0.1:1", authorization_endpoint: "http://127.0.0.1:1/a", token_endpoint: "http://127.0.0.1:1/t" };
    response.end(JSON.stringify(told));
    return true;
  };
  const people = gate.options.people.replaceAll(issuer.url, another.url);
  const misled = await Gate.start({ people, console: gate.options.console });
  try {
    const traveller = new Traveller(misled);
    await refused(traveller, (await traveller.leave()).answer, "provider");
  } finally {
    await misled.stop();
    await another.stop();
  }
});
