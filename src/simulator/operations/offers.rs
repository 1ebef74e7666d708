//! Accepting an open offer.

use super::super::answer::Done;
use super::super::call::SimulatedCall;
use super::super::offers::{OfferEnd, OfferStatus};
use super::super::refusal::SimulatorRefusal;
use super::super::state::SimulatorState;
use crate::base::normal;

pub(super) fn accept(state: &mut SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let (naming, idempotent) = (state.naming(), state.idempotent());
    let wallet = normal::uuid(call.path("walletId"));
    let offer = state.offers.find_mut(call.path("offerId")).filter(|offer| offer.wallet_id == wallet);
    let offer = offer.ok_or(SimulatorRefusal::NotFound { what: "offer" })?;
    match (offer.status(call.now), idempotent) {
        (OfferStatus::Received, _) => {
            let hash = naming.transaction_hash(&format!("accept/{}", offer.id));
            offer.end = Some(OfferEnd::Accepted { at: call.now, hash });
            Ok(Done::changed(offer.to_json(call.now)))
        }
        (OfferStatus::Accepted, true) => Ok(Done::read(offer.to_json(call.now))),
        (status @ (OfferStatus::Accepted | OfferStatus::Withdrawn | OfferStatus::Expired), _) => {
            Err(SimulatorRefusal::OfferNotOpen { status: status.as_str() })
        }
    }
}
