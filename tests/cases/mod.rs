//! What is shown, a module per theme.

mod audit;
mod bodies;
pub(super) mod claims;
mod clients;
mod command;
mod console;
mod drift;
mod early;
mod examples;
mod faults;
mod hangup;
mod heads;
mod hostile;
mod identity;
mod metrics;
mod model;
mod nodes;
mod once;
mod parameters;
mod passage;
mod policy;
pub(super) mod rates;
mod reconcile;
mod shutdown;
mod store;
mod tidy;
mod tls;
