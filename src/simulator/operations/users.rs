//! The list of users, and changes of a user.

use super::super::answer::Done;
use super::super::call::SimulatedCall;
use super::super::records::RecordPageRequest;
use super::super::refusal::SimulatorRefusal;
use super::super::state::SimulatorState;
use super::super::users::User;

/// Lists users. Besides the documented parameters it takes `search`, whose name the interface does not show.
pub(super) fn list(state: &SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let page = RecordPageRequest::of(call)?;
    Ok(Done::read(state.users.page_where(&page, "users", |user| user.wanted(call), User::to_json)))
}

pub(super) fn update(state: &mut SimulatorState, call: &SimulatedCall) -> Result<Done, SimulatorRefusal> {
    let user = state.users.find_mut(call.path("userId")).ok_or(SimulatorRefusal::NotFound { what: "user" })?;
    let kind = call.text("/type");
    if matches!(kind, Some("individual" | "business")) && kind != Some(user.kind()) {
        return Err(SimulatorRefusal::violation("/type", "const", "the type that the user has"));
    }
    user.apply(call);
    Ok(Done::changed(user.to_json()))
}
