//! `sluice policy diff`: compares two folders of policies.

use std::path::PathBuf;

use clap::Args;

use super::setting::PolicySetting;
use crate::base::finding::Finding;
use crate::base::visible::visible_json;
use crate::cli::check::{self, CheckOutput};
use crate::cli::{ExitReason, is_error, print};
use crate::policy::{Difference, difference};

#[derive(Debug, Args)]
pub(super) struct PolicyDiffArgs {
    /// The folder with the current policies
    old: PathBuf,
    /// The folder with the new policies
    new: PathBuf,
    /// Exit with 3 unless it is proved that nothing is allowed more easily
    #[arg(long)]
    only_tighter: bool,
    #[command(flatten)]
    setting: PolicySetting,
}

pub(super) fn run(arguments: &PolicyDiffArgs) -> anyhow::Result<ExitReason> {
    let found = match compare(arguments) {
        Ok(found) => found,
        Err(findings) => {
            print(&check::findings_as(&findings, arguments.setting.output))?;
            return Ok(if findings.iter().any(is_error) { ExitReason::Faulty } else { ExitReason::Done });
        }
    };
    print(&match arguments.setting.output {
        CheckOutput::Lines => found.to_string(),
        CheckOutput::Json => visible_json(&format!("{}\n", found.as_json())).into_owned(),
    })?;
    Ok(if arguments.only_tighter && found.loosens() { ExitReason::Faulty } else { ExitReason::Done })
}

fn compare(arguments: &PolicyDiffArgs) -> Result<Difference, Vec<Finding>> {
    let names = arguments.setting.names()?;
    let old = names.read(&arguments.old, None)?.policies;
    let new = names.read(&arguments.new, None)?.policies;
    Ok(names.with(|known| difference(&old, &new, known)))
}
