//! What is asked of the store for a claim: one commit for each thing that happens to it.

use std::time::Duration;

use bytes::Bytes;

use super::booked::Booked;
use super::freeze::{Freeze, in_the_way_of};
use super::state::{
    Answer, Claim, Declined, Doubt, Event, ImpossibleEvent, Naming, Next, Nonce, Owner, SentForm, State, after,
};
use super::written::write;
use crate::base::ids::{Environment, HoldId, TraceId};
use crate::base::keyed::OperandKey;
use crate::commit::{
    Commit, Committed, Found, Index, Keep, Kind, NodeId, Number, Obstacle, Record, RecordKey, Step, StoreTime,
    WindowKey,
};
use crate::stations::check::Intent;
use crate::stations::decide::{Allowed, Grounds};
use crate::stations::record::{Entry, What};

/// The times of claims.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// From a commit to the first byte that is sent of it.
    pub begin_within: Duration,
    /// From a commit to the moment when nobody waits for its node any more: longer than `begin_within` and all that
    /// sending can take.
    pub lease: Duration,
    /// From an unknown outcome to the first look for its record.
    pub first_look: Duration,
    /// From an unknown outcome to the moment from which people may say that nothing was executed: what upstream has not
    /// done by then, it will not do.
    pub quiet: Duration,
    /// How long answers are kept, and then that there was one.
    pub keep: Keep,
}

/// How long it is kept that a call was made that is known by its path.
pub(super) const FOR_GOOD: Duration = Duration::from_hours(24 * 365 * 100);

/// How long it is kept what became of a call that has a claim only because it waited for people; and, where a path names
/// it, that it did not go.
const FOR_A_DAY: Keep = Keep::For { whole: Duration::from_hours(24), spent: Duration::ZERO };

/// Where a claim that is begun comes from.
#[derive(Clone, Debug)]
pub enum From<'a> {
    /// Nothing is known of the call.
    Nothing,
    /// It waits, and is released: with what else is written of its hold.
    Held { here: Standpoint<'a>, hold: &'a HoldId, steps: Vec<Step> },
}

/// Who begins.
#[derive(Clone, Debug)]
pub struct Beginner<'a> {
    pub node: &'a NodeId,
    pub nonce: &'a Nonce,
    pub trace: &'a TraceId,
    pub terms: &'a Terms,
    /// What personal operands are kept under.
    pub operand_key: &'a OperandKey,
}

/// Proof that the store knows of the attempt before anything is sent.
#[derive(Debug)]
pub struct Begun {
    attempt: Number,
}

impl Begun {
    pub fn attempt(&self) -> Number {
        self.attempt
    }
}

/// What stood in the way of beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is a claim of this name already.
    Claimed(Record),
    Frozen,
    /// The store was taken in from elsewhere: that there is no claim says nothing.
    Forgotten,
    /// What the decision assumed is otherwise: it is made again.
    Otherwise(Vec<Learnt>),
    /// The claim, or its hold, is another by now.
    Moved,
    /// It cannot be: the store refused what it was not asked.
    Puzzling,
}

/// A fact that the store told instead of the one that was assumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Learnt {
    /// Whether the destination of this name among those that were paid is one.
    Paid(String, bool),
    /// There is no room in this window.
    Full(WindowKey),
    /// It is another time.
    Time(StoreTime),
}

/// The claim is another attempt's by now, or done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved;

/// What is asked of the store before anything is sent.
#[derive(Debug)]
pub struct Beginning {
    pub commit: Commit,
    /// The claim as the commit writes it, where the call can be claimed.
    pub claim: Option<(RecordKey, Claim)>,
    pub booked: Booked,
    pub entry: Entry,
}

