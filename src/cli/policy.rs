//! `sluice policy`: reads, tests, compares and explains policies without a gate, and shows a gate's limits and
//! candidate.

mod candidate;
mod diff;
mod mutate;
mod replay;
mod setting;
mod table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::check;
use super::console::{ConsoleCall, ConsoleOptions};
use super::output::OutputFormat;
use super::pages::EnvironmentArg;
use super::{ExitReason, print, read_contract};
use crate::adapters::clock::SystemClock;
use crate::adapters::policies::placed;
use crate::base::finding::Finding;
use crate::catalog::Catalog;
use crate::ledger::StoreTime;
use crate::policy::{Explanation, PolicyReading, Reason, Tried, manual, schema};
use crate::ports::Clock as _;
pub(super) use setting::{PolicySetting, SettingNames};

/// Read, test, compare and explain policies
///
/// Except `usage`, `candidate` and `agree`, these commands read files only and do not affect a running gate.
#[derive(Debug, Args)]
pub(super) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
enum PolicyCommand {
    /// Check the policies, and report every error and every suspicious rule
    ///
    /// Invariants are proved, or refuted by an example request. Warnings name rules that match nothing, have no
    /// effect or change nothing, and amounts that no rule covers. Exits with 3 if there are errors.
    Check(On),
    /// Run every `[[test]]` of the policies
    ///
    /// Exits with 3 if a test fails, or if the policies have errors.
    Test(On),
    /// Compare two folders: show each change with an example, and whether anything is allowed more easily
    Diff(diff::PolicyDiffArgs),
    /// Show the largest amounts that pass with nobody, with one person, with two, by caller and destination
    ///
    /// Each figure is proved: a request of that amount passes like that, and none of a larger one. Limits that bind the
    /// operation stand below; their windows are taken as empty.
    Table(On),
    /// Change the policies in small ways, and list the changes that their tests do not catch
    ///
    /// Changes that are proved to make no difference are listed separately. Exits with 3 if the tests miss a change
    /// that may make a difference.
    Mutate(On),
    /// Repeat recorded decisions with a new folder, limits included, and show those that change
    ///
    /// Needs only audit files, of one gate or of many. Requests whose entries lack the necessary fields are counted
    /// as undecided.
    Replay(replay::PolicyReplayArgs),
    /// Show the usage of limits in a running gate
    ///
    /// The fullest come first: at most 1000, and the fullest of each limit. Takes any role of the console.
    Usage {
        #[command(flatten)]
        way: ConsoleOptions,
        /// Only this environment
        #[arg(long, value_enum)]
        environment: Option<EnvironmentArg>,
        /// Only this limit
        #[arg(long, value_name = "ID")]
        limit: Option<String>,
    },
    /// Show the policies that wait for two approvals: their changes, and how they would have decided
    ///
    /// Takes any role of the console.
    Candidate {
        #[command(flatten)]
        way: ConsoleOptions,
    },
    /// Approve the policies that wait for two approvals
    ///
    /// They come into force when two people have approved the same version. Takes the role `policy-admin`.
    Agree(candidate::Agree),
    /// Print the tables of the policy language and their fields, as Markdown
    Fields,
    /// Print the JSON Schema of the policy language, for editors
    ///
    /// Save it to a file and name it in the first line of a policy file: `#:schema schema.json`.
    Schema {
        /// A contract folder to use instead of the built-in contract
        #[arg(long, value_name = "DIR")]
        schemas: Option<PathBuf>,
    },
    /// Explain how a request is decided: by which rules, and which rules nearly match
    Explain {
        #[command(flatten)]
        on: On,
        /// The request, written as in a `[[test]]`: `op = "createSwap", amount = "5 usdc"`; without `time`, as of now
        #[arg(long, value_name = "FIELDS")]
        given: String,
    },
}

/// The file name that findings in `--given` have.
const GIVEN: &str = "--given";

