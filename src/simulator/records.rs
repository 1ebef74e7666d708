//! Records in the order of their creation, and the pages that lists show of them.

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp, civil, tz::TimeZone};
use serde_json::{Value, json};

use super::call::Call;
use super::refusal::Refusal;
use crate::base::normal;

/// Less than the time between any two records.
const INSTANT: SignedDuration = SignedDuration::from_nanos(1);

/// What a list, a look-up and a repetition need to know of a record.
pub(super) trait Record {
    fn id(&self) -> &str;
    fn created_at(&self) -> Timestamp;
    fn request_id(&self) -> Option<&str>;
    /// Whether it is one of this user's.
    fn concerns(&self, user: &str) -> bool;
}

/// All records of one kind, oldest first.
#[derive(Debug)]
pub(super) struct Records<T> {
    all: Vec<T>,
    by_id: HashMap<String, usize>,
    by_request: HashMap<String, usize>,
}

impl<T: Record> Records<T> {
    pub(super) fn new() -> Records<T> {
        Records { all: Vec::new(), by_id: HashMap::new(), by_request: HashMap::new() }
    }

    pub(super) fn push(&mut self, record: T) {
        let at = self.all.len();
        self.by_id.insert(normal::uuid(record.id()), at);
        if let Some(request) = record.request_id() {
            // The first one stays: it is what a repetition is answered with.
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

    /// The first record that was made for this requestId.
    pub(super) fn of_request(&self, request_id: &str) -> Option<&T> {
        self.by_request.get(request_id).and_then(|at| self.all.get(*at))
    }

    /// The answer of a list: newest first, under `name`.
    pub(super) fn page(&self, page: &Page<'_>, name: &str, to_json: impl Fn(&T) -> Value) -> Value {
        self.page_where(page, name, |_| true, to_json)
    }

    pub(super) fn page_where(
        &self,
        page: &Page<'_>,
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

/// Which records of a list are wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<'c> {
    limit: usize,
    user: Option<&'c str>,
    before: Option<Timestamp>,
    after: Option<Timestamp>,
    now: Timestamp,
}

impl<'c> Page<'c> {
    /// By the conventions that the lists of offramps, users and transfers share.
    pub(super) fn of(call: &'c Call) -> Result<Page<'c>, Refusal> {
        Page::bounded(call, "createdBefore", 10, 0, 100)
    }

    /// With a cursor of another name and other bounds of the limit.
    pub(super) fn bounded(
        call: &'c Call,
        cursor: &str,
        default: usize,
        least: usize,
        most: usize,
    ) -> Result<Page<'c>, Refusal> {
        let limit = match call.query("limit") {
            None => default,
            Some(text) => text
                .parse()
                .ok()
                .filter(|n| (least..=most).contains(n))
                .ok_or_else(|| Refusal::violation("/query/limit", "maximum", &format!("{least} to {most}")))?,
        };
        let before = time(call, cursor, start_of_day)?;
        let after = time(call, "createdAfter", |date| start_of_day(date)?.checked_sub(INSTANT).ok())?;
        Ok(Page { limit, user: call.query("userId"), before, after, now: call.now })
    }

    /// A bound that is a timestamp is excluded; a date's own day is excluded before it and included after it.
    fn takes(&self, record: &impl Record) -> bool {
        let created = record.created_at();
        self.before.is_none_or(|bound| created < bound)
            && self.after.is_none_or(|bound| created > bound)
            && self.user.is_none_or(|user| record.concerns(user))
    }
}

fn time(call: &Call, name: &str, of_date: fn(&str) -> Option<Timestamp>) -> Result<Option<Timestamp>, Refusal> {
    let Some(text) = call.query(name) else { return Ok(None) };
    let moment = text.parse::<Timestamp>().ok().or_else(|| of_date(text));
    let expected = "a date, YYYY-MM-DD, or an ISO 8601 date-time";
    moment.map(Some).ok_or_else(|| Refusal::violation(&format!("/query/{name}"), "format", expected))
}

fn start_of_day(text: &str) -> Option<Timestamp> {
    let date: civil::Date = text.parse().ok()?;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// A record that never changes, as the seed wrote it.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) id: String,
    pub(super) users: Vec<String>,
    pub(super) created_at: Timestamp,
    pub(super) body: Value,
}

impl Record for Document {
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