/// A call that cannot be claimed leaves its Entry, and no record, unless it waited for people.
pub fn begin(intent: &Intent, allowed: &Allowed, by: Beginner<'_>, from: From<'_>) -> Beginning {
    let mut steps = Vec::with_capacity(8);
    let grounds = allowed.grounds();
    let booked = Booked::of(grounds, intent.operation().class, by.nonce);
    let state = State::Sending {
        node: by.node.clone(),
        nonce: by.nonce.clone(),
        lease: by.terms.lease,
        sent: SentForm::of(intent),
    };
    let mut entry = Entry::asked(What::Sending, intent, by.trace).with("decision", grounds.told());
    let claim = match (from, intent.named()) {
        (From::Held { here, hold, steps: of_hold }, _) => {
            let claim = Claim { booked: booked.clone(), state, ..here.claim.clone() };
            let (key, version) = (here.key.clone(), here.version);
            steps.push(Step::Replace { key, version, value: write(&claim), keep: Keep::Forever });
            steps.extend(of_hold);
            entry = entry.claim(here.key, claim.request_id.as_ref()).with("hold", hold.as_str());
            Some((here.key.clone(), claim))
        }
        (From::Nothing, Some(named)) => {
            let claim = Claim { booked: booked.clone(), ..made(intent, by.trace, state, None) };
            steps.push(Step::Create { key: named.key.clone(), value: write(&claim), keep: Keep::Forever });
            Some((named.key.clone(), claim))
        }
        (From::Nothing, None) => {
            steps.push(Step::Absent(intent.name().key));
            None
        }
    };
    if let Some((key, _)) = &claim {
        steps.push(Step::IndexAdd { index: Index::Sending, member: key.name.clone(), due: by.terms.lease });
    }
    let environment = intent.environment();
    steps.extend(in_the_way_of(intent).into_iter().map(|freeze| Step::Absent(freeze.key(environment))));
    steps.extend(grounds.guards());
    steps.extend(grounds.reservations(&by.nonce.0));
    // Its end is told with what it was, but not with all that it was decided by.
    let whole = entry.clone().with("operands", grounds.operands(intent, by.operand_key));
    let commit = Commit { environment, node: by.node.clone(), steps, entry: whole.to_bytes() };
    Beginning { commit, claim, booked, entry }
}

/// The claim of a call that waits for people, under this name, and what must be so for it.
pub fn wait(intent: &Intent, hold: &HoldId, trace: &TraceId) -> (Claim, Vec<Step>) {
    let claim = made(intent, trace, State::Held, Some(hold.clone()));
    let environment = intent.environment();
    let mut steps = vec![Step::Create { key: intent.name().key, value: write(&claim), keep: Keep::Forever }];
    steps.extend(in_the_way_of(intent).into_iter().map(|freeze| Step::Absent(freeze.key(environment))));
    (claim, steps)
}

/// A call that waits goes no further: what is written of its claim; nothing if it does not wait.
pub fn decline(here: Standpoint<'_>, declined: Declined, terms: &Terms) -> Option<Step> {
    if here.claim.state != State::Held {
        return None;
    }
    let claim = Claim { state: State::Declined(declined), ..here.claim.clone() };
    let keep = keep(here, false, terms);
    Some(Step::Replace { key: here.key.clone(), version: here.version, value: write(&claim), keep })
}

fn made(intent: &Intent, trace: &TraceId, state: State, hold: Option<HoldId>) -> Claim {
    Claim {
        owner: Owner::of(intent.caller()),
        requester: intent.caller().requester().map(str::to_owned),
        operation: intent.operation().id.clone(),
        fingerprint: intent.fingerprint(),
        request_id: intent.named().and_then(|named| named.request_id.clone()),
        trace: trace.clone(),
        hold,
        booked: Booked::default(),
        state,
    }
}

/// What is asked of the store for a call that goes no further: that it was asked, unless there is a claim of its name.
pub fn refuse(
    intent: &Intent,
    grounds: &Grounds,
    (node, operand_key): (&NodeId, &OperandKey),
    trace: &TraceId,
    may_be_forgotten: bool,
) -> Commit {
    let environment = intent.environment();
    let mut steps = vec![Step::Absent(intent.name().key)];
    if intent.named().is_some() && !may_be_forgotten {
        steps.push(Step::Absent(Freeze::Restored.key(environment)));
    }
    steps.extend(grounds.guards());
    let entry = Entry::asked(What::Refused, intent, trace)
        .with("decision", grounds.told())
        .with("operands", grounds.operands(intent, operand_key));
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

pub fn begun(committed: &Committed) -> Begun {
    Begun { attempt: committed.number }
}

/// The commit that the store did not answer for was done after all, if the claim bears its nonce.
pub fn begun_after_all(record: &Record, claim: &Claim, wanted: &Nonce) -> Option<Begun> {
    match &claim.state {
        State::Sending { nonce, .. } if nonce == wanted => Some(Begun { attempt: record.version }),
        State::Sending { .. } | State::Unknown { .. } => None,
        State::Held | State::Declined(_) | State::Done { .. } => None,
    }
}

/// What stood in the way, of all that did: a claim is answered before anything else is said.
pub fn standing(commit: &Commit, at: StoreTime, obstacles: Vec<Obstacle>) -> Standing {
    let (mut standing, mut learnt) = (Standing::Puzzling, Vec::new());
    for obstacle in obstacles {
        match (commit.steps.get(obstacle.step), obstacle.found) {
            (Some(Step::Create { .. }), Found::Record(record)) => return Standing::Claimed(record),
            (Some(Step::Absent(key)), Found::Record(record)) if key.kind == Kind::Claim => {
                return Standing::Claimed(record);
            }
            (Some(Step::Absent(key)), Found::Record(_)) if *key == Freeze::Restored.key(key.environment) => {
                standing = Standing::Forgotten;
            }
            (Some(Step::Absent(_)), Found::Record(_)) if standing != Standing::Forgotten => standing = Standing::Frozen,
            (Some(Step::Member { member, .. }), _) => learnt.push(Learnt::Paid(member.clone(), false)),
            (Some(Step::NotMember { member, .. }), _) => learnt.push(Learnt::Paid(member.clone(), true)),
            (Some(Step::Reserve { .. } | Step::After(_) | Step::Before(_)), Found::Time) => {
                learnt.push(Learnt::Time(at))
            }
            (Some(Step::Reserve { window, .. }), _) => learnt.push(Learnt::Full(window.clone())),
            (Some(Step::Replace { .. } | Step::Version { .. }), _) => return Standing::Moved,
            _ => {}
        }
    }
    match standing {
        Standing::Puzzling if !learnt.is_empty() => Standing::Otherwise(learnt),
        standing => standing,
    }
}

/// A claim as the store knows it.
#[derive(Clone, Copy, Debug)]
pub struct Standpoint<'a> {
    pub key: &'a RecordKey,
    pub version: Number,
    /// When the record was written.
    pub at: StoreTime,
    pub claim: &'a Claim,
}

