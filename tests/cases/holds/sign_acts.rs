//! Acts of two people that are signed for the command line.

use serde_json::{Value, json};

use super::signed::Enrolled;
use super::terminal::{Signing, lying, page, restate, rules};
use super::{ask, gate, person, swap, text};
use crate::support::clock::wait_until;
use crate::support::{Act, Gate, Upstream};

const ROLES: [&str; 2] = ["operator", "policy-admin"];
const ACTS: &str = "[signing]\nacts = [\"activation\", \"unfreezing\", \"executed\", \"absent\", \"abandoned\"]\n";
const UNFREEZE: [&str; 5] = ["unfreeze", "--environment", "production", "--reason", "a drill"];

fn rules_of_acts(people: &Enrolled) -> String {
    rules(people).replace("[signing]\n", ACTS)
}

/// Has a person sign an act, and returns what the command says.
fn signs(gate: &Gate, people: &Enrolled, who: &str, words: &[&str]) -> (i32, String) {
    let signing = Signing::begin(gate.console().unwrap(), &person(who, &ROLES), words);
    let signing = signing.unwrap_or_else(|(code, said)| panic!("{words:?}: {code} {said}"));
    assert!(
        signing.shown.contains("of tests\n") && signing.shown.contains(&format!("people:{who}")),
        "{}",
        signing.shown
    );
    let given = signing.answer(people.key(who), &signing.challenge(), &page());
    assert_eq!(given.status, 200, "{given}");
    signing.end()
}

fn freeze(gate: &Gate) {
    let body = json!({ "environment": "production", "scope": "all", "reason": "a drill" });
    assert_eq!(ask(gate, "POST", "freezes", &person("ops-1", &ROLES), Some(body)).status, 201);
}

fn version(gate: &Gate, pointer: &str) -> Option<String> {
    let shown = ask(gate, "GET", "policies", &person("ops-1", &ROLES), None).json();
    shown.pointer(pointer).and_then(Value::as_str).map(str::to_owned)
}

#[test]
fn two_people_sign_acts_on_their_own_machines() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &rules_of_acts(&people)).set("", "loosening", "two-people").short_quiet_time().start();
    freeze(&gate);
    let (code, said) = signs(&gate, &people, "ops-1", &UNFREEZE);
    assert!(code == 0 && said.contains("until one more person confirms it"), "{code} {said}");
    let (code, said) = signs(&gate, &people, "ops-2", &UNFREEZE);
    assert!(code == 0 && said.contains("Unfrozen: production, all money"), "{code} {said}");

    std::fs::write(
        gate.path("policies/everything.toml"),
        rules_of_acts(&people).replace("amount = \"(0, 100] USD\"", "amount = \"(0, 90] USD\""),
    )
    .unwrap();
    wait_until("a set waits", || version(&gate, "/candidate/version").is_some());
    let next = version(&gate, "/candidate/version").unwrap();
    let agree = ["policy", "agree", &next, "--reason", "looked"];
    assert_eq!(signs(&gate, &people, "ops-1", &agree).0, 0);
    let (code, said) = signs(&gate, &people, "ops-2", &agree);
    assert!(code == 0 && said.contains("comes into force"), "{code} {said}");
    wait_until("it to take force", || version(&gate, "/version").as_deref() == Some(&*next));

    upstream.next(Act::silence().close());
    assert_eq!(swap("d-1", "50").send(gate.production()).outcome(), "unknown");
    let resolve =
        ["requests", "resolve", "d-1", "--environment", "production", "--outcome", "abandoned", "--reason", "looked"];
    // Upstream may still execute it for a while.
    wait_until("the first word to be taken", || signs(&gate, &people, "ops-1", &resolve).0 == 0);
    let (code, said) = signs(&gate, &people, "ops-2", &resolve);
    assert!(code == 0 && said.contains("Given up by two people"), "{code} {said}");
}

#[test]
fn a_gate_that_asks_for_another_act_is_told_by_it() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &rules_of_acts(&people)).start();
    freeze(&gate);
    type Change = fn(&mut Value);
    let lies: [(&str, Change); 6] = [
        ("another act", |stated| stated["act"]["freeze"] = json!("restored")),
        ("another act", |stated| stated["act"] = json!({ "act": "activation", "from": "0", "to": "1" })),
        ("another form of act", |stated| stated["act"]["more"] = json!(1)),
        ("another environment", |stated| stated["environment"] = json!("sandbox")),
        ("another person", |stated| stated["person"] = json!("people:ops-2")),
        ("another kind", |stated| stated["statement"] = json!("sluice-vote-1")),
    ];
    for (told, change) in lies {
        let console = lying(gate.console().unwrap(), move |path, answer| {
            if path.ends_with("/challenge") {
                restate(answer, change);
            }
        });
        let lied = Signing::begin(console, &person("ops-1", &ROLES), &UNFREEZE).err();
        let (code, said) = lied.unwrap_or_else(|| panic!("{told}: the lie was believed"));
        assert!(code == 1 && said.contains(told), "{told}: {code} {said}");
    }
    let frozen = ask(&gate, "GET", "freezes", &person("ops-1", &ROLES), None).json();
    assert_eq!(text(&frozen["freezes"][0], "scope"), "all");
    assert_eq!(frozen["freezes"][0]["saidUnfrozen"], Value::Null);
}
