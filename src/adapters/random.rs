//! Random names, and jittered times.
#![expect(clippy::disallowed_methods, reason = "this is the place where randomness comes in")]

use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};
use uuid::Uuid;

use crate::base::ids::{HoldId, TraceId};
use crate::base::secret::Secret;
use crate::people::session::SessionId;
use crate::stations::claim::Nonce;

/// Returns the caller's own trace id if it is safe to repeat, else a new one.
pub fn trace_id(of_caller: Option<&str>) -> TraceId {
    let new = || TraceId::of_uuid(Uuid::new_v4());
    of_caller.and_then(TraceId::parse).unwrap_or_else(new)
}

/// Returns a nonce by which a node recognizes its own commit.
pub fn nonce() -> Nonce {
    Nonce(Uuid::new_v4().simple().to_string())
}

/// Returns the id of a span; not zero.
pub fn span() -> u64 {
    let (high, _) = Uuid::new_v4().as_u64_pair();
    high | 1
}

/// Returns any number.
pub fn number() -> u32 {
    let (first, ..) = Uuid::new_v4().as_fields();
    first
}

/// Returns the id of a trace; not zero.
pub fn trace() -> u128 {
    Uuid::new_v4().as_u128()
}

/// Returns a UUID that nobody has.
pub fn uuid() -> String {
    Uuid::new_v4().to_string()
}

/// Returns as many random digits as a key has.
pub fn key() -> Secret {
    Secret::new(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
}

/// Returns the id of a test message.
pub fn trial_id() -> String {
    format!("msg_{}", Uuid::new_v4().simple())
}

/// Returns a cookie of the console: 256 random bits; `None` if the operating system gives no random bytes.
pub fn session_id() -> Option<SessionId> {
    Some(SessionId::of_bytes(&bytes::<32>()?))
}

/// Returns random bytes that nobody can guess, or `None` where the operating system gives none.
pub fn bytes<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

pub fn hold_id() -> HoldId {
    HoldId::of_uuid(Uuid::new_v4())
}

/// Returns a random time between half of this time and all of it, so that nodes do not act at the same moment.
pub fn jittered(time: Duration) -> Duration {
    let [byte, ..] = Uuid::new_v4().into_bytes();
    let half = time / 2;
    half.saturating_add(half.saturating_mul(u32::from(byte)) / 255)
}
