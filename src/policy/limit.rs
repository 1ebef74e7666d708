//! `[[limit]]`: how much, or how often, in how long, and what counts together.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};

use super::Known;
use super::asked::{Facts, Field, View};
use super::condition::{Condition, Sense, Untold};
use super::document::Table;
use super::rate::{self, Mode};
use super::rule::{self, all_hold};
use super::when::{self, Vocabulary};
use super::words;
use crate::base::finding::Finding;
use crate::base::ids::OperationId;
use crate::commit::{MAX_UNITS, Span, StoreTime, WindowKey};

/// Into how many buckets a rolling window is cut.
const BUCKETS: u32 = 60;
/// More windows than these are no payment but an attempt.
const MOST_WINDOWS: usize = 64;
pub(super) const KEYS: [(&str, Key); 10] = [
    ("environment", Key::Names(Field::Environment)),
    ("caller", Key::Names(Field::Caller)),
    ("issuer", Key::Names(Field::Issuer)),
    ("role", Key::Names(Field::Role)),
    ("user", Key::Names(Field::User)),
    ("chain", Key::Names(Field::Chain)),
    ("currency", Key::Names(Field::Currency)),
    ("operation", Key::Operation),
    ("destination", Key::Destination),
    ("payment", Key::Payment),
];
pub(super) const PERIODS: [(&str, Period); 3] =
    [("day", Period::Day), ("week", Period::Week), ("month", Period::Month)];
pub(super) const OVERS: [(&str, bool); 2] = [("deny", false), ("hold", true)];
pub(super) const WITHOUT: [(&str, bool); 2] = [("deny", true), ("skip", false)];

#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    pub id: Arc<str>,
    /// The line and the column that it stands in.
    pub place: (usize, usize),
    pub max: Max,
    /// The approval that may exceed it; nothing where nobody may.
    pub over: Option<Arc<str>>,
    pub mode: Mode,
    pub(super) operations: BTreeSet<OperationId>,
    pub(super) conditions: Vec<Condition>,
    pub(super) window: Window,
    pub(super) per: BTreeSet<Key>,
    /// Whether an operation without an amount is denied; otherwise it does not count.
    pub(super) denies_without: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Max {
    MicroUsd(u64),
    Calls(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Names(Field),
    Operation,
    Destination,
    Payment,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Window {
    Rolling(Duration),
    Calendar(Period, TimeZone),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Period {
    Day,
    Week,
    Month,
}

/// What must be reserved before a request is sent: the material of a step of the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub window: WindowKey,
    pub span: Span,
    pub units: u64,
    pub max: u64,
    /// The approval that may exceed the limit.
    pub over: Option<Arc<str>>,
    pub mode: Mode,
}

impl Key {
    /// Whether the caller cannot choose it anew with each request.
    fn is_given(self) -> bool {
        match self {
            Key::Names(field) => field.is_of_caller(),
            Key::Operation => true,
            Key::Destination | Key::Payment => false,
        }
    }
}

impl Limit {
    /// The windows that a request of one of its operations counts in.
    pub(super) fn reservations(&self, view: &View<'_>, facts: &Facts) -> Result<Vec<Reservation>, Untold> {
        if !all_hold(&self.conditions, view, facts, Sense::Restricts)? {
            return Ok(Vec::new());
        }
        let (units, max) = match (self.max, view.value) {
            (Max::Calls(max), _) => (1, max),
            (Max::MicroUsd(max), Some(value)) => (value.map_err(|_| Untold("the amount has no value"))?.as_u64(), max),
            (Max::MicroUsd(_), None) if self.denies_without => return Err(Untold("the operation has no amount")),
            (Max::MicroUsd(_), None) => return Ok(Vec::new()),
        };
        let span = self.window.span(facts)?;
        let reservation = |key: Vec<String>| Reservation {
            window: WindowKey { limit: self.id.to_string(), key: serde_json::Value::from(key).to_string() },
            span,
            units,
            max,
            over: self.over.clone(),
            mode: self.mode,
        };
        Ok(self.keys(view)?.into_iter().map(reservation).collect())
    }

    /// One value for each key; where a key has several, the request counts under each.
    fn keys(&self, view: &View<'_>) -> Result<BTreeSet<Vec<String>>, Untold> {
        let mut keys = BTreeSet::from([Vec::new()]);
        for key in &self.per {
            let values: BTreeSet<String> = match key {
                Key::Names(field) => view.names(*field).map(str::to_owned).collect(),
                Key::Operation => BTreeSet::from([view.asked.operation.id.to_string()]),
                Key::Destination => view.destinations().into_iter().collect(),
                Key::Payment => BTreeSet::from([view.payment().to_hex()]),
            };
            // Who names nothing counts together with all who name nothing.
            let values = if values.is_empty() { BTreeSet::from([String::new()]) } else { values };
            let with = |key: &Vec<String>| {
                let longer = |value: &String| key.iter().chain([value]).cloned().collect::<Vec<_>>();
                values.iter().map(longer).collect::<Vec<_>>()
            };
            keys = keys.iter().flat_map(with).collect();
            if keys.len() > MOST_WINDOWS {
                return Err(Untold("the request counts in too many windows"));
            }
        }
        Ok(keys)
    }

    /// Over which time its windows count now.
    pub fn span(&self, now: StoreTime) -> Option<Span> {
        self.window.span(&Facts { now, ..Facts::default() }).ok()
    }

    /// The parts of the key of a window, by their names.
    pub(super) fn named(&self, key: &str) -> impl Iterator<Item = (&'static str, String)> {
        let values: Vec<String> = serde_json::from_str(key).unwrap_or_default();
        let name = |key: &Key| KEYS.iter().find(|(_, other)| other == key).map_or("", |(name, _)| *name);
        self.per.iter().map(name).zip(values).collect::<Vec<_>>().into_iter()
    }

    /// Whether the caller could be in a fresh window with every request.
    pub(super) fn is_open(&self) -> bool {
        !self.per.is_empty() && self.per.iter().all(|key| !key.is_given())
    }

    /// The operations that need an enclosing limit, if it is open. A payment without an amount has nothing to bound but
    /// its repetition.
    pub(super) fn to_enclose<'l>(&'l self, known: &'l Known<'_>) -> impl Iterator<Item = &'l OperationId> {
        let has_amount =
            |id: &&OperationId| known.catalog.operation(id).is_some_and(|operation| operation.has_amount());
        self.operations.iter().filter(move |id| !self.per.contains(&Key::Payment) || has_amount(id))
    }

    /// Whether it bounds what a caller does with an operation, whatever the caller writes.
    pub(super) fn encloses(&self, operation: &OperationId) -> bool {
        self.mode == Mode::Enforce
            && self.conditions.is_empty()
            && self.per.iter().all(|key| key.is_given())
            && self.operations.contains(operation)
    }
}