#[derive(Debug, Args)]
struct On {
    /// The folder with the policies (TOML files)
    folder: PathBuf,
    #[command(flatten)]
    setting: PolicySetting,
}

pub(super) fn run(arguments: &PolicyArgs) -> anyhow::Result<ExitReason> {
    match &arguments.command {
        PolicyCommand::Check(on) => {
            let (version, findings) = match on.read(None) {
                Ok((names, reading)) => {
                    let version = reading.policies.version().to_owned();
                    (Some(version), on.findings(&names, reading))
                }
                Err(findings) => (None, findings),
            };
            print_check(on, version.as_deref(), &findings)
        }
        PolicyCommand::Test(on) => match on.read(None) {
            Ok((names, reading)) => run_tests(on, &names.catalog, &reading),
            Err(findings) => print_findings(on, &findings),
        },
        PolicyCommand::Diff(arguments) => diff::run(arguments),
        PolicyCommand::Table(on) => table::run(on),
        PolicyCommand::Mutate(on) => mutate::run(on),
        PolicyCommand::Replay(arguments) => replay::run(arguments),
        PolicyCommand::Usage { way, environment, limit } => {
            let environment = environment.map(|environment| environment.as_str().to_owned());
            let ask =
                ConsoleCall::get("usage").with("environment", environment).with("limit", limit_id(limit.as_deref())?);
            way.ask_for_rows(&ask, Some("usage"), usage_in_words)
        }
        PolicyCommand::Candidate { way } => candidate::show(way),
        PolicyCommand::Agree(agree) => agree.run(),
        PolicyCommand::Fields => {
            print(&manual())?;
            Ok(ExitReason::Done)
        }
        PolicyCommand::Schema { schemas } => match read_contract(schemas.as_deref(), &[]) {
            Ok((_, catalog)) => {
                print(&format!("{:#}\n", schema(&catalog)))?;
                Ok(ExitReason::Done)
            }
            Err(findings) => {
                print(&check::findings_as(&findings, OutputFormat::Table))?;
                Ok(ending(&findings))
            }
        },
        PolicyCommand::Explain { on, given } => match on.read(Some(given)) {
            Ok((names, reading)) => print_explanation(on, &names.catalog, &reading),
            Err(findings) => print_findings(on, &findings),
        },
    }
}

impl On {
    fn read(&self, given: Option<&String>) -> Result<(SettingNames, PolicyReading), Vec<Finding>> {
        let names = self.setting.names()?;
        let reading = names.read(&self.folder, given)?;
        Ok((names, reading))
    }

    /// Returns the findings of policies that can be read: failing tests of their own, and suspicious rules.
    fn findings(&self, names: &SettingNames, reading: PolicyReading) -> Vec<Finding> {
        let failures = reading.policies.failures(&names.catalog);
        let odd = names.with(|known| reading.policies.oddities(known));
        let endings = reading.policies.endings(SystemClock.now());
        placed(&self.folder, reading.warnings.into_iter().chain(failures).chain(odd).chain(endings).collect())
    }
}

/// Prints the findings, and the version if the policies could be read.
fn print_check(on: &On, version: Option<&str>, findings: &[Finding]) -> anyhow::Result<ExitReason> {
    let words = || {
        let version = version.map_or_else(String::new, |version| format!("version {version}\n"));
        format!("{}{version}", check::findings_as(findings, OutputFormat::Table))
    };
    let value = || {
        let mut json = check::as_json(findings);
        if let (Some(members), Some(version)) = (json.as_object_mut(), version) {
            members.insert("version".to_owned(), version.into());
        }
        json
    };
    print(&on.setting.output.text(words, value, Some("findings")))?;
    Ok(ending(findings))
}

/// Checks the id of a limit, which goes into a URL without escapes.
fn limit_id(limit: Option<&str>) -> anyhow::Result<Option<String>> {
    let is_plain = |id: &str| id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if let Some(other) = limit.filter(|limit| !is_plain(limit)) {
        bail!("`{other}` is not a limit id: use only `a-z`, `0-9` and `-`");
    }
    Ok(limit.map(str::to_owned))
}

