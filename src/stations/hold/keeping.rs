//! What is asked of the store for a hold: one commit for each thing that happens to it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::header::HeaderMap;

use super::state::{Event, Hold, ImpossibleEvent, Note, State, Vote, after};
use super::written::write;
use crate::base::ids::{HoldId, TraceId};
use crate::base::keyed::OperandKey;
use crate::commit::{Commit, Index, Keep, Kind, NodeId, Number, RecordKey, Step, StoreTime};
use crate::policy::Rules;
use crate::stations::check::Intent;
use crate::stations::claim::{self, Decline, Declined, Freeze, Owner, SentForm, Standpoint, Terms};
use crate::stations::decide::{Held, reasons_told};
use crate::stations::record::{Entry, What};

/// From the moment that it certainly was not sent to the next attempt: so long, then ever twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(2);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Longer than any list reaches back.
const FOR_GOOD: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A hold as the store knows it.
#[derive(Clone, Copy, Debug)]
pub struct Here<'a> {
    pub key: &'a RecordKey,
    pub version: Number,
    /// When the record was written.
    pub at: StoreTime,
    pub hold: &'a Hold,
}

impl Here<'_> {
    pub fn deadline(&self) -> StoreTime {
        self.hold.deadline(self.at)
    }

    /// The hold as it is written next: from then on, its record says itself when it began.
    fn next(&self) -> Hold {
        Hold { created: Some(self.hold.created(self.at)), ..self.hold.clone() }
    }

    fn replace(&self, hold: &Hold, keep: Keep) -> Step {
        Step::Replace { key: self.key.clone(), version: self.version, value: write(hold), keep }
    }

    fn commit(&self, steps: Vec<Step>, entry: &Entry, node: &NodeId) -> Commit {
        Commit { environment: self.key.environment, node: node.clone(), steps, entry: entry.to_bytes() }
    }
}

