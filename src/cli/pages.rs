//! Paging options and output that are the same for every list.

use clap::{Args, ValueEnum};
use serde_json::Value;

use super::console::ConsoleCall;
use super::output::{TableLayout, table};
use crate::base::word_enum::word_enum;

word_enum! {
    #[derive(Clone, Copy, Debug, ValueEnum)]
    pub(super) enum EnvironmentArg {
        Production = "production",
        Sandbox = "sandbox",
    }
}

#[derive(Debug, Args)]
pub(super) struct Pages {
    /// Only this environment
    #[arg(long, value_enum)]
    environment: Option<EnvironmentArg>,
    /// How many to list at most, up to 100
    #[arg(long)]
    limit: Option<u16>,
    /// Continue a list: the value that the previous page printed
    #[arg(long, value_name = "NEXT")]
    after: Option<String>,
}

impl Pages {
    pub fn of(&self, path: &str) -> ConsoleCall {
        ConsoleCall::get(path)
            .with("environment", self.environment.map(|environment| environment.as_str().to_owned()))
            .with("limit", self.limit.map(|limit| limit.to_string()))
            .with("after", self.after.clone())
    }
}

/// Formats a list as a table, followed by how to get the next page; returns `none` for an empty list.
pub(super) fn list_as_table<'c>(answer: &Value, name: &str, layout: impl Into<TableLayout<'c>>, none: &str) -> String {
    let rows = answer.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let more = answer["next"].as_str().map_or_else(String::new, |next| format!("more: --after {next}\n"));
    match (rows.is_empty(), more.is_empty()) {
        (true, true) => format!("{none}\n"),
        (true, false) => more,
        (false, _) => format!("{}{more}", table(layout, &rows)),
    }
}
