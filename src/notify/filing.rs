//! Files notices with the commit of their event.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::event::{NoticeEvent, of_followed};
use super::message::{Message, Waited, WaitingPolicies, encode_message, member};
use crate::audit::EntryKind;
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, HoldId, OperationId};
use crate::base::json::{self, Limits};
use crate::ledger::{Commit, Index, Keep, Kind, RecordKey, Step};
use crate::stations::hold::{self, Hold, HoldState, member_of};

/// The digits of a notice's name: enough that no two ever collide.
const NAME_DIGITS: usize = 32;

/// A destination of notices, and its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlet {
    pub name: String,
    pub events: BTreeSet<NoticeEvent>,
    pub environments: BTreeSet<Environment>,
    /// How long delivery is tried.
    pub keep: Duration,
}

impl Outlet {
    pub fn takes(&self, event: NoticeEvent, environment: Environment) -> bool {
        self.events.contains(&event) && self.environments.contains(&environment)
    }
}

/// Returns the steps that file notices in the commit of their event: one for each outlet that wants it.
///
/// A notice's name derives from the changed record and its former version: a repetition of the same event writes the
/// same name, and meets the guard of that record first.
pub fn filed<'o>(commit: &Commit, outlets: impl Iterator<Item = &'o Outlet>) -> Vec<Step> {
    let mut outlets = outlets.filter(|outlet| outlet.environments.contains(&commit.environment)).peekable();
    if outlets.peek().is_none() {
        return Vec::new();
    }
    let told = messages_of(commit);
    let alerted = alerted(commit, &told);
    let pairs = outlets.flat_map(|outlet| told.iter().map(move |message| (outlet, message)));
    let is_alerted = |outlet: &Outlet, event: NoticeEvent| is_alert(event) && alerted.contains(&outlet.name);
    let taken = pairs.filter(|(outlet, message)| {
        outlet.takes(message.event, commit.environment) || is_alerted(outlet, message.event)
    });
    taken.flat_map(|(outlet, message)| steps(commit.environment, outlet, message)).collect()
}

/// The events that the rules may name webhooks for.
fn is_alert(event: NoticeEvent) -> bool {
    matches!(event, NoticeEvent::PaymentFailed | NoticeEvent::PaymentReturned)
}

