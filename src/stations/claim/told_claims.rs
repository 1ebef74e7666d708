//! The calls that an audit log tells of, for a store that lost them.
//!
//! An executed call is answered with its status alone, another that ended becomes a spent claim, and any other gets an
//! unknown outcome: what was answered is lost with the store. What a call used of limits counts again with its claim, in one
//! commit, so that a repeat of the telling counts nothing twice.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Map, Value};

use super::bookings::Booking;
use super::past_attempts::{AttemptEnd, Executions, PastAttempt, with_latest, with_told};
use super::state::{Claim, ClaimState, DoubtCause, SentRequest, StoredAnswer};
use super::stored_form::encode_claim;
use super::terms::{FOR_GOOD, Terms};
use super::told_acts::{ToldActs, owner_of};
use crate::audit::{Entry, EntryKind};
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, HoldId, OperationId, RequestId, TraceId};
use crate::base::json::{self, Limits};
use crate::ledger::{
    Commit, Conflict, ConflictCause, Content, Index, JournalId, Keep, Kind, NodeId, Number, Outstanding, Record,
    RecordKey, Sender, Step, StoreTime,
};

/// The claims that an audit log tells of, and what people did.
#[derive(Debug)]
pub struct Tale {
    claims: BTreeMap<String, KnownClaim>,
    pub acts: ToldActs,
    /// The gate whose log it is.
    sender: Sender,
    /// The number up to which its entries are of another history than the store's.
    apart_up_to: u64,
}

/// The facts that an audit log has of one claim.
#[derive(Clone, Debug)]
pub struct KnownClaim {
    claim: Claim,
    ended: Ended,
    at: StoreTime,
    /// Whether the log has what the attempt used of limits.
    is_booking_known: bool,
    /// Whether the attempt is of another history than the store's, where its number is that of something else.
    is_apart: bool,
}

/// What an audit log changes of a claim that the store knows.
#[derive(Debug)]
pub struct ToldChange {
    pub steps: Vec<Step>,
    /// The attempt of the log that was executed beside another one, or may have been; and how often the call was executed.
    pub beside: Option<(PastAttempt, Executions)>,
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
        Tale { claims: BTreeMap::new(), acts: ToldActs::default(), sender, apart_up_to: 0 }
    }

    /// Its entries up to this number are of another history than the store's.
    pub fn apart_up_to(self, number: u64) -> Tale {
        Tale { apart_up_to: number, ..self }
    }

    /// Adds an entry, in the order of the log, and the claim as its commit wrote it, where that is known.
    pub fn add(&mut self, outstanding: &Outstanding, written: Option<&Claim>) {
        let Ok(Value::Object(entry)) = json::parse(&outstanding.entry, Limits::ANSWER) else { return };
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        self.acts.add(&entry, (&outstanding.node, outstanding.number));
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
                let former = before.cloned();
                let requester = former.as_ref().and_then(|told| told.claim.requester.clone());
                let sent_by = former.as_ref().and_then(|told| told.claim.in_doubt()).map(|past| past.sender.clone());
                let sender = text("journal")
                    .and_then(JournalId::parse)
                    .map(|journal| Sender { node: outstanding.node.clone(), journal });
                let sender = sender.or(sent_by).unwrap_or_else(|| self.sender.clone());
                let Some(claim) = claim_of(&entry, outstanding, sender) else { return };
                let claim = Claim { requester: claim.requester.clone().or(requester), ..claim };
                let claim = sent_as_told_before(claim, former.as_ref());
                let is_apart = claim.attempts.last().is_some_and(|last| last.number.as_u64() <= self.apart_up_to);
                let mut told = KnownClaim { claim, ended, at: outstanding.at, is_booking_known: false, is_apart };
                if let Some(former) = former.filter(|former| former.is_booking_known) {
                    told.learn(&former.claim, outstanding);
                }
                if ended == Ended::Executed {
                    told.is_executed();
                }
                self.claims.insert(name.to_owned(), told);
            }
        }
        if let Some((told, written)) = self.claims.get_mut(name).zip(written) {
            told.learn(written, outstanding);
        }
    }

    /// Returns the claims that a store must know, by their names.
    pub fn into_claims(self) -> impl Iterator<Item = (String, KnownClaim)> {
        self.claims.into_iter().filter(|(_, told)| told.ended != Ended::Undone)
    }
}

