// A real OpenID provider on loopback, and somebody before it who can be told to lie: what it says goes through him.

import { createPrivateKey, generateKeyPairSync, sign } from "node:crypto";
import http from "node:http";
import { pathToFileURL } from "node:url";

import { installed } from "./tools.mjs";

const { Provider } = await import(pathToFileURL(installed.resolve("oidc-provider")).href);

export const CLIENT = "sluice-console";
export const SECRET = "what the provider knows the console by, and nobody else";
/** What browsers call the console; these tests lead it to the gate. */
export const CONSOLE = "http://sluice.test";
export const CALLBACK = `${CONSOLE}/sluice/v1/session/callback`;

const encoded = (value) => Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
const decoded = (text) => JSON.parse(Buffer.from(text, "base64url").toString());

function key() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), kid: "k1", use: "sig", alg: "RS256" };
}

/** A token that says this, signed with this key. */
export function signed(claims, jwk, header = { alg: "RS256", kid: "k1", typ: "JWT" }) {
  const message = `${encoded(header)}.${encoded(claims)}`;
  const signature = sign("sha256", Buffer.from(message), createPrivateKey({ key: jwk, format: "jwk" }));
  return `${message}.${signature.toString("base64url")}`;
}

export class Issuer {
  /** Who signs in next, and what they are. */
  person = { subject: "ops-1", roles: ["approver"] };
  /** Makes other claims of those of an ID token, or another token altogether. */
  lie = undefined;
  /** Answers instead of the provider; what it does not answer goes on to it. */
  instead = undefined;
  codeSecs = 60;
  /** Every token and code that was given. */
  given = [];

  static async start() {
    const issuer = new Issuer();
    issuer.jwk = key();
    issuer.outer = http.createServer((request, response) => issuer.between(request, response));
    await new Promise((ready) => issuer.outer.listen(0, "127.0.0.1", ready));
    issuer.url = `http://127.0.0.1:${issuer.outer.address().port}`;
    issuer.provider = issuer.real();
    const inner = issuer.provider.callback();
    issuer.inner = http.createServer((request, response) =>
      request.url.startsWith("/interaction/") ? issuer.logIn(request, response) : inner(request, response),
    );
    await new Promise((ready) => issuer.inner.listen(0, "127.0.0.1", ready));
    return issuer;
  }

  real() {
    const provider = new Provider(this.url, {
      clients: [{ client_id: CLIENT, client_secret: SECRET, redirect_uris: [CALLBACK], grant_types: ["authorization_code"] }],
      jwks: { keys: [this.jwk] },
      pkce: { required: () => true },
      claims: { openid: ["sub", "roles"] },
      conformIdTokenClaims: false,
      cookies: { keys: ["of these tests"] },
      features: { devInteractions: { enabled: false } },
      interactions: { url: (_context, interaction) => `/interaction/${interaction.uid}` },
      ttl: { AuthorizationCode: () => this.codeSecs, IdToken: 3600, AccessToken: 600, Grant: 600, Session: 600, Interaction: 600 },
      findAccount: (_context, id) => ({ accountId: id, claims: () => ({ sub: id, roles: this.person.roles }) }),
      loadExistingGrant: async (context) => {
        const { client, session } = context.oidc;
        const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
        grant.addOIDCScope("openid");
        await grant.save();
        return grant;
      },
    });
    return provider;
  }

  async logIn(request, response) {
    const result = { login: { accountId: this.person.subject, remember: false } };
    await this.provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  }

  async between(request, response) {
    if (this.instead?.(request, response)) return;
    const { port } = this.inner.address();
    const options = { host: "127.0.0.1", port, path: request.url, method: request.method, headers: request.headers };
    const onward = http.request(options, (answer) => this.pass(request, answer, response));
    request.pipe(onward);
  }

  async pass(request, answer, response) {
    const pieces = [];
    for await (const piece of answer) pieces.push(piece);
    let body = Buffer.concat(pieces);
    if (request.url.startsWith("/token") && answer.statusCode === 200) {
      const told = JSON.parse(body);
      if (this.lie) {
        const lie = this.lie(decoded(told.id_token.split(".")[1]));
        told.id_token = typeof lie === "string" ? lie : signed(lie, this.jwk);
      }
      this.given.push(told.id_token.split(".")[2], told.access_token);
      body = Buffer.from(JSON.stringify(told));
    }
    const headers = { ...answer.headers, "content-length": body.length };
    delete headers["transfer-encoding"];
    response.writeHead(answer.statusCode, headers);
    response.end(body);
  }

  async stop() {
    for (const server of [this.outer, this.inner]) {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    }
  }
}

/** What a browser does of it, without a page: cookies by host, and one step at a time. */
export class Traveller {
  jars = new Map();

  constructor(gate) {
    this.gate = gate;
  }

  jar(url) {
    const { host } = new URL(url);
    if (!this.jars.has(host)) this.jars.set(host, new Map());
    return this.jars.get(host);
  }

  /** Asks, without following. */
  async ask(url, init = {}) {
    const jar = this.jar(url);
    const there = url.startsWith(CONSOLE) ? url.replace(CONSOLE, this.gate.url) : url;
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const headers = { ...(cookie ? { cookie } : {}), ...init.headers };
    const answer = await fetch(there, { redirect: "manual", ...init, headers });
    for (const line of answer.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      if (value === "" || /max-age=0|expires=thu, 01 jan 1970/i.test(line)) jar.delete(name);
      else jar.set(name, value);
    }
    return answer;
  }

  /** Begins at the console; where the browser is sent. */
  async leave() {
    const answer = await this.ask(`${CONSOLE}/sluice/v1/session/start`);
    return { answer, to: answer.headers.get("location") };
  }

  /** Logs in at the provider; where the browser is sent back to. */
  async logIn(to) {
    let url = to;
    for (let step = 0; step < 8 && !url.startsWith(CONSOLE); step += 1) {
      const answer = await this.ask(url);
      const next = answer.headers.get("location");
      if (!next) throw new Error(`no way on from ${url}: ${answer.status} ${await answer.text()}`);
      url = new URL(next, url).href;
    }
    return url;
  }

  /** The whole way; the last answer. */
  async signIn(change = (url) => url) {
    return this.ask(change(await this.logIn((await this.leave()).to)));
  }

  async session() {
    const answer = await this.ask(`${CONSOLE}/sluice/v1/session`);
    return { status: answer.status, body: await answer.json() };
  }
}
