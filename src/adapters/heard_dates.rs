//! The time of day as others tell it: the `Date` of answers of upstream and of issuers.
//!
//! At a start nobody knows whether the clock of this machine is right. The first date that agrees with it settles that for as
//! long as the process lives: from then on the clock is compared with the monotonic one. A date that differs before any
//! agreed is kept for the gate, which closes money.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use http::HeaderMap;
use http::header::{AGE, DATE};
use jiff::fmt::rfc2822;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use super::clock::SystemClock;
use crate::ports::Clock as _;

/// How much a date may differ from this machine's clock.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(60);

/// The dates that were heard since the start.
#[derive(Debug, Default)]
pub struct HeardDates {
    has_agreed: AtomicBool,
    /// Whether an answer came that told no date.
    has_undated: AtomicBool,
    differs: Mutex<Option<DifferentDate>>,
    changed: Notify,
}

/// A date that differs from this machine's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DifferentDate {
    /// Whose date it is.
    pub source: String,
    /// How far this machine's clock is ahead.
    pub ahead: SignedDuration,
}

/// What the dates say of this machine's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DateVerdict {
    Agrees,
    Differs(DifferentDate),
}

impl DifferentDate {
    /// Describes the difference in words for people.
    pub fn text(&self) -> String {
        let (seconds, side) =
            (self.ahead.as_secs().unsigned_abs(), if self.ahead.is_negative() { "behind" } else { "ahead of" });
        format!("the clock of this machine was {seconds} s {side} the date of {} at the start", self.source)
    }
}

impl HeardDates {
    /// Hears the head of an answer.
    pub fn hear(&self, source: &str, headers: &HeaderMap) {
        if !self.has_agreed.load(Ordering::Relaxed) {
            self.hear_at(source, headers, SystemClock.now());
        }
    }

    fn hear_at(&self, source: &str, headers: &HeaderMap, now: Timestamp) {
        let Some(date) = date_of(headers) else { return self.has_undated.store(true, Ordering::Relaxed) };
        let ahead = now.duration_since(date);
        if ahead.abs() <= TOLERANCE {
            self.has_agreed.store(true, Ordering::Relaxed);
        } else {
            let different = DifferentDate { source: source.to_owned(), ahead };
            self.differs.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(different);
        }
        self.changed.notify_one();
    }

    /// Whether nobody who answered so far told a date.
    pub fn is_told_none(&self) -> bool {
        self.has_undated.load(Ordering::Relaxed) && !self.is_told()
    }

    /// Whether somebody told a date, which agrees or differs.
    pub fn is_told(&self) -> bool {
        self.has_agreed.load(Ordering::Relaxed) || self.differs.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Waits for a date that agrees.
    pub async fn agreed(&self) {
        while !self.has_agreed.load(Ordering::Relaxed) {
            self.changed.notified().await;
        }
    }

    /// Waits for the first date that says something; one that agrees counts most.
    pub async fn verdict(&self) -> DateVerdict {
        loop {
            if self.has_agreed.load(Ordering::Relaxed) {
                return DateVerdict::Agrees;
            }
            let differs = self.differs.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(different) = differs {
                return DateVerdict::Differs(different);
            }
            self.changed.notified().await;
        }
    }
}

/// Returns when an answer was made. What a cache kept says how old it is.
fn date_of(headers: &HeaderMap) -> Option<Timestamp> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let date = rfc2822::DateTimeParser::new().parse_timestamp(text(DATE)?).ok()?;
    let age = text(AGE).map_or(Some(0), |age| age.trim().parse::<u32>().ok())?;
    date.checked_add(SignedDuration::from_secs(i64::from(age))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE_TEXT: &str = "Wed, 25 Nov 2026 01:00:00 GMT";

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        all.iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect::<Vec<(http::HeaderName, http::HeaderValue)>>()
            .into_iter()
            .collect()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    async fn verdict(all: &[(&[(&'static str, &'static str)], &str)]) -> Option<DateVerdict> {
        let dates = HeardDates::default();
        for (told, now) in all {
            dates.hear_at("upstream", &headers(told), at(now));
        }
        let verdict = dates.verdict();
        tokio::time::timeout(std::time::Duration::from_millis(1), verdict).await.ok()
    }

    #[tokio::test]
    async fn a_date_agrees_within_a_minute_and_a_cache_says_how_old_it_is() {
        let date = [("date", DATE_TEXT)];
        assert_eq!(verdict(&[(&date, "2026-11-25T01:01:00Z")]).await, Some(DateVerdict::Agrees));
        assert_eq!(verdict(&[(&date, "2026-11-25T00:59:00Z")]).await, Some(DateVerdict::Agrees));
        let differs = |ahead| {
            Some(DateVerdict::Differs(DifferentDate {
                source: "upstream".to_owned(),
                ahead: SignedDuration::from_secs(ahead),
            }))
        };
        assert_eq!(verdict(&[(&date, "2026-11-25T01:01:01Z")]).await, differs(61));
        assert_eq!(verdict(&[(&date, "2026-11-25T00:58:59Z")]).await, differs(-61));
        let cached = [("date", DATE_TEXT), ("age", "3600")];
        assert_eq!(verdict(&[(&cached, "2026-11-25T02:00:00Z")]).await, Some(DateVerdict::Agrees));
        assert_eq!(verdict(&[(&cached, "2026-11-25T01:00:00Z")]).await, differs(-3_600));
        // One that agrees counts most, and nothing counts after it.
        assert_eq!(
            verdict(&[(&date, "2026-11-25T03:00:00Z"), (&date, "2026-11-25T01:00:00Z")]).await,
            Some(DateVerdict::Agrees)
        );
        let odd: [&[(&'static str, &'static str)]; 3] =
            [&[], &[("date", "yesterday")], &[("date", DATE_TEXT), ("age", "old")]];
        for nothing in odd {
            assert_eq!(verdict(&[(nothing, "2026-11-25T01:00:00Z")]).await, None, "{nothing:?}");
        }
    }
}
