//! Files that people take out of the console: CSV for spreadsheets, and JSON lines that can be verified.
//!
//! An export is an audit entry before it is an answer: who took what out, how many rows, and the SHA-256 of the content.
//! The last JSON line has the number of rows and the SHA-256 of the lines before it.

use serde_json::{Map, Value, json};

use super::render::moment;
use super::request::{ActRequest, store_failed, unreadable};
use super::state::ConsoleState;
use crate::audit::{Entry, EntryKind, Hash};
use crate::base::csv::csv_line;
use crate::ledger::{Commit, StoreFault, StoreTime};
use crate::stations::reply::{Code, Reply, error_json, ok_json};

/// The most rows of one file: the answer stays below what the command line reads.
pub(super) const MAX_ROWS: usize = 5_000;
/// The format of JSON lines.
const FORMAT: u64 = 2;

/// The longest filters that an entry keeps whole, in bytes of JSON; of longer ones it keeps so much of each text.
const FILTERS_BYTES: usize = 512;
const TEXT_BYTES: usize = 64;

/// A file before it is recorded.
pub(super) struct ExportFile {
    /// The beginning of its name. The time and the number of its entry make the whole name the only one.
    pub name: String,
    pub is_csv: bool,
    pub content: String,
    pub rows: usize,
    /// Where it begins, if other rows of its filters come before it.
    pub after: Option<String>,
    /// Where the next part begins.
    pub next: Option<String>,
    /// The time since which it has all rows.
    pub since: Value,
    /// A member that the audit entry has, besides those of each export.
    pub of: (&'static str, Value),
}

/// Returns whether CSV is wanted, and the filters.
pub(super) fn wanted(asked: &ActRequest) -> (bool, Map<String, Value>) {
    let is_csv = asked.body.get("format").and_then(Value::as_str) == Some("csv");
    (is_csv, asked.body.get("filters").and_then(Value::as_object).cloned().unwrap_or_default())
}

/// Returns the first JSON line.
pub(super) fn head(inside: &ConsoleState, asked: &ActRequest, what: &str, filters: &Map<String, Value>) -> Value {
    json!({
        "format": FORMAT,
        "what": what,
        "node": inside.node.id.as_str(),
        "at": inside.node.clock.now().to_string(),
        "by": { "issuer": asked.person.who.issuer, "subject": asked.person.who.subject },
        "filters": filters,
        "operandKey": inside.node.operand_key.id(),
    })
}

/// Returns what is the same for all rows of a part of an export: without it, nobody can tell a part from the whole.
pub(super) fn of_part(since: &Value, after: Option<&str>, next: Option<&str>) -> Map<String, Value> {
    let members = [("since", since.clone()), ("after", after.into()), ("next", next.into())];
    members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}

/// Returns a row of CSV, which has no head, or a head, with what is the same for all rows.
pub(super) fn row_with(mut row: Value, of_all: &Map<String, Value>) -> Value {
    if let Some(members) = row.as_object_mut() {
        members.extend(of_all.clone());
    }
    row
}

/// Records an export, and answers with its file.
pub(super) async fn record(
    inside: &ConsoleState,
    asked: &ActRequest,
    filters: Map<String, Value>,
    file: ExportFile,
) -> Reply {
    let environment = match filters.get("environment").and_then(Value::as_str) {
        Some(name) => inside.environments.iter().find(|one| one.as_str() == name).copied(),
        None => inside.environments.first().copied(),
    };
    let Some(environment) = environment else { return unreadable() };
    let sha256 = Hash::of(&[file.content.as_bytes()]).to_string();
    let format = if file.is_csv { "csv" } else { "jsonl" };
    let (member, of) = file.of;
    let texts = [("since", file.since.as_str()), ("after", file.after.as_deref()), ("next", file.next.as_deref())];
    let entry = Entry::of(EntryKind::Exported)
        .by(&asked.person.who.issuer, &asked.person.who.subject)
        .with("format", format)
        .with("filters", recorded(filters))
        .with("rows", file.rows)
        .with("sha256", sha256.as_str())
        .with(member, of);
    let entry = texts.into_iter().fold(entry, |entry, (name, text)| match text {
        Some(text) => entry.with(name, text),
        None => entry,
    });
    let commit = Commit { environment, node: inside.node.id.clone(), steps: Vec::new(), entry: entry.to_bytes() };
    let receipt = match inside.node.commit_export(&asked.person.who, commit).await {
        Ok(Some(receipt)) => receipt,
        Ok(None) => return unreadable(),
        Err(StoreFault::InDoubt(_)) => return in_doubt(),
        Err(fault) => return store_failed(inside, &fault),
    };
    let number = receipt.number().as_u64();
    ok_json(
        200,
        &json!({
            "name": format!("{}-{}-{environment}-{number}.{format}", file.name, stamp(receipt.at())),
            "content": file.content,
            "rows": file.rows,
            "next": file.next,
            "since": file.since,
            "sha256": sha256,
            "environment": environment.as_str(),
            "number": number,
        }),
    )
}

/// Answers that the entry of an export may have been written.
fn in_doubt() -> Reply {
    let message = "the store did not confirm the entry of this export, and you have no file; the audit log may have the entry. If you \
                   export again, that is another entry.";
    error_json(Code::StoreUnavailable, message, None)
}

/// Returns filters as the entry keeps them. Of long texts it keeps the beginning, and of all of them the SHA-256.
fn recorded(filters: Map<String, Value>) -> Value {
    let whole = Value::Object(filters.clone()).to_string();
    if whole.len() <= FILTERS_BYTES {
        return Value::Object(filters);
    }
    let short = |value: Value| value.as_str().map(beginning).map_or(value, Value::from);
    let mut kept: Map<String, Value> = filters.into_iter().map(|(name, value)| (name, short(value))).collect();
    kept.insert("sha256".to_owned(), Hash::of(&[whole.as_bytes()]).to_string().into());
    Value::Object(kept)
}

/// Returns the beginning of a text, by its length in JSON.
fn beginning(text: &str) -> String {
    let mut left = TEXT_BYTES;
    let fits = |one: &char| {
        let bytes = Value::from(one.to_string()).to_string().len().saturating_sub(2);
        let is_enough = bytes <= left;
        left = left.saturating_sub(bytes);
        is_enough
    };
    let kept: String = text.chars().take_while(fits).collect();
    if kept.len() < text.len() { format!("{kept}…") } else { kept }
}

/// Returns a time as a part of a file name.
fn stamp(at: StoreTime) -> String {
    let time = moment(at);
    let digits = time.as_str().unwrap_or_default().chars().filter(char::is_ascii_digit);
    digits.take("20261120080000".len()).collect()
}

pub(super) fn json_lines(head: &Value, rows: &[Value]) -> String {
    let mut lines = format!("{head}\n");
    for row in rows {
        lines.push_str(&format!("{row}\n"));
    }
    let sha256 = Hash::of(&[lines.as_bytes()]).to_string();
    let end = json!({ "rows": rows.len(), "sha256": sha256 });
    lines.push_str(&format!("{end}\n"));
    lines
}

/// Returns columns by their names and their places in the JSON of a row.
pub(super) fn columns(columns: &[(&str, &str)]) -> Vec<(String, String)> {
    columns.iter().map(|(name, place)| ((*name).to_owned(), (*place).to_owned())).collect()
}

pub(super) fn csv(rows: &[Value], columns: &[(String, String)]) -> String {
    let mut text = csv_line(columns.iter().map(|(name, _)| name.clone()));
    for row in rows {
        let mut row = row.clone();
        if let (Some(value), Some(members)) = (row.get("value").and_then(Value::as_u64), row.as_object_mut()) {
            members.insert("valueUsd".to_owned(), usd(value).into());
        }
        text.push_str(&csv_line(columns.iter().map(|(_, place)| cell_text(row.pointer(place)))));
    }
    text
}

/// Returns micro-USD as a decimal.
fn usd(value: u64) -> String {
    format!("{}.{:06}", value.div_euclid(1_000_000), value.rem_euclid(1_000_000))
}

fn cell_text(value: Option<&Value>) -> String {
    let person = |one: &Map<String, Value>| {
        let text = |name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        format!("{}/{}", text("issuer"), text("subject"))
    };
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(list)) => {
            let one = |value: &Value| value.as_object().map(person).or_else(|| value.as_str().map(str::to_owned));
            list.iter().filter_map(one).collect::<Vec<_>>().join("; ")
        }
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_keeps_short_filters_whole_and_the_beginning_of_long_ones() {
        let filters = |value: Value| value.as_object().cloned().unwrap();
        let short = json!({"text": "Acme \u{1}", "first": "true"});
        assert_eq!(recorded(filters(short.clone())), short);
        let long = json!({"text": "\u{1}".repeat(512), "caller": "main/payroll", "status": "é".repeat(512)});
        let kept = recorded(filters(long.clone()));
        assert_eq!(kept["text"], format!("{}…", "\u{1}".repeat(10)));
        assert_eq!(
            (&kept["caller"], &kept["status"]),
            (&json!("main/payroll"), &json!(format!("{}…", "é".repeat(32))))
        );
        assert_eq!(kept["sha256"], Hash::of(&[long.to_string().as_bytes()]).to_string());
        let names =
            ["environment", "status", "operation", "caller", "destination", "currency", "amountFrom", "amountTo"];
        let most = names.iter().map(|name| ((*name).to_owned(), "\u{1}".repeat(512).into()));
        assert!(recorded(most.collect()).to_string().len() < 2 * FILTERS_BYTES);
    }

    #[test]
    fn the_last_line_proves_the_others() {
        let lines = json_lines(&json!({"format": 1}), &[json!({"a": 1}), json!({"a": 2})]);
        let (body, last) = lines.trim_end().rsplit_once('\n').unwrap();
        let end: Value = serde_json::from_str(last).unwrap();
        assert_eq!(end, json!({"rows": 2, "sha256": Hash::of(&[format!("{body}\n").as_bytes()]).to_string()}));
    }
}
