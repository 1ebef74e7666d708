//! What operators watch: alerts and their runbook, the dashboard, log fields, the log's level, traces.

mod deployed;
mod fields;
mod traces;

use crate::support::{Setup, Upstream, get};

#[test]
fn signals_change_how_much_the_log_says() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let told = |count: usize, level: &str| {
        gate.log.wait("the level to be told", |lines| {
            let told: Vec<_> = lines.iter().filter(|line| line.get("now").is_some()).collect();
            (told.len() == count && told[count - 1]["now"] == level).then_some(())
        });
    };
    let named = |name: &str| {
        get("/v2/users").header("X-Request-Id", name).send(gate.production());
        gate.request_line(name);
    };
    named("quiet");
    gate.signal("USR1");
    told(1, "debug");
    named("loud");
    gate.signal("USR1");
    told(2, "trace");
    gate.signal("USR1");
    told(3, "trace");
    gate.signal("USR2");
    told(4, "info");
    named("quiet-again");
    let decided: Vec<_> = gate.log.all().into_iter().filter(|line| line["message"] == "decided").collect();
    assert_eq!(decided.len(), 1);
    assert_eq!((&decided[0]["request_id"], &decided[0]["rules"]), (&"loud".into(), &"everything".into()));
}
