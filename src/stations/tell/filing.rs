//! From a commit to what is told of it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use super::event::Event;
use super::message::{Message, Waited, member, write};
use crate::base::digest::Fingerprint;
use crate::base::ids::{Environment, HoldId, OperationId};
use crate::commit::{Commit, Index, Keep, Kind, RecordKey, Step};
use crate::stations::hold::{self, Hold, State, member_of};

/// Digits of a message's name: enough that no two are ever one.
const NAME_DIGITS: usize = 32;

/// Where things are told, and which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outlet {
    pub name: String,
    pub events: BTreeSet<Event>,
    pub environments: BTreeSet<Environment>,
    /// How long it is tried.
    pub keep: Duration,
}

impl Outlet {
    pub fn takes(&self, event: Event, environment: Environment) -> bool {
        self.events.contains(&event) && self.environments.contains(&environment)
    }
}

/// What is written besides, in the commit of what happened: a message for each of these outlets that is told of it.
///
/// Its name comes from the record that the commit changes, and the version that this had: whoever makes the same thing
/// happen again writes the same name, and meets the guard of that record first.
pub fn filed<'o>(commit: &Commit, outlets: impl Iterator<Item = &'o Outlet>) -> Vec<Step> {
    let mut outlets = outlets.filter(|outlet| outlet.environments.contains(&commit.environment)).peekable();
    if outlets.peek().is_none() {
        return Vec::new();
    }
    let told = told(commit);
    let pairs = outlets.flat_map(|outlet| told.iter().map(move |message| (outlet, message)));
    let taken = pairs.filter(|(outlet, message)| outlet.takes(message.event, commit.environment));
    taken.flat_map(|(outlet, message)| steps(commit.environment, outlet, message)).collect()
}

fn steps(environment: Environment, outlet: &Outlet, message: &Message) -> [Step; 2] {
    let name = member(&outlet.name, &message.id);
    let key = RecordKey { environment, kind: Kind::Message, name: name.clone() };
    let keep = Keep::For { whole: outlet.keep, spent: Duration::ZERO };
    [
        Step::Create { key, value: write(message), keep },
        Step::IndexAdd { index: Index::Message, member: name, due: Duration::ZERO },
    ]
}

/// What a commit makes happen; nothing for most.
fn told(commit: &Commit) -> Vec<Message> {
    let Ok(entry) = serde_json::from_slice::<Value>(&commit.entry) else { return Vec::new() };
    let text = |name: &str| entry.get(name).and_then(Value::as_str);
    let Some(event) = text("what").and_then(Event::of) else { return Vec::new() };
    let Some((key, version, value)) = changed(commit) else { return Vec::new() };
    let hold = (key.kind == Kind::Hold).then(|| hold::read(value).ok()).flatten();
    let id = text("hold").and_then(HoldId::parse);
    let is_told = match event {
        // An attempt that is made again, and fails again, is told once.
        Event::Released => hold.as_ref().is_some_and(|hold| hold.tries == 0),
        Event::NotSent => hold.as_ref().is_some_and(|hold| hold.tries == 1),
        Event::Executed | Event::NotExecuted => id.is_some(),
        // One more look that found nothing is no news.
        Event::InDoubt => entry.get("looks").is_none(),
        _ => hold.is_some(),
    };
    if !is_told {
        return Vec::new();
    }
    let is_complete = entry.get("complete").and_then(Value::as_bool) == Some(true);
    let also = (event == Event::Voted && is_complete).then_some(Event::Approved);
    let message = |event: Event| Message {
        id: name(commit.environment, key, version, event),
        event,
        operation: text("operation").map(OperationId::new),
        hold: id.clone(),
        state: state(event, hold.as_ref()),
        attempt: entry.get("attempt").and_then(Value::as_u64),
        waited: hold.as_ref().map(waited),
        happened: None,
        not_before: None,
        tries: 0,
    };
    [Some(event), also].into_iter().flatten().map(message).collect()
}

/// The record that changes, the version that it had, and what it becomes: of a hold before that of its claim.
fn changed(commit: &Commit) -> Option<(&RecordKey, u64, &[u8])> {
    let of = |kind: Kind| commit.steps.iter().filter_map(written).find(|(key, ..)| key.kind == kind);
    of(Kind::Hold).or_else(|| of(Kind::Claim))
}

fn written(step: &Step) -> Option<(&RecordKey, u64, &[u8])> {
    match step {
        Step::Create { key, value, .. } => Some((key, 0, value.as_ref())),
        Step::Replace { key, version, value, .. } => Some((key, version.as_u64(), value.as_ref())),
        _ => None,
    }
}

/// The name of a message says nothing of what it tells.
fn name(environment: Environment, key: &RecordKey, version: u64, event: Event) -> String {
    let version = version.to_string();
    let parts = [environment.as_str(), key.kind.as_str(), &key.name, &version, event.as_str()];
    let digest = Fingerprint::of(&parts.map(str::as_bytes)).to_hex();
    format!("msg_{}", digest.get(..NAME_DIGITS).unwrap_or(&digest))
}

fn state(event: Event, hold: Option<&Hold>) -> String {
    let state = match (event, hold) {
        (Event::Executed, _) => "executed",
        (Event::NotExecuted, _) => "not-executed",
        (Event::InDoubt, _) => "unknown",
        (_, Some(hold)) => hold.state.as_str(),
        (_, None) => State::Released.as_str(),
    };
    state.to_owned()
}

fn waited(hold: &Hold) -> Waited {
    let rule = |reason: &Value| reason.get("rule").and_then(Value::as_str).map(str::to_owned);
    Waited {
        rules: hold.reasons.iter().filter_map(rule).collect(),
        created: hold.created,
        lasts: hold.lasts,
        asked: hold.asked.clone(),
        voters: hold.votes.iter().map(|vote| member_of(&vote.person)).collect(),
    }
}
