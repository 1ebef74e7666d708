//! What operators watch: alerts and their runbook, the dashboard, log fields, the log's level, traces.

mod deployed;
mod fields;
mod traces;

use crate::support::{Setup, Upstream, get};

#[test]
fn signals_change_how_much_the_log_says() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).set("log", "level", "warn").start();
    let told = |count: usize, level: &str| {
        gate.log.wait("the level to be told", |lines| {
            let told: Vec<_> = lines.iter().filter(|line| line["target"] == "sluice::gateway::watching").collect();
            (told.len() == count && told[count - 1]["now"] == level).then_some(())
        });
    };
    let named = |name: &str| get("/v2/users").header("X-Request-Id", name).send(gate.production());
    named("quiet");
    gate.signal("USR1");
    told(1, "info");
    named("loud");
    gate.request_line("loud");
    gate.signal("USR1");
    told(2, "debug");
    gate.signal("USR2");
    told(3, "warn");
    named("quiet-again");
    gate.signal("USR1");
    told(4, "info");
    named("last");
    gate.request_line("last");
    let lines = gate.log.all();
    assert!(!lines.iter().any(|line| line["request_id"].as_str().is_some_and(|id| id.starts_with("quiet"))));
}
