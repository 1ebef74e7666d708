//! `sluice policy`: a folder of policies, read and tested without a gate.

mod candidate;
mod diff;
mod mutate;
mod replay;
mod setting;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::check::{self, Output};
use super::console::{Ask, Way};
use super::freeze::Environment;
use super::{Ending, is_error, print, read_contract};
use crate::adapters::policies::placed;
use crate::base::finding::Finding;
use crate::catalog::Catalog;
use crate::policy::{Explanation, Reading, Reason, Tried, schema};
use setting::{Names, Setting};

/// Read and test a folder of policies
///
/// A gate that runs on another folder, or on none, hears nothing of it.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say everything that is wrong with the policies, and what is odd about them
    ///
    /// Invariants are proved, or broken by a request that is shown; rules that are about nothing, have no effect or
    /// change nothing are warned of, and amounts that are left out. Ends with 3 if there are errors.
    Check(On),
    /// Run every `[[test]]` of the policies
    ///
    /// Ends with 3 if one of them fails, or if the policies have errors.
    Test(On),
    /// Say what a new folder does otherwise, each with an example, and whether it only tightens
    Diff(diff::Arguments),
    /// Change the policies in small ways, and list the changes that their own tests do not notice
    ///
    /// Changes that make no difference to any request are told apart, if that is proved. Ends with 3 if a change that
    /// may make one is not noticed.
    Mutate(On),
    /// Make recorded decisions again by a new folder, limits included, and say which would be others
    ///
    /// Works on audit files alone, of one gate or of many; what they do not keep is counted as not decided.
    Replay(replay::Arguments),
    /// Show what limits have used, as a running gate counts it
    ///
    /// The fullest first. Takes any role of the console.
    Usage {
        #[command(flatten)]
        way: Way,
        /// Of one environment alone
        #[arg(long, value_enum)]
        environment: Option<Environment>,
        /// Of one limit alone
        #[arg(long, value_name = "ID")]
        limit: Option<String>,
    },
    /// Show the policies that wait until two people agree: what they do otherwise, and what they would have decided
    ///
    /// Takes any role of the console.
    Candidate {
        #[command(flatten)]
        way: Way,
    },
    /// Agree that the policies that wait take force
    ///
    /// Two people must, on the same version. Takes the role `policy-admin`.
    Agree(candidate::Agree),
    /// Print the JSON Schema of the language, for editors
    ///
    /// Written to a file, it is named in the first line of a file of policies: `#:schema schema.json`.
    Schema {
        /// The folder of a contract to use instead of the built-in one
        #[arg(long, value_name = "DIR")]
        schemas: Option<PathBuf>,
    },
    /// Say what becomes of a request, by which rules, and which nearly were about it
    Explain {
        #[command(flatten)]
        on: On,
        /// The request, as a `[[test]]` gives it: `op = "createSwap", amount = "5 usdc"`
        #[arg(long, value_name = "FIELDS")]
        given: String,
    },
}

/// The name that findings in `--given` have.
const GIVEN: &str = "--given";

#[derive(Debug, Args)]
struct On {
    /// The folder with the TOML files
    folder: PathBuf,
    #[command(flatten)]
    setting: Setting,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    match &arguments.command {
        Command::Check(on) => {
            let (version, findings) = match on.read(None) {
                Ok((names, reading)) => {
                    let version = reading.policies.version().to_owned();
                    (Some(version), on.odd(&names, reading))
                }
                Err(findings) => (None, findings),
            };
            checked(on, version.as_deref(), &findings)
        }
        Command::Test(on) => match on.read(None) {
            Ok((names, reading)) => tested(on, &names.catalog, &reading),
            Err(findings) => told(on, &findings),
        },
        Command::Diff(arguments) => diff::run(arguments),
        Command::Mutate(on) => mutate::run(on),
        Command::Replay(arguments) => replay::run(arguments),
        Command::Usage { way, environment, limit } => {
            let environment = environment.map(|environment| environment.as_str().to_owned());
            let ask = Ask::get("usage").with("environment", environment).with("limit", plain(limit.as_deref())?);
            way.ask(&ask, used)
        }
        Command::Candidate { way } => candidate::show(way),
        Command::Agree(agree) => agree.run(),
        Command::Schema { schemas } => match read_contract(schemas.as_deref(), &[]) {
            Ok((_, catalog)) => {
                print(&format!("{:#}\n", schema(&catalog)))?;
                Ok(Ending::Done)
            }
            Err(findings) => {
                print(&check::told(&findings, Output::Lines))?;
                Ok(ending(&findings))
            }
        },
        Command::Explain { on, given } => match on.read(Some(given)) {
            Ok((names, reading)) => explained(on, &names.catalog, &reading),
            Err(findings) => told(on, &findings),
        },
    }
}

impl On {
    fn read(&self, given: Option<&String>) -> Result<(Names, Reading), Vec<Finding>> {
        let names = self.setting.names()?;
        let reading = names.read(&self.folder, given)?;
        Ok((names, reading))
    }

    /// What may be wrong with a set that can be read: tests of its own that fail, and what is odd.
    fn odd(&self, names: &Names, reading: Reading) -> Vec<Finding> {
        let failures = reading.policies.failures(&names.catalog);
        let odd = names.with(|known| reading.policies.oddities(known));
        placed(&self.folder, reading.warnings.into_iter().chain(failures).chain(odd).collect())
    }
}

