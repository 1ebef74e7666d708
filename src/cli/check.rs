//! `sluice check`: reports every error in configuration, contract and policies before a gate starts.

use std::path::Path;

use clap::Args;
use serde_json::{Value, json};

use super::descriptor_limit::too_few_descriptors;
use super::exposed_files::exposed_files;
use super::output::OutputFormat;
use super::secret_contents::secret_contents;
use super::unfit_settings::unfit_settings;
use super::{ExitReason, Loaded, Sources, in_folder, print, read_contract};
use crate::adapters::clock::SystemClock;
use crate::adapters::store::seal_check::SealCheck;
use crate::adapters::store::sealed::{SealingKey, Seals};
use crate::base::finding::{Finding, Severity};
use crate::base::ids::Environment;
use crate::catalog::completeness;
use crate::config::{Config, is_loopback};
use crate::ports::Clock as _;

/// Check configuration, contract and policies, and report every error and warning
///
/// With `--schemas` and without `--config`, only the contract is checked: that it can be read, and that every operation
/// has the schemas and examples it needs.
///
/// With `--production`, settings and files that are insecure are errors: plain HTTP to other machines, secrets that others
/// can read, an audit log without signed checkpoints, times so short that the gate is closed in effect, and so on.
///
/// Exits with 3 if there are errors, with 0 if there are only warnings.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    sources: Sources,
    /// Report insecure settings and files as errors
    #[arg(long)]
    production: bool,
    /// Text for people, or JSON or CSV for programs
    #[arg(long, value_enum, default_value = "table")]
    output: OutputFormat,
}

pub(super) fn run(arguments: &CheckArgs) -> anyhow::Result<ExitReason> {
    let mut findings = findings(&arguments.sources);
    if arguments.production {
        for finding in findings.iter_mut().filter(|finding| finding.severity == Severity::Insecure) {
            finding.severity = Severity::Error;
        }
    }
    print(&findings_as(&findings, arguments.output))?;
    Ok(if findings.iter().any(Finding::is_error) { ExitReason::Faulty } else { ExitReason::Done })
}

pub(super) fn findings_as(findings: &[Finding], output: OutputFormat) -> String {
    output.text(|| lines(findings), || as_json(findings), Some("findings"))
}

/// Returns all findings, those of the configuration first.
pub(super) fn findings(sources: &Sources) -> Vec<Finding> {
    match (&sources.schemas, &sources.config) {
        (Some(folder), None) => contract_findings(folder, &[]),
        _ => all_findings(sources),
    }
}

fn all_findings(sources: &Sources) -> Vec<Finding> {
    match sources.load() {
        Ok(loaded) => {
            let odd = loaded.folder.oddities(&loaded.policies.policies, SystemClock.now());
            let exposed = exposed_files(&loaded).into_iter().chain(secret_contents(&loaded));
            let shared = shared_request_ids(&loaded, &sources.config_file())
                .or_else(|| request_ids_of_several_roles(&loaded, &sources.config_file()));
            let other_key = other_seal_key(&loaded.config, &sources.config_file());
            let nobody = nobody_to_act(&loaded.config, &sources.config_file());
            let unfit = unfit_settings(&loaded, &sources.config_file());
            let descriptors = too_few_descriptors(&loaded.config, &sources.config_file());
            let of_config = loaded.warnings.into_iter().chain(nobody).chain(unfit).chain(descriptors);
            of_config.chain(odd).chain(exposed).chain(shared).chain(other_key).collect()
        }
        Err(findings) => findings,
    }
}

/// Tells of production without a console: what only people may do stays as it is. A simulator on this machine moves no money.
fn nobody_to_act(config: &Config, file: &Path) -> Option<Finding> {
    let production = config.environments.iter().find(|one| one.environment == Environment::Production)?;
    let text = "there is no `[console]`: nobody can approve a call that the policies hold, freeze money, settle an unknown outcome, \
                or open money after a restored store; and whoever can write the folder of policies alone decides what is paid";
    let remedy =
        "add `[console]` with the issuer of people's tokens, as `console.md` says, and `loosening = \"two-people\"`";
    let moves_money = !is_loopback(&production.upstream.host);
    (moves_money && config.console.is_none())
        .then(|| Finding::warning(&file.display().to_string(), text).remedy(remedy))
}