impl KnownClaim {
    /// Returns the steps that create the claim, and count what it used of limits. Guarded: there is no such claim.
    pub fn steps(&self, environment: Environment, name: &str, terms: &Terms, now: StoreTime) -> Vec<Step> {
        let key = RecordKey { environment, kind: Kind::Claim, name: name.to_owned() };
        let keep = if self.has_ended() { self.keep(terms) } else { Keep::Forever };
        let mut steps = vec![Step::Create { key, value: encode_claim(&self.claim), keep }];
        if !self.has_ended() {
            steps.push(Step::IndexAdd { index: Index::Unknown, member: name.to_owned(), due: terms.first_look });
        }
        steps.extend(self.counted(now));
        steps
    }

    /// Returns the steps that count what the last attempt used of limits, for a store that does not know the attempt. What
    /// may have been executed is held until its end is known.
    fn counted(&self, now: StoreTime) -> Vec<Step> {
        let Some(last) = self.claim.attempts.last() else { return Vec::new() };
        match self.ended {
            Ended::Executed => last.booked.executed_after_all(last.since),
            _ if self.may_be_executed() => last.booked.held_again(last.since, now),
            Ended::NotExecuted | Ended::Undone | Ended::Not => Vec::new(),
        }
    }

    /// Returns the steps on what the last attempt used of limits, where the store knows the claim.
    fn counted_beside(&self, found: &Record, claim: &Claim, now: StoreTime) -> Vec<Step> {
        let Some(last) = self.claim.attempts.last() else { return Vec::new() };
        let listed = claim.attempts.iter().find(|past| past.is_same(last)).cloned();
        let Some(known) = listed.or_else(|| being_sent(found, claim, last)) else { return self.counted(now) };
        match self.ended {
            Ended::Executed => known.proved_executed(),
            Ended::NotExecuted if !self.may_be_executed() => known.proved_not_executed(),
            Ended::NotExecuted | Ended::Undone | Ended::Not => Vec::new(),
        }
    }

    /// Takes what the attempt used of limits from the claim as the commit of an entry wrote it.
    fn learn(&mut self, written: &Claim, by: &Outstanding) {
        let Some(last) = self.claim.attempts.last_mut() else { return };
        let known = match (&written.state, written.attempt(last.number)) {
            (_, Some(past)) => (past.since, &past.booked),
            (ClaimState::Sending { booked, .. }, None) if by.number == last.number => (by.at, booked),
            _ => return,
        };
        let (since, booked) = known;
        // Of an attempt that was told to a store before, without what it used, it is not known there.
        if !booked.holder.is_empty() {
            (last.since, last.booked) = (since, booked.clone());
            self.is_booking_known = true;
        }
    }

    /// Returns whether it may have used something of limits, and the log does not say what.
    pub fn lacks_booking(&self) -> bool {
        !self.is_booking_known && (self.ended == Ended::Executed || self.may_be_executed())
    }

    /// Returns whether its commit counts something. Two of them may count in one window, and a commit writes it once.
    pub fn counts(&self, now: StoreTime) -> bool {
        !self.counted(now).is_empty()
    }

    /// Nobody knows, or will ever know, what became of it.
    fn may_be_executed(&self) -> bool {
        self.ended == Ended::Not || self.claim.state == ClaimState::Abandoned
    }

    /// Returns the steps where the store knows the claim, and less of it than the log.
    pub fn over(
        &self,
        key: &RecordKey,
        found: &Record,
        claim: &Claim,
        (terms, now): (&Terms, StoreTime),
    ) -> Option<ToldChange> {
        if !self.tells_more_than(found, claim) {
            return None;
        }
        let known = attempts_of(found, claim);
        let attempts = self.claim.attempts.last().map(|told| with_told(&known, told)).unwrap_or_default();
        let is_executed = self.ended == Ended::Executed || claim.state.is_executed();
        // What was answered to the call stays.
        let base = if claim.state.is_executed() { claim } else { &self.claim };
        let next = Claim { attempts, ..base.clone() };
        let is_over = is_executed || self.has_ended();
        let keep = match (is_executed, is_over) {
            (true, _) => self.keep_as(Ended::Executed, terms),
            (false, true) => self.keep(terms),
            (false, false) => Keep::Forever,
        };
        let (version, member) = (found.version, key.name.clone());
        let mut steps = vec![
            Step::Replace { key: key.clone(), version, value: encode_claim(&next), keep },
            Step::IndexRemove { index: Index::Sending, member: member.clone() },
            match is_over {
                true => Step::IndexRemove { index: Index::Unknown, member },
                false => Step::IndexAdd { index: Index::Unknown, member, due: terms.first_look },
            },
        ];
        steps.extend(self.counted_beside(found, claim, now));
        let executions = next.executions();
        let is_new = executions != Executions::AtMostOnce && executions != claim.executions();
        let beside = self.claim.attempts.last().filter(|_| is_new).map(|told| (told.clone(), executions));
        Some(ToldChange { steps, beside })
    }