/// The outlets that the rules name for these messages, whatever events they take.
fn alerted(commit: &Commit, told: &[Message]) -> BTreeSet<String> {
    if !told.iter().any(|message| is_alert(message.event)) {
        return BTreeSet::new();
    }
    let entry = json::parse(&commit.entry, Limits::ANSWER).ok();
    let names = entry.as_ref().and_then(|entry| entry.get("alert")).and_then(Value::as_array);
    names.into_iter().flatten().filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

fn steps(environment: Environment, outlet: &Outlet, message: &Message) -> [Step; 2] {
    let name = member(&outlet.name, &message.id);
    let key = RecordKey { environment, kind: Kind::Message, name: name.clone() };
    let keep = Keep::For { whole: outlet.keep, spent: Duration::ZERO };
    [
        Step::Create { key, value: encode_message(message), keep },
        Step::IndexAdd { index: Index::Message, member: name, due: Duration::ZERO },
    ]
}

/// The events of a commit; most have none.
fn messages_of(commit: &Commit) -> Vec<Message> {
    let Ok(entry) = json::parse(&commit.entry, Limits::ANSWER) else { return Vec::new() };
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    if let Some(EntryKind::Followed | EntryKind::Foreign) = text("what").and_then(EntryKind::parse) {
        return messages_of_followed(commit, &entry);
    }
    let Some(event) = text("what").and_then(NoticeEvent::of) else { return Vec::new() };
    let Some((key, version, value)) = changed(commit) else { return Vec::new() };
    let policies = text("policy").zip(text("before")).filter(|_| event == NoticeEvent::PoliciesWait);
    let hold = (key.kind == Kind::Hold).then(|| hold::decode_hold(value).ok()).flatten();
    let id = text("hold").and_then(HoldId::parse);
    let is_told = match event {
        // An attempt that fails repeatedly is reported once.
        NoticeEvent::Released => hold.as_ref().is_some_and(|hold| hold.tries == 0),
        NoticeEvent::NotSent => hold.as_ref().is_some_and(|hold| hold.tries == 1),
        NoticeEvent::Executed | NoticeEvent::NotExecuted => id.is_some(),
        // Another lookup without a result is not reported.
        NoticeEvent::InDoubt => entry.get("looks").is_none(),
        NoticeEvent::PoliciesWait => policies.is_some(),
        _ => hold.is_some(),
    };
    if !is_told {
        return Vec::new();
    }
    let is_complete = entry.get("complete").and_then(Value::as_bool) == Some(true);
    let also = (event == NoticeEvent::Voted && is_complete).then_some(NoticeEvent::Approved);
    let message = |event: NoticeEvent| Message {
        id: name(commit.environment, key, version, event),
        event,
        operation: text("operation").map(OperationId::new),
        hold: id.clone(),
        state: state(event, hold.as_ref()),
        attempt: entry.get("attempt").and_then(Value::as_u64),
        record: None,
        waited: hold.as_ref().map(waited),
        policies: policies.map(|(version, replaces)| {
            let [version, replaces] = [version, replaces].map(str::to_owned);
            WaitingPolicies { version, replaces }
        }),
        happened: None,
        not_before: None,
        tries: 0,
    };
    [Some(event), also].into_iter().flatten().map(message).collect()
}

/// The events of a payment that upstream's list shows.
fn messages_of_followed(commit: &Commit, entry: &Value) -> Vec<Message> {
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let changed = commit.steps.iter().filter_map(written).find(|(key, ..)| key.kind == Kind::Followed);
    let Some((key, version, _)) = changed else { return Vec::new() };
    let message = |event: NoticeEvent| Message {
        id: name(commit.environment, key, version, event),
        event,
        operation: text("operation").map(OperationId::new),
        hold: text("hold").and_then(HoldId::parse),
        state: match event {
            NoticeEvent::PaymentForeign => text("problem").unwrap_or_default().to_owned(),
            _ => text("state").unwrap_or_default().to_owned(),
        },
        attempt: entry.get("attempt").and_then(Value::as_u64),
        record: text("record").map(str::to_owned),
        waited: None,
        policies: None,
        happened: None,
        not_before: None,
        tries: 0,
    };
    of_followed(text("meaning"), text("problem").is_some()).map(message).collect()
}

/// The changed record, its former version and its new content; a hold comes before its claim. Policies that wait have
/// a record of their own.
fn changed(commit: &Commit) -> Option<(&RecordKey, u64, &[u8])> {
    let of = |kind: Kind| commit.steps.iter().filter_map(written).find(|(key, ..)| key.kind == kind);
    of(Kind::Hold).or_else(|| of(Kind::Claim)).or_else(|| of(Kind::Waiting))
}

fn written(step: &Step) -> Option<(&RecordKey, u64, &[u8])> {
    match step {
        Step::Create { key, value, .. } => Some((key, 0, value.as_ref())),
        Step::Replace { key, version, value, .. } => Some((key, version.as_u64(), value.as_ref())),
        _ => None,
    }
}

/// The name of a notice reveals nothing of its content.
fn name(environment: Environment, key: &RecordKey, version: u64, event: NoticeEvent) -> String {
    let version = version.to_string();
    let parts = [environment.as_str(), key.kind.as_str(), &key.name, &version, event.as_str()];
    let digest = Fingerprint::of(&parts.map(str::as_bytes)).to_hex();
    format!("msg_{}", digest.get(..NAME_DIGITS).unwrap_or(&digest))
}

fn state(event: NoticeEvent, hold: Option<&Hold>) -> String {
    let state = match (event, hold) {
        (NoticeEvent::Executed, _) => "executed",
        (NoticeEvent::NotExecuted, _) => "not-executed",
        (NoticeEvent::InDoubt, _) => "unknown",
        (NoticeEvent::PoliciesWait, _) => "waiting",
        (_, Some(hold)) => hold.state.as_str(),
        (_, None) => HoldState::Released.as_str(),
    };
    state.to_owned()
}

fn waited(hold: &Hold) -> Waited {
    Waited {
        rules: hold.causes.rules().map(str::to_owned).collect(),
        created: hold.created,
        lasts: hold.lasts,
        asked: hold.asked.clone(),
        voters: hold.votes.iter().map(|vote| member_of(&vote.person)).collect(),
    }
}
