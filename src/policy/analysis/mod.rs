//! Proofs about a policy set before it takes force: over all requests, not only those of its tests.
//!
//! Conditions are sets, intervals and presence, so every request lies in one of finitely many cells (`universe`), and
//! the conditions of rules are a few clauses over them (`shape`). A question is answered by dividing all requests until
//! each part is decided (`search`); a request that is found is written as a payment (`payment`), and counts only if the
//! rules themselves decide it as claimed.
//!
//! Promises: a result that is called proved, unreachable, redundant or tighter holds for every request. A question that
//! exceeds the budget of steps, or whose example cannot be written as a payment, is not proved. The analysis uses no
//! clock, no random number and no guess.
//!
//! Limits are taken at their worst: a request that exceeds a limit by its own amount is certainly stopped; the state of
//! windows is unknown, so a window is assumed to be full wherever that makes a claim harder.

mod approvals;
mod cells;
mod definitions;
mod difference;
mod difference_text;
mod edges;
mod extent;
mod find;
mod gathered;
mod ground;
mod limits;
mod model;
mod moments;
mod mutate;
mod newcomers;
mod outcome;
mod payment;
mod payment_text;
mod prove;
mod quorum;
mod search;
mod shape;
mod shape_index;
#[cfg(test)]
mod slow_way;
mod table;
mod table_text;
mod twins;
mod universe;
mod variants;
mod written;

pub use definitions::{DefinitionChange, MemberChange};
pub(super) use difference::difference_with_extents;
pub use difference::{ApprovalChange, ChangeKind, Difference, Direction, OutcomeChange};
pub(super) use edges::untouched;
pub use extent::{DimensionKind, Extent, ExtentDimension};
pub(super) use find::oddities;
pub use limits::{LimitChange, LimitChangeKind};
pub(super) use mutate::mutants;
pub use mutate::{Mutant, MutantFate};
pub use newcomers::NewcomerChange;
pub use payment::Payment;
pub use prove::Proof;
pub(super) use prove::unproved;
pub(super) use quorum::unreachable;
pub(super) use table::table;
pub use table::{PassMost, PassOperation, PassRow, PassTable};

#[cfg(test)]
mod tests;

/// The budget for proving the invariants of a set, in steps.
pub(super) const PROVING_STEPS: u64 = 20_000_000;
/// The budget for comparing two sets.
pub(super) const COMPARING_STEPS: u64 = 50_000_000;
/// The additional budget for the extents of changes.
pub(super) const EXTENT_STEPS: u64 = 20_000_000;
/// The budget for the table of a set.
pub(super) const TABLE_STEPS: u64 = 50_000_000;
/// The additional budget for warnings about rules.
pub(super) const FINDING_STEPS: u64 = 20_000_000;
