//! One message to one outlet, and how it is written in a record.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::event::Event;
use crate::base::ids::{HoldId, OperationId};
use crate::commit::StoreTime;

/// The form of a message's record. A newer one is refused.
const FORM: u64 = 1;

/// What is to be told, as it was when it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The same for every outlet, and for every time that it is sent.
    pub id: String,
    pub event: Event,
    pub operation: Option<OperationId>,
    pub hold: Option<HoldId>,
    /// Of the hold, or of what became of it.
    pub state: String,
    /// The number of the commit that made the attempt, by which auditors find it.
    pub attempt: Option<u64>,
    /// Of what waits, or waited.
    pub waited: Option<Waited>,
    /// `None`: when this very record was written.
    pub happened: Option<StoreTime>,
    /// Some node sends it, or has tried to: no other does before this.
    pub not_before: Option<StoreTime>,
    /// How often it was sent.
    pub tries: u32,
}

/// What is told of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The rules and limits that made it wait.
    pub rules: Vec<String>,
    /// `None`: when the message was filed.
    pub created: Option<StoreTime>,
    pub lasts: Duration,
    pub asked: BTreeSet<Arc<str>>,
    /// Who had agreed: how many are missing is counted when it is told, and who they are is not told.
    pub voters: BTreeSet<String>,
}

impl Message {
    /// The message as it is written next: from then on its record says itself when it happened.
    pub fn next(self, written: StoreTime) -> Message {
        let happened = Some(self.happened.unwrap_or(written));
        let waited = self.waited.map(|waited| Waited { created: waited.created.or(happened), ..waited });
        Message { happened, waited, ..self }
    }

    pub fn happened(&self, written: StoreTime) -> StoreTime {
        self.happened.unwrap_or(written)
    }

    pub fn expires(&self, written: StoreTime) -> Option<StoreTime> {
        let waited = self.waited.as_ref()?;
        Some(waited.created.unwrap_or_else(|| self.happened(written)).plus(waited.lasts))
    }
}

/// How a message of an outlet is called in the store.
pub(super) fn member(outlet: &str, id: &str) -> String {
    format!("{outlet}/{id}")
}

pub fn member_of(outlet: &str, message: &Message) -> String {
    member(outlet, &message.id)
}

/// The outlet that a name in the store belongs to.
pub fn outlet_of(member: &str) -> &str {
    member.split_once('/').map_or(member, |(outlet, _)| outlet)
}

/// A record that is not a message as this version writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableMessage;

impl fmt::Display for UnreadableMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the record of a message cannot be read: a newer version of Sluice wrote it, or it is damaged")
    }
}

impl std::error::Error for UnreadableMessage {}

pub fn write(message: &Message) -> Bytes {
    let waited = message.waited.as_ref().map(|waited| {
        json!({
            "rules": waited.rules,
            "createdMicros": waited.created.map(StoreTime::as_micros),
            "lastsSecs": waited.lasts.as_secs(),
            "asked": waited.asked.iter().map(|name| &**name).collect::<Vec<_>>(),
            "voters": waited.voters,
        })
    });
    let value = json!({
        "form": FORM,
        "id": message.id,
        "event": message.event.as_str(),
        "operation": message.operation.as_ref().map(OperationId::as_str),
        "hold": message.hold.as_ref().map(HoldId::as_str),
        "state": message.state,
        "attempt": message.attempt,
        "waited": waited,
        "happenedMicros": message.happened.map(StoreTime::as_micros),
        "notBeforeMicros": message.not_before.map(StoreTime::as_micros),
        "tries": message.tries,
    });
    Bytes::from(value.to_string())
}

pub fn read(bytes: &[u8]) -> Result<Message, UnreadableMessage> {
    let value: Value = serde_json::from_slice(bytes).map_err(|_| UnreadableMessage)?;
    let fields = value.as_object().ok_or(UnreadableMessage)?;
    if fields.get("form").and_then(Value::as_u64) != Some(FORM) {
        return Err(UnreadableMessage);
    }
    message(fields).ok_or(UnreadableMessage)
}

fn message(fields: &Map<String, Value>) -> Option<Message> {
    Some(Message {
        id: text(fields, "id")?.to_owned(),
        event: Event::parse(text(fields, "event")?)?,
        operation: optional(fields, "operation", |name| name.as_str().map(OperationId::new))?,
        hold: optional(fields, "hold", |id| HoldId::parse(id.as_str()?))?,
        state: text(fields, "state")?.to_owned(),
        attempt: optional(fields, "attempt", Value::as_u64)?,
        waited: optional(fields, "waited", |waited| self::waited(waited.as_object()?))?,
        happened: optional(fields, "happenedMicros", micros)?,
        not_before: optional(fields, "notBeforeMicros", micros)?,
        tries: u32::try_from(fields.get("tries")?.as_u64()?).ok()?,
    })
}

fn waited(fields: &Map<String, Value>) -> Option<Waited> {
    let list = |name: &str| -> Option<Vec<String>> {
        fields.get(name)?.as_array()?.iter().map(|one| one.as_str().map(str::to_owned)).collect()
    };
    Some(Waited {
        rules: list("rules")?,
        created: optional(fields, "createdMicros", micros)?,
        lasts: Duration::from_secs(fields.get("lastsSecs")?.as_u64()?),
        asked: list("asked")?.into_iter().map(Arc::from).collect(),
        voters: list("voters")?.into_iter().collect(),
    })
}

fn text<'v>(fields: &'v Map<String, Value>, name: &str) -> Option<&'v str> {
    fields.get(name)?.as_str()
}

fn micros(value: &Value) -> Option<StoreTime> {
    value.as_i64().map(StoreTime::of_micros)
}

/// Null is nothing; what is there and cannot be read is a fault.
fn optional<T>(fields: &Map<String, Value>, name: &str, read: impl Fn(&Value) -> Option<T>) -> Option<Option<T>> {
    match fields.get(name)? {
        Value::Null => Some(None),
        value => read(value).map(Some),
    }
}
