//! Whether a record of upstream is that of a call in doubt.

use serde_json::Value;

use super::state::{Answer, SentForm};
use crate::base::json::{self, Limits};
use crate::base::normal;
use crate::base::pointer::Pointer;
use crate::catalog::{Money, Operation, Reconcile};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

/// What one page of records says of a call in doubt.
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

/// Looks for the record of a call among those of a page.
pub fn look(operation: &Operation, reconcile: &Reconcile, request_id: &str, sent: &SentForm, page: &[u8]) -> Looked {
    let (Ok(page), Ok(asked)) = (json::parse(page, Limits::ANSWER), json::parse(&sent.body, Limits::REQUEST)) else {
        return Looked::Unreadable;
    };
    let Some(records) = reconcile.records.get(&page).and_then(Value::as_array) else { return Looked::Unreadable };
    let wanted = normal::uuid(request_id);
    let bears = |record: &&Value| {
        let id = reconcile.request_id.get(record).and_then(Value::as_str);
        id.is_some_and(|id| normal::uuid(id) == wanted)
    };
    let mut bearing = records.iter().filter(bears);
    match (bearing.next(), bearing.next()) {
        (None, _) => Looked::Nothing,
        (Some(_), Some(_)) => Looked::Alarming("several records bear its requestId"),
        (Some(record), None) if moves_the_same(operation, reconcile, &asked, record) => {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Looked::Found(Answer { status: 200, headers, body: Bytes::from(json::to_bytes(record)) })
        }
        (Some(_), None) => Looked::Alarming("the record that bears its requestId moves something else"),
    }
}

/// Every money field that both state is the same. In a record they stand beside the requestId, as in the request.
fn moves_the_same(operation: &Operation, reconcile: &Reconcile, asked: &Value, record: &Value) -> bool {
    let details = reconcile.request_id.parent().and_then(|parent| parent.get(record)).unwrap_or(record);
    let Some(money) = &operation.money else { return true };
    fields(money).all(|pointer| match (pointer.get(asked), pointer.get(details)) {
        (Some(asked), Some(found)) => is_same(asked, found),
        (None, _) | (_, None) => true,
    })
}

fn fields(money: &Money) -> impl Iterator<Item = &Pointer> {
    [&money.source, &money.destination].into_iter().flat_map(|side| {
        [&side.amount, &side.currency, &side.chain, &side.party, &side.wallet, &side.external_wallet, &side.account]
            .into_iter()
            .flatten()
    })
}

fn is_same(asked: &Value, found: &Value) -> bool {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if found.is_null() || asked.is_null() {
        return true;
    }
    let (asked, found) = (text(asked), text(found));
    match (plain_decimal(&asked), plain_decimal(&found)) {
        (Some(asked), Some(found)) => asked == found,
        _ => asked.eq_ignore_ascii_case(&found),
    }
}

/// Digits without the zeros that say nothing.
fn plain_decimal(text: &str) -> Option<(String, String)> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    (!whole.is_empty() && digits(whole) && digits(part))
        .then(|| (whole.trim_start_matches('0').to_owned(), part.trim_end_matches('0').to_owned()))
}

/// How many records a page has, and when the last of them was made: where the next page begins.
pub fn oldest(reconcile: &Reconcile, page: &[u8]) -> Option<(usize, String)> {
    let page = json::parse(page, Limits::ANSWER).ok()?;
    let records = reconcile.records.get(&page)?.as_array()?;
    let last = records.last()?;
    let details = reconcile.request_id.parent().and_then(|parent| parent.get(last)).unwrap_or(last);
    Some((records.len(), details.get("createdAt")?.as_str()?.to_owned()))
}
