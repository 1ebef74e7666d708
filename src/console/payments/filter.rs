//! Which payments are wanted: parsed from a query, or from the body of an export.

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashSet};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::destinations::DestinationNames;
use crate::base::ids::Environment;
use crate::base::money::Decimal;
use crate::catalog::{BodyPlace, Violation};
use crate::console::payment_index::{
    ForeignFact, PaymentBook, PaymentDay, PaymentGroup, PaymentKey, PaymentRow, PaymentStatus, PaymentTerms, TextMark,
};
use crate::console::render::{shown_as, unknown_parameter};
use crate::console::state::ConsoleState;
use crate::ledger::StoreTime;

const MAX_TEXT: usize = 512;

/// The conditions; a payment must meet all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct PaymentFilter {
    pub(super) environment: Option<Environment>,
    pub(super) status: Option<PaymentStatus>,
    pub(super) operation: Option<String>,
    /// The subject of the caller, or the person behind it.
    pub(super) caller: Option<String>,
    /// Keyed names; any of them matches.
    pub(super) destination: Option<BTreeSet<String>>,
    pub(super) currency: Option<String>,
    pub(super) least: Option<Decimal>,
    pub(super) most: Option<Decimal>,
    pub(super) from: Option<StoreTime>,
    /// The first time that is not wanted any more.
    pub(super) until: Option<StoreTime>,
    pub(super) text: Option<SoughtText>,
    /// Whether a destination had never been paid before.
    pub(super) is_first: bool,
}

/// A text that people look for, and the keyed names that it can stand for.
#[derive(Clone, Debug)]
pub(super) struct SoughtText {
    pub(super) text: String,
    pub(super) names: BTreeSet<String>,
}

/// A filter at work on one book: its text is looked for once in what many payments have in common.
pub(super) struct FilteredBook<'f, 'b> {
    filter: &'f PaymentFilter,
    /// The book's own copies of the terms that have the text.
    with_text: HashSet<*const PaymentTerms>,
    /// The book's own copies of the ends for which the text stands, and of those that are wanted as destination.
    named: HashSet<*const u8>,
    destinations: HashSet<*const u8>,
    mark: TextMark,
    /// Whether the text can be in the id of a hold.
    is_of_holds: bool,
    book: PhantomData<&'b PaymentBook>,
}

/// Returns a violation of a parameter.
pub(super) fn wrong(name: &str, keyword: &'static str, expected: &str) -> Violation {
    Violation::new(name, keyword, expected).inside(BodyPlace::Query)
}

impl PaymentFilter {
    /// Takes one parameter.
    pub fn set(
        &mut self,
        inside: &ConsoleState,
        names: &DestinationNames,
        name: &str,
        value: &str,
    ) -> Result<(), Violation> {
        if value.is_empty() || value.len() > MAX_TEXT {
            return Err(wrong(name, "maxLength", "1 to 512 characters"));
        }
        let amount = || Decimal::parse(value).map_err(|_| wrong(name, "pattern", "an amount such as 1250.50"));
        match name {
            "environment" => {
                let served = Environment::parse(value).filter(|one| inside.environments.contains(one));
                self.environment =
                    Some(served.ok_or_else(|| wrong(name, "enum", "an environment that this gate serves"))?);
            }
            "status" => {
                let words = PaymentStatus::WORDS.map(|(word, _)| format!("`{word}`")).join(", ");
                self.status =
                    Some(PaymentStatus::parse(value).ok_or_else(|| wrong(name, "enum", &format!("one of {words}")))?);
            }
            "operation" => self.operation = Some(value.to_owned()),
            "caller" => self.caller = Some(value.to_owned()),
            "destination" => self.destination = Some(names.keyed(value)),
            "first" if value == "true" => self.is_first = true,
            "first" => return Err(wrong(name, "enum", "`true`")),
            "currency" => self.currency = Some(value.to_lowercase()),
            "amountFrom" => self.least = Some(amount()?),
            "amountTo" => self.most = Some(amount()?),
            "from" => self.from = Some(day(name, value, false)?),
            "until" => self.until = Some(day(name, value, true)?),
            "text" => {
                let text = value.to_lowercase();
                let mut keyed = names.keyed(value);
                keyed.extend(names.of_lists_like(&text));
                self.text = Some(SoughtText { text, names: keyed });
            }
            other => return Err(unknown_parameter(other)),
        }
        in_order(self.from, self.until)
    }

