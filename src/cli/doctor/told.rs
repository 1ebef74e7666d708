//! What the doctor tells: for people line by line, for programs as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::base::ids::Environment;

/// How a gate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Live,
    /// In order.
    Ended,
    Gone,
}

#[derive(Debug, Default)]
pub(super) struct Report {
    pub kind: &'static str,
    pub store: String,
    findings: Vec<(String, String)>,
    money: Vec<(Environment, &'static str)>,
    freezes: Vec<(Environment, Value)>,
    nodes: Vec<(Environment, Value)>,
}

impl Report {
    pub fn is_well(&self) -> bool {
        self.findings.is_empty()
    }

    pub fn find(&mut self, what: &str, way: &str) {
        self.findings.push((what.to_owned(), way.to_owned()));
    }

    /// The last word counts.
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
        way: Way,
        age: Duration,
        (software, policies): (&str, &str),
        clock_off_micros: Option<i64>,
        outbox: usize,
        is_waited_for: bool,
    ) {
        let node = json!({
            "node": name,
            "state": match way { Way::Live => "live", Way::Ended => "ended", Way::Gone => "gone" },
            "seenSecondsAgo": (way != Way::Ended).then_some(age.as_secs()),
            "software": software,
            "policies": policies,
            "clockOffMillis": (way == Way::Live).then_some(clock_off_micros.map(|micros| micros / 1_000)).flatten(),
            "outbox": outbox,
            "waitedFor": is_waited_for,
        });
        self.nodes.push((environment, node));
    }

    pub fn json(&self) -> Value {
        let of = |all: &[(Environment, Value)], environment| -> Vec<Value> {
            all.iter().filter(|(one, _)| *one == environment).map(|(_, value)| value.clone()).collect()
        };
        let environments: Vec<Value> = Environment::ALL
            .into_iter()
            .map(|environment| {
                json!({
                    "environment": environment.as_str(),
                    "money": self.money_of(environment),
                    "freezes": of(&self.freezes, environment),
                    "nodes": of(&self.nodes, environment),
                })
            })
            .collect();
        let findings: Vec<Value> =
            self.findings.iter().map(|(what, way)| json!({ "finding": what, "remedy": way })).collect();
        json!({
            "well": self.is_well(),
            "store": { "kind": self.kind, "state": self.store },
            "environments": environments,
            "findings": findings,
        })
    }

    pub fn lines(&self) -> String {
        let mut lines = vec![format!("store: {}", self.store)];
        for environment in Environment::ALL {
            lines.push(format!("{environment}: money is {}", self.money_of(environment).to_uppercase()));
            for (_, freeze) in self.freezes.iter().filter(|(one, _)| *one == environment) {
                lines.push(format!(
                    "  frozen: {} for {}, by {}: {}",
                    text(freeze, "freeze"),
                    ago(Duration::from_secs(freeze["sinceSeconds"].as_u64().unwrap_or(0))),
                    text(freeze, "by"),
                    text(freeze, "reason")
                ));
            }
            for (_, node) in self.nodes.iter().filter(|(one, _)| *one == environment) {
                lines.push(line(node));
            }
        }
        if self.is_well() {
            lines.push("All is well.".to_owned());
        }
        for (what, way) in &self.findings {
            lines.push(format!("FOUND {what}"));
            lines.push(format!("  do: {way}"));
        }
        lines.push(String::new());
        lines.join("\n")
    }

    /// Unknown where the store could not be asked.
    fn money_of(&self, environment: Environment) -> &'static str {
        let said = self.money.iter().rev().find(|(one, _)| *one == environment);
        said.map_or("not known", |(_, money)| *money)
    }
}

fn line(node: &Value) -> String {
    let seen = match (text(node, "state"), node["seenSecondsAgo"].as_u64()) {
        ("live", _) => "live".to_owned(),
        ("ended", _) => "ended in order".to_owned(),
        (_, secs) => format!("GONE for {}", ago(Duration::from_secs(secs.unwrap_or(0)))),
    };
    let clock = node["clockOffMillis"].as_i64().map_or_else(String::new, |off| format!(", clock {off:+} ms"));
    let waited_for = if node["waitedFor"] == true { ", WAITED FOR" } else { "" };
    format!(
        "  {}: {seen}, version {}, policies {}{clock}, {} entries in its outbox{waited_for}",
        text(node, "node"),
        text(node, "software"),
        text(node, "policies").get(..12).unwrap_or_default(),
        node["outbox"]
    )
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value.get(name).and_then(Value::as_str).unwrap_or("unknown")
}

pub(super) fn ago(time: Duration) -> String {
    match time.as_secs() {
        secs @ 0..=119 => format!("{secs} s"),
        secs @ 120..=7_199 => format!("{} min", secs / 60),
        secs @ 7_200..=172_799 => format!("{} h", secs / 3_600),
        secs => format!("{} days", secs / 86_400),
    }
}
