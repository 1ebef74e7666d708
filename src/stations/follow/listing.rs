//! Upstream's pages of payments. Nothing in them is trusted: each record is read by the pointers of the contract alone,
//! and one that has another form is counted and skipped.

use jiff::Timestamp;
use serde_json::Value;

use crate::base::digest::Fingerprint;
use crate::base::ids::is_identifier;
use crate::base::json::{self, Limits};
use crate::base::pointer::Pointer;
use crate::catalog::{Follow, Movement, Operation};

/// The longest requestId that is read; a longer one is none of ours.
const MAX_REQUEST_ID: usize = 128;

/// A payment as upstream lists it. Times are microseconds since 1970, by upstream's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRecord {
    /// Upstream's name of it.
    pub id: String,
    /// `None` where it can be no requestId of a call.
    pub request_id: Option<String>,
    pub state: String,
    pub created: i64,
    pub updated: Option<i64>,
    /// Whether upstream made it by itself.
    pub is_upstreams: bool,
    pub moves: Movement,
    /// The whole record.
    pub record: Value,
    pub digest: Fingerprint,
}

/// One page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPage {
    pub records: Vec<ListedRecord>,
    /// How many records have another form than the contract says.
    pub unreadable: usize,
    /// How many records the page has.
    pub count: usize,
    /// The time of the last record, from which the next page continues.
    pub last: Option<i64>,
}

/// Reads a page of at most `most` records; `None` where it is none.
pub fn listed_page(operation: &Operation, follow: &Follow, page: &[u8], most: usize) -> Option<ListedPage> {
    let page = json::parse(page, Limits::ANSWER).ok()?;
    let items = follow.records.get(&page)?.as_array()?;
    if items.len() > most {
        return None;
    }
    let records: Vec<ListedRecord> = items.iter().filter_map(|item| record(operation, follow, item)).collect();
    Some(ListedPage {
        unreadable: items.len().saturating_sub(records.len()),
        count: items.len(),
        last: items.last().and_then(|item| time(&follow.created_at, item)),
        records,
    })
}

fn record(operation: &Operation, follow: &Follow, item: &Value) -> Option<ListedRecord> {
    let text = |pointer: &Pointer| pointer.get(item).and_then(Value::as_str);
    let id = text(&follow.id).filter(|id| is_identifier(id))?;
    let state = text(&follow.status).filter(|state| is_identifier(state))?;
    let request_id = text(&follow.request_id).filter(|id| is_identifier(id) && id.len() <= MAX_REQUEST_ID);
    let details = follow.request_id.parent().and_then(|parent| parent.get(item)).unwrap_or(item);
    let is_set = |pointer: &Pointer| pointer.get(item).is_some_and(|value| !value.is_null());
    Some(ListedRecord {
        id: id.to_owned(),
        request_id: request_id.map(str::to_owned),
        state: state.to_owned(),
        created: time(&follow.created_at, item)?,
        updated: follow.updated_at.as_ref().and_then(|pointer| time(pointer, item)),
        is_upstreams: follow.made_by_upstream.as_ref().is_some_and(is_set),
        moves: operation.movement(details)?,
        digest: Fingerprint::of(&[&json::to_bytes(item)]),
        record: item.clone(),
    })
}

fn time(pointer: &Pointer, item: &Value) -> Option<i64> {
    let time: Timestamp = pointer.get(item)?.as_str()?.parse().ok()?;
    Some(time.as_microsecond())
}
