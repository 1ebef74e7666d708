//! `sluice operations`: lists the operations of the contract.

use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};

use super::output::OutputFormat;
use super::{ExitReason, Sources, print, read_contract};
use crate::catalog::{Catalog, ClaimSource, Operation};

/// List the operations of the contract as a table
///
/// The gate forwards only these. An operation that is off can be switched on in `[catalog] enable`.
#[derive(Debug, Args)]
pub(super) struct OperationsArgs {
    #[command(flatten)]
    sources: Sources,
    /// A Markdown table, JSON, or CSV
    #[arg(long, value_enum, default_value = "table")]
    output: OutputFormat,
}

pub(super) fn run(arguments: &OperationsArgs) -> anyhow::Result<ExitReason> {
    let (_, catalog) = read_contract(arguments.sources.schemas.as_deref(), &[])
        .map_err(|findings| anyhow::anyhow!(findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    print(&arguments.output.text(|| table(&catalog), || as_json(&catalog), Some("operations")))?;
    Ok(ExitReason::Done)
}

fn as_json(catalog: &Catalog) -> Value {
    let operation = |one: &Arc<Operation>| {
        json!({
            "operation": one.id.as_str(),
            "method": one.method.as_str(),
            "path": one.template.to_string(),
            "class": one.class.as_str(),
            "enabled": one.enabled,
            "summary": one.summary,
        })
    };
    json!({ "operations": catalog.operations().iter().map(operation).collect::<Vec<_>>() })
}

/// Formats the table in Markdown.
fn table(catalog: &Catalog) -> String {
    let head = "| operation | call | class | named by | what it does |\n|---|---|---|---|---|\n";
    catalog.operations().iter().fold(head.to_owned(), |table, operation| table + &row(operation))
}

fn row(operation: &Operation) -> String {
    let off = if operation.enabled { "" } else { " (off as shipped)" };
    let claim = match &operation.claim {
        None => "–".to_owned(),
        Some(ClaimSource::Body(pointer)) => format!("`{}`", pointer.as_str().trim_start_matches('/')),
        Some(ClaimSource::Path(names)) => names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", "),
    };
    format!(
        "| `{}`{off} | `{} {}` | {} | {claim} | {} |\n",
        operation.id,
        operation.method,
        operation.template,
        operation.class.as_str(),
        operation.summary
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::SchemaFiles;

    #[test]
    fn the_table_in_the_manual_is_current() {
        let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
        // To update the page: copy the output of `sluice operations` into deploy/docs/operations.md.
        assert!(include_str!("../../deploy/docs/operations.md").contains(&table(&catalog)), "{}", table(&catalog));
    }
}
