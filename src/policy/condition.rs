//! The conditions of a rule: sets, intervals and presence, and nothing else.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;

use super::acquaintance::{is_known, span};
use super::body_facts::{NOT_KNOWN_PAID, Stated};
use super::dates::{dates_in_words, day_number};
use super::interval::Interval;
use super::literal::{Literal, MissingFact, NO_VALUE};
use super::request::{Facts, Field, View};
use crate::base::money::{Decimal, MicroUsd};
use crate::base::pointer::Pointer;

/// The decimals of prices in comparisons.
pub(super) const PRICE_DECIMALS: u32 = 8;

/// One condition.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// The name in the field is in the set.
    Names(Field, BTreeSet<String>),
    /// The name in the field is not in the set. What stops also matches if the field has no name.
    NotNames(Field, BTreeSet<String>),
    /// The destination is one of these, by every field that names it.
    Destination(Ways),
    /// The destination is none of these. What stops also matches if nothing names it.
    NotDestination(Ways),
    /// Every wallet that takes fees is one of these. It belongs to each condition on destinations without one on
    /// `fee_wallet`, and narrows only what permits.
    FeesOnlyTo(BTreeSet<String>),
    /// Whether the destination must be new: nothing was paid to it before or, with a cool-down, it was first paid less
    /// than that long ago, and people did not approve it.
    NewDestination {
        new: bool,
        cooldown: Duration,
    },
    /// The value in micro-USD, and whether an operation without one matches.
    Amount {
        within: Interval,
        without: bool,
    },
    /// The limit price.
    Price(Interval),
    Body(Pointer, SoughtValue),
    Weekday(Vec<Weekday>, TimeZone),
    Hour(Interval, TimeZone),
    /// The date is in one of these ranges of days since 1970-01-01.
    Date(Vec<Interval>, TimeZone),
    /// On the days of a range, the names in the condition are these; on others it always holds.
    During(Interval, TimeZone, Box<Condition>),
}

/// The fields that may name a destination; `None` for a field that must not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    pub user: BTreeSet<String>,
    pub wallet: BTreeSet<String>,
    pub external_wallet: BTreeSet<String>,
}

/// The condition on a field of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SoughtValue {
    Present,
    Absent,
    Among(BTreeSet<Literal>),
    /// Another value. What stops also matches if there is none.
    NotAmong(BTreeSet<Literal>),
}

/// Whether a rule allows or stops: if a field has several values, all of them must match to allow, and any of them to
/// stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sense {
    Permits,
    Restricts,
}

impl Sense {
    fn fits<T>(self, mut values: impl Iterator<Item = T>, is_in: impl Fn(T) -> bool) -> bool {
        match self {
            Sense::Restricts => values.any(is_in),
            Sense::Permits => values.next().is_some_and(&is_in) && values.all(is_in),
        }
    }

    /// Whether values are not in a set: each of at least one to permit; any of them, or none at all, to stop.
    fn fits_not<T>(self, values: impl Iterator<Item = T>, is_in: impl Fn(T) -> bool) -> bool {
        let mut values = values.map(is_in).peekable();
        match self {
            Sense::Restricts => values.peek().is_none() || values.any(|is_in| !is_in),
            Sense::Permits => values.peek().is_some() && values.all(|is_in| !is_in),
        }
    }
}

