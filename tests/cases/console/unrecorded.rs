//! A store that has no record of a call proves nothing: people learn what is known, where, and whom to ask.

use std::fs;

use serde_json::{Value, json};

use super::{ask, console, operator, swap};
use crate::cases::doctor;
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::{Gate, Setup, Upstream};

fn message(gate: &Gate, place: &str) -> String {
    let answer = ask(gate, "GET", &format!("requests/{place}"), &operator("ops-1"), None);
    assert_eq!((answer.status, answer.code().as_str()), (404, "REQUEST_NOT_FOUND"), "{answer}");
    answer.json()["error"]["message"].as_str().unwrap().to_owned()
}

/// The gate's store is a backup from before its last payment, and its journal is lost.
pub(super) fn restored(gate: Gate, paid_since: &str) -> Gate {
    let setup = gate.end();
    let (data, copy) = (setup.path("sluice-data"), setup.path("backup.redb"));
    let words = ["store", "backup", "--folder", data.to_str().unwrap(), "--to", copy.to_str().unwrap()];
    assert!(sluice(&words).output().unwrap().status.success());
    let gate = setup.start();
    assert_eq!(swap(paid_since).send(gate.production()).status, 200);
    let setup = gate.end();
    fs::remove_dir_all(setup.path("sluice-audit")).unwrap();
    fs::remove_dir_all(&data).unwrap();
    fs::create_dir(&data).unwrap();
    fs::rename(copy, data.join("store.redb")).unwrap();
    let gate = setup.start();
    let is_closed = |one: &Value| one["reason"] == "restored" && one["environment"] == "production";
    wait_until("money to be closed", || {
        let money = ask(&gate, "GET", "money", &operator("ops-1"), None).json();
        money["reasons"].as_array().unwrap().iter().any(is_closed)
    });
    gate
}

#[test]
fn nobody_is_told_that_a_payment_was_not_executed_because_its_record_is_lost() {
    let (upstream, sandbox) = (Upstream::start(), Upstream::start());
    let gate = console(Setup::of(&upstream).sandbox(&sandbox)).start();
    assert_eq!(swap("known").send(gate.production()).status, 200);
    let gate = restored(gate, "lost");
    let freezes = ask(&gate, "GET", "freezes", &operator("ops-1"), None).json();
    let of_production = freezes["freezes"].as_array().unwrap().iter().find(|one| one["environment"] == "production");
    let last = of_production.unwrap()["lastPaid"].as_str().expect("the time of the last known payment").to_owned();
    let known = ask(&gate, "GET", "requests/production/known", &operator("ops-1"), None).json();
    assert_eq!(known["state"], "executed");

    // The list of payments has what the journal has, and says since when.
    let list = ask(&gate, "GET", "payments", &operator("ops-1"), None).json();
    assert_eq!(
        (&list["count"], &list["complete"], &list["reading"]),
        (&0.into(), &false.into(), &false.into()),
        "{list}"
    );
    assert!(list["since"].as_str() > Some(&last), "{list}");

    let said = message(&gate, "production/lost");
    for part in ["no record of `lost` in production", "may have been executed", "payments API", &last] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let body = json!({"outcome": "absent", "reason": "looked"});
    let answer = ask(&gate, "POST", "requests/production/lost/resolve", &operator("ops-1"), Some(body));
    assert_eq!((answer.status, answer.json()["error"]["message"].as_str()), (404, Some(said.as_str())), "{answer}");

    let url = format!("http://{}", gate.console().unwrap());
    let words = |words: &[&str]| {
        let mut command = sluice(&[words, &["--console", &url]].concat());
        let output = command.env("SLUICE_TOKEN", operator("ops-1")).output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    };
    let said = words(&["freezes"]);
    assert!(
        said.contains(&format!("production: the last payment that the store knows was executed by {last}")),
        "{said}"
    );
    assert!(said.contains("sandbox: the store knows no payment."), "{said}");
    assert!(words(&["requests", "show", "lost", "--environment", "production"]).contains("payments API"));

    let setup = gate.end();
    let (_, said) = doctor::json(&setup);
    let said = doctor::findings(&said);
    let find = format!("First find out what the payments API has paid since {last}");
    assert!(said.contains(&find) && said.find(&find) < said.find("--restored --reason TEXT"), "{said}");
}

#[test]
fn a_call_that_is_not_known_is_told_with_the_environment_and_with_the_one_that_has_it() {
    let (upstream, sandbox) = (Upstream::start(), Upstream::start());
    let gate = console(Setup::of(&upstream).sandbox(&sandbox)).start();
    assert_eq!(swap("here").send(gate.production()).status, 200);
    let said = message(&gate, "production/nowhere");
    assert!(said.starts_with("this store has no record of `nowhere` in production. Either no gate got"), "{said}");
    assert!(said.contains("Ask the payments API"), "{said}");
    let said = message(&gate, "sandbox/here");
    assert!(said.starts_with("this store has no record of `here` in sandbox. It has one in production"), "{said}");
    assert!(message(&gate, "elsewhere/here").contains("it serves production and sandbox"));
}
