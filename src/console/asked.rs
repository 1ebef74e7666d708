//! What an act is given, and the answers that all acts have in common.

use http::HeaderMap;
use serde_json::Value;

use super::person::Person;
use crate::base::ids::Environment;
use crate::catalog::Violation;
use crate::commit::StoreFault;
use crate::gateway::Inside;
use crate::stations::check::CheckRefusal;
use crate::stations::reply::{Code, Refusal, Reply, refused, unsaid};

/// A request that may do what it asks for.
pub(super) struct Asked {
    pub person: Person,
    /// The variable parts of its path, as they were written.
    pub path: Vec<String>,
    pub query: Vec<(String, String)>,
    /// As it was written.
    pub target_query: String,
    pub headers: HeaderMap,
    pub body: Value,
}

/// The environment of this name, if it is served.
pub(super) fn environment(inside: &Inside, name: &str) -> Option<Environment> {
    inside.environments.iter().copied().find(|environment| environment.as_str() == name)
}

/// The store did not do its part; every act may be repeated.
pub(super) fn store_failed(inside: &Inside, fault: &StoreFault) -> Reply {
    inside.books.told_of(fault);
    let message = match fault {
        StoreFault::Away(_) => "the store does not answer at this moment; nothing was done: repeat it.",
        StoreFault::InDoubt(_) => "the store did not say whether it was done: look, or repeat it, which is harmless.",
        StoreFault::Broken(_) => "the store holds something that cannot be read; nothing was done.",
    };
    unsaid(Code::StoreUnavailable, message, None)
}

/// The answer to a request that is not what the document says.
pub(super) fn violated(violations: Vec<Violation>) -> Reply {
    refused(&Refusal::Check(CheckRefusal::Violations(violations)), None)
}
