// A real OpenID provider on loopback, behind a proxy that can falsify what it says; and a client that signs in there.

import { createPrivateKey, generateKeyPairSync, sign } from "node:crypto";
import http from "node:http";
import { pathToFileURL } from "node:url";

import { requireTool } from "./tools.mjs";

/** @typedef {Record<string, any>} Claims */
/** @typedef {(claims: Claims) => Claims | string} AlterToken returns other claims of an ID token, or another token */
/** @typedef {(request: http.IncomingMessage, response: http.ServerResponse) => boolean} Intercept */

const { Provider } = await import(pathToFileURL(requireTool.resolve("oidc-provider")).href);

export const CLIENT = "sluice-console";
export const SECRET = "what the provider knows the console by, and nobody else";
/** The console's address for browsers; these tests lead it to the gate. */
export const CONSOLE = "http://sluice.test";
export const CALLBACK = `${CONSOLE}/sluice/v1/session/callback`;

/** @param {unknown} value */
function encode(value) {
  return Buffer.from(typeof value === "string" ? value : JSON.stringify(value)).toString("base64url");
}

/** @param {string} text */
function decode(text) {
  return JSON.parse(Buffer.from(text, "base64url").toString());
}

/** @returns {import("node:crypto").JsonWebKey} */
function makeKey() {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  return { ...privateKey.export({ format: "jwk" }), kid: "k1", use: "sig", alg: "RS256" };
}

/**
 * Returns a token with these claims, signed with this key.
 * @param {Claims} claims
 * @param {import("node:crypto").JsonWebKey} jwk
 * @param {Claims} [header]
 */
export function signToken(claims, jwk, header = { alg: "RS256", kid: "k1", typ: "JWT" }) {
  const message = `${encode(header)}.${encode(claims)}`;
  const signature = sign("sha256", Buffer.from(message), createPrivateKey({ key: jwk, format: "jwk" }));
  return `${message}.${signature.toString("base64url")}`;
}

/**
 * Starts a server on a free port of the loopback address; returns the port.
 * @param {http.Server} server
 * @returns {Promise<number>}
 */
export async function listen(server) {
  await new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(undefined)));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the server has no port");
  return address.port;
}

/** The provider and the proxy before it. */
export class TestProvider {
  /** The person who signs in next. */
  person = { subject: "ops-1", roles: ["approver"] };
  /** @type {AlterToken | undefined} */
  alterToken = undefined;
  /**
   * Answers in the provider's place; returns false for requests that go on to the provider.
   * @type {Intercept | undefined}
   */
  intercept = undefined;
  codeSecs = 60;
  /**
   * Parts of every token that was issued.
   * @type {string[]}
   */
  secrets = [];
  jwk = makeKey();
  url = "";
  proxy = http.createServer((request, response) => this.handle(request, response));
  /** @type {any} */
  provider = undefined;
  /** @type {http.RequestListener} */
  handler = () => {};
  server = http.createServer((request, response) =>
    request.url?.startsWith("/interaction/") ? this.logIn(request, response) : this.handler(request, response),
  );
  serverPort = 0;

  static async start() {
    const test = new TestProvider();
    test.url = `http://127.0.0.1:${await listen(test.proxy)}`;
    test.provider = test.makeProvider();
    test.handler = test.provider.callback();
    test.serverPort = await listen(test.server);
    return test;
  }

  /** Behaves as an honest provider again. */
  reset() {
    this.person = { subject: "ops-1", roles: ["approver"] };
    this.alterToken = undefined;
    this.intercept = undefined;
    this.codeSecs = 60;
  }

  makeProvider() {
    const provider = new Provider(this.url, {
      clients: [
        {
          client_id: CLIENT,
          client_secret: SECRET,
          redirect_uris: [CALLBACK],
          grant_types: ["authorization_code"],
        },
      ],
      jwks: { keys: [this.jwk] },
      pkce: { required: () => true },
      claims: { openid: ["sub", "roles"] },
      conformIdTokenClaims: false,
      cookies: { keys: ["of these tests"] },
      features: { devInteractions: { enabled: false } },
      interactions: { url: (/** @type {any} */ _context, /** @type {any} */ { uid }) => `/interaction/${uid}` },
      ttl: {
        AuthorizationCode: () => this.codeSecs,
        IdToken: 3600,
        AccessToken: 600,
        Grant: 600,
        Session: 600,
        Interaction: 600,
      },
      findAccount: (/** @type {any} */ _context, /** @type {string} */ id) => ({
        accountId: id,
        claims: () => ({ sub: id, roles: this.person.roles }),
      }),
      loadExistingGrant: async (/** @type {any} */ context) => {
        const { client, session } = context.oidc;
        const grant = new provider.Grant({ clientId: client.clientId, accountId: session.accountId });
        grant.addOIDCScope("openid");
        await grant.save();
        return grant;
      },
    });
    return provider;
  }

