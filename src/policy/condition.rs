//! What a rule asks of a request: sets, intervals and presence, and nothing else.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use serde_json::Value;

use super::asked::{Facts, Field, View};
use super::interval::Interval;
use super::kept::{NOT_KNOWN_PAID, Stated};
use crate::base::money::{Decimal, MicroUsd};
use crate::base::normal;
use crate::base::pointer::Pointer;

/// The decimals that prices are compared with.
pub(super) const PRICE_DECIMALS: u32 = 8;

/// One thing that is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// What stands there is in the set.
    Names(Field, BTreeSet<String>),
    /// The destination is one of these, in every way in which it is named.
    Destination(Ways),
    /// Nothing was paid to the destination before; or something was.
    NewDestination(bool),
    /// The value, in micro-USD; and what to say of an operation without one.
    Amount {
        within: Interval,
        without: bool,
    },
    /// The limit price.
    Price(Interval),
    Body(Pointer, Sought),
    Weekday(Vec<Weekday>, TimeZone),
    Hour(Interval, TimeZone),
}

/// The ways in which a destination may be named; nothing where it must not be named so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ways {
    pub user: BTreeSet<String>,
    pub wallet: BTreeSet<String>,
    pub external_wallet: BTreeSet<String>,
}

/// What is asked of a place of the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sought {
    Present,
    Absent,
    Among(BTreeSet<Literal>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Literal {
    /// In the normal form, if it is an identifier that has one.
    Text(String),
    Number(u64),
    Truth(bool),
}

/// Whether a rule lets pass or holds up: where several values stand in one place, all of them must fit for the one, and
/// any of them for the other.
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
}

/// What could not be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Untold(pub &'static str);

impl Condition {
    pub fn holds(&self, view: &View<'_>, facts: &Facts, sense: Sense) -> Result<bool, Untold> {
        Ok(match self {
            Condition::Names(field, set) => {
                let sense = if field.is_of_caller() { Sense::Restricts } else { sense };
                sense.fits(view.names(*field), |name| set.contains(name))
            }
            Condition::Destination(ways) => sense.fits(ways.named(view), |fits| fits),
            Condition::NewDestination(new) => {
                let mut found = Vec::new();
                for destination in view.destinations() {
                    let paid = facts.paid.get(&destination);
                    found.push(*paid.ok_or(NOT_KNOWN_PAID)? != *new);
                }
                sense.fits(found.into_iter(), |fits| fits)
            }
            Condition::Amount { within, without } => match view.value {
                None => *without,
                Some(Ok(value)) => within.contains(value.as_u64().into()),
                Some(Err(_)) => return Err(Untold("the amount has no value")),
            },
            Condition::Price(within) => match view.asked.movement.and_then(|movement| movement.price.as_deref()) {
                None => false,
                Some(price) => {
                    let units = Decimal::parse(price).and_then(|price| price.units(PRICE_DECIMALS));
                    within.contains(units.map_err(|_| Untold("the limit price cannot be read"))?)
                }
            },
            Condition::Body(pointer, sought) => sought.fits(pointer, view.asked.body, sense)?,
            Condition::Weekday(days, zone) => days.contains(&local(facts, zone)?.weekday()),
            Condition::Hour(within, zone) => {
                let hour = u128::try_from(local(facts, zone)?.hour()).map_err(|_| Untold("there is no such hour"))?;
                within.contains(hour)
            }
        })
    }
}

fn local(facts: &Facts, zone: &TimeZone) -> Result<jiff::Zoned, Untold> {
    let now = Timestamp::from_microsecond(facts.now.as_micros()).map_err(|_| Untold("there is no such time"))?;
    Ok(now.to_zoned(zone.clone()))
}

