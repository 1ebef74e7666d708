//! The figures of a limit that denies a call: how much it has, how much was asked, and when there may be room.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::limit::{Limit, Reservation, UNIT};
use super::request::Facts;
use crate::base::json::{self, Limits};
use crate::ledger::{StoreTime, WindowKey, WindowSpan};

/// Numbers are decimal, in the limit's unit: `USD` or `calls`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitFigures {
    pub unit: &'static str,
    pub max: String,
    /// `None` where the store was not asked, because the call alone is over the limit.
    pub used: Option<String>,
    pub asked: String,
    /// `None` where the call alone is over the limit: it will never have room.
    pub room: Option<LimitRoom>,
}

/// A window that a call exceeds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OverWindow {
    pub key: String,
    /// The calendar window in words, as `in 2026-12 (UTC)`; a rolling one has none. What people approved for one is nothing
    /// for the next.
    pub period: Option<String>,
    /// The most that it may contain together with the call.
    pub up_to: u64,
    /// The same in words: `1500 USD`.
    pub words: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LimitRoom {
    /// The time at which everything that counts now counts no longer.
    pub at: StoreTime,
    /// The time after which the window may count less than now.
    pub retry_after: Duration,
}

/// Returns whether a window counts calls; all others count micro-USD.
pub fn counts_calls(window: &WindowKey) -> bool {
    let named: BTreeMap<String, String> = json::from_slice(window.key.as_bytes(), Limits::ANSWER).unwrap_or_default();
    named.get(UNIT).is_some_and(|unit| unit == "calls")
}

impl LimitFigures {
    pub(super) fn of(limit: &Limit, reservation: &Reservation, used: Option<u64>, facts: &Facts) -> LimitFigures {
        let number = |units| match limit.max.describe(units).split_once(' ') {
            Some((number, _)) => number.to_owned(),
            None => units.to_string(),
        };
        LimitFigures {
            unit: limit.max.shown_unit(),
            max: number(reservation.max),
            used: used.map(number),
            asked: number(reservation.units),
            room: (reservation.units <= reservation.max).then(|| LimitRoom::of(reservation.span, facts.now)),
        }
    }
}

impl LimitRoom {
    fn of(span: WindowSpan, now: StoreTime) -> LimitRoom {
        match span {
            WindowSpan::Fixed { to, .. } => LimitRoom { at: to, retry_after: to.since(now) },
            WindowSpan::Rolling { bucket, count } => {
                // The oldest bucket counts whole until it is over.
                let length = bucket.saturating_mul(count.saturating_add(1));
                LimitRoom { at: now.plus(length), retry_after: bucket }
            }
        }
    }
}
