//! What is shown, a module per theme.

mod faults;
mod once;
mod passage;
