//! The refusals of upstream that gates have met and that the contract does not list.

use std::collections::BTreeSet;

use super::DoctorReport;
use crate::telemetry::UnlistedRefusal;

const METRIC: &str = "sluice_unlisted_refusals_total{";
const REMEDY: &str = "ask the provider whether this answer proves that nothing was executed, and list it under `notExecuted` in the \
                      contract: in `proves` if it does, otherwise in `doesNotProve`";

/// Reports each refusal once, however many gates have met it.
pub(super) fn report(refusals: impl IntoIterator<Item = UnlistedRefusal>, report: &mut DoctorReport) {
    let distinct: BTreeSet<UnlistedRefusal> = refusals.into_iter().collect();
    for UnlistedRefusal { environment, operation, status, code } in distinct {
        let advice = format!(
            "{environment}: upstream refused `{operation}` with {status} `{code}`, which the contract does not list"
        );
        report.advise(&advice, REMEDY);
    }
}

/// Reads the refusals from the metrics of a gate.
pub(super) fn of_metrics(text: &str) -> Vec<UnlistedRefusal> {
    text.lines().filter_map(refusal_of_line).collect()
}

/// Reads one line of the metrics.
fn refusal_of_line(line: &str) -> Option<UnlistedRefusal> {
    let (labels, _) = line.strip_prefix(METRIC)?.rsplit_once('}')?;
    let label = |name: &str| {
        let of = labels.split(',').find_map(|label| label.strip_prefix(name)?.strip_prefix("=\""));
        of.and_then(|value| value.strip_suffix('"')).map(str::to_owned)
    };
    let status = label("status")?.parse().ok()?;
    Some(UnlistedRefusal {
        environment: label("environment")?,
        operation: label("operation")?,
        status,
        code: label("code")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Metrics;

    #[test]
    fn the_refusals_are_read_from_the_metrics_as_they_are_written() {
        let metrics = Metrics::new().unwrap();
        metrics.unlisted("production", "createSwap", 422, Some("NO_SUCH_WALLET"));
        metrics.unlisted("sandbox", "cancelSwap", 400, None);
        let text = String::from_utf8(metrics.text().unwrap()).unwrap();
        let mut read = of_metrics(&text);
        read.sort();
        assert_eq!(read, metrics.unlisted_refusals());
        assert_eq!(read.len(), 2);
    }
}