  /**
   * @param {http.IncomingMessage} request
   * @param {http.ServerResponse} response
   */
  async logIn(request, response) {
    const result = { login: { accountId: this.person.subject, remember: false } };
    await this.provider.interactionFinished(request, response, result, { mergeWithLastSubmission: false });
  }

  /**
   * Sends a request on to the provider, unless `intercept` answers it.
   * @param {http.IncomingMessage} request
   * @param {http.ServerResponse} response
   */
  handle(request, response) {
    if (this.intercept?.(request, response)) return;
    const { url: path, method, headers } = request;
    const options = { host: "127.0.0.1", port: this.serverPort, path, method, headers };
    request.pipe(http.request(options, (answer) => this.relay(request, answer, response)));
  }

  /**
   * Sends the provider's answer back, with the tokens altered.
   * @param {http.IncomingMessage} request
   * @param {http.IncomingMessage} answer
   * @param {http.ServerResponse} response
   */
  async relay(request, answer, response) {
    const pieces = [];
    for await (const piece of answer) pieces.push(piece);
    let body = Buffer.concat(pieces);
    if (request.url?.startsWith("/token") && answer.statusCode === 200) {
      const content = JSON.parse(body.toString());
      if (this.alterToken) {
        const altered = this.alterToken(decode(content.id_token.split(".")[1]));
        content.id_token = typeof altered === "string" ? altered : signToken(altered, this.jwk);
      }
      this.secrets.push(content.id_token.split(".")[2], content.access_token);
      body = Buffer.from(JSON.stringify(content));
    }
    const headers = { ...answer.headers, "content-length": String(body.length) };
    delete headers["transfer-encoding"];
    response.writeHead(answer.statusCode ?? 502, headers);
    response.end(body);
  }

  async stop() {
    for (const server of [this.proxy, this.server]) {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  }
}

/** A browser without a page: it keeps cookies by host, and takes one step at a time. */
export class HttpClient {
  /** @type {Map<string, Map<string, string>>} */
  jars = new Map();

  /** @param {import("./gate.mjs").Gate} gate */
  constructor(gate) {
    this.gate = gate;
  }

  /**
   * Returns the cookies of a host.
   * @param {string} url
   */
  cookies(url) {
    const { host } = new URL(url);
    const jar = this.jars.get(host) ?? new Map();
    this.jars.set(host, jar);
    return jar;
  }

  /**
   * Makes a request, and follows no redirect.
   * @param {string} url
   */
  async get(url) {
    const jar = this.cookies(url);
    const target = url.startsWith(CONSOLE) ? url.replace(CONSOLE, this.gate.url) : url;
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(target, { redirect: "manual", headers: cookie ? { cookie } : {} });
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === "" || /max-age=0|expires=thu, 01 jan 1970/i.test(line)) jar.delete(name);
      else jar.set(name, value);
    }
    return response;
  }

  /** Begins to sign in at the console; returns the response, and the provider's address in it. */
  async beginSignIn(query = "") {
    const response = await this.get(`${CONSOLE}/sluice/v1/session/start${query}`);
    return { response, to: locationOf(response) };
  }

  /**
   * Logs in at the provider; returns the console's address to which the provider redirects.
   * @param {string} to
   */
  async logIn(to) {
    let url = to;
    for (let step = 0; step < 8 && !url.startsWith(CONSOLE); step += 1) {
      const response = await this.get(url);
      const next = locationOf(response);
      if (!next) throw new Error(`${url} does not redirect: ${response.status} ${await response.text()}`);
      url = new URL(next, url).href;
    }
    return url;
  }

  /**
   * Signs in; returns the last response. `alter` changes the address to which the provider redirects.
   * @param {(url: string) => string} [alter]
   */
  async signIn(alter = (url) => url) {
    return this.get(alter(await this.logIn((await this.beginSignIn()).to)));
  }

  async session() {
    const response = await this.get(`${CONSOLE}/sluice/v1/session`);
    return { status: response.status, body: await response.json() };
  }
}

/**
 * Returns the address to which a response redirects, or nothing.
 * @param {Response} response
 */
export function locationOf(response) {
  return response.headers.get("location") ?? "";
}
