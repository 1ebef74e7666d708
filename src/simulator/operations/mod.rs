//! The behaviour of each operation: it reads or changes the records, and returns the result.
//!
//! Each call that arrives here satisfies the contract. A refusal leaves the records unchanged. This module knows
//! nothing of faults, of the journal or of sockets.

mod offers;
mod offramps;
mod reads;
mod reporting;
mod settlement;
mod swaps;
mod users;

use serde_json::json;

use super::answer::Done;
use super::call::SimulatedCall;
use super::refusal::SimulatorRefusal;
use super::state::SimulatorState;

/// Executes a call that satisfies the contract.
pub(super) fn carry_out(state: &mut SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    match call.operation.id.as_str() {
        "listOfframps" => offramps::list(state, call),
        "createOfframp" => offramps::create(state, call),
        "createSwap" => swaps::create(state, call),
        "cancelSwap" => swaps::cancel(state, call),
        "listUsers" => users::list(state, call),
        "updateUser" => users::update(state, call),
        "listOrchestrationAddresses" => reads::orchestration_addresses(state, call),
        "getOrchestrationAddress" => reads::orchestration_address(state, call),
        "getVirtualAccount" => reads::virtual_account(state, call),
        "getKycStatus" => reads::kyc_status(state, call),
        "getAccount" => reads::account(state, call),
        "createSettlementRule" => settlement::create(state, call),
        "listTransfers" => reads::transfers(state, call),
        "listBatchTransfers" => reads::batch_transfers(state, call),
        "getTransfer" => reads::transfer(state, call),
        "acceptOffer" => offers::accept(state, call),
        "listReportingTemplates" => Ok(Done::read(reporting::templates(state, call.now))),
        "createTosLink" => Ok(tos_link(state, call)),
        _ => example(state, call),
    }
}

fn tos_link(state: &mut SimulatorState, call: &SimulatedCall) -> Done {
    let moment = state.next_moment(call.now);
    let session = state.naming().uuid(&format!("tos/{moment}"));
    Done::created(json!({"url": format!("https://tos.example.com/sign/{session}"), "sessionId": session}))
}

fn example(state: &SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let body = state.example(&call.operation.id).cloned().ok_or(SimulatorRefusal::NoBehaviour)?;
    Ok(if call.operation.is_write() { Done::changed(body) } else { Done::read(body) })
}