impl Window {
    fn span(&self, facts: &Facts) -> Result<Span, Untold> {
        match self {
            Window::Rolling(length) => Ok(Span::Rolling { bucket: *length / BUCKETS, count: BUCKETS }),
            Window::Calendar(period, zone) => {
                let now =
                    Timestamp::from_microsecond(facts.now.as_micros()).map_err(|_| Untold("there is no such time"))?;
                let (from, to) = period.around(&now.to_zoned(zone.clone())).ok_or(Untold("the calendar ends here"))?;
                let time = |zoned: Zoned| StoreTime::of_micros(zoned.timestamp().as_microsecond());
                Ok(Span::Fixed { from: time(from), to: time(to) })
            }
        }
    }
}

impl Period {
    fn around(self, now: &Zoned) -> Option<(Zoned, Zoned)> {
        let day = now.start_of_day().ok()?;
        let (first, length) = match self {
            Period::Day => (day.date(), 1.day()),
            Period::Week => {
                let days = i64::from(day.weekday().since(Weekday::Monday));
                (day.date().checked_sub(days.days()).ok()?, 7.days())
            }
            Period::Month => (day.date().first_of_month(), 1.month()),
        };
        let begin = |date: jiff::civil::Date| date.to_zoned(now.time_zone().clone()).ok();
        Some((begin(first)?, begin(first.checked_add(length).ok()?)?))
    }
}

