//! The doctor's report: lines for people, JSON for programs.

use std::time::Duration;

use serde_json::{Value, json};

use crate::base::ids::Environment;
use crate::base::word_enum::word_enum;
use crate::cli::ExitReason;

/// The state of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeState {
    Live,
    /// The gate ended in order.
    Stopped,
    /// The gate ended in order, and other journals have all that its own has.
    Retired,
    /// Its heartbeats stopped.
    Missing,
    /// Its heartbeats stopped, but the store accepts none.
    Unknown,
}

word_enum! {
    /// The result of one check.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum CheckState {
        Well = "ok",
        Problem = "problem",
        /// The state could not be found out.
        Unknown = "unknown",
    }
}

/// One thing that was looked at.
#[derive(Debug)]
struct CheckLine {
    subject: &'static str,
    environment: Option<Environment>,
    state: CheckState,
    text: String,
}

#[derive(Debug, Default)]
pub(super) struct DoctorReport {
    /// The environments of the configuration.
    pub environments: Vec<Environment>,
    checks: Vec<CheckLine>,
    pub kind: &'static str,
    pub store: String,
    findings: Vec<(String, String)>,
    advice: Vec<(String, String)>,
    money: Vec<(Environment, &'static str)>,
    freezes: Vec<(Environment, Value)>,
    nodes: Vec<(Environment, Value)>,
    lost_journals: Vec<(Environment, Value)>,
}

impl DoctorReport {
    /// Returns an empty report on these environments.
    pub fn of(environments: Vec<Environment>) -> DoctorReport {
        DoctorReport { environments, ..DoctorReport::default() }
    }

    /// Returns how the command ends. A closed environment counts more than anything unknown, and that more than other
    /// problems.
    pub fn ending(&self) -> ExitReason {
        let moneys = || self.environments.iter().map(|environment| self.money_of(*environment));
        let is_unknown = self.checks.iter().any(|check| check.state == CheckState::Unknown);
        if moneys().any(|money| money == "closed") {
            ExitReason::MoneyClosed
        } else if is_unknown || moneys().any(|money| money == "unknown") {
            ExitReason::Uncertain
        } else if self.findings.is_empty() {
            ExitReason::Done
        } else {
            ExitReason::Unwell
        }
    }

    fn is_healthy(&self) -> bool {
        self.ending() == ExitReason::Done
    }

    /// Records something that is as it should be.
    pub fn well(&mut self, subject: &'static str, environment: Option<Environment>, text: &str) {
        self.checks.push(CheckLine { subject, environment, state: CheckState::Well, text: text.to_owned() });
    }

    /// Records something that could not be found out.
    pub fn unknown(&mut self, subject: &'static str, environment: Option<Environment>, text: &str) {
        self.checks.push(CheckLine { subject, environment, state: CheckState::Unknown, text: text.to_owned() });
    }

    /// Records a problem, as a finding too.
    pub fn problem(&mut self, subject: &'static str, environment: Option<Environment>, text: &str, remedy: &str) {
        let place = environment.map_or_else(String::new, |environment| format!("{environment}: "));
        self.find(&format!("{place}{subject} {text}"), remedy);
        self.checks.push(CheckLine { subject, environment, state: CheckState::Problem, text: text.to_owned() });
    }

    pub fn find(&mut self, problem: &str, remedy: &str) {
        self.findings.push((problem.to_owned(), remedy.to_owned()));
    }

    /// Records something that could be better, although nothing is wrong.
    pub fn advise(&mut self, advice: &str, remedy: &str) {
        self.advice.push((advice.to_owned(), remedy.to_owned()));
    }

    /// Records whether money is open; the last call for an environment counts.
    pub fn money(&mut self, environment: Environment, is_open: bool) {
        self.money.push((environment, if is_open { "open" } else { "closed" }));
    }

    pub fn freeze(&mut self, environment: Environment, name: &str, age: Duration, by: Option<String>, reason: &str) {
        let freeze = json!({ "freeze": name, "sinceSeconds": age.as_secs(), "by": by, "reason": reason });
        self.freezes.push((environment, freeze));
    }