/// What is asked, in words.
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
            Condition::NewDestination(true) => f.write_str("the destination was never paid before"),
            Condition::NewDestination(false) => f.write_str("the destination was paid before"),
            Condition::Amount { within, .. } => {
                let usd = |micros: u128| {
                    let micros = u64::try_from(micros).ok().and_then(|micros| MicroUsd::new(micros).ok());
                    micros.map_or_else(|| "any amount".to_owned(), |usd| usd.to_string())
                };
                write!(f, "the value is {}", between(*within, usd))
            }
            Condition::Price(within) => {
                let price = |units| plain(units, PRICE_DECIMALS);
                write!(f, "the limit price is {}", between(*within, price))
            }
            Condition::Body(pointer, Sought::Present) => write!(f, "`{pointer}` is stated"),
            Condition::Body(pointer, Sought::Absent) => write!(f, "`{pointer}` is not stated"),
            Condition::Body(pointer, Sought::Among(set)) => {
                let literal = |literal: &Literal| match literal {
                    Literal::Text(text) => text.clone(),
                    Literal::Number(number) => number.to_string(),
                    Literal::Truth(truth) => truth.to_string(),
                };
                let all: Vec<String> = set.iter().map(literal).collect();
                write!(f, "`{pointer}` is {}", one_of(all.iter().map(String::as_str)))
            }
            Condition::Weekday(days, zone) => {
                let days: Vec<String> = days.iter().map(|day| format!("{day:?}")).collect();
                write!(f, "it is {} in {}", days.join(" or "), zone.iana_name().unwrap_or("UTC"))
            }
            Condition::Hour(hours, zone) => write!(f, "the hour is {hours} in {}", zone.iana_name().unwrap_or("UTC")),
        }
    }
}

/// An interval in words, its ends told by `tell`.
fn between(within: Interval, tell: impl Fn(u128) -> String) -> String {
    match within.most {
        u128::MAX => format!("{} or more", tell(within.least)),
        most if within.least <= 1 => format!("at most {}", tell(most)),
        most => format!("from {} to {}", tell(within.least), tell(most)),
    }
}

/// So many units with so many decimals, as people write it.
fn plain(units: u128, decimals: u32) -> String {
    let digits = usize::try_from(decimals).unwrap_or(0);
    let text = format!("{units:0>width$}", width = digits.saturating_add(1));
    let (whole, fraction) = text.split_at_checked(text.len().saturating_sub(digits)).unwrap_or((&text, ""));
    let fraction = fraction.trim_end_matches('0');
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

fn one_of<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let mut names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    let more = names.len().saturating_sub(5);
    names.truncate(5);
    let listed = names.join(" or ");
    if more == 0 { listed } else { format!("{listed} or one of {more} more") }
}

impl Ways {
    /// Whether each name of the destination is among these.
    fn named<'v>(&'v self, view: &'v View<'_>) -> impl Iterator<Item = bool> + 'v {
        let ways = [
            (Field::DestinationUser, &self.user),
            (Field::DestinationWallet, &self.wallet),
            (Field::DestinationExternal, &self.external_wallet),
        ];
        ways.into_iter().flat_map(|(field, set)| view.names(field).map(|name| set.contains(name)))
    }
}

impl Sought {
    fn fits(&self, pointer: &Pointer, body: Stated<'_>, sense: Sense) -> Result<bool, Untold> {
        let found = body.literals(pointer)?;
        Ok(match self {
            Sought::Present => !found.is_empty(),
            Sought::Absent => found.is_empty(),
            Sought::Among(set) => {
                sense.fits(found.into_iter(), |literal| literal.is_some_and(|literal| set.contains(&literal)))
            }
        })
    }
}

impl Literal {
    pub fn text(text: &str) -> Literal {
        Literal::Text(normal::wallet(None, normal::uuid(text)))
    }

    pub(super) fn of(value: &Value) -> Option<Literal> {
        match value {
            Value::String(text) => Some(Literal::text(text)),
            Value::Bool(truth) => Some(Literal::Truth(*truth)),
            Value::Number(number) => {
                let whole = number.to_string();
                let whole = whole.split_once('.').map_or(whole.as_str(), |(whole, fraction)| {
                    if fraction.bytes().all(|b| b == b'0') { whole } else { "" }
                });
                whole.parse().ok().map(Literal::Number)
            }
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}
