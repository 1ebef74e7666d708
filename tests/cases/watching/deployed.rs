//! `deploy/`: what alerts, recording rules and the dashboard name is there, and every alert has its entry in the runbook.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;
use sluice::telemetry::METRICS;

use crate::support::gate::sluice;

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(name)).unwrap()
}

/// Words that begin so, as names of metrics are written.
fn words<'t>(text: &'t str, beginnings: &[&str]) -> BTreeSet<&'t str> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == ':';
    text.split(|c| !is_part(c)).filter(|word| beginnings.iter().any(|one| word.starts_with(one))).collect()
}

fn dashboard() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&read("grafana/sluice.json")).unwrap();
    let targets = |panel: &Value| panel["targets"].as_array().cloned().unwrap_or_default();
    let panels = dashboard["panels"].as_array().unwrap().iter().flat_map(targets);
    panels.map(|target| target["expr"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_metric_that_is_named_exists_and_every_metric_is_shown() {
    let mut known = BTreeSet::new();
    for metric in METRICS {
        known.insert(metric.name.to_owned());
        if metric.kind == "histogram" {
            known.extend(["_bucket", "_sum", "_count"].map(|end| format!("{}{end}", metric.name)));
        }
    }
    let recording = read("prometheus/recording.yml");
    let recorded = |line: &str| line.trim().strip_prefix("- record: ").map(str::to_owned);
    let recorded: BTreeSet<String> = recording.lines().filter_map(recorded).collect();
    let (alerts, queries) = (read("prometheus/alerts.yml"), dashboard().join("\n"));
    let unannotated: String = alerts.lines().filter(|line| !line.contains("runbook:")).collect::<Vec<_>>().join("\n");
    for (file, text) in [("recording", &recording), ("alerts", &unannotated), ("dashboard", &queries)] {
        for word in words(text, &["sluice_", "process_"]) {
            assert!(known.contains(word), "{file}: {word} is no metric");
        }
        for word in words(text, &["sluice:"]) {
            assert!(recorded.contains(word), "{file}: {word} is not recorded");
        }
    }
    let shown = format!("{queries}\n{recording}\n{alerts}\n{}", read("docs/runbook.md"));
    let used_of_limits = ["sluice_limit_used_usd", "sluice_limit_used_calls"];
    for metric in METRICS.iter().filter(|metric| !used_of_limits.contains(&metric.name)) {
        assert!(shown.contains(metric.name), "{} is shown nowhere", metric.name);
    }
}

#[test]
fn every_alert_is_tested_and_has_its_entry_in_the_runbook() {
    let (alerts, tests, runbook) =
        (read("prometheus/alerts.yml"), read("prometheus/alerts_test.yml"), read("docs/runbook.md"));
    let rules: Vec<(&str, &str)> =
        alerts.split("- alert: ").skip(1).map(|rule| rule.split_once('\n').unwrap()).collect();
    let entries: Vec<&str> = runbook.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(rules.iter().map(|(name, _)| *name).collect::<Vec<_>>(), entries);
    for (name, rule) in &rules {
        let anchor = format!("runbook: deploy/docs/runbook.md#{}\n", name.to_lowercase());
        for part in ["severity: ", "summary: ", "description: ", &anchor] {
            assert!(format!("{rule}\n").contains(part), "{name} has no {part}");
        }
        assert!(tests.contains(&format!("alertname: {name}\n        exp_alerts:")), "{name} is not tested");
    }
    for entry in runbook.split("\n## ").skip(1) {
        for part in ["**Means.**", "**Look.**", "**Do.**"] {
            assert!(entry.contains(part), "{part} is missing in {entry}");
        }
    }
}

#[test]
fn every_command_of_the_runbook_exists() {
    let runbook = read("docs/runbook.md").replace('\n', " ");
    let commands: BTreeSet<String> = runbook
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|code| code.starts_with("sluice "))
        .map(|code| {
            let is_word = |word: &&str| word.bytes().all(|b| b.is_ascii_lowercase());
            code.split(' ').skip(1).take_while(is_word).collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        assert!(sluice(&words).output().unwrap().status.success(), "sluice {command}");
    }
}
