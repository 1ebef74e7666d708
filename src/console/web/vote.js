// Votes and comments on a hold. Each needs a confirmation, and names the fingerprint that this browser computed; an
// approval names the digest of the reasons on the page, too.

import { get, post } from "./api.js";
import { ask, reasonField } from "./dialog.js";
import { h, toast, withCode } from "./dom.js";
import { causesDigest, fingerprint } from "./fingerprint.js";
import { askForVote, signTogether } from "./passkey.js";
import { drawRisk, whenSent } from "./risk.js";
import { compareAmounts, formatAgo, groupDigits, missingVotes, movement, personName, shorten } from "./words.js";

/** @typedef {(hold: Hold) => Promise<void>} Draw */
/** @typedef {import("./risk.js").RiskFact[]} Risk */

/**
 * Returns the bar of acts, or the reason why there is none.
 * @param {App} app
 * @param {Hold} hold
 * @param {Movement} moves
 * @param {ByteCheck | null} check
 * @param {Risk | null} risk
 * @param {Draw} draw
 */
export function voteBar(app, hold, moves, check, risk, draw) {
  const mine = hold.votes.find((vote) => personName(vote) === personName(app.session().person));
  const isPending = hold.state === "pending";
  /** @param {Parameters<typeof perform>[0]} act */
  const begin = (act) => perform(act, app, hold, moves, risk ?? [], draw);
  const isSafe = check?.kind === "good";
  if ((!hold.mayJudge && !hold.mayReject && !mine) || !isSafe) {
    const why = !["pending", "approved"].includes(hold.state)
      ? null
      : check && !isSafe
        ? check.text
        : whyNoVote(app, hold);
    return why && h("div", { class: "bar" }, h("p", {}, why));
  }
  return h(
    "div",
    { class: "bar" },
    mine &&
      isPending &&
      h(
        "p",
        {},
        hold.mustSign
          ? "Your vote does not count: it is not signed with a passkey of the policies in force."
          : `You approved. Needs ${missingVotes(hold)}.`,
      ),
    h(
      "div",
      { class: "acts" },
      mine && isPending && h("button", { type: "button", id: "withdraw", onclick: () => begin(withdraw) }, "Withdraw…"),
      hold.mayReject &&
        h("button", { type: "button", id: "reject", class: "bad", onclick: () => begin(reject) }, "Reject…"),
      hold.mayJudge &&
        (!mine || hold.mustSign) &&
        isPending &&
        h("button", { type: "button", id: "approve", class: "good", onclick: () => begin(approve) }, "Approve…"),
    ),
  );
}

/**
 * Returns the button for a comment: every approver may add one.
 * @param {App} app
 * @param {Hold} hold
 * @param {Draw} draw
 */
export function commentButton(app, hold, draw) {
  if (!app.may("approver") || !["pending", "approved"].includes(hold.state)) return null;
  return h(
    "p",
    {},
    h(
      "button",
      {
        type: "button",
        id: "comment",
        class: "quiet",
        onclick: () => perform(addComment, app, hold, movement(hold), [], draw),
      },
      "Comment…",
    ),
  );
}

/**
 * Performs an act, and draws the hold that it returns.
 * @param {(app: App, hold: Hold, moves: Movement, risk: Risk) => Promise<{ hold: Hold } | undefined>} act
 * @param {App} app
 * @param {Hold} hold
 * @param {Movement} moves
 * @param {Risk} risk
 * @param {Draw} draw
 */
async function perform(act, app, hold, moves, risk, draw) {
  const answer = await act(app, hold, moves, risk);
  if (answer) await draw(answer.hold);
  app.refresh();
  // The next hold is one key away, and nobody judges it before looking at it.
  if (answer && act !== addComment) document.getElementById("next")?.focus({ preventScroll: true });
}

/**
 * Explains why this person cannot vote.
 * @param {App} app
 * @param {Hold} hold
 */
function whyNoVote(app, hold) {
  if (!app.may("approver")) return "You can view this. Voting needs the role approver.";
  const subject = app.session().person.subject;
  if ([hold.requester, hold.owner.subject].includes(subject)) return "You requested this, so others must approve it.";
  return "You cannot vote: you are in none of the groups that must approve, or the call was requested on your behalf.";
}

/** @param {Hold} hold */
function valueInUsd(hold) {
  return hold.words.find(({ name }) => name === "value")?.text;
}

/**
 * Returns the value of a hold where its amount does not say it already.
 * @param {Hold} hold
 * @param {Movement} moves
 */
export function otherValue(hold, moves) {
  const value = valueInUsd(hold)?.split(" ")[0];
  const isSame = value && moves.amounts.length > 0 && compareAmounts(value, moves.amounts[0]) === 0;
  return value && !isSame && h("span", { class: "muted" }, `, worth ${groupDigits(value)} USD`);
}

/**
 * Repeats what the hold would do.
 * @param {Hold} hold
 * @param {Movement} moves
 */
function summary(hold, moves) {
  return h(
    "dl",
    { class: "lines again" },
    h("div", {}, h("dt", {}, "moves"), h("dd", {}, h("strong", { class: "number large" }, moves.headline))),
    valueInUsd(hold) &&
      h("div", {}, h("dt", {}, "value"), h("dd", {}, valueInUsd(hold)?.replace(/^[\d.]+/, groupDigits))),
    moves.hasAmount && moves.direction && h("div", {}, h("dt", {}, "direction"), h("dd", {}, moves.direction)),
    moves.destination &&
      h(
        "div",
        {},
        h("dt", {}, "to"),
        h(
          "dd",
          {},
          hold.destination?.lists.map((name) => h("strong", { class: "known" }, `${name} `)),
          h("span", { class: "code" }, `${moves.destination.what} ${moves.destination.name}`),
        ),
      ),
    h(
      "div",
      {},
      h("dt", {}, "why held"),
      h(
        "dd",
        {},
        hold.reasons.map((reason, at) => [at > 0 && "; ", reason.rule && `${reason.rule}: `, withCode(reason.text)]),
      ),
    ),
    h(
      "div",
      {},
      h("dt", {}, "requested by"),
      h("dd", {}, hold.requester ?? hold.owner.subject, `, ${formatAgo(hold.createdAt)}`),
    ),
    hold.votes.length > 0 &&
      h("div", {}, h("dt", {}, "approved by"), h("dd", {}, hold.votes.map(personName).join(", "))),
    h("div", {}, h("dt", {}, "in"), h("dd", {}, hold.environment)),
  );
}

