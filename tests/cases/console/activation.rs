//! A looser set of policies takes force when two people agree, and not before.

use std::io::BufRead as _;

use serde_json::{Value, json};

use super::crowds::stream;
use super::{PEOPLE, ask, audited, console, operator, token_of};
use crate::cases::nodes::setup;
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::{Answer, Gate, Redis, Setup, Upstream, post};

const SMALL: &str =
    "[[rule]]\nid = \"small\"\neffect = \"allow\"\nwhen = { op = \"createSwap\", amount = \"(0, 50] USD\" }\n";
const LARGE: &str =
    "[[rule]]\nid = \"small\"\neffect = \"allow\"\nwhen = { op = \"createSwap\", amount = \"(0, 100] USD\" }\n";
const LARGER: &str =
    "[[rule]]\nid = \"small\"\neffect = \"allow\"\nwhen = { op = \"createSwap\", amount = \"(0, 200] USD\" }\n";
const TINY: &str =
    "[[rule]]\nid = \"small\"\neffect = \"allow\"\nwhen = { op = \"createSwap\", amount = \"(0, 10] USD\" }\n";

fn guarded(setup: Setup) -> Setup {
    console(setup).set("", "loosening", "two-people").file("policies/everything.toml", SMALL)
}

fn write(gate: &Gate, text: &str) {
    std::fs::write(gate.path("policies/everything.toml"), text).unwrap();
}

fn admin(subject: &str) -> String {
    token_of(PEOPLE, subject, &["policy-admin"])
}

fn shown(gate: &Gate) -> Value {
    let answer = ask(gate, "GET", "policies", &admin("anna"), None);
    super::policies::assert_described(&answer, "policies");
    answer.json()
}

fn version(gate: &Gate) -> String {
    shown(gate)["version"].as_str().unwrap().to_owned()
}

/// The version that waits, once one does that is not this one.
fn candidate(gate: &Gate, other_than: &str) -> String {
    let found = || shown(gate)["candidate"]["version"].as_str().filter(|found| *found != other_than).map(str::to_owned);
    wait_until("a set waits", || found().is_some());
    found().unwrap()
}

/// No commit tells of it, so that the number is the one before.
#[test]
fn a_set_that_waits_is_announced() {
    let upstream = Upstream::start();
    let gate = guarded(Setup::of(&upstream)).start();
    let (status, mut lines) = stream(&gate, &admin("anna"));
    assert_eq!(status, 200);
    let mut event = || {
        let (mut line, mut silences) = (String::new(), 0);
        while !line.contains("\"production\"") {
            line.clear();
            lines.read_line(&mut line).unwrap();
            silences += u32::from(line.starts_with(':'));
            assert!(silences < 4, "nothing is announced");
        }
        line
    };
    let mut last = event();
    write(&gate, LARGE);
    loop {
        let next = event();
        if next == last {
            break;
        }
        last = next;
    }
    candidate(&gate, "");
}

fn agree(gate: &Gate, subject: &str, version: &str) -> Answer {
    let body = json!({"reason": "the new limit of treasury"});
    ask(gate, "POST", &format!("policies/{version}/agree"), &admin(subject), Some(body))
}

