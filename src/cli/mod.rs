//! The command line: parses arguments, runs a command, and prints its result and exit code.
//!
//! Apart from the adapters, only this module reads the environment and files; [`world`] passes them to modules that
//! must not read them. A new command is a module, a variant of [`Command`] and a line in [`run`].

mod approvals;
mod arguments;
mod audit;
mod check;
mod config_file;
mod confirm;
mod contract_folder;
mod conformance;
mod console;
mod create_store;
mod demo;
mod descriptor_limit;
mod doctor;
mod examples;
mod exposed_files;
mod freeze;
mod hold;
mod init;
mod metrics;
mod openapi;
mod operations;
mod output;
mod pages;
mod passkeys;
mod policies;
mod payments;
mod policy;
mod progress;
mod nodes;
mod recovery;
mod requests;
mod secret_contents;
mod serve;
mod sessions;
mod shell;
mod sign;
mod simulate;
mod stand_ins;
mod store;
mod token;
mod unfit_settings;
mod watch;
mod webhook;
mod witness;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use clap::{Args, FromArgMatches as _, Parser, Subcommand};
use ring::signature::Ed25519KeyPair;
use zeroize::Zeroizing;

use self::contract_folder::{folders_of, schema_files};
use crate::adapters::machine::forbid_core_dumps;
use crate::adapters::policies::{LoadedPolicies, PolicyFolder};
use crate::adapters::random;
use crate::adapters::regular_file::{read_regular, read_regular_text};
use crate::base::digest::Fingerprint;
use crate::base::ed25519;
use crate::base::finding::Finding;
use crate::base::secret::Secret;
use crate::base::visible::visible_lines;
use crate::catalog::{Catalog, SchemaFiles, completeness};
use crate::config::{self, Config, ConfigWorld};

/// A policy gateway between an organization's own services and a stablecoin payments API
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

impl Cli {
    /// Parses the arguments of this process; prints help or an error and ends where they ask for it or are wrong.
    pub fn of_arguments() -> Cli {
        let matches = examples::command_line().get_matches();
        Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    Approvals(approvals::ApprovalsArgs),
    Audit(audit::AuditArgs),
    Config(config_file::ConfigArgs),
    Conformance(conformance::ConformanceArgs),
    Demo(demo::DemoArgs),
    Doctor(doctor::DoctorArgs),
    Freeze(freeze::FreezeArgs),
    Freezes(freeze::Freezes),
    Unfreeze(freeze::Unfreeze),
    Init(init::InitArgs),
    Metrics(metrics::MetricsArgs),
    Check(check::CheckArgs),
    Completions(shell::CompletionsArgs),
    Man(shell::ManArgs),
    Openapi(openapi::OpenapiArgs),
    Operations(operations::OperationsArgs),
    Passkeys(passkeys::PasskeysArgs),
    Payments(Box<payments::PaymentsArgs>),
    Policy(policy::PolicyArgs),
    Recovery(recovery::RecoveryArgs),
    Requests(requests::RequestsArgs),
    Nodes(nodes::NodesArgs),
    Serve(serve::ServeArgs),
    Sessions(sessions::SessionsArgs),
    Simulate(simulate::Simulate),
    Witness(witness::WitnessArgs),
    Store(store::StoreArgs),
    Token(token::TokenArgs),
    Webhook(webhook::WebhookArgs),
}

/// How a command ended that was able to do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    Done,
    /// `check`, `serve`, `policy`, `conformance`, `audit verify` or `payments verify` found errors.
    Faulty,
    /// `doctor` found a problem, while money moves.
    Unwell,
    /// `doctor` found that money is closed.
    MoneyClosed,
    /// `doctor` could not find out everything.
    Uncertain,
    /// The console or a webhook refused, and the reason was printed.
    Refused,
    /// A part of the gate failed while it served.
    Died,
    /// The gate ended before its work was finished.
    Cut,
}

/// The reader of standard output went away, as `head` does: there is nobody to tell.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("nobody reads the output any more")]
struct ClosedOutput;

/// The exit code of a program that a closed pipe ends, as shells know it.
const CLOSED_OUTPUT: u8 = 141;
/// The exit code of a command that failed; clap uses 2 for a wrong command line.
const FAILED: u8 = 1;
const EXIT_CODES: &str = "Exit codes:
    0  success; `serve`: the gate ended regularly and finished its work
    1  failure, described on standard error
    2  the command line is wrong
    3  `check`, `policy`, `conformance`, `audit verify` or `payments verify` found errors; `serve`: the files it reads have errors
    4  the console or a webhook refused
    5  `serve`: a part of the gate failed, and the gate ended; start it again
    6  `serve`: the gate was cut off: a second signal came, or `timeouts.grace_ms` was over
    7  `doctor`: there are problems, but money moves
    8  `doctor`: money is closed in an environment
    9  `doctor`: something could not be found out";

