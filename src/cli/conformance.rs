//! `sluice conformance`: calls a sandbox with harmless reads and with requests that cannot be valid, and compares its
//! answers with the contract.

mod client;
mod following;
mod probes;
mod report;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{anyhow, bail};
use clap::Args;
use tokio::runtime::Runtime;

use self::client::ProbeClient;
use self::following::FollowTrial;
use self::probes::probes;
use self::report::ConformanceReport;
use super::output::OutputFormat;
use super::pages::EnvironmentArg;
use super::{ExitReason, Sources, print};
use crate::base::ids::Environment;
use crate::config::{Config, EnvironmentConfig};

/// Compare a sandbox of the payments API with the contract
///
/// Sends harmless reads and requests that cannot be valid: broken bodies, unknown ids, an invalid token. Nothing of it can
/// move money, and production is refused. Reports statuses, error codes, header names and answers that break the contract,
/// and proposes entries for `notExecuted`. It also tells which of the facts that following payments relies on the sandbox
/// bears out. Bodies are not printed.
///
/// The token is the environment's `credential`, otherwise that of `--token-file`. Exits with 3 if an answer breaks the
/// contract, an invalid request was accepted, or a fact differs.
#[derive(Debug, Args)]
pub(super) struct ConformanceArgs {
    #[command(flatten)]
    sources: Sources,
    /// The environment, which is never production
    #[arg(long, value_enum)]
    environment: EnvironmentArg,
    /// A file with a token for the sandbox, where the environment has no `credential`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// How long to wait for each answer
    #[arg(long, default_value_t = 10_000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    timeout_ms: u64,
    /// How long to wait between the two readings of the lists of payments, so that states may change
    #[arg(long, default_value_t = 0, value_name = "SECS", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    watch_secs: u64,
    /// The requestId of a payment that you made in the sandbox, which its list should show; may be repeated
    #[arg(long = "request-id", value_name = "ID")]
    request_ids: Vec<String>,
    /// Text for people, or JSON or CSV for programs
    #[arg(long, value_enum, default_value = "table")]
    output: OutputFormat,
}

pub(super) fn run(arguments: &ConformanceArgs) -> anyhow::Result<ExitReason> {
    if arguments.environment.as_str() != Environment::Sandbox.as_str() {
        bail!("`conformance` never calls production; use `--environment sandbox`");
    }
    let loaded = arguments.sources.load().map_err(|findings| {
        let lines: Vec<String> = findings.iter().filter(|one| one.is_error()).map(ToString::to_string).collect();
        anyhow!("the configuration cannot be used; `sluice check` shows more:\n{}", lines.join("\n"))
    })?;
    let sandbox = sandbox(&loaded.config)?;
    let client = ProbeClient::new(
        sandbox,
        arguments.token_file.as_deref(),
        Duration::from_millis(arguments.timeout_ms),
        loaded.config.limits.answer_bytes,
    )?;
    let mut report = ConformanceReport::new(client.base().to_owned());
    Runtime::new()?.block_on(async {
        let trial = FollowTrial::begin(&loaded.catalog, &client).await;
        for probe in probes(&loaded.catalog) {
            // An operation that accepts what cannot be valid is left alone from then on.
            if report.has_accepted(&probe.operation) {
                continue;
            }
            let answer = client.send(&probe).await;
            report.add(&probe, answer);
        }
        tokio::time::sleep(Duration::from_secs(arguments.watch_secs)).await;
        report.facts = trial.end(&loaded.catalog, &client, &arguments.request_ids).await;
    });
    if report.is_unreachable() {
        bail!("`{}` gave no answer: {}", client.base(), report.first_failure());
    }
    print(&arguments.output.text(|| report.lines(), || report.json(), Some("answers")))?;
    Ok(if report.conforms() { ExitReason::Done } else { ExitReason::Faulty })
}

/// Returns the sandbox, if its host is not that of production.
fn sandbox(config: &Config) -> anyhow::Result<&EnvironmentConfig> {
    let of = |environment| config.environments.iter().find(|one| one.environment == environment);
    let sandbox = of(Environment::Sandbox).ok_or_else(|| anyhow!("the configuration has no `[sandbox]`: add one"))?;
    let address = |one: &EnvironmentConfig| (one.upstream.host.clone(), one.upstream.port);
    match of(Environment::Production) {
        Some(production) if address(production) == address(sandbox) => {
            bail!("`sandbox.upstream` is on the host and port of `production.upstream`: give the sandbox its own")
        }
        Some(_) | None => Ok(sandbox),
    }
}
