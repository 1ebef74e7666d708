//! Whether witnesses sign the journal.

use std::time::Duration;

use super::report::{DoctorReport, in_units};
use crate::adapters::clock::SystemClock;
use crate::config::{Config, UnwitnessedMode};
use crate::ports::Clock as _;

/// Reports how long lines have waited for witnesses, by a metric of the running gate.
pub(super) fn check(config: &Config, since: Option<u64>, report: &mut DoctorReport) {
    let witnessing = &config.audit.witnessing;
    if witnessing.witnesses.is_empty() {
        return;
    }
    let (needed, count) = (witnessing.needed, witnessing.witnesses.len());
    let Some(since) = since else {
        return report.unknown("witnesses", None, "the gate does not say whether they sign");
    };
    let now = u64::try_from(SystemClock.now().as_second()).unwrap_or_default();
    let waited = Duration::from_secs(if since == 0 { 0 } else { now.saturating_sub(since) });
    if waited < witnessing.within {
        let text = format!("{needed} of {count} must sign the journal; lines have waited {}", in_units(waited));
        return report.well("witnesses", None, &text);
    }
    let closed = match witnessing.unwitnessed {
        UnwitnessedMode::Alert => "",
        UnwitnessedMode::Close => ", so this gate's money is closed",
    };
    let text = format!("fewer than {needed} of {count} have signed the journal for {}{closed}", in_units(waited));
    report.problem("witnesses", None, &text, "the gate's log has the answer of each: deploy/docs/witness.md");
}
