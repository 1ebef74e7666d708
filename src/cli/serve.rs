//! `sluice serve`: runs the gate.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use super::{Ending, Loaded, Sources};
use crate::adapters::handed_over::HandedOver;
use crate::adapters::supervisor::Supervisor;
use crate::console::Console;
use crate::gateway::process::{Addresses, Given, Process, Served};
use crate::gateway::{Read, ReadAgain};
use crate::telemetry;

/// Run the gate
///
/// Every address is bound before anything is served: a taken one ends the process at once. Listening sockets that are handed
/// over (`LISTEN_FDS`, as systemd does) are taken for the addresses that they listen on.
///
/// SIGTERM and Ctrl-C end it in order: `/readyz` fails for `timeouts.notice_secs`, who waits hears what is known, listeners
/// close, what runs is waited for; a second one ends it at once. SIGHUP reads policies, contract, certificates, keys and
/// credentials again, as a change of their files does by itself. `NOTIFY_SOCKET` is told how it is.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    sources: Sources,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    // Before there is a second thread.
    let handed = HandedOver::of_environment().context("a listening socket was handed over that cannot be used")?;
    let supervisor = supervisor().context("`NOTIFY_SOCKET` cannot be used")?;
    let loaded = match arguments.sources.load() {
        Ok(loaded) => loaded,
        Err(findings) => {
            for finding in &findings {
                eprintln!("{finding}");
            }
            eprintln!("sluice: the gate does not start with these errors; `sluice check` tells them too");
            return Ok(Ending::Faulty);
        }
    };
    let _log = telemetry::init(&loaded.config.log);
    for warning in &loaded.warnings {
        tracing::warn!(%warning, "configuration");
    }
    let sources = arguments.sources.clone();
    let read_again = ReadAgain(Arc::new(move || sources.load().map(read)));
    let given = Given { read: read(loaded), read_again, handed, supervisor };
    let process = Process::start(given, Console::new).context("the gate cannot start")?;
    announce(process.addresses());
    let served = match process.serve() {
        Ok(served) => served,
        Err(died) => {
            tracing::error!("{died}");
            eprintln!("sluice: {died}");
            return Ok(Ending::Died);
        }
    };
    tracing::info!("ended");
    Ok(match served {
        Served::Whole => Ending::Done,
        Served::Cut => Ending::Cut,
    })
}

/// Whom the environment names, if anybody.
fn supervisor() -> io::Result<Supervisor> {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
        return Ok(Supervisor::default());
    };
    let text = |name| std::env::var_os(name).and_then(|value| value.into_string().ok());
    let is_ours = text("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
    let micros: Option<u64> = text("WATCHDOG_USEC").filter(|_| is_ours).and_then(|micros| micros.parse().ok());
    Supervisor::called(&name, micros.filter(|micros| *micros > 0).map(Duration::from_micros))
}

fn read(loaded: Loaded) -> Read {
    let Loaded { config, folder, policies, written, looked_at: files, .. } = loaded;
    Read { config, written, folder, policies, files }
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
