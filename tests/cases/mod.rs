//! What is shown, a module per theme.

mod bodies;
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
mod once;
mod parameters;
mod passage;
mod reconcile;
mod shutdown;
mod tidy;
mod tls;
