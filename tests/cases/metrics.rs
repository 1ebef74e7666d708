//! What was answered is counted, under labels that no caller makes.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpStream;

use serde_json::json;
use sluice::telemetry::METRICS;

use crate::support::clock::wait_until;
use crate::support::shape::{operation, valid};
use crate::support::token::{claims, signed};
use crate::support::upstream::answer;
use crate::support::wire::Wire;
use crate::support::{Act, Setup, Upstream, get, post};

#[test]
fn every_answer_is_counted_under_its_labels() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let named = |call: crate::support::Call, name: &str| {
        call.header("X-Request-Id", name).send(gate.production());
        gate.request_line(name);
    };
    named(valid(operation("listUsers")), "r1");
    named(valid(operation("listUsers")), "r2");
    named(valid(operation("createSwap")), "r3");
    named(post("/v2/wallets/swaps").json("{}"), "r4");
    upstream.next(Act::silence().close());
    named(valid(operation("createSwap")), "r5");
    upstream.next(Act::bytes(answer(500, &[("Content-Type", "text/html")], b"<p>")));
    named(valid(operation("listUsers")), "r6");
    let series = |operation: &str, status: u16, origin: &str, outcome: &str, code: &str| {
        gate.metric(&format!(
            "sluice_requests_total{{code=\"{code}\",environment=\"production\",operation=\"{operation}\",origin=\"{origin}\",outcome=\"{outcome}\",status=\"{status}\"}}"
        ))
    };
    assert_eq!(series("listUsers", 200, "upstream", "none", "none"), 2);
    assert_eq!(series("createSwap", 200, "upstream", "executed", "none"), 1);
    assert_eq!(series("createSwap", 400, "gateway", "unknown", "INVALID_REQUEST"), 1);
    assert_eq!(series("createSwap", 502, "gateway", "unknown", "OUTCOME_UNKNOWN"), 1);
    assert_eq!(series("listUsers", 500, "upstream", "none", "UPSTREAM_ERROR"), 1);
    let count =
        |name: &str| gate.metric(&format!("{name}_count{{environment=\"production\",operation=\"listUsers\"}}"));
    for name in ["sluice_request_seconds", "sluice_gate_seconds", "sluice_upstream_seconds"] {
        assert_eq!(count(name), 3, "{name}");
    }
    assert_eq!(gate.metric("sluice_requests_in_flight"), 0);
}

#[test]
fn callers_make_no_series() {
    let upstream = Upstream::start();
    upstream.always(Act::json(200, r#"{"status":"ACTIVE","message":"approved"}"#));
    let gate = Setup::of(&upstream).start();
    let names = || -> BTreeSet<String> {
        let text = gate.probe("/metrics").text();
        let series = text.lines().filter(|line| !line.starts_with('#'));
        series.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    let call = |at: usize| {
        get(format!("/nowhere-{at}?secret-{at}=1")).send(gate.production());
        crate::support::Call::new(&format!("M{at}"), format!("/v2/users/u-{at}/kyc/status")).send(gate.production());
        get(format!("/v2/users/u-{at}/kyc/status")).header("X-Request-Id", format!("x-{at}")).send(gate.production());
        gate.request_line(&format!("x-{at}"));
    };
    call(0);
    let before = names();
    (1..20).for_each(call);
    assert_eq!(names(), before);
    for word in ["nowhere", "secret", "u-0", "M0", "x-0"] {
        assert!(!before.iter().any(|series| series.contains(word)), "{word}");
    }
    assert!(before.iter().any(|series| series.contains("operation=\"none\"")));
}

/// So many of each; `SLUICE_SERIES` asks for more.
#[expect(clippy::disallowed_methods, reason = "a count is given by who runs it")]
fn many() -> usize {
    std::env::var("SLUICE_SERIES").map_or(500, |text| text.parse().unwrap())
}

const CALLERS: usize = 8;

/// A limit whose windows callers choose, enclosed by one whose windows they do not.
const LIMITS: &str = r#"
[[limit]]
id = "of-a-destination"
ops = ["createSwap"]
window = "rolling 24h"
per = ["destination"]
max = "100000 USD"
over = "deny"

[[limit]]
id = "of-all"
ops = ["createSwap"]
window = "rolling 24h"
max = "1000000 USD"
over = "deny"

[[rate]]
id = "of-a-caller"
ops = ["*"]
per = ["caller"]
quota = "100/s burst 200"
"#;

#[test]
fn many_users_subjects_paths_and_wallets_make_no_series() {
    let upstream = Upstream::start();
    // It answers both the read and the swap.
    let id = crate::support::shape::ID;
    let both = json!({
        "status": "ACTIVE", "message": "approved", "transferType": "WALLET.SWAP", "transferDetails": {"id": id},
    });
    upstream.always(Act::json(200, both.to_string()));
    let gate = Setup::of(&upstream).file("policies/limits.toml", LIMITS).start();
    let names = || -> BTreeSet<String> {
        let text = gate.probe("/metrics").text();
        let series = text.lines().filter(|line| !line.starts_with('#'));
        series.map(|line| line.rsplit_once(' ').unwrap().0.to_owned()).collect()
    };
    let calls = |at: usize| {
        let mut claims = claims();
        claims["sub"] = json!(format!("subject-{at}"));
        let head = format!("Host: gate.example\r\nAuthorization: Bearer {}\r\n", signed(&claims));
        let body = json!({
            "requestId": format!("request-{at}"),
            "source": {"chain": "POLYGON", "currency": "usdt", "amount": "7"},
            "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": format!("0x{at:040x}")},
        })
        .to_string();
        [
            format!("GET /v2/users/user-{at}/kyc/status HTTP/1.1\r\n{head}\r\n"),
            format!("GET /nowhere/{at} HTTP/1.1\r\n{head}\r\n"),
            format!(
                "POST /v2/wallets/swaps HTTP/1.1\r\n{head}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ),
        ]
    };
    let send = |from: usize, to: usize| {
        let mut wire = Wire::new(TcpStream::connect(gate.production()).unwrap());
        for call in (from..to).flat_map(calls) {
            wire.stream().write_all(call.as_bytes()).unwrap();
            let head = wire.head().unwrap().expect("an answer");
            wire.body(&head, true).unwrap();
            if head.header("connection").is_some_and(|said| said == "close") {
                wire = Wire::new(TcpStream::connect(gate.production()).unwrap());
            }
        }
    };
    send(0, 2);
    // What limits have left is told a little later.
    wait_until("limits to be told", || names().iter().any(|series| series.contains("limit=\"of-all\"")));
    let before = names();
    let many = many();
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (from, to) = (2 + many * caller / CALLERS, 2 + many * (caller + 1) / CALLERS);
            scope.spawn(move || send(from, to));
        }
    });
    // The outbox is looked at every ten seconds, and told for the environment.
    let is_of_outbox = |series: &str| {
        ["sluice_audit_lag_seconds", "sluice_audit_outbox_entries"]
            .iter()
            .any(|name| series == format!("{name}{{environment=\"production\"}}"))
    };
    let new: Vec<String> = names().difference(&before).filter(|series| !is_of_outbox(series)).cloned().collect();
    assert_eq!(new, Vec::<String>::new());
    let count = r#"sluice_gate_seconds_count{environment="production",operation="createSwap"}"#;
    assert_eq!(gate.metric(count) as usize, many + 2);
}

