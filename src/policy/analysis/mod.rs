//! What can be said of a set of rules before it acts: of all requests, not of those that a test thought of.
//!
//! Conditions are sets, intervals and presence, so every request lies in one of finitely many cells (`universe`), and
//! what rules ask is a few clauses over them (`shape`). A question is answered by dividing all requests until each part
//! is sure (`search`); what is found is written down as a payment (`payment`) and counts only if the rules themselves
//! make of it what is claimed.
//!
//! Promises: what is said to be proved, unreachable, redundant or tighter is so for every request. What takes more than
//! the budget of steps, or cannot be written down, is not proved. Never: a clock, a random number, a guess.
//!
//! Limits count against: a request over a limit by its own amount is held up for sure, and of windows nothing is known,
//! so a full one is assumed wherever that makes a claim harder.

mod approvals;
mod cells;
mod difference;
mod edges;
mod find;
mod ground;
mod limits;
mod model;
mod mutate;
mod outcome;
mod payment;
mod prove;
mod quorum;
mod search;
mod shape;
mod told;
mod universe;
mod variants;
mod written;

pub(super) use difference::difference;
pub use difference::{ApprovalChange, Change, ChangeKind, Difference, Direction};
pub(super) use edges::untouched;
pub(super) use find::oddities;
pub use limits::{LimitChange, LimitChangeKind};
pub(super) use mutate::mutants;
pub use mutate::{Fate, Mutant};
pub use payment::Payment;
pub use prove::Proof;
pub(super) use prove::unproved;
pub(super) use quorum::unreachable;

#[cfg(test)]
mod tests;

/// What proving the invariants of a set may take, in steps.
pub(super) const PROVING_STEPS: u64 = 20_000_000;
/// What comparing two sets may take.
pub(super) const COMPARING_STEPS: u64 = 50_000_000;
/// What looking for odd rules may take besides.
pub(super) const FINDING_STEPS: u64 = 20_000_000;
