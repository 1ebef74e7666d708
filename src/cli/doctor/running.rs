//! The running gate: what its probes and metrics say.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use reqwest::{Client, redirect};
use serde_json::Value;

use super::money::{MEND_AUDIT, remedy_of_stop};
use super::report::{DoctorReport, in_units};
use super::{following, hold_room, refusals, witnesses};
use crate::adapters::clock::SystemClock;
use crate::cli::console::near;
use crate::config::{Config, KeySource, StoreKind};
use crate::ports::Clock as _;

/// How long to wait for an answer of the gate.
const DEADLINE: Duration = Duration::from_secs(5);
/// Keys of an issuer that were not fetched for this long are reported.
const MAX_KEYS_AGE_SECS: u64 = 3_600;
/// Entries that may wait for this gate's disk for a moment.
const MAX_WAITING_ENTRIES: u64 = 1_000;
const MAX_CLOCK_DIFFERENCE: SignedDuration = SignedDuration::from_secs(2);

/// The answers of a gate's probes.
#[derive(Debug)]
struct GateAnswers {
    /// Why it serves no reads; empty if it does.
    no_reads: String,
    money: Value,
    metrics: MetricLines,
}

/// Whether a gate answers where the probes of this one are.
pub(super) async fn is_there(config: &Config) -> bool {
    ask(near(config.probes.listen)).await.is_ok()
}

/// Asks the gate, and reports what it says.
pub(super) async fn check(config: &Config, policies: Option<&str>, report: &mut DoctorReport) {
    let probes = near(config.probes.listen);
    match ask(probes).await {
        Err(why) => {
            let text = format!("the gate does not answer at http://{probes}: {why}; whether money moves is unknown");
            report.unknown("gate", None, &text);
            report.find(
                &text,
                "look at its process and its log, and compare `probes.listen` with that of the running gate",
            );
        }
        Ok(answers) => {
            check_gate(&answers, probes, report);
            check_money(config, &answers, report);
            check_work(config, &answers.metrics, report);
            check_issuers(config, &answers.metrics, report);
            check_journal(&answers.metrics, report);
            witnesses::check(config, answers.metrics.value("sluice_unwitnessed_since_seconds", &[]), report);
            check_records(config, &answers.metrics, report);
            following::check(config, &|name, labels| answers.metrics.value(name, labels), report);
            check_reloads(policies, &answers.metrics, report);
            refusals::report(refusals::of_metrics(answers.metrics.text.as_str()), report);
            // The room of several gates is in the store that they share.
            if config.store.kind == StoreKind::Embedded {
                hold_room::report(answers.metrics.text.as_str(), report);
            }
        }
    }
}

async fn ask(probes: SocketAddr) -> Result<GateAnswers, String> {
    // Only the first installed provider counts, so a second call is harmless.
    rustls::crypto::ring::default_provider().install_default().ok();
    let client = Client::builder().redirect(redirect::Policy::none()).no_proxy().timeout(DEADLINE).build();
    let client = client.map_err(|error| error.to_string())?;
    let get = async |path: &str| {
        let answer = client.get(format!("http://{probes}{path}")).send().await;
        let answer = answer.map_err(|error| {
            let reason = if error.is_timeout() { "no answer in time" } else { "no connection" };
            reason.to_owned()
        })?;
        let status = answer.status().as_u16();
        Ok::<_, String>((status, answer.text().await.map_err(|_| "its answer was cut off".to_owned())?))
    };
    let (status, reads) = get("/readyz").await?;
    let no_reads = if status == 200 { String::new() } else { reads.trim().replace('\n', "; ") };
    let (_, money) = get("/readyz/money").await?;
    let money = serde_json::from_str(&money).map_err(|_| "its answer is not that of a gate".to_owned())?;
    let (_, metrics) = get("/metrics").await?;
    Ok(GateAnswers { no_reads, money, metrics: MetricLines { text: metrics } })
}