    #[expect(clippy::too_many_arguments, reason = "they are the columns of one table")]
    pub fn node(
        &mut self,
        environment: Environment,
        name: &str,
        state: NodeState,
        age: Duration,
        (software, policies): (&str, &str),
        clock_off_micros: Option<i64>,
        lacks: u64,
        is_awaited: bool,
    ) {
        let node = json!({
            "node": name,
            "state": match state {
                NodeState::Live => "live",
                NodeState::Stopped => "stopped",
                NodeState::Retired => "retired",
                NodeState::Missing => "missing",
                NodeState::Unknown => "unknown",
            },
            "seenSecondsAgo": (!matches!(state, NodeState::Stopped | NodeState::Retired)).then_some(age.as_secs()),
            "software": software,
            "policies": policies,
            "clockOffMillis": (state == NodeState::Live).then_some(clock_off_micros.map(|micros| micros / 1_000)).flatten(),
            "journalLacks": lacks,
            "awaited": is_awaited,
        });
        self.nodes.push((environment, node));
    }

    /// Returns whether a gate with this name is live in an environment.
    pub fn is_live(&self, node: &str) -> bool {
        self.nodes.iter().any(|(_, one)| one["node"] == node && one["state"] == "live")
    }

    /// Records a journal that its gate lost, and how far it reached.
    pub fn lost_journal(&mut self, environment: Environment, name: &str, up_to: u64) {
        self.lost_journals.push((environment, json!({ "journal": name, "upTo": up_to })));
    }

    pub fn json(&self) -> Value {
        let of = |all: &[(Environment, Value)], environment| -> Vec<Value> {
            all.iter().filter(|(one, _)| *one == environment).map(|(_, value)| value.clone()).collect()
        };
        let environments: Vec<Value> = self
            .environments
            .iter()
            .copied()
            .map(|environment| {
                json!({
                    "environment": environment.as_str(),
                    "money": self.money_of(environment),
                    "freezes": of(&self.freezes, environment),
                    "nodes": of(&self.nodes, environment),
                    "lostJournals": of(&self.lost_journals, environment),
                })
            })
            .collect();
        let findings: Vec<Value> =
            self.findings.iter().map(|(problem, remedy)| json!({ "finding": problem, "remedy": remedy })).collect();
        let advice: Vec<Value> =
            self.advice.iter().map(|(advice, remedy)| json!({ "advice": advice, "remedy": remedy })).collect();
        let checks = self.checks.iter().map(|check| {
            let environment = check.environment.map(|environment| environment.as_str());
            json!({ "check": check.subject, "environment": environment, "state": check.state.as_str(), "text": check.text })
        });
        json!({
            "healthy": self.is_healthy(),
            "checks": checks.collect::<Vec<_>>(),
            "store": { "kind": self.kind, "state": self.store },
            "environments": environments,
            "findings": findings,
            "advice": advice,
        })
    }

    pub fn lines(&self) -> String {
        let mut lines = vec![format!("store: {}", self.store)];
        for check in &self.checks {
            let place = check.environment.map_or_else(String::new, |environment| format!("{environment}: "));
            lines.push(format!("{:<7}  {place}{} {}", check.state.as_str().to_uppercase(), check.subject, check.text));
        }
        for environment in self.environments.iter().copied() {
            lines.push(format!("{environment}: money is {}", self.money_of(environment).to_uppercase()));
            for (_, freeze) in self.freezes.iter().filter(|(one, _)| *one == environment) {
                lines.push(format!(
                    "  frozen: {} for {}, by {}: {}",
                    text(freeze, "freeze"),
                    in_units(Duration::from_secs(freeze["sinceSeconds"].as_u64().unwrap_or(0))),
                    text(freeze, "by"),
                    text(freeze, "reason")
                ));
            }
            for (_, node) in self.nodes.iter().filter(|(one, _)| *one == environment) {
                lines.push(node_line(node));
            }
            for (_, lost) in self.lost_journals.iter().filter(|(one, _)| *one == environment) {
                lines.push(format!("  lost journal: {}, up to number {}", text(lost, "journal"), lost["upTo"]));
            }
        }
        match self.ending() {
            ExitReason::Done => lines.push("No problems found.".to_owned()),
            ExitReason::Uncertain => lines.push("NOT ALL IS KNOWN: see the lines that say so.".to_owned()),
            _ => {}
        }
        for (problem, remedy) in &self.findings {
            lines.push(format!("PROBLEM: {problem}"));
            lines.push(format!("  remedy: {remedy}"));
        }
        for (advice, remedy) in &self.advice {
            lines.push(format!("ADVICE: {advice}"));
            lines.push(format!("  remedy: {remedy}"));
        }
        lines.push(String::new());
        lines.join("\n")
    }

