//! Swaps: quoted at creation, then executed over time.
//!
//! ```text
//! CREATED ── pace ──▶ PENDING ── pace ──▶ COMPLETED (or FAILED, for the amounts of `outcome`)
//!    ├─ cancellation requested ── pace ──▶ CANCELLED
//!    └─ autoCancelAt ──▶ CANCELLED
//! ```
//! A swap whose `limitPrice` is above the market rate stays CREATED until it is cancelled. The status is not stored: it
//! follows from the record and the current time.

use crate::base::word_enum::word_enum;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::outcome::ScriptedOutcome;
use super::quote::Quote;
use super::records::SimulatorRecord;
use super::refusal::SimulatorRefusal;

word_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum SwapStatus {
        Created = "CREATED",
        Pending = "PENDING",
        Completed = "COMPLETED",
        Failed = "FAILED",
        Cancelled = "CANCELLED",
    }
}

#[derive(Clone, Debug)]
pub(super) struct Swap {
    pub(super) id: String,
    pub(super) request_id: String,
    pub(super) created_at: Timestamp,
    pub(super) pace: Duration,
    pub(super) source: Value,
    pub(super) destination: Value,
    pub(super) users: Vec<String>,
    pub(super) quote: Quote,
    pub(super) limit_price: Option<String>,
    /// Whether the market never reaches the limit price.
    pub(super) out_of_reach: bool,
    pub(super) outcome: ScriptedOutcome,
    pub(super) auto_cancel_at: Option<Timestamp>,
    pub(super) cancel_requested_at: Option<Timestamp>,
}

impl Swap {
    /// Records the cancellation, if it is still possible.
    pub(super) fn cancel(&mut self, now: Timestamp) -> Result<(), SimulatorRefusal> {
        if !self.cancellable(now) {
            let (status, _) = self.status(now);
            let requested = self.cancel_requested_at.is_some();
            return Err(SimulatorRefusal::NotCancellable { status: status.as_str(), requested });
        }
        self.cancel_requested_at = Some(now);
        Ok(())
    }

    /// Returns when execution starts; `None` if it never does.
    fn starts_at(&self) -> Option<Timestamp> {
        if self.out_of_reach {
            return None;
        }
        let start = self.after_pace(self.created_at);
        let stopped = self.cancel_requested_at.into_iter().chain(self.auto_cancel_at).any(|stop| stop <= start);
        (!stopped).then_some(start)
    }

    /// Returns the status at this time, and its beginning.
    fn status(&self, now: Timestamp) -> (SwapStatus, Timestamp) {
        let cancelled_at = match (self.starts_at(), self.cancel_requested_at.map(|at| self.after_pace(at))) {
            (Some(_), _) => None,
            (None, Some(asked)) => Some(self.auto_cancel_at.map_or(asked, |by_itself| by_itself.min(asked))),
            (None, None) => self.auto_cancel_at,
        };
        let ended = if self.outcome.is_failure() { SwapStatus::Failed } else { SwapStatus::Completed };
        let steps = [
            (self.starts_at().map(|start| self.after_pace(start)), ended),
            (self.starts_at(), SwapStatus::Pending),
            (cancelled_at, SwapStatus::Cancelled),
        ];
        let reached = steps.into_iter().find_map(|(at, status)| at.filter(|at| *at <= now).map(|at| (status, at)));
        reached.unwrap_or((SwapStatus::Created, self.cancel_requested_at.unwrap_or(self.created_at)))
    }

    fn cancellable(&self, now: Timestamp) -> bool {
        self.cancel_requested_at.is_none() && self.status(now).0 == SwapStatus::Created
    }

    fn after_pace(&self, moment: Timestamp) -> Timestamp {
        SignedDuration::try_from(self.pace)
            .ok()
            .and_then(|pace| moment.checked_add(pace).ok())
            .unwrap_or(Timestamp::MAX)
    }

    pub(super) fn to_json(&self, now: Timestamp) -> Value {
        let (status, since) = self.status(now);
        let failure = (status == SwapStatus::Failed).then(|| self.outcome.failure()).flatten();
        let mut quote = self.quote.to_json();
        if let (Some(price), Some(members)) = (&self.limit_price, quote.as_object_mut()) {
            members.insert("limitPrice".to_owned(), json!(price));
        }
        let moment = |at: Option<Timestamp>| at.map(|at| at.to_string());
        json!({
            "transferType": "WALLET.SWAP",
            "transferDetails": {
                "id": self.id,
                "requestId": self.request_id,
                "status": status.as_str(),
                "createdAt": self.created_at.to_string(),
                "updatedAt": since.to_string(),
                "source": self.source,
                "destination": self.destination,
                "error": failure.map(|f| f.code),
                "errorDetails": failure.map(|f| f.details),
                "cancellable": self.cancellable(now),
                "autoCancelAt": moment(self.auto_cancel_at),
                "cancelRequestedAt": moment(self.cancel_requested_at),
                "quoteInformation": quote,
            }
        })
    }
}

impl SimulatorRecord for Swap {
    fn id(&self) -> &str {
        &self.id
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }

    fn request_id(&self) -> Option<&str> {
        Some(&self.request_id)
    }

    fn concerns(&self, user: &str) -> bool {
        self.users.iter().any(|u| u.eq_ignore_ascii_case(user))
    }
}