fn check_gate(answers: &GateAnswers, probes: SocketAddr, report: &mut DoctorReport) {
    let (metrics, now) = (&answers.metrics, SystemClock.now());
    let version = metrics.label("sluice_build_info", "version").unwrap_or_else(|| "unknown".to_owned());
    let started = metrics.value("process_start_time_seconds", &[]).and_then(moment);
    let runs = started.map_or_else(String::new, |started| format!(", runs for {}", since(now, started)));
    let text = format!("version {version} answers at {probes}{runs}");
    report.well("gate", None, &text);
    let own = env!("CARGO_PKG_VERSION");
    if version != own {
        let advice = format!("the gate has version {version}, this command {own}");
        report.advise(&advice, "finish the upgrade: start the gate again");
    }
    match answers.no_reads.as_str() {
        "" => report.well("reads", None, "are served"),
        why => report.problem("reads", None, why, "the log of the gate says more"),
    }
    let clock = answers.money.get("at").and_then(Value::as_str).and_then(|at| at.parse::<Timestamp>().ok());
    match clock.map(|clock| clock.duration_since(now).abs()) {
        None => report.unknown("clock", None, "the gate does not say its time"),
        Some(off) if off > MAX_CLOCK_DIFFERENCE => {
            let text = format!("the gate's clock and this machine's differ by {} s", off.as_secs());
            report.problem("clock", None, &text, "synchronize the clocks (NTP)");
        }
        Some(_) => report.well("clock", None, "agrees with this machine's"),
    }
}

/// Reports for each environment whether money is open, or why not and since when.
fn check_money(config: &Config, answers: &GateAnswers, report: &mut DoctorReport) {
    let now = SystemClock.now();
    let reasons = answers.money.get("reasons").and_then(Value::as_array).cloned();
    for environment in config.environments.iter().map(|of| of.environment) {
        let Some(reasons) = &reasons else {
            report.unknown("money", Some(environment), "the gate does not say whether money moves");
            continue;
        };
        let stops = |one: &&Value| one["environment"].is_null() || one["environment"] == environment.as_str();
        let stops: Vec<&Value> = reasons.iter().filter(stops).collect();
        report.money(environment, stops.is_empty());
        if stops.is_empty() {
            report.well("money", Some(environment), "is open");
        }
        for stop in stops {
            let text = |name: &str| stop[name].as_str().unwrap_or_default().to_owned();
            let began = text("since").parse::<Timestamp>().ok();
            let lasts =
                began.map_or_else(String::new, |began| format!(" for {} (since {began:.0})", since(now, began)));
            let problem = format!("is closed{lasts}: {}", text("text"));
            report.problem("money", Some(environment), &problem, &remedy_of_stop(&text("reason"), environment));
        }
    }
}

/// Reports unknown outcomes, open holds and freezes of parts.
fn check_work(config: &Config, metrics: &MetricLines, report: &mut DoctorReport) {
    let now = SystemClock.now();
    for environment in config.environments.iter().map(|of| of.environment) {
        let labels = [("environment", environment.as_str())];
        let value = |name: &str| metrics.value(name, &labels);
        match value("sluice_claims_in_doubt") {
            None => report.unknown("outcomes", Some(environment), "the gate has not counted unknown outcomes yet"),
            Some(0) => report.well("outcomes", Some(environment), "are all known"),
            Some(count) => {
                let oldest = value("sluice_claims_in_doubt_since_timestamp_seconds").and_then(moment);
                let age = oldest.map(|at| since(now, at));
                let text = match count {
                    1 => format!("of 1 call is unknown, for {}", age.as_deref().unwrap_or("a moment")),
                    _ => format!(
                        "of {count} calls are unknown{}",
                        age.map_or_else(String::new, |age| format!(", the oldest for {age}"))
                    ),
                };
                let remedy =
                    "`sluice requests list` shows them; the guide `unknown-outcomes.md` says how to resolve them";
                report.problem("outcomes", Some(environment), &text, remedy);
            }
        }
        match value("sluice_holds_open") {
            Some(open) => {
                // Without a console nobody is reminded, and the gate does not count these.
                let expiring = value("sluice_holds_expiring").unwrap_or(0);
                let next = value("sluice_holds_expire_timestamp_seconds").and_then(moment);
                let next = next.map_or_else(String::new, |at| format!(", the next expires at {at:.0}"));
                report.well("holds", Some(environment), &format!("{open} open{next}"));
                if expiring > 0 {
                    let holds = match expiring {
                        1 => "1 hold expires soon and lacks approvals".to_owned(),
                        _ => format!("{expiring} holds expire soon and lack approvals"),
                    };
                    report.advise(&format!("{environment}: {holds}"), "`sluice approvals list` shows them");
                }
            }
            None => report.unknown("holds", Some(environment), "the gate has not counted holds yet"),
        }
        for (scope, what) in [("operation", "operations"), ("caller", "callers"), ("reads", "callers' reads")] {
            let labels = [("environment", environment.as_str()), ("scope", scope)];
            if let Some(count) = metrics.value("sluice_frozen", &labels).filter(|count| *count > 0) {
                let text = format!("{count} {what} are frozen");
                report.problem("freezes", Some(environment), &text, "`sluice freezes` says which, by whom and why");
            }
        }
    }
    let unsettled = metrics.value("sluice_outcomes_unsettled", &[]).unwrap_or(0);
    if unsettled > 0 {
        let text = format!("{unsettled} are not in the store yet");
        report.problem(
            "outcomes",
            None,
            &text,
            "they stay in `unsettled` of `audit.folder` until the store takes them",
        );
    }
}