impl ExitReason {
    fn code(self) -> u8 {
        match self {
            ExitReason::Done => 0,
            ExitReason::Faulty => 3,
            ExitReason::Refused => 4,
            ExitReason::Died => 5,
            ExitReason::Cut => 6,
            ExitReason::Unwell => 7,
            ExitReason::MoneyClosed => 8,
            ExitReason::Uncertain => 9,
        }
    }
}

/// Runs the command.
pub fn run(cli: Cli) -> anyhow::Result<ExitReason> {
    forbid_core_dumps().context("core dumps cannot be forbidden")?;
    match cli.command {
        Command::Approvals(arguments) => approvals::run(&arguments),
        Command::Audit(arguments) => audit::run(arguments),
        Command::Config(arguments) => config_file::run(&arguments),
        Command::Conformance(arguments) => conformance::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Freeze(freeze) => freeze.run(),
        Command::Freezes(freezes) => freezes.run(),
        Command::Unfreeze(unfreeze) => unfreeze.run(),
        Command::Passkeys(arguments) => passkeys::run(&arguments),
        Command::Payments(arguments) => payments::run(&arguments),
        Command::Recovery(arguments) => recovery::run(&arguments),
        Command::Requests(arguments) => requests::run(&arguments),
        Command::Nodes(arguments) => nodes::run(&arguments),
        Command::Init(arguments) => init::run(&arguments),
        Command::Metrics(arguments) => metrics::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
        Command::Completions(arguments) => shell::completions(&arguments),
        Command::Man(arguments) => shell::man(&arguments),
        Command::Openapi(arguments) => openapi::run(&arguments),
        Command::Operations(arguments) => operations::run(&arguments),
        Command::Policy(arguments) => policy::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Sessions(arguments) => sessions::run(&arguments),
        Command::Store(arguments) => store::run(&arguments),
        Command::Token(arguments) => token::run(arguments),
        Command::Webhook(arguments) => webhook::run(&arguments),
        Command::Witness(arguments) => witness::run(&arguments),
        Command::Simulate(simulate) => simulate.run().map(|()| ExitReason::Done).map_err(anyhow::Error::msg),
    }
}

/// Returns the exit code, after printing the error if there is one.
pub fn exit_code(ended: anyhow::Result<ExitReason>) -> ExitCode {
    match ended {
        Ok(ending) => ExitCode::from(ending.code()),
        Err(error) if error.is::<ClosedOutput>() => ExitCode::from(CLOSED_OUTPUT),
        Err(error) => {
            complain(format_args!("sluice: {error:#}"));
            ExitCode::from(FAILED)
        }
    }
}

/// The configuration and the contract, for commands that need them.
#[derive(Clone, Debug, Default, Args)]
pub struct Sources {
    /// The configuration file [default: the environment variable SLUICE_CONFIG, otherwise sluice.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A contract folder to use instead of the built-in or configured contract
    #[arg(long, value_name = "DIR")]
    pub schemas: Option<PathBuf>,
}

/// Everything that a gate starts with.
#[derive(Debug)]
pub struct Loaded {
    pub config: Config,
    pub files: SchemaFiles,
    pub catalog: Arc<Catalog>,
    pub folder: PolicyFolder,
    pub policies: LoadedPolicies,
    pub warnings: Vec<Finding>,
    /// The settings of the file, each with a digest.
    pub written: BTreeMap<String, Fingerprint>,
    /// The files and folders that were read besides the policies.
    pub looked_at: Vec<PathBuf>,
    /// The files among them that contain secrets.
    pub secret_files: Vec<PathBuf>,
}

impl Sources {
    pub fn config_file(&self) -> PathBuf {
        let named = || std::env::var_os("SLUICE_CONFIG").map(PathBuf::from);
        self.config.clone().or_else(named).unwrap_or_else(|| PathBuf::from("sluice.toml"))
    }

