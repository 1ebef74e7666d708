//! Starts, pins and ends the proxies, and reads the CPU time that they took.

use crate::token::{ISSUER, SECRET};
use std::io::{self, BufRead as _, BufReader};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{self, Command, Stdio};

use anyhow::{Context as _, bail};
use serde_json::Value;
use tempfile::TempDir;

/// What the gate says of the address that it listens on; the bare proxy says it in the same words.
const LISTENING: &str = "listening for callers";
/// Nanoseconds of a tick, the unit of CPU time in `/proc`: USER_HZ is 100 on every Linux.
const TICK_NANOS: u64 = 10_000_000;
const PROXY_CORE: &str = "0";
const LOAD_CORE: &str = "1";

/// Whether programs can be held on one core.
#[derive(Debug)]
pub(crate) struct Pinning {
    cores: usize,
    has_taskset: bool,
}

impl Pinning {
    pub(crate) fn of_this_machine() -> Pinning {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let asked = Command::new("taskset").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        Pinning { cores, has_taskset: asked.is_ok_and(|status| status.success()) }
    }

    pub(crate) fn pin_this_process(&self) {
        if self.is_possible() {
            let own = process::id().to_string();
            let status = Command::new("taskset").args(["-acp", LOAD_CORE, &own]).stdout(Stdio::null()).status();
            if !status.is_ok_and(|status| status.success()) {
                eprintln!("the load cannot be pinned to core {LOAD_CORE}");
            }
        }
    }

    /// What is to be said beside the figures.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.has_taskset {
            remarks.push("taskset (util-linux) is missing: nothing is pinned, and the figures are rough".to_owned());
        }
        if self.cores < 2 {
            remarks.push("there is one core only: nothing is pinned, and the figures are rough".to_owned());
        }
        remarks
    }

    fn is_possible(&self) -> bool {
        self.has_taskset && self.cores >= 2
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = if self.is_possible() {
            // It becomes the program, and keeps its process id.
            let mut command = Command::new("taskset");
            command.args(["-c", PROXY_CORE]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }
}

/// A proxy that listens; it ends with this value.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    process: Running,
    _folder: Option<TempDir>,
}

#[derive(Debug)]
struct Running(process::Child);

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.0.kill().and_then(|()| self.0.wait()) {
            eprintln!("process {} cannot be ended: {error}", self.0.id());
        }
    }
}

impl Child {
    pub(crate) fn bare(pinning: &Pinning, upstream: SocketAddr) -> anyhow::Result<Child> {
        let mut command = pinning.command(&std::env::current_exe()?);
        Child::start("bare proxy", command.arg("bare").arg(upstream.to_string()), None)
    }

    /// The gate as it is shipped: one thread, and its log on.
    pub(crate) fn gate(
        pinning: &Pinning,
        program: &Path,
        upstream: SocketAddr,
        sections: &str,
    ) -> anyhow::Result<Child> {
        let folder = TempDir::new()?;
        let file = folder.path().join("sluice.toml");
        std::fs::create_dir(folder.path().join("policies"))?;
        let rule = "[[rule]]\nid = \"everything\"\neffect = \"allow\"\nwhen = { op = \"*\" }\n";
        std::fs::write(folder.path().join("policies/everything.toml"), rule)?;
        let written = format!(
            "policies = \"policies\"\n[sandbox]\nlisten = \"127.0.0.1:0\"\nupstream = \"http://{upstream}\"\n[probes]\nlisten = \"127.0.0.1:0\"\n\
             [log]\nformat = \"json\"\n[server]\nthreads = 1\n\
             [issuer.bench]\nissuer = \"{ISSUER}\"\naudience = [\"sluice\"]\nenvironments = [\"sandbox\"]\n\
             algorithms = [\"HS256\"]\nshared_secret = \"{SECRET}\"\n{sections}"
        );
        std::fs::write(&file, written)?;
        Child::configured(pinning, program, folder)
    }

    /// A gate by the `sluice.toml` of this folder.
    pub(crate) fn configured(pinning: &Pinning, program: &Path, folder: TempDir) -> anyhow::Result<Child> {
        let file = folder.path().join("sluice.toml");
        let mut command = pinning.command(program);
        Child::start("gate", command.args(["serve", "--config"]).arg(&file), Some(folder))
    }

    fn start(name: &'static str, command: &mut Command, folder: Option<TempDir>) -> anyhow::Result<Child> {
        let mut process = Running(command.spawn().with_context(|| format!("the {name} cannot be started"))?);
        let mut out = BufReader::new(process.0.stdout.take().context("standard output is not a pipe")?);
        let mut line = String::new();
        let address = loop {
            line.clear();
            if out.read_line(&mut line)? == 0 {
                bail!("the {name} ended before it listened");
            }
            if let Some(address) = announced(&line) {
                break address;
            }
        };
        // What it says from now on is read, as a collector of logs would, and thrown away.
        std::thread::spawn(move || io::copy(&mut out, &mut io::sink()));
        Ok(Child { name, address, process, _folder: folder })
    }

    /// The CPU time that the process took so far, all its threads together, in user and in system.
    pub(crate) fn cpu_nanos(&self) -> anyhow::Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.0.id()))?;
        // The name, which may hold anything, stands in brackets; utime and stime are the 14th and the 15th field.
        let (_, fields) = stat.rsplit_once(") ").context("a process without a state")?;
        let ticks: Vec<u64> = fields.split(' ').skip(11).take(2).map(str::parse).collect::<Result<_, _>>()?;
        Ok(ticks.iter().sum::<u64>().saturating_mul(TICK_NANOS))
    }
}

/// Says where this program listens, as the gate does.
pub(crate) fn announce(address: SocketAddr) {
    println!("{}", serde_json::json!({ "message": LISTENING, "address": address.to_string() }));
}

fn announced(line: &str) -> Option<SocketAddr> {
    let line: Value = serde_json::from_str(line).ok()?;
    (line.get("message")? == LISTENING).then(|| line.get("address")?.as_str()?.parse().ok())?
}