fn check_issuers(config: &Config, metrics: &MetricLines, report: &mut DoctorReport) {
    for issuer in &config.issuers {
        if !matches!(issuer.keys, KeySource::Url { .. }) {
            report.well("issuer", None, &format!("`{}` has its keys from this configuration", issuer.name));
            continue;
        }
        match metrics.value("sluice_keys_age_seconds", &[("issuer", &issuer.name)]) {
            None => {
                let text = format!("the keys of `{}` were never fetched", issuer.name);
                report.problem("issuer", None, &text, "check that the gate reaches its `jwks_url`: its tokens get 503");
            }
            Some(age) => {
                let text = format!("the keys of `{}` are {} old", issuer.name, in_units(Duration::from_secs(age)));
                match age > MAX_KEYS_AGE_SECS {
                    true => report.problem("issuer", None, &text, "check that the gate reaches its `jwks_url`"),
                    false => report.well("issuer", None, &text),
                }
            }
        }
    }
}

fn check_journal(metrics: &MetricLines, report: &mut DoctorReport) {
    match metrics.value("sluice_store_up", &[]) {
        Some(1) => report.well("store", None, "answers, and accepts writes"),
        Some(_) => report.problem("store", None, "does not answer or refuses writes", "the gate's log says why"),
        None => report.unknown("store", None, "the gate does not say whether its store answers"),
    }
    let waiting = metrics.sum("sluice_audit_outbox_entries");
    match metrics.value("sluice_audit_up", &[]) {
        Some(1) if waiting < MAX_WAITING_ENTRIES => {
            report.well("audit log", None, &format!("is written; {waiting} entries wait"))
        }
        Some(1) => {
            let text = format!("is behind: {waiting} entries wait for its disk");
            report.problem("audit log", None, &text, "its disk may be full or slow");
        }
        Some(_) => {
            report.problem("audit log", None, "cannot be written", MEND_AUDIT);
        }
        None => report.unknown("audit log", None, "the gate does not say whether it can write it"),
    }
}

/// Reports what somebody who is no gate wrote into the store, as far as this gate met it since its start.
fn check_records(config: &Config, metrics: &MetricLines, report: &mut DoctorReport) {
    for environment in config.environments.iter().map(|of| of.environment) {
        let value = |name: &str, labels: &[(&str, &str)]| {
            let labels = [&[("environment", environment.as_str())], labels].concat();
            metrics.value(name, &labels).filter(|count| *count > 0)
        };
        let refused = |reason: &str| value("sluice_store_records_refused_total", &[("reason", reason)]);
        if let Some(count) = refused("plain-text") {
            let text = format!(
                "{count} times a record was in plain text, although `store.seal_key` is set: it is from before the key, or somebody \
                 else than gates wrote it"
            );
            let remedy = "if the key is new, take the store over as the guide `rotate.md` says; otherwise find out who can write \
                          the store";
            report.problem("records", Some(environment), &text, remedy);
        }
        if let Some(count) = refused("other-key") {
            let text = format!(
                "{count} times a record was sealed with another key than the configured ones, or somebody damaged it"
            );
            let remedy = "if the key was replaced, set the one of before as `store.former_seal_key`; otherwise find out who can \
                          write the store";
            report.problem("records", Some(environment), &text, remedy);
        }
        let plain = metrics.value("sluice_store_plain_records", &[("environment", environment.as_str())]);
        match plain.filter(|_| config.store.allow_plain) {
            Some(0) => {
                report.well(
                    "plain records",
                    Some(environment),
                    "none are left: `store.allow_plain` is of no use any more",
                );
            }
            Some(count) => report.well("plain records", Some(environment), &format!("{count} are left")),
            None => {}
        }
        let mut found = Vec::new();
        if let Some(count) = refused("changed") {
            found.push(format!("{count} times a record differed from the journal"));
        }
        if let Some(count) = value("sluice_store_contradictions_total", &[]) {
            found.push(format!("{count} times the store contradicted the journal"));
        }
        for text in found {
            let text = format!("{text}: somebody else than gates wrote it");
            let remedy =
                "find out who can write the store; then stop the gates, empty it and start them: they rebuild it";
            report.problem("records", Some(environment), &text, remedy);
        }
    }
}

