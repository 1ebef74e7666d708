//! Payments in upstream's list: those that no gate sent, and whether the list can be read.

use super::report::DoctorReport;
use crate::base::ids::Environment;
use crate::config::Config;

/// Looks up the value of a metric by its name and labels.
type MetricLookup<'m> = dyn Fn(&str, &[(&str, &str)]) -> Option<u64> + 'm;

/// Reports what a running gate counts of the payments that upstream lists.
pub(super) fn check(config: &Config, metrics: &MetricLookup<'_>, report: &mut DoctorReport) {
    for environment in config.environments.iter().map(|of| of.environment) {
        let listed = metrics("sluice_foreign_payments_listed", &[("environment", environment.as_str())]);
        match listed {
            Some(count) if count > 0 => {
                let text =
                    format!("upstream lists {count} payments of the last 35 days that no gate sent, or not like that");
                let remedy = "`sluice payments foreign` shows them: find out who made each, and change the credential if it was \
                              used past the gate";
                report.problem("payments", Some(environment), &text, remedy);
            }
            Some(_) => report.well("payments", Some(environment), "upstream lists none that no gate sent"),
            // The list was not read yet, or is not followed.
            None => {}
        }
        check_readings(environment, metrics, report);
    }
}

fn check_readings(environment: Environment, metrics: &MetricLookup<'_>, report: &mut DoctorReport) {
    let readings = |result: &str| {
        let labels = [("environment", environment.as_str()), ("result", result)];
        metrics("sluice_follow_readings_total", &labels).unwrap_or(0)
    };
    if readings("failed") > 0 && readings("read") == 0 {
        let remedy = "the log says why; until it can be read, states and limits of payments stay as they are";
        report.problem("payments", Some(environment), "upstream's list of payments cannot be read", remedy);
    }
}
