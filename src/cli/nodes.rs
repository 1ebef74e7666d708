//! `sluice nodes`: lists the gates that share the store, retires one with its journal, and declares one gone.

mod retire;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::ExitReason;
use super::console::{ConsoleCall, ConsoleOptions};
use super::output::{TableColumn, text_at};
use super::pages::EnvironmentArg;
use super::pages::list_as_table;

/// List the gates that share the store; retire one with its journal, or declare one gone
#[derive(Debug, Args)]
#[command(arg_required_else_help = true)]
pub(super) struct NodesArgs {
    #[command(subcommand)]
    what: NodesCommand,
}

#[derive(Debug, Subcommand)]
enum NodesCommand {
    List(ListNodesArgs),
    Retire(retire::RetireArgs),
    Gone(GoneArgs),
}

/// List the gates that share the store, when each was heard, and whether it may still hold outcomes
#[derive(Debug, Args)]
struct ListNodesArgs {
    #[command(flatten)]
    way: ConsoleOptions,
}

/// Declare a gate and its journal gone for good
///
/// Takes two people with the role `operator`. Afterwards the store takes nothing from that gate but proofs that a call
/// was executed, and calls that it sent can be resolved as not executed. First stop the gate, and make sure that its
/// `audit.folder` is lost: as long as it or a copy exists, start the gate again, or retire it (`sluice nodes retire`).
#[derive(Debug, Args)]
struct GoneArgs {
    #[command(flatten)]
    way: ConsoleOptions,
    /// The environment
    #[arg(long, value_enum)]
    environment: EnvironmentArg,
    /// The gate and its journal, as `sluice nodes list` or a refused resolution shows them
    #[arg(value_name = "NODE/JOURNAL")]
    gate: String,
    /// The reason; it is kept in the audit log
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

pub(super) fn run(arguments: &NodesArgs) -> anyhow::Result<ExitReason> {
    match &arguments.what {
        NodesCommand::List(list) => list.way.ask_for_rows(&ConsoleCall::get("nodes"), Some("nodes"), |answer| {
            list_as_table(answer, "nodes", &NODE_COLUMNS, "No gate has registered.")
        }),
        NodesCommand::Retire(retire) => retire.run(),
        NodesCommand::Gone(gone) => gone.run(),
    }
}

impl GoneArgs {
    fn run(&self) -> anyhow::Result<ExitReason> {
        let parts = self.gate.split_once('/');
        let (node, journal) = parts.with_context(|| format!("`{}` is not NODE/JOURNAL", self.gate.escape_debug()))?;
        if node.is_empty() || journal.is_empty() {
            bail!("`{}` is not NODE/JOURNAL: `sluice nodes list` shows both", self.gate.escape_debug());
        }
        let environment = self.environment.as_str();
        let body = json!({ "environment": environment, "node": node, "journal": journal, "reason": self.reason });
        self.way.ask(&ConsoleCall::post("nodes/gone", body), |answer| match answer["gone"].as_bool() {
            Some(true) => "Declared gone by two people: its calls can be resolved as not executed.\n".to_owned(),
            _ => "Recorded. The gate is not gone until one more person confirms it.\n".to_owned(),
        })
    }
}

const NODE_COLUMNS: [TableColumn; 4] = [
    TableColumn { head: "ENVIRONMENT", is_whole: false, cell: |node| text_at(node, "/environment") },
    TableColumn { head: "GATE", is_whole: true, cell: gate },
    TableColumn { head: "HEARD", is_whole: false, cell: |node| text_at(node, "/at") },
    TableColumn { head: "STATE", is_whole: false, cell: state },
];

/// Returns the gate and its journal, as `sluice nodes gone` takes them.
fn gate(node: &Value) -> String {
    format!("{}/{}", text_at(node, "/node"), text_at(node, "/journal"))
}

fn state(node: &Value) -> String {
    let open = node.get("openFrom").and_then(Value::as_u64);
    let open = open.map_or_else(|| "-".to_owned(), |from| format!("works on attempts from {from} on"));
    if node["gone"] == true { "gone".to_owned() } else { open }
}