impl Condition {
    pub fn holds(&self, view: &View<'_>, facts: &Facts, sense: Sense) -> Result<bool, MissingFact> {
        Ok(match self {
            Condition::Names(field, set) => {
                let sense = if field.is_of_caller() { Sense::Restricts } else { sense };
                sense.fits(view.names(*field), |name| set.contains(name))
            }
            // A caller has none of the roles; every other field of the caller has one name.
            Condition::NotNames(Field::Role, set) => !view.names(Field::Role).any(|name| set.contains(name)),
            Condition::NotNames(field, set) => sense.fits_not(view.names(*field), |name| set.contains(name)),
            Condition::Destination(ways) => sense.fits(ways.named(view, sense), |fits| fits),
            Condition::NotDestination(ways) => match sense {
                Sense::Permits => {
                    sense.fits_not(ways.named(view, sense), |is_in| is_in)
                        && !view.names(Field::FeeWallet).any(|wallet| ways.wallet.contains(wallet))
                }
                Sense::Restricts => {
                    sense.fits_not(ways.named(view, Sense::Permits), |is_in| is_in)
                        || !view.names(Field::FeeWallet).all(|wallet| ways.wallet.contains(wallet))
                }
            },
            Condition::FeesOnlyTo(set) => {
                sense == Sense::Restricts || view.names(Field::FeeWallet).all(|wallet| set.contains(wallet))
            }
            Condition::NewDestination { new, cooldown } => {
                let mut found = Vec::new();
                for destination in view.acquaintances() {
                    let known = is_known(&facts.paid, &destination, *cooldown);
                    found.push(known.ok_or(NOT_KNOWN_PAID)? != *new);
                }
                sense.fits(found.into_iter(), |fits| fits)
            }
            Condition::Amount { within, without } => match view.value {
                None => *without,
                Some(Ok(value)) => within.contains(value.as_u64().into()),
                Some(Err(_)) => return Err(NO_VALUE),
            },
            Condition::Price(within) => match view.asked.movement.and_then(|movement| movement.price.as_deref()) {
                None => false,
                Some(price) => {
                    let units = Decimal::parse(price).and_then(|price| price.units(PRICE_DECIMALS));
                    within.contains(units.map_err(|_| MissingFact("the limit price is invalid"))?)
                }
            },
            Condition::Body(pointer, sought) => sought.fits(pointer, view.asked.body, sense)?,
            Condition::Weekday(days, zone) => days.contains(&local(facts, zone)?.weekday()),
            Condition::Hour(within, zone) => {
                let hour =
                    u128::try_from(local(facts, zone)?.hour()).map_err(|_| MissingFact("the hour is out of range"))?;
                within.contains(hour)
            }
            Condition::Date(ranges, zone) => {
                let day = today(facts, zone)?;
                ranges.iter().any(|range| range.contains(day))
            }
            Condition::During(range, zone, inner) => {
                !range.contains(today(facts, zone)?) || inner.holds(view, facts, sense)?
            }
        })
    }
}

/// Returns the cool-downs that conditions name; zero, for "never paid", is always among them.
pub(super) fn cooldowns<'c>(conditions: impl Iterator<Item = &'c Condition>) -> BTreeSet<Duration> {
    let named = conditions.filter_map(|condition| match condition {
        Condition::NewDestination { cooldown, .. } => Some(*cooldown),
        _ => None,
    });
    named.chain([Duration::ZERO]).collect()
}

fn local(facts: &Facts, zone: &TimeZone) -> Result<jiff::Zoned, MissingFact> {
    let now =
        Timestamp::from_microsecond(facts.now.as_micros()).map_err(|_| MissingFact("the time is out of range"))?;
    Ok(now.to_zoned(zone.clone()))
}

fn today(facts: &Facts, zone: &TimeZone) -> Result<u128, MissingFact> {
    day_number(local(facts, zone)?.date()).ok_or(MissingFact("the date is out of range"))
}

