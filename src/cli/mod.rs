//! The command line: what is asked for, and what the answer is as text and exit code.
//!
//! The only place, with the adapters, that reads the environment and files: [`world`] gives them to those that
//! may not. A new command is a module, a variant of [`Command`] and a line in [`run`].

mod approvals;
mod audit;
mod check;
mod console;
mod demo;
mod doctor;
mod freeze;
mod hold;
mod init;
mod metrics;
mod operations;
mod pages;
mod policies;
mod policy;
mod requests;
mod serve;
mod sessions;
mod simulate;
mod stand_ins;
mod store;
mod token;
mod watch;
mod webhook;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, Parser, Subcommand};

use crate::adapters::policies::{LoadedPolicies, PolicyFolder};
use crate::base::digest::Fingerprint;
use crate::base::finding::{Finding, Severity};
use crate::base::secret::Secret;
use crate::catalog::{Catalog, SchemaFiles, completeness};
use crate::config::{self, Config, World};

/// The gate between an organization's own services and a stablecoin payments API.
#[derive(Debug, Parser)]
#[command(
    name = "sluice",
    version,
    arg_required_else_help = true,
    after_help = EXIT_CODES
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Approvals(approvals::Arguments),
    Audit(audit::Arguments),
    Demo(demo::Arguments),
    Doctor(doctor::Arguments),
    Freeze(freeze::Freeze),
    Freezes(freeze::Freezes),
    Unfreeze(freeze::Unfreeze),
    Init(init::Arguments),
    Metrics(metrics::Arguments),
    Check(check::Arguments),
    Operations(operations::Arguments),
    Policy(policy::Arguments),
    Requests(requests::Arguments),
    Serve(serve::Arguments),
    Sessions(sessions::Arguments),
    Simulate(simulate::Simulate),
    Store(store::Arguments),
    Token(token::Arguments),
    Webhook(webhook::Arguments),
}

/// How a command ended that could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Done,
    /// `check`, `serve`, `policy` or `audit verify` found something.
    Faulty,
    /// `doctor` found something that a person should look at.
    Unwell,
    /// The console, or a webhook, did not do it, and the reason is told.
    Refused,
    /// A part of the gate died while it served.
    Died,
    /// The gate ended before all that it was doing had ended.
    Cut,
}

/// What a command that could not do its work ends with; clap's own, where it is not understood, is 2.
const FAILED: u8 = 1;
const EXIT_CODES: &str = "Exit codes:
  0  done; a gate: it ended in order, and all that it was doing had ended
  1  it could not be done, and standard error says why; `doctor` found something
  2  the command line is wrong
  3  `check`, `policy` or `audit verify` found something; a gate: what it reads at a start is faulty
  4  the console, or a webhook, refused
  5  a gate: a part of it died, so that it ended in order; start it again
  6  a gate: it ended before its work had: a second signal, or `timeouts.grace_ms` was over";

impl Ending {
    fn code(self) -> u8 {
        match self {
            Ending::Done => 0,
            Ending::Unwell => FAILED,
            Ending::Faulty => 3,
            Ending::Refused => 4,
            Ending::Died => 5,
            Ending::Cut => 6,
        }
    }
}