    pub fn on<'f, 'b>(&'f self, book: &'b PaymentBook) -> FilteredBook<'f, 'b> {
        let with_text = self.text.iter().flat_map(|sought| book.terms().filter(|terms| sought.is_in_terms(terms)));
        let of = |names: Option<&BTreeSet<String>>| {
            let Some(names) = names.filter(|names| !names.is_empty()) else { return HashSet::new() };
            let is_one = |end: &&Arc<str>| end.split(' ').any(|part| names.contains(part));
            book.parties().filter(is_one).map(own_copy).collect()
        };
        let text = self.text.as_ref().map_or("", |sought| sought.text.as_str());
        FilteredBook {
            filter: self,
            with_text: with_text.map(ptr::from_ref).collect(),
            named: of(self.text.as_ref().map(|sought| &sought.names)),
            destinations: of(self.destination.as_ref()),
            mark: TextMark::of(text),
            is_of_holds: text.bytes().all(|byte| byte.is_ascii_hexdigit()),
            book: PhantomData,
        }
    }

    /// Whether all payments of a group are wanted, or none, on a day that is wanted whole: the filter asks for nothing else
    /// than what they share.
    pub fn is_of_groups(&self) -> bool {
        let PaymentFilter { destination, least, most, text, is_first, .. } = self;
        !is_first && destination.is_none() && least.is_none() && most.is_none() && text.is_none()
    }

    /// Whether the payments of a group are wanted, or those of a part of its day, where [`PaymentFilter::is_of_groups`] holds.
    pub fn matches_group(&self, group: &PaymentGroup) -> bool {
        self.matches_terms(group.environment, group.status, &group.terms)
            && self.from.is_none_or(|from| group.day.end() > from)
            && self.until.is_none_or(|until| group.day.begin() < until)
    }

    /// Whether all times of a day are wanted.
    pub fn wants_whole(&self, day: PaymentDay) -> bool {
        self.from.is_none_or(|from| day.begin() >= from) && self.until.is_none_or(|until| day.end() <= until)
    }

    fn matches_terms(&self, environment: Environment, status: PaymentStatus, terms: &PaymentTerms) -> bool {
        let is_of = |wanted: &String| terms.subject == *wanted || terms.requester.as_ref() == Some(wanted);
        self.environment.is_none_or(|wanted| wanted == environment)
            && self.status.is_none_or(|wanted| wanted == status)
            && self.operation.as_ref().is_none_or(|operation| *operation == terms.operation)
            && self.caller.as_ref().is_none_or(is_of)
            && self.currency.as_ref().is_none_or(|currency| terms.currency.as_ref() == Some(currency))
    }

    /// Whether a record that no claim explains is wanted: it has no caller, and no destination that the journal names.
    pub fn matches_foreign(&self, fact: &ForeignFact) -> bool {
        self.environment.is_none_or(|wanted| wanted == fact.environment)
            && self.operation.as_ref().is_none_or(|operation| *operation == fact.operation)
            && self.currency.as_ref().is_none_or(|currency| fact.currency.as_ref() == Some(currency))
            && self.caller.is_none()
            && self.destination.is_none()
    }
}

impl FilteredBook<'_, '_> {
    /// Whether a payment of the book is wanted.
    pub fn matches(&self, (environment, claim): &PaymentKey, row: &PaymentRow) -> bool {
        let filter = self.filter;
        let amount = |bound: Option<Decimal>, excluded: Ordering| {
            bound.is_none_or(|bound| row.amount().is_some_and(|amount| amount.compare(bound) != excluded))
        };
        let is_to = |ends: &HashSet<*const u8>| row.to.as_ref().is_some_and(|to| ends.contains(&own_copy(to)));
        let has_text = |sought: &SoughtText| {
            self.with_text.contains(&Arc::as_ptr(&row.terms))
                || is_to(&self.named)
                || (row.mark.may_contain(self.mark) && sought.is_in(&shown_as(claim)))
                || row.approvers().any(|vote| sought.is_in(&vote.subject))
                || (self.is_of_holds && row.hold().is_some_and(|hold| sought.is_in(hold)))
        };
        filter.matches_terms(*environment, row.status, &row.terms)
            && (!filter.is_first || row.is_first)
            && filter.from.is_none_or(|from| row.at >= from)
            && filter.until.is_none_or(|until| row.at < until)
            && amount(filter.least, Ordering::Less)
            && amount(filter.most, Ordering::Greater)
            && (filter.destination.is_none() || is_to(&self.destinations))
            && filter.text.as_ref().is_none_or(has_text)
    }
}

