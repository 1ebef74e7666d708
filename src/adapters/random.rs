//! Names that nobody else has chosen.
#![expect(clippy::disallowed_methods, reason = "this is the place where randomness comes in")]

use uuid::Uuid;

use crate::base::ids::TraceId;
use crate::stations::claim::Nonce;

/// The caller's own name for the exchange if it is fit to be repeated, else a new one.
pub fn trace_id(of_caller: Option<&str>) -> TraceId {
    let new = || TraceId::of_uuid(Uuid::new_v4());
    of_caller.and_then(TraceId::parse).unwrap_or_else(new)
}

/// By which a node knows its own commit again.
pub fn nonce() -> Nonce {
    Nonce(Uuid::new_v4().simple().to_string())
}
