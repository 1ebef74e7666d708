//! A store that forgot: it stays closed for money until every node has told what its own audit chain knows, or a person
//! opens it.
//!
//! A chain tells who called what, and how that ended; not what was sent, what was answered, nor how much of a limit it
//! took. So a call that ended becomes a spent claim, any other is in doubt, and windows stay as the store has them.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use serde_json::{Map, Value, json};

use super::booked::Booked;
use super::freeze::Freeze;
use super::keeping::{FOR_GOOD, Terms};
use super::state::{Answer, Claim, Doubt, Owner, SentForm, State};
use super::written::write;
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, HoldId, OperationId, RequestId, TraceId};
use crate::commit::{
    Commit, Content, Found, Index, Keep, Kind, NodeId, Number, Obstacle, Outstanding, Record, RecordKey, Step,
    StoreTime,
};
use crate::stations::record::{Entry, What};

/// The form of the record.
const FORM: u64 = 1;

/// Who has not told yet what it knows, and from which number on the store may not know it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    pub nodes: BTreeMap<NodeId, u64>,
    /// What nodes know is not enough: a person opens it.
    pub by_person: bool,
}

impl Forgotten {
    /// Of the record of [`Freeze::Restored`].
    pub fn read(record: &[u8]) -> Forgotten {
        let all_else = || Forgotten { nodes: BTreeMap::new(), by_person: true };
        let Ok(value) = serde_json::from_slice::<Value>(record) else { return all_else() };
        let Some(nodes) = value.get("nodes").and_then(Value::as_object) else { return all_else() };
        let node = |(name, from): (&String, &Value)| Some((NodeId::parse(name)?, from.as_u64()?));
        match nodes.iter().map(node).collect() {
            Some(nodes) => {
                Forgotten { nodes, by_person: value.get("byPerson").and_then(Value::as_bool).unwrap_or(true) }
            }
            None => all_else(),
        }
    }

    /// Whatever either does not know.
    fn and(mut self, other: &BTreeMap<NodeId, u64>) -> Forgotten {
        for (node, from) in other {
            let known = self.nodes.entry(node.clone()).or_insert(*from);
            *known = (*known).min(*from);
        }
        self
    }

    fn written(&self, (by, reason): (&str, &str)) -> Bytes {
        let nodes: Map<String, Value> =
            self.nodes.iter().map(|(node, from)| (node.as_str().to_owned(), json!(from))).collect();
        let value = json!({ "v": FORM, "by": by, "reason": reason, "nodes": nodes, "byPerson": self.by_person });
        Bytes::from(value.to_string())
    }
}

/// Closed for money, as each of these nodes has to tell what the store does not know from that number on. Guarded: it is
/// closed as `before` says.
pub fn forgot(
    environment: Environment,
    before: Option<(Number, Forgotten)>,
    nodes: &BTreeMap<NodeId, u64>,
    why: (&str, &str),
    node: &NodeId,
) -> Commit {
    let what = Freeze::Restored;
    let (key, keep) = (what.key(environment), Keep::Forever);
    let record = match before {
        None => Step::Create { key, value: Forgotten::default().and(nodes).written(why), keep },
        Some((version, before)) => Step::Replace { key, version, value: before.and(nodes).written(why), keep },
    };
    let add = Step::IndexAdd { index: Index::Frozen, member: what.name(), due: Duration::ZERO };
    let waits_for: Vec<&str> = nodes.keys().map(NodeId::as_str).collect();
    let entry = Entry::of(What::Frozen).with("freeze", what.name()).with("by", why.0).with("reason", why.1);
    let entry = entry.with("nodes", waits_for);
    Commit { environment, node: node.clone(), steps: vec![record, add], entry: entry.to_bytes() }
}

