//! Acts of two people that both sign: no session and no token makes one, and an auditor finds one without signatures.

use std::fs;

use serde_json::{Value, json};

use super::proved::{Forgery, found, proofs, rewrite};
use super::signed::{Enrolled, page, sign};
use super::{answered, ask, body, gate, person, swap, text};
use crate::support::clock::wait_until;
use crate::support::files::copy_folder;
use crate::support::shape::record_of;
use crate::support::{Act, Answer, Gate, Setup, Upstream};

const ROLES: [&str; 2] = ["operator", "policy-admin"];
const ALL: &str = "acts = [\"activation\", \"unfreezing\", \"executed\", \"absent\", \"abandoned\"]";

fn rules(people: &Enrolled) -> String {
    people.rules().replace("[signing]\n", &format!("[signing]\n{ALL}\n"))
}

fn stricter(people: &Enrolled) -> String {
    rules(people).replace("amount = \"(0, 100] USD\"", "amount = \"(0, 90] USD\"")
}

fn operate(gate: &Gate, path: &str, who: &str, body: Value) -> Answer {
    ask(gate, "POST", path, &person(who, &ROLES), Some(body))
}

/// Asks what the person is to sign, and returns the body of the act with the signature.
fn signed(gate: &Gate, people: &Enrolled, path: &str, who: &str, body: &Value) -> Value {
    let asked =
        ask(gate, "POST", &format!("{path}/challenge"), &person(who, &ROLES), body.as_object().map(|_| body.clone()));
    assert_eq!(asked.status, 200, "{asked}");
    let mut with = if body.is_null() { json!({}) } else { body.clone() };
    with["signature"] = sign(people.key(who), &asked.json(), &page());
    with["reason"] = json!("looked");
    with
}

fn does(gate: &Gate, people: &Enrolled, path: &str, who: &str, body: &Value) -> Answer {
    operate(gate, path, who, signed(gate, people, path, who, body))
}

fn without_signature(body: &Value) -> Value {
    let mut body = if body.is_null() { json!({}) } else { body.clone() };
    body["reason"] = json!("looked");
    body
}

/// The record of upstream for a swap of 50.
fn shown_of(request: &str) -> Value {
    let mut record = record_of("createSwap", request);
    let asked: Value = serde_json::from_slice(body(request, "50").as_ref()).unwrap();
    for side in ["source", "destination"] {
        for (name, value) in asked[side].as_object().unwrap() {
            record["transferDetails"][side][name] = if name == "amount" { json!(50) } else { value.clone() };
        }
    }
    record
}

fn version(gate: &Gate) -> String {
    text(&ask(gate, "GET", "policies", &person("ops-1", &ROLES), None).json(), "version").to_owned()
}

fn waits(gate: &Gate) -> String {
    let found = || ask(gate, "GET", "policies", &person("ops-1", &ROLES), None).json()["candidate"]["version"].clone();
    wait_until("a set waits", || found().is_string());
    found().as_str().unwrap().to_owned()
}

fn write(gate: &Gate, text: &str) {
    fs::write(gate.path("policies/everything.toml"), text).unwrap();
}

/// A word without a signature, or with one that was used or is another's, does nothing; two signatures do it.
fn takes_two(gate: &Gate, people: &Enrolled, path: &str, body: &Value, done: u16) {
    let plain = operate(gate, path, "ops-1", without_signature(body));
    assert_eq!((plain.status, plain.code().as_str()), (403, "SIGNATURE_REQUIRED"), "{path}: {plain}");
    let stranger = operate(gate, path, "ops-3", without_signature(body));
    assert!(stranger.code() == "SIGNATURE_REQUIRED" && stranger.text().contains("no passkey of yours"), "{stranger}");
    let first = signed(gate, people, path, "ops-1", body);
    // A thief of the session of another cannot use it.
    let thief = operate(gate, path, "ops-2", first.clone());
    assert_eq!((thief.status, thief.code().as_str()), (403, "SIGNATURE_REFUSED"), "{path}: {thief}");
    let once = operate(gate, path, "ops-1", first.clone());
    assert_eq!((once.status, &once.json()["missing"]), (202, &json!(1)), "{path}: {once}");
    let again = operate(gate, path, "ops-1", first);
    assert_ne!(again.status, 200, "{path}: {again}");
    let unsigned = operate(gate, path, "ops-2", without_signature(body));
    assert_eq!(unsigned.code(), "SIGNATURE_REQUIRED", "{path}: {unsigned}");
    let both = does(gate, people, path, "ops-2", body);
    assert_eq!(both.status, done, "{path}: {both}");
}

