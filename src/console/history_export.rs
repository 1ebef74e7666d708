//! Exports of the history. Each row has its audit entry, with its number and its SHA-256.

use std::io;
use std::time::Duration;

use serde_json::{Map, Value};

use super::export::{self, ExportFile, MAX_ROWS, columns, csv, json_lines, of_part, row_with};
use super::history::{FoundEntry, HistorySearch, find_latest};
use super::history_query::{SoughtEntries, invalid_position, parse_position, position_text};
use super::payment_index::late_beginning;
use super::render::moment;
use super::request::{ActRequest, unreadable, violated};
use super::server::ConsoleServer;
use super::state::ConsoleState;
use crate::adapters::audit::ReadBudget;
use crate::catalog::Violation;
use crate::stations::reply::Reply;

/// How much is read for one file: less than a person waits for.
const BUDGET: ReadBudget = ReadBudget { bytes: 512 * 1024 * 1024, time: Duration::from_secs(8) };

/// The columns of CSV: the name, and the place in the JSON of an entry.
const COLUMNS: [(&str, &str); 24] = [
    ("at", "/at"),
    ("environment", "/environment"),
    ("journal number", "/number"),
    ("node", "/node"),
    ("entry", "/what"),
    ("words", "/words"),
    ("request", "/name"),
    ("operation", "/entry/operation"),
    ("status", "/payment/status"),
    ("amount", "/payment/amount"),
    ("currency", "/payment/currency"),
    ("to kind", "/payment/to/kind"),
    ("to", "/payment/to/name"),
    ("to lists", "/payment/to/lists"),
    ("caller issuer", "/entry/owner/issuer"),
    ("caller", "/entry/owner/subject"),
    ("requester", "/entry/requester"),
    ("person issuer", "/entry/by/issuer"),
    ("person", "/entry/by/subject"),
    ("reason", "/entry/reason"),
    ("entry SHA-256", "/entrySha256"),
    ("complete since", "/since"),
    ("part begins behind", "/after"),
    ("next part begins behind", "/next"),
];

pub(super) async fn export(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let inside = &server.inside;
    let (is_csv, filters) = export::wanted(asked);
    let search = match parse(inside, asked, &filters) {
        Ok(search) => search,
        Err(violation) => return violated(vec![violation]),
    };
    let head = export::head(inside, asked, "history", &filters);
    let after = search.after.map(position_text);
    let since = match begins_at(inside).await {
        Ok(since) => since,
        Err(refusal) => return *refusal,
    };
    let (entries, next) = match find_latest(server, asked, search).await {
        Ok(found) => found,
        Err(refusal) => return *refusal,
    };
    let rows: Vec<Value> = entries.into_iter().map(row).collect();
    let next = next.map(position_text);
    let (count, of_all) = (rows.len(), of_part(&since, after.as_deref(), next.as_deref()));
    let content = if is_csv {
        let rows: Vec<Value> = rows.into_iter().map(|row| row_with(row, &of_all)).collect();
        csv(&rows, &columns(&COLUMNS))
    } else {
        json_lines(&row_with(head, &of_all), &rows)
    };
    let (name, of) = ("history".to_owned(), ("list", "history".into()));
    let file = ExportFile { name, is_csv, content, rows: count, after, next, since, of };
    export::record(inside, asked, filters, file).await
}

/// Returns the time from which on the journal has every entry; `null` where it has them all.
async fn begins_at(inside: &ConsoleState) -> Result<Value, Box<Reply>> {
    let (folder, node) = (inside.audit_folder.clone(), inside.node.id.clone());
    let reading = tokio::task::spawn_blocking(move || late_beginning(&folder, &node)).await;
    match reading.map_err(io::Error::other).flatten() {
        Ok(begins) => Ok(begins.map_or(Value::Null, moment)),
        Err(error) => {
            tracing::error!(%error, "cannot read where the audit log begins");
            Err(Box::new(unreadable()))
        }
    }
}

fn row(FoundEntry { hash, json, .. }: FoundEntry) -> Value {
    let mut row = json;
    if let Some(members) = row.as_object_mut() {
        members.insert("entrySha256".to_owned(), hash.to_string().into());
    }
    row
}

fn parse(inside: &ConsoleState, asked: &ActRequest, filters: &Map<String, Value>) -> Result<HistorySearch, Violation> {
    let mut sought = SoughtEntries::default();
    for (name, value) in filters.iter().filter_map(|(name, value)| Some((name, value.as_str()?))) {
        sought.set(inside, name, value)?;
    }
    let after = match asked.body.get("after").and_then(Value::as_str) {
        Some(after) => Some(parse_position(after).ok_or_else(invalid_position)?),
        None => None,
    };
    Ok(HistorySearch { sought, limit: MAX_ROWS, after, budget: BUDGET })
}