/// This node has told all it knows; when it was the last one, money is open again.
pub fn remembered(
    environment: Environment,
    version: Number,
    mut forgotten: Forgotten,
    why: (&str, &str),
    node: &NodeId,
) -> Commit {
    forgotten.nodes.remove(node);
    let what = Freeze::Restored;
    let key = what.key(environment);
    let opens = forgotten.nodes.is_empty() && !forgotten.by_person;
    let steps = if opens {
        let remove = Step::IndexRemove { index: Index::Frozen, member: what.name() };
        vec![Step::Delete { key, version }, remove]
    } else {
        vec![Step::Replace { key, version, value: forgotten.written(why), keep: Keep::Forever }]
    };
    let happened = if opens { What::Unfrozen } else { What::Remembered };
    let entry = Entry::of(happened).with("freeze", what.name()).with("by", why.0);
    let entry = entry.with("reason", "the audit chain of this node is in the store again");
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// What a chain tells of claims.
#[derive(Debug, Default)]
pub struct Tale {
    claims: BTreeMap<String, Told>,
}

/// What a chain tells of one claim.
#[derive(Clone, Debug)]
pub struct Told {
    claim: Claim,
    ended: Ended,
    at: StoreTime,
}

/// How it ended, so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Executed,
    NotExecuted,
    /// It may be sent again.
    Undone,
    Not,
}

impl Tale {
    /// In the order of the chain.
    pub fn add(&mut self, outstanding: &Outstanding) {
        let Ok(Value::Object(entry)) = serde_json::from_slice(&outstanding.entry) else { return };
        let text = |name: &str| entry.get(name).and_then(Value::as_str);
        let Some(name) = text("claim") else { return };
        let ended = match (text("what"), text("said")) {
            (Some("executed"), _) | (Some("late"), Some("executed" | "found")) => Ended::Executed,
            (Some("not-executed"), _) | (Some("late"), Some("not-executed")) => Ended::NotExecuted,
            (Some("undone"), _) => Ended::Undone,
            (Some("sending" | "unknown" | "said-absent"), _) => Ended::Not,
            _ => return,
        };
        match self.claims.get_mut(name) {
            // Nothing follows upon these.
            Some(Told { ended: Ended::Executed | Ended::NotExecuted, .. }) => {}
            Some(told) if entry.get("owner").is_none() => told.ended = ended,
            before => {
                let requester = before.and_then(|told| told.claim.requester.clone());
                let Some(claim) = claim_of(&entry, outstanding) else { return };
                let claim = Claim { requester: claim.requester.clone().or(requester), ..claim };
                self.claims.insert(name.to_owned(), Told { claim, ended, at: outstanding.at });
            }
        }
    }

    /// Claims that a store has to know, by their names.
    pub fn into_claims(self) -> impl Iterator<Item = (String, Told)> {
        self.claims.into_iter().filter(|(_, told)| told.ended != Ended::Undone)
    }
}

impl Told {
    /// Guarded: there is no such claim.
    pub fn steps(&self, environment: Environment, name: &str, terms: &Terms) -> Vec<Step> {
        let key = RecordKey { environment, kind: Kind::Claim, name: name.to_owned() };
        if self.has_ended() {
            return vec![Step::Create { key, value: write(&self.claim), keep: self.spent(terms) }];
        }
        vec![
            Step::Create { key, value: write(&self.claim), keep: Keep::Forever },
            Step::IndexAdd { index: Index::Unknown, member: name.to_owned(), due: terms.first_look },
        ]
    }

