// One confirmation for many holds, each of which this person looked at: one vote each, for its own bytes and reasons.

import { asFailure, get, post } from "./api.js";
import { ask, reasonField } from "./dialog.js";
import { h, toast } from "./dom.js";
import { causesDigest, fingerprint } from "./fingerprint.js";
import { drawRisk, riskOf } from "./risk.js";
import { movement, personName } from "./words.js";

/**
 * The holds that were shown whole with verified bytes, and the fingerprint and the reasons that were shown.
 * @type {Map<string, { fingerprint: string, causes: string }>}
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
    // Each signature is given on its own page.
    return isSame && hold.mayJudge && hold.state === "pending" && !isMine && !hold.mustSign;
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
      for (const { box, hold } of boxes) {
        if (!box.checked) continue;
        try {
          await approveOne(hold, comment.text());
          given += 1;
          box.checked = false;
        } catch (failure) {
          failed.push(`${movement(hold).headline}: ${asFailure(failure).message}`);
        }
      }
      if (failed.length > 0) throw new Error(`${given} approved. Not approved: ${failed.join("; ")}`);
      return given;
    },
  });
  if (answer) toast(answer === 1 ? "You approved 1 hold." : `You approved ${answer} holds.`);
  app.refresh();
}

/**
 * Votes for one hold, if it still is what was shown.
 * @param {Hold} hold
 * @param {string} comment
 */
async function approveOne(hold, comment) {
  const shown = looked.get(hold.id);
  /** @type {Hold} */
  const fresh = (await get(`holds/${hold.id}`)).body;
  const computed = fresh.sent ? await fingerprint(fresh.operation, fresh.sent) : "";
  const causes = await causesDigest(fresh.reasons);
  if (computed !== shown?.fingerprint || causes !== shown.causes || fresh.causes !== causes)
    throw new Error("it is not what was shown; look at it again");
  /** @type {{ fingerprint: string, causes: string, comment?: string }} */
  const body = { fingerprint: computed, causes };
  if (comment !== "") body.comment = comment;
  await post(`holds/${hold.id}/approve`, body);
}
