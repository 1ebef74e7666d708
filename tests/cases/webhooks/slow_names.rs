//! Names of receivers that nobody looks up: only their own messages wait.

use super::{SECRET, hook, wait_until};
use crate::cases::holds::{RULES, gate, swap};
use crate::support::clock::Watch;
use crate::support::slow_names::SlowNames;
use crate::support::{Upstream, get};

#[test]
fn names_that_cannot_be_looked_up_stop_neither_the_store_nor_the_console() {
    let (upstream, hooks, names) = (Upstream::start(), Upstream::start(), SlowNames::new());
    let (name, value) = names.variable();
    let mut setup = hook(gate(&upstream, RULES), "near", &hooks).variable(&name, &value);
    for at in 0..5 {
        let section = format!("webhook.far-{at}");
        setup = setup.set(&section, "url", &format!("https://receiver-{at}.slow/in"));
        setup = setup.set_raw(&section, "secrets", &format!("[{SECRET:?}]"));
    }
    let setup = setup.set("telemetry", "otlp", "https://collector.slow");
    let gate = setup.start().ready();
    let watch = Watch::start();
    for at in 0..20 {
        let answer = swap(&format!("r-{at}"), "500").send(gate.production());
        assert_eq!((answer.status, answer.outcome()), (202, "held".to_owned()), "{at}: {answer}");
        assert_eq!(get("/v2/users").send(gate.production()).status, 201);
    }
    assert_eq!(gate.probe("/readyz/money").status, 200);
    assert!(watch.elapsed().as_secs() < 15, "{:?}", watch.elapsed());
    wait_until("whoever can be reached to be told", || hooks.seen().len() >= 20);
}
