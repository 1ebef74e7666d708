//! The room for calls that wait for approval.

use super::DoctorReport;
use crate::base::ids::Environment;
use crate::config::LimitsConfig;
use crate::ledger::StoreFault;
use crate::ports::Store;
use crate::stations::hold::windows_of_environment;

const METRIC: &str = "sluice_hold_room_used_ratio{";
/// The part of the room from which on it is reported, in percent.
const NEARLY_FULL: u64 = 80;
const REMEDY: &str = "decide on the calls that wait, oldest first (`sluice approvals list`), or raise `limits.holds` and \
                      `limits.holds_bytes`; beyond their share, callers get 429 `TOO_MANY_HOLDS`";

/// Reports an environment whose room is nearly full, by its store.
pub(super) async fn check(
    store: &dyn Store,
    environment: Environment,
    limits: &LimitsConfig,
    report: &mut DoctorReport,
) -> Result<(), StoreFault> {
    let alls = [("holds", limits.holds), ("bytes", limits.holds_bytes)];
    for ((window, span), (of, all)) in windows_of_environment().into_iter().zip(alls) {
        let used = store.used(environment, &window, span).await?;
        let percent = used.saturating_mul(100).checked_div(u64::try_from(all).unwrap_or(u64::MAX)).unwrap_or(100);
        find(environment.as_str(), of, percent, report);
    }
    Ok(())
}

/// Reports environments whose room is nearly full, by the metrics of a running gate.
pub(super) fn report(metrics: &str, report: &mut DoctorReport) {
    for (environment, of, percent) in metrics.lines().filter_map(room_of_line) {
        find(environment, of, percent, report);
    }
}

fn find(environment: &str, of: &str, percent: u64, report: &mut DoctorReport) {
    if percent >= NEARLY_FULL {
        let problem =
            format!("{environment}: {percent} % of the room for calls that wait for approval is used, by their {of}");
        report.find(&problem, REMEDY);
    }
}

/// Reads one line of the metrics: environment, what is counted, percent.
fn room_of_line(line: &str) -> Option<(&str, &str, u64)> {
    let (labels, value) = line.strip_prefix(METRIC)?.rsplit_once("} ")?;
    let label = |name: &str| {
        let of = labels.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix("=\""));
        of.and_then(|value| value.strip_suffix('"'))
    };
    // A ratio such as `0.8125`: its first two decimals are the percent.
    let (whole, decimals) = value.split_once('.').unwrap_or((value, ""));
    let hundredths = format!("{decimals}00").get(..2).and_then(|digits| digits.parse::<u64>().ok())?;
    let percent = whole.parse::<u64>().ok()?.saturating_mul(100).saturating_add(hundredths);
    Some((label("environment")?, label("of")?, percent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn the_room_is_read_from_the_metrics_as_they_are_written() {
        let metrics = Metrics::new().unwrap();
        for (of, used) in [("holds", 13), ("bytes", 16)] {
            metrics.hold_room("production", of, used, 16);
        }
        metrics.hold_room("sandbox", "holds", 0, 16);
        let text = String::from_utf8(metrics.text().unwrap()).unwrap();
        let mut read: Vec<_> = text.lines().filter_map(room_of_line).collect();
        read.sort_unstable();
        assert_eq!(read, [("production", "bytes", 100), ("production", "holds", 81), ("sandbox", "holds", 0)]);
        let mut doctor = DoctorReport::default();
        report(&text, &mut doctor);
        assert!(doctor.lines().matches("PROBLEM: production: ").count() == 2 && !doctor.lines().contains("sandbox: 0"));
    }
}
