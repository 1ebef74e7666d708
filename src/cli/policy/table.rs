//! `sluice policy table`: the largest amounts that a folder of policies lets pass.

use super::On;
use crate::cli::{ExitReason, print};
use crate::policy::pass_table;

pub(super) fn run(on: &On) -> anyhow::Result<ExitReason> {
    let (names, reading) = match on.read(None) {
        Ok(read) => read,
        Err(findings) => return super::print_findings(on, &findings),
    };
    let table = names.with(|known| pass_table(&reading.policies, known));
    print(&on.setting.output.text(|| table.to_string(), || table.as_json(), Some("rows")))?;
    Ok(ExitReason::Done)
}
