//! `[[limit]]`: how much money or how many calls in a window, and what counts together.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _, Zoned};

use super::KnownNames;
use super::condition::{Condition, Sense};
use super::contract_check::Scope;
use super::document::{DocumentTable, PolicyPlace};
use super::durations;
use super::limit_key::{KEYS, LimitKey};
use super::literal::{MissingFact, NO_VALUE};
use super::rate::{self, Mode};
use super::request::{Facts, View};
use super::rule::{self, all_hold};
use super::times;
use super::when::{self, Vocabulary};
use crate::base::finding::Finding;
use crate::base::ids::OperationId;
use crate::base::json::{self, Limits};
use crate::base::money::{Decimal, asset_name};
use crate::base::word_enum::word_enum;
use crate::ledger::{MAX_UNITS, StoreTime, WindowKey, WindowSpan};

/// How many buckets a rolling window is divided into.
const BUCKETS: u32 = 60;
/// The name of the unit in the key of a window; no key is called so.
pub(super) const UNIT: &str = "unit";
/// A request that counts in more windows is not a payment but an attack.
const MAX_WINDOWS: usize = 64;
pub(super) const OVERS: [(&str, bool); 2] = [("deny", false), ("hold", true)];
pub(super) const WITHOUT: [(&str, bool); 2] = [("deny", true), ("skip", false)];

#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    pub id: Arc<str>,
    /// The line and the column of the table.
    pub place: (usize, usize),
    pub max: Max,
    /// The maximum as it is written, if it is in another currency than USD.
    pub(super) max_in: Option<MaxInAsset>,
    /// The approval that may exceed it; `None` if nothing may.
    pub over: Option<Arc<str>>,
    pub mode: Mode,
    pub(super) operations: BTreeSet<OperationId>,
    pub(super) conditions: Vec<Condition>,
    pub(super) window: Window,
    pub(super) per: BTreeSet<LimitKey>,
    /// Whether an operation without an amount is denied; otherwise it does not count.
    pub(super) denies_without: bool,
    /// The webhooks that hear when a payment that it counts fails or comes back.
    pub alert: BTreeSet<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Max {
    MicroUsd(u64),
    Calls(u64),
}

/// A maximum in an asset; it is worth its micro-USD as long as the value of the asset holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MaxInAsset {
    pub amount: String,
    pub asset: String,
    pub from_secs: i64,
    pub to_secs: i64,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Window {
    Rolling(Duration),
    Calendar(Period, TimeZone),
}

word_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum Period {
        Day = "day",
        Week = "week",
        Month = "month",
    }
}

/// The units to reserve before a request is sent, for a step of the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reservation {
    pub window: WindowKey,
    pub span: WindowSpan,
    pub units: u64,
    pub max: u64,
    /// The approval that may exceed the limit.
    pub over: Option<Arc<str>>,
    /// The calendar window in words, where an approval may exceed it.
    pub period: Option<Arc<str>>,
    pub mode: Mode,
}

/// Nobody knows today's value of the currency of a maximum.
pub(super) const NOT_VALUED: MissingFact = MissingFact("the value of the maximum's currency is too old");

impl Limit {
    /// Whether the keys of its windows name callers, or whom they pay.
    pub fn names_people(&self) -> bool {
        self.per.iter().any(|key| key.names_people())
    }

    /// Returns the windows that a request counts in.
    pub(super) fn reservations(&self, view: &View<'_>, facts: &Facts) -> Result<Vec<Reservation>, MissingFact> {
        if !all_hold(&self.conditions, view, facts, Sense::Restricts)? {
            return Ok(Vec::new());
        }
        let (units, max) = match (self.max, view.value) {
            (Max::Calls(max), _) => (1, max),
            (Max::MicroUsd(max), Some(value)) => (value.map_err(|_| NO_VALUE)?.as_u64(), max),
            (Max::MicroUsd(_), None) if self.denies_without => return Err(MissingFact("the operation has no amount")),
            (Max::MicroUsd(_), None) => return Ok(Vec::new()),
        };
        if self.max_in.as_ref().is_some_and(|one| !(one.from_secs..one.to_secs).contains(&facts.now_secs())) {
            return Err(NOT_VALUED);
        }
        let span = self.window.span(facts)?;
        let period = self.over.as_ref().and_then(|_| self.window.period_in_words(span));
        let reservation = |key: Vec<String>| Reservation {
            window: WindowKey { limit: self.id.to_string(), key: self.key_text(key) },
            span,
            units,
            max,
            over: self.over.clone(),
            period: period.clone(),
            mode: self.mode,
        };
        Ok(self.keys(view)?.into_iter().map(reservation).collect())
    }

