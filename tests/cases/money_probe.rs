//! `/readyz` is about reads; `/readyz/money` says whether money could move now, and if not why.

use std::fs;

use serde_json::{Value, json};
use sluice::node::StopReason;

use super::claims::swap;
use super::console::{ask, console, operator};
use super::identity::fetched_from;
use crate::support::clock::wait_until;
use crate::support::{Act, Answer, Gate, Setup, Upstream, get};

/// The status, and each reason with the environment that it stops, if it stops one alone.
fn money(gate: &Gate) -> (u16, Vec<(String, Option<String>)>) {
    let answer = gate.probe("/readyz/money");
    let said = answer.json();
    assert_eq!(said["ready"], answer.status == 200, "{answer}");
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let reasons = said["reasons"].as_array().unwrap().iter();
    let reasons: Vec<_> = reasons
        .inspect(|reason| assert!(!reason["text"].as_str().unwrap().is_empty(), "{answer}"))
        .map(|reason| (text(&reason["reason"]).unwrap(), text(&reason["environment"])))
        .collect();
    (answer.status, reasons)
}

fn stopped(reason: &str, environment: Option<&str>) -> (u16, Vec<(String, Option<String>)>) {
    (503, vec![(reason.to_owned(), environment.map(str::to_owned))])
}

#[track_caller]
fn wait_for(gate: &Gate, expected: &(u16, Vec<(String, Option<String>)>)) {
    let mut last = None;
    wait_until("the probe to say so", || {
        last = Some(money(gate));
        last.as_ref() == Some(expected)
    });
    is_in_the_metric(gate, expected);
}

/// Every reason has its series in each environment: 1 where it stops money there, otherwise 0.
fn is_in_the_metric(gate: &Gate, (_, stops): &(u16, Vec<(String, Option<String>)>)) {
    let text = gate.probe("/metrics").text();
    let has_sandbox = text.contains("sluice_money_closed{environment=\"sandbox\"");
    for environment in [Some("production"), has_sandbox.then_some("sandbox")].into_iter().flatten() {
        for reason in StopReason::ALL {
            let is_it = |(name, of): &(String, Option<String>)| {
                name == reason.as_str() && of.as_deref().is_none_or(|one| one == environment)
            };
            let value = u8::from(stops.iter().any(is_it));
            let line = format!("\nsluice_money_closed{{environment=\"{environment}\",reason=\"{reason}\"}} {value}\n");
            assert!(text.contains(&line), "{line}");
        }
    }
}

fn act(gate: &Gate, path: &str, scope: Value) -> Answer {
    let body = json!({"environment": "production", "scope": scope, "reason": "a drill"});
    let answer = ask(gate, "POST", path, &operator("ops-1"), Some(body.clone()));
    assert!(answer.status < 300, "{answer}");
    // It takes two people to lift a freeze.
    if answer.status == 202 { ask(gate, "POST", path, &operator("ops-2"), Some(body)) } else { answer }
}

#[test]
fn a_freeze_of_all_money_stops_it_and_one_of_a_part_does_not() {
    let (upstream, sandbox) = (Upstream::start(), Upstream::start());
    let gate = console(Setup::of(&upstream).sandbox(&sandbox)).start().ready();
    assert_eq!(money(&gate), (200, Vec::new()));
    assert_eq!(gate.probe("/readyz/money").header("content-type").as_deref(), Some("application/json"));
    act(&gate, "freezes", json!({"operation": "createSwap"}));
    act(&gate, "freezes", json!("all"));
    wait_for(&gate, &stopped("frozen", Some("production")));
    assert_eq!((gate.probe("/readyz").status, get("/v2/users").send(gate.production()).status), (200, 200));
    act(&gate, "freezes/lift", json!("all"));
    wait_for(&gate, &(200, Vec::new()));
}

#[test]
fn a_store_that_cannot_be_rebuilt_whole_stops_money() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start().ready();
    assert_eq!(swap().send(gate.production()).status, 200);
    let setup = gate.end();
    fs::rename(setup.path("sluice-audit"), setup.path("journal")).unwrap();
    let gate = setup.start();
    assert_eq!(swap().send(gate.production()).status, 503);
    let setup = gate.end();
    fs::rename(setup.path("sluice-data"), setup.path("away")).unwrap();
    let gate = setup.start();
    wait_for(&gate, &stopped("restored", Some("production")));
    assert_eq!(gate.probe("/readyz").status, 200);
}

#[test]
fn an_audit_log_that_cannot_be_written_stops_money() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).set_raw("audit", "file_bytes", "4096").start().ready();
    let (folder, away) = (gate.path("sluice-audit"), gate.path("away"));
    fs::rename(&folder, &away).unwrap();
    assert!((0..100).any(|_| swap().send(gate.production()).status == 503));
    assert_eq!(money(&gate), stopped("audit-failing", None));
    assert_eq!(gate.probe("/readyz").status, 200);
    fs::rename(&away, &folder).unwrap();
    wait_for(&gate, &(200, Vec::new()));
}

#[test]
fn a_gate_that_ends_moves_no_money() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).set_raw("timeouts", "notice_secs", "600").start().ready();
    gate.terminate();
    wait_for(&gate, &stopped("draining", None));
    assert_eq!(gate.probe("/readyz").status, 503);
    gate.signal("TERM");
    gate.wait_end();
}

/// No traffic is needed to learn of it: a gate without keys is out of the load balancer.
#[test]
fn keys_that_were_never_fetched_stop_money_and_are_in_the_metrics() {
    let (upstream, dead) = (Upstream::start(), Upstream::start());
    dead.always(Act::silence().close());
    let gate = fetched_from(Setup::of(&upstream), &dead).start();
    wait_for(&gate, &stopped("keys-unknown", None));
    assert_eq!(gate.probe("/readyz").status, 503);
    let text = gate.probe("/metrics").text();
    assert!(text.contains("\nsluice_keys_known{issuer=\"second\"} 0\n"), "{text}");
    assert!(text.contains("\nsluice_keys_known{issuer=\"main\"} 1\n"), "{text}");
}
