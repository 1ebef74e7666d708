//! How a claim is written in a record.

use std::fmt;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::booked::Booked;
use super::state::{Answer, Claim, Decline, Declined, Doubt, Event, Nonce, Owner, SentForm, State};
use crate::base::digest::Fingerprint;
use crate::base::ids::{HoldId, OperationId, RequestId, TraceId};
use crate::commit::{NodeId, Number, StoreTime, WindowKey};

/// The form of a claim's record. A newer one is refused.
const FORM: u64 = 1;

/// A record that is not a claim as this version writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableClaim(pub &'static str);

impl fmt::Display for UnreadableClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the record of a claim cannot be read: {}", self.0)
    }
}

impl std::error::Error for UnreadableClaim {}

pub fn write(claim: &Claim) -> Bytes {
    let mut members = json!({
        "form": FORM,
        "issuer": claim.owner.issuer,
        "subject": claim.owner.subject,
        "requester": claim.requester,
        "operation": claim.operation.as_str(),
        "fingerprint": claim.fingerprint.to_hex(),
        "trace": claim.trace.as_str(),
        "booked": booked_written(&claim.booked),
        "state": claim.state.as_str(),
    });
    let state = match &claim.state {
        State::Held => json!({}),
        State::Declined(declined) => json!({ "reason": declined.reason }),
        State::Sending { node, nonce, lease, sent } => json!({
            "node": node.as_str(),
            "nonce": nonce.0,
            "leaseMicros": micros(*lease),
            "target": sent.target,
            "body": STANDARD.encode(&sent.body),
        }),
        State::Unknown { attempt, since, doubt, doubted, sent, looks, said_absent } => json!({
            "attempt": attempt.as_u64(),
            "sinceMicros": since.as_micros(),
            "doubt": doubt.as_str(),
            "doubtedMicros": doubted.map(StoreTime::as_micros),
            "looks": looks,
            "saidAbsent": said_absent,
            "target": sent.target,
            "body": STANDARD.encode(&sent.body),
        }),
        State::Done { executed: _, answer } => answer_written(answer),
    };
    if let (Some(members), Value::Object(state)) = (members.as_object_mut(), state) {
        members.extend(state);
        if let Some(id) = &claim.request_id {
            members.insert("requestId".to_owned(), Value::from(id.as_str()));
        }
        if let Some(hold) = &claim.hold {
            members.insert("hold".to_owned(), Value::from(hold.as_str()));
        }
    }
    Bytes::from(members.to_string())
}

pub fn read(bytes: &[u8]) -> Result<Claim, UnreadableClaim> {
    let value: Value = serde_json::from_slice(bytes).map_err(|_| UnreadableClaim("it is not JSON"))?;
    let fields = Fields(value.as_object().ok_or(UnreadableClaim("it is not an object"))?);
    if fields.number("form")? != FORM {
        return Err(UnreadableClaim("a newer version of Sluice wrote it"));
    }
    let request_id = match fields.0.get("requestId") {
        None => None,
        Some(id) => {
            let id = id.as_str().and_then(RequestId::parse);
            Some(id.ok_or(UnreadableClaim("`requestId` has another form"))?)
        }
    };
    let hold = match fields.0.get("hold") {
        None => None,
        Some(hold) => {
            let hold = hold.as_str().and_then(HoldId::parse);
            Some(hold.ok_or(UnreadableClaim("`hold` has another form"))?)
        }
    };
    Ok(Claim {
        owner: Owner { issuer: fields.text("issuer")?.to_owned(), subject: fields.text("subject")?.to_owned() },
        requester: fields.0.get("requester").and_then(Value::as_str).map(str::to_owned),
        operation: OperationId::new(fields.text("operation")?),
        fingerprint: Fingerprint::of_hex(fields.text("fingerprint")?)
            .ok_or(UnreadableClaim("`fingerprint` is not a digest"))?,
        request_id,
        trace: TraceId::parse(fields.text("trace")?).ok_or(UnreadableClaim("`trace` has another form"))?,
        hold,
        booked: booked(&fields)?,
        state: state(&fields)?,
    })
}

/// What happened to an attempt, for as long as the store cannot be told. `None`: what is as good as nothing known.
pub fn write_event(event: &Event) -> Option<Value> {
    let (word, answer) = match event {
        Event::Executed(answer) => ("executed", Some(answer)),
        Event::Refused(answer) => ("refused", Some(answer)),
        Event::Undone => ("undone", None),
        Event::Doubted(_) | Event::Found(_) | Event::ShownAbsent => return None,
    };
    let mut members = answer.map_or_else(|| json!({}), answer_written);
    members.as_object_mut()?.insert("event".to_owned(), Value::from(word));
    Some(members)
}

pub fn read_event(value: &Value) -> Result<Event, UnreadableClaim> {
    let fields = Fields(value.as_object().ok_or(UnreadableClaim("it is not an object"))?);
    match fields.text("event")? {
        "executed" => Ok(Event::Executed(answer(&fields)?)),
        "refused" => Ok(Event::Refused(answer(&fields)?)),
        "undone" => Ok(Event::Undone),
        _ => Err(UnreadableClaim("`event` is none that is known")),
    }
}

