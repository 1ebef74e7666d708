// A gate before simulators, on free ports, with a console. All of it ends with `stop`.

import { execFile, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { promisify } from "node:util";

import { SLUICE } from "./tools.mjs";

/**
 * @typedef {object} GateOptions
 * @property {string} [rules] the text of the policies
 * @property {string} [people] the settings of the issuer of people
 * @property {string} [console] more lines of `[console]`
 * @property {string} [general] settings before the first section
 * @property {boolean} [sandbox] also serves the sandbox
 * @property {boolean} [signed] signs a checkpoint of the journal each second
 * @property {boolean} [tls] serves the console by TLS only
 */

const START_MS = 30_000;
const SECRET = "known to these tests and to the gates that they start, nobody else";
const CALLERS = "https://callers.test";
const PEOPLE = "https://people.test";
const WALLET = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

/** The settings of the issuer whose tokens the tests sign. */
const PEOPLE_ISSUER = `issuer = "${PEOPLE}"
audience = ["sluice"]
environments = []
algorithms = ["HS256"]
roles = "roles"
shared_secret = "${SECRET}"`;

/** Small swaps are allowed; larger ones need one of ops and one of finance. */
export const RULES = `
[[rule]]
id = "reads"
effect = "allow"
when = { op = "@read" }
[[rule]]
id = "small"
effect = "allow"
when = { op = ["createSwap"], amount = "(0, 1000] USD" }
[[rule]]
id = "larger"
effect = "hold"
approval = "payment"
when = { op = ["createSwap"], amount = "(1000, inf) USD" }
[[rule]]
id = "changes"
effect = "hold"
approval = "change"
when = { op = ["updateUser", "acceptOffer"] }
[[limit]]
id = "all-payments"
ops = ["createSwap"]
window = "rolling 24h"
per = ["environment"]
max = "100000 USD"
over = "deny"
[approval.payment]
all = [{ of = "ops", n = 1 }, { of = "finance", n = 1 }]
expires = "8h"
[approval.change]
of = "ops"
n = 1
expires = "24h"
[group.ops]
members = ["people:ops-1", "people:ops-2", "people:ops-3"]
[group.finance]
members = ["people:finance-1", "people:finance-2"]
`;

/** @param {unknown} value */
function base64Json(value) {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

/** @param {Record<string, unknown>} claims */
function signToken(claims) {
  const now = Math.floor(Date.now() / 1000);
  const all = { aud: "sluice", iat: now, exp: now + 4 * 3600, ...claims };
  const message = `${base64Json({ alg: "HS256" })}.${base64Json(all)}`;
  return `${message}.${createHmac("sha256", SECRET).update(message).digest("base64url")}`;
}

/**
 * Returns the token of a person with these roles.
 * @param {string} subject
 */
export function personToken(subject, roles = ["approver"]) {
  return signToken({ iss: PEOPLE, sub: subject, roles });
}

/**
 * Returns the body of a swap.
 * @param {string} requestId
 * @param {string} amount
 * @param {Record<string, unknown>} [more]
 */
export function swapBody(requestId, amount, more = {}) {
  return {
    requestId,
    source: { chain: "POLYGON", currency: "usdt", amount },
    destination: { chain: "POLYGON", currency: "usdc", walletAddress: WALLET },
    ...more,
  };
}

/** A child process, and its output line by line. */
export class Program {
  /**
   * @param {string[]} args
   * @param {Record<string, string>} [env]
   */
  constructor(args, env = {}) {
    /** @type {string[]} */
    this.lines = [];
    /** @type {Set<(line: string) => void>} */
    this.listeners = new Set();
    this.child = spawn(SLUICE, args, { stdio: ["ignore", "pipe", "pipe"], env });
    this.ended = new Promise((resolve) => this.child.once("exit", resolve));
    for (const stream of [this.child.stdout, this.child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => this.receive(line));
    }
  }

  /** @param {string} line */
  receive(line) {
    this.lines.push(line);
    for (const listener of this.listeners) listener(line);
  }

  /**
   * Waits for the first line of which `find` returns a value.
   * @template T
   * @param {(line: string) => T | undefined} find
   * @returns {Promise<T>}
   */
  waitFor(find) {
    return new Promise((resolve, reject) => {
      const finish = () => {
        clearTimeout(timer);
        this.listeners.delete(listen);
      };
      /** @param {string} why */
      const fail = (why) => {
        finish();
        reject(new Error(`${why}:\n${this.lines.slice(-12).join("\n")}`));
      };
      /** @param {string} line */
      const listen = (line) => {
        const value = find(line);
        if (value === undefined) return;
        finish();
        resolve(value);
      };
      const timer = setTimeout(() => fail("the program starts too slowly"), START_MS);
      this.listeners.add(listen);
      this.lines.forEach(listen);
      this.ended.then((code) => fail(`the program ended with ${code}`));
    });
  }

  /** @param {NodeJS.Signals} [signal] */
  async stop(signal = "SIGTERM") {
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 5_000);
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill(signal);
    await this.ended;
    clearTimeout(timer);
  }
}

export class Gate {
  /**
   * @param {string} folder
   * @param {Required<GateOptions>} options
   */
  constructor(folder, options) {
    this.folder = folder;
    this.options = options;
    /** @type {Program[]} */
    this.simulators = [];
    /**
     * The simulators' addresses, by environment.
     * @type {Record<string, string>}
     */
    this.upstreams = {};
    /**
     * The gate's own addresses: each environment, `console` and `probes`.
     * @type {Record<string, string>}
     */
    this.addresses = {};
    /** @type {Program | undefined} */
    this.program = undefined;
    /** The console's address. */
    this.url = "";
  }

  /** @param {GateOptions} [options] */
  static async start(options = {}) {
    const folder = await mkdtemp(path.join(os.tmpdir(), "sluice-browser-"));
    const gate = new Gate(folder, {
      rules: RULES,
      people: PEOPLE_ISSUER,
      console: "",
      general: "",
      sandbox: false,
      signed: false,
      tls: false,
      ...options,
    });
    for (const environment of gate.options.sandbox ? ["production", "sandbox"] : ["production"]) {
      const simulator = new Program(["simulate", "--listen", "127.0.0.1:0"]);
      gate.simulators.push(simulator);
      gate.upstreams[environment] = await simulator.waitFor((line) => /127\.0\.0\.1:[0-9]+/.exec(line)?.[0]);
    }
    await mkdir(path.join(folder, "policies"));
    await gate.writePolicies(gate.options.rules);
    if (gate.options.tls) await gate.makeCertificate();
    if (gate.options.signed) await promisify(execFile)(SLUICE, ["audit", "key", path.join(folder, "log.pem")]);
    await gate.createStore();
    try {
      await gate.serve();
    } catch (error) {
      await gate.stop();
      throw error;
    }
    return gate;
  }

  /**
   * Writes the policies; a running gate loads them by itself.
   * @param {string} text
   */
  async writePolicies(text) {
    await writeFile(path.join(this.folder, "policies", "everything.toml"), text);
  }

  /** Makes the key and the certificate of the console. */
  async makeCertificate() {
    const files = ["-keyout", path.join(this.folder, "key.pem"), "-out", path.join(this.folder, "certificate.pem")];
    const kind = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=console".split(" ");
    // Commands trust it by `--ca`.
    const extensions = ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE"];
    await promisify(execFile)("openssl", ["req", ...kind, ...extensions, ...files]);
  }

  /** Creates the store of production, which a gate never does. */
  async createStore() {
    const config = path.join(this.folder, "sluice.toml");
    await writeFile(config, this.configuration());
    await promisify(execFile)(SLUICE, ["store", "create", "--config", config]);
  }

  /** Starts the gate, at the same addresses as before if it ran before. */
  async serve() {
    const config = path.join(this.folder, "sluice.toml");
    await writeFile(config, this.configuration());
    this.program = new Program(["serve", "--config", config]);
    /** @type {Record<string, string>} */
    const addresses = {};
    await this.program.waitFor((line) => {
      const address = /"address":"([^"]+)"/.exec(line)?.[1];
      const listeners = /listening for (callers|people|probes)/.exec(line)?.[1];
      if (address && listeners === "callers") addresses[/"environment":"([a-z]+)"/.exec(line)?.[1] ?? ""] = address;
      else if (address && listeners) addresses[listeners === "people" ? "console" : "probes"] = address;
      return addresses.probes && addresses.console && addresses.production ? true : undefined;
    });
    this.addresses = addresses;
    this.url = `${this.options.tls ? "https" : "http"}://${addresses.console}`;
  }

  /** Kills the gate; `serve` starts it again. */
  async kill() {
    await this.program?.stop("SIGKILL");
  }

  async stop() {
    await this.program?.stop();
    for (const simulator of this.simulators) await simulator.stop();
    await rm(this.folder, { recursive: true, force: true });
  }

  /**
   * Makes a call as a service.
   * @param {string} target
   * @param {unknown} [body]
   * @returns {Promise<{ status: number, headers: Headers, body: any }>}
   */
  async call(target, body, { subject = "payroll", environment = "production", method = body ? "POST" : "GET" } = {}) {
    const headers = {
      authorization: `Bearer ${signToken({ iss: CALLERS, sub: subject })}`,
      "content-type": "application/json",
    };
    const response = await fetch(`http://${this.addresses[environment]}${target}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    return { status: response.status, headers: response.headers, body: await response.json() };
  }

  /**
   * @param {string} requestId
   * @param {string} amount
   * @param {Record<string, unknown>} [more]
   */
  async swap(requestId, amount, more) {
    return this.call("/v2/wallets/swaps", swapBody(requestId, amount, more));
  }

  /**
   * Makes a swap that the rules hold; returns its hold.
   * @param {string} requestId
   */
  async holdSwap(requestId, amount = "2500") {
    const { status, body } = await this.swap(requestId, amount);
    if (status !== 202) throw new Error(`the swap is not held: ${status} ${JSON.stringify(body)}`);
    return body.hold;
  }

  /**
   * Calls the console's API with a person's token.
   * @param {string} method
   * @param {string} target
   * @param {string} token
   * @param {unknown} [body]
   * @returns {Promise<{ status: number, body: any }>}
   */
  async callConsole(method, target, token, body) {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const text = body === undefined ? undefined : JSON.stringify(body);
    const response = await fetch(`${this.url}/sluice/v1/${target}`, { method, headers, body: text });
    return { status: response.status, body: await response.json() };
  }

  /**
   * Tells the simulator of production to fail.
   * @param {Record<string, unknown>} fault
   */
  async addFault(fault) {
    await fetch(`http://${this.upstreams.production}/simulator/faults`, {
      method: "POST",
      body: JSON.stringify(fault),
    });
  }

  configuration() {
    /** @param {string} name */
    const at = (name) => this.addresses[name] ?? "127.0.0.1:0";
    const sandbox = `[sandbox]\nlisten = "${at("sandbox")}"\nupstream = "http://${this.upstreams.sandbox}"\ncredential = "the-sandbox-s-own-token"\n`;
    return `policies = "policies"
${this.options.general}
[production]
listen = "${at("production")}"
upstream = "http://${this.upstreams.production}"
credential = "upstream-s-own-token"
${this.options.sandbox ? sandbox : ""}
[issuer.callers]
issuer = "${CALLERS}"
audience = ["sluice"]
environments = ["production"${this.options.sandbox ? ', "sandbox"' : ""}]
algorithms = ["HS256"]
shared_secret = "${SECRET}"
[issuer.people]
${this.options.people}
[console]
listen = "${at("console")}"
issuer = "people"
hosts = ["console.test"]
${this.options.tls ? 'tls_certificate = "certificate.pem"\ntls_key = { file = "key.pem" }' : ""}
${this.options.console}
${this.options.signed ? '[audit]\ncheckpoint_key = { file = "log.pem" }\ncheckpoint_seconds = 1' : ""}
[probes]
listen = "${at("probes")}"
[timeouts]
commit_ms = 2_000
connect_ms = 500
tls_handshake_ms = 500
write_ms = 500
answer_ms = 500
upstream_max_ms = 500
[reconcile]
first_look_ms = 100
[log]
format = "json"
`;
  }
}