fn pay(gate: &Gate, request_id: &str, amount: &str) -> u16 {
    let body = json!({
        "requestId": request_id,
        "source": {"chain": "POLYGON", "currency": "usdc", "amount": amount},
        "destination": {"chain": "POLYGON", "currency": "usdt", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
    });
    post("/v2/wallets/swaps").json(body.to_string()).send(gate.production()).status
}

#[test]
fn a_looser_set_waits_for_two_people_and_a_tighter_one_for_nobody() {
    let upstream = Upstream::start();
    let gate = guarded(Setup::of(&upstream)).start();
    let first = version(&gate);
    assert_eq!(shown(&gate)["candidate"], Value::Null);
    assert_eq!((pay(&gate, "r-0", "90"), pay(&gate, "r-0b", "60"), pay(&gate, "r-0c", "20")), (403, 403, 200));

    write(&gate, LARGE);
    let large = candidate(&gate, "");
    assert_eq!(pay(&gate, "r-1", "80"), 403);
    assert_eq!(gate.metric(&format!("sluice_policy_candidate{{version=\"{large}\"}}")), 1);
    let ready = gate.probe("/readyz");
    let told =
        format!("ready\npolicies of version {large} wait until two people agree; version {first} stays in force\n");
    assert_eq!((ready.status, ready.text()), (200, told));
    let words = shown(&gate)["candidate"]["words"].as_str().unwrap().to_owned();
    assert!(
        words.starts_with("now allowed without people, denied before: createSwap, ")
            && words.contains("\n  example: ")
            && words.ends_with("allows more than today\n"),
        "{words}"
    );

    // What it would have changed: the calls that were decided before it began to wait.
    let history = || shown(&gate)["candidate"]["history"].clone();
    wait_until("the journal is read", || !history().is_null());
    let found = history();
    let [week, .., quarter] = found["windows"].as_array().unwrap().as_slice() else { panic!("{found}") };
    let change = json!([{
        "environment": "production", "before": "deny", "then": "allow", "count": 2, "microUsd": 150_000_000, "unvalued": 0,
        "largest": {"microUsd": 90_000_000, "request": "r-0", "caller": "main:test"},
    }]);
    assert_eq!((&week["decisions"], &week["changes"], &week["cannotSay"]), (&json!(3), &change, &json!([])), "{found}");
    assert_eq!((&quarter["days"], &quarter["whole"], &quarter["changes"]), (&json!(90), &json!(false), &change));
    assert!(found["words"].as_str().unwrap().contains("now allowed, denied before: 2, 150 USD; the largest: 90 USD"));

    // One person is not enough, however often; nor a role that is another one, nor a word on another version.
    assert_eq!(agree(&gate, "anna", &large).status, 202);
    let again = agree(&gate, "anna", &large);
    assert_eq!((again.status, again.code()), (409, "TWO_PEOPLE_NEEDED".to_owned()), "{again}");
    let body = Some(json!({"reason": "x"}));
    assert_eq!(ask(&gate, "POST", &format!("policies/{large}/agree"), &operator("ben"), body).status, 403);
    assert_eq!(agree(&gate, "ben", &first).status, 400);
    assert_eq!(shown(&gate)["candidate"]["agreed"], json!(["people/anna"]));
    assert_eq!((pay(&gate, "r-2", "80"), version(&gate)), (403, first.clone()));

    // Another set waits instead: what was said of the one before is not said of it.
    write(&gate, LARGER);
    let larger = candidate(&gate, &large);
    assert_eq!(agree(&gate, "ben", &large).status, 400);
    let one = agree(&gate, "ben", &larger);
    assert_eq!((one.status, one.json()["missing"].clone()), (202, json!(1)), "{one}");
    let two = agree(&gate, "anna", &larger);
    assert_eq!((two.status, two.json()["agreed"].clone()), (200, json!(["people/ben", "people/anna"])), "{two}");
    wait_until("the larger set is in force", || version(&gate) == larger);
    assert_eq!(pay(&gate, "r-3", "150"), 200);
    assert_eq!(gate.probe("/readyz").text(), "ready\n");
    audited(&gate, &[("/what", json!("agreed")), ("/policy", json!(larger)), ("/by/subject", json!("anna"))]);
    let entry = audited(&gate, &[("/what", json!("took-force")), ("/policy", json!(larger))]);
    assert_eq!((entry["before"].as_str(), entry["agreed"].as_array().unwrap().len()), (Some(first.as_str()), 2));

    write(&gate, TINY);
    wait_until("the tighter set is in force", || version(&gate) != larger);
    assert_eq!((pay(&gate, "r-4", "20"), shown(&gate)["candidate"].clone()), (403, Value::Null));
    let tiny = version(&gate);
    let entry = audited(&gate, &[("/what", json!("took-force")), ("/policy", json!(tiny))]);
    assert_eq!(entry.get("agreed"), None);

    // What was agreed on after the first set is not agreed on after another.
    write(&gate, LARGER);
    assert_eq!(candidate(&gate, ""), larger);
    assert_eq!(shown(&gate)["candidate"]["agreed"], json!([]));
    // A set that is no set waits for nothing.
    write(&gate, "[[rule]]\n");
    wait_until("nothing waits", || shown(&gate)["candidate"] == Value::Null);
    assert_eq!(version(&gate), tiny);
}

#[test]
fn rates_that_are_gone_are_no_tighter_set() {
    let rate = "[[rate]]\nid = \"all\"\nops = [\"*\"]\nquota = \"100/s\"\n";
    let gate = guarded(Setup::of(&Upstream::start())).file("policies/rates.toml", rate).start();
    std::fs::remove_file(gate.path("policies/rates.toml")).unwrap();
    candidate(&gate, "");
    assert_eq!(shown(&gate)["candidate"]["rates"], json!(["rate all"]));
}

#[test]
fn a_restart_keeps_what_was_in_force() {
    let upstream = Upstream::start();
    let gate = guarded(Setup::of(&upstream)).start();
    let first = version(&gate);
    let setup = gate.end();
    let gate = setup.file("policies/everything.toml", LARGE).start();
    let large = candidate(&gate, "");
    assert_eq!((version(&gate), pay(&gate, "r-1", "80")), (first.clone(), 403));
    assert_eq!(agree(&gate, "anna", &large).status, 202);
    // Killed, it forgets nobody's word, and begins with what it was.
    let gate = gate.kill().start();
    assert_eq!(candidate(&gate, ""), large);
    assert_eq!((version(&gate), pay(&gate, "r-2", "80")), (first, 403));
    assert_eq!(agree(&gate, "ben", &large).status, 200);
    wait_until("the larger set is in force", || version(&gate) == large);
    let gate = gate.end().file("policies/everything.toml", TINY).start();
    assert_eq!((pay(&gate, "r-3", "20"), shown(&gate)["candidate"].clone()), (403, Value::Null));
    let tiny = version(&gate);
    audited(&gate, &[("/what", json!("took-force")), ("/policy", json!(tiny)), ("/before", json!(large))]);

    // Without its archive, it takes the set in force from the store.
    let setup = gate.end().file("policies/everything.toml", LARGE);
    std::fs::remove_dir_all(setup.path("sluice-audit/policies").join(&tiny)).unwrap();
    let gate = setup.start();
    assert_eq!((pay(&gate, "r-4", "20"), version(&gate), candidate(&gate, "")), (403, tiny, large));
}

#[test]
fn two_nodes_hear_of_one_agreement() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| guarded(setup(&upstream, &redis.url(), node)).start());
    write(&left, LARGE);
    write(&right, LARGE);
    let large = candidate(&left, "");
    assert_eq!(candidate(&right, ""), large);
    assert_eq!(agree(&left, "anna", &large).status, 202);
    assert_eq!(agree(&right, "anna", &large).status, 409);
    assert_eq!(agree(&right, "ben", &large).status, 200);
    for gate in [&left, &right] {
        wait_until("the set is in force", || version(gate) == large);
        audited(gate, &[("/what", json!("took-force")), ("/policy", json!(large))]);
    }
    assert_eq!((pay(&left, "r-1", "80"), pay(&right, "r-2", "80")), (200, 200));
}