    /// Returns whether money is open; "unknown" if the store could not be read.
    fn money_of(&self, environment: Environment) -> &'static str {
        let last = self.money.iter().rev().find(|(one, _)| *one == environment);
        last.map_or("unknown", |(_, money)| *money)
    }
}

fn node_line(node: &Value) -> String {
    let seen = match (text(node, "state"), node["seenSecondsAgo"].as_u64()) {
        ("live", _) => "live".to_owned(),
        (state @ ("stopped" | "retired"), _) => state.to_owned(),
        ("unknown", secs) => {
            let age = in_units(Duration::from_secs(secs.unwrap_or(0)));
            format!("unknown, because the store accepts no heartbeats; the last one was {age} ago")
        }
        (_, secs) => format!("NO HEARTBEAT for {}", in_units(Duration::from_secs(secs.unwrap_or(0)))),
    };
    let clock = node["clockOffMillis"].as_i64().map_or_else(String::new, |off| format!(", clock {off:+} ms"));
    let awaited = if node["awaited"] == true { ", AWAITED (must restore its records)" } else { "" };
    format!(
        "  {}: {seen}, version {}, policies {}{clock}, journal lacks {} entries{awaited}",
        text(node, "node"),
        text(node, "software"),
        text(node, "policies").get(..12).unwrap_or_default(),
        node["journalLacks"]
    )
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or("unknown")
}

pub(super) fn in_units(time: Duration) -> String {
    match time.as_secs() {
        secs @ 0..=119 => format!("{secs} s"),
        secs @ 120..=7_199 => format!("{} min", secs / 60),
        secs @ 7_200..=172_799 => format!("{} h", secs / 3_600),
        secs => format!("{} days", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCTION: Environment = Environment::Production;

    fn open() -> DoctorReport {
        let mut report = DoctorReport::of(vec![PRODUCTION]);
        report.money(PRODUCTION, true);
        report
    }

    #[test]
    fn nothing_is_called_well_beside_something_unknown() {
        type Told = fn(&mut DoctorReport);
        let cases: [(Told, ExitReason); 5] = [
            (|report| report.well("gate", None, "answers"), ExitReason::Done),
            (|report| report.find("one", "mend it"), ExitReason::Unwell),
            (|report| report.unknown("disk", None, "cannot be looked at"), ExitReason::Uncertain),
            (|report| report.environments.push(Environment::Sandbox), ExitReason::Uncertain),
            (|report| report.money(PRODUCTION, false), ExitReason::MoneyClosed),
        ];
        let mut all = open();
        let mut worst = 0;
        for (told, ending) in cases {
            let mut report = open();
            told(&mut report);
            assert_eq!(report.ending(), ending, "{report:?}");
            assert_eq!(report.json()["healthy"], ending == ExitReason::Done);
            assert_eq!(report.lines().contains("No problems found."), ending == ExitReason::Done);
            assert_eq!(report.lines().contains("NOT ALL IS KNOWN"), ending == ExitReason::Uncertain);
            // What is worse is not hidden by what is better.
            told(&mut all);
            worst = worst.max(rank(all.ending()));
            assert_eq!(rank(all.ending()), worst);
        }
    }

    fn rank(ending: ExitReason) -> usize {
        let order = [ExitReason::Done, ExitReason::Unwell, ExitReason::Uncertain, ExitReason::MoneyClosed];
        order.iter().position(|one| *one == ending).unwrap()
    }
}
