// One confirmation for many holds, each of which this person looked at: one vote each, for its own bytes and reasons.
// Votes that must be signed are signed together.

import { asFailure, get, post } from "./api.js";
import { ask, reasonField } from "./dialog.js";
import { h, toast } from "./dom.js";
import { causesDigest, fingerprint } from "./fingerprint.js";
import { MAX_TOGETHER, signVotes } from "./passkey.js";
import { drawRisk, riskOf } from "./risk.js";
import { movement, personName } from "./words.js";

/** @typedef {import("./passkey.js").Seen} Seen */
/** @typedef {{ hold: Hold, seen: Seen, signature?: VoteSignature }} BatchVote */

/**
 * The holds that were shown whole with verified bytes, and the fingerprint and the reasons that were shown.
 * @type {Map<string, Seen>}
 */
const looked = new Map();

/**
 * Notes that a person has seen a hold whole.
 * @param {Hold} hold
 */
export function markLooked(hold) {
  looked.set(hold.id, { fingerprint: hold.fingerprint, causes: hold.causes });
}

/**
 * Returns those holds that wait for this person's vote and that this person looked at, as they are now.
 * @param {App} app
 * @param {Hold[]} holds
 */
export function lookedAt(app, holds) {
  return holds.filter((hold) => {
    const shown = looked.get(hold.id);
    const isMine = hold.votes.some((vote) => personName(vote) === personName(app.session().person));
    const isSame = shown?.fingerprint === hold.fingerprint && shown.causes === hold.causes;
    return isSame && hold.mayJudge && hold.state === "pending" && !isMine;
  });
}

/**
 * Asks for one confirmation of a list, and then votes for each hold in it.
 * @param {App} app
 * @param {Hold[]} holds
 */
export async function approveAll(app, holds) {
  const comment = reasonField("Comment", "Optional. It is kept with each vote.", false);
  const risks = await Promise.all(holds.map(riskOf));
  const boxes = holds.map((hold, at) => {
    const moves = movement(hold);
    const isRisky = risks[at].some(({ kind }) => kind === "bad" || kind === "warn");
    const box = h("input", { type: "checkbox", id: `batch-${hold.id}`, checked: !isRisky });
    const label = h(
      "label",
      { for: box.id },
      h("strong", { class: "number" }, moves.headline),
      moves.destination && [" to ", h("span", { class: "code" }, moves.destination.name)],
      ` by ${hold.requester ?? hold.owner.subject}`,
    );
    return { box, hold, element: h("li", {}, h("div", { class: "check" }, box, label), drawRisk(risks[at])) };
  });
  const answer = await ask({
    title: `Approve up to ${holds.length} holds?`,
    content: [
      h("p", { class: "muted" }, "One vote for each that is marked. What needs a second look is not marked."),
      holds.some(({ mustSign }) => mustSign) && h("p", {}, signingWords(holds)),
      h(
        "ol",
        { class: "plain batch" },
        boxes.map(({ element }) => element),
      ),
      comment.element,
    ],
    label: "Approve those marked",
    kind: "good",
    check: () => (boxes.some(({ box }) => box.checked) ? null : "Mark at least one."),
    perform: async () => {
      if (!(await app.isStillMe())) throw new Error("Another person has signed in in this browser. Nothing was sent.");
      let given = 0;
      /** @type {string[]} */
      const failed = [];
      /**
       * @param {Hold} hold
       * @param {() => Promise<void>} step
       */
      const attempt = async (hold, step) => {
        try {
          await step();
        } catch (failure) {
          failed.push(`${movement(hold).headline}: ${asFailure(failure).message}`);
        }
      };
      /** @type {(BatchVote & { box: HTMLInputElement })[]} */
      const votes = [];
      for (const { box, hold } of boxes.filter(({ box }) => box.checked))
        await attempt(hold, async () => void votes.push({ box, ...(await lookAgain(hold)) }));
      // All signatures come first: who gives none has changed nothing.
      await signTogether(votes);
      for (const vote of votes) {
        await attempt(vote.hold, async () => {
          await approveOne(vote, comment.text());
          given += 1;
          vote.box.checked = false;
        });
      }
      if (failed.length > 0) throw new Error(`${given} approved. Not approved: ${failed.join("; ")}`);
      return given;
    },
  });
  if (answer) toast(answer === 1 ? "You approved 1 hold." : `You approved ${answer} holds.`);
  app.refresh();
}

/**
 * Says how often the device asks for a signature.
 * @param {Hold[]} holds
 */
function signingWords(holds) {
  const count = Math.ceil(holds.filter(({ mustSign }) => mustSign).length / MAX_TOGETHER);
  return `You sign these with your passkey: your device asks you ${count === 1 ? "once" : `up to ${count} times`}.`;
}

/**
 * Has a passkey sign those votes that must be signed, as many as it can with each signature.
 * @param {BatchVote[]} votes
 */
async function signTogether(votes) {
  const unsigned = votes.filter(({ hold }) => hold.mustSign);
  while (unsigned.length > 0) {
    const portion = unsigned.splice(0, MAX_TOGETHER);
    const signatures = await signVotes(portion);
    for (const [at, vote] of portion.entries()) vote.signature = signatures[at];
  }
}

/**
 * Reads a hold again, and returns it with the digests that a vote names, if it still is what was shown.
 * @param {Hold} hold
 * @returns {Promise<BatchVote>}
 */
async function lookAgain(hold) {
  const shown = looked.get(hold.id);
  /** @type {Hold} */
  const fresh = (await get(`holds/${hold.id}`)).body;
  const computed = fresh.sent ? await fingerprint(fresh.operation, fresh.sent) : "";
  const causes = await causesDigest(fresh.reasons);
  if (computed !== shown?.fingerprint || causes !== shown.causes || fresh.causes !== causes)
    throw new Error("it is not what was shown; look at it again");
  return { hold: fresh, seen: { fingerprint: computed, causes } };
}

/**
 * Votes for one hold.
 * @param {BatchVote} vote
 * @param {string} comment
 */
async function approveOne({ hold, seen, signature }, comment) {
  /** @type {Seen & { comment?: string, signature?: VoteSignature }} */
  const body = { ...seen };
  if (signature) body.signature = signature;
  if (comment !== "") body.comment = comment;
  await post(`holds/${hold.id}/approve`, body);
}
