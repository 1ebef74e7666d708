//! The composition root: the one place that builds, starts, reloads and stops the process.
//!
//! | module | what it does |
//! |---|---|
//! | `process` | builds every part from the configuration and serves |
//! | `bookkeeping`, `node_start` | open and close the node, join the others, recover |
//! | `disk_opening`, `disk_trouble` | open the store and the audit log, again and again while a disk is in trouble |
//! | `lock_wait` | waits while the previous process has the files |
//! | `embedded_store`, `embedded_start` | verify the embedded store while reads are served, or build it anew from the journal |
//! | `sockets` | binds every address |
//! | `descriptors` | fits connections and calls to the file descriptors of this process |
//! | `dates` | asks for the date, so that the clock is compared before money moves |
//! | `limits`, `node_settings` | turn settings into limits of connections and of the engine, and into settings of the node |
//! | `lookups` | the workers that read upstream's lists: for unknown outcomes, and to follow payments |
//! | `start_policies` | the policies that a start begins with |
//! | `reload`, `reading_again`, `reloadable`, `file_watch`, `files_trouble`, `told_readings` | reload changed files, all or nothing |
//! | `monitoring` | gauges, traces and the log level |
//! | `probes` | `/livez`, `/readyz`, `/readyz/money`, `/metrics`, on a listener of their own |
//! | `retire` | takes the place of a gate that is gone for good, once, and hands its journal over |
//! | `workers` | tasks that run as long as the process |
//! | `ending` | signals, and the order in which the process ends |
//! | `start_error` | the reasons why a process does not start |

mod bookkeeping;
mod dates;
pub mod descriptors;
mod disk_opening;
mod disk_trouble;
mod ending;
mod embedded_start;
mod embedded_store;
mod file_watch;
mod files_trouble;
mod limits;
mod lock_wait;
mod lookups;
mod node_settings;
mod node_start;
mod open_node_error;
pub mod process;
pub mod probes;
mod reading_again;
mod reload;
mod reloadable;
pub mod retire;
mod snapshots;
mod sockets;
mod start_error;
mod start_policies;
mod told_readings;
mod monitoring;
mod witnessing;
mod workers;

pub use reload::{ReadAgain, StartConfig};
