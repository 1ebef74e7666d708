//! The targets: a parser each, and what must be true of it.

mod addresses;
mod audit;
mod config;
pub mod heads;
mod json;
mod keys;
mod notes;
mod policies;
mod store;
mod token;

use crate::engine::Target;

/// Every target, by its name.
pub const TARGETS: &[(&str, Target)] = &[
    ("head", heads::head),
    ("chunks", heads::chunks),
    ("http2", heads::http2),
    ("json", json::json),
    ("token", token::token),
    ("jwks", keys::jwks),
    ("pem", keys::pem),
    ("policies", policies::policies),
    ("config", config::config),
    ("audit-line", audit::line),
    ("notes", notes::note),
    ("store-records", store::records),
    ("script-arguments", store::script_arguments),
    ("webhook-addresses", addresses::webhook),
    ("payment-addresses", addresses::payment),
];

/// Seeds that are made, because a file would have to be made again with every change.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    match target {
        "token" => vec![token::valid().into_bytes()],
        "script-arguments" => store::steps(),
        "audit-line" => audit::lines(),
        "notes" => notes::notes(),
        "config" => vec![include_bytes!("../../../deploy/sluice.toml").to_vec()],
        "policies" => vec![include_bytes!("../../../policies/default.toml").to_vec()],
        _ => Vec::new(),
    }
}

/// Splits an input: its first byte chooses, the rest is read.
fn chosen(input: &[u8]) -> (u8, &[u8]) {
    input.split_first().map_or((0, input), |(first, rest)| (*first, rest))
}

/// Input as text; other input is skipped.
fn text(input: &[u8]) -> Option<&str> {
    std::str::from_utf8(input).ok()
}
