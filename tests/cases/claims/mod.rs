//! At most once: whoever sends a requestId again hears what became of it, and upstream hears nothing.

pub mod audit;
mod fates;
pub mod late_proofs;
mod owners;
mod prefixes;
mod progress;
mod replay;
mod restart;
mod violations;

use crate::support::shape::{operation, valid};
use crate::support::wire::Head;
use crate::support::{Answer, Call, post};

/// What is heard: status, code and outcome, and `again` if it was said before.
pub(super) fn told(answer: &Answer) -> String {
    let again = if answer.header("sluice-replayed").is_some() { " again" } else { "" };
    format!("{} {} {}{again}", answer.status, answer.code(), answer.outcome())
}

/// A swap that was not asked for before.
pub(super) fn swap() -> Call {
    valid(operation("createSwap"))
}

/// A swap of this body.
pub(super) fn pay(body: impl AsRef<[u8]>) -> Call {
    post("/v2/wallets/swaps").json(body)
}

/// A short body of a swap, with this requestId.
pub(super) fn named(request_id: &str) -> String {
    format!(r#"{{"requestId":"{request_id}","source":{{"currency":"usdc","amount":"1"}},"destination":{{}}}}"#)
}

/// A head without what is another one's each time.
fn lasting(head: &Head) -> Vec<(String, String)> {
    let of_the_moment = |name: &str| ["date", "x-request-id"].contains(&name.to_ascii_lowercase().as_str());
    head.headers.iter().filter(|(name, _)| !of_the_moment(name)).cloned().collect()
}

/// That a repeat is what was answered before, and says so.
pub(super) fn assert_again(first: &Answer, again: &Answer) {
    assert_eq!(again.header("sluice-replayed").as_deref(), Some("true"), "{again}");
    let said = |answer: &Answer| {
        (answer.status, answer.body.clone(), answer.header("content-type"), answer.outcome(), answer.origin())
    };
    assert_eq!(said(again), said(first), "{again}");
}