impl SoughtText {
    fn is_in(&self, text: &str) -> bool {
        contains_in_any_case(text, &self.text)
    }

    fn is_in_terms(&self, terms: &PaymentTerms) -> bool {
        self.is_in(&terms.operation)
            || self.is_in(&terms.subject)
            || terms.requester.as_deref().is_some_and(|requester| self.is_in(requester))
            || terms.rules.iter().any(|rule| self.is_in(rule))
    }
}

/// Whether a text contains another one, which is in lower case. Every payment is asked: plain texts are not copied.
fn contains_in_any_case(text: &str, lower: &str) -> bool {
    match text.is_ascii() {
        true => {
            let (text, sought) = (text.as_bytes(), lower.as_bytes());
            let Some(last) = text.len().checked_sub(sought.len()) else { return false };
            let Some(first) = sought.first() else { return true };
            // Nearly all parts differ in their first byte.
            let begins = text.iter().take(last.saturating_add(1)).enumerate();
            let mut begins = begins.filter(|(_, byte)| byte.to_ascii_lowercase() == *first);
            begins
                .any(|(at, _)| text.iter().skip(at).zip(sought).all(|(one, other)| one.to_ascii_lowercase() == *other))
        }
        false => text.to_lowercase().contains(lower),
    }
}

/// Returns where the one copy of a text is that all payments of a book share.
pub(super) fn own_copy(text: &Arc<str>) -> *const u8 {
    Arc::as_ptr(text).cast()
}

/// Parses a day without a time.
pub(super) fn only_day(text: &str) -> Option<Date> {
    let is_day = text.len() == "2026-11-20".len();
    text.parse().ok().filter(|_| is_day)
}

/// Parses a day in UTC, or a time; `is_end` is the end of the day.
pub(in crate::console) fn day(name: &str, text: &str, is_end: bool) -> Result<StoreTime, Violation> {
    let expected = || wrong(name, "format", "a day such as 2026-11-20, or a time such as 2026-11-20T08:00:00Z");
    let at = if let Some(day) = only_day(text) {
        let day = if is_end { day.tomorrow().map_err(|_| expected())? } else { day };
        day.to_zoned(TimeZone::UTC).map_err(|_| expected())?.timestamp()
    } else {
        text.parse().map_err(|_| expected())?
    };
    Ok(StoreTime::of_micros(at.as_microsecond()))
}

/// Fails where no time lies between the two: an empty list would read as if nothing had happened.
pub(in crate::console) fn in_order(from: Option<StoreTime>, until: Option<StoreTime>) -> Result<(), Violation> {
    let is_empty = from.zip(until).is_some_and(|(from, until)| until <= from);
    if is_empty { Err(wrong("until", "minimum", "a time after `from`")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_ends_before_it_begins_is_refused() {
        let at = |text: &str, is_end| Some(day("from", text, is_end).unwrap());
        assert!(in_order(at("2026-11-30", false), at("2026-11-01", true)).is_err());
        assert!(in_order(at("2026-11-30T08:00:00Z", false), at("2026-11-30T08:00:00Z", true)).is_err());
        assert!(in_order(at("2026-11-30", false), at("2026-11-30", true)).is_ok());
        assert!(in_order(at("2026-11-30", false), None).is_ok() && in_order(None, at("2026-11-01", true)).is_ok());
    }

    #[test]
    fn a_text_is_found_in_any_case() {
        for (text, sought, is_found) in [
            ("Invoice-77", "voice-7", true),
            ("Invoice-77", "voice-8", false),
            ("Invoice-77", "invoice-777", false),
            ("", "a", false),
            ("MÜNCHEN", "münch", true),
            ("munchen", "münch", false),
            ("הנהלת 7", "7", true),
        ] {
            assert_eq!(contains_in_any_case(text, sought), is_found, "{text} {sought}");
        }
    }
}
