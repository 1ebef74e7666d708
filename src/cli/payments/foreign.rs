//! `sluice payments foreign`: lists payments that upstream shows and no gate sent, or that are not as they were sent.

use clap::Args;
use serde_json::{Value, json};

use super::{amount_of, minute_of};
use crate::base::visible::visible;
use crate::cli::console::{ConsoleCall, ConsoleOptions, refusal};
use crate::cli::output::{OutputFormat, TableColumn, text_at};
use crate::cli::pages::{EnvironmentArg, list_as_table};
use crate::cli::{ExitReason, complain, print};

/// List payments that the payments API shows and no gate sent, or that are not as they were sent
///
/// All of the last 35 days: those that were found last first, and of one reading those that were made last. Find out who made
/// each: somebody pays past the gate, or the gate lost its memory.
#[derive(Debug, Args)]
pub(super) struct ForeignPaymentsArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    /// Only this environment
    #[arg(long, value_enum)]
    environment: Option<EnvironmentArg>,
}

impl ForeignPaymentsArgs {
    pub(super) fn run(&self) -> anyhow::Result<ExitReason> {
        let (mut payments, mut after) = (Vec::new(), None);
        let lists = loop {
            let environment = self.environment.map(|environment| environment.as_str().to_owned());
            let ask = ConsoleCall::get("payments/foreign").with("environment", environment);
            let ask = ask.with("limit", Some(PAGE.to_owned())).with("after", after);
            let (status, mut answer) = self.way.send(&ask)?;
            if status != 200 && self.way.output == OutputFormat::Json {
                print(&self.way.output.text(String::new, || answer.clone(), None))?;
                return Ok(ExitReason::Refused);
            }
            if status != 200 {
                complain(format_args!("sluice: {}", refusal(status, &answer)));
                return Ok(ExitReason::Refused);
            }
            if let Some(page) = answer.get_mut("payments").and_then(Value::as_array_mut) {
                payments.append(page);
            }
            after = answer.get("next").and_then(Value::as_str).map(str::to_owned);
            if after.is_none() {
                break answer.get("lists").cloned();
            }
        };
        let all = json!({ "payments": payments, "lists": lists });
        let words = || {
            let table = list_as_table(&all, "payments", &COLUMNS, "No foreign payments are known.");
            format!("{table}{}", unread_lists(&all))
        };
        print(&self.way.output.text(words, || all.clone(), Some("payments")))?;
        Ok(ExitReason::Done)
    }
}

/// The payments of one answer.
const PAGE: &str = "100";

/// Names upstream's lists that no gate reads now: nobody looks for such payments there.
fn unread_lists(answer: &Value) -> String {
    let lists = answer["lists"].as_array().into_iter().flatten();
    let unread = lists.filter(|list| list["read"] != true);
    let name = |list: &Value| {
        format!(
            "No gate reads the list of {} in {} now: such payments are not found there.\n",
            text_at(list, "/operation"),
            text_at(list, "/environment")
        )
    };
    visible(&unread.map(name).collect::<String>()).replace("\\u{A}", "\n")
}

const COLUMNS: [TableColumn; 7] = [
    TableColumn { head: "FOUND", is_whole: true, cell: |row| minute_of(row, "/foundAt") },
    TableColumn { head: "ENVIRONMENT", is_whole: false, cell: |row| text_at(row, "/environment") },
    TableColumn { head: "RECORD", is_whole: true, cell: |row| text_at(row, "/record") },
    TableColumn { head: "PROBLEM", is_whole: true, cell: |row| text_at(row, "/problem") },
    TableColumn { head: "AMOUNT", is_whole: true, cell: |row| amount_of(&row["source"]) },
    TableColumn { head: "STATE", is_whole: false, cell: |row| text_at(row, "/state") },
    TableColumn { head: "REQUEST", is_whole: false, cell: |row| text_at(row, "/requestId") },
];
