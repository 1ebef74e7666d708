//! A gate before the simulator: what people, limits and webhooks are told of payments that live on.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{CREDENTIAL, following, id, offramp, operator};
use crate::cases::conformance::Simulated;
use crate::cases::console::ask;
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::{Act, Answer, Gate, Setup, Upstream, post};

pub(super) fn before(simulated: &Simulated) -> Setup {
    following(Setup::new().environment("production", &simulated.url))
}

pub(super) fn pay(gate: &Gate, request_id: &str, amount: &str) -> Answer {
    post("/v2/offramps").json(offramp(request_id, amount).to_string()).send(gate.production())
}

/// Makes an offramp past the gate.
pub(super) fn pay_past(simulated: &Simulated, request_id: &str, amount: &str) {
    let address: SocketAddr = simulated.url["http://".len()..].parse().unwrap();
    let call = post("/v2/offramps").without("Authorization").header("Authorization", format!("Bearer {CREDENTIAL}"));
    let answer = call.json(offramp(request_id, amount).to_string()).send(address);
    assert_eq!(answer.status, 201, "{answer}");
}

fn listed(gate: &Gate) -> BTreeMap<String, (String, Value)> {
    let answer = ask(gate, "GET", "payments", &operator("ops-1"), None).json();
    let of = |one: &Value| {
        let status = one["status"].as_str().unwrap().to_owned();
        (one["name"].as_str().unwrap().to_owned(), (status, one["state"].clone()))
    };
    answer["payments"].as_array().unwrap().iter().map(of).collect()
}

/// What a limit counts, in micro-USD or calls.
fn used(gate: &Gate, limit: &str) -> u64 {
    let answer = ask(gate, "GET", "usage", &operator("ops-1"), None).json();
    let all = answer["usage"].as_array().unwrap().iter().filter(|one| one["limit"] == limit);
    all.map(|one| one["used"].as_u64().unwrap()).sum()
}

