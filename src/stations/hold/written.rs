//! How a hold is written in a record.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Method;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::state::{Hold, Note, State, Vote};
use crate::base::digest::Fingerprint;
use crate::base::ids::{HoldId, OperationId, RequestId, TraceId};
use crate::commit::StoreTime;
use crate::stations::admit::Known;
use crate::stations::claim::{Decline, Declined, Owner, SentForm};

/// The form of a hold's record. A newer one is refused.
const FORM: u64 = 1;

/// A record that is not a hold as this version writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableHold(pub &'static str);

impl fmt::Display for UnreadableHold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the record of a hold cannot be read: {}", self.0)
    }
}

impl std::error::Error for UnreadableHold {}

pub fn write(hold: &Hold) -> Bytes {
    let header = |(name, value): (&HeaderName, &HeaderValue)| json!([name.as_str(), STANDARD.encode(value)]);
    let reason = match &hold.state {
        State::Declined(declined) => declined.reason.as_deref(),
        State::Pending | State::Approved | State::Released => None,
    };
    let value = json!({
        "form": FORM,
        "id": hold.id.as_str(),
        "claim": hold.claim,
        "issuer": hold.by.issuer,
        "subject": hold.by.subject,
        "requester": hold.by.requester,
        "roles": hold.by.roles,
        "operation": hold.operation.as_str(),
        "method": hold.method.as_str(),
        "requestId": hold.request_id.as_ref().map(RequestId::as_str),
        "fingerprint": hold.fingerprint.to_hex(),
        "target": hold.sent.target,
        "body": STANDARD.encode(&hold.sent.body),
        "headers": hold.headers.iter().map(header).collect::<Vec<_>>(),
        "trace": hold.trace.as_str(),
        "reasons": hold.reasons,
        "asked": hold.asked.iter().map(|name| &**name).collect::<Vec<_>>(),
        "votes": hold.votes.iter().map(|vote| said(&vote.person, vote.comment.as_deref(), vote.at)).collect::<Vec<_>>(),
        "notes": hold.notes.iter().map(|note| said(&note.person, Some(&note.text), note.at)).collect::<Vec<_>>(),
        "createdMicros": hold.created.map(StoreTime::as_micros),
        "lastsSecs": hold.lasts.as_secs(),
        "tries": hold.tries,
        "reminded": hold.reminded,
        "state": hold.state.as_str(),
        "reason": reason,
    });
    Bytes::from(value.to_string())
}

fn said(person: &Owner, text: Option<&str>, at: StoreTime) -> Value {
    json!({ "issuer": person.issuer, "subject": person.subject, "text": text, "atMicros": at.as_micros() })
}

pub fn read(bytes: &[u8]) -> Result<Hold, UnreadableHold> {
    let value: Value = serde_json::from_slice(bytes).map_err(|_| UnreadableHold("it is not JSON"))?;
    let fields = Fields(value.as_object().ok_or(UnreadableHold("it is not an object"))?);
    if fields.number("form") != Some(FORM) {
        return Err(UnreadableHold("a newer version of Sluice wrote it"));
    }
    fields.hold().ok_or(UnreadableHold("a member is missing, or has another form"))
}

struct Fields<'v>(&'v Map<String, Value>);

impl Fields<'_> {
    fn hold(&self) -> Option<Hold> {
        let micros = |value: &Value| value.as_i64().map(StoreTime::of_micros);
        Some(Hold {
            id: HoldId::parse(self.text("id")?)?,
            claim: self.text("claim")?.to_owned(),
            by: Known {
                issuer: self.text("issuer")?.to_owned(),
                subject: self.text("subject")?.to_owned(),
                requester: self.optional("requester", |value| value.as_str().map(str::to_owned))?,
                roles: self.list("roles", |role| role.as_str().map(str::to_owned))?.into_iter().collect(),
            },
            operation: OperationId::new(self.text("operation")?),
            method: Method::from_bytes(self.text("method")?.as_bytes()).ok()?,
            request_id: self.optional("requestId", |id| RequestId::parse(id.as_str()?))?,
            fingerprint: Fingerprint::of_hex(self.text("fingerprint")?)?,
            sent: SentForm {
                target: self.text("target")?.to_owned(),
                body: Bytes::from(STANDARD.decode(self.text("body")?).ok()?),
            },
            headers: self.headers()?,
            trace: TraceId::parse(self.text("trace")?)?,
            reasons: self.list("reasons", |reason| Some(reason.clone()))?,
            asked: self.list("asked", |name| name.as_str().map(Arc::from))?.into_iter().collect(),
            votes: self.list("votes", |vote| {
                let fields = Fields(vote.as_object()?);
                let comment = fields.optional("text", |text| text.as_str().map(str::to_owned))?;
                Some(Vote { person: fields.person()?, comment, at: micros(fields.0.get("atMicros")?)? })
            })?,
            notes: self.list("notes", |note| {
                let fields = Fields(note.as_object()?);
                let text = fields.text("text")?.to_owned();
                Some(Note { person: fields.person()?, text, at: micros(fields.0.get("atMicros")?)? })
            })?,
            created: self.optional("createdMicros", micros)?,
            lasts: Duration::from_secs(self.number("lastsSecs")?),
            tries: u32::try_from(self.number("tries")?).ok()?,
            reminded: self.0.get("reminded")?.as_bool()?,
            state: self.state()?,
        })
    }

    fn state(&self) -> Option<State> {
        Some(match self.text("state")? {
            "pending" => State::Pending,
            "approved" => State::Approved,
            "released" => State::Released,
            word => {
                let how = Decline::ALL.into_iter().find(|how| how.as_str() == word)?;
                let reason = self.optional("reason", |reason| reason.as_str().map(str::to_owned))?;
                State::Declined(Declined { how, reason })
            }
        })
    }

    fn person(&self) -> Option<Owner> {
        Some(Owner { issuer: self.text("issuer")?.to_owned(), subject: self.text("subject")?.to_owned() })
    }

    fn headers(&self) -> Option<HeaderMap> {
        let pairs = self.list("headers", |pair| match pair.as_array()?.as_slice() {
            [name, value] => {
                let value = HeaderValue::from_bytes(&STANDARD.decode(value.as_str()?).ok()?).ok()?;
                Some((name.as_str()?.parse::<HeaderName>().ok()?, value))
            }
            _ => None,
        })?;
        Some(pairs.into_iter().collect())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    fn list<T>(&self, name: &str, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
        self.0.get(name)?.as_array()?.iter().map(read).collect()
    }

    /// Null is nothing; what is there and cannot be read is a fault.
    fn optional<T>(&self, name: &str, read: impl Fn(&Value) -> Option<T>) -> Option<Option<T>> {
        match self.0.get(name)? {
            Value::Null => Some(None),
            value => read(value).map(Some),
        }
    }
}
