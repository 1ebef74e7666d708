//! New swaps, and requests to cancel one.

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::super::answer::Done;
use super::super::call::SimulatedCall;
use super::super::decimal::{SimulatorDecimal, amount, as_written};
use super::super::outcome::ScriptedOutcome;
use super::super::quote::{Quote, market_rate};
use super::super::refusal::SimulatorRefusal;
use super::super::state::SimulatorState;
use super::super::swaps::Swap;

pub(super) fn create(state: &mut SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let request_id = call.text("/requestId").unwrap_or_default();
    if let Some(first) = state.repeated(&state.swaps, request_id) {
        return Ok(Done::repeated(first.to_json(call.now)));
    }
    let swap = from_call(state, call)?;
    let body = swap.to_json(call.now);
    state.swaps.push(swap);
    Ok(Done::created(body))
}

pub(super) fn cancel(state: &mut SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let swap = state.swaps.find_mut(call.path("swapId")).ok_or(SimulatorRefusal::NotFound { what: "swap" })?;
    swap.cancel(call.now)?;
    Ok(Done::changed(swap.to_json(call.now)))
}

/// Creates the requested record.
fn from_call(state: &mut SimulatorState, call: &SimulatedCall) -> Result<Swap, SimulatorRefusal> {
    let currency = |pointer: &str| {
        call.text(pointer).ok_or_else(|| SimulatorRefusal::violation(pointer, "required", "the currency of the swap"))
    };
    let (sold, bought) = (currency("/source/currency")?, currency("/destination/currency")?);
    let rate = market_rate(sold, bought);
    let quote = quote(call, sold, bought, rate)?;
    let outcome = ScriptedOutcome::of(quote.send_gross);
    if outcome == ScriptedOutcome::Refused {
        return Err(SimulatorRefusal::InsufficientBalance);
    }
    let limit_price = call.text("/limitPrice");
    let limit = limit_price.and_then(SimulatorDecimal::parse);
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
        auto_cancel_at: cancel_after.and_then(|secs| created_at.checked_add(SignedDuration::from_secs(secs)).ok()),
        cancel_requested_at: None,
        id,
        created_at,
    })
}

fn quote(call: &SimulatedCall, sold: &str, bought: &str, rate: SimulatorDecimal) -> Result<Quote, SimulatorRefusal> {
    let sent = call.body.pointer("/source/amount").and_then(amount);
    let received = call.body.pointer("/destination/amount").and_then(amount);
    let quote = match (sent, received) {
        (Some(sent), _) => Quote::of_sent(sent, sold, bought, rate, call.now),
        (None, Some(received)) => Quote::of_received(received, sold, bought, rate, call.now),
        (None, None) => None,
    };
    quote.ok_or_else(|| {
        SimulatorRefusal::violation(
            "/source/amount",
            "required",
            "an amount, here or at the destination, that can be quoted",
        )
    })
}

fn source(state: &SimulatorState, call: &SimulatedCall, quote: &Quote) -> Value {
    let amount = call.body.pointer("/source/amount").and_then(as_written);
    json!({
        "currency": call.text("/source/currency"),
        "amount": amount.unwrap_or_else(|| quote.send_gross.to_number()),
        "chain": call.text("/source/chain").unwrap_or("POLYGON"),
        "userId": call.text("/source/userId").unwrap_or(state.default_user()),
    })
}

fn destination(state: &SimulatorState, call: &SimulatedCall, quote: &Quote) -> Value {
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
