//! The forms of an entry in the output: a line of words, of JSON or of CSV.

use serde_json::{Value, json};

use super::entries::ShownEntry;
use crate::base::csv::csv_line;
use crate::base::visible::visible_json;

/// The CSV columns that come from the entry's JSON, each with its path.
const ENTRY_COLUMNS: [(&str, &str); 9] = [
    ("what", "what"),
    ("operation", "operation"),
    ("claim", "claim"),
    ("issuer", "owner.issuer"),
    ("subject", "owner.subject"),
    ("fingerprint", "fingerprint"),
    ("trace", "trace"),
    ("attempt", "attempt"),
    ("status", "status"),
];

pub(super) fn json_line(shown: &ShownEntry) -> String {
    visible_json(&format!("{}\n", as_json(shown))).into_owned()
}

/// Formats one entry as a line.
pub(super) fn entry_line(shown: &ShownEntry) -> String {
    let place = &shown.outstanding;
    format!("{} {} {}  {}  {}", shown.at(), place.environment, place.number, shown.subject(), shown.event())
}

pub(super) fn as_json(shown: &ShownEntry) -> Value {
    let place = &shown.outstanding;
    json!({
        "environment": place.environment.as_str(),
        "number": place.number.as_u64(),
        "at": shown.at(),
        "node": place.node.as_str(),
        "entry": shown.entry,
    })
}

/// Returns the line of names of a CSV export.
pub(super) fn csv_head() -> String {
    let placed = ["environment", "number", "at", "node"].into_iter();
    csv_line(placed.chain(ENTRY_COLUMNS.map(|(name, _)| name)).chain(["entry"]).map(str::to_owned))
}

pub(super) fn csv_row(shown: &ShownEntry) -> String {
    let place = &shown.outstanding;
    let placed = [place.environment.to_string(), place.number.to_string(), shown.at(), place.node.to_string()];
    let values = ENTRY_COLUMNS.map(|(_, path)| shown.text(path));
    csv_line(placed.into_iter().chain(values).chain([shown.entry.to_string()]))
}
