//! Taking an offer while it is open.

use super::super::answer::Done;
use super::super::call::Call;
use super::super::offers::{End, Status};
use super::super::refusal::Refusal;
use super::super::state::State;
use crate::base::normal;

pub(super) fn accept(state: &mut State, call: &Call) -> Result<Done, Refusal> {
    let (naming, idempotent) = (state.naming(), state.idempotent());
    let wallet = normal::uuid(call.path("walletId"));
    let offer = state.offers.find_mut(call.path("offerId")).filter(|offer| offer.wallet_id == wallet);
    let offer = offer.ok_or(Refusal::NotFound { what: "offer" })?;
    match (offer.status(call.now), idempotent) {
        (Status::Received, _) => {
            let hash = naming.transaction_hash(&format!("accept/{}", offer.id));
            offer.end = Some(End::Accepted { at: call.now, hash });
            Ok(Done::changed(offer.to_json(call.now)))
        }
        (Status::Accepted, true) => Ok(Done::read(offer.to_json(call.now))),
        (status @ (Status::Accepted | Status::Withdrawn | Status::Expired), _) => {
            Err(Refusal::OfferNotOpen { status: status.as_str() })
        }
    }
}
