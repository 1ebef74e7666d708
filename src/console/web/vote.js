// What a person says of a hold. Each word takes two steps, and is for the fingerprint that was computed here.

import { get, post } from "./api.js";
import { ask, reasonField } from "./dialog.js";
import { h, toast } from "./dom.js";
import { fingerprint } from "./fingerprint.js";
import { missing, person, shortened } from "./words.js";

/** The bar of acts, or why there is none. */
export function acts(desk, hold, moves, checked, draw) {
  const mine = hold.votes.find((vote) => person(vote) === person(desk.me.person));
  const isPending = hold.state === "pending";
  const say = (act) => told(act, desk, hold, moves, draw);
  const isSafe = checked?.kind === "good";
  if ((!hold.mayJudge && !hold.mayReject && !mine) || !isSafe) {
    const why = !["pending", "approved"].includes(hold.state) ? null : checked && !isSafe ? checked.text : whyNot(desk, hold);
    return why && h("div", { class: "bar" }, h("p", {}, why));
  }
  return h(
    "div",
    { class: "bar" },
    mine && isPending && h("p", {}, `You agreed. Missing: ${missing(hold)}.`),
    h(
      "div",
      { class: "acts" },
      mine && isPending && h("button", { type: "button", id: "withdraw", onclick: () => say(withdraw) }, "Take back…"),
      hold.mayReject && h("button", { type: "button", id: "reject", class: "bad", onclick: () => say(reject) }, "Reject…"),
      hold.mayJudge && !mine && isPending && h("button", { type: "button", id: "approve", class: "good", onclick: () => say(approve) }, "Approve…"),
    ),
  );
}

/** For everyone who judges, in any group. */
export function remarkButton(desk, hold, draw) {
  if (!desk.may("approver") || !["pending", "approved"].includes(hold.state)) return null;
  return h("p", {}, h("button", { type: "button", id: "remark", class: "quiet", onclick: () => told(comment, desk, hold, null, draw) }, "Remark…"));
}

async function told(act, desk, hold, moves, draw) {
  const answer = await act(desk, hold, moves);
  if (answer) await draw(answer.hold);
  desk.refresh();
}

function whyNot(desk, hold) {
  if (!desk.may("approver")) return "You may look at this. Whoever judges it has the role approver.";
  const subject = desk.me.person.subject;
  if ([hold.requester, hold.owner.subject].includes(subject)) return "You asked for this, so others judge it.";
  return "Others judge this: you are in none of the groups that are asked, or it was asked for on your behalf.";
}

/** What is about to be said, once more, from the bytes that were looked at. */
function again(hold, moves) {
  return h(
    "dl",
    { class: "lines again" },
    h("div", {}, h("dt", {}, "moves"), h("dd", {}, h("strong", { class: "number large" }, moves.headline))),
    moves.hasAmount && moves.direction && h("div", {}, h("dt", {}, "way"), h("dd", {}, moves.direction)),
    moves.destination && h("div", {}, h("dt", {}, "to"), h("dd", { class: "code" }, `${moves.destination.what} ${moves.destination.name}`)),
    h("div", {}, h("dt", {}, "asked by"), h("dd", {}, hold.requester ?? hold.owner.subject)),
    h("div", {}, h("dt", {}, "in"), h("dd", {}, hold.environment)),
  );
}

/** The fingerprint of what is shown, if it is still what waits and the person is still who they were. */
async function settled(desk, hold) {
  if (!(await desk.isStillMe())) throw new Error("Somebody else has signed in in this browser. Nothing was said; look who you are, above.");
  const fresh = (await get(`holds/${hold.id}`)).body;
  const computed = await fingerprint(hold.operation, hold.sent);
  if (fresh.fingerprint !== computed) throw new Error("What waits here is not what was shown. Nothing was said; look at it again.");
  if (!["pending", "approved"].includes(fresh.state)) throw new Error(`Somebody was faster: it is ${fresh.state} by now. Nothing was said.`);
  return computed;
}

function onButton(verb, moves) {
  return `${verb} ${moves.hasAmount ? moves.headline : shortened(moves.headline, 40)}`;
}

async function approve(desk, hold, moves) {
  const comment = reasonField("Comment", "If there is something to say. It is kept with your vote.", false);
  const answer = await ask({
    title: "Approve this?",
    content: [
      again(hold, moves),
      h("p", { class: "muted" }, `Missing now: ${missing(hold)}. When nobody is missing, it is sent at once.`),
      comment.element,
    ],
    label: onButton("Approve", moves),
    kind: "good",
    perform: async () => {
      const seen = await settled(desk, hold);
      const body = { fingerprint: seen };
      if (comment.text() !== "") body.comment = comment.text();
      return (await post(`holds/${hold.id}/approve`, body)).body;
    },
  });
  if (answer) toast(answer.hold.state === "pending" ? `You agreed to ${moves.headline}. Missing: ${missing(answer.hold)}.` : `You agreed to ${moves.headline}. People enough have agreed.`);
  return answer;
}

async function reject(desk, hold, moves) {
  const reason = reasonField("Why", "Its caller hears this, and it stands in the audit chain.");
  const answer = await ask({
    title: "Reject this?",
    content: [again(hold, moves), h("p", { class: "muted" }, "One rejection is enough, and it is final."), reason.element],
    label: onButton("Reject", moves),
    kind: "bad",
    check: reason.check,
    perform: async () => (await post(`holds/${hold.id}/reject`, { fingerprint: await settled(desk, hold), reason: reason.text() })).body,
  });
  if (answer) toast(`You rejected ${moves.headline}.`, "warn");
  return answer;
}

async function withdraw(desk, hold, moves) {
  const answer = await ask({
    title: "Take your word back?",
    content: again(hold, moves),
    label: "Take my word back",
    perform: async () => (await post(`holds/${hold.id}/withdraw`, { fingerprint: await settled(desk, hold) })).body,
  });
  if (answer) toast("Your word is taken back.", "warn");
  return answer;
}

async function comment(desk, hold) {
  const remark = reasonField("Remark", "Everyone who judges reads it; its caller does not.");
  return ask({
    title: "Remark something",
    content: remark.element,
    label: "Remark",
    check: () => (remark.text() === "" ? "Write something first." : null),
    perform: async () => (await post(`holds/${hold.id}/comment`, { text: remark.text() })).body,
  });
}
