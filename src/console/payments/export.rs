//! Exports of payments, and of the statement of a day: CSV for spreadsheets, and JSON lines that can be verified.
//!
//! An export is an audit entry before it is an answer: who took which payments out, how many, and the SHA-256 of the
//! content. The last JSON line has the number of rows and the SHA-256 of the lines before it, and each row has the
//! number and the SHA-256 of the entry that decided it: `sluice payments verify` compares all of them.

use serde_json::{Map, Value, json};

use super::destinations::DestinationNames;
use super::rows::RowMaker;
use super::statement::{self, StatementColumn, StatementQuery};
use super::{PaymentOrder, PaymentQuery, SortKey, with_book};
use crate::audit::{Entry, EntryKind, Hash};
use crate::base::csv::csv_line;
use crate::catalog::Violation;
use crate::console::render::moment;
use crate::console::request::{ActRequest, store_failed, violated};
use crate::console::server::ConsoleServer;
use crate::console::state::ConsoleState;
use crate::ledger::{Commit, StoreTime};
use crate::stations::reply::{Code, Reply, error_json, ok_json};

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

/// The columns of a statement before its sums.
const STATEMENT_COLUMNS: [(&str, &str); 9] = [
    ("environment", "/environment"),
    ("operation", "/operation"),
    ("caller issuer", "/owner/issuer"),
    ("caller", "/owner/subject"),
    ("to kind", "/to/kind"),
    ("to", "/to/name"),
    ("to lists", "/to/lists"),
    ("currency", "/currency"),
    ("chain", "/chain"),
];

/// The rows that a person takes out.
enum ExportQuery {
    Payments(PaymentQuery),
    Statement(StatementQuery),
}

impl ExportQuery {
    fn parse(inside: &ConsoleState, names: &DestinationNames, asked: &ActRequest) -> Result<ExportQuery, Violation> {
        let text = |name: &str, value: &Value| Some((name.to_owned(), value.as_str()?.to_owned()));
        let members = |name: &str| asked.body.get(name).and_then(Value::as_object).into_iter().flatten();
        let mut parameters: Vec<(String, String)> =
            members("filters").chain(members("statement")).filter_map(|(name, value)| text(name, value)).collect();
        parameters.extend(asked.body.get("after").and_then(|after| text("after", after)));
        if asked.body.get("statement").is_some() {
            return StatementQuery::parse(inside, names, &parameters).map(ExportQuery::Statement);
        }
        let query = PaymentQuery::parse(inside, names, &parameters)?;
        Ok(ExportQuery::Payments(PaymentQuery { limit: MAX_ROWS, order: PaymentOrder::Time, ..query }))
    }
}

pub(in crate::console) async fn export(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let inside = &server.inside;
    let names = DestinationNames::of(inside);
    let filters = asked.body.get("filters").and_then(Value::as_object).cloned().unwrap_or_default();
    let query = match ExportQuery::parse(inside, &names, asked) {
        Ok(query) => query,
        Err(violation) => return violated(vec![violation]),
    };
    let is_csv = asked.body.get("format").and_then(Value::as_str) == Some("csv");
    let (what, day) = match &query {
        ExportQuery::Payments(_) => ("payments".to_owned(), None),
        ExportQuery::Statement(query) => (format!("statement-{}", query.day.date()), Some(query.day.to_json())),
    };
    let head = json!({
        "format": FORMAT,
        "what": if day.is_some() { "statement" } else { "payments" },
        "node": inside.node.id.as_str(),
        "at": inside.node.clock.now().to_string(),
        "by": { "issuer": asked.person.who.issuer, "subject": asked.person.who.subject },
        "filters": filters,
        "operandKey": inside.node.operand_key.id(),
    });
    let (sent, received) = tokio::sync::oneshot::channel();
    let person = asked.person.clone();
    let made = with_book(server, move |inside, read| {
        let catalog = inside.catalog();
        let maker = RowMaker { inside, catalog: &catalog, names: &names };
        let since = read.since().map_or(Value::Null, moment);
        let query = match query {
            ExportQuery::Payments(query) => query,
            ExportQuery::Statement(_) if read.is_filling() => {
                let why = "the gate still reads its audit log, so that the statement is not whole; try again shortly.";
                return error_json(Code::Overloaded, why, None);
            }
            ExportQuery::Statement(query) => {
                let statement = query.statement(inside, &person, read);
                let Some(rows) = statement.lines_json(&maker, read) else {
                    return violated(vec![statement::too_many()]);
                };
                let mut head = head;
                if let (Some(members), Value::Object(day)) =
                    (head.as_object_mut(), query.day.members(statement::now_of(inside)))
                {
                    members.extend(day);
                    members.insert("since".to_owned(), since.clone());
                    members.insert("totals".to_owned(), statement.totals_json().into());
                }
                let content = if is_csv { csv(&rows, &statement_columns()) } else { json_lines(&head, &rows) };
                drop(sent.send(PaymentExport { content, rows: rows.len(), next: None, since }));
                return ok_json(200, &Value::Null);
            }
        };
        let (page, next) = query.tally(&inside.visibility, &person.roles().collect::<Vec<_>>(), &read.book).page();
        let rows = page.iter().filter_map(|key| {
            let (mut row, hash) = maker.row(key, read.book.row(key)?);
            if let Some(members) = row.as_object_mut() {
                members.insert("entrySha256".to_owned(), hash.map(|hash| hash.to_string()).into());
            }
            Some(row)
        });
        let rows: Vec<Value> = rows.collect();
        let content = if is_csv { csv(&rows, &payment_columns()) } else { json_lines(&head, &rows) };
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
    let entry = match day {
        Some(day) => entry.with("statement", day),
        None => entry,
    };
    let commit = Commit { environment, node: inside.node.id.clone(), steps: Vec::new(), entry: entry.to_bytes() };
    let receipt = match inside.node.commit(commit).await {
        Ok(Some(receipt)) => receipt,
        Ok(None) => return super::unreadable(),
        Err(fault) => return store_failed(inside, &fault),
    };
    let next = exported.next.map(|(by, at, number): SortKey| format!("{by}.{at}.{number}"));
    let name = format!("{what}-{}.{format}", stamp(receipt.at()));
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

fn payment_columns() -> Vec<(String, String)> {
    COLUMNS.map(|(name, place)| (name.to_owned(), place.to_owned())).into()
}

/// The columns of a statement: what the payments of a line have in common, then a number and an amount for each sum.
fn statement_columns() -> Vec<(String, String)> {
    let common = STATEMENT_COLUMNS.iter().map(|(name, place)| ((*name).to_owned(), (*place).to_owned()));
    let of_sum = |sum: StatementColumn, part: &str| {
        (format!("{} {part}", sum.as_str()), format!("/sums/{}/{part}", sum.as_str()))
    };
    let sums = StatementColumn::ALL.into_iter().flat_map(|sum| [of_sum(sum, "count"), of_sum(sum, "amount")]);
    common.chain(sums).collect()
}

fn csv(rows: &[Value], columns: &[(String, String)]) -> String {
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
    fn a_spreadsheet_reads_no_formula_and_nothing_hides_in_a_cell() {
        let row = json!({
            "at": "2026-11-20T08:00:00Z", "name": "=HYPERLINK(\"x\")", "amount": "1.50", "value": 1_500_000,
            "owner": {"issuer": "main", "subject": "@pay,roll"}, "requester": "a\u{202e}b",
            "to": {"name": "-1+1", "lists": ["a", "b"]}, "approvedBy": [{"issuer": "people", "subject": "ann"}],
        });
        let text = csv(&[row], &payment_columns());
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
