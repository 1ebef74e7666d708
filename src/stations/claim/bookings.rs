//! The bookings of an attempt beside its claim: its reservations in windows, and the destinations it pays.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::catalog::Class;
use crate::ledger::{Index, Step, StoreTime, WindowKey, WindowSpan};
use crate::policy::Reservation;
use crate::stations::decide::Grounds;

/// Longer than the longest cool-down of a rule.
const LONG_AGO: Duration = Duration::from_secs(2 * 366 * 86_400);

/// A random mark by which a node recognises its own commit when the store did not answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nonce(pub String);

/// The reservations that are settled or given back with the outcome of an attempt.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Booking {
    /// The holder of the reservations: this attempt alone.
    pub holder: String,
    pub windows: Vec<BookedWindow>,
    /// The destinations that it pays, by their names in the index of paid ones.
    pub pays: Vec<String>,
    /// Whether people approved these destinations: they are known from its execution on.
    pub is_approved: bool,
}

/// The reservation of an attempt in one window. A proof of execution that comes after the reservation was given back books it
/// again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BookedWindow {
    pub window: WindowKey,
    pub span: WindowSpan,
    pub units: u64,
}

impl Booking {
    pub(super) fn of(grounds: &Grounds, class: Class, nonce: &Nonce) -> Booking {
        let booked = |reservation: &Reservation| BookedWindow {
            window: reservation.window.clone(),
            span: reservation.span,
            units: reservation.units,
        };
        let windows = grounds.reserved().iter().map(booked).collect();
        let (pays, is_approved) = (grounds.paid(class), grounds.makes_known());
        Booking { holder: nonce.0.clone(), windows, pays, is_approved }
    }

    /// Whether both may be of one attempt; of some attempts, nobody knows what they booked.
    pub(super) fn may_be_of(&self, other: &Booking) -> bool {
        self.holder.is_empty() || other.holder.is_empty() || self.holder == other.holder
    }

    /// The steps after an execution: the reservations count for good, and the destinations were paid.
    pub(super) fn executed(&self) -> Vec<Step> {
        let settle =
            |booked: &BookedWindow| Step::Settle { window: booked.window.clone(), holder: self.holder.clone() };
        self.windows.iter().map(settle).chain(self.paid()).collect()
    }

    /// The steps after an execution that was proved when the reservations had been given back: they count in the time of
    /// the send, whatever the windows hold.
    pub(super) fn executed_after_all(&self, sent: StoreTime) -> Vec<Step> {
        let book = |booked: &BookedWindow| {
            let BookedWindow { window, span, units } = booked;
            Step::Book { window: window.clone(), span: *span, units: *units, at: sent }
        };
        self.windows.iter().map(book).chain(self.paid()).collect()
    }

    /// The steps that hold the reservations again in a store that lost them, as far as their windows still count.
    pub(super) fn held_again(&self, sent: StoreTime, now: StoreTime) -> Vec<Step> {
        let counting = self.windows.iter().filter(|booked| booked.span.still_counts(sent, now));
        let force = |booked: &BookedWindow| {
            let BookedWindow { window, span, units } = booked;
            Step::Force { window: window.clone(), span: *span, holder: self.holder.clone(), units: *units }
        };
        counting.map(force).collect()
    }

    /// The steps after certainly nothing was executed.
    pub(super) fn given_back(&self) -> Vec<Step> {
        let give_back =
            |booked: &BookedWindow| Step::GiveBack { window: booked.window.clone(), holder: self.holder.clone() };
        self.windows.iter().map(give_back).collect()
    }

    fn paid(&self) -> impl Iterator<Item = Step> {
        let ago = if self.is_approved { LONG_AGO } else { Duration::ZERO };
        self.pays.iter().flat_map(move |name| {
            [
                Step::IndexAdd { index: Index::Paid, member: name.clone(), due: Duration::ZERO },
                Step::IndexEarliest { index: Index::Known, member: name.clone(), ago },
            ]
        })
    }
}
