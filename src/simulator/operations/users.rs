//! The list of users, and changes of one.

use super::super::answer::Done;
use super::super::call::Call;
use super::super::records::Page;
use super::super::refusal::Refusal;
use super::super::state::State;
use super::super::users::User;

/// Besides the documented parameters this takes `search`, whose name the interface does not show.
pub(super) fn list(state: &State, call: &Call) -> Result<Done, Refusal> {
    let page = Page::of(call)?;
    Ok(Done::read(state.users.page_where(&page, "users", |user| user.wanted(call), User::to_json)))
}

pub(super) fn update(state: &mut State, call: &Call) -> Result<Done, Refusal> {
    let user = state.users.find_mut(call.path("userId")).ok_or(Refusal::NotFound { what: "user" })?;
    let kind = call.text("/type");
    if matches!(kind, Some("individual" | "business")) && kind != Some(user.kind()) {
        return Err(Refusal::violation("/type", "const", "the type that the user has"));
    }
    user.apply(call);
    Ok(Done::changed(user.to_json()))
}
