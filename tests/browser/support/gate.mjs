// A gate before simulators, on free ports, with a console; all of it ends with `stop`.

import { execFile, spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import os from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import { SLUICE } from "./tools.mjs";

const START_MS = 30_000;
const SECRET = "known to these tests and to the gates that they start, nobody else";
const CALLERS = "https://callers.test";
const PEOPLE = "https://people.test";
const WALLET = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

/** Who signs what people show. */
const ISSUER_OF_PEOPLE = `issuer = "${PEOPLE}"
audience = ["sluice"]
environments = []
algorithms = ["HS256"]
roles = "roles"
shared_secret = "${SECRET}"`;

/** Small swaps go; larger ones wait for one of ops and one of finance. */
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

function encoded(value) {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

function signed(claims) {
  const now = Math.floor(Date.now() / 1000);
  const whole = { aud: "sluice", iat: now, exp: now + 4 * 3600, ...claims };
  const message = `${encoded({ alg: "HS256" })}.${encoded(whole)}`;
  return `${message}.${createHmac("sha256", SECRET).update(message).digest("base64url")}`;
}

/** The token of a person with these roles. */
export function person(subject, roles = ["approver"], claims = {}) {
  return signed({ iss: PEOPLE, sub: subject, roles, ...claims });
}

/** The body of a swap. */
export function swap(requestId, amount, more = {}) {
  return {
    requestId,
    source: { chain: "POLYGON", currency: "usdt", amount },
    destination: { chain: "POLYGON", currency: "usdc", walletAddress: WALLET },
    ...more,
  };
}

/** A program that runs, and what it says, line by line. */
class Running {
  constructor(args) {
    this.lines = [];
    this.listeners = new Set();
    this.child = spawn(SLUICE, args, { stdio: ["ignore", "pipe", "pipe"], env: {} });
    this.ended = new Promise((end) => this.child.once("exit", end));
    for (const stream of [this.child.stdout, this.child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => this.hear(line));
    }
  }

  hear(line) {
    this.lines.push(line);
    for (const listener of this.listeners) listener(line);
  }

  /** The first thing that `find` makes of a line. */
  until(find) {
    return new Promise((found, lost) => {
      const fail = (why) => lost(new Error(`${why}:\n${this.lines.slice(-12).join("\n")}`));
      const timer = setTimeout(() => fail("it is slow to start"), START_MS);
      const done = (settle, value) => {
        clearTimeout(timer);
        this.listeners.delete(look);
        settle(value);
      };
      const look = (line) => {
        const value = find(line);
        if (value !== undefined) done(found, value);
      };
      this.listeners.add(look);
      this.lines.forEach(look);
      this.ended.then((code) => done(() => fail(`it ended with ${code}`)));
    });
  }

  async stop(signal = "SIGTERM") {
    const timer = setTimeout(() => this.child.kill("SIGKILL"), 5_000);
    if (this.child.exitCode === null && this.child.signalCode === null) this.child.kill(signal);
    await this.ended;
    clearTimeout(timer);
  }
}

export class Gate {
  /**
   * Options: `rules`, the text of its policies; `people`, their issuer;
   * `console`, lines that stand in `[console]`; `general`, settings of no section;
   * `sandbox`, whether it serves that too; `tls`, whether people reach it by TLS alone.
   */
  static async start(options = {}) {
    const gate = new Gate();
    gate.folder = await mkdtemp(path.join(os.tmpdir(), "sluice-browser-"));
    gate.options = { rules: RULES, people: ISSUER_OF_PEOPLE, console: "", general: "", sandbox: false, tls: false, ...options };
    gate.simulators = [];
    gate.upstreams = {};
    for (const environment of gate.options.sandbox ? ["production", "sandbox"] : ["production"]) {
      const simulator = new Running(["simulate", "--listen", "127.0.0.1:0"]);
      gate.simulators.push(simulator);
      gate.upstreams[environment] = await simulator.until((line) => /127\.0\.0\.1:[0-9]+/.exec(line)?.[0]);
    }
    gate.ports = {};
    await mkdir(path.join(gate.folder, "policies"));
    await gate.rules(gate.options.rules);
    if (gate.options.tls) await gate.certify();
    try {
      await gate.again();
    } catch (failure) {
      await gate.stop();
      throw failure;
    }
    return gate;
  }

  /** Writes the policies; a gate that runs reads them by itself. */
  async rules(text) {
    await writeFile(path.join(this.folder, "policies", "everything.toml"), text);
  }

  /** Makes the key and the certificate that people see. */
  async certify() {
    const files = ["-keyout", path.join(this.folder, "key.pem"), "-out", path.join(this.folder, "certificate.pem")];
    const made = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=console"];
    await promisify(execFile)("openssl", ["req", ...made, "-addext", "subjectAltName=IP:127.0.0.1", ...files]);
  }

  /** Starts it where it was before. */
  async again() {
    await writeFile(path.join(this.folder, "sluice.toml"), this.configuration());
    this.process = new Running(["serve", "--config", path.join(this.folder, "sluice.toml")]);
    const wanted = { callers: "production", people: "console", probes: "probes" };
    const told = {};
    await this.process.until((line) => {
      const said = /"address":"([^"]+)".*?/.exec(line)?.[1];
      const what = /listening for (callers|people|probes)/.exec(line)?.[1];
      if (said && what) {
        const name = what === "callers" ? /"environment":"([a-z]+)"/.exec(line)[1] : wanted[what];
        told[name] = said;
      }
      return told.probes && told.console && told.production ? true : undefined;
    });
    this.ports = told;
    this.url = `${this.options.tls ? "https" : "http"}://${told.console}`;
  }

  async down(signal) {
    await this.process.stop(signal);
  }

  async stop() {
    await this.process.stop();
    for (const simulator of this.simulators) await simulator.stop();
    await rm(this.folder, { recursive: true, force: true });
  }

  /** A call of a caller; its status, headers and body. */
  async call(target, body, { subject = "payroll", environment = "production" } = {}) {
    const headers = { authorization: `Bearer ${signed({ iss: CALLERS, sub: subject })}`, "content-type": "application/json" };
    const answer = await fetch(`http://${this.ports[environment]}${target}`, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    return { status: answer.status, headers: answer.headers, body: await answer.json() };
  }

  async swap(requestId, amount, more) {
    return this.call("/v2/wallets/swaps", swap(requestId, amount, more));
  }

  /** A swap that waits; its hold. */
  async held(requestId, amount = "2500", more = {}) {
    const answer = await this.swap(requestId, amount, more);
    if (answer.status !== 202) throw new Error(`it does not wait: ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body.hold;
  }

  /** An act at the console with a person's token. */
  async act(method, target, token, body) {
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const whole = body === undefined ? undefined : JSON.stringify(body);
    const answer = await fetch(`${this.url}/sluice/v1/${target}`, { method, headers, body: whole });
    return { status: answer.status, body: await answer.json() };
  }

  /** What the simulator shall do next. */
  async fault(fault) {
    await fetch(`http://${this.upstreams.production}/simulator/faults`, { method: "POST", body: JSON.stringify(fault) });
  }

  async journal() {
    return (await fetch(`http://${this.upstreams.production}/simulator/journal`)).json();
  }

  configuration() {
    const at = (name) => this.ports[name] ?? "127.0.0.1:0";
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
${this.options.tls ? 'tls_certificate = "certificate.pem"\ntls_key = { file = "key.pem" }' : ""}
${this.options.console}
[probes]
listen = "${at("probes")}"
[timeouts]
answer_ms = 500
[reconcile]
first_look_ms = 100
[log]
format = "json"
`;
  }
}
