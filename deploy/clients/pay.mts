// Makes one payment through Sluice, and repeats it until its outcome is known: `node pay.mjs URL TOKEN-FILE BODY-FILE`,
// after `tsc`. The requestId is in the body; no attempt uses another one.
import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

const PATIENCE_MS = 600_000;
const PAUSE_SECONDS = 2;

interface Answer {
  status: number;
  outcome: string;
  retryAfter: number;
  body: { error?: string | { code?: string } };
}

/** Sends the call once; returns `undefined` where no answer came. */
async function attempt(url: string, token: string, body: string): Promise<Answer | undefined> {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json", Prefer: "wait=20" };
  try {
    const signal = AbortSignal.timeout(180_000);
    const response = await fetch(`${url}/v2/wallets/swaps`, { method: "POST", headers, body, signal });
    return {
      status: response.status,
      outcome: response.headers.get("Sluice-Outcome") ?? "unknown",
      retryAfter: Number(response.headers.get("Retry-After") ?? PAUSE_SECONDS),
      body: (await response.json()) as Answer["body"],
    };
  } catch {
    return undefined;
  }
}

/** Returns the gate's own code, or the payments API's. */
function codeOf(answer: Answer): string | undefined {
  const { error } = answer.body;
  return typeof error === "object" ? error.code : error;
}

/** Whether a repeat would get the same answer: the call, the rules or what is known must change first. */
function isFinal(answer: Answer): boolean {
  const { outcome, status } = answer;
  if (status === 409) {
    return ["OUTCOME_UNKNOWN", "OUTCOME_ABANDONED", "REQUEST_ID_SPENT"].includes(codeOf(answer) ?? "");
  }
  return status >= 400 && status < 500 && outcome !== "held" && ![401, 408, 429].includes(status);
}

async function pay(url: string, token: string, body: string): Promise<number> {
  const deadline = Date.now() + PATIENCE_MS;
  while (Date.now() < deadline) {
    const answer = await attempt(url, token, body);
    if (answer === undefined) {
      // Nobody knows what became of it. The same requestId is always safe, a new one never is.
      await pause(PAUSE_SECONDS * 1000);
      continue;
    }
    if (answer.outcome === "executed") {
      console.log("executed", JSON.stringify(answer.body));
      return 0;
    }
    if (isFinal(answer) && answer.outcome === "not-executed") {
      console.log("not executed:", codeOf(answer));
      return 3;
    }
    if (isFinal(answer)) {
      console.log(`unknown (${codeOf(answer)}): ask the operators of the gate; never pay under another requestId`);
      return 4;
    }
    if (answer.outcome === "held") {
      console.log("waits for approval");
    }
    await pause(answer.retryAfter * 1000);
  }
  console.log("still open: repeat this command later, with the same body");
  return 4;
}

const [url = "", tokenFile = "", bodyFile = ""] = process.argv.slice(2);
process.exitCode = await pay(url, (await readFile(tokenFile, "utf8")).trim(), await readFile(bodyFile, "utf8"));
