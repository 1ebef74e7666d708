//! Upstream's pages of payments. Nothing in them is trusted: each record is read by the pointers of the contract alone,
//! and one that has another form is counted and skipped.

use serde_json::Value;

use super::comparison::RecordProblem;
use super::payment::ForeignRecord;
use crate::base::digest::Fingerprint;
use crate::base::ids::{OperationId, is_identifier};
use crate::base::json::{self, Limits};
use crate::base::normal;
use crate::base::pointer::Pointer;
use crate::catalog::{Follow, Movement, Operation};
use crate::stations::claim::micros;

/// The longest requestId that is read; a longer one is none of ours.
const MAX_REQUEST_ID: usize = 128;
/// The largest exponent of an amount, and the most characters before it.
const MAX_EXPONENT: u32 = 30;
const MAX_NUMBER: usize = 32;

/// The most records of a full page whose times may be false without hiding another record: the next page begins above
/// them.
pub const MAX_FALSE_TIMES: usize = 10;

/// A payment as upstream lists it. Times are microseconds since 1970, by upstream's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRecord {
    /// Upstream's name of it; a UUID is in its normal form.
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

impl ListedRecord {
    /// The record as it is kept for people.
    pub fn as_foreign(&self, operation: &OperationId, problem: RecordProblem) -> ForeignRecord {
        ForeignRecord {
            operation: operation.clone(),
            id: self.id.clone(),
            request_id: self.request_id.clone(),
            problem,
            state: self.state.clone(),
            created: self.created,
            moves: self.moves.clone(),
        }
    }
}

/// One page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPage {
    pub records: Vec<ListedRecord>,
    /// How many records have another form than the contract says.
    pub unreadable: usize,
    /// How many records the page has.
    pub count: usize,
    /// The time of the last record that has one.
    pub last: Option<i64>,
    /// The time from which the next page continues, a few records above the earliest time; and that time.
    pub next: Option<(i64, i64)>,
}

/// Reads a page of at most `most` records; `None` where it is none.
pub fn listed_page(operation: &Operation, follow: &Follow, page: &[u8], most: usize) -> Option<ListedPage> {
    let page = json::parse(page, Limits::UPSTREAM_TREE).ok()?;
    let items = follow.records.get(&page)?.as_array()?;
    if items.len() > most {
        return None;
    }
    let records: Vec<ListedRecord> = items.iter().filter_map(|item| record(operation, follow, item)).collect();
    // A record without a time, at the end of a page, does not hide the older ones.
    let mut times: Vec<i64> = items.iter().filter_map(|item| time(&follow.created_at, item)).collect();
    let last = times.last().copied();
    times.sort_unstable();
    let above = MAX_FALSE_TIMES.min(times.len().saturating_sub(1) / 2);
    let next = times.get(above).copied().zip(times.first().copied());
    Some(ListedPage { unreadable: items.len().saturating_sub(records.len()), count: items.len(), last, next, records })
}

/// Upstream's name of the payment that an answer tells, and when it was made, where the answer says so.
pub struct AnsweredName {
    pub name: String,
    pub made: Option<i64>,
}

/// Returns upstream's name of the payment that an answer tells, where it does.
pub fn answered_name(follow: &Follow, answer: &[u8]) -> Option<AnsweredName> {
    let answer = json::parse(answer, Limits::UPSTREAM_TREE).ok()?;
    Some(AnsweredName { name: name(follow, &answer)?, made: time(&follow.created_at, &answer) })
}

pub(super) fn name(follow: &Follow, record: &Value) -> Option<String> {
    let name = follow.id.get(record)?.as_str()?;
    is_identifier(name).then(|| normal::uuid(name))
}

/// Reads a record of the list that is followed.
pub fn listed_record(operation: &Operation, item: &Value) -> Option<ListedRecord> {
    record(operation, operation.follow.as_ref()?, item)
}

fn record(operation: &Operation, follow: &Follow, item: &Value) -> Option<ListedRecord> {
    let text = |pointer: &Pointer| pointer.get(item).and_then(Value::as_str);
    let id = name(follow, item)?;
    let state = text(&follow.status).filter(|state| is_identifier(state))?;
    let request_id = text(&follow.request_id).filter(|id| is_identifier(id) && id.len() <= MAX_REQUEST_ID);
    let details = follow.request_id.parent().and_then(|parent| parent.get(item)).unwrap_or(item);
    let is_set = |pointer: &Pointer| pointer.get(item).is_some_and(|value| !value.is_null());
    Some(ListedRecord {
        id,
        request_id: request_id.map(str::to_owned),
        state: state.to_owned(),
        created: time(&follow.created_at, item)?,
        updated: follow.updated_at.as_ref().and_then(|pointer| time(pointer, item)),
        is_upstreams: follow.made_by_upstream.as_ref().is_some_and(is_set),
        moves: in_plain_digits(operation.movement(details)?),
        digest: Fingerprint::of(&[&json::to_bytes(item)]),
        record: item.clone(),
    })
}

/// Returns the movement with amounts in digits: many JSON writers write large numbers as `1.0E7`.
pub(super) fn in_plain_digits(mut moves: Movement) -> Movement {
    for amount in [&mut moves.source.amount, &mut moves.destination.amount].into_iter().flatten() {
        if let Some(plain) = expanded(amount) {
            *amount = plain;
        }
    }
    moves
}

/// Writes `1.25e3` as `1250.00`; `None` where the text has no exponent, or one beyond every amount.
fn expanded(text: &str) -> Option<String> {
    let (number, exponent) = text.split_once(['e', 'E'])?;
    let exponent: i32 = exponent.parse().ok().filter(|exponent: &i32| exponent.unsigned_abs() <= MAX_EXPONENT)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || number.len() > MAX_NUMBER || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let shift = usize::try_from(exponent.unsigned_abs()).ok()?;
    let zeros = "0".repeat(shift);
    let (digits, point) = if exponent < 0 {
        (format!("{zeros}{whole}{fraction}"), whole.len())
    } else {
        (format!("{whole}{fraction}{zeros}"), whole.len().checked_add(shift)?)
    };
    let (whole, fraction) = digits.split_at_checked(point)?;
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    Some(if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") })
}

fn time(pointer: &Pointer, item: &Value) -> Option<i64> {
    micros(pointer.get(item)?)
}

#[cfg(test)]
mod tests {
    use super::expanded;

    #[test]
    fn an_exponent_becomes_digits_and_nothing_else_does() {
        for (text, plain) in
            [("1.0E7", "10000000"), ("1.25e3", "1250"), ("1e+2", "100"), ("5e-1", "0.5"), ("12.5e-3", "0.0125")]
        {
            let told = expanded(text).unwrap();
            let [told, plain] = [told.as_str(), plain].map(|text| crate::base::money::Decimal::parse(text).unwrap());
            assert!(told.compare(plain).is_eq(), "{text}");
        }
        for text in ["10", "e5", "1e", "1e999999999999", "1e31", "-1e2", "1.2.3e1", "1e1e1", "0x1e1"] {
            assert_eq!(expanded(text), None, "{text}");
        }
    }
}
