// A service that pays through the gate, with the types that a public generator makes of the gate's contract.
// `tests/tools/clients.py` compiles and runs it.

import assert from "node:assert/strict";
import { env } from "node:process";
import createClient from "openapi-fetch";
import type { components, paths } from "./payments.d.ts";

type Swap = components["schemas"]["SwapCreate"];
type ErrorBody = components["schemas"]["Error"];

const gate = createClient<paths>({
  baseUrl: env.GATE,
  headers: { Authorization: `Bearer ${env.TOKEN}` },
});

function swap(requestId: string, amount = "25.50"): Swap {
  return {
    requestId,
    source: { chain: "POLYGON", currency: "usdt", amount },
    destination: {
      chain: "POLYGON",
      currency: "usdc",
      walletAddress: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    },
  };
}

async function pay(body: Swap) {
  return await gate.POST("/v2/wallets/swaps", { body });
}

/** Returns the code of an error, in whichever shape it comes. */
function code(body: ErrorBody | undefined): string | undefined {
  if (body === undefined) {
    return undefined;
  }
  return typeof body.error === "string" ? body.error : body.error.code;
}

// Paid, and again: the first answer. A held swap has no record, and the types say so.
for (const replayed of [null, "true"]) {
  const { data, response } = await pay(swap("typescript-1"));
  assert.equal(response.headers.get("sluice-outcome"), "executed");
  assert.equal(response.headers.get("sluice-replayed"), replayed);
  assert.ok(data !== undefined && "transferDetails" in data);
  assert.equal(data.transferDetails.requestId, "typescript-1");
}

const held = await pay(swap("typescript-2", "2000"));
assert.equal(held.response.status, 202);
assert.ok(held.data !== undefined && "hold" in held.data);
const holdId: string = held.data.hold.id;
const shown = await gate.GET("/sluice/v1/holds/{holdId}", { params: { path: { holdId } } });
assert.equal(shown.data?.hold.state, "pending");
const cancelled = await gate.POST("/sluice/v1/holds/{holdId}/cancel", { params: { path: { holdId } } });
assert.equal(cancelled.data?.hold.state, "cancelled");
const ended = await pay(swap("typescript-2", "2000"));
assert.equal(code(ended.error), "APPROVAL_CANCELLED");

const refused = await pay(swap("typescript-3", "6000"));
assert.equal(code(refused.error), "POLICY_DENIED");
assert.equal(refused.response.headers.get("sluice-outcome"), "not-executed");

await fetch(`${env.SIMULATOR}/simulator/faults`, {
  method: "POST",
  headers: { "Content-Type": "application/json" },
  body: JSON.stringify({ operation: "createSwap", kind: "hang", times: 1 }),
});
for (const status of [504, 409]) {
  const doubt = await pay(swap("typescript-4"));
  assert.equal(doubt.response.status, status);
  assert.equal(code(doubt.error), "OUTCOME_UNKNOWN");
}

const users = await gate.GET("/v2/users", { params: { query: { limit: "10" } } });
assert.ok(Array.isArray(users.data?.users));
