//! Whether a record of upstream is that of a call in doubt.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;

use super::state::{Answer, SentForm};
use crate::base::json::{self, Limits};
use crate::base::normal::{self, AddressKind};
use crate::base::pointer::Pointer;
use crate::catalog::{Claim, Operation, Reconcile, Side};

/// What the records of the time of an attempt say of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    /// One record bears its requestId, and moves what it moves: this is what its caller would have heard.
    Found(Answer),
    /// No record bears its requestId.
    Nothing,
    /// Several do, or one that moves something else. People must look.
    Alarming(&'static str),
    /// It is no page of records.
    Unreadable,
}

/// What one page holds for a call in doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bearing {
    /// The records that bear its requestId.
    pub records: Vec<Value>,
    /// How many records the page has in all.
    pub count: usize,
    /// When the last of them was made: where the next page begins.
    pub oldest: Option<String>,
}

/// Why a record is not that of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Otherwise {
    /// It bears another requestId, or none.
    RequestId,
    /// It moves something else.
    Money,
}

/// Reads a page of records; `None` if it is none.
pub fn page_of(reconcile: &Reconcile, request_id: &str, page: &[u8]) -> Option<Bearing> {
    let page = json::parse(page, Limits::ANSWER).ok()?;
    let records = reconcile.records.get(&page)?.as_array()?;
    let oldest = records.last().and_then(|last| details(reconcile, last).get("createdAt")?.as_str());
    Some(Bearing {
        records: records.iter().filter(|record| bears(reconcile, request_id, record)).cloned().collect(),
        count: records.len(),
        oldest: oldest.map(str::to_owned),
    })
}

/// What all records together say that bear the requestId of a call. Pages may overlap: a record counts once.
pub fn judge(
    operation: &Operation,
    reconcile: &Reconcile,
    request_id: &str,
    sent: &SentForm,
    mut bearing: Vec<Value>,
) -> Looked {
    let mut seen: Vec<Value> = Vec::new();
    bearing.retain(|record| {
        let id = details(reconcile, record).get("id").unwrap_or(record).clone();
        let is_new = !seen.contains(&id);
        seen.push(id);
        is_new
    });
    match bearing.as_slice() {
        [] => Looked::Nothing,
        [record] => match is_record_of(operation, request_id, sent, record) {
            Ok(()) => Looked::Found(Answer::of_record(record)),
            Err(_) => Looked::Alarming("the record that bears its requestId moves something else"),
        },
        [_, _, ..] => Looked::Alarming("several records bear its requestId"),
    }
}

/// Whether a record is that of a call, as far as that can be told: where the catalogue names no read that finds it, by the
/// requestId that it bears anywhere.
pub fn is_record_of(operation: &Operation, request_id: &str, sent: &SentForm, record: &Value) -> Result<(), Otherwise> {
    let Some(reconcile) = &operation.reconcile else {
        let Some(Claim::Body(pointer)) = &operation.claim else { return Ok(()) };
        let mut ids = Vec::new();
        gather(record, pointer.as_str().rsplit('/').next().unwrap_or_default(), &mut ids);
        let is_its_own = ids.is_empty() || ids.iter().any(|id| normal::uuid(id) == normal::uuid(request_id));
        return if is_its_own { Ok(()) } else { Err(Otherwise::RequestId) };
    };
    if !bears(reconcile, request_id, record) {
        return Err(Otherwise::RequestId);
    }
    // What was asked is forgotten; nobody else can have used its requestId.
    if sent.is_forgotten() {
        return Ok(());
    }
    let asked = json::parse(&sent.body, Limits::REQUEST).map_err(|_| Otherwise::Money)?;
    // In a record the money fields stand beside the requestId, as in the request.
    let found = details(reconcile, record);
    let sides = operation.money.iter().flat_map(|money| [&money.source, &money.destination]);
    if sides.into_iter().all(|side| moves_the_same(side, &asked, found)) { Ok(()) } else { Err(Otherwise::Money) }
}

impl Answer {
    /// What a caller hears of a record that was found.
    pub fn of_record(record: &Value) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Answer { status: 200, headers, body: Bytes::from(json::to_bytes(record)) }
    }
}

fn bears(reconcile: &Reconcile, request_id: &str, record: &Value) -> bool {
    let id = reconcile.request_id.get(record).and_then(Value::as_str);
    id.is_some_and(|id| normal::uuid(id) == normal::uuid(request_id))
}

/// Every text that a member of this name holds, at any depth.
fn gather<'v>(value: &'v Value, name: &str, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get(name).and_then(Value::as_str));
            members.values().for_each(|member| gather(member, name, found));
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, name, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What the requestId of a record stands in.
fn details<'r>(reconcile: &Reconcile, record: &'r Value) -> &'r Value {
    reconcile.request_id.parent().and_then(|parent| parent.get(record)).unwrap_or(record)
}

/// Every field that both state is the same.
fn moves_the_same(side: &Side, asked: &Value, found: &Value) -> bool {
    let Side { amount, currency, chain, party, wallet, external_wallet, account } = side;
    let is_same = |pointer: &Option<Pointer>, same: &dyn Fn(&str, &str) -> bool| {
        let text = |body| pointer.as_ref().and_then(|pointer| pointer.get(body)).and_then(as_text);
        match (text(asked), text(found)) {
            (Some(asked), Some(found)) => same(&asked, &found),
            (None, _) | (_, None) => true,
        }
    };
    let on = chain.as_ref().and_then(|chain| AddressKind::of_chain(chain.get(asked)?.as_str()?));
    is_same(amount, &|asked, found| plain_decimal(asked).is_some_and(|asked| Some(asked) == plain_decimal(found)))
        && is_same(wallet, &|asked, found| is_same_wallet(on, asked, found))
        && [currency, chain, party, external_wallet, account]
            .into_iter()
            .all(|pointer| is_same(pointer, &|asked, found| asked.eq_ignore_ascii_case(found)))
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// The case of letters tells addresses of some chains apart.
fn is_same_wallet(chain: Option<AddressKind>, asked: &str, found: &str) -> bool {
    let normal = |text: &str| {
        let kind = chain.or_else(|| AddressKind::of_address(text));
        kind.and_then(|kind| kind.normal(text)).unwrap_or_else(|| text.to_owned())
    };
    normal(asked) == normal(found)
}

/// Digits without the zeros that say nothing.
fn plain_decimal(text: &str) -> Option<(String, String)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    (!whole.is_empty() && digits(whole) && digits(part))
        .then(|| (whole.trim_start_matches('0').to_owned(), part.trim_end_matches('0').to_owned()))
}

#[cfg(test)]
mod tests;