fn check_reloads(policies: Option<&str>, metrics: &MetricLines, report: &mut DoctorReport) {
    let is_set = |name: &str| metrics.value(name, &[]).unwrap_or(0) > 0;
    let mut is_current = true;
    for (name, text) in [
        ("sluice_reload_faulty", "the newest configuration has errors; the former one stays in use"),
        ("sluice_policy_faulty", "the newest policies have errors; the former ones stay in force"),
    ] {
        if is_set(name) {
            is_current = false;
            report.problem("reloads", None, text, "`sluice check` shows the errors");
        }
    }
    if let Some(count) = metrics.value("sluice_reload_needs_restart", &[]).filter(|count| *count > 0) {
        is_current = false;
        report.problem("reloads", None, &format!("{count} changed settings need a restart"), "start the gate again");
    }
    let in_force = metrics.label("sluice_policy_info", "version");
    let waiting = metrics.label("sluice_policy_candidate", "version");
    if waiting.is_some() {
        report.advise("policies wait for the approval of two people", "`sluice policy candidate` shows them");
    } else if policies.is_some() && in_force.as_deref() != policies && !is_set("sluice_policy_faulty") {
        is_current = false;
        let text = "the gate decides by other policies than those of the folder";
        report.problem("reloads", None, text, "the store names what is in force: bring the folder to it, or change the folder to propose its policies again");
    }
    if is_current {
        report.well("reloads", None, "configuration and policies are current");
    }
}

fn moment(secs: u64) -> Option<Timestamp> {
    Timestamp::from_second(i64::try_from(secs).ok()?).ok()
}

fn since(now: Timestamp, then: Timestamp) -> String {
    in_units(Duration::try_from(now.duration_since(then)).unwrap_or_default())
}

/// The metrics of a gate, as Prometheus reads them.
#[derive(Debug)]
struct MetricLines {
    text: String,
}

impl MetricLines {
    /// Returns the labels and the whole part of the value of each series of a metric.
    fn series<'m>(&'m self, name: &'m str) -> impl Iterator<Item = (BTreeMap<&'m str, &'m str>, u64)> + 'm {
        self.text.lines().filter_map(move |line| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = match rest.strip_prefix('{') {
                Some(rest) => rest.split_once("} ")?,
                None => ("", rest.strip_prefix(' ')?),
            };
            let labels = labels.split("\",").filter_map(|label| label.split_once("=\""));
            let labels = labels.map(|(name, value)| (name, value.trim_end_matches('"'))).collect();
            Some((labels, value.trim().split('.').next()?.parse().ok()?))
        })
    }

    /// Returns the value of the first series that has these labels.
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<u64> {
        let has = |of: &BTreeMap<&str, &str>| labels.iter().all(|(name, value)| of.get(name) == Some(value));
        self.series(name).find(|(of, _)| has(of)).map(|(_, value)| value)
    }

    fn sum(&self, name: &str) -> u64 {
        self.series(name).fold(0, |sum: u64, (_, value)| sum.saturating_add(value))
    }

    /// Returns a label of the series that is not zero.
    fn label(&self, name: &str, label: &str) -> Option<String> {
        self.series(name).find(|(_, value)| *value > 0).and_then(|(of, _)| of.get(label).map(|&text| text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_read_with_their_labels() {
        let text = "# HELP a_b x\na_b{environment=\"production\",scope=\"all\"} 1\na_b{environment=\"sandbox\",scope=\"all\"} 2\n\
                    a_bc 9\nc 3.75\nd{version=\"1.0\"} 0\nd{version=\"2.0\"} 1\n";
        let lines = MetricLines { text: text.to_owned() };
        assert_eq!(lines.value("a_b", &[("environment", "sandbox"), ("scope", "all")]), Some(2));
        assert_eq!(lines.value("a_b", &[("environment", "elsewhere")]), None);
        assert_eq!((lines.sum("a_b"), lines.value("c", &[]), lines.value("b", &[])), (3, Some(3), None));
        assert_eq!(lines.label("d", "version").as_deref(), Some("2.0"));
    }
}