    /// Returns the key of a window as text: each value with its name, and the unit of numbers of calls. A limit with the same
    /// id that has other keys, or counts in another unit, has other windows.
    fn key_text(&self, values: Vec<String>) -> String {
        let named: BTreeMap<&str, String> = self.key_names().zip(values).chain(self.key_unit()).collect();
        // Texts are always written.
        serde_json::to_string(&named).unwrap_or_default()
    }

    /// Whether the key of a window has the limit's keys and its unit: what another `per` or unit left behind is not its own.
    pub fn has_window(&self, key: &str) -> bool {
        let named: BTreeMap<String, String> = json::from_slice(key.as_bytes(), Limits::ANSWER).unwrap_or_default();
        let unit = self.key_unit().map(|(name, _)| name);
        let own: BTreeSet<&str> = self.key_names().chain(unit).collect();
        named.keys().map(String::as_str).eq(own)
    }

    fn key_names(&self) -> impl Iterator<Item = &'static str> {
        self.per.iter().map(|key| KEYS.iter().find(|(_, other)| other == key).map_or("", |(name, _)| *name))
    }

    /// Micro-USD have no name.
    fn key_unit(&self) -> Option<(&'static str, String)> {
        match self.max {
            Max::MicroUsd(_) => None,
            Max::Calls(_) => Some((UNIT, "calls".to_owned())),
        }
    }

    /// Formats the maximum: in USD, and as it is written in another currency.
    pub(super) fn most_in_words(&self) -> String {
        let most = self.max.describe(self.max.units());
        match &self.max_in {
            Some(MaxInAsset { amount, asset, .. }) => format!("{most} ({amount} {asset})"),
            None => most,
        }
    }

    /// Returns each key of a request; where a field has several values, the request counts under each.
    fn keys(&self, view: &View<'_>) -> Result<Vec<Vec<String>>, MissingFact> {
        let mut keys = vec![Vec::<String>::new()];
        for key in &self.per {
            let values: BTreeSet<String> = match key {
                LimitKey::Names(field) => view.names(*field).map(str::to_owned).collect(),
                LimitKey::Operation => BTreeSet::from([view.asked.operation.id.to_string()]),
                LimitKey::Destination => view.destinations().into_iter().collect(),
                LimitKey::Payment => BTreeSet::from([view.payment().to_hex()]),
            };
            // All requests without a value count together.
            let values = if values.is_empty() { BTreeSet::from([String::new()]) } else { values };
            // They come in order, and each once.
            let mut longer = Vec::with_capacity(keys.len().saturating_mul(values.len()));
            for key in &keys {
                longer.extend(values.iter().map(|value| key.iter().chain([value]).cloned().collect::<Vec<String>>()));
            }
            keys = longer;
            if keys.len() > MAX_WINDOWS {
                return Err(MissingFact("the request counts in too many windows"));
            }
        }
        Ok(keys)
    }

    /// Returns the span of its windows now.
    pub fn span(&self, now: StoreTime) -> Option<WindowSpan> {
        self.window.span(&Facts { now, ..Facts::default() }).ok()
    }

    /// Returns the parts of a window's key, by name.
    pub(super) fn named(&self, key: &str) -> impl Iterator<Item = (&'static str, String)> {
        let mut named: BTreeMap<String, String> = json::from_slice(key.as_bytes(), Limits::ANSWER).unwrap_or_default();
        self.key_names().filter_map(move |name| Some((name, named.remove(name)?)))
    }

    /// Tells the window of a key, where a request counts in several: ` for account:…`.
    pub(super) fn key_in_words(&self, key: &str) -> String {
        let values: Vec<String> = self.named(key).map(|(_, value)| value).filter(|value| !value.is_empty()).collect();
        if values.is_empty() { String::new() } else { format!(" for {}", values.join(", ")) }
    }

    /// Whether the caller could use a fresh window for every request.
    pub(super) fn is_open(&self) -> bool {
        !self.per.is_empty() && self.per.iter().all(|key| !key.is_given())
    }

    /// Returns the operations that need an enclosing limit, if the limit is open. A payment without an amount can only
    /// be bounded by number.
    pub(super) fn to_enclose<'l>(&'l self, known: &'l KnownNames<'_>) -> impl Iterator<Item = &'l OperationId> {
        let has_amount =
            |id: &&OperationId| known.catalog.operation(id).is_some_and(|operation| operation.has_amount());
        self.operations.iter().filter(move |id| !self.per.contains(&LimitKey::Payment) || has_amount(id))
    }

    /// Whether it bounds a caller's use of an operation, whatever the caller writes.
    pub(super) fn encloses(&self, operation: &OperationId) -> bool {
        self.mode == Mode::Enforce
            && self.conditions.is_empty()
            && self.per.iter().all(|key| key.is_given())
            && self.operations.contains(operation)
    }
}