    /// Returns whether the log knows something of the claim that the store does not.
    fn tells_more_than(&self, found: &Record, claim: &Claim) -> bool {
        let is_news = !self.is_known_to(found, claim);
        match &claim.state {
            // Another attempt may have been executed in another history of the store.
            ClaimState::Done { executed, .. } => match self.ended {
                Ended::Executed => !executed || !self.is_listed_as_executed(claim),
                _ => is_news && self.may_be_executed(),
            },
            // It was sent since.
            ClaimState::Held | ClaimState::Declined(_) => true,
            _ => is_news || self.has_ended(),
        }
    }

    fn is_listed_as_executed(&self, claim: &Claim) -> bool {
        let is_listed = |told: &PastAttempt| {
            claim.attempts.iter().any(|past| past.is_same(told) && past.end == AttemptEnd::Executed)
        };
        self.claim.attempts.last().is_none_or(is_listed)
    }

    /// Returns whether the store's claim has the attempt that the log tells of last.
    fn is_known_to(&self, found: &Record, claim: &Claim) -> bool {
        let is_sending = matches!(claim.state, ClaimState::Sending { .. });
        let known = |told: &PastAttempt| {
            // In one history, a later attempt is made only where the end of the one before it is known.
            let is_later = claim.attempts.iter().any(|past| past.number > told.number)
                || is_sending && found.version > told.number;
            let is_listed = claim.attempts.iter().any(|past| past.is_same(told));
            is_later && !self.is_apart || is_listed || being_sent(found, claim, told).is_some()
        };
        self.claim.attempts.last().is_none_or(known)
    }

    /// Returns whether it was executed, or may have been, by an attempt that a store with a tombstone of the claim does not
    /// count: that is of another one.
    pub fn is_beside_a_tombstone(&self) -> bool {
        self.is_apart && (self.ended == Ended::Executed || self.may_be_executed())
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
        self.keep_as(self.ended, terms)
    }

    fn keep_as(&self, ended: Ended, terms: &Terms) -> Keep {
        let Keep::For { whole, spent } = terms.keep else { return Keep::Forever };
        let spent = if self.claim.request_id.is_some() { spent } else { FOR_GOOD };
        match ended {
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

/// Returns the attempts of the store's claim; one that is being sent goes on, and is in doubt from now on.
fn attempts_of(found: &Record, claim: &Claim) -> Vec<PastAttempt> {
    let ClaimState::Sending { sender, booked, .. } = &claim.state else { return claim.attempts.clone() };
    let (number, since, sender, booked) = (found.version, found.at, sender.clone(), booked.clone());
    with_latest(&claim.attempts, PastAttempt { number, sender, since, booked, end: AttemptEnd::Unknown })
}

/// Returns the attempt that the store is having sent, if it is the one that a log tells of.
fn being_sent(found: &Record, claim: &Claim, told: &PastAttempt) -> Option<PastAttempt> {
    let ClaimState::Sending { booked, .. } = &claim.state else { return None };
    let is_it = found.version == told.number && booked.may_be_of(&told.booked);
    is_it.then(|| PastAttempt { booked: booked.clone(), end: AttemptEnd::Unknown, ..told.clone() })
}

/// Writes many claims in one commit.
pub fn remember(environment: Environment, names: &[&str], steps: Vec<Step>, node: &NodeId) -> Commit {
    let entry = Entry::of(EntryKind::Remembered).with("claims", names);
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// Returns the commit without the reservations that are in its way: they are held already, or their time is over. `None`
/// where something else is in its way.
pub fn without_held(commit: &Commit, conflicts: &[Conflict]) -> Option<Commit> {
    let is_held = |nth: &usize| conflicts.iter().any(|conflict| conflict.step == *nth);
    let forced = |conflict: &Conflict| matches!(commit.steps.get(conflict.step), Some(Step::Force { .. }));
    let steps = commit.steps.iter().enumerate().filter(|(nth, _)| !is_held(nth)).map(|(_, step)| step.clone());
    conflicts.iter().all(forced).then(|| Commit { steps: steps.collect(), ..commit.clone() })
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

/// Takes the time of the attempt from an earlier entry of it: a later one tells what became of it.
fn sent_as_told_before(mut claim: Claim, former: Option<&KnownClaim>) -> Claim {
    for past in &mut claim.attempts {
        let told = former.and_then(|former| former.claim.attempt(past.number));
        past.since = told.map_or(past.since, |told| told.since.min(past.since));
    }
    claim
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