#[test]
fn what_is_told_is_what_the_list_says() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).file("policies/limits.toml", LIMITS).start();
    valid(operation("createSwap")).send(gate.production());
    wait_until("limits to be told", || gate.probe("/metrics").text().contains("sluice_limit_left_usd{"));
    let text = gate.probe("/metrics").text();
    let mut told = BTreeSet::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = line.split_once(' ').unwrap();
        let listed = METRICS.iter().find(|metric| metric.name == name).expect(name);
        assert_eq!(listed.kind, kind, "{name}");
        told.insert(name.to_owned());
    }
    for series in text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('{')) {
        let (name, labels) = (series.0, series.1.split_once('}').unwrap().0);
        let base = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        let metric = METRICS.iter().find(|metric| metric.name == name || metric.name == base).expect(name);
        for label in labels.split("\",").map(|pair| pair.split_once('=').unwrap().0) {
            assert!(metric.labels.contains(&label) || label == "le", "{name}: {label}");
        }
    }
    for name in
        ["sluice_audit_up", "sluice_store_up", "sluice_store_seconds", "sluice_audit_seconds", "process_open_fds"]
    {
        assert!(told.contains(name), "{name}");
    }
    wait_until("the store to be looked at", || gate.metric("sluice_store_up") == 1);
    assert_eq!(gate.metric("sluice_audit_up"), 1);
    assert!(gate.metric("process_open_fds") > 5 && gate.metric("process_resident_memory_bytes") > 1_000_000);
    let start: f64 =
        text.lines().find_map(|line| line.strip_prefix("process_start_time_seconds ")).unwrap().parse().unwrap();
    assert!(start > 1_700_000_000.0);
}

#[test]
fn probes_are_answered_on_their_own_listener_alone() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for (path, status) in [("/livez", 200), ("/readyz", 200), ("/metrics", 200), ("/", 404), ("/v2/users", 404)] {
        assert_eq!(gate.probe(path).status, status, "{path}");
        assert_ne!(get("/livez").send(gate.production()).status, 200);
    }
}

#[test]
fn the_log_says_nothing_of_tokens_bodies_and_paths() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).set("log", "level", "trace").start();
    let person = "Zaphod-Beeblebrox";
    let id = crate::support::shape::ID;
    let call = post(format!("/v2/users/{id}")).json(format!(r#"{{"type":"individual","firstName":"{person}"}}"#));
    assert_eq!(call.header("X-Request-Id", "l1").send(gate.production()).status, 200);
    get(format!("/v2/users?firstName={person}")).header("X-Request-Id", "l2").send(gate.production());
    upstream.next(Act::json(500, format!(r#"{{"x":"{person}"}}"#)));
    get(format!("/v2/users?firstName={person}")).header("X-Request-Id", "l3").send(gate.production());
    for name in ["l1", "l2", "l3"] {
        gate.request_line(name);
    }
    let log = format!("{:?} {}", gate.log.all(), gate.stderr());
    for word in [person, id, crate::support::token::token()] {
        assert!(!log.contains(word), "{word} is logged");
    }
}
