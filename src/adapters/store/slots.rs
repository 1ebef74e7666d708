//! The time slots of windows: the slot of a reservation, and the slots that a window covers at a time.

use super::layout::{self, WindowSlot};
use crate::ledger::{StoreFault, StoreTime, WindowSpan};

/// Returns the slot of a reservation made now, and until when it counts; `None` outside a fixed span.
pub(super) fn slot_of(span: WindowSpan, now: StoreTime) -> Result<Option<(WindowSlot, StoreTime)>, StoreFault> {
    match span {
        WindowSpan::Rolling { bucket, count } => {
            let (begin, length) = bucket_of(bucket, now)?;
            let end = begin.saturating_add(length);
            let until = end.saturating_add(length.saturating_mul(i64::from(count)));
            let slot = WindowSlot { begin: StoreTime::of_micros(begin), end: StoreTime::of_micros(end) };
            Ok(Some((slot, StoreTime::of_micros(until))))
        }
        WindowSpan::Fixed { from, to } if from < to => {
            Ok((from <= now && now < to).then_some((WindowSlot { begin: from, end: to }, to)))
        }
        WindowSpan::Fixed { .. } => Err(senseless("a span that ends before it begins")),
    }
}

/// Returns the begin and the end of a window, seen from a time.
pub(super) fn reach(span: WindowSpan, now: StoreTime) -> Result<(StoreTime, StoreTime), StoreFault> {
    match span {
        WindowSpan::Rolling { bucket, count } => {
            let (begin, length) = bucket_of(bucket, now)?;
            let from = begin.saturating_sub(length.saturating_mul(i64::from(count)));
            Ok((StoreTime::of_micros(from), layout::FOREVER))
        }
        WindowSpan::Fixed { from, to } if from < to => Ok((from, to)),
        WindowSpan::Fixed { .. } => Err(senseless("a span that ends before it begins")),
    }
}

/// Returns the begin and the length of the bucket that contains a time.
fn bucket_of(bucket: std::time::Duration, now: StoreTime) -> Result<(i64, i64), StoreFault> {
    let length = i64::try_from(bucket.as_micros()).map_err(|_| senseless("a bucket that is too long"))?;
    let into = now.as_micros().checked_rem_euclid(length).ok_or_else(|| senseless("a bucket of length zero"))?;
    Ok((now.as_micros().saturating_sub(into), length))
}

/// The fault of a commit that asks for the impossible.
pub(in crate::adapters::store) fn senseless(what: &str) -> StoreFault {
    StoreFault::Broken(format!("the commit asks for {what}"))
}
