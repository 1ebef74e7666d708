//! The list of offramps, and new ones: their amounts, fees and users.

use serde_json::{Value, json};

use super::super::answer::Done;
use super::super::call::SimulatedCall;
use super::super::decimal::{SimulatorDecimal, amount, as_written};
use super::super::offramps::Offramp;
use super::super::outcome::ScriptedOutcome;
use super::super::quote::{Quote, market_rate};
use super::super::records::RecordPageRequest;
use super::super::refusal::SimulatorRefusal;
use super::super::state::SimulatorState;

/// The beginning of the requestId of a record that is made as if a deposit had made it.
const ORCHESTRATED: &str = "test-deposit-";

pub(super) fn list(state: &SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let page = RecordPageRequest::of(call)?;
    Ok(Done::read(state.offramps.page(&page, "records", |offramp| offramp.to_json(call.now))))
}

pub(super) fn create(state: &mut SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let request_id = call.text("/requestId").unwrap_or_default();
    if let Some(first) = state.repeated(&state.offramps, request_id) {
        return Ok(Done::repeated(first.to_json(call.now)));
    }
    let offramp = from_call(state, call)?;
    let body = offramp.to_json(call.now);
    state.offramps.push(offramp);
    Ok(Done::created(body))
}

/// Creates the requested record.
fn from_call(state: &mut SimulatorState, call: &SimulatedCall) -> Result<Offramp, SimulatorRefusal> {
    let sold = call.text("/source/currency").unwrap_or("usdc");
    let bought = call.text("/destination/currency").unwrap_or("usd");
    let rate = market_rate(sold, bought);
    let sent = sent(call, rate).ok_or_else(|| {
        SimulatorRefusal::violation(
            "/source/amount",
            "required",
            "an amount, here or at the destination, that can be quoted",
        )
    })?;
    let outcome = ScriptedOutcome::of(sent);
    if outcome == ScriptedOutcome::Refused {
        return Err(SimulatorRefusal::InsufficientBalance);
    }
    let (fees, fee) = fees(call, sent);
    let quote = Quote::with_fee(sent, fee, sold, bought, rate, call.now)
        .ok_or_else(|| SimulatorRefusal::violation("/source/amount", "maximum", "an amount that can be quoted"))?;
    let (id, created_at) = state.next_record("offramp", call.now);
    let request_id = call.text("/requestId").unwrap_or_default();
    let orchestrated = request_id.starts_with(ORCHESTRATED);
    Ok(Offramp {
        request_id: request_id.to_owned(),
        orchestration_address_id: orchestrated.then(|| state.naming().uuid("orchestration address")),
        pace: state.pace(),
        naming: state.naming(),
        supporting_information: call.body.pointer("/supportingInformation").cloned(),
        source: source(state, call, &quote),
        destination: destination(state, call, &quote),
        fees,
        quote,
        outcome,
        id,
        created_at,
    })
}

/// Returns the source amount, or the amount that the destination amount needs.
fn sent(call: &SimulatedCall, rate: SimulatorDecimal) -> Option<SimulatorDecimal> {
    let stated = |pointer: &str| call.body.pointer(pointer).map(amount);
    match (stated("/source/amount"), stated("/destination/amount")) {
        (Some(sent), _) => sent,
        (None, received) => received??.divided_by(rate),
    }
}

/// Returns the fees with their amounts, and their sum, which never exceeds the sent amount.
fn fees(call: &SimulatedCall, sent: SimulatorDecimal) -> (Option<Vec<Value>>, SimulatorDecimal) {
    let Some(wanted) = call.body.pointer("/developerFee/fees").and_then(Value::as_array) else {
        return (None, SimulatorDecimal::ZERO);
    };
    let mut sum = SimulatorDecimal::ZERO;
    let mut charged = Vec::new();
    for fee in wanted {
        let value = fee.get("value").and_then(amount).unwrap_or(SimulatorDecimal::ZERO);
        let flat = fee.get("type").and_then(Value::as_str) == Some("FLAT");
        let due = if flat { value } else { sent.times(value).unwrap_or(sent) };
        let taken = due.min(sent.minus(sum));
        sum = sum.plus(taken);
        let mut record = fee.clone();
        if let Some(members) = record.as_object_mut() {
            members.insert("amount".to_owned(), json!(taken.to_string()));
        }
        charged.push(record);
    }
    (Some(charged), sum)
}

fn source(state: &SimulatorState, call: &SimulatedCall, quote: &Quote) -> Value {
    let user = call.text("/source/userId").or(call.text("/destination/userId")).unwrap_or(state.default_user());
    let amount = call.body.pointer("/source/amount").and_then(as_written);
    let wallet = call.text("/source/walletAddress").map(str::to_owned);
    json!({
        "userId": user,
        "chain": call.text("/source/chain").unwrap_or("POLYGON"),
        "currency": call.text("/source/currency").unwrap_or("usdc"),
        "amount": amount.unwrap_or_else(|| quote.send_gross.to_number()),
        "walletAddress": wallet.unwrap_or_else(|| state.wallet_of(user)),
        "user": state.person(user),
    })
}

fn destination(state: &SimulatorState, call: &SimulatedCall, quote: &Quote) -> Value {
    let user = call.text("/destination/userId").or(call.text("/source/userId")).unwrap_or(state.default_user());
    let mut side = json!({
        "userId": user,
        "amount": quote.receive_net.to_number(),
        "currency": "usd",
        "sameDayAch": false,
        "user": state.person(user),
    });
    let given = call.body.pointer("/destination").and_then(Value::as_object).cloned().unwrap_or_default();
    if let Some(members) = side.as_object_mut() {
        members.extend(given);
        if let Some(amount) = members.get("amount").and_then(as_written) {
            members.insert("amount".to_owned(), amount);
        }
    }
    side
}