pub(super) fn read(gate: &Gate) -> u64 {
    gate.metric(r#"sluice_follow_readings_total{environment="production",operation="createOfframp",result="read"}"#)
}

pub(super) fn foreign(gate: &Gate, problem: &str) -> u64 {
    let labels = format!(r#"environment="production",operation="createOfframp",problem="{problem}""#);
    gate.metric(&format!("sluice_foreign_payments_total{{{labels}}}"))
}

#[test]
fn payments_are_followed_to_their_end_and_limits_follow_them() {
    let (simulated, hooks) = (Simulated::start_with(&["--pace-ms", "100"]), Upstream::start());
    hooks.always(Act::json(200, "{}"));
    let setup = before(&simulated)
        .set("webhook.ends", "url", &format!("{}/in", hooks.url()))
        .set("webhook.ends", "format", "chat")
        .set_raw("webhook.ends", "allow_private", "true")
        .set_raw(
            "webhook.ends",
            "events",
            r#"["payment.open", "payment.settled", "payment.failed", "payment.returned"]"#,
        );
    let gate = setup.start();
    let ends = [
        ("100", "paid", "COMPLETED"),
        ("13.13", "failed", "QUOTE_FAILED"),
        ("14.14", "failed", "CRYPTO_FAILED"),
        ("15.15", "failed", "FIAT_FAILED"),
        ("16.16", "returned", "FIAT_RETURNED"),
        ("18.18", "paid", "IN_REVIEW"),
        ("19.19", "returned", "CRYPTO_RETURNED"),
        ("20.20", "failed", "CANCELLED"),
    ];
    for (n, (amount, ..)) in ends.iter().enumerate() {
        assert_eq!(pay(&gate, &id(n), amount).status, 201);
    }
    let is_over = |gate: &Gate| {
        let all = listed(gate);
        ends.iter()
            .enumerate()
            .all(|(n, (_, status, state))| all.get(&id(n)) == Some(&((*status).to_owned(), json!(state))))
    };
    wait_until("every payment to be at its end", || is_over(&gate));
    // 13.13, 19.19 and 20.20 never left, or came back whole.
    let counted = 100_000_000 + 14_140_000 + 15_150_000 + 16_160_000 + 18_180_000;
    assert_eq!((used(&gate, "day"), used(&gate, "calls")), (counted, 5));
    wait_until("the webhook to hear of each end", || {
        let told: Vec<String> = hooks.seen().iter().map(|seen| seen.text()).collect();
        let count = |text: &str| told.iter().filter(|told| told.contains(text)).count();
        // COMPLETED, and before FIAT_RETURNED once more, if it was seen; FIAT_FAILED before CRYPTO_RETURNED likewise.
        let open = told.iter().filter(|told| told.contains("A payment is under way")).collect::<Vec<_>>();
        open.len() >= ends.len() / 2
            && open.iter().any(|told| told.contains("IN_REVIEW"))
            && count("A payment arrived") >= 1
            && count("A payment failed") >= 4
            && count("A payment came back") == 2
    });
    assert_eq!(foreign(&gate, "unknown-request"), 0, "what was listed at the first start is a baseline");

    // Of a payment that is over, a repeat is told the same as before.
    assert_eq!(pay(&gate, &id(1), "13.13").status, 201);
    // Killed, and its store lost: the journal has it all.
    let setup = gate.kill();
    fs::remove_file(setup.path("sluice-data").join("store.redb")).unwrap();
    let gate = setup.start();
    wait_until("the list to be read again", || read(&gate) >= 2);
    wait_until("the same to be listed", || is_over(&gate));
    assert_eq!((used(&gate, "day"), used(&gate, "calls")), (counted, 5));
}

#[test]
fn a_payment_past_the_gate_is_found_and_told_everywhere() {
    let (simulated, hooks) = (Simulated::start(), Upstream::start());
    hooks.always(Act::json(200, "{}"));
    let setup = before(&simulated)
        .set("webhook.bypass", "url", &format!("{}/in", hooks.url()))
        .set("webhook.bypass", "format", "chat")
        .set_raw("webhook.bypass", "allow_private", "true")
        .set_raw("webhook.bypass", "events", r#"["payment.foreign"]"#);
    let gate = setup.start();
    pay(&gate, &id(1), "10");
    wait_until("the baseline", || read(&gate) >= 1);
    // Those that a deposit made raise nothing.
    pay_past(&simulated, "test-deposit-1", "30");
    pay_past(&simulated, &id(7), "77.70");
    wait_until("the payment to be found", || foreign(&gate, "unknown-request") == 1);
    let before = read(&gate);
    wait_until("further readings", || read(&gate) >= before + 3);
    assert_eq!(foreign(&gate, "unknown-request"), 1, "one alert is enough");

    let answer = ask(&gate, "GET", "payments/foreign", &operator("ops-1"), None).json();
    let listed = answer["payments"].as_array().unwrap();
    assert_eq!(listed.len(), 1, "{answer}");
    let found = &listed[0];
    assert_eq!((&found["requestId"], &found["problem"]), (&json!(id(7)), &json!("unknown-request")));
    assert_eq!(
        (&found["source"]["amount"], &found["destination"]["account"]),
        (&json!("77.70"), &json!(super::ACCOUNT))
    );
    wait_until("the webhook", || hooks.seen().len() == 1);
    let told = hooks.seen()[0].text();
    assert!(told.contains("not sent through Sluice") && !told.contains("77.7"), "{told}");

    let config = crate::cases::doctor::config_of(&gate);
    let output = sluice(&["doctor", "--config", config.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(7) && said.contains("1 payments of the last 35 days"), "{said}");
    // After a restart, it is not told again, and nothing is a new baseline.
    let gate = gate.kill().start();
    pay_past(&simulated, &id(8), "5");
    wait_until("the second payment to be found", || foreign(&gate, "unknown-request") == 1);
    wait_until("the list to have both", || {
        let answer = ask(&gate, "GET", "payments/foreign", &operator("ops-1"), None).json();
        answer["payments"].as_array().unwrap().len() == 2
    });
}

#[test]
fn an_upstream_whose_list_is_away_stops_nothing() {
    let upstream = Upstream::start();
    let gate = following(Setup::of(&upstream)).start();
    upstream.always(Act::answer(500, "text/html", "<h1>"));
    let failed = r#"sluice_follow_readings_total{environment="production",operation="createOfframp",result="failed"}"#;
    wait_until("readings to fail", || gate.metric(failed) >= 2);
    upstream.always(Act::done(201));
    assert_eq!(pay(&gate, &id(1), "10").status, 201);
    assert_eq!(gate.probe("/readyz/money").status, 200);
}

#[test]
fn a_limit_names_whom_failed_and_returned_payments_alert() {
    let (simulated, hooks) = (Simulated::start_with(&["--pace-ms", "100"]), Upstream::start());
    hooks.always(Act::json(200, "{}"));
    let rules = super::RULES.replacen("over = \"deny\"", "over = \"deny\"\nalert = [\"treasury\"]", 1);
    let setup = before(&simulated)
        .file("policies/everything.toml", &rules)
        .set("webhook.treasury", "url", &format!("{}/in", hooks.url()))
        .set("webhook.treasury", "format", "chat")
        .set_raw("webhook.treasury", "allow_private", "true")
        .set_raw("webhook.treasury", "events", r#"["hold.held"]"#);
    let gate = setup.start();
    pay(&gate, &id(1), "13.13");
    pay(&gate, &id(2), "16.16");
    pay(&gate, &id(3), "100");
    wait_until("each to be at its end", || {
        let all = listed(&gate);
        [(1, "failed"), (2, "returned"), (3, "paid")].iter().all(|(n, status)| all[&id(*n)].0 == *status)
    });
    wait_until("the webhook to hear of the two", || hooks.seen().len() == 2);
    let told: Vec<String> = hooks.seen().iter().map(|seen| seen.text()).collect();
    assert!(told.iter().any(|told| told.contains("A payment failed")), "{told:?}");
    assert!(told.iter().any(|told| told.contains("A payment came back")), "{told:?}");

    // A webhook that the configuration lacks is an error, not silence.
    let setup = gate.kill().file("policies/everything.toml", &rules.replace("treasury", "treasurer"));
    let config = setup.write();
    let output = sluice(&["check", "--config", config.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!output.status.success() && text.contains("no `[webhook.treasurer]`"), "{text}");
}
