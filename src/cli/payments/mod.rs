//! `sluice payments`: lists payments with their sums, shows one, lists foreign ones, states a day, exports them and verifies an export.

mod export;
mod foreign;
mod joined;
mod sealed_export;
mod statement;
mod verify;

use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use super::ExitReason;
use super::arguments::{amount, day_or_time};
use super::console::{ConsoleCall, ConsoleOptions};
use super::output::{TableColumn, TableLayout, text_at};
use super::pages::{EnvironmentArg, list_as_table};
use crate::base::visible::visible;

/// List, show and export payments: every call that moves money, with its amount, ends, status and approvers
///
/// The console answers from the audit log of its gate, which has the entries of all gates. What you see depends on your
/// roles (`console.visible`).
#[derive(Debug, Args)]
pub(super) struct PaymentsArgs {
    #[command(subcommand)]
    what: PaymentsCommand,
}

#[derive(Debug, Subcommand)]
enum PaymentsCommand {
    List(ListPaymentsArgs),
    Show(ShowPaymentArgs),
    Foreign(foreign::ForeignPaymentsArgs),
    Statement(statement::PaymentStatementArgs),
    Export(export::ExportPaymentsArgs),
    Verify(verify::VerifyExportArgs),
}

/// What the payments of a list, of an export and of a statement have in common.
#[derive(Debug, Args)]
struct PaymentScopeArgs {
    /// Only this environment
    #[arg(long, value_enum)]
    environment: Option<EnvironmentArg>,
    /// Only calls of this operation (createSwap)
    #[arg(long)]
    operation: Option<String>,
    /// Only calls of this subject, as caller or as the person behind it
    #[arg(long, value_name = "SUBJECT")]
    caller: Option<String>,
    /// Only payments to this account, wallet or user, or to this list of the policies
    #[arg(long, value_name = "ADDRESS|LIST")]
    to: Option<String>,
    /// Only amounts in this currency
    #[arg(long)]
    currency: Option<String>,
}

/// Which payments.
#[derive(Debug, Args)]
struct PaymentFilterArgs {
    #[command(flatten)]
    scope: PaymentScopeArgs,
    /// Only payments with this status
    #[arg(long, value_name = "STATUS", value_parser = STATUSES)]
    status: Option<String>,
    /// Only amounts of this much or more
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    amount_from: Option<String>,
    /// Only amounts up to this
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    amount_to: Option<String>,
    /// Only payments decided on this day (UTC) or at this time, or later
    #[arg(long, value_name = "YYYY-MM-DD|TIME", value_parser = day_or_time)]
    from: Option<String>,
    /// Only payments decided up to the end of this day (UTC), or before this time
    #[arg(long, value_name = "YYYY-MM-DD|TIME", value_parser = day_or_time)]
    until: Option<String>,
    /// Only payments whose name, caller, approver, operation, rule, hold or list contains this text
    #[arg(long)]
    text: Option<String>,
}

const STATUSES: [&str; 12] = [
    "paid",
    "sending",
    "waiting",
    "unknown",
    "refused",
    "cancelled",
    "expired",
    "not-sent",
    "absent",
    "given-up",
    "failed",
    "returned",
];

/// List payments, the latest first, and the sums of all that match
///
/// In a narrow terminal the columns OPERATION, FROM and USD are left out. JSON and CSV have all of each payment; there `value`
/// is in millionths of a USD.
#[derive(Debug, Args)]
struct ListPaymentsArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    #[command(flatten)]
    filter: PaymentFilterArgs,
    /// The latest first, or the largest value first
    #[arg(long, value_enum, default_value = "time")]
    sort: PaymentSortArg,
    /// How many to list at most, up to 100
    #[arg(long)]
    limit: Option<u16>,
    /// Continue a list: the value that the previous page printed
    #[arg(long, value_name = "NEXT")]
    after: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PaymentSortArg {
    Time,
    Value,
}

/// Show one payment
#[derive(Debug, Args)]
struct ShowPaymentArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    /// The environment
    #[arg(long, value_enum)]
    environment: EnvironmentArg,
    /// Its requestId; or, for an operation named by its path, the operation and the path parameters:
    /// `acceptOffer:w-1:o-2`
    #[arg(value_name = "REQUEST", value_parser = request_name)]
    request: String,
}

fn request_name(text: &str) -> Result<String, String> {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-' | b':');
    let is_name = !text.is_empty() && text.bytes().all(is_plain);
    if is_name { Ok(text.to_owned()) } else { Err("not a requestId: use only `A-Za-z0-9._-`".to_owned()) }
}

