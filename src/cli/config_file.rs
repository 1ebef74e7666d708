//! `sluice config`: the settings that are in force, and the schema of the configuration file.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::check::findings_as;
use super::output::{OutputFormat, TableColumn, table, text_at};
use super::{ExitReason, Sources, print, read_config};
use crate::config::{self, SettingInForce};

/// Show the settings that are in force, or the schema of the configuration file
#[derive(Debug, Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    Show(ShowArgs),
    Schema(SchemaArgs),
}

/// Show every setting that has a value, and where the value came from
///
/// A value comes from an environment variable, from the file, or by default, in this order. Secrets are not shown, only where
/// they are. `sluice init --reference` explains every setting.
#[derive(Debug, Args)]
struct ShowArgs {
    /// Only settings that are written in the file or set by a variable
    #[arg(long)]
    written: bool,
    /// The form of the output
    #[arg(long, value_enum, default_value = "table")]
    output: OutputFormat,
    #[command(flatten)]
    sources: Sources,
}

/// Print the JSON Schema of the configuration file, for editors
///
/// An editor that knows TOML completes and checks the settings while you write. Name the file of the schema in the first line of
/// the configuration: `#:schema sluice.schema.json`.
#[derive(Debug, Args)]
struct SchemaArgs {}

pub(super) fn run(arguments: &ConfigArgs) -> anyhow::Result<ExitReason> {
    match &arguments.command {
        ConfigCommand::Show(arguments) => show(arguments),
        ConfigCommand::Schema(SchemaArgs {}) => {
            print(&format!("{:#}\n", config::schema()))?;
            Ok(ExitReason::Done)
        }
    }
}

fn show(arguments: &ShowArgs) -> anyhow::Result<ExitReason> {
    let read = match read_config(&arguments.sources.config_file()) {
        Ok(read) => read,
        Err(findings) => {
            print(&findings_as(&findings, arguments.output))?;
            return Ok(ExitReason::Faulty);
        }
    };
    let is_shown = |setting: &&SettingInForce| !arguments.written || setting.from != "default";
    let rows: Vec<Value> = read.in_force.iter().filter(is_shown).map(row).collect();
    let text =
        arguments.output.text(|| table(&COLUMNS, &rows), || json!({ "settings": rows.clone() }), Some("settings"));
    print(&text)?;
    Ok(ExitReason::Done)
}

fn row(setting: &SettingInForce) -> Value {
    json!({ "setting": setting.setting, "value": setting.value, "from": setting.from })
}

const COLUMNS: [TableColumn; 3] = [
    TableColumn { head: "SETTING", is_whole: true, cell: |row| text_at(row, "/setting") },
    TableColumn { head: "VALUE", is_whole: false, cell: |row| text_at(row, "/value") },
    TableColumn { head: "FROM", is_whole: true, cell: |row| text_at(row, "/from") },
];
