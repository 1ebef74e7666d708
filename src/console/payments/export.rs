//! Exports of payments, and of the statement of a day.
//!
//! Each row of payments has the number and the SHA-256 of the entry that decided it: `sluice payments verify` compares
//! them with the audit log.

use serde_json::{Map, Value};

use super::destinations::DestinationNames;
use super::rows::RowMaker;
use super::statement::{self, DayStatement, LineSamples, StatementColumn, StatementQuery};
use super::{PaymentOrder, PaymentQuery, position_text, read_in_turn};
use crate::catalog::Violation;
use crate::console::export::{self, ExportFile, MAX_ROWS, columns, csv, json_lines, of_part, row_with};
use crate::console::payment_index::{PaymentKey, PaymentRow, ReadBook};
use crate::console::person::Person;
use crate::console::render::moment;
use crate::console::request::{ActRequest, violated};
use crate::console::server::ConsoleServer;
use crate::console::state::ConsoleState;
use crate::stations::reply::{Code, Reply, error_json};

/// The columns of CSV: the name, and the place in the JSON of a payment.
const COLUMNS: [(&str, &str); 28] = [
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
    ("complete since", "/since"),
    ("part begins behind", "/after"),
    ("next part begins behind", "/next"),
];

/// The columns of a statement before its sums: first those that are the same in each row.
const STATEMENT_COLUMNS: [(&str, &str); 13] = [
    ("day", "/day"),
    ("zone", "/zone"),
    ("day is over", "/over"),
    ("complete since", "/since"),
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

/// The rows that an export takes out of the book, so that others can read the book while it is written.
struct FoundRows {
    since: Value,
    rows: RowsOf,
}

enum RowsOf {
    Payments { page: Vec<(PaymentKey, PaymentRow)>, after: Option<String>, next: Option<String> },
    Statement { statement: DayStatement, samples: LineSamples, day: Map<String, Value> },
}

impl ExportQuery {
    fn found(self, inside: &ConsoleState, person: &Person, read: &ReadBook) -> Result<FoundRows, Box<Reply>> {
        let rows = match self {
            ExportQuery::Payments(query) => {
                let roles: Vec<&str> = person.roles().collect();
                let (page, next) = query.tally(&inside.visibility, &roles, &read.book).page();
                let page = page.into_iter().filter_map(|key| Some((key.clone(), read.book.row(&key)?.clone())));
                let (after, next) = (query.after.map(position_text), next.map(position_text));
                RowsOf::Payments { page: page.collect(), after, next }
            }
            ExportQuery::Statement(_) if read.is_filling() => {
                let why = "the gate still reads its audit log, so that the statement is not whole; try again shortly.";
                return Err(Box::new(error_json(Code::Overloaded, why, None)));
            }
            ExportQuery::Statement(query) => {
                let statement = query.statement(inside, person, read);
                let (samples, day) = (statement.samples(read), query.day.members(statement::now_of(inside)));
                RowsOf::Statement { statement, samples, day }
            }
        };
        Ok(FoundRows { since: read.since().map_or(Value::Null, moment), rows })
    }
}

fn payment_row(maker: &RowMaker<'_>, key: &PaymentKey, row: &PaymentRow) -> Value {
    let (mut row, hash) = maker.row(key, row);
    if let Some(members) = row.as_object_mut() {
        members.insert("entrySha256".to_owned(), hash.map(|hash| hash.to_string()).into());
    }
    row
}

pub(in crate::console) async fn export(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let inside = &server.inside;
    let names = DestinationNames::of(inside);
    let (is_csv, filters) = export::wanted(asked);
    let query = match ExportQuery::parse(inside, &names, asked) {
        Ok(query) => query,
        Err(violation) => return violated(vec![violation]),
    };
    let (what, name, of) = match &query {
        ExportQuery::Payments(_) => ("payments", "payments".to_owned(), ("list", "payments".into())),
        ExportQuery::Statement(query) => {
            ("statement", format!("statement-{}", query.day.in_file_name()), ("statement", query.day.to_json()))
        }
    };
    let head = export::head(inside, asked, what, &filters);
    let person = asked.person.clone();
    let turn = match server.exporters.turn(&asked.person.who).await {
        Ok(turn) => turn,
        Err(refusal) => return *refusal,
    };
    let find = move |inside: &ConsoleState, read: &mut ReadBook| query.found(inside, &person, read);
    let make = move |inside: &ConsoleState, found: Result<FoundRows, Box<Reply>>| {
        let (catalog, FoundRows { since, rows }) = (inside.catalog(), found?);
        let maker = RowMaker { inside, catalog: &catalog, names: &names };
        let (mut of_all, mut part) = (of_part(&since, None, None), (None, None));
        let (rows, columns, totals): (Vec<Value>, _, _) = match rows {
            RowsOf::Payments { page, after, next } => {
                of_all = of_part(&since, after.as_deref(), next.as_deref());
                part = (after, next);
                let rows = page.iter().map(|(key, row)| payment_row(&maker, key, row));
                (rows.collect(), columns(&COLUMNS), None)
            }
            RowsOf::Statement { statement, samples, day } => {
                let Some(rows) = statement.lines_json(&maker, &samples) else {
                    return Err(Box::new(violated(vec![statement::too_many()])));
                };
                of_all.extend(day);
                (rows, statement_columns(), Some(statement.totals_json()))
            }
        };
        let count = rows.len();
        let content = if is_csv {
            let rows: Vec<Value> = rows.into_iter().map(|row| row_with(row, &of_all)).collect();
            csv(&rows, &columns)
        } else {
            of_all.extend(totals.map(|totals| ("totals".to_owned(), totals.into())));
            json_lines(&row_with(head, &of_all), &rows)
        };
        let (after, next) = part;
        Ok(ExportFile { name, is_csv, content, rows: count, after, next, since, of })
    };
    let made = read_in_turn(server, turn, find, make).await;
    match made.and_then(|made| made) {
        Ok(file) => export::record(inside, asked, filters, file).await,
        Err(refusal) => *refusal,
    }
}

/// The columns of a statement: what the payments of a line have in common, then a number and an amount for each sum.
fn statement_columns() -> Vec<(String, String)> {
    let common = columns(&STATEMENT_COLUMNS).into_iter();
    let of_sum = |sum: StatementColumn, part: &str| {
        (format!("{} {part}", sum.as_str()), format!("/sums/{}/{part}", sum.as_str()))
    };
    let sums = StatementColumn::ALL.into_iter().flat_map(|sum| [of_sum(sum, "count"), of_sum(sum, "amount")]);
    common.chain(sums).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_spreadsheet_reads_no_formula_and_nothing_hides_in_a_cell() {
        let row = json!({
            "at": "2026-11-20T08:00:00Z", "name": "=HYPERLINK(\"x\")", "amount": "1.50", "value": 1_500_000,
            "owner": {"issuer": "main", "subject": "@pay,roll"}, "requester": "a\u{202e}b",
            "to": {"name": "-1+1", "lists": ["a", "b"]}, "approvedBy": [{"issuer": "people", "subject": "ann"}],
        });
        let text = csv(&[row], &columns(&COLUMNS));
        let lines: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(lines[0].split(',').count(), COLUMNS.len());
        let line = lines[1];
        for part in [
            "\"'=HYPERLINK(\"\"x\"\")\"",
            "\"'@pay,roll\"",
            "a\\u{202E}b",
            ",'-1+1,\"a; b\",",
            ",1.500000,",
            "people/ann",
        ] {
            assert!(line.contains(part), "{part}: {line}");
        }
    }
}