/// Does what the command line asks for.
pub fn run(cli: Cli) -> anyhow::Result<Ending> {
    match cli.command {
        Command::Approvals(arguments) => approvals::run(&arguments),
        Command::Audit(arguments) => audit::run(arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Freeze(freeze) => freeze.run(),
        Command::Freezes(freezes) => freezes.run(),
        Command::Unfreeze(unfreeze) => unfreeze.run(),
        Command::Requests(arguments) => requests::run(&arguments),
        Command::Init(arguments) => init::run(&arguments),
        Command::Metrics(arguments) => metrics::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Operations(arguments) => operations::run(&arguments),
        Command::Policy(arguments) => policy::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Sessions(arguments) => sessions::run(&arguments),
        Command::Store(arguments) => store::run(&arguments),
        Command::Token(arguments) => token::run(arguments),
        Command::Webhook(arguments) => webhook::run(&arguments),
        Command::Simulate(simulate) => simulate.run().map(|()| Ending::Done).map_err(anyhow::Error::msg),
    }
}

/// The exit code, after an error has been told in plain words.
pub fn exit_code(ended: anyhow::Result<Ending>) -> ExitCode {
    match ended {
        Ok(ending) => ExitCode::from(ending.code()),
        Err(error) => {
            eprintln!("sluice: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

/// Which configuration and which contract, for commands that need them.
#[derive(Clone, Debug, Default, Args)]
pub struct Sources {
    /// The configuration file [default: the variable SLUICE_CONFIG, else sluice.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The folder of a contract to use instead of the built-in or configured one
    #[arg(long, value_name = "DIR")]
    pub schemas: Option<PathBuf>,
}

/// What a gate runs on.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    pub files: SchemaFiles,
    pub catalog: Arc<Catalog>,
    pub folder: PolicyFolder,
    pub policies: LoadedPolicies,
    pub warnings: Vec<Finding>,
    /// The settings that are written, each with a digest.
    pub written: BTreeMap<String, Fingerprint>,
    /// What was looked at besides the policies: files, and folders of files.
    pub looked_at: Vec<PathBuf>,
}

impl Sources {
    pub fn config_file(&self) -> PathBuf {
        let named = || std::env::var_os("SLUICE_CONFIG").map(PathBuf::from);
        self.config.clone().or_else(named).unwrap_or_else(|| PathBuf::from("sluice.toml"))
    }

    /// Reads configuration and contract, or tells everything that is wrong with either.
    pub fn load(&self) -> Result<Loaded, Vec<Finding>> {
        let read = read_config(&self.config_file());
        let configured = read.as_ref().ok().map(|reading| &reading.config.catalog);
        let schemas = self.schemas.as_deref().or(configured.and_then(|catalog| catalog.schemas.as_deref()));
        let contract = complete_contract(schemas, configured.map_or(&[], |catalog| catalog.enable.as_slice()));
        let in_schemas = folders_of(schemas);
        match (read, contract) {
            (Ok(reading), Ok((files, catalog))) => {
                let config::Reading { config, warnings, written, files: named } = reading;
                let looked_at = [vec![self.config_file()], named, in_schemas].concat();
                let file = self.config_file().display().to_string();
                let catalog = Arc::new(catalog.with_further(&config.catalog.further, &file)?);
                let folder = PolicyFolder::of(&config, catalog.clone(), &file);
                match folder.and_then(|folder| Ok((folder.load()?, folder))) {
                    Ok((policies, folder)) => {
                        let warnings = warnings.into_iter().chain(policies.warnings.iter().cloned()).collect();
                        Ok(Loaded { config, files, catalog, folder, policies, warnings, written, looked_at })
                    }
                    Err(findings) => Err(warnings.into_iter().chain(findings).collect()),
                }
            }
            (Ok(reading), Err(findings)) => Err(reading.warnings.into_iter().chain(findings).collect()),
            (Err(findings), Ok(_)) => Err(findings),
            (Err(findings), Err(more)) => Err(findings.into_iter().chain(more).collect()),
        }
    }
}

/// The environment and the files of this process.
pub fn world<'w>() -> World<'w> {
    let environment = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
    World { environment, read_file: &|path| fs::read(path), is_folder: &|path| fs::read_dir(path).is_ok() }
}

/// A contract that has all it needs. The built-in one was complete when it was built in.
fn complete_contract(folder: Option<&Path>, enable: &[String]) -> Result<(SchemaFiles, Catalog), Vec<Finding>> {
    let (files, catalog) = read_contract(folder, enable)?;
    let missing = folder.map_or_else(Vec::new, |_| in_folder(folder, completeness(&files, &catalog)));
    if missing.is_empty() { Ok((files, catalog)) } else { Err(missing) }
}

/// A contract from a folder, or the built-in one; names of files in findings have the folder before them.
pub fn read_contract(folder: Option<&Path>, enable: &[String]) -> Result<(SchemaFiles, Catalog), Vec<Finding>> {
    let files = match folder {
        Some(folder) => read_schemas(folder).map_err(|finding| vec![finding])?,
        None => SchemaFiles::built_in(),
    };
    let catalog = Catalog::build(&files, enable).map_err(|findings| in_folder(folder, findings))?;
    Ok((files, catalog))
}

/// The files of a contract: the JSON files of a folder and of the folders in it.
pub fn read_schemas(folder: &Path) -> Result<SchemaFiles, Finding> {
    let mut files = SchemaFiles::default();
    gather(folder, "", &mut files).map_err(|error| {
        Finding::error(&folder.display().to_string(), format!("the contract cannot be read: {error}"))
            .remedy("name a folder with `openapi.json` and the schema files that it refers to")
    })?;
    Ok(files)
}

/// A folder, all folders in it, and their files.
fn folders_of(folder: Option<&Path>) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = folder.map(Path::to_owned).into_iter().collect();
    let mut at = 0;
    while let Some(entries) = all.get(at).map(fs::read_dir) {
        all.extend(entries.into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())));
        at += 1;
    }
    all
}

fn gather(folder: &Path, prefix: &str, files: &mut SchemaFiles) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if path.is_dir() {
            gather(&path, &format!("{prefix}{name}/"), files)?;
        } else if name.ends_with(".json") {
            files.insert(&format!("{prefix}{name}"), fs::read(&path)?);
        }
    }
    Ok(())
}

fn read_config(file: &Path) -> Result<config::Reading, Vec<Finding>> {
    let name = file.display().to_string();
    let text = fs::read(file).map_err(|error| {
        vec![
            Finding::error(&name, format!("the configuration cannot be read: {error}"))
                .remedy("name it with `--config FILE`, or write a first one with `sluice init`"),
        ]
    })?;
    let text =
        String::from_utf8(text).map_err(|_| vec![Finding::error(&name, "the configuration is not text in UTF-8")])?;
    config::read(&text, &name, &world())
}

fn in_folder(folder: Option<&Path>, findings: Vec<Finding>) -> Vec<Finding> {
    let Some(folder) = folder else { return findings };
    let named = |finding: Finding| Finding { file: folder.join(&finding.file).display().to_string(), ..finding };
    findings.into_iter().map(named).collect()
}

/// A secret that nobody can guess: 384 bits, as 64 characters; long enough for every algorithm with a shared secret.
fn random_secret() -> anyhow::Result<Secret> {
    let mut bytes = [0; 48];
    aws_lc_rs::rand::fill(&mut bytes).ok().context("the system gives no random bytes")?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
}

/// Writes to standard output; a reader that went away is an error, not a panic.
fn print(text: &str) -> anyhow::Result<()> {
    io::stdout().write_all(text.as_bytes()).context("standard output cannot be written")
}

fn is_error(finding: &Finding) -> bool {
    finding.severity == Severity::Error
}