/// Returns an error for a seal key that is another one than that of its id.
fn other_seal_key(config: &Config, file: &Path) -> Option<Finding> {
    let keys = config.store.seal_keys.iter().map(|(id, key)| SealingKey::new(id, key));
    let seals = Seals::new(keys.collect::<Result<_, _>>().ok()?);
    let error = SealCheck::of(config, &seals).compare().err()?;
    Some(Finding::error(&file.display().to_string(), format!("`store.seal_key`: {error}")))
}

/// Recommends prefixes where the rules let callers of several roles pay, and nobody has a prefix.
fn request_ids_of_several_roles(loaded: &Loaded, file: &Path) -> Option<Finding> {
    let roles = loaded.policies.policies.paying_roles(&loaded.catalog);
    let is_open = roles.len() > 1 && loaded.config.request_id_prefixes.issuers().next().is_none();
    let text = format!(
        "the rules let callers of {} roles pay, and nobody has a prefix of requestIds: one caller can take another's requestIds first",
        roles.len()
    );
    let remedy = "give each caller that pays its own prefix in `request_id_prefixes`";
    is_open.then(|| Finding::warning(&file.display().to_string(), text).remedy(remedy))
}

/// Recommends prefixes where the rules let several callers pay: one could take another's requestId first.
fn shared_request_ids(loaded: &Loaded, file: &Path) -> Option<Finding> {
    let all = loaded.policies.policies.paying_callers(&loaded.catalog);
    let without = loaded.config.request_id_prefixes.first_without(&all)?;
    let text = format!(
        "the rules let {} callers pay, and `{without}` has no prefix of requestIds of its own: another caller can take its requestIds first",
        all.len()
    );
    let remedy = "give each caller that pays its own prefix in `request_id_prefixes`";
    (all.len() > 1).then(|| Finding::warning(&file.display().to_string(), text).remedy(remedy))
}

fn contract_findings(folder: &Path, enable: &[String]) -> Vec<Finding> {
    match read_contract(Some(folder), enable) {
        Ok((files, catalog)) => in_folder(Some(folder), completeness(&files, &catalog)),
        Err(findings) => findings,
    }
}

fn lines(findings: &[Finding]) -> String {
    let (errors, warnings) = count(findings);
    let listed: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
    format!("{listed}{}, {}\n", counted(errors, "error"), counted(warnings, "warning"))
}

fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

pub(super) fn as_json(findings: &[Finding]) -> Value {
    let (errors, warnings) = count(findings);
    let finding = |f: &Finding| {
        let severity = match f.severity {
            Severity::Error => "error",
            Severity::Insecure | Severity::Warning => "warning",
        };
        json!({"severity": severity, "file": f.file, "place": f.place, "text": f.text,
               "example": f.example, "remedy": f.remedy})
    };
    json!({"findings": findings.iter().map(finding).collect::<Vec<_>>(), "errors": errors, "warnings": warnings})
}

fn count(findings: &[Finding]) -> (usize, usize) {
    let errors = findings.iter().filter(|f| f.is_error()).count();
    (errors, findings.len().saturating_sub(errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_printed_as_lines_and_as_json() {
        let findings = [
            Finding::error("sluice.toml", "`production.listen` is missing").at("12:3").remedy("write it"),
            Finding::warning("sluice.toml", "odd"),
        ];
        assert_eq!(
            lines(&findings),
            "error: sluice.toml:12:3: `production.listen` is missing\n  remedy: write it\n\
             warning: sluice.toml: odd\n1 error, 1 warning\n"
        );
        assert_eq!(
            as_json(&findings),
            json!({
                "findings": [
                    {"severity": "error", "file": "sluice.toml", "place": "12:3",
                     "text": "`production.listen` is missing", "example": null, "remedy": "write it"},
                    {"severity": "warning", "file": "sluice.toml", "place": null, "text": "odd", "example": null,
                     "remedy": null},
                ],
                "errors": 1,
                "warnings": 1,
            })
        );
        assert_eq!(lines(&[]), "0 errors, 0 warnings\n");
    }

    #[test]
    fn a_contract_that_is_not_there_is_an_error_with_its_folder() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Sources { config: None, schemas: Some(folder.path().join(name)) };
        let nowhere = findings(&at("none"));
        assert_eq!(nowhere.len(), 1);
        assert!(nowhere[0].file.ends_with("none") && nowhere[0].text.contains("cannot be read"));
        let empty = findings(&at(""));
        assert!(empty[0].file.ends_with("openapi.json") && empty[0].is_error(), "{empty:?}");
    }
}