    /// Where the store knows the claim, and less of it than the chain.
    pub fn over(&self, key: &RecordKey, found: &Record, claim: &Claim, terms: &Terms) -> Option<Vec<Step>> {
        // What waits, or waited in vain, as far as the store knows, was sent since.
        let was_sent = matches!(claim.state, State::Held | State::Declined(_));
        if matches!(claim.state, State::Done { .. }) || !(self.has_ended() || was_sent) {
            return None;
        }
        if !self.has_ended() {
            let (key, version, member) = (key.clone(), found.version, key.name.clone());
            return Some(vec![
                Step::Replace { key, version, value: write(&self.claim), keep: Keep::Forever },
                Step::IndexAdd { index: Index::Unknown, member, due: terms.first_look },
            ]);
        }
        let remove = |index| Step::IndexRemove { index, member: key.name.clone() };
        let (value, keep) = (write(&self.claim), self.spent(terms));
        let replace = Step::Replace { key: key.clone(), version: found.version, value, keep };
        Some(vec![replace, remove(Index::Sending), remove(Index::Unknown)])
    }

    /// Whether nobody keeps it any more.
    pub fn is_past(&self, now: StoreTime, terms: &Terms) -> bool {
        match self.spent(terms) {
            Keep::For { spent, .. } => self.has_ended() && now.since(self.at) > spent,
            Keep::Forever => false,
        }
    }

    fn has_ended(&self) -> bool {
        matches!(self.ended, Ended::Executed | Ended::NotExecuted)
    }

    /// Its answer is gone; that there was one is kept.
    fn spent(&self, terms: &Terms) -> Keep {
        match (&self.claim.request_id, terms.keep) {
            (None, Keep::For { .. }) => Keep::For { whole: Duration::ZERO, spent: FOR_GOOD },
            (Some(_), Keep::For { whole, spent }) => {
                Keep::For { whole: Duration::ZERO, spent: whole.saturating_add(spent) }
            }
            (_, Keep::Forever) => Keep::Forever,
        }
    }
}

/// Many at one stroke.
pub fn remember(environment: Environment, names: &[&str], steps: Vec<Step>, node: &NodeId) -> Commit {
    let entry = Entry::of(What::Remembered).with("claims", names);
    Commit { environment, node: node.clone(), steps, entry: entry.to_bytes() }
}

/// The claims that stood in the way of a commit, with what the store has of them.
pub fn in_the_way(commit: &Commit, obstacles: Vec<Obstacle>) -> Vec<(RecordKey, Record)> {
    let known = obstacles.into_iter().filter_map(|obstacle| match (commit.steps.get(obstacle.step), obstacle.found) {
        (Some(Step::Create { key, .. }), Found::Record(record)) => Some((key.clone(), record)),
        _ => None,
    });
    known.collect()
}

/// A claim that the store has whole.
pub fn whole(record: &Record) -> Option<Claim> {
    match &record.content {
        Content::Whole(bytes) => super::written::read(bytes).ok(),
        Content::Spent => None,
    }
}

fn claim_of(entry: &Map<String, Value>, outstanding: &Outstanding) -> Option<Claim> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let what = text("what")?;
    let owner = entry.get("owner")?;
    let of_owner = |name: &str| owner.get(name).and_then(Value::as_str).map(str::to_owned);
    let attempt = entry.get("attempt").and_then(Value::as_u64).map(Number::new).unwrap_or(outstanding.number);
    let state = match what {
        "executed" | "not-executed" => State::Done {
            executed: what == "executed",
            answer: Answer { status: 200, headers: HeaderMap::new(), body: Bytes::new() },
        },
        _ => State::Unknown {
            attempt,
            since: outstanding.at,
            doubt: Doubt::Forgotten,
            doubted: None,
            sent: SentForm::forgotten(),
            looks: 0,
            said_absent: None,
        },
    };
    Some(Claim {
        owner: Owner { issuer: of_owner("issuer")?, subject: of_owner("subject")? },
        requester: text("requester").map(str::to_owned),
        operation: OperationId::new(text("operation")?),
        fingerprint: Fingerprint::of_hex(text("fingerprint")?)?,
        request_id: text("requestId").and_then(RequestId::parse),
        trace: TraceId::parse(text("trace")?)?,
        hold: text("hold").and_then(HoldId::parse),
        // The windows are forgotten, and what it paid.
        booked: Booked::default(),
        state,
    })
}