#[test]
fn each_act_takes_two_signatures_and_is_proved_from_the_first_set_alone() {
    let (upstream, sandbox) = (Upstream::start(), Upstream::start());
    sandbox.always(Act::done(201));
    let people = Enrolled::new();
    let gate = gate(&upstream, &rules(&people))
        .sandbox(&sandbox)
        .set("sandbox", "credential", "upstream-s-own-token")
        .set("", "loosening", "two-people")
        .short_quiet_time()
        .start();
    let root = version(&gate);

    // A stricter set needs them as well: what is signed is the succession.
    write(&gate, &stricter(&people));
    let next = waits(&gate);
    takes_two(&gate, &people, &format!("policies/{next}/agree"), &Value::Null, 200);
    wait_until("it to take force", || version(&gate) == next);
    assert_eq!(answered(&gate, &swap("a-0", "50")).status, 201);
    wait_until("it to be in force in the sandbox", || swap("a-0", "50").send(gate.sandbox()).status == 201);

    let freeze = json!({"environment": "production", "scope": "all"});
    let frozen = operate(&gate, "freezes", "ops-1", without_signature(&freeze));
    assert_eq!(frozen.status, 201, "{frozen}");
    takes_two(&gate, &people, "freezes/lift", &freeze, 200);
    assert_eq!(answered(&gate, &swap("a-1", "50")).status, 201);

    for said in [
        json!({"outcome": "absent"}),
        json!({"outcome": "abandoned"}),
        json!({"outcome": "executed", "record": shown_of("a-executed")}),
    ] {
        let request = format!("a-{}", text(&said, "outcome"));
        upstream.next(Act::silence().close());
        assert_eq!(swap(&request, "50").send(gate.production()).status, 502);
        let path = format!("requests/production/{request}/resolve");
        let quiet = || {
            let asked = operate(&gate, &path, "ops-1", signed(&gate, &people, &path, "ops-1", &said));
            (asked.code() != "TOO_EARLY").then_some(asked)
        };
        wait_until("the call to be quiet", || quiet().is_some());
        let both = does(&gate, &people, &path, "ops-2", &said);
        assert_eq!(both.status, 200, "{both}");
    }
    // Each signs the record that they saw.
    upstream.next(Act::silence().close());
    assert_eq!(swap("a-other", "50").send(gate.production()).status, 502);
    let mut shown = json!({"outcome": "executed", "record": shown_of("a-other")});
    let path = "requests/production/a-other/resolve";
    let mut other = signed(&gate, &people, path, "ops-1", &shown);
    other["record"]["id"] = json!("6f9619ff-8b86-4d01-b42d-00cf4fc964ff");
    assert_eq!(operate(&gate, path, "ops-1", other).code(), "SIGNATURE_REFUSED");
    assert_eq!(does(&gate, &people, path, "ops-1", &shown).status, 202);
    shown["record"]["id"] = json!("6f9619ff-8b86-4d01-b42d-00cf4fc964ff");
    assert_eq!(does(&gate, &people, path, "ops-2", &shown).status, 202, "another record is another first word");
    assert_eq!(does(&gate, &people, path, "ops-1", &shown).status, 200);

    // A freeze that was made anew is another one.
    assert_eq!(operate(&gate, "freezes", "ops-1", without_signature(&freeze)).status, 201);
    let stale = signed(&gate, &people, "freezes/lift", "ops-1", &freeze);
    assert_eq!(does(&gate, &people, "freezes/lift", "ops-2", &freeze).status, 202);
    assert_eq!(does(&gate, &people, "freezes/lift", "finance-1", &freeze).status, 200);
    assert_eq!(operate(&gate, "freezes", "ops-1", without_signature(&freeze)).status, 201);
    assert_eq!(operate(&gate, "freezes/lift", "ops-1", stale).code(), "SIGNATURE_REFUSED");

    let setup = gate.end();
    let folder = setup.path("sluice-audit");
    let (code, told) = proofs(&folder, &[&root]);
    assert_eq!((code, &told["allProved"]), (0, &json!(true)), "{told:#}");
    let acts = told["acts"].as_array().unwrap();
    let kinds: Vec<&str> = acts.iter().map(|act| text(act, "act").split(' ').next().unwrap()).collect();
    // The set took force in both environments.
    let of_production = ["activation", "unfreezing", "absent", "abandoned", "executed", "executed", "unfreezing"];
    assert_eq!(kinds, [&of_production[..], &["activation"]].concat(), "{told:#}");
    assert!(acts.iter().all(|act| act["signers"].as_array().unwrap().len() == 2), "{told:#}");
    whatever_root_changes_is_named(&setup, &root);
}

/// Root has all files, and writes hashes that fit.
fn whatever_root_changes_is_named(setup: &Setup, root: &str) {
    let attacks: [(&str, Forgery<'_>, &str); 5] = [
        (
            "the signatures for an earlier freeze",
            &|entries| {
                let says = entries.iter_mut().map(|(_, says)| says);
                let mut lifts: Vec<&mut Value> = says.filter(|says| says["what"] == "unfrozen").collect();
                assert_eq!(lifts.len(), 2);
                lifts[1]["signed"] = lifts[0]["signed"].clone();
            },
            "another act",
        ),
        (
            "another record",
            &|entries| found(entries, "executed", "a-executed", 0)["shown"] = json!("0".repeat(64)),
            "another act",
        ),
        ("no record", &|entries| found(entries, "executed", "a-executed", 0)["shown"] = Value::Null, "another act"),
        (
            "no signatures",
            &|entries| found(entries, "executed", "a-executed", 0)["signed"] = Value::Null,
            "the entry has none",
        ),
        (
            "the signatures of another call",
            &|entries| {
                let signed = found(entries, "executed", "a-other", 0)["signed"].clone();
                found(entries, "executed", "a-executed", 0)["signed"] = signed;
            },
            "another act",
        ),
    ];
    for (what, change, expected) in attacks {
        let copy = setup.path(&format!("copy with {what}"));
        copy_folder(&setup.path("sluice-audit"), &copy);
        rewrite(&copy, change);
        let (code, told) = proofs(&copy, &[root]);
        assert_eq!((code, &told["clean"], &told["allProved"]), (3, &json!(false), &json!(false)), "{what}: {told:#}");
        let acts = told["acts"].as_array().unwrap();
        let named: Vec<&Value> = acts.iter().filter(|act| act["proved"] == json!(false)).collect();
        assert_eq!(named.len(), 1, "{what}: {told:#}");
        let act = if what.contains("freeze") { "unfreezing of all" } else { "a-executed" };
        assert!(text(named[0], "act").contains(act), "{what}: {told:#}");
        assert!(text(named[0], "reason").contains(expected), "{what}: {told:#}");
    }
}
