//! `sluice payments statement`: the payments of one day, what they came to, and which are open.

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;

use super::PaymentScopeArgs;
use crate::adapters::clock::SystemClock;
use crate::base::visible::visible;
use crate::cli::ExitReason;
use crate::cli::arguments::{day, zone};
use crate::cli::console::{ConsoleCall, ConsoleOptions};
use crate::cli::output::{TableColumn, TableLayout, text_at};
use crate::cli::pages::list_as_table;
use crate::ports::Clock as _;

/// Show the statement of a day: payments that were sent, arrived, failed, came back, or are open
///
/// By operation, caller, destination, currency and network, with the sums of each currency and network below. Each line
/// adds up: `opening`, `sent` and `reopened` are together what ended on the day and what is open or unknown at its end. Columns
/// without any payment are left out.
/// Changes nothing and leaves no entry; `sluice payments export --statement DAY` writes a file that can be verified.
#[derive(Debug, Args)]
pub(super) struct PaymentStatementArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    /// The day
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    day: String,
    /// The IANA time zone of the day
    #[arg(long, default_value = "UTC", value_parser = zone)]
    zone: String,
    #[command(flatten)]
    scope: PaymentScopeArgs,
}

impl PaymentStatementArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitReason> {
        let ask = ConsoleCall::get("payments/statement").with_text("day", &self.day).with_text("zone", &self.zone);
        let ask = self.scope.pairs().fold(ask, |ask, (name, value)| ask.with_text(name, &value));
        self.way.ask_for_rows(&ask, Some("lines"), in_words)
    }
}

fn in_words(answer: &Value) -> String {
    let begin = answer["begin"].as_str().and_then(|begin| begin.parse::<Timestamp>().ok());
    let is_to_come = begin.is_some_and(|begin| begin > SystemClock.now());
    let none = match is_to_come {
        true => "This day has not begun.",
        false => "No payment was sent or ended on this day, and none was open.",
    };
    let is_used = |column: &TableColumn| {
        let sum = SUMS.iter().find(|(head, _)| *head == column.head).map(|(_, name)| *name);
        sum.is_none_or(|name| {
            answer["lines"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|line| line.pointer(&format!("/sums/{name}/count")).is_none_or(|count| *count != 0))
        })
    };
    let columns: Vec<TableColumn> = COLUMNS.into_iter().filter(is_used).collect();
    let table = list_as_table(answer, "lines", TableLayout { columns: &columns, spare: &[] }, none);
    let totals: String = answer["totals"].as_array().into_iter().flatten().map(total_in_words).collect();
    let notes = [
        (answer["over"] == false && !is_to_come).then(|| "The day is not over.\n".to_owned()),
        (answer["reading"] == true).then(|| "The gate still reads its audit log: ask again shortly.\n".to_owned()),
        answer["since"].as_str().map(|since| format!("Payments before {since} are not in it.\n")),
    ];
    format!("{table}{totals}{}", notes.into_iter().flatten().collect::<String>())
}

/// Describes the sums of one currency and network.
fn total_in_words(total: &Value) -> String {
    let asset = [text_at(total, "/currency").to_uppercase(), text_at(total, "/chain")].join(" ");
    let sums = total["sums"].as_object().into_iter().flatten();
    let sums = sums.filter(|(_, sum)| sum["count"] != 0).map(|(name, sum)| format!("{name} {}", money_of(sum)));
    let sums: Vec<String> = sums.collect();
    format!("{}\n", visible(&format!("sum  {} {}: {}", text_at(total, "/environment"), asset.trim(), sums.join(", "))))
}

/// Describes a number and an amount, such as `2: 150.25`.
fn money_of(sum: &Value) -> String {
    match sum["amount"].as_str() {
        _ if sum["count"] == 0 => String::new(),
        Some(amount) => format!("{}: {amount}", sum["count"]),
        None => sum["count"].to_string(),
    }
}

fn money_at(row: &Value, place: &str) -> String {
    row.pointer(place).map_or_else(String::new, money_of)
}

/// The columns of sums, and the members of a line that they show. Only those stand in the table that have some.
const SUMS: [(&str, &str); 12] = [
    ("OPENING", "opening"),
    ("SENT", "sent"),
    ("REOPENED", "reopened"),
    ("SETTLED", "settled"),
    ("FAILED", "failed"),
    ("RETURNED", "returned"),
    ("NOT EXECUTED", "notExecuted"),
    ("SAID NOT EXECUTED", "absent"),
    ("GIVEN UP", "givenUp"),
    ("OPEN", "open"),
    ("UNKNOWN", "unknown"),
    ("FOREIGN", "foreign"),
];

const COLUMNS: [TableColumn; 18] = [
    TableColumn { head: "ENVIRONMENT", is_whole: false, cell: |row| text_at(row, "/environment") },
    TableColumn { head: "OPERATION", is_whole: false, cell: |row| text_at(row, "/operation") },
    TableColumn { head: "CALLER", is_whole: false, cell: |row| text_at(row, "/owner/subject") },
    TableColumn { head: "TO", is_whole: false, cell: |row| super::party_of(&row["to"]) },
    TableColumn { head: "CURRENCY", is_whole: true, cell: |row| text_at(row, "/currency").to_uppercase() },
    TableColumn { head: "NETWORK", is_whole: true, cell: |row| text_at(row, "/chain") },
    TableColumn { head: "OPENING", is_whole: true, cell: |row| money_at(row, "/sums/opening") },
    TableColumn { head: "SENT", is_whole: true, cell: |row| money_at(row, "/sums/sent") },
    TableColumn { head: "REOPENED", is_whole: true, cell: |row| money_at(row, "/sums/reopened") },
    TableColumn { head: "SETTLED", is_whole: true, cell: |row| money_at(row, "/sums/settled") },
    TableColumn { head: "FAILED", is_whole: true, cell: |row| money_at(row, "/sums/failed") },
    TableColumn { head: "RETURNED", is_whole: true, cell: |row| money_at(row, "/sums/returned") },
    TableColumn { head: "NOT EXECUTED", is_whole: true, cell: |row| money_at(row, "/sums/notExecuted") },
    TableColumn { head: "SAID NOT EXECUTED", is_whole: true, cell: |row| money_at(row, "/sums/absent") },
    TableColumn { head: "GIVEN UP", is_whole: true, cell: |row| money_at(row, "/sums/givenUp") },
    TableColumn { head: "OPEN", is_whole: true, cell: |row| money_at(row, "/sums/open") },
    TableColumn { head: "UNKNOWN", is_whole: true, cell: |row| money_at(row, "/sums/unknown") },
    TableColumn { head: "FOREIGN", is_whole: true, cell: |row| money_at(row, "/sums/foreign") },
];
