//! `sluice check`: everything that is wrong, before it is run.

use std::path::Path;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{Ending, Sources, in_folder, is_error, print, read_contract};
use crate::base::finding::{Finding, Severity};
use crate::catalog::completeness;

/// Say everything that is wrong with configuration and contract
///
/// With `--schemas` and no `--config`, the contract alone is checked: that it can be read, and that every operation
/// has the schemas and examples it needs.
///
/// Ends with 3 if there are errors, with 0 if there are only warnings.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    sources: Sources,
    /// Lines for people, or JSON for programs
    #[arg(long, value_enum, default_value = "lines")]
    output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Output {
    Lines,
    Json,
}

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Ending> {
    let findings = findings(&arguments.sources);
    print(&told(&findings, arguments.output))?;
    Ok(if findings.iter().any(is_error) { Ending::Faulty } else { Ending::Done })
}

pub(super) fn told(findings: &[Finding], output: Output) -> String {
    match output {
        Output::Lines => lines(findings),
        Output::Json => format!("{}\n", as_json(findings)),
    }
}

/// All findings, configuration first.
pub(super) fn findings(sources: &Sources) -> Vec<Finding> {
    match (&sources.schemas, &sources.config) {
        (Some(folder), None) => contract(folder, &[]),
        _ => everything(sources),
    }
}

fn everything(sources: &Sources) -> Vec<Finding> {
    match sources.load() {
        Ok(loaded) => {
            let odd = loaded.folder.oddities(&loaded.policies.policies);
            loaded.warnings.into_iter().chain(odd).collect()
        }
        Err(findings) => findings,
    }
}

fn contract(folder: &Path, enable: &[String]) -> Vec<Finding> {
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
            Severity::Warning => "warning",
        };
        json!({"severity": severity, "file": f.file, "place": f.place, "text": f.text,
               "example": f.example, "remedy": f.remedy})
    };
    json!({"findings": findings.iter().map(finding).collect::<Vec<_>>(), "errors": errors, "warnings": warnings})
}

fn count(findings: &[Finding]) -> (usize, usize) {
    let errors = findings.iter().filter(|f| is_error(f)).count();
    (errors, findings.len().saturating_sub(errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_told_as_lines_and_as_json() {
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
        assert!(empty[0].file.ends_with("openapi.json") && is_error(&empty[0]), "{empty:?}");
    }
}
