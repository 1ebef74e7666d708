//! `sluice serve`: runs the gate.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use super::exposed_files::exposed_files;
use super::{ExitReason, Loaded, Sources};
use crate::adapters::inherited_sockets::HandedOver;
use crate::adapters::supervisor::Supervisor;
use crate::cli::complain;
use crate::serve::process::{Addresses, Process, ServeEnd, StartInputs};
use crate::serve::{ReadAgain, StartConfig};
use crate::telemetry;

/// Run the gate
///
/// Every address is bound before anything is served: if one is in use, the process ends at once. Listening sockets that
/// are passed in (`LISTEN_FDS`, as systemd does) are used for the addresses that they listen on.
///
/// SIGTERM and Ctrl-C end the gate regularly: `/readyz` fails for `timeouts.notice_secs`, waiting callers get the
/// state of their call, listeners close, and running requests finish; a second signal ends the gate at once. SIGHUP
/// reloads policies, contract, certificates, keys and credentials, which the gate also does when their files change.
/// The service manager of `NOTIFY_SOCKET` is told the gate's state.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    sources: Sources,
}

pub(super) fn run(arguments: &ServeArgs) -> anyhow::Result<ExitReason> {
    // This must run before a second thread exists.
    let handed = HandedOver::of_environment().context("an inherited listening socket cannot be used")?;
    let supervisor = supervisor().context("`NOTIFY_SOCKET` cannot be used")?;
    let loaded = match arguments.sources.load() {
        Ok(loaded) => loaded,
        Err(findings) => {
            for finding in &findings {
                complain(format_args!("{finding}"));
            }
            complain(format_args!("sluice: the gate does not start with these errors; `sluice check` shows them too"));
            return Ok(ExitReason::Faulty);
        }
    };
    let _log = telemetry::init(&loaded.config.log).context("the log cannot start")?;
    for warning in loaded.warnings.iter().chain(&exposed_files(&loaded)) {
        tracing::warn!(%warning, "configuration");
    }
    let sources = arguments.sources.clone();
    let read_again = ReadAgain(Arc::new(move || sources.load().map(start_config)));
    let given = StartInputs { read: start_config(loaded), read_again, handed, supervisor };
    let process = Process::start(given).context("the gate cannot start")?;
    log_addresses(process.addresses());
    let served = match process.serve() {
        Ok(served) => served,
        Err(died) => {
            tracing::error!("{died}");
            complain(format_args!("sluice: {died}"));
            return Ok(ExitReason::Died);
        }
    };
    tracing::info!("ended");
    Ok(match served {
        ServeEnd::Whole => ExitReason::Done,
        ServeEnd::Cut => ExitReason::Cut,
    })
}

/// Returns the service manager that the environment names, or one that does nothing.
fn supervisor() -> io::Result<Supervisor> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
        return Ok(Supervisor::default());
    };
    let text = |name| std::env::var_os(name).and_then(|value| value.into_string().ok());
    let is_ours = text("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
    let micros: Option<u64> = text("WATCHDOG_USEC").filter(|_| is_ours).and_then(|micros| micros.parse().ok());
    Supervisor::called(&name, micros.filter(|micros| *micros > 0).map(Duration::from_micros))
}

fn start_config(loaded: Loaded) -> StartConfig {
    let Loaded { config, folder, policies, written, looked_at: files, .. } = loaded;
    StartConfig { config, written, folder, policies, files }
}

fn log_addresses(addresses: &Addresses) {
    for (environment, address) in &addresses.environments {
        tracing::info!(%environment, %address, "listening for callers");
    }
    if let Some(address) = addresses.console {
        tracing::info!(%address, "listening for people");
    }
    tracing::info!(address = %addresses.probes, "listening for probes");
}
