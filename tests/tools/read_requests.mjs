// Reads HTTP/1.1 as a Node service would: each line of input is a stream in hex, each line of output is what the parser
// of Node (llhttp) reads in it: a list of requests, or `refused`.

import { createServer } from "node:http";
import { createInterface } from "node:readline";
import { Duplex } from "node:stream";

/** @typedef {{ method?: string, target?: string, headers: string[][], content: string }} ReadRequest */

/**
 * @param {string} line
 * @returns {Promise<ReadRequest[] | "refused">}
 */
function readStream(line) {
  return new Promise((resolve) => {
    /** @type {ReadRequest[]} */
    const requests = [];
    const server = createServer({ requireHostHeader: true }, (request, response) => {
      /** @type {Buffer[]} */
      const pieces = [];
      request.on("data", (piece) => pieces.push(piece));
      request.on("end", () => {
        const raw = request.rawHeaders;
        const headers = raw
          .map((name, at) => [name.toLowerCase(), Buffer.from(raw[at + 1] ?? "", "latin1").toString("hex")])
          .filter((_, at) => at % 2 === 0);
        const content = Buffer.concat(pieces).toString("hex");
        requests.push({ method: request.method, target: request.url, headers, content });
        response.end();
      });
    });
    server.on("clientError", () => resolve("refused"));
    const bytes = Buffer.from(line, "hex");
    const stream = new Duplex({
      read() {},
      write(_piece, _encoding, done) {
        done();
      },
    });
    server.emit("connection", stream);
    stream.push(bytes);
    setImmediate(() => setImmediate(() => setImmediate(() => resolve(requests))));
  });
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(`${JSON.stringify(await readStream(line))}\n`);
}