fn usage_in_words(answer: &Value) -> String {
    let all = answer.get("usage").and_then(Value::as_array).into_iter().flatten();
    let text = |one: &Value, name: &str| one.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut lines: Vec<String> =
        all.map(|one| format!("{}  {}\n", text(one, "environment"), text(one, "words"))).collect();
    let unused = answer.get("unused").and_then(Value::as_array).into_iter().flatten();
    lines.extend(unused.map(|one| format!("{:<10}  {}\n", "-", text(one, "words"))));
    if lines.is_empty() {
        lines.push("The policies have no limits.\n".to_owned());
    }
    let is_true = |name: &str| answer.get(name).and_then(Value::as_bool) == Some(true);
    if is_true("unreadWindows") {
        lines.push("Not every key was read: a fuller one may be missing.\n".to_owned());
    } else if is_true("more") {
        lines.push("Other keys are in use, none of them fuller than those of its limit here.\n".to_owned());
    }
    if is_true("unreadCalls") {
        lines.push(
            "More calls are open than were read: `inFlight` and `pending` are at least what they say.\n".to_owned(),
        );
    }
    lines.concat()
}

fn print_findings(on: &On, findings: &[Finding]) -> anyhow::Result<ExitReason> {
    print(&check::findings_as(findings, on.setting.output))?;
    Ok(ending(findings))
}

fn ending(findings: &[Finding]) -> ExitReason {
    if findings.iter().any(Finding::is_error) { ExitReason::Faulty } else { ExitReason::Done }
}

fn run_tests(on: &On, catalog: &Catalog, reading: &PolicyReading) -> anyhow::Result<ExitReason> {
    let policies = &reading.policies;
    let tried: Vec<Tried<'_>> =
        policies.trials.iter().filter_map(|trial| trial.run(&policies.rules, catalog)).collect();
    let output = on.setting.output;
    print(&output.text(|| lines(&on.folder, &tried), || as_json(&on.folder, &tried), Some("tests")))?;
    Ok(if tried.iter().all(|tried| tried.is_passed) { ExitReason::Done } else { ExitReason::Faulty })
}

fn print_explanation(on: &On, catalog: &Catalog, reading: &PolicyReading) -> anyhow::Result<ExitReason> {
    let policies = &reading.policies;
    let asked = policies.trials.iter().find(|trial| trial.file == GIVEN).context("`--given` is missing")?;
    let asked = asked.at_unless_timed(StoreTime::of_micros(SystemClock.now().as_microsecond()));
    let tried = asked.run(&policies.rules, catalog).context("`--given` names an unknown operation")?;
    let (verdict, near) = (&tried.verdict, tried.near.as_slice());
    let (counts, used) = (verdict.reservations.as_slice(), BTreeMap::new());
    let explanation = Explanation { rules: &policies.rules, verdict, near, counts, used: &used };
    print(&on.setting.output.text(|| explanation.to_string(), || explanation.as_json(), None))?;
    Ok(ExitReason::Done)
}

fn lines(folder: &Path, tried: &[Tried<'_>]) -> String {
    let failed: Vec<_> = tried.iter().filter(|tried| !tried.is_passed).collect();
    let mut text = String::new();
    for Tried { trial, verdict, .. } in &failed {
        let (line, column) = trial.place;
        let file = folder.join(&trial.file);
        let (expected, found) = (trial.expect.as_str(), verdict.effect.as_str());
        text.push_str(&format!("failed: {}:{line}:{column}: expected `{expected}`", file.display()));
        let by: Vec<&str> = trial.by.iter().map(String::as_str).collect();
        if !by.is_empty() {
            text.push_str(&format!(" by {}", by.join(", ")));
        }
        text.push_str(&format!(", found `{found}`\n"));
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
