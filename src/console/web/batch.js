// One confirmation for many holds, each of which this person looked at: one vote each, for the bytes and the reasons that
// were shown. Votes that must be signed are signed together.

import { asFailure, post } from "./api.js";
import { ask, reasonField } from "./dialog.js";
import { badge, h, toast } from "./dom.js";
import { askForVote, MAX_TOGETHER, signTogether } from "./passkey.js";
import { drawRisk, riskOf } from "./risk.js";
import { confirmedSight, confirmPerson } from "./vote.js";
import { movement, personName } from "./words.js";

/**
 * The holds that were shown whole with verified bytes, as they were shown.
 * @type {Map<string, Hold>}
 */
const looked = new Map();

/**
 * Notes that a person has seen a hold whole.
 * @param {Hold} hold
 */
export function markLooked(hold) {
  looked.set(hold.id, hold);
}

/**
 * Returns those holds that wait for this person's vote, and that this person looked at, as they were shown, with their risk
 * as it is now.
 * @param {App} app
 * @param {Hold[]} holds as they are now
 */
export function lookedAt(app, holds) {
  /** @type {Map<string, Hold>} */
  const found = new Map();
  for (const hold of holds) {
    const { id, fingerprint, causes, environment, mayJudge, state, votes, mustSign } = hold;
    const { newDestination, equalPayment, overLimit, earlier } = hold;
    const risk = { newDestination, equalPayment, overLimit, earlier };
    const shown = looked.get(id);
    const isMine = votes.some((vote) => personName(vote) === personName(app.session().person));
    const isSame = shown?.fingerprint === fingerprint && shown.causes === causes && shown.environment === environment;
    if (isSame && mayJudge && state === "pending" && (!isMine || mustSign))
      found.set(id, { ...shown, ...risk, mustSign });
  }
  return [...found.values()];
}

/**
 * Asks for one confirmation of a list, and then votes for each hold in it.
 * @param {App} app
 * @param {Hold[]} holds as they were shown
 */
export async function approveAll(app, holds) {
  const comment = reasonField("Comment", "Optional. It is kept with each vote.", false);
  const risks = holds.map(riskOf);
  const boxes = holds.map((hold, at) => {
    const moves = movement(hold);
    const isRisky = risks[at].some(({ kind }) => kind === "bad" || kind === "warn");
    const box = h("input", { type: "checkbox", id: `batch-${hold.id}`, checked: !isRisky });
    const label = h(
      "label",
      { for: box.id },
      h("strong", { class: "number" }, moves.headline),
      moves.destination && [" to ", h("span", { class: "code" }, moves.destination.name)],
      ` by ${hold.requester ?? hold.owner.subject} `,
      hold.environment === "sandbox" && badge("Sandbox", "note"),
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
      await confirmPerson(app);
      const marked = boxes.filter(({ box }) => box.checked);
      const { given, failed } = await voteForEach(marked, comment.text());
      for (const { box } of given) box.checked = false;
      if (failed.length > 0) throw new Error(`${given.length} approved. Not approved: ${failed.join("; ")}`);
      return given.length;
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
  const signed = holds.filter(({ mustSign }) => mustSign).length;
  const count = Math.ceil(signed / MAX_TOGETHER);
  const which = signed === holds.length ? "these" : `${signed} of these`;
  return `You sign ${which} with your passkey: your device asks you ${count === 1 ? "once" : `up to ${count} times`}.`;
}

/**
 * Votes for each of these, and has a passkey sign those votes that must be signed. Returns for which it voted, and why not
 * for the others.
 * @template {{ hold: Hold }} V
 * @param {V[]} all
 * @param {string} comment
 */
async function voteForEach(all, comment) {
  /** @type {V[]} */
  const given = [];
  /** @type {string[]} */
  const failed = [];
  /**
   * Does a step for each, and returns the results. One that fails does not stop the others.
   * @template {{ hold: Hold }} O
   * @template R
   * @param {O[]} some
   * @param {(one: O, at: number) => Promise<R>} step
   */
  async function each(some, step) {
    /** @type {R[]} */
    const done = [];
    for (const [at, one] of some.entries()) {
      try {
        done.push(await step(one, at));
      } catch (failure) {
        failed.push(`${movement(one.hold).headline}: ${asFailure(failure).message}`);
      }
    }
    return done;
  }
  /**
   * @param {{ one: V, hold: Hold, seen: Seen }} vote
   * @param {VoteSignature} [signature]
   */
  async function give({ one, hold, seen }, signature) {
    /** @type {Seen & { comment?: string, signature?: VoteSignature }} */
    const body = { ...seen };
    if (signature) body.signature = signature;
    if (comment !== "") body.comment = comment;
    await post(`holds/${hold.id}/approve`, body);
    given.push(one);
  }

  const votes = await each(all, async (one) => ({ one, hold: one.hold, seen: await confirmedSight(one.hold) }));
  const plain = votes.filter(({ hold }) => !hold.mustSign);
  await each(plain, (vote) => give(vote));
  for (let left = votes.filter(({ hold }) => hold.mustSign); left.length > 0; ) {
    const portion = left.slice(0, MAX_TOGETHER);
    left = left.slice(MAX_TOGETHER);
    const asked = await each(portion, async (vote) => ({ ...vote, asked: await askForVote(vote.hold, vote.seen) }));
    if (asked.length === 0) continue;
    try {
      const signatures = await signTogether(asked.map((vote) => vote.asked));
      await each(asked, (vote, at) => give(vote, signatures[at]));
    } catch (failure) {
      // The person does not want to sign, or cannot: the device is not asked again.
      failed.push(`${asked.length + left.length} that you did not sign: ${asFailure(failure).message}`);
      break;
    }
  }
  return { given, failed };
}
