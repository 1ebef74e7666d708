//! Reads of seeded records that never change: transfers, accounts, addresses, KYC statuses.

use serde_json::{Value, json};

use super::super::answer::Done;
use super::super::call::SimulatedCall;
use super::super::records::{RecordDocument, RecordPageRequest, Records, SimulatorRecord};
use super::super::refusal::SimulatorRefusal;
use super::super::state::{RAILS, SimulatorState};

pub(super) fn transfers(state: &SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let page = RecordPageRequest::of(call)?;
    Ok(Done::read(state.transfers.page(&page, "records", |t| t.body.clone())))
}

pub(super) fn batch_transfers(state: &SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let page = RecordPageRequest::of(call)?;
    Ok(Done::read(state.batches.page(&page, "records", |t| t.body.clone())))
}

pub(super) fn transfer(state: &SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let found = state.transfers.find(call.path("transferId")).ok_or(SimulatorRefusal::NotFound { what: "transfer" })?;
    Ok(Done::read(found.body.clone()))
}

pub(super) fn account(state: &SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    one_of_user(state, call, &state.accounts, "accountId", "account")
}

pub(super) fn virtual_account(state: &SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    one_of_user(state, call, &state.virtual_accounts, "accountId", "virtual account")
}

pub(super) fn orchestration_address(state: &SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let name = "orchestrationAddressId";
    one_of_user(state, call, &state.orchestration_addresses, name, "orchestration address")
}

/// Lists addresses. The interface does not show the names of the cursor and the count: here they are `cursor` and
/// `limit`.
pub(super) fn orchestration_addresses(state: &SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let user = known_user(state, call)?;
    let page = RecordPageRequest::bounded(call, "cursor", 50, 1, 200)?;
    let own = |address: &RecordDocument| address.concerns(user);
    let records = &state.orchestration_addresses;
    Ok(Done::read(records.page_where(&page, "records", own, |address| address.body.clone())))
}

/// Returns the KYC status. The interface does not show the name of the rail: here it is `rail`, by default `USD`.
pub(super) fn kyc_status(state: &SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let user = known_user(state, call)?.to_ascii_lowercase();
    let wanted = call.query("rail").unwrap_or("USD");
    let rail = RAILS.into_iter().find(|rail| *rail == wanted);
    let rail = rail.ok_or_else(|| SimulatorRefusal::violation("/query/rail", "enum", &format!("one of {RAILS:?}")))?;
    let status = state.kyc.get(&(user, rail)).copied().unwrap_or("INACTIVE");
    let mut body = json!({"status": status, "message": message(status)});
    if let ("INCOMPLETE", Some(members)) = (status, body.as_object_mut()) {
        let field = json!([{"field": "address.postalCode", "reason": "does not belong to the city"}]);
        members.insert("invalidFields".to_owned(), field);
    }
    Ok(Done::read(body))
}

fn one_of_user(
    state: &SimulatorState,
    call: &SimulatedCall,
    records: &Records<RecordDocument>,
    parameter: &str,
    what: &'static str,
) -> Result<Done, SimulatorRefusal> {
    let user = known_user(state, call)?;
    let found = records.find(call.path(parameter)).filter(|record| record.concerns(user));
    found.map(|record| Done::read(record.body.clone())).ok_or(SimulatorRefusal::NotFound { what })
}

fn known_user<'c>(state: &SimulatorState, call: &'c SimulatedCall) -> Result<&'c str, SimulatorRefusal> {
    let user = call.path("userId");
    state.users.find(user).map(|_| user).ok_or(SimulatorRefusal::NotFound { what: "user" })
}

fn message(status: &str) -> Value {
    json!(match status {
        "INACTIVE" => "No submission has been made for this rail.",
        "CREATED" => "The application was submitted.",
        "PENDING" => "The application is in review.",
        "RFI_PENDING" => "A request for information waits for the user's answer.",
        "INCOMPLETE" => "Correct the fields named here and submit again.",
        "ACTIVE" => "The user is approved.",
        "REJECTED" => "The application was rejected.",
        _ => "Contact support.",
    })
}
