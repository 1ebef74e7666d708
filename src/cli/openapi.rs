//! `sluice openapi`: prints the contract of a gate as one document for machines.

use clap::Args;

use super::{ExitReason, Sources, print, read_config, read_contract};
use crate::base::finding::Finding;
use crate::catalog::Catalog;
use crate::cli::check::findings_as;
use crate::cli::output::OutputFormat;

/// Print the contract of a gate as one OpenAPI document, for generators of clients
///
/// The document has the operations that are on, and all that the gate adds: held calls, holds, headers, codes and examples.
/// A running gate serves the same to its callers, at /sluice/v1/openapi.json.
#[derive(Debug, Args)]
pub(super) struct OpenapiArgs {
    #[command(flatten)]
    sources: Sources,
}

pub(super) fn run(arguments: &OpenapiArgs) -> anyhow::Result<ExitReason> {
    let catalog =
        catalog(&arguments.sources).map_err(|findings| anyhow::anyhow!(findings_as(&findings, OutputFormat::Table)))?;
    print(&(String::from_utf8_lossy(catalog.document()).into_owned() + "\n"))?;
    Ok(ExitReason::Done)
}

/// Reads the contract that the configuration names, or without one the built-in contract or that of `--schemas`.
fn catalog(sources: &Sources) -> Result<Catalog, Vec<Finding>> {
    let (schemas, enable) = match sources.config.as_deref().map(read_config).transpose()? {
        Some(reading) => (reading.config.catalog.schemas, reading.config.catalog.enable),
        None => (None, Vec::new()),
    };
    let schemas = sources.schemas.clone().or(schemas);
    Ok(read_contract(schemas.as_deref(), &enable)?.1)
}