/// A call begins to wait: its claim and its hold, in one commit with the guards of what was decided.
pub fn hold(
    intent: &Intent,
    held: &Held,
    rules: &Rules,
    id: &HoldId,
    headers: &HeaderMap,
    (node, operand_key): (&NodeId, &OperandKey),
    trace: &TraceId,
) -> Commit {
    let (grounds, named) = (held.grounds(), intent.name());
    let asked = grounds.verdict.approvals.clone();
    let hold = Hold {
        id: id.clone(),
        claim: named.key.name.clone(),
        by: intent.caller().known(),
        operation: intent.operation().id.clone(),
        method: intent.operation().method.clone(),
        request_id: named.request_id.clone(),
        fingerprint: intent.fingerprint(),
        sent: SentForm::of(intent),
        headers: headers.clone(),
        trace: trace.clone(),
        reasons: reasons_told(&grounds.verdict.reasons),
        lasts: shortest(&asked, rules),
        asked,
        votes: Vec::new(),
        notes: Vec::new(),
        created: None,
        tries: 0,
        reminded: false,
        state: State::Pending,
    };
    let environment = intent.environment();
    let key = RecordKey { environment, kind: Kind::Hold, name: id.to_string() };
    let (_, mut steps) = claim::wait(intent, id, trace);
    steps.push(Step::Create { key, value: write(&hold), keep: Keep::Forever });
    steps.push(Step::IndexAdd { index: Index::Held, member: id.to_string(), due: hold.lasts });
    steps.extend(grounds.guards());
    let entry = Entry::asked(What::Held, intent, trace).claim(&named.key, named.request_id.as_ref());
    let entry = entry.with("hold", id.as_str()).with("decision", grounds.told());
    let entry = entry.with("operands", grounds.operands(intent, operand_key));
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// A person agrees, for these members. `complete`: with this vote every approval is reached.
pub fn vote(
    here: Here<'_>,
    vote: Vote,
    voice: BTreeSet<String>,
    complete: bool,
    asked: BTreeSet<Arc<str>>,
    node: &NodeId,
) -> Commit {
    let mut hold = Hold { asked, ..here.next() };
    let entry = entry(What::Voted, here).by(&vote.person.issuer, &vote.person.subject).with("complete", complete);
    let entry = entry.with("comment", vote.comment.clone()).with("for", voice.into_iter().collect::<Vec<_>>());
    hold.votes.retain(|before| before.person.subject != vote.person.subject);
    hold.votes.push(vote);
    let mut steps = vec![Step::Before(here.deadline())];
    if complete && let Ok(state) = after(&hold.state, Event::Completed, None) {
        hold.state = state;
        steps.push(Step::IndexAdd { index: Index::Approved, member: hold.id.to_string(), due: Duration::ZERO });
    }
    steps.push(here.replace(&hold, Keep::Forever));
    here.commit(steps, &entry, node)
}

/// A person no longer agrees; nothing if they never did, or people enough have agreed.
pub fn withdraw(here: Here<'_>, person: &Owner, node: &NodeId) -> Option<Commit> {
    let mut hold = here.next();
    hold.votes.retain(|vote| vote.person.subject != person.subject);
    if hold.votes.len() == here.hold.votes.len() || hold.state != State::Pending {
        return None;
    }
    let entry = entry(What::Withdrawn, here).by(&person.issuer, &person.subject);
    Some(here.commit(vec![Step::Before(here.deadline()), here.replace(&hold, Keep::Forever)], &entry, node))
}

/// A person remarks something.
pub fn note(here: Here<'_>, note: Note, node: &NodeId) -> Commit {
    let mut hold = here.next();
    let entry = entry(What::Noted, here).by(&note.person.issuer, &note.person.subject).with("text", note.text.as_str());
    hold.notes.push(note);
    here.commit(vec![Step::Before(here.deadline()), here.replace(&hold, Keep::Forever)], &entry, node)
}

/// It goes no further, for the store may have forgotten what was said of it, or that it was sent: whatever its time, and
/// whatever became of its claim. `of_claim`: that of its claim, if it still waits.
pub fn forget(here: Here<'_>, of_claim: Option<Standpoint<'_>>, node: &NodeId, terms: &Terms) -> Option<Commit> {
    let declined = Declined { how: Decline::Forgotten, reason: None };
    let state = after(&here.hold.state, Event::Declined(Decline::Forgotten), None).ok()?;
    let mut steps = vec![here.replace(&Hold { state, ..here.next() }, ended(terms))];
    steps.extend(of_claim.and_then(|of_claim| claim::decline(of_claim, declined, terms)));
    steps.extend(no_longer(&here.hold.id, terms));
    Some(here.commit(
        steps,
        &entry(What::Expired, here).with("reason", "the store may have forgotten what was said of it"),
        node,
    ))
}

/// It goes no further, and its claim says so; `said`: by whom, if by a person. Guarded by the store's time: nothing but the expiry happens after it, and
/// that not before.
pub fn decline(
    here: Here<'_>,
    of_claim: Standpoint<'_>,
    declined: Declined,
    said: Option<Note>,
    node: &NodeId,
    terms: &Terms,
) -> Option<Commit> {
    let (how, reason) = (declined.how, declined.reason.clone());
    let state = after(&here.hold.state, Event::Declined(how), reason.clone()).ok()?;
    let (what, guard) = match how {
        Decline::Rejected => (What::Rejected, Step::Before(here.deadline())),
        Decline::Cancelled => (What::Cancelled, Step::Before(here.deadline())),
        Decline::Blocked => (What::Blocked, Step::Before(here.deadline())),
        Decline::Expired => (What::Expired, Step::After(here.deadline())),
        Decline::Forgotten => return forget(here, Some(of_claim), node, terms),
    };
    let mut entry = entry(what, here);
    let mut hold = Hold { state, ..here.next() };
    if let Some(note) = said {
        entry = entry.by(&note.person.issuer, &note.person.subject);
        hold.notes.push(note);
    }
    if let Some(reason) = reason {
        entry = entry.with("reason", reason);
    }
    let of_claim = claim::decline(of_claim, declined, terms)?;
    let mut steps = vec![guard, of_claim, here.replace(&hold, ended(terms))];
    steps.extend(no_longer(&here.hold.id, terms));
    Some(here.commit(steps, &entry, node))
}

/// It is sent: what is written of the hold in the commit that begins the attempt; nothing if it may not be.
pub fn released(here: Here<'_>, terms: &Terms) -> Option<Vec<Step>> {
    let state = after(&here.hold.state, Event::Released, None).ok()?;
    let hold = Hold { state, ..here.next() };
    // What a store does not know that has forgotten may be that this was sent already.
    let whole = Step::Absent(Freeze::Restored.key(here.key.environment));
    let mut steps = vec![Step::Before(here.deadline()), whole, here.replace(&hold, ended(terms))];
    steps.extend(no_longer(&hold.id, terms));
    Some(steps)
}

/// It certainly was not sent: it is tried again later. What is written of the hold in the commit that says so.
pub fn approve_again(here: Here<'_>, now: StoreTime) -> Result<Vec<Step>, ImpossibleEvent> {
    let state = after(&here.hold.state, Event::NotSent, None)?;
    let hold = Hold { state, tries: here.hold.tries.saturating_add(1), ..here.next() };
    let doubled = FIRST_PAUSE.saturating_mul(1_u32.checked_shl(here.hold.tries).unwrap_or(u32::MAX));
    let (member, left) = (hold.id.to_string(), here.deadline().since(now));
    Ok(vec![
        here.replace(&hold, Keep::Forever),
        Step::IndexAdd { index: Index::Held, member: member.clone(), due: left },
        Step::IndexRemove { index: Index::Ended, member: member.clone() },
        Step::IndexAdd { index: Index::Approved, member, due: doubled.min(LONGEST_PAUSE).min(left) },
    ])
}

/// It takes more people than agreed.
pub fn reopen(here: Here<'_>, asked: BTreeSet<Arc<str>>, rules: &Rules, node: &NodeId) -> Option<Commit> {
    let state = after(&here.hold.state, Event::Reopened, None).ok()?;
    let hold = Hold { state, lasts: here.hold.lasts.min(shortest(&asked, rules)), asked, ..here.next() };
    let names: Vec<&str> = hold.asked.iter().map(|name| &**name).collect();
    let entry = entry(What::Reopened, here).with("approvals", names);
    let due = hold.deadline(here.at).since(here.at);
    let steps = vec![
        Step::Before(here.deadline()),
        here.replace(&hold, Keep::Forever),
        Step::IndexRemove { index: Index::Approved, member: hold.id.to_string() },
        Step::IndexAdd { index: Index::Held, member: hold.id.to_string(), due },
    ];
    Some(here.commit(steps, &entry, node))
}

/// People are told that it expires soon; nothing if they were, or nothing is left to decide.
pub fn remind(here: Here<'_>, node: &NodeId) -> Option<Commit> {
    if here.hold.reminded || !here.hold.state.is_open() {
        return None;
    }
    let hold = Hold { reminded: true, ..here.next() };
    let steps = vec![Step::Before(here.deadline()), here.replace(&hold, Keep::Forever)];
    Some(here.commit(steps, &entry(What::Reminded, here), node))
}

/// The shortest time that any of these approvals gives; none of them gives none.
fn shortest(asked: &BTreeSet<Arc<str>>, rules: &Rules) -> Duration {
    let expires = asked.iter().filter_map(|name| rules.approvals.get(name)).map(|approval| approval.expires);
    expires.min().unwrap_or_default()
}

fn no_longer(id: &HoldId, terms: &Terms) -> Vec<Step> {
    let kept = match ended(terms) {
        Keep::For { whole, .. } => whole,
        Keep::Forever => FOR_GOOD,
    };
    let open = [Index::Held, Index::Approved].map(|index| Step::IndexRemove { index, member: id.to_string() });
    let over = Step::IndexAdd { index: Index::Ended, member: id.to_string(), due: kept };
    open.into_iter().chain([over]).collect()
}

/// As long as the answer is kept, and no longer.
fn ended(terms: &Terms) -> Keep {
    match terms.keep {
        Keep::For { whole, .. } => Keep::For { whole, spent: Duration::ZERO },
        Keep::Forever => Keep::Forever,
    }
}

fn entry(what: What, here: Here<'_>) -> Entry {
    let Hold { id, claim, by, operation, request_id, fingerprint, trace, .. } = here.hold;
    let claim = RecordKey { environment: here.key.environment, kind: Kind::Claim, name: claim.clone() };
    Entry::of(what)
        .with("hold", id.as_str())
        .claim(&claim, request_id.as_ref())
        .operation(operation)
        .owner(&by.issuer, &by.subject)
        .fingerprint(*fingerprint)
        .trace(trace)
}
