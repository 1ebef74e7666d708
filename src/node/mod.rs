//! One running gate: its store and its audit log, and its work besides carrying calls.
//!
//! | module | what it owns |
//! |---|---|
//! | `state`, `not_begun`, `settling`, `open_attempts` | the parts that everything here uses; every commit on a claim; attempts that are not over |
//! | `gates` | what the gates last told of themselves, and gates that are gone |
//! | `facts`, `in_force`, `candidate`, `hindsight`, `exchange`, `rates` | the ground of a decision: facts, policies in force, a set that waits and what it would have changed, rate limits |
//! | `activations`, `stored_policies`, `succession`, `kept_archives` | the set and the contract that the store names, by what signatures it is believed, and that every beginning guards it |
//! | `holds`, `approve`, `sign_act`, `stand_ins`, `freezes`, `operate`, `activate`, `sessions` | acts of callers and people on holds, freezes, unknown outcomes, policies, sessions |
//! | `entry_room` | room for audit entries, for callers, people and environments |
//! | `explain`, `limit_usage`, `exposure` | answers about rules and limits, and what held calls would spend |
//! | `contradictions`, `index_watch`, `record_watch`, `fresh_outcomes` | a store that is not believed, and outcomes that it may lose |
//! | `journalling`, `journal_gaps` | the entries of all nodes, on this node's disk; numbers that it lacks |
//! | `membership`, `another_history`, `node_facts`, `hand_over`, `met_store`, `folder_faults`, `compared_journals`, `rebuilding`, `nodes_at_loss`, `rebuilt_snapshot`, `what_was_before`, `unheard_gates`, `heard_before`, `recovery`, `journal_reports`, `lasting`, `rollback_guard` | the nodes that share the store, a store that lost its memory, and what people do meanwhile |
//! | `retry` | the bound and the backoff of loops that read, decide and commit |
//! | `store_watch`, `frozen_index`, `clock_watch`, `clock_leaps`, `date_check` | whether the store answers, accepts writes and is open for money; what is frozen; whether clocks leapt, or are wrong at a start |
//! | `upkeep`, `gauges`, `reminders`, `outlets`, `deliver` | background work: leases, sweeping, metrics, notices |

mod activations;
mod another_history;
mod state;
mod candidate;
pub mod clock_watch;
pub mod clock_leaps;
pub mod date_check;
mod contradictions;
mod losses;
mod not_begun;
mod fresh_outcomes;
mod entry_room;
mod exchange;
mod fact_cache;
mod facts;
mod gates;
mod hold_changes;
mod in_force;
mod index_watch;
mod kept_archives;
mod succession;
mod lasting;
mod open_attempts;
mod settling;
mod outlets;
mod retry;
mod store_time;
mod store_watch;

pub mod approve;
pub mod activate;
pub mod explain;
pub mod limit_usage;
pub mod deliver;
pub mod hindsight;
pub mod holds;
pub mod gauges;
pub mod freezes;
pub mod frozen_index;
pub mod operate;
pub mod exposure;
pub mod rates;
pub mod recovery;
mod refusing;
pub mod reminders;
pub mod journalling;
pub mod membership;
mod hand_over;
pub mod journal_gaps;
mod journal_reports;
mod folder_faults;
mod met_store;
pub mod node_facts;
mod compared_journals;
mod nodes_at_loss;
mod rebuilding;
mod record_watch;
mod rebuilt_snapshot;
pub mod sessions;
pub mod sign_act;
pub mod rollback_guard;
mod sealed_anew;
pub mod stand_ins;
pub mod stored_policies;
pub mod upkeep;
pub mod heard_before;
mod unheard_gates;
pub mod what_was_before;

pub use activations::Activations;
pub use candidate::Candidate;
pub use clock_watch::ClockWatch;
pub use contradictions::Contradictions;
pub use entry_room::{JournalBounds, JournalRoom};
pub use exchange::{Exchange, tell_decided};
pub use fact_cache::FactCache;
pub use folder_faults::FolderFaults;
pub use fresh_outcomes::FreshOutcomes;
pub use gates::{GoneSaid, NotGone, OtherGates};
pub use hold_changes::HoldChanges;
pub use in_force::{InForce, Snapshot};
pub use losses::StoreLosses;
pub use not_begun::{NotBegun, Withdrawn};
pub use open_attempts::{OpenAttempt, OpenAttempts};
pub use outlets::Outlets;
pub use state::{Attempt, Node};
pub use store_watch::{MoneyStop, StopReason, StoreWatch, watch_store};