pub(super) fn run(arguments: &PaymentsArgs) -> anyhow::Result<ExitReason> {
    match &arguments.what {
        PaymentsCommand::List(list) => list.run(),
        PaymentsCommand::Show(show) => {
            let path = format!("payments/{}/{}", show.environment.as_str(), show.request);
            show.way.ask(&ConsoleCall::get(path), in_words)
        }
        PaymentsCommand::Foreign(foreign) => foreign.run(),
        PaymentsCommand::Statement(statement) => statement.run(),
        PaymentsCommand::Export(export) => export.run(),
        PaymentsCommand::Verify(verify) => verify.run(),
    }
}

impl PaymentScopeArgs {
    /// The filters as the console names them.
    fn pairs(&self) -> impl Iterator<Item = (&'static str, String)> {
        let filters = [
            ("environment", self.environment.map(|environment| environment.as_str().to_owned())),
            ("operation", self.operation.clone()),
            ("caller", self.caller.clone()),
            ("destination", self.to.clone()),
            ("currency", self.currency.clone()),
        ];
        filters.into_iter().filter_map(|(name, value)| Some((name, value?)))
    }
}

impl PaymentFilterArgs {
    /// The filters as the console names them.
    fn pairs(&self) -> Vec<(&'static str, String)> {
        let filters = [
            ("status", self.status.clone()),
            ("amountFrom", self.amount_from.clone()),
            ("amountTo", self.amount_to.clone()),
            ("from", self.from.clone()),
            ("until", self.until.clone()),
            ("text", self.text.clone()),
        ];
        self.scope.pairs().chain(filters.into_iter().filter_map(|(name, value)| Some((name, value?)))).collect()
    }
}

impl ListPaymentsArgs {
    fn run(&self) -> anyhow::Result<ExitReason> {
        let mut ask = ConsoleCall::get("payments");
        for (name, value) in self.filter.pairs() {
            ask = ask.with_text(name, &value);
        }
        let sort = if self.sort == PaymentSortArg::Value { "value" } else { "time" };
        let ask = ask
            .with("sort", Some(sort.to_owned()))
            .with("limit", self.limit.map(|limit| limit.to_string()))
            .with("after", self.after.clone());
        self.way.ask_for_rows(&ask, Some("payments"), |answer| {
            let layout = TableLayout { columns: &PAYMENT_COLUMNS, spare: &["OPERATION", "FROM", "USD"] };
            let table = list_as_table(answer, "payments", layout, "No payments match.");
            let sums = answer["sums"].as_array().into_iter().flatten().map(sum_in_words);
            let since = answer["since"].as_str().map_or_else(String::new, |since| {
                format!(
                    "Only payments since {since} are counted: older ones are in the audit files of that time, which `sluice audit \
                     show` reads, or lost with them.\n"
                )
            });
            format!("{table}{}{since}", sums.collect::<String>())
        })
    }
}

/// Describes the sum of one status and currency.
fn sum_in_words(sum: &Value) -> String {
    let amount = match (sum["amount"].as_str(), sum["currency"].as_str()) {
        (Some(amount), Some(currency)) => format!("{amount} {}, ", currency.to_uppercase()),
        _ => String::new(),
    };
    let unvalued = match sum["unvalued"].as_u64() {
        Some(0) | None => String::new(),
        Some(count) => format!(" ({count} without a value)"),
    };
    let value = usd(sum["value"].as_str().and_then(|value| value.parse().ok()).unwrap_or(0));
    let calls = if sum["count"] == 1 { "call" } else { "calls" };
    visible(&format!(
        "sum  {} {}: {} {calls}, {amount}{value} USD{unvalued}\n",
        text_at(sum, "/environment"),
        text_at(sum, "/status"),
        sum["count"]
    ))
    .replace("\\u{A}", "\n")
}

/// Returns micro-USD as a decimal with at least two places.
fn usd(value: u128) -> String {
    let fraction = format!("{:06}", value.rem_euclid(1_000_000));
    let fraction = fraction.trim_end_matches('0');
    format!("{}.{fraction:0<2}", value.div_euclid(1_000_000))
}

const PAYMENT_COLUMNS: [TableColumn; 10] = [
    TableColumn { head: "WHEN (UTC)", is_whole: true, cell: |row| minute_of(row, "/at") },
    TableColumn { head: "STATUS", is_whole: true, cell: status_of },
    TableColumn { head: "AMOUNT", is_whole: true, cell: amount_of },
    TableColumn { head: "USD", is_whole: true, cell: value_of },
    TableColumn { head: "FROM", is_whole: false, cell: |row| party_of(&row["from"]) },
    TableColumn { head: "TO", is_whole: false, cell: |row| party_of(&row["to"]) },
    TableColumn { head: "CALLER", is_whole: false, cell: |row| text_at(row, "/owner/subject") },
    TableColumn { head: "APPROVED BY", is_whole: false, cell: approvers_of },
    TableColumn { head: "REQUEST", is_whole: true, cell: |row| text_at(row, "/name") },
    TableColumn { head: "OPERATION", is_whole: false, cell: |row| text_at(row, "/operation") },
];

