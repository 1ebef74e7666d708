//! A store that lost claims. Money stays closed until every node has reported what its own audit log contains, or a person
//! opens it.
//!
//! An audit log tells who called what and how that ended. It does not tell what was sent, what was answered, nor the
//! amounts in windows. So an executed call is answered with its status alone, another that ended becomes a spent claim, any
//! other gets an unknown outcome, and windows stay as the store has them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Map, Value};

use super::bookings::Booking;
use super::freeze::{self, Forgotten, Freeze, Frozen};
use super::past_attempts::{AttemptEnd, PastAttempt, with_told};
use super::state::{Claim, ClaimState, DoubtCause, SentRequest, StoredAnswer};
use super::stored_form::encode_claim;
use super::terms::{FOR_GOOD, Terms};
use super::told_acts::{ToldActs, owner_of};
use crate::audit::{Entry, EntryKind, UnusedNumbers};
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, HoldId, OperationId, RequestId, TraceId};
use crate::base::json::{self, Limits};
use crate::ledger::{
    Commit, Conflict, ConflictCause, Content, Index, JournalId, Keep, Kind, NodeId, Number, Outstanding, Record,
    RecordKey, Sender, Step, StoreTime,
};

/// The most reasons in one record.
const MAX_REASONS: usize = 16;

impl Forgotten {
    /// Reads the record of [`Freeze::Restored`].
    pub fn read(record: &[u8]) -> Forgotten {
        let all_else = || Forgotten { by_person: true, ..Forgotten::default() };
        freeze::forgotten(record).unwrap_or_else(all_else)
    }

    /// Whether the last awaited node opens money.
    pub fn opens_by_itself(&self) -> bool {
        !self.by_person && self.begins_behind == 0
    }

    /// Whether the store may lack what was done after something that it knows. Of what it has behind the beginning of a
    /// journal, it has the newest.
    pub fn may_lack_newer(&self) -> bool {
        self.by_person || !self.nodes.is_empty()
    }

    /// Leaves money closed until a person opens it, and keeps the reason for later closings.
    pub fn must_be_opened(&mut self, reason: &str) {
        self.by_person = true;
        if self.reasons.len() < MAX_REASONS && !self.reasons.iter().any(|known| known == reason) {
            self.reasons.push(reason.to_owned());
        }
    }

    /// Adds the nodes of another closing; of each, the store lacks what either lacks.
    pub fn awaits_also(&mut self, other: &Forgotten) {
        for (node, from) in &other.nodes {
            let known = self.nodes.entry(node.clone()).or_insert(*from);
            *known = (*from).min(*known);
        }
        self.knows_of(&other.made);
    }

    /// Reads the record of [`Freeze::Restored`] that the store has, if it has one, and its version.
    pub fn of_record(record: Option<Record>) -> (Option<Number>, Forgotten) {
        let Some(record) = record else { return (None, Forgotten::default()) };
        let bytes = match &record.content {
            Content::Whole(bytes) => bytes.as_ref(),
            Content::Spent => b"",
        };
        (Some(record.version), Forgotten::read(bytes))
    }

    /// Notes commits that others were told of.
    pub fn knows_of(&mut self, made: &BTreeMap<NodeId, u64>) {
        for (node, number) in made {
            let known = self.made.entry(node.clone()).or_default();
            *known = (*number).max(*known);
        }
    }

    fn written(&self, why: (&str, &str)) -> Bytes {
        freeze::written(why, Some(self.clone()))
    }
}

/// What a rebuild makes of money.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoneyAfterRebuild {
    Closed(RebuildClosing),
    /// Nothing is missing: a closing by an earlier rebuild, if there is one, ends.
    Open(Option<Number>),
}

/// The reasons that close money after a rebuild.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuildClosing {
    /// The commit that closed money before, if it is closed.
    pub before: Option<Number>,
    /// The nodes whose journals hold commits that the rebuilt store lacks.
    pub waits_for: Forgotten,
    /// For people.
    pub why: String,
}