/// What happened to an attempt is written down; or the claim has moved on from it.
pub fn settle(
    here: Standpoint<'_>,
    attempt: Number,
    event: Event,
    node: &NodeId,
    terms: &Terms,
) -> Result<(Commit, Next), Moved> {
    let is_its_own = match &here.claim.state {
        State::Sending { .. } => here.version == attempt,
        State::Unknown { attempt: known, .. } => *known == attempt,
        State::Held | State::Declined(_) | State::Done { .. } => false,
    };
    if !is_its_own {
        return Err(Moved);
    }
    let next = after(&here.claim.state, event, Naming::of(here.key), here.claim.hold.is_some());
    let next = next.map_err(|ImpossibleEvent| Moved)?;
    let commit = become_next(here, attempt, next.clone(), node, terms);
    Ok((commit, next))
}

/// The node that sent it said nothing more within its lease. Guarded by the store's time.
pub fn lapse(here: Standpoint<'_>, node: &NodeId, terms: &Terms) -> Option<Commit> {
    let State::Sending { lease, .. } = &here.claim.state else { return None };
    let over = here.at.plus(*lease);
    let (mut commit, _) = settle(here, here.version, Event::Doubted(Doubt::Lapsed), node, terms).ok()?;
    commit.steps.push(Step::After(over));
    Some(commit)
}

/// Upstream was asked, and what it said proves nothing; it is asked again after `due`.
pub fn look_again(here: Standpoint<'_>, due: Duration, node: &NodeId) -> Option<Commit> {
    let mut claim = here.claim.clone();
    let State::Unknown { looks, attempt, doubted, .. } = &mut claim.state else { return None };
    *looks = looks.saturating_add(1);
    doubted.get_or_insert(here.at);
    let entry = entry(What::Unknown, here.key, here.claim, *attempt).with("looks", *looks);
    let steps = vec![
        Step::Replace { key: here.key.clone(), version: here.version, value: write(&claim), keep: Keep::Forever },
        Step::IndexAdd { index: Index::Unknown, member: here.key.name.clone(), due },
    ];
    Some(Commit { environment: here.key.environment, node: node.clone(), steps, entry: entry.to_bytes() })
}

/// Whether this very outcome is written down already: by a commit that the store did not answer for. `by_path`: a refusal
/// leaves no claim.
pub fn is_settled(found: Option<(Number, &Claim)>, attempt: Number, event: &Event, by_path: bool) -> bool {
    match (found.map(|(_, claim)| &claim.state), event) {
        // Another attempt can have been made only after this one was undone.
        (Some(State::Sending { .. }), Event::Undone) => found.is_some_and(|(version, _)| version > attempt),
        (Some(State::Unknown { attempt: known, .. }), Event::Undone) => *known > attempt,
        // It waits again, or has waited in vain since.
        (Some(State::Held | State::Declined(_)), Event::Undone) => true,
        (None, Event::Undone | Event::ShownAbsent) => true,
        (None, Event::Refused(_)) => by_path,
        (Some(State::Done { executed: true, answer }), Event::Executed(mine) | Event::Found(mine)) => answer == mine,
        (Some(State::Done { executed: false, answer }), Event::Refused(mine)) => answer == mine,
        (Some(State::Unknown { attempt: known, .. }), Event::Doubted(_)) => *known == attempt,
        _ => false,
    }
}