fn answer_written(answer: &Answer) -> Value {
    json!({
        "status": answer.status,
        "headers": headers_written(&answer.headers),
        "body": STANDARD.encode(&answer.body),
    })
}

fn booked_written(booked: &Booked) -> Value {
    let pair = |window: &WindowKey| json!([window.limit, window.key]);
    json!({
        "holder": booked.holder,
        "windows": booked.windows.iter().map(pair).collect::<Vec<_>>(),
        "pays": booked.pays,
    })
}

fn booked(fields: &Fields<'_>) -> Result<Booked, UnreadableClaim> {
    let read = || {
        let booked = fields.0.get("booked")?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let window = |pair: &Value| match pair.as_array()?.as_slice() {
            [limit, key] => Some(WindowKey { limit: text(limit)?, key: text(key)? }),
            _ => None,
        };
        Some(Booked {
            holder: text(booked.get("holder")?)?,
            windows: booked.get("windows")?.as_array()?.iter().map(window).collect::<Option<_>>()?,
            pays: booked.get("pays")?.as_array()?.iter().map(text).collect::<Option<_>>()?,
        })
    };
    read().ok_or(UnreadableClaim("`booked` has another form"))
}

fn state(fields: &Fields<'_>) -> Result<State, UnreadableClaim> {
    match fields.text("state")? {
        "sending" => Ok(State::Sending {
            node: NodeId::parse(fields.text("node")?).ok_or(UnreadableClaim("`node` has another form"))?,
            nonce: Nonce(fields.text("nonce")?.to_owned()),
            lease: Duration::from_micros(fields.number("leaseMicros")?),
            sent: sent(fields)?,
        }),
        "unknown" => {
            let doubt = fields.text("doubt")?;
            let doubt = Doubt::ALL.into_iter().find(|known| known.as_str() == doubt);
            Ok(State::Unknown {
                attempt: Number::new(fields.number("attempt")?),
                since: StoreTime::of_micros(i64::try_from(fields.number("sinceMicros")?).unwrap_or(i64::MAX)),
                doubt: doubt.ok_or(UnreadableClaim("`doubt` is none that is known"))?,
                doubted: fields.0.get("doubtedMicros").and_then(Value::as_i64).map(StoreTime::of_micros),
                sent: sent(fields)?,
                looks: u32::try_from(fields.number("looks")?).unwrap_or(u32::MAX),
                said_absent: fields.0.get("saidAbsent").and_then(Value::as_str).map(str::to_owned),
            })
        }
        "executed" => Ok(State::Done { executed: true, answer: answer(fields)? }),
        "not-executed" => Ok(State::Done { executed: false, answer: answer(fields)? }),
        "held" => Ok(State::Held),
        word => {
            let how = Decline::ALL.into_iter().find(|how| how.as_str() == word);
            let how = how.ok_or(UnreadableClaim("`state` is none that is known"))?;
            let reason = fields.0.get("reason").and_then(Value::as_str).map(str::to_owned);
            Ok(State::Declined(Declined { how, reason }))
        }
    }
}

fn sent(fields: &Fields<'_>) -> Result<SentForm, UnreadableClaim> {
    Ok(SentForm { target: fields.text("target")?.to_owned(), body: fields.bytes("body")? })
}

fn answer(fields: &Fields<'_>) -> Result<Answer, UnreadableClaim> {
    let status = u16::try_from(fields.number("status")?).map_err(|_| UnreadableClaim("`status` is none of HTTP"))?;
    let headers =
        fields.0.get("headers").and_then(headers_read).ok_or(UnreadableClaim("`headers` has another form"))?;
    Ok(Answer { status, headers, body: fields.bytes("body")? })
}

fn headers_written(headers: &HeaderMap) -> Value {
    // Values of headers need not be text.
    let pair = |(name, value): (&HeaderName, &HeaderValue)| json!([name.as_str(), STANDARD.encode(value.as_bytes())]);
    headers.iter().map(pair).collect()
}

fn headers_read(value: &Value) -> Option<HeaderMap> {
    let mut headers = HeaderMap::new();
    for pair in value.as_array()? {
        let [name, value] = pair.as_array()?.as_slice() else { return None };
        headers.append(
            name.as_str()?.parse::<HeaderName>().ok()?,
            HeaderValue::from_bytes(&STANDARD.decode(value.as_str()?).ok()?).ok()?,
        );
    }
    Some(headers)
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The members of a record, each of which must be there.
struct Fields<'v>(&'v Map<String, Value>);

impl Fields<'_> {
    fn text(&self, name: &'static str) -> Result<&str, UnreadableClaim> {
        self.0.get(name).and_then(Value::as_str).ok_or(UnreadableClaim("a member that is text is missing"))
    }

    fn number(&self, name: &'static str) -> Result<u64, UnreadableClaim> {
        self.0.get(name).and_then(Value::as_u64).ok_or(UnreadableClaim("a member that is a number is missing"))
    }

    fn bytes(&self, name: &'static str) -> Result<Bytes, UnreadableClaim> {
        STANDARD.decode(self.text(name)?).map(Bytes::from).map_err(|_| UnreadableClaim("a body is not base64"))
    }
}
