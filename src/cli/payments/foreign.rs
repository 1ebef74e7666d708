//! `sluice payments foreign`: lists payments that upstream shows and no gate sent, or that are not as they were sent.

use clap::Args;
use serde_json::Value;

use super::{amount_of, minute_of};
use crate::base::visible::visible;
use crate::cli::ExitReason;
use crate::cli::console::{ConsoleCall, ConsoleOptions};
use crate::cli::output::{TableColumn, text_at};
use crate::cli::pages::{EnvironmentArg, list_as_table};

/// List payments that the payments API shows and no gate sent, or that are not as they were sent
///
/// Of the last 35 days, the latest first. Find out who made each: somebody pays past the gate, or the gate lost its
/// memory.
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
        let environment = self.environment.map(|environment| environment.as_str().to_owned());
        let ask = ConsoleCall::get("payments/foreign").with("environment", environment);
        self.way.ask_for_rows(&ask, Some("payments"), |answer| {
            let table = list_as_table(answer, "payments", &COLUMNS, "No foreign payments are known.");
            format!("{table}{}", unread_lists(answer))
        })
    }
}

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
