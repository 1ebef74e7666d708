//! `sluice operations`: which calls there are.

use clap::Args;

use super::{Ending, Sources, print, read_contract};
use crate::catalog::{Catalog, Claim, Operation};

/// List the operations of the contract as a table
///
/// Only these can leave. An operation that is off exists once `[catalog] enable` lists it.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    sources: Sources,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    let (_, catalog) = read_contract(arguments.sources.schemas.as_deref(), &[])
        .map_err(|findings| anyhow::anyhow!(findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))?;
    print(&table(&catalog))?;
    Ok(Ending::Done)
}

/// The table, in Markdown.
fn table(catalog: &Catalog) -> String {
    let head = "| operation | call | class | named by | what it does |\n|---|---|---|---|---|\n";
    catalog.operations().iter().fold(head.to_owned(), |table, operation| table + &row(operation))
}

fn row(operation: &Operation) -> String {
    let off = if operation.enabled { "" } else { " (off as shipped)" };
    let claim = match &operation.claim {
        None => "–".to_owned(),
        Some(Claim::Body(pointer)) => format!("`{}`", pointer.as_str().trim_start_matches('/')),
        Some(Claim::Path(names)) => names.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", "),
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
    fn the_table_in_the_readme_is_current() {
        let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
        // Wrong? Put what `sluice operations` prints into README.md.
        assert!(include_str!("../../README.md").contains(&table(&catalog)), "{}", table(&catalog));
    }
}