/// What is wrong; of a set that could be read, its version too.
fn checked(on: &On, version: Option<&str>, findings: &[Finding]) -> anyhow::Result<Ending> {
    print(&match on.setting.output {
        Output::Lines => {
            let version = version.map_or_else(String::new, |version| format!("version {version}\n"));
            format!("{}{version}", check::told(findings, on.setting.output))
        }
        Output::Json => {
            let mut told = check::as_json(findings);
            if let (Some(members), Some(version)) = (told.as_object_mut(), version) {
                members.insert("version".to_owned(), version.into());
            }
            format!("{told}\n")
        }
    })?;
    Ok(ending(findings))
}

/// An id, which goes into an address as it is.
fn plain(limit: Option<&str>) -> anyhow::Result<Option<String>> {
    let is_plain = |id: &str| id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if let Some(other) = limit.filter(|limit| !is_plain(limit)) {
        bail!("`{other}` is no id of a limit: those are made of `a-z`, `0-9` and `-`");
    }
    Ok(limit.map(str::to_owned))
}

fn used(answer: &Value) -> String {
    let all = answer.get("usage").and_then(Value::as_array).into_iter().flatten();
    let text = |one: &Value, name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut lines: Vec<String> =
        all.map(|one| format!("{}  {}\n", text(one, "environment"), text(one, "words"))).collect();
    if lines.is_empty() {
        lines.push("nothing is used of any limit\n".to_owned());
    }
    if answer.get("more").and_then(Value::as_bool) == Some(true) {
        lines.push("there is more: ask for one limit with `--limit`\n".to_owned());
    }
    lines.concat()
}

fn told(on: &On, findings: &[Finding]) -> anyhow::Result<Ending> {
    print(&check::told(findings, on.setting.output))?;
    Ok(ending(findings))
}

fn ending(findings: &[Finding]) -> Ending {
    if findings.iter().any(is_error) { Ending::Faulty } else { Ending::Done }
}

fn tested(on: &On, catalog: &Catalog, reading: &Reading) -> anyhow::Result<Ending> {
    let policies = &reading.policies;
    let tried: Vec<Tried<'_>> =
        policies.trials.iter().filter_map(|trial| trial.run(&policies.rules, catalog)).collect();
    print(&match on.setting.output {
        Output::Lines => lines(&on.folder, &tried),
        Output::Json => format!("{}\n", as_json(&on.folder, &tried)),
    })?;
    Ok(if tried.iter().all(|tried| tried.is_passed) { Ending::Done } else { Ending::Faulty })
}

fn explained(on: &On, catalog: &Catalog, reading: &Reading) -> anyhow::Result<Ending> {
    let policies = &reading.policies;
    let asked = policies.trials.iter().find(|trial| trial.file == GIVEN);
    let tried = asked.and_then(|trial| trial.run(&policies.rules, catalog)).context("nothing is given")?;
    let (verdict, near) = (&tried.verdict, tried.near.as_slice());
    let (counts, used) = (verdict.reservations.as_slice(), BTreeMap::new());
    let explanation = Explanation { rules: &policies.rules, verdict, near, counts, used: &used };
    print(&match on.setting.output {
        Output::Lines => explanation.to_string(),
        Output::Json => format!("{}\n", explanation.as_json()),
    })?;
    Ok(Ending::Done)
}

fn lines(folder: &Path, tried: &[Tried<'_>]) -> String {
    let failed: Vec<_> = tried.iter().filter(|tried| !tried.is_passed).collect();
    let mut text = String::new();
    for Tried { trial, verdict, .. } in &failed {
        let (line, column) = trial.place;
        let file = folder.join(&trial.file);
        let (expected, found) = (trial.expect.as_str(), verdict.effect.as_str());
        text.push_str(&format!("failed: {}:{line}:{column}: `{expected}` is expected", file.display()));
        let by: Vec<&str> = trial.by.iter().map(String::as_str).collect();
        if !by.is_empty() {
            text.push_str(&format!(" by {}", by.join(", ")));
        }
        text.push_str(&format!(", and it is `{found}`\n"));
        for reason in &verdict.reasons {
            text.push_str(&format!("  {}: {}\n", reason.cause, reason.text));
        }
    }
    let passed = tried.len().saturating_sub(failed.len());
    format!("{text}{passed} passed, {} failed\n", failed.len())
}

fn as_json(folder: &Path, tried: &[Tried<'_>]) -> Value {
    let test = |Tried { trial, verdict, is_passed, .. }: &Tried<'_>| {
        let (line, column) = trial.place;
        let reason = |r: &Reason| json!({"effect": r.effect.as_str(), "cause": r.cause.to_string(), "text": r.text});
        json!({
            "file": folder.join(&trial.file).display().to_string(),
            "place": format!("{line}:{column}"),
            "passed": is_passed,
            "expected": trial.expect.as_str(),
            "found": verdict.effect.as_str(),
            "reasons": verdict.reasons.iter().map(reason).collect::<Vec<_>>(),
            "approvals": verdict.approvals.iter().map(|name| name.as_ref()).collect::<Vec<_>>(),
        })
    };
    let passed = tried.iter().filter(|tried| tried.is_passed).count();
    let failed = tried.len().saturating_sub(passed);
    json!({"tests": tried.iter().map(test).collect::<Vec<_>>(), "passed": passed, "failed": failed})
}