/// Reads one; what is wrong goes to the findings.
pub(super) fn read(
    mut table: Table<'_>,
    known: &Known<'_>,
    words: &Vocabulary,
    findings: &mut Vec<Finding>,
) -> Option<Limit> {
    let place = table.place;
    let id = rate::id(&mut table);
    let remedy = "write `ops = [\"@money\"]`, or operations by their ids";
    let ops = table.required("ops", remedy, Table::one_or_more);
    let operations = ops.map(|ops| rate::operations(&mut table, &ops, known)).unwrap_or_default();
    let reads = known.catalog.operations().iter().find(|o| !o.is_write() && operations.contains(&o.id));
    if let Some(read) = reads {
        let fault = format!("`{}` is a read: limits bind what changes or pays", read.id);
        table.fault(place, fault, "write a `[[rate]]` for reads");
    }
    let conditions = table.nested("when").map(|mut nested| {
        let conditions = when::conditions(&mut nested, &operations, known, words);
        table.include(nested);
        conditions
    });
    let window = table.required("window", "write for example `window = \"rolling 24h\"`", window);
    let per = table.texts("per", true).unwrap_or_default();
    let per = per.iter().filter_map(|(place, text)| table.choice_of("per", *place, text, &KEYS)).collect();
    let max = table.required("max", "write for example `max = \"250000 USD\"` or `\"10 calls\"`", max);
    let denies_without = without(&mut table, max, &operations, known);
    let over = over(&mut table, words);
    let mode = table.choice("mode", &rate::MODES).unwrap_or(Mode::Enforce);
    let is_good = table.end(findings);
    let conditions = conditions.unwrap_or_default();
    let read =
        Limit { id: id?, place, max: max?, over, mode, operations, conditions, window: window?, per, denies_without };
    is_good.then_some(read)
}

fn without(table: &mut Table<'_>, max: Option<Max>, operations: &BTreeSet<OperationId>, known: &Known<'_>) -> bool {
    let place = table.place;
    let without = table.choice("without_amount", &WITHOUT);
    match (max, without, when::first_without_amount(operations, known)) {
        (Some(Max::MicroUsd(_)), None, Some(name)) => {
            let fault = format!("`{name}` has no amount, and the limit counts amounts");
            table.fault(place, fault, "leave it out of `ops`, or write `without_amount = \"deny\"` or `\"skip\"`");
        }
        (Some(Max::Calls(_)), Some(_), _) => {
            table.fault(place, "`without_amount` says nothing where calls are counted", "take it out");
        }
        _ => {}
    }
    without.unwrap_or(true)
}

fn over(table: &mut Table<'_>, words: &Vocabulary) -> Option<Arc<str>> {
    let place = table.place;
    let approval = rule::approval(table, words);
    let remedy = "write `over = \"deny\"`, or `over = \"hold\"` and `approval`";
    let holds = table.required("over", remedy, |table, name| table.choice(name, &OVERS))?;
    if holds != approval.is_some() {
        table.fault(place, "`approval` goes with `over = \"hold\"`, and only with it", remedy);
    }
    approval
}

fn max(table: &mut Table<'_>, name: &'static str) -> Option<Max> {
    let (place, text) = table.text(name)?;
    let calls = text.strip_suffix(" calls").or_else(|| text.strip_suffix(" call"));
    let read = match calls {
        Some(number) if !number.starts_with('+') => match number.parse() {
            Ok(calls) if (1..=MAX_UNITS).contains(&calls) => Ok(Max::Calls(calls)),
            _ => Err("it is no number of calls".to_owned()),
        },
        _ => when::usd(&text).map(|usd| Max::MicroUsd(usd.as_u64())),
    };
    if let Err(why) = &read {
        let fault = format!("`{name}` cannot be `{}`: {why}", text.escape_debug());
        table.fault(place, fault, "write for example `250000 USD` or `10 calls`");
    }
    read.ok()
}

fn window(table: &mut Table<'_>, name: &'static str) -> Option<Window> {
    let (place, text) = table.text(name)?;
    let remedy = "write `rolling 24h`, or `calendar day`, `week` or `month` and a zone: `calendar day Europe/Berlin`";
    let mut words = text.split(' ');
    let found = match (words.next(), words.next(), words.next(), words.next()) {
        (Some("rolling"), Some(length), None, None) => words::span(length).map(Window::Rolling),
        (Some("calendar"), Some(period), Some(zone), None) => {
            let period = PERIODS.into_iter().find(|(name, _)| *name == period).map(|(_, period)| period);
            match period {
                Some(period) => return Some(Window::Calendar(period, when::zone_of(table, place, zone)?)),
                None => None,
            }
        }
        _ => None,
    };
    if found.is_none() {
        table.fault(place, format!("`{name}` cannot be `{}`", text.escape_debug()), remedy);
    }
    found
}
