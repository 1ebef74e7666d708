//! Records in the order of their creation, and the pages of lists.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp, civil, tz::TimeZone};
use serde_json::{Value, json};

use super::call::SimulatedCall;
use super::refusal::SimulatorRefusal;
use crate::base::normal;

/// Less than the time between any two records.
const INSTANT: SignedDuration = SignedDuration::from_nanos(1);

/// The properties of a record that lists, look-ups and repetitions need.
pub(super) trait SimulatorRecord {
    fn id(&self) -> &str;
    fn created_at(&self) -> Timestamp;
    fn request_id(&self) -> Option<&str>;
    /// Whether the record belongs to this user.
    fn concerns(&self, user: &str) -> bool;
}

/// All records of one kind, oldest first.
#[derive(Debug)]
pub(super) struct Records<T> {
    all: Vec<T>,
    by_id: HashMap<String, usize>,
    by_request: HashMap<String, usize>,
}

impl<T: SimulatorRecord> Records<T> {
    pub(super) fn new() -> Records<T> {
        Records { all: Vec::new(), by_id: HashMap::new(), by_request: HashMap::new() }
    }

    pub(super) fn push(&mut self, record: T) {
        let at = self.all.len();
        self.by_id.insert(normal::uuid(record.id()), at);
        if let Some(request) = record.request_id() {
            // The first one stays: a repetition is answered with it.
            self.by_request.entry(request.to_owned()).or_insert(at);
        }
        self.all.push(record);
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.all.iter()
    }

    pub(super) fn find(&self, id: &str) -> Option<&T> {
        self.by_id.get(&normal::uuid(id)).and_then(|at| self.all.get(*at))
    }

    pub(super) fn find_mut(&mut self, id: &str) -> Option<&mut T> {
        self.by_id.get(&normal::uuid(id)).and_then(|at| self.all.get_mut(*at))
    }

    /// Returns the first record that was made for this requestId.
    pub(super) fn of_request(&self, request_id: &str) -> Option<&T> {
        self.by_request.get(request_id).and_then(|at| self.all.get(*at))
    }

    /// Returns the answer of a list: newest first, under `name`.
    pub(super) fn page(&self, page: &RecordPageRequest<'_>, name: &str, to_json: impl Fn(&T) -> Value) -> Value {
        self.page_where(page, name, |_| true, to_json)
    }

    pub(super) fn page_where(
        &self,
        page: &RecordPageRequest<'_>,
        name: &str,
        wanted: impl Fn(&T) -> bool,
        to_json: impl Fn(&T) -> Value,
    ) -> Value {
        let shown: Vec<&T> = self.all.iter().rev().filter(|r| page.takes(*r) && wanted(r)).take(page.limit).collect();
        // An empty page has no last record: its cursor leads to the same empty page.
        let cursor = shown.last().map_or(page.before.unwrap_or(page.now), |last| last.created_at());
        let records: Vec<Value> = shown.iter().map(|r| to_json(r)).collect();
        json!({"count": records.len(), name: records, "nextCursor": cursor.to_string()})
    }
}

/// The selection of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordPageRequest<'c> {
    limit: usize,
    user: Option<&'c str>,
    before: Option<Timestamp>,
    after: Option<Timestamp>,
    now: Timestamp,
}

impl<'c> RecordPageRequest<'c> {
    /// Parses the parameters that the lists of offramps, users and transfers share.
    pub(super) fn of(call: &'c SimulatedCall) -> Result<RecordPageRequest<'c>, SimulatorRefusal> {
        RecordPageRequest::bounded(call, "createdBefore", 10, 0, 100)
    }

    /// Parses the parameters, with another name of the cursor and other bounds of the limit.
    pub(super) fn bounded(
        call: &'c SimulatedCall,
        cursor: &str,
        default: usize,
        least: usize,
        most: usize,
    ) -> Result<RecordPageRequest<'c>, SimulatorRefusal> {
        let limit =
            match call.query("limit") {
                None => default,
                Some(text) => text.parse().ok().filter(|n| (least..=most).contains(n)).ok_or_else(|| {
                    SimulatorRefusal::violation("/query/limit", "maximum", &format!("{least} to {most}"))
                })?,
            };
        let before = time(call, cursor, start_of_day)?;
        let after = time(call, "createdAfter", |date| start_of_day(date)?.checked_sub(INSTANT).ok())?;
        Ok(RecordPageRequest { limit, user: call.query("userId"), before, after, now: call.now })
    }

    /// Whether a record is selected. A bound that is a timestamp is excluded; a date's own day is excluded before it
    /// and included after it.
    fn takes(&self, record: &impl SimulatorRecord) -> bool {
        let created = record.created_at();
        self.before.is_none_or(|bound| created < bound)
            && self.after.is_none_or(|bound| created > bound)
            && self.user.is_none_or(|user| record.concerns(user))
    }
}

fn time(
    call: &SimulatedCall,
    name: &str,
    of_date: fn(&str) -> Option<Timestamp>,
) -> Result<Option<Timestamp>, SimulatorRefusal> {
    let Some(text) = call.query(name) else { return Ok(None) };
    let moment = text.parse::<Timestamp>().ok().or_else(|| of_date(text));
    let expected = "a date, YYYY-MM-DD, or an ISO 8601 date-time";
    moment.map(Some).ok_or_else(|| SimulatorRefusal::violation(&format!("/query/{name}"), "format", expected))
}

fn start_of_day(text: &str) -> Option<Timestamp> {
    let date: civil::Date = text.parse().ok()?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// A record that never changes, from the seed.
#[derive(Clone, Debug)]
pub(super) struct RecordDocument {
    pub(super) id: String,
    pub(super) users: Vec<String>,
    pub(super) created_at: Timestamp,
    pub(super) body: Value,
}

impl SimulatorRecord for RecordDocument {
    fn id(&self) -> &str {
        &self.id
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }

    fn request_id(&self) -> Option<&str> {
        None
    }

    fn concerns(&self, user: &str) -> bool {
        let user = normal::uuid(user);
        self.users.contains(&user)
    }
}
