//! The request of an act, and the answers that all acts have in common.

use http::HeaderMap;
use serde_json::Value;

use super::person::Person;
use super::state::ConsoleState;
use crate::base::ids::Environment;
use crate::catalog::Violation;
use crate::ledger::StoreFault;
use crate::stations::check::CheckRefusal;
use crate::stations::reply::{Code, Refusal, Reply, error_json, refused};

/// A request that is authorized.
pub(super) struct ActRequest {
    pub person: Person,
    /// The variable parts of the path, as written.
    pub path: Vec<String>,
    pub query: Vec<(String, String)>,
    /// The query, as written.
    pub target_query: String,
    pub headers: HeaderMap,
    pub body: Value,
}

/// Returns the environment with this name, if it is served.
pub(super) fn environment(inside: &ConsoleState, name: &str) -> Option<Environment> {
    Environment::parse(name).filter(|environment| inside.environments.contains(environment))
}

/// Answers that the store failed; every act may be repeated.
pub(super) fn store_failed(inside: &ConsoleState, fault: &StoreFault) -> Reply {
    inside.node.told_of(fault);
    if let (StoreFault::Away(_), Some(refusal)) = (fault, inside.node.watched.refusal()) {
        let why = refusal.explanation();
        let message = format!("the store refuses writes: {why}; nothing was done. Try again when it accepts writes.");
        return error_json(Code::StoreUnavailable, &message, None);
    }
    let message = match fault {
        StoreFault::Away(_) => "the store does not answer at the moment; nothing was done. Try again.",
        StoreFault::InDoubt(_) => {
            "the store did not confirm the change: check whether it was made, or try again, which is harmless."
        }
        StoreFault::Broken(_) => "the store has a record that cannot be read; nothing was done.",
    };
    error_json(Code::StoreUnavailable, message, None)
}

/// Answers a request that violates the API document.
pub(super) fn violated(violations: Vec<Violation>) -> Reply {
    refused(&Refusal::Check(CheckRefusal::Violations(violations)), None)
}