/// The commit behind a rebuild of a lost store from a journal, above all numbers that any node knows.
pub fn rebuilt(environment: Environment, unused: UnusedNumbers, money: MoneyAfterRebuild, node: &NodeId) -> Commit {
    const BY: &str = "sluice serve";
    let what = Freeze::Restored;
    let mut entry = unused.stated(Entry::of(EntryKind::Rebuilt).with("by", BY));
    let mut steps = vec![Step::Above(Number::new(unused.last))];
    let key = what.key(environment);
    match money {
        MoneyAfterRebuild::Closed(RebuildClosing { before, waits_for, why }) => {
            let nodes: Vec<&str> = waits_for.nodes.keys().map(NodeId::as_str).collect();
            entry = entry.with("freeze", what.name()).with("reason", why.as_str()).with("nodes", nodes);
            let (keep, value) = (Keep::Forever, waits_for.written((BY, &why)));
            steps.push(match before {
                None => Step::Create { key, value, keep },
                Some(version) => Step::Replace { key, version, value, keep },
            });
            steps.push(Step::IndexAdd { index: Index::Frozen, member: what.name(), due: Duration::ZERO });
        }
        MoneyAfterRebuild::Open(Some(version)) => {
            entry = entry.with("opens", what.name());
            steps.push(Step::Delete { key, version });
            steps.push(Step::IndexRemove { index: Index::Frozen, member: what.name() });
        }
        MoneyAfterRebuild::Open(None) => {}
    }
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Records that this node has reported all it knows; the last node opens money. `former` says who closed it, and why.
pub fn remembered(
    environment: Environment,
    version: Number,
    mut forgotten: Forgotten,
    former: &Frozen,
    node: &NodeId,
) -> Commit {
    forgotten.nodes.remove(node);
    let what = Freeze::Restored;
    let key = what.key(environment);
    let opens = forgotten.nodes.is_empty() && forgotten.opens_by_itself();
    let by = "sluice serve";
    let steps = if opens {
        let remove = Step::IndexRemove { index: Index::Frozen, member: what.name() };
        vec![Step::Delete { key, version }, remove]
    } else {
        let reason = former.reason.as_deref().unwrap_or("the store lost records that nodes still know");
        let value = forgotten.written((former.by.as_deref().unwrap_or(by), reason));
        vec![Step::Replace { key, version, value, keep: Keep::Forever }]
    };
    let happened = if opens { EntryKind::Unfrozen } else { EntryKind::Remembered };
    let entry = Entry::of(happened).with("freeze", what.name()).with("by", by);
    let entry = entry.with("reason", "the store has again what this node's audit log holds");
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Records that a node came without the journal for which the store waits: a person must open money.
pub fn never_remembered(
    environment: Environment,
    version: Number,
    mut forgotten: Forgotten,
    why: &str,
    node: &NodeId,
) -> Commit {
    forgotten.nodes.remove(node);
    let (what, by) = (Freeze::Restored, "sluice serve");
    forgotten.must_be_opened(why);
    let value = forgotten.written((by, why));
    let steps = vec![Step::Replace { key: what.key(environment), version, value, keep: Keep::Forever }];
    let entry = Entry::of(EntryKind::Remembered).with("freeze", what.name()).with("by", by).with("reason", why);
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Closes money until a person opens it, because of what a journal lacks, or what the store lacks of it. Guarded: money is
/// closed by the version `before`, if it is closed.
pub fn closed_for_gap(
    environment: Environment,
    before: Option<Number>,
    mut forgotten: Forgotten,
    why: &str,
    node: &NodeId,
) -> Commit {
    let (what, by) = (Freeze::Restored, "sluice serve");
    let (key, keep) = (what.key(environment), Keep::Forever);
    forgotten.must_be_opened(why);
    let value = forgotten.written((by, why));
    let record = match before {
        None => Step::Create { key, value, keep },
        Some(version) => Step::Replace { key, version, value, keep },
    };
    let add = Step::IndexAdd { index: Index::Frozen, member: what.name(), due: Duration::ZERO };
    let entry = Entry::of(EntryKind::Frozen).with("freeze", what.name()).with("by", by).with("reason", why);
    Commit { environment, node: node.clone(), steps: vec![record, add], entry: entry.to_bytes() }
}

/// The claims that an audit log tells of, and what people did.
#[derive(Debug)]
pub struct Tale {
    claims: BTreeMap<String, KnownClaim>,
    pub acts: ToldActs,
    /// The gate whose log it is.
    sender: Sender,
}

/// The facts that an audit log has of one claim.
#[derive(Clone, Debug)]
pub struct KnownClaim {
    claim: Claim,
    ended: Ended,
    at: StoreTime,
}

/// The end of an attempt, as far as known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Executed,
    NotExecuted,
    /// The call may be sent again.
    Undone,
    Not,
}

impl Tale {
    pub fn of(sender: Sender) -> Tale {
        Tale { claims: BTreeMap::new(), acts: ToldActs::default(), sender }
    }

    /// Adds an entry, in the order of the log.
    pub fn add(&mut self, outstanding: &Outstanding) {
        let Ok(Value::Object(entry)) = json::parse(&outstanding.entry, Limits::ANSWER) else { return };
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        self.acts.add(&entry, outstanding.number);
        let Some(name) = text("claim") else { return };
        let ended = match (text("what"), text("said")) {
            // A proof of execution counts, whatever became of its claim since.
            (Some("executed"), _) | (Some("late"), Some("executed" | "found")) => Ended::Executed,
            (Some("not-executed" | "abandoned"), _) => Ended::NotExecuted,
            (Some("undone"), _) => Ended::Undone,
            (Some("sending" | "unknown" | "said-absent" | "said-abandoned"), _) => Ended::Not,
            _ => return,
        };
        match self.claims.get_mut(name) {
            // No state of a claim follows from these.
            Some(KnownClaim { ended: Ended::Executed, .. }) => {}
            Some(KnownClaim { ended: Ended::NotExecuted, .. }) if ended != Ended::Executed => {}
            Some(told) if ended == Ended::Executed => told.is_executed(),
            Some(told) if entry.get("owner").is_none() => told.ended = ended,
            before => {
                let requester = before.as_ref().and_then(|told| told.claim.requester.clone());
                let sent_by = before.and_then(|told| told.claim.in_doubt()).map(|past| past.sender.clone());
                let sender = text("journal")
                    .and_then(JournalId::parse)
                    .map(|journal| Sender { node: outstanding.node.clone(), journal });
                let sender = sender.or(sent_by).unwrap_or_else(|| self.sender.clone());
                let Some(claim) = claim_of(&entry, outstanding, sender) else { return };
                let claim = Claim { requester: claim.requester.clone().or(requester), ..claim };
                let mut told = KnownClaim { claim, ended, at: outstanding.at };
                if ended == Ended::Executed {
                    told.is_executed();
                }
                self.claims.insert(name.to_owned(), told);
            }
        }
    }

    /// Returns the claims that a store must know, by their names.
    pub fn into_claims(self) -> impl Iterator<Item = (String, KnownClaim)> {
        self.claims.into_iter().filter(|(_, told)| told.ended != Ended::Undone)
    }
}

impl KnownClaim {
    /// Returns the steps that create the claim. Guarded: there is no such claim.
    pub fn steps(&self, environment: Environment, name: &str, terms: &Terms) -> Vec<Step> {
        let key = RecordKey { environment, kind: Kind::Claim, name: name.to_owned() };
        if self.has_ended() {
            return vec![Step::Create { key, value: encode_claim(&self.claim), keep: self.keep(terms) }];
        }
        vec![
            Step::Create { key, value: encode_claim(&self.claim), keep: Keep::Forever },
            Step::IndexAdd { index: Index::Unknown, member: name.to_owned(), due: terms.first_look },
        ]
    }

    /// Returns the steps where the store knows the claim, and less of it than the log.
    pub fn over(&self, key: &RecordKey, found: &Record, claim: &Claim, terms: &Terms) -> Option<Vec<Step>> {
        // A claim that the store has as held or declined was sent since; so was one that lacks the attempt.
        let was_sent =
            matches!(claim.state, ClaimState::Held | ClaimState::Declined(_)) || !self.is_known_to(found, claim);
        if matches!(claim.state, ClaimState::Done { .. }) || !(self.has_ended() || was_sent) {
            return None;
        }
        let attempts = self.claim.attempts.last().map(|told| with_told(&claim.attempts, told)).unwrap_or_default();
        let value = encode_claim(&Claim { attempts, ..self.claim.clone() });
        let remove = |index| Step::IndexRemove { index, member: key.name.clone() };
        if !self.has_ended() {
            let (version, member) = (found.version, key.name.clone());
            return Some(vec![
                Step::Replace { key: key.clone(), version, value, keep: Keep::Forever },
                remove(Index::Sending),
                Step::IndexAdd { index: Index::Unknown, member, due: terms.first_look },
            ]);
        }
        let keep = self.keep(terms);
        let replace = Step::Replace { key: key.clone(), version: found.version, value, keep };
        Some(vec![replace, remove(Index::Sending), remove(Index::Unknown)])
    }

    /// Returns whether the store's claim has the attempt that the log tells of last.
    fn is_known_to(&self, found: &Record, claim: &Claim) -> bool {
        let is_being_sent = |number| matches!(claim.state, ClaimState::Sending { .. }) && found.version >= number;
        let known = |told: &PastAttempt| {
            let is_later = claim.attempts.iter().any(|past| past.number > told.number);
            is_later || claim.attempt(told.number).is_some() || is_being_sent(told.number)
        };
        self.claim.attempts.last().is_none_or(known)
    }

    /// Returns whether the claim's retention is over.
    pub fn is_past(&self, now: StoreTime, terms: &Terms) -> bool {
        match self.keep(terms) {
            Keep::For { whole, spent } => self.has_ended() && now.since(self.at) > whole.saturating_add(spent),
            Keep::Forever => false,
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.ended, Ended::Executed | Ended::NotExecuted)
    }

    /// Keeps what answers a repeat. Of a call that was not executed, the answer is lost: only its tombstone is kept.
    fn keep(&self, terms: &Terms) -> Keep {
        let Keep::For { whole, spent } = terms.keep else { return Keep::Forever };
        let spent = if self.claim.request_id.is_some() { spent } else { FOR_GOOD };
        match self.ended {
            Ended::Executed => Keep::For { whole, spent },
            Ended::NotExecuted | Ended::Undone | Ended::Not => {
                Keep::For { whole: Duration::ZERO, spent: whole.saturating_add(spent) }
            }
        }
    }

    fn is_executed(&mut self) {
        self.ended = Ended::Executed;
        let answer = StoredAnswer::of_executed(200, self.claim.request_id.as_ref());
        self.claim.state = ClaimState::Done { executed: true, answer };
        if let Some(last) = self.claim.attempts.last_mut() {
            last.end = AttemptEnd::Executed;
        }
    }
}

/// Writes many claims in one commit.
pub fn remember(environment: Environment, names: &[&str], steps: Vec<Step>, node: &NodeId) -> Commit {
    let entry = Entry::of(EntryKind::Remembered).with("claims", names);
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Returns the claims that conflict with a commit, with the store's records of them.
pub fn in_the_way(commit: &Commit, conflicts: Vec<Conflict>) -> Vec<(RecordKey, Record)> {
    let known = conflicts.into_iter().filter_map(|conflict| match (commit.steps.get(conflict.step), conflict.found) {
        (Some(Step::Create { key, .. }), ConflictCause::Record(record)) => Some((key.clone(), record)),
        _ => None,
    });
    known.collect()
}

/// Returns a claim that the store has in full.
pub fn whole(record: &Record) -> Option<Claim> {
    match &record.content {
        Content::Whole(bytes) => super::stored_form::decode_claim(bytes).ok(),
        Content::Spent => None,
    }
}

fn claim_of(entry: &Map<String, Value>, outstanding: &Outstanding, sender: Sender) -> Option<Claim> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let what = text("what")?;
    let owner = owner_of(entry.get("owner")?)?;
    let number = entry.get("attempt").and_then(Value::as_u64).map(Number::new).unwrap_or(outstanding.number);
    let end = match what {
        "not-executed" => AttemptEnd::NotExecuted { status: 0 },
        _ => AttemptEnd::Unknown,
    };
    let state = match what {
        "not-executed" => ClaimState::Done {
            executed: false,
            answer: StoredAnswer { status: 200, headers: HeaderMap::new(), body: Bytes::new() },
        },
        "abandoned" => ClaimState::Abandoned,
        _ => ClaimState::Unknown {
            doubt: DoubtCause::Forgotten,
            doubted: None,
            sent: SentRequest::forgotten(),
            looks: 0,
            said_absent: None,
            said_abandoned: None,
        },
    };
    // The reservations and destinations are lost.
    let past = PastAttempt { number, sender, since: outstanding.at, booked: Booking::default(), end };
    Some(Claim {
        owner,
        requester: text("requester").map(str::to_owned),
        operation: OperationId::new(text("operation")?),
        fingerprint: Fingerprint::of_hex(text("fingerprint")?)?,
        request_id: text("requestId").and_then(RequestId::parse),
        trace: TraceId::parse(text("trace")?)?,
        moves: None,
        hold: text("hold").and_then(HoldId::parse),
        attempts: vec![past],
        state,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_reports_leaves_the_reason_of_the_closing_as_it_was() {
        let [left, right] = ["left", "right"].map(|name| NodeId::parse(name).unwrap());
        let mut waits = Forgotten { nodes: [(left.clone(), 3), (right, 4)].into(), ..Forgotten::default() };
        for number in 0..2 * MAX_REASONS {
            waits.must_be_opened("the journal begins in the middle");
            waits.must_be_opened(&format!("reason {number}"));
        }
        assert_eq!((waits.reasons.len(), waits.by_person), (MAX_REASONS, true));
        let former = Frozen { by: Some("people/ops-1".to_owned()), reason: Some("the disk was lost".to_owned()) };
        let commit = remembered(Environment::Production, Number::new(9), waits.clone(), &former, &left);
        let [Step::Replace { value, .. }] = commit.steps.as_slice() else { panic!("it replaces the record") };
        assert_eq!(freeze::frozen(value), former);
        let now = Forgotten::read(value);
        assert!(!now.nodes.contains_key(&left) && now.nodes.len() == 1);
        assert_eq!(now.reasons, waits.reasons);
    }
}