/// An answer that came for an attempt whose claim has moved on: it is told, and changes nothing.
pub fn late(key: &RecordKey, attempt: Number, event: &Event, node: &NodeId) -> Commit {
    let entry = Entry::of(What::Late).claim(key, None).attempt(attempt).with("said", event.as_str());
    Commit { environment: key.environment, node: node.clone(), steps: Vec::new(), entry: entry.to_bytes() }
}

/// What became of a call that could not be claimed.
pub fn settle_unclaimed(
    environment: Environment,
    entry: Entry,
    attempt: Number,
    booked: &Booked,
    event: &Event,
    node: &NodeId,
) -> Commit {
    let what = match event {
        Event::Executed(_) | Event::Found(_) => What::Executed,
        Event::Refused(_) => What::NotExecuted,
        Event::Undone | Event::ShownAbsent => What::Undone,
        Event::Doubted(_) => What::Unknown,
    };
    let steps = match what {
        What::Executed => booked.executed(),
        What::NotExecuted | What::Undone => booked.given_back(),
        _ => Vec::new(),
    };
    let entry = told(entry.with("what", what.as_str()).attempt(attempt), event);
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

fn become_next(here: Standpoint<'_>, attempt: Number, next: Next, node: &NodeId, terms: &Terms) -> Commit {
    let member = here.key.name.clone();
    let mut steps = vec![Step::IndexRemove { index: Index::Sending, member: member.clone() }];
    let told = |what| entry(what, here.key, here.claim, attempt);
    let replace = |state, keep| {
        let value: Bytes = write(&Claim { state, ..here.claim.clone() });
        Step::Replace { key: here.key.clone(), version: here.version, value, keep }
    };
    let entry = match next {
        Next::Absent => {
            steps.push(Step::IndexRemove { index: Index::Unknown, member });
            steps.push(Step::Delete { key: here.key.clone(), version: here.version });
            steps.extend(here.claim.booked.given_back());
            told(What::Undone)
        }
        Next::Held => {
            steps.push(Step::IndexRemove { index: Index::Unknown, member });
            let claim = Claim { state: State::Held, booked: Booked::default(), ..here.claim.clone() };
            let (key, version) = (here.key.clone(), here.version);
            steps.push(Step::Replace { key, version, value: write(&claim), keep: Keep::Forever });
            steps.extend(here.claim.booked.given_back());
            told(What::Undone)
        }
        Next::Done { executed, answer } => {
            steps.push(Step::IndexRemove { index: Index::Unknown, member });
            let (status, keep) = (answer.status, keep(here, executed, terms));
            steps.push(replace(State::Done { executed, answer }, keep));
            steps.extend(if executed { here.claim.booked.executed() } else { here.claim.booked.given_back() });
            told(if executed { What::Executed } else { What::NotExecuted }).with("status", status)
        }
        Next::Unknown(doubt) => {
            steps.push(Step::IndexAdd { index: Index::Unknown, member, due: terms.first_look });
            if let State::Sending { sent, .. } = &here.claim.state {
                let unknown = State::Unknown {
                    attempt,
                    since: here.at,
                    doubt,
                    doubted: None,
                    sent: sent.clone(),
                    looks: 0,
                    said_absent: None,
                };
                steps.push(replace(unknown, Keep::Forever));
            }
            told(What::Unknown).with("doubt", doubt.as_str())
        }
    };
    Commit { environment: here.key.environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// A claim by path is for good once it was executed: there is no other name under which it could be asked again.
fn keep(here: Standpoint<'_>, executed: bool, terms: &Terms) -> Keep {
    match (Naming::of(here.key), terms.keep) {
        (Naming::Path, Keep::For { whole, .. }) if executed => Keep::For { whole, spent: FOR_GOOD },
        (Naming::RequestId, keep) | (Naming::Path, keep @ Keep::Forever) => keep,
        (Naming::Path | Naming::Call, _) => FOR_A_DAY,
    }
}

pub(super) fn entry(what: What, key: &RecordKey, claim: &Claim, attempt: Number) -> Entry {
    let entry = match &claim.hold {
        Some(hold) => Entry::of(what).with("hold", hold.as_str()),
        None => Entry::of(what),
    };
    entry
        .claim(key, claim.request_id.as_ref())
        .operation(&claim.operation)
        .owner(&claim.owner.issuer, &claim.owner.subject)
        .fingerprint(claim.fingerprint)
        .trace(&claim.trace)
        .attempt(attempt)
}

fn told(entry: Entry, event: &Event) -> Entry {
    match event {
        Event::Executed(Answer { status, .. })
        | Event::Refused(Answer { status, .. })
        | Event::Found(Answer { status, .. }) => entry.with("status", *status),
        Event::Doubted(doubt) => entry.with("doubt", doubt.as_str()),
        Event::Undone | Event::ShownAbsent => entry,
    }
}
