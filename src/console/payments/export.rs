//! Exports of payments: CSV for spreadsheets, and JSON lines that can be verified.
//!
//! An export is an audit entry before it is an answer: who took which payments out, how many, and the SHA-256 of the
//! content. The last JSON line has the number of rows and the SHA-256 of the lines before it, and each row has the
//! number and the SHA-256 of the entry that decided it: `sluice payments verify` compares all of them.

use serde_json::{Map, Value, json};

use super::destinations::DestinationNames;
use super::rows::RowMaker;
use super::{PaymentOrder, PaymentQuery, SortKey, with_book};
use crate::audit::{Entry, EntryKind, Hash};
use crate::base::csv::csv_line;
use crate::console::render::moment;
use crate::console::request::{ActRequest, store_failed, violated};
use crate::console::server::ConsoleServer;
use crate::ledger::{Commit, StoreTime};
use crate::stations::reply::{Reply, ok_json};

/// The most payments of one export: the answer stays below what the command line reads.
pub(super) const MAX_ROWS: usize = 5_000;
/// The format of JSON lines.
const FORMAT: u64 = 1;

/// The columns of CSV: the name, and the place in the JSON of a payment.
const COLUMNS: [(&str, &str); 25] = [
    ("at", "/at"),
    ("environment", "/environment"),
    ("request", "/name"),
    ("operation", "/operation"),
    ("status", "/status"),
    ("event", "/event"),
    ("state", "/state"),
    ("changed at", "/changedAt"),
    ("amount", "/amount"),
    ("currency", "/currency"),
    ("chain", "/chain"),
    ("value in USD", "/valueUsd"),
    ("from kind", "/from/kind"),
    ("from", "/from/name"),
    ("from lists", "/from/lists"),
    ("to kind", "/to/kind"),
    ("to", "/to/name"),
    ("to lists", "/to/lists"),
    ("caller issuer", "/owner/issuer"),
    ("caller", "/owner/subject"),
    ("requester", "/requester"),
    ("rules", "/rules"),
    ("hold", "/hold"),
    ("approved by", "/approvedBy"),
    ("journal number", "/number"),
];

pub(in crate::console) async fn export(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let inside = &server.inside;
    let names = DestinationNames::of(inside);
    let filters = asked.body.get("filters").and_then(Value::as_object).cloned().unwrap_or_default();
    let parameters = filters.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    let mut parameters: Vec<(String, String)> = parameters.collect();
    let after = asked.body.get("after").and_then(Value::as_str);
    parameters.extend(after.map(|after| ("after".to_owned(), after.to_owned())));
    let query = match PaymentQuery::parse(inside, &names, &parameters) {
        Ok(query) => PaymentQuery { limit: MAX_ROWS, order: PaymentOrder::Time, ..query },
        Err(violation) => return violated(vec![violation]),
    };
    let is_csv = asked.body.get("format").and_then(Value::as_str) == Some("csv");
    let at = inside.node.clock.now();
    let head = json!({
        "format": FORMAT,
        "what": "payments",
        "node": inside.node.id.as_str(),
        "at": at.to_string(),
        "by": { "issuer": asked.person.who.issuer, "subject": asked.person.who.subject },
        "filters": filters,
        "operandKey": inside.node.operand_key.id(),
    });
    let (sent, received) = tokio::sync::oneshot::channel();
    let person = asked.person.clone();
    let made = with_book(server, move |inside, read| {
        let (page, next) = query.tally(inside, &person, read).page();
        let catalog = inside.catalog();
        let maker = RowMaker { inside, catalog: &catalog, names: &names };
        let rows = page.iter().filter_map(|key| {
            let (mut row, hash) = maker.row(key, read.book.row(key)?);
            if let Some(members) = row.as_object_mut() {
                members.insert("entrySha256".to_owned(), hash.map(|hash| hash.to_string()).into());
            }
            Some(row)
        });
        let rows: Vec<Value> = rows.collect();
        let since = read.since().map_or(Value::Null, moment);
        let content = if is_csv { csv(&rows) } else { json_lines(&head, &rows) };
        // Nobody waits for it where the request has ended.
        drop(sent.send(PaymentExport { content, rows: rows.len(), next, since }));
        ok_json(200, &Value::Null)
    })
    .await;
    let Ok(exported) = received.await else { return made };
    let environment = match filters.get("environment").and_then(Value::as_str) {
        Some(name) => inside.environments.iter().find(|one| one.as_str() == name).copied(),
        None => inside.environments.first().copied(),
    };
    let Some(environment) = environment else { return made };
    let sha256 = Hash::of(&[exported.content.as_bytes()]).to_string();
    let format = if is_csv { "csv" } else { "jsonl" };
    let entry = Entry::of(EntryKind::Exported)
        .by(&asked.person.who.issuer, &asked.person.who.subject)
        .with("format", format)
        .with("filters", Value::Object(filters))
        .with("rows", exported.rows)
        .with("sha256", sha256.as_str());
    let commit = Commit { environment, node: inside.node.id.clone(), steps: Vec::new(), entry: entry.to_bytes() };
    let receipt = match inside.node.commit(commit).await {
        Ok(Some(receipt)) => receipt,
        Ok(None) => return super::unreadable(),
        Err(fault) => return store_failed(inside, &fault),
    };
    let next = exported.next.map(|(by, at, number): SortKey| format!("{by}.{at}.{number}"));
    let name = format!("payments-{}.{format}", stamp(receipt.at()));
    ok_json(
        200,
        &json!({
            "name": name,
            "content": exported.content,
            "rows": exported.rows,
            "next": next,
            "since": exported.since,
            "sha256": sha256,
            "environment": environment.as_str(),
            "number": receipt.number().as_u64(),
        }),
    )
}

