// The page at which people sign. `sluice approvals sign` serves it on the voter's machine; a second host may serve the
// same files, and then does what the page on that machine asks of it, and nothing for any other page.

import { challengeOf, codeOf, sign } from "./assertion.js";

/** @typedef {{ credential: string, assertion: Omit<PasskeySignature, "credential"> }} SigningAnswer */
/** @typedef {{ title: string, facts: [string, string][] }} ShownStatement */
/**
 * @typedef {object} SigningTask
 * @property {string} page the origin at which the passkey signs
 * @property {string} rpId
 * @property {string[]} credentials
 * @property {string[]} statements
 * @property {string} salt of the code
 * @property {ShownStatement[]} shown the facts of each statement, as the command line computed them
 */

const POLL_MS = 300;

/** @param {string} id */
function place(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`no #${id}`);
  return found;
}

/** @param {string} text */
function tell(text) {
  place("told").textContent = text;
}

/**
 * @param {string} name
 * @param {string} text
 */
function element(name, text) {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

/**
 * Shows the facts and the code of a task, and a button. The code is computed from the statements that would be signed.
 * @param {SigningTask} task
 * @param {string} label
 * @param {(challenge: ArrayBuffer) => Promise<string>} act returns the last words
 */
async function show(task, label, act) {
  const challenge = await challengeOf(task.statements);
  const shown = task.shown.flatMap(({ title, facts }) => {
    const list = document.createElement("dl");
    list.append(...facts.flatMap(([name, text]) => [element("dt", name), element("dd", text)]));
    return [element("h2", title), list];
  });
  const code = element("p", await codeOf(task.salt, challenge));
  code.id = "code";
  const button = /** @type {HTMLButtonElement} */ (element("button", label));
  button.type = "button";
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const words = await act(challenge);
      button.remove();
      tell(words);
    } catch (failure) {
      button.disabled = false;
      tell(failure instanceof Error ? failure.message : String(failure));
    }
  });
  place("task").replaceChildren(
    ...shown,
    element("p", "Sign only if your terminal shows the same, and this code:"),
    code,
    button,
  );
  tell("");
}

/**
 * @param {SigningTask} task
 * @param {ArrayBuffer} challenge
 * @returns {Promise<SigningAnswer>}
 */
async function signHere({ rpId, credentials }, challenge) {
  const { credential, ...assertion } = await sign(rpId, credentials, challenge);
  return { credential, assertion };
}

/**
 * Has the page on the second host sign.
 * @param {SigningTask} task
 * @returns {Promise<SigningAnswer>}
 */
function signThere(task) {
  const other = open(`${task.page}/`, "_blank");
  if (other === null) throw new Error("The browser opened no window: allow it, and try again.");
  tell(`Go on in the window of ${task.page}.`);
  return new Promise((resolve, reject) => {
    const end = new AbortController();
    const timer = setInterval(() => {
      if (!other.closed) return;
      finish();
      reject(new Error("The window was closed. Nothing was signed."));
    }, POLL_MS);
    const finish = () => {
      clearInterval(timer);
      end.abort();
    };
    addEventListener(
      "message",
      ({ origin, source, data }) => {
        if (origin !== task.page || source !== other) return;
        if (data === "ready") return other.postMessage(task, task.page);
        finish();
        resolve(data);
      },
      { signal: end.signal },
    );
  });
}

/**
 * Gets the task from the command line, and gives the signature back to it.
 * @param {string} secret
 */
async function runForTerminal(secret) {
  const headers = { authorization: `Bearer ${secret}` };
  const answer = await fetch("/task", { headers });
  if (!answer.ok) return tell("This link is not the one that your terminal shows now.");
  /** @type {SigningTask} */
  const task = await answer.json();
  const isHere = task.page === location.origin;
  const label = isHere ? "Sign with your passkey" : `Go on at ${new URL(task.page).host}`;
  await show(task, label, async (challenge) => {
    const signed = await (isHere ? signHere(task, challenge) : signThere(task));
    const sent = await fetch("/answer", { method: "POST", headers, body: JSON.stringify(signed) });
    if (!sent.ok) throw new Error("The command line does not take the signature any more: begin again there.");
    const { done, words } = await sent.json();
    return `${done ? "Signed." : "Not all is done."} ${words}You can close this page.`;
  });
}

/** @param {string} origin */
function isThisMachine(origin) {
  if (!URL.canParse(origin)) return false;
  const { protocol, hostname } = new URL(origin);
  return protocol === "http:" && hostname === "localhost";
}

/**
 * Signs for the page on the voter's machine that opened this one.
 * @param {Window} opener
 */
function runForOpener(opener) {
  tell("This page signs for `sluice approvals sign` alone: it was not opened from there.");
  addEventListener("message", async ({ origin, source, data }) => {
    if (source !== opener || !isThisMachine(origin)) return;
    await show(data, "Sign with your passkey", async (challenge) => {
      opener.postMessage(await signHere(data, challenge), origin);
      close();
      return "Signed. Go back to the other window.";
    });
  });
  opener.postMessage("ready", "*");
}

if (location.hash.length > 1 && isThisMachine(location.origin)) {
  runForTerminal(location.hash.slice(1)).catch((failure) => tell(String(failure)));
} else if (window.opener !== null) {
  runForOpener(window.opener);
} else {
  tell("Run `sluice approvals sign` on your own machine: it shows what you sign, and a link.");
}