/// Returns the status; a payment of the sandbox says so.
fn status_of(row: &Value) -> String {
    let status = text_at(row, "/status");
    if row["environment"] == "sandbox" { format!("{status}, sandbox") } else { status }
}

fn minute_of(row: &Value, pointer: &str) -> String {
    let text = text_at(row, pointer);
    text.get(.."2026-11-20T08:00".len()).map_or(text.clone(), |minute| minute.replace('T', " "))
}

fn amount_of(row: &Value) -> String {
    match (row["amount"].as_str(), row["currency"].as_str()) {
        (Some(amount), Some(currency)) => format!("{amount} {}", currency.to_uppercase()),
        (Some(amount), None) => amount.to_owned(),
        _ => "-".to_owned(),
    }
}

/// Returns the value in USD, where a rate gives one.
fn value_of(row: &Value) -> String {
    row["value"].as_u64().map_or_else(|| "-".to_owned(), |value| usd(value.into()))
}

/// Returns the lists of an end and its address.
fn party_of(party: &Value) -> String {
    let lists =
        party["lists"].as_array().into_iter().flatten().filter_map(Value::as_str).map(|list| format!("@{list}"));
    let name = party["name"].as_str().or(party["keyed"].as_str()).map(str::to_owned);
    let parts: Vec<String> = lists.chain(name).collect();
    if parts.is_empty() { "-".to_owned() } else { parts.join(" ") }
}

fn approvers_of(row: &Value) -> String {
    let people = row["approvedBy"].as_array().into_iter().flatten().filter_map(|person| person["subject"].as_str());
    let people: Vec<&str> = people.collect();
    if people.is_empty() { "-".to_owned() } else { people.join(", ") }
}

/// Describes one payment.
fn in_words(payment: &Value) -> String {
    let end_of = |party: &Value| match party["kind"].as_str() {
        Some(kind) => format!("{kind} {}", party_of(party)),
        None => "-".to_owned(),
    };
    let first = if payment["first"] == true { "yes, when this was decided" } else { "no, or no rule asked" };
    let rules: Vec<&str> = payment["rules"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let lines = [
        ("status", format!("{}: {}", text_at(payment, "/status"), text_at(payment, "/event"))),
        ("state", text_at(payment, "/state")),
        ("since", text_at(payment, "/changedAt")),
        ("amount", amount_of(payment)),
        ("value in USD", value_of(payment)),
        ("chain", text_at(payment, "/chain")),
        ("from", end_of(&payment["from"])),
        ("to", end_of(&payment["to"])),
        ("new destination", first.to_owned()),
        ("operation", text_at(payment, "/operation")),
        ("caller", format!("{}/{}", text_at(payment, "/owner/issuer"), text_at(payment, "/owner/subject"))),
        ("requester", text_at(payment, "/requester")),
        ("decided", text_at(payment, "/at")),
        ("by", rules.join(", ")),
        ("hold", text_at(payment, "/hold")),
        ("approved by", approvers_of(payment)),
        ("audit entry", payment["number"].to_string()),
    ];
    let name = format!("{} ({})\n", text_at(payment, "/name"), text_at(payment, "/environment"));
    let rows = lines.iter().map(|(name, text)| format!("  {name:<16} {}\n", visible(text)));
    format!("{name}{}", rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sum_is_exact_and_on_one_line() {
        let sum = json!({"environment": "production", "status": "paid", "currency": "usdc", "count": 2, "amount": "9007199254740993.10", "value": "1500000", "unvalued": 1});
        assert_eq!(
            sum_in_words(&sum),
            "sum  production paid: 2 calls, 9007199254740993.10 USDC, 1.50 USD (1 without a value)\n"
        );
        assert_eq!(usd(1_000_001), "1.000001");
    }

    #[test]
    fn a_payment_of_the_sandbox_says_so() {
        assert_eq!(status_of(&json!({"status": "paid", "environment": "sandbox"})), "paid, sandbox");
        assert_eq!(status_of(&json!({"status": "paid", "environment": "production"})), "paid");
    }

    #[test]
    fn an_end_is_told_by_its_lists_first() {
        assert_eq!(party_of(&json!({"name": "0xAB", "keyed": "#1", "lists": ["payouts"]})), "@payouts 0xAB");
        assert_eq!(party_of(&json!({"name": null, "keyed": "#1", "lists": []})), "#1");
        assert_eq!(party_of(&Value::Null), "-");
    }
}