/// An export before it is recorded.
struct PaymentExport {
    content: String,
    rows: usize,
    next: Option<SortKey>,
    since: Value,
}

/// Returns a time as a part of a file name.
fn stamp(at: StoreTime) -> String {
    let time = moment(at);
    let digits = time.as_str().unwrap_or_default().chars().filter(char::is_ascii_digit);
    digits.take("20261120080000".len()).collect()
}

fn json_lines(head: &Value, rows: &[Value]) -> String {
    let mut lines = format!("{head}\n");
    for row in rows {
        lines.push_str(&format!("{row}\n"));
    }
    let sha256 = Hash::of(&[lines.as_bytes()]).to_string();
    let end = json!({ "rows": rows.len(), "sha256": sha256 });
    lines.push_str(&format!("{end}\n"));
    lines
}

fn csv(rows: &[Value]) -> String {
    let mut text = csv_line(COLUMNS.iter().map(|(name, _)| (*name).to_owned()));
    for row in rows {
        let mut row = row.clone();
        if let (Some(value), Some(members)) = (row.get("value").and_then(Value::as_u64), row.as_object_mut()) {
            members.insert("valueUsd".to_owned(), usd(value).into());
        }
        text.push_str(&csv_line(COLUMNS.iter().map(|(_, place)| cell_text(row.pointer(place)))));
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
    fn a_spreadsheet_reads_no_formula_and_nothing_hides_in_a_cell() {
        let row = json!({
            "at": "2026-11-20T08:00:00Z", "name": "=HYPERLINK(\"x\")", "amount": "1.50", "value": 1_500_000,
            "owner": {"issuer": "main", "subject": "@pay,roll"}, "requester": "a\u{202e}b",
            "to": {"name": "-1+1", "lists": ["a", "b"]}, "approvedBy": [{"issuer": "people", "subject": "ann"}],
        });
        let text = csv(&[row]);
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(lines[0].split(',').count(), COLUMNS.len());
        let line = lines[1];
        for part in
            ["\"'=HYPERLINK(\"\"x\"\")\"", "\"'@pay,roll\"", "a\\u{202E}b", ",'-1+1,a; b,", ",1.500000,", "people/ann"]
        {
            assert!(line.contains(part), "{part}: {line}");
        }
    }

    #[test]
    fn the_last_line_proves_the_others() {
        let lines = json_lines(&json!({"format": 1}), &[json!({"a": 1}), json!({"a": 2})]);
        let (body, last) = lines.trim_end().rsplit_once('\n').unwrap();
        let end: Value = serde_json::from_str(last).unwrap();
        assert_eq!(end, json!({"rows": 2, "sha256": Hash::of(&[format!("{body}\n").as_bytes()]).to_string()}));
    }
}
