//! The stores: records, windows, indexes and outboxes.
//!
//! The meaning of a commit is written once, over an ordered map of bytes: `layout` defines the keys (their parts in
//! `layout_bytes`), `slots` the time slots of windows, `queries` reads, `plan` computes the changes of a commit, `dump` defines the export format. [`memory`] keeps such a map in memory,
//! [`embedded`] in a file. [`redis`] repeats the same meaning in the script that Redis runs. [`sealed`] encrypts what
//! any of them keeps ([`outdated_seals`] finds what it has to seal anew), which `packed` makes short, and [`seal_check`] tells a key from another of its id; and puts the steps of a commit into its entry (`journalled_steps`), and compares what it reads with a journal ([`journalled_records`], `doubted_records` for what differs, and `written_behind` for what the journal does not have yet); [`replica`] makes the commits of a journal again (`replica_follower`), and `catching_up` those that an embedded store lacks after a crash; [`opening`] is an embedded store that is still being verified, [`awaited`] makes a store unavailable until recovery is done, and [`measured`] measures its
//! calls. Every store passes the contract suite in `tests/cases/store`.

pub mod awaited;
pub mod embedded;
pub mod journalled_records;
pub mod measured;
pub mod memory;
pub mod opening;
pub mod rebuild;
pub mod redis;
pub mod replica;
pub mod seal_check;
pub mod sealed;
pub mod snapshot;

mod catching_up;
mod changes_writer;
mod doubted_records;
mod dump;
mod dump_writer;
mod followed_entries;
mod gathered;
mod gathered_slots;
mod journalled_steps;
mod key_filter;
mod layout;
mod layout_bytes;
mod leaving_changes;
mod opened_journal;
pub mod outdated_seals;
mod packed;
mod queries;
mod repeated;
mod replica_follower;
mod sealed_facts;
mod sealed_place;
mod sealed_sum;
mod sealing_key;
mod slots;
mod taken_snapshots;
mod plan;
mod ticker;
mod written_behind;

use std::time::Duration;

/// The most records and slots that one call of `sweep` removes.
const SWEEP: usize = 500;

/// How long a replica keeps what expired: the times of the environments differ.
const SWEEP_AFTER: Duration = Duration::from_hours(1);
