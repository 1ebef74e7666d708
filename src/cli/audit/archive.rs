//! `sluice audit archive`: moves finished files to an archive, and keeps a manifest of them.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use serde_json::json;

use super::super::{ExitReason, print};
use crate::adapters::audit::{archive, audit_files};
use crate::cli::complain;
use crate::cli::output::OutputFormat;
use crate::ledger::NodeId;

/// Move finished audit files to an archive
///
/// A gate writes a snapshot of its store beside its audit files when one of them ends, and names it in the next file. This
/// command moves the files that the newest such snapshot stands for: neither a rebuild nor a running gate needs them. Each
/// file is copied, its copy is read again, and `audit-<node>.archived.jsonl` names it, before it is removed. The command
/// may run while the gate runs; after an interruption, run it again.
#[derive(Debug, Args)]
pub(super) struct AuditArchiveArgs {
    /// The audit folder
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// The folder of the archive; created if it does not exist
    #[arg(long, value_name = "FOLDER")]
    to: PathBuf,
    /// Text for people, or JSON or CSV for programs
    #[arg(long, value_enum, default_value = "table")]
    output: OutputFormat,
}

pub(super) fn run(arguments: &AuditArchiveArgs) -> anyhow::Result<ExitReason> {
    let AuditArchiveArgs { folder, to, output } = arguments;
    let files = audit_files(folder).with_context(|| format!("`{}` cannot be read", folder.display()))?;
    let mut nodes: Vec<NodeId> = files.into_iter().map(|file| file.node).collect();
    nodes.dedup();
    if nodes.is_empty() {
        bail!("no audit files were found in `{}`; their names are audit-<node>-<number>.jsonl", folder.display());
    }
    let (mut words, mut rows) = (String::new(), Vec::new());
    for node in nodes {
        let archived = archive(folder, &node, to, &mut |path| complain(format_args!("moved `{}`", path.display())))?;
        let count = archived.moved;
        words.push_str(&match archived.needed_from {
            None => format!("{node}: no file was moved: the gate has named no snapshot yet\n"),
            Some(first) => {
                format!("{node}: moved {count} files to `{}`; a rebuild needs those from {first} on\n", to.display())
            }
        });
        if let Some(file) = archived.covered_up_to {
            words.push_str(&format!(
                "{node}: files from {file} on stay, because the newest checkpoint ends there: see the gate's log for why it makes no newer one\n"
            ));
        }
        let (from, up_to) = (archived.needed_from, archived.covered_up_to);
        rows.push(json!({ "node": node.as_str(), "moved": count, "neededFrom": from, "coveredUpTo": up_to }));
    }
    print(&output.text(|| words, || json!({ "nodes": rows }), Some("nodes")))?;
    Ok(ExitReason::Done)
}