    /// Reads configuration, contract and policies; returns every error if there is one.
    pub fn load(&self) -> Result<Loaded, Vec<Finding>> {
        let read = read_config(&self.config_file());
        let configured = read.as_ref().ok().map(|reading| &reading.config.catalog);
        let schemas = self.schemas.as_deref().or(configured.and_then(|catalog| catalog.schemas.as_deref()));
        let contract = complete_contract(schemas, configured.map_or(&[], |catalog| catalog.enable.as_slice()));
        let in_schemas = folders_of(schemas);
        match (read, contract) {
            (Ok(reading), Ok((files, catalog))) => {
                let config::ConfigReading { config, warnings, written, files: named, secret_files, in_force: _ } =
                    reading;
                let looked_at = [vec![self.config_file()], named, in_schemas].concat();
                let file = self.config_file().display().to_string();
                let catalog = Arc::new(catalog.with_further(&config.catalog.further, &file)?);
                let folder = PolicyFolder::of(&config, catalog.clone(), &file);
                match folder.and_then(|folder| Ok((folder.load()?, folder))) {
                    Ok((policies, folder)) => {
                        let warnings = warnings.into_iter().chain(policies.warnings.iter().cloned()).collect();
                        Ok(Loaded {
                            config,
                            files,
                            catalog,
                            folder,
                            policies,
                            warnings,
                            written,
                            looked_at,
                            secret_files,
                        })
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

/// Returns access to the environment and the files of this process.
pub fn world<'w>() -> ConfigWorld<'w> {
    let environment = std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect();
    ConfigWorld { environment, read_file: &read_regular, is_folder: &|path| fs::read_dir(path).is_ok() }
}

/// Reads a contract and checks that it is complete. The built-in contract was checked when it was built in.
fn complete_contract(folder: Option<&Path>, enable: &[String]) -> Result<(SchemaFiles, Catalog), Vec<Finding>> {
    let (files, catalog) = read_contract(folder, enable)?;
    let missing = folder.map_or_else(Vec::new, |_| in_folder(folder, completeness(&files, &catalog)));
    if missing.is_empty() { Ok((files, catalog)) } else { Err(missing) }
}

/// Reads a contract from a folder, or the built-in one; findings name files with the folder's path.
pub fn read_contract(folder: Option<&Path>, enable: &[String]) -> Result<(SchemaFiles, Catalog), Vec<Finding>> {
    let files = match folder {
        Some(folder) => read_schemas(folder).map_err(|finding| vec![finding])?,
        None => SchemaFiles::built_in(),
    };
    let catalog = Catalog::build(&files, enable).map_err(|findings| in_folder(folder, findings))?;
    Ok((files, catalog))
}

/// Reads the JSON files of a contract folder and its subfolders.
pub fn read_schemas(folder: &Path) -> Result<SchemaFiles, Finding> {
    schema_files(folder).map_err(|error| {
        Finding::error(&folder.display().to_string(), format!("the contract cannot be read: {error}"))
            .remedy("name a folder that contains `openapi.json` and the schema files that it refers to")
    })
}

fn read_config(file: &Path) -> Result<config::ConfigReading, Vec<Finding>> {
    config::parse_config(&read_config_text(file)?, &file.display().to_string(), &world())
}

fn read_config_text(file: &Path) -> Result<String, Vec<Finding>> {
    let name = file.display().to_string();
    let text = read_regular(file).map_err(|error| {
        vec![
            Finding::error(&name, format!("the configuration cannot be read: {error}"))
                .remedy("name the file with `--config FILE`, or write a first configuration with `sluice init`"),
        ]
    })?;
    String::from_utf8(text).map_err(|_| vec![Finding::error(&name, "the configuration is not UTF-8 text")])
}

fn in_folder(folder: Option<&Path>, findings: Vec<Finding>) -> Vec<Finding> {
    let Some(folder) = folder else { return findings };
    let named = |finding: Finding| Finding { file: folder.join(&finding.file).display().to_string(), ..finding };
    findings.into_iter().map(named).collect()
}

/// Reads a file that an argument names. A pipe, a device or an endless file is refused: nobody waits for it.
fn read_named_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    read_regular(path).with_context(|| format!("`{}` cannot be read", path.display()))
}

/// Reads the text of such a file.
fn read_named_text(path: &Path) -> anyhow::Result<String> {
    read_regular_text(path).with_context(|| format!("`{}` cannot be read", path.display()))
}

/// Generates a random secret: 384 bits as 64 characters, long enough for every algorithm with a shared secret.
fn random_secret() -> anyhow::Result<Secret> {
    let bytes = random::bytes::<48>().context("the system provides no random bytes")?;
    Ok(Secret::new(URL_SAFE_NO_PAD.encode(bytes)))
}

/// Generates a key pair; returns it with its private key as the text of a PEM file.
fn new_ed25519_key() -> anyhow::Result<(Secret, Ed25519KeyPair)> {
    let seed = Zeroizing::new(random::bytes::<32>().context("the system provides no random bytes")?);
    let private = ed25519::to_pem(&seed);
    let pair = ed25519::of_pem(private.reveal().as_bytes()).context("a key cannot be generated")?;
    Ok((private, pair))
}

/// Writes a file that nobody wrote before; on disk when this returns.
fn write_new_file(path: &Path, mode: u32, text: &str) -> anyhow::Result<()> {
    let failed = || format!("`{}` cannot be written; an existing file is never overwritten", path.display());
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path).with_context(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).with_context(failed)
}

/// Writes text to standard output, with its invisible characters made visible; a closed pipe ends the command quietly.
fn print(text: &str) -> anyhow::Result<()> {
    print_exactly(&visible_lines(text))
}

/// Writes a line to standard error; invisible characters are shown by their numbers.
fn complain(text: fmt::Arguments<'_>) {
    eprintln!("{}", visible_lines(&text.to_string()));
}

/// Writes text to standard output as it is.
fn print_exactly(text: &str) -> anyhow::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(ClosedOutput.into()),
        written => written.context("cannot write to standard output"),
    }
}

fn configuration_error(findings: &[Finding]) -> anyhow::Error {
    let lines: Vec<String> = findings.iter().filter(|finding| finding.is_error()).map(Finding::to_string).collect();
    anyhow::anyhow!("the configuration cannot be used:\n{}", lines.join("\n"))
}