/**
 * Throws if another person is signed in.
 * @param {App} app
 */
export async function confirmPerson(app) {
  if (!(await app.isStillMe()))
    throw new Error("Another person has signed in in this browser. Nothing was sent; check your name at the top.");
}

/**
 * Reads a hold again, and returns it with the fingerprint of the bytes on the page. Throws if the hold has changed or is
 * closed.
 * @param {Hold} hold as it was shown
 */
async function readAgain(hold) {
  /** @type {Hold} */
  const fresh = (await get(`holds/${hold.id}`)).body;
  const computed = hold.sent ? await fingerprint(hold.operation, hold.sent) : "";
  if (fresh.fingerprint !== computed || fresh.environment !== hold.environment)
    throw new Error("The held call is not the one that was shown. Nothing was sent; check it again.");
  if (!["pending", "approved"].includes(fresh.state))
    throw new Error(`The hold is already ${fresh.state}. Nothing was sent.`);
  return { fresh, computed };
}

/**
 * Returns the fingerprint of the bytes on the page. Throws if the hold has changed or is closed, or if another person is signed in.
 * @param {App} app
 * @param {Hold} hold
 */
async function confirmedFingerprint(app, hold) {
  await confirmPerson(app);
  return (await readAgain(hold)).computed;
}

/**
 * Returns the digests of the bytes and the reasons that the page shows. Throws if the hold has others by now, or is closed.
 * @param {Hold} hold as it was shown
 * @returns {Promise<Seen>}
 */
export async function confirmedSight(hold) {
  const { fresh, computed } = await readAgain(hold);
  const causes = await causesDigest(hold.reasons);
  if (fresh.causes !== causes)
    throw new Error("The reasons why it is held are others by now. Nothing was sent; look at them again.");
  return { fingerprint: computed, causes };
}

/**
 * @param {string} verb
 * @param {Movement} moves
 */
function buttonLabel(verb, moves) {
  return `${verb} ${moves.hasAmount ? moves.headline : shorten(moves.headline, 40)}`;
}

/** @type {Parameters<typeof perform>[0]} */
async function approve(app, hold, moves, risk) {
  const comment = reasonField("Comment", "Optional. It is kept with your vote.", false);
  const answer = await ask({
    title: "Approve this?",
    content: [
      drawRisk(risk),
      summary(hold, moves),
      h("p", { class: "muted" }, `Needs ${missingVotes(hold)}. ${whenSent(app, hold)}`),
      hold.mustSign && h("p", {}, "You sign this with your passkey: your device asks you for it."),
      comment.element,
    ],
    label: buttonLabel("Approve", moves),
    kind: "good",
    perform: async () => {
      await confirmPerson(app);
      /** @type {Seen & { comment?: string, signature?: VoteSignature }} */
      const body = await confirmedSight(hold);
      if (hold.mustSign) [body.signature] = await signTogether([await askForVote(hold, body)]);
      if (comment.text() !== "") body.comment = comment.text();
      return (await post(`holds/${hold.id}/approve`, body)).body;
    },
  });
  if (answer)
    toast(
      answer.hold.state === "pending"
        ? `You approved ${moves.headline}. Needs ${missingVotes(answer.hold)}.`
        : `You approved ${moves.headline}. Fully approved.`,
    );
  return answer;
}

/** @type {Parameters<typeof perform>[0]} */
async function reject(app, hold, moves, risk) {
  const reason = reasonField("Why", "The caller gets it, and the audit log keeps it.");
  const answer = await ask({
    title: "Reject this?",
    content: [
      drawRisk(risk),
      summary(hold, moves),
      h("p", { class: "muted" }, "One rejection is enough, and it is final."),
      reason.element,
    ],
    label: buttonLabel("Reject", moves),
    kind: "bad",
    check: reason.check,
    perform: async () =>
      (
        await post(`holds/${hold.id}/reject`, {
          fingerprint: await confirmedFingerprint(app, hold),
          reason: reason.text(),
        })
      ).body,
  });
  if (answer) toast(`You rejected ${moves.headline}.`, "warn");
  return answer;
}

/** @type {Parameters<typeof perform>[0]} */
async function withdraw(app, hold, moves) {
  const answer = await ask({
    title: "Withdraw your vote?",
    content: summary(hold, moves),
    label: "Withdraw vote",
    perform: async () =>
      (await post(`holds/${hold.id}/withdraw`, { fingerprint: await confirmedFingerprint(app, hold) })).body,
  });
  if (answer) toast("Vote withdrawn.", "warn");
  return answer;
}

/** @type {Parameters<typeof perform>[0]} */
async function addComment(_app, hold) {
  const comment = reasonField("Comment", "Approvers see it; the caller does not.");
  return ask({
    title: "Add a comment",
    content: comment.element,
    label: "Comment",
    check: () => (comment.text() === "" ? "Enter a comment." : null),
    perform: async () => (await post(`holds/${hold.id}/comment`, { text: comment.text() })).body,
  });
}
