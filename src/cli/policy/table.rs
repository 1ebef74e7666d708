//! `sluice policy table`: the largest amounts that a folder of policies lets pass.

use super::On;
use super::check::CheckOutput;
use crate::base::visible::visible_json;
use crate::cli::{ExitReason, print};
use crate::policy::pass_table;

pub(super) fn run(on: &On) -> anyhow::Result<ExitReason> {
    let (names, reading) = match on.read(None) {
        Ok(read) => read,
        Err(findings) => return super::print_findings(on, &findings),
    };
    let table = names.with(|known| pass_table(&reading.policies, known));
    print(&match on.setting.output {
        CheckOutput::Lines => table.to_string(),
        CheckOutput::Json => visible_json(&format!("{}\n", table.as_json())).into_owned(),
    })?;
    Ok(ExitReason::Done)
}
