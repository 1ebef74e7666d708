//! `sluice policy diff`: compares two folders of policies.

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::replay;
use super::setting::{PolicySetting, SettingNames};
use crate::base::finding::Finding;
use crate::cli::check;
use crate::cli::{ExitReason, print};
use crate::policy::{DecisionHistory, Policies, difference};

#[derive(Debug, Args)]
pub(super) struct PolicyDiffArgs {
    /// The folder with the current policies
    old: PathBuf,
    /// The folder with the new policies
    new: PathBuf,
    /// Exit with 3 unless it is proved that nothing is allowed more easily
    #[arg(long)]
    only_tighter: bool,
    /// Also show what the change would have meant for the recorded decisions of the last 7, 30 and 90 days: audit files
    /// of all nodes, or folders of audit files
    #[arg(long, value_name = "AUDIT_FILES", num_args = 1..)]
    audit: Vec<PathBuf>,
    #[command(flatten)]
    setting: PolicySetting,
}

pub(super) fn run(arguments: &PolicyDiffArgs) -> anyhow::Result<ExitReason> {
    let (names, old, new) = match read_sets(arguments) {
        Ok(read) => read,
        Err(findings) => {
            print(&check::findings_as(&findings, arguments.setting.output))?;
            return Ok(if findings.iter().any(Finding::is_error) { ExitReason::Faulty } else { ExitReason::Done });
        }
    };
    let found = names.with(|known| difference(&old, &new, known));
    let history = match arguments.audit.as_slice() {
        [] => None,
        audit => Some(replay::history(&old, &new, &names, &arguments.setting, audit)?),
    };
    let rates = new.meaning.since(&old.meaning).rates();
    let words = || {
        let history = history.as_ref().map(DecisionHistory::in_words).unwrap_or_default();
        let of_rate = |rate: &String| format!("{rate} is removed or changed: more calls may be allowed\n");
        let rates: String = rates.iter().map(of_rate).collect();
        format!("{history}{rates}{found}")
    };
    let value = || {
        let mut json = found.as_json();
        if let Some(members) = json.as_object_mut() {
            members.insert("rates".to_owned(), json!(rates));
            members.extend(history.as_ref().map(|history| ("history".to_owned(), history.as_json())));
        }
        json
    };
    print(&arguments.setting.output.text(words, value, Some("changes")))?;
    Ok(if arguments.only_tighter && (found.loosens() || !rates.is_empty()) {
        ExitReason::Faulty
    } else {
        ExitReason::Done
    })
}

fn read_sets(arguments: &PolicyDiffArgs) -> Result<(SettingNames, Policies, Policies), Vec<Finding>> {
    let names = arguments.setting.names()?;
    let old = names.read(&arguments.old, None)?.policies;
    let new = names.read(&arguments.new, None)?.policies;
    Ok((names, old, new))
}