/// Formats the condition in words.
impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Condition::Names(field, set) => {
                write!(f, "{} is {}", field.as_str(), one_of(set.iter().map(String::as_str)))
            }
            Condition::Destination(Ways { user, wallet, external_wallet }) => {
                let all = user.iter().chain(wallet).chain(external_wallet).map(String::as_str);
                write!(f, "the destination, in every way in which it is named, is {}", one_of(all))
            }
            Condition::NotNames(field, set) => {
                write!(f, "{} is not {}", field.as_str(), one_of(set.iter().map(String::as_str)))
            }
            Condition::NotDestination(Ways { user, wallet, external_wallet }) => {
                let all = user.iter().chain(wallet).chain(external_wallet).map(String::as_str);
                write!(f, "the destination, in every way in which it is named, is not {}", one_of(all))
            }
            Condition::FeesOnlyTo(set) if set.is_empty() => f.write_str("no wallet takes a fee"),
            Condition::FeesOnlyTo(set) => {
                write!(f, "every wallet that takes fees is {}", one_of(set.iter().map(String::as_str)))
            }
            Condition::NewDestination { new, cooldown } if cooldown.is_zero() => f.write_str(if *new {
                "the destination was never paid before"
            } else {
                "the destination was paid before"
            }),
            Condition::NewDestination { new: true, cooldown } => {
                write!(f, "the destination was first paid less than {} ago, and is not approved", span(*cooldown))
            }
            Condition::NewDestination { new: false, cooldown } => {
                write!(f, "the destination was first paid {} ago or earlier, or is approved", span(*cooldown))
            }
            Condition::Amount { within, .. } => {
                let usd = |micros: u128| {
                    let micros = u64::try_from(micros).ok().and_then(|micros| MicroUsd::new(micros).ok());
                    micros.map_or_else(|| "any amount".to_owned(), |usd| usd.to_string())
                };
                write!(f, "the value is {}", between(*within, usd))
            }
            Condition::Price(within) => {
                let price = |units| decimal_text(units, PRICE_DECIMALS);
                write!(f, "the limit price is {}", between(*within, price))
            }
            Condition::Body(pointer, SoughtValue::Present) => write!(f, "`{pointer}` is stated"),
            Condition::Body(pointer, SoughtValue::Absent) => write!(f, "`{pointer}` is not stated"),
            Condition::Body(pointer, SoughtValue::Among(set)) => {
                let all: Vec<String> = set.iter().map(Literal::to_string).collect();
                write!(f, "`{pointer}` is {}", one_of(all.iter().map(String::as_str)))
            }
            Condition::Body(pointer, SoughtValue::NotAmong(set)) => {
                let all: Vec<String> = set.iter().map(Literal::to_string).collect();
                write!(f, "`{pointer}` is not {}", one_of(all.iter().map(String::as_str)))
            }
            Condition::Weekday(days, zone) => {
                let days: Vec<String> = days.iter().map(|day| format!("{day:?}")).collect();
                write!(f, "it is {} in {}", days.join(" or "), zone.iana_name().unwrap_or("UTC"))
            }
            Condition::Hour(hours, zone) => write!(f, "the hour is {hours} in {}", zone.iana_name().unwrap_or("UTC")),
            Condition::Date(ranges, zone) => {
                write!(f, "the date is {} in {}", dates_in_words(ranges), zone.iana_name().unwrap_or("UTC"))
            }
            Condition::During(range, zone, inner) => {
                write!(f, "{} in {}, {inner}", dates_in_words(&[*range]), zone.iana_name().unwrap_or("UTC"))
            }
        }
    }
}

/// Formats an interval in words, with `tell` for its ends.
pub(super) fn between(within: Interval, tell: impl Fn(u128) -> String) -> String {
    match within.most {
        u128::MAX => format!("{} or more", tell(within.least)),
        most if within.least <= 1 => format!("at most {}", tell(most)),
        most => format!("from {} to {}", tell(within.least), tell(most)),
    }
}

/// Formats units with decimals, as people write them.
pub(super) fn decimal_text(units: u128, decimals: u32) -> String {
    let digits = usize::try_from(decimals).unwrap_or(0);
    let text = format!("{units:0>width$}", width = digits.saturating_add(1));
    let (whole, fraction) = text.split_at_checked(text.len().saturating_sub(digits)).unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

fn one_of<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(5);
    if names.is_empty() {
        return "one of none".to_owned();
    }
    names.truncate(5);
    let listed = names.join(" or ");
    if more == 0 { listed } else { format!("{listed} or one of {more} more") }
}

impl Ways {
    /// Whether each name of the destination is among these. What stops a wallet stops it as a taker of fees too; what
    /// permits one says so by [`Condition::FeesOnlyTo`].
    fn named<'v>(&'v self, view: &'v View<'_>, sense: Sense) -> impl Iterator<Item = bool> + 'v {
        let ways = [
            (Field::DestinationUser, &self.user),
            (Field::DestinationWallet, &self.wallet),
            (Field::DestinationExternal, &self.external_wallet),
        ];
        let fees = (sense == Sense::Restricts).then_some((Field::FeeWallet, &self.wallet));
        ways.into_iter().chain(fees).flat_map(|(field, set)| view.names(field).map(|name| set.contains(name)))
    }
}

impl SoughtValue {
    fn fits(&self, pointer: &Pointer, body: Stated<'_>, sense: Sense) -> Result<bool, MissingFact> {
        let found = body.literals(pointer)?;
        Ok(match self {
            SoughtValue::Present => !found.is_empty(),
            SoughtValue::Absent => found.is_empty(),
            SoughtValue::Among(set) => {
                sense.fits(found.into_iter(), |literal| literal.is_some_and(|literal| set.contains(&literal)))
            }
            SoughtValue::NotAmong(set) => {
                sense.fits_not(found.into_iter(), |literal| literal.is_some_and(|literal| set.contains(&literal)))
            }
        })
    }
}
