//! Matches records of upstream with a call whose outcome is unknown.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use serde_json::Value;

use super::record_age::{RecordMismatch, is_older_than, made_at};
use super::state::{SentRequest, StoredAnswer};
use crate::base::json::{self, Limits};
use crate::base::normal::{self, AddressKind};
use crate::base::pointer::Pointer;
use crate::catalog::{ClaimSource, Operation, Reconcile, Side};
use crate::ledger::StoreTime;

/// The result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// One record has its requestId and moves the same money: its caller would have got this answer.
    Found(StoredAnswer),
    /// No record has its requestId.
    Nothing,
    /// The record that has it was made before the attempt. A person must look.
    Older(Box<Value>),
    /// Several records have it, or one moves other money. A person must look.
    Alarming(&'static str),
    /// The answer is not a page of records.
    Unreadable,
}

/// One page of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordPage {
    /// The records with the wanted requestId.
    pub records: Vec<Value>,
    /// How many records the page has.
    pub count: usize,
    /// The time of the last record, from which the next page continues.
    pub oldest: Option<String>,
}

/// Reads a page of records; `None` where it is none.
pub fn page_of(reconcile: &Reconcile, request_id: &str, page: &[u8]) -> Option<RecordPage> {
    let page = json::parse(page, Limits::UPSTREAM_TREE).ok()?;
    let records = reconcile.records.get(&page)?.as_array()?;
    let oldest = records.last().and_then(|last| details(reconcile, last).get("createdAt")?.as_str());
    Some(RecordPage {
        records: records.iter().filter(|record| bears(reconcile, request_id, record)).cloned().collect(),
        count: records.len(),
        oldest: oldest.map(str::to_owned),
    })
}

/// Judges by all records with the requestId. Pages may overlap: a record counts once. One that is older than the attempt
/// is none of it, and hides none.
pub fn judge(
    operation: &Operation,
    reconcile: &Reconcile,
    request_id: &str,
    (since, sent): (StoreTime, &SentRequest),
    mut bearing: Vec<Value>,
) -> LookupResult {
    let mut seen: Vec<Value> = Vec::new();
    bearing.retain(|record| {
        let id = details(reconcile, record).get("id").unwrap_or(record).clone();
        let is_new = !seen.contains(&id);
        seen.push(id);
        is_new
    });
    let is_older = |record: &Value| matches!(made_at(operation, record), Ok(Some(made)) if is_older_than(since, made));
    let (mut older, others): (Vec<Value>, Vec<Value>) = bearing.into_iter().partition(is_older);
    match others.as_slice() {
        [] => older.pop().map_or(LookupResult::Nothing, |record| LookupResult::Older(Box::new(record))),
        [record] => match is_record_of(operation, request_id, sent, record).and_then(|()| made_at(operation, record)) {
            Ok(_) => LookupResult::Found(StoredAnswer::of_record(record)),
            Err(RecordMismatch::Time) => {
                LookupResult::Alarming("the record with its requestId does not say when it was made")
            }
            Err(RecordMismatch::RequestId | RecordMismatch::Money | RecordMismatch::Older) => {
                LookupResult::Alarming("the record with its requestId moves other money")
            }
        },
        [_, _, ..] => LookupResult::Alarming("several records have its requestId"),
    }
}

/// Returns whether a record belongs to a call. Where the catalogue names no read that finds it, the requestId may stand
/// anywhere in it.
pub fn is_record_of(
    operation: &Operation,
    request_id: &str,
    sent: &SentRequest,
    record: &Value,
) -> Result<(), RecordMismatch> {
    let Some(reconcile) = &operation.reconcile else {
        let Some(ClaimSource::Body(pointer)) = &operation.claim else { return Ok(()) };
        let mut ids = Vec::new();
        gather(record, pointer.as_str().rsplit('/').next().unwrap_or_default(), &mut ids);
        let is_its_own = ids.is_empty() || ids.iter().any(|id| normal::uuid(id) == normal::uuid(request_id));
        return if is_its_own { Ok(()) } else { Err(RecordMismatch::RequestId) };
    };
    if !bears(reconcile, request_id, record) {
        return Err(RecordMismatch::RequestId);
    }
    // The sent request is lost; nobody else can have used its requestId.
    if sent.is_forgotten() {
        return Ok(());
    }
    let asked = json::parse(&sent.body, Limits::REQUEST).map_err(|_| RecordMismatch::Money)?;
    // Money fields are beside the requestId in a record, as in the request.
    let found = details(reconcile, record);
    let sides = operation.money.iter().flat_map(|money| [&money.source, &money.destination]);
    if sides.into_iter().all(|side| moves_the_same(side, &asked, found)) { Ok(()) } else { Err(RecordMismatch::Money) }
}

impl StoredAnswer {
    /// The answer that a caller gets for a record that was found.
    pub fn of_record(record: &Value) -> StoredAnswer {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        StoredAnswer { status: 200, headers, body: Bytes::from(json::to_bytes(record)) }
    }
}

fn bears(reconcile: &Reconcile, request_id: &str, record: &Value) -> bool {
    let id = reconcile.request_id.get(record).and_then(Value::as_str);
    id.is_some_and(|id| normal::uuid(id) == normal::uuid(request_id))
}

/// Collects every string under this member name, at any depth.
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

/// The object of a record that holds the requestId.
fn details<'r>(reconcile: &Reconcile, record: &'r Value) -> &'r Value {
    reconcile.request_id.parent().and_then(|parent| parent.get(record)).unwrap_or(record)
}

/// Returns whether every field that both state is equal.
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
        && [currency, chain, party, external_wallet, account].into_iter().all(|pointer| {
            is_same(pointer, &|asked, found| normal::uuid(asked).eq_ignore_ascii_case(&normal::uuid(found)))
        })
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

/// Returns whether two addresses are the same wallet; on some chains the case of letters matters.
fn is_same_wallet(chain: Option<AddressKind>, asked: &str, found: &str) -> bool {
    let normal = |text: &str| {
        let kind = chain.or_else(|| AddressKind::of_address(text));
        kind.and_then(|kind| kind.normal(text)).unwrap_or_else(|| text.to_owned())
    };
    normal(asked) == normal(found)
}

/// Splits a decimal, without leading and trailing zeros.
fn plain_decimal(text: &str) -> Option<(String, String)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    (!whole.is_empty() && digits(whole) && digits(part))
        .then(|| (whole.trim_start_matches('0').to_owned(), part.trim_end_matches('0').to_owned()))
}

#[cfg(test)]
mod tests;