impl Window {
    fn span(&self, facts: &Facts) -> Result<WindowSpan, MissingFact> {
        match self {
            Window::Rolling(length) => Ok(WindowSpan::Rolling { bucket: *length / BUCKETS, count: BUCKETS }),
            Window::Calendar(period, zone) => {
                let now = Timestamp::from_microsecond(facts.now.as_micros())
                    .map_err(|_| MissingFact("the time is out of range"))?;
                let (from, to) =
                    period.around(&now.to_zoned(zone.clone())).ok_or(MissingFact("the time is beyond the calendar"))?;
                let time = |zoned: Zoned| StoreTime::of_micros(zoned.timestamp().as_microsecond());
                Ok(WindowSpan::Fixed { from: time(from), to: time(to) })
            }
        }
    }

    /// Returns which calendar window a span of it is, in words; a rolling window is none.
    fn period_in_words(&self, span: WindowSpan) -> Option<Arc<str>> {
        let (Window::Calendar(period, zone), WindowSpan::Fixed { from, .. }) = (self, span) else { return None };
        let date = Timestamp::from_microsecond(from.as_micros()).ok()?.to_zoned(zone.clone()).date();
        let zone = zone.iana_name().unwrap_or("a zone without a name");
        let words = match period {
            Period::Day => format!("on {date} ({zone})"),
            Period::Week => format!("in the week from {date} ({zone})"),
            Period::Month => format!("in {:04}-{:02} ({zone})", date.year(), date.month()),
        };
        Some(words.into())
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

/// Reads a limit; errors go to the findings.
pub(super) fn read_limit(
    mut table: DocumentTable<'_>,
    known: &KnownNames<'_>,
    words: &Vocabulary,
    findings: &mut Vec<Finding>,
) -> Option<Limit> {
    let place = table.place;
    let id = rate::id(&mut table);
    let ops = table.required("ops", DocumentTable::one_or_more);
    let ops = ops.unwrap_or_default();
    let operations = rate::operations(&mut table, &ops, known);
    let reads = known.catalog.operations().iter().find(|o| !o.is_write() && operations.contains(&o.id));
    if let Some(read) = reads {
        let fault = format!("`{}` is a read: limits bind what changes or pays", read.id);
        table.fault(place, fault, "write a `[[rate]]` for reads");
    }
    let conditions = table.nested("when").map(|mut nested| {
        let conditions = when::conditions(&mut nested, &Scope::of(&operations, &ops, known), known, words);
        table.include(nested);
        conditions
    });
    let window = table.required("window", window);
    let per = table.texts("per", true).unwrap_or_default();
    let per = per.iter().filter_map(|(place, text)| table.choice_of("per", *place, text, &KEYS)).collect();
    let max = table.required("max", |table, name| max(table, name, words));
    let (max, max_in) = max.map_or((None, None), |(max, max_in)| (Some(max), max_in));
    // A read is reported already.
    let asked = if reads.is_some() { BTreeSet::new() } else { operations.clone() };
    let denies_without = without(&mut table, max, &asked, known);
    let over = over(&mut table, words);
    let alert = table.texts("alert", false).unwrap_or_default();
    let alert = alert.into_iter().map(|(_, name)| name.into()).collect();
    let mode = table.choice("mode", &Mode::WORDS).unwrap_or(Mode::Enforce);
    let is_good = table.end(findings);
    let conditions = conditions.unwrap_or_default();
    let read = Limit {
        id: id?,
        place,
        max: max?,
        max_in,
        over,
        mode,
        operations,
        conditions,
        window: window?,
        per,
        denies_without,
        alert,
    };
    is_good.then_some(read)
}

fn without(
    table: &mut DocumentTable<'_>,
    max: Option<Max>,
    operations: &BTreeSet<OperationId>,
    known: &KnownNames<'_>,
) -> bool {
    let place = table.place;
    let without = table.choice("without_amount", &WITHOUT);
    match (max, without, when::first_without_amount(operations, known)) {
        (Some(Max::MicroUsd(_)), None, Some(name)) => {
            let fault = format!("`{name}` has no amount, and the limit counts amounts");
            table.fault(place, fault, "remove it from `ops`, or add `without_amount = \"deny\"` or `\"skip\"`");
        }
        (Some(Max::Calls(_)), Some(_), _) => {
            table.fault(place, "`without_amount` has no effect where calls are counted", "remove it");
        }
        _ => {}
    }
    without.unwrap_or(true)
}

fn over(table: &mut DocumentTable<'_>, words: &Vocabulary) -> Option<Arc<str>> {
    let place = table.place;
    let approval = rule::approval(table, words);
    let remedy = "write `over = \"deny\"`, or `over = \"hold\"` and `approval`";
    let holds = table.required("over", |table, name| table.choice(name, &OVERS))?;
    if holds != approval.is_some() && !table.has_misspelt("approval") {
        table.fault(place, "`approval` needs `over = \"hold\"`, and `over = \"hold\"` needs it", remedy);
    }
    approval
}

/// Reads `10 calls`, `250000 USD`, or an amount of an asset: it is worth so many USD as the set says.
fn max(table: &mut DocumentTable<'_>, name: &'static str, words: &Vocabulary) -> Option<(Max, Option<MaxInAsset>)> {
    let (place, text) = table.text(name)?;
    let calls = text.strip_suffix(" calls").or_else(|| text.strip_suffix(" call"));
    if let (None, Some((amount, asset))) = (calls, text.split_once(' ').filter(|(_, asset)| *asset != "USD")) {
        return in_asset(table, place, (amount, asset), words);
    }
    let read = match calls {
        Some(number) if !number.starts_with('+') => match number.parse() {
            Ok(calls) if (1..=MAX_UNITS).contains(&calls) => Ok(Max::Calls(calls)),
            _ => Err("it is not a number of calls".to_owned()),
        },
        _ => when::usd(&text).map(|usd| Max::MicroUsd(usd.as_u64())),
    };
    if let Err(why) = &read {
        let fault = format!("`{name}` cannot be `{}`: {why}", text.escape_debug());
        table.fault(place, fault, "write for example `250000 USD`, `5000 usdc` or `10 calls`");
    }
    read.ok().map(|max| (max, None))
}

fn in_asset(
    table: &mut DocumentTable<'_>,
    place: PolicyPlace,
    (amount, asset): (&str, &str),
    words: &Vocabulary,
) -> Option<(Max, Option<MaxInAsset>)> {
    let assets = &words.valuation.assets;
    if assets.asset(asset).is_none() {
        if !words.is_broken("asset", asset) {
            table.unknown_name(place, "the currency of `max`", asset, assets.names().chain(["USD", "calls"]));
        }
        return None;
    }
    match Decimal::parse(amount).and_then(|decimal| assets.most(decimal, asset)) {
        Ok((most, from_secs, to_secs)) => {
            let (amount, asset) = (amount.to_owned(), asset_name(asset).into_owned());
            Some((Max::MicroUsd(most.as_u64()), Some(MaxInAsset { amount, asset, from_secs, to_secs })))
        }
        Err(why) => {
            let fault = format!("`max` cannot be `{} {}`: {why}", amount.escape_debug(), asset.escape_debug());
            table.fault(place, fault, "write for example `250000 USD`, or an amount of an asset that has a value");
            None
        }
    }
}

fn window(table: &mut DocumentTable<'_>, name: &'static str) -> Option<Window> {
    let (place, text) = table.text(name)?;
    let remedy = "write `rolling 24h`, or `calendar day`, `week` or `month` and a zone: `calendar day Europe/Berlin`";
    let mut words = text.split(' ');
    let found = match (words.next(), words.next(), words.next(), words.next()) {
        (Some("rolling"), Some(length), None, None) => durations::span(length).map(Window::Rolling),
        (Some("calendar"), Some(period), Some(zone), None) => match Period::parse(period) {
            Some(period) => return Some(Window::Calendar(period, times::zone_of(table, place, zone)?)),
            None => None,
        },
        _ => None,
    };
    if found.is_none() {
        table.fault(place, format!("`{name}` cannot be `{}`", text.escape_debug()), remedy);
    }
    found
}

/// Returns the regular expression of a window.
pub(super) fn window_pattern() -> String {
    let periods = Period::ALL.map(Period::as_str).join("|");
    format!("^(rolling [1-9][0-9]*[mhd]|calendar ({periods}) [^ ]+)$")
}