#[test]
fn what_waits_decides_beside_and_nothing_by_it() {
    let upstream = Upstream::start();
    let gate = guarded(Setup::of(&upstream)).start();
    assert_eq!(pay(&gate, "r-0", "20"), 200);
    write(&gate, LARGE);
    candidate(&gate, "");
    assert_eq!((pay(&gate, "r-1", "80"), pay(&gate, "r-2", "20"), pay(&gate, "r-3", "500")), (403, 200, 403));
    let counted = shown(&gate)["candidate"]["decisions"].clone();
    let line = |from: &str, to: &str| json!({"from": from, "to": to, "calls": 1});
    assert_eq!(counted, json!([line("allow", "allow"), line("deny", "allow"), line("deny", "deny")]));
    assert_eq!(gate.metric("sluice_candidate_decisions_total{from=\"deny\",to=\"allow\"}"), 1);
    let told = "the waiting policies would have decided differently";
    let lines: Vec<Value> = gate.log.wait("the difference to be told", |lines| {
        let found: Vec<Value> = lines.iter().filter(|line| line["message"] == told).cloned().collect();
        (!found.is_empty()).then_some(found)
    });
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((lines[0]["operation"].as_str(), lines[0]["then_by"].as_str()), (Some("createSwap"), Some("small")));
    assert_eq!(upstream.seen().len(), 2);

    let url = format!("http://{}", gate.console().unwrap());
    let run = |subject: &str, words: &[&str]| {
        let mut command = sluice(&[&["policy"], words, &["--console", &url]].concat());
        let output = command.env("SLUICE_TOKEN", admin(subject)).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, out) = run("anna", &["candidate"]);
    assert!(
        code == Some(0)
            && out.contains("approved by: no one yet\n")
            && out.contains("  deny now, allow with the new version: 1\n"),
        "{out}"
    );
    let large = candidate(&gate, "");
    let (code, out) = run("anna", &["agree", &large, "--reason", "treasury asks"]);
    assert!(code == Some(0) && out.starts_with("Approved: version"), "{out}");
    let (code, out) = run("ben", &["agree", &large, "--reason", "treasury asks"]);
    assert!(code == Some(0) && out.starts_with("Fully approved: version"), "{out}");
    wait_until("the set is in force", || version(&gate) == large);
    assert!(!gate.probe("/metrics").text().contains("sluice_policy_candidate{"));
}
