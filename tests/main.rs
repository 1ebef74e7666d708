//! Black-box tests: the real binary between a scripted upstream and a raw caller.
//!
//! `support` is the harness, `cases` has a module per theme.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that meets something unexpected ends there"
)]

mod cases;
mod support;
