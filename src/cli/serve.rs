//! `sluice serve`: runs the gate.

use anyhow::{Context as _, bail};
use clap::Args;

use super::{Ending, Sources};
use crate::console::Console;
use crate::gateway::process::{Addresses, Process};
use crate::telemetry;

/// Run the gate
///
/// Every address is bound before anything is served: a taken one ends the process at once. SIGTERM and Ctrl-C end
/// it in order: `/readyz` fails, listeners close, what runs is waited for.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    sources: Sources,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    let loaded = match arguments.sources.load() {
        Ok(loaded) => loaded,
        Err(findings) => {
            for finding in &findings {
                eprintln!("{finding}");
            }
            bail!("the gate does not start with these errors; `sluice check` tells them too");
        }
    };
    let _log = telemetry::init(&loaded.config.log);
    for warning in &loaded.warnings {
        tracing::warn!(%warning, "configuration");
    }
    let policies = (loaded.folder, loaded.policies);
    let process =
        Process::start(&loaded.config, loaded.catalog, policies, Console::new).context("the gate cannot start")?;
    announce(process.addresses());
    process.serve()?;
    tracing::info!("ended");
    Ok(Ending::Done)
}

fn announce(addresses: &Addresses) {
    for (environment, address) in &addresses.environments {
        tracing::info!(%environment, %address, "listening for callers");
    }
    if let Some(address) = addresses.console {
        tracing::info!(%address, "listening for people");
    }
    tracing::info!(address = %addresses.probes, "listening for probes");
}
