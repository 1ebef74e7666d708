//! Swaps: quoted at creation, then carried out as time goes by.
//!
//! ```text
//! CREATED ── pace ──▶ PENDING ── pace ──▶ COMPLETED (or FAILED, for the amounts of `outcome`)
//!    ├─ cancellation asked for ── pace ──▶ CANCELLED
//!    └─ autoCancelAt ──▶ CANCELLED
//! ```
//! A swap whose `limitPrice` is above the market's rate stays CREATED until somebody or something cancels it.
//! The state is not stored: it follows from what was recorded and from the time of the question.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::answer::Done;
use super::call::Call;
use super::decimal::{Decimal, amount, as_written};
use super::outcome::Outcome;
use super::quote::{Quote, market_rate};
use super::records::Record;
use super::refusal::Refusal;
use super::state::State;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Created,
    Pending,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    fn as_str(self) -> &'static str {
        match self {
            Status::Created => "CREATED",
            Status::Pending => "PENDING",
            Status::Completed => "COMPLETED",
            Status::Failed => "FAILED",
            Status::Cancelled => "CANCELLED",
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Swap {
    id: String,
    request_id: String,
    created_at: Timestamp,
    pace: Duration,
    source: Value,
    destination: Value,
    users: Vec<String>,
    quote: Quote,
    limit_price: Option<String>,
    /// Whether the market never reaches the limit price.
    out_of_reach: bool,
    outcome: Outcome,
    auto_cancel_at: Option<Timestamp>,
    cancel_requested_at: Option<Timestamp>,
}

pub(super) fn create(state: &mut State, call: &Call) -> Result<Done, Refusal> {
    let request_id = call.text("/requestId").unwrap_or_default();
    if let Some(first) = state.repeated(&state.swaps, request_id) {
        return Ok(Done::repeated(first.to_json(call.now)));
    }
    let swap = Swap::from_call(state, call)?;
    let body = swap.to_json(call.now);
    state.swaps.push(swap);
    Ok(Done::created(body))
}

pub(super) fn cancel(state: &mut State, call: &Call) -> Result<Done, Refusal> {
    let swap = state.swaps.find_mut(call.path("swapId")).ok_or(Refusal::NotFound { what: "swap" })?;
    if !swap.cancellable(call.now) {
        let (status, _) = swap.status(call.now);
        let requested = swap.cancel_requested_at.is_some();
        return Err(Refusal::NotCancellable { status: status.as_str(), requested });
    }
    swap.cancel_requested_at = Some(call.now);
    Ok(Done::changed(swap.to_json(call.now)))
}

impl Swap {
    fn from_call(state: &mut State, call: &Call) -> Result<Swap, Refusal> {
        let currency = |pointer: &str| {
            call.text(pointer).ok_or_else(|| Refusal::violation(pointer, "required", "the currency of the swap"))
        };
        let (sold, bought) = (currency("/source/currency")?, currency("/destination/currency")?);
        let rate = market_rate(sold, bought);
        let quote = quote(call, sold, bought, rate)?;
        let outcome = Outcome::of(quote.send_gross);
        if outcome == Outcome::Refused {
            return Err(Refusal::InsufficientBalance);
        }
        let limit_price = call.text("/limitPrice");
        let limit = limit_price.and_then(Decimal::parse);
        let (id, created_at) = state.next_record("swap", call.now);
        let cancel_after = call.body.pointer("/cancelAfterSeconds").and_then(Value::as_i64);
        Ok(Swap {
            source: source(state, call, &quote),
            destination: destination(state, call, &quote),
            users: ["/source/userId", "/destination/userId"]
                .iter()
                .filter_map(|p| call.text(p))
                .map(str::to_owned)
                .collect(),
            request_id: call.text("/requestId").unwrap_or_default().to_owned(),
            pace: state.pace(),
            quote,
            out_of_reach: limit_price.is_some() && limit.is_none_or(|limit| limit > rate),
            limit_price: limit_price.map(str::to_owned),
            outcome,
            auto_cancel_at: cancel_after.and_then(|secs| later(created_at, SignedDuration::from_secs(secs))),
            cancel_requested_at: None,
            id,
            created_at,
        })
    }

    /// When carrying out starts; `None` if it never does.
    fn starts_at(&self) -> Option<Timestamp> {
        if self.out_of_reach {
            return None;
        }
        let start = self.after_pace(self.created_at);
        let stopped = self.cancel_requested_at.into_iter().chain(self.auto_cancel_at).any(|stop| stop <= start);
        (!stopped).then_some(start)
    }

    /// The state at this time, and since when.
    fn status(&self, now: Timestamp) -> (Status, Timestamp) {
        let cancelled_at = match (self.starts_at(), self.cancel_requested_at.map(|at| self.after_pace(at))) {
            (Some(_), _) => None,
            (None, Some(asked)) => Some(self.auto_cancel_at.map_or(asked, |by_itself| by_itself.min(asked))),
            (None, None) => self.auto_cancel_at,
        };
        let ended = if self.outcome.is_failure() { Status::Failed } else { Status::Completed };
        let steps = [
            (self.starts_at().map(|start| self.after_pace(start)), ended),
            (self.starts_at(), Status::Pending),
            (cancelled_at, Status::Cancelled),
        ];
        let reached = steps.into_iter().find_map(|(at, status)| at.filter(|at| *at <= now).map(|at| (status, at)));
        reached.unwrap_or((Status::Created, self.cancel_requested_at.unwrap_or(self.created_at)))
    }

    fn cancellable(&self, now: Timestamp) -> bool {
        self.cancel_requested_at.is_none() && self.status(now).0 == Status::Created
    }

    fn after_pace(&self, moment: Timestamp) -> Timestamp {
        SignedDuration::try_from(self.pace).ok().and_then(|pace| later(moment, pace)).unwrap_or(Timestamp::MAX)
    }

    pub(super) fn to_json(&self, now: Timestamp) -> Value {
        let (status, since) = self.status(now);
        let failure = (status == Status::Failed).then(|| self.outcome.failure()).flatten();
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

impl Record for Swap {
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

fn quote(call: &Call, sold: &str, bought: &str, rate: Decimal) -> Result<Quote, Refusal> {
    let sent = call.body.pointer("/source/amount").and_then(amount);
    let received = call.body.pointer("/destination/amount").and_then(amount);
    let quote = match (sent, received) {
        (Some(sent), _) => Quote::of_sent(sent, sold, bought, rate, call.now),
        (None, Some(received)) => Quote::of_received(received, sold, bought, rate, call.now),
        (None, None) => None,
    };
    quote.ok_or_else(|| {
        Refusal::violation("/source/amount", "required", "an amount, here or at the destination, that can be quoted")
    })
}

fn source(state: &State, call: &Call, quote: &Quote) -> Value {
    let amount = call.body.pointer("/source/amount").and_then(as_written);
    json!({
        "currency": call.text("/source/currency"),
        "amount": amount.unwrap_or_else(|| quote.send_gross.to_number()),
        "chain": call.text("/source/chain").unwrap_or("POLYGON"),
        "userId": call.text("/source/userId").unwrap_or(state.default_user()),
    })
}

fn destination(state: &State, call: &Call, quote: &Quote) -> Value {
    let amount = call.body.pointer("/destination/amount").and_then(as_written);
    let user = call.text("/destination/userId").or(call.text("/source/userId")).unwrap_or(state.default_user());
    let chain = call.text("/destination/chain").or(call.text("/source/chain")).unwrap_or("POLYGON");
    let wallet = call.text("/destination/walletAddress").map(str::to_owned);
    json!({
        "currency": call.text("/destination/currency"),
        "userId": user,
        "externalWalletId": call.text("/destination/externalWalletId"),
        "amount": amount.unwrap_or_else(|| quote.receive_net.to_number()),
        "chain": chain,
        "walletAddress": wallet.unwrap_or_else(|| state.wallet_of(user)),
    })
}

fn later(moment: Timestamp, by: SignedDuration) -> Option<Timestamp> {
    moment.checked_add(by).ok()
}
