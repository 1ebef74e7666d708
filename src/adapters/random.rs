//! Names that nobody else has chosen, and times that nobody else keeps.
#![expect(clippy::disallowed_methods, reason = "this is the place where randomness comes in")]

use std::time::Duration;

use uuid::Uuid;

use crate::base::ids::{HoldId, TraceId};
use crate::base::secret::Secret;
use crate::stations::claim::Nonce;
use crate::stations::session::SessionId;

/// The caller's own name for the exchange if it is fit to be repeated, else a new one.
pub fn trace_id(of_caller: Option<&str>) -> TraceId {
    let new = || TraceId::of_uuid(Uuid::new_v4());
    of_caller.and_then(TraceId::parse).unwrap_or_else(new)
}

/// By which a node knows its own commit again.
pub fn nonce() -> Nonce {
    Nonce(Uuid::new_v4().simple().to_string())
}

/// The name of a span; not zero.
pub fn span() -> u64 {
    let (high, _) = Uuid::new_v4().as_u64_pair();
    high | 1
}

/// The name of a trace; not zero.
pub fn trace() -> u128 {
    Uuid::new_v4().as_u128()
}

/// As many random digits as a key has.
pub fn key() -> Secret {
    Secret::new(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
}

/// Of a message that is sent to try it.
pub fn trial_id() -> String {
    format!("msg_{}", Uuid::new_v4().simple())
}

/// What a cookie of the console is: 256 bits that nobody guesses. Nothing where the machine has no randomness.
pub fn session_id() -> Option<SessionId> {
    let mut bytes = [0_u8; 32];
    aws_lc_rs::rand::fill(&mut bytes).ok()?;
    Some(SessionId::of_bytes(&bytes))
}

pub fn hold_id() -> HoldId {
    HoldId::of_uuid(Uuid::new_v4())
}

/// From half of this time to all of it, so that nodes do not all come at once.
pub fn jittered(time: Duration) -> Duration {
    let [byte, ..] = Uuid::new_v4().into_bytes();
    let half = time / 2;
    half.saturating_add(half.saturating_mul(u32::from(byte)) / 255)
}
