//! Acts of people that move no money leave a bounded number of entries; what protects money goes on.

use serde_json::{Value, json};

use super::{ISSUER, PEOPLE, ask, audited, console, freeze, operator, say_lift, token_of, told};
use crate::support::{Answer, Gate, Setup, Upstream};

fn limited() -> (u16, String) {
    (429, "RATE_LIMITED".to_owned())
}

fn export(gate: &Gate, who: &str, filters: Value) -> Answer {
    let body = json!({"format": "csv", "filters": filters});
    ask(gate, "POST", "payments/export", &token_of(PEOPLE, who, &["viewer"]), Some(body))
}

fn freeze_for(gate: &Gate, scope: Value, reason: &str) -> (u16, String) {
    let body = json!({"environment": "production", "scope": scope, "reason": reason});
    told(&ask(gate, "POST", "freezes", &operator("ops-1"), Some(body)))
}

fn caller(subject: &str) -> Value {
    json!({"caller": {"issuer": "main", "subject": subject}})
}

#[test]
fn a_person_exports_so_often_within_an_hour_and_others_still_may() {
    let (upstream, sandbox) = (Upstream::start(), Upstream::start());
    // Exports may leave a fourth: a person alone 2 of 4 entries, a second one then 1.
    let setup = console(Setup::of(&upstream).sandbox(&sandbox)).set_raw("console", "entries_per_hour", "16");
    let gate = setup.start().ready();
    let nobody = || json!({"environment": "production", "text": "nobody-has-this"});
    assert_eq!(["vera", "vera"].map(|who| export(&gate, who, nobody()).status), [200, 200]);
    let full = export(&gate, "vera", nobody());
    assert_eq!(told(&full), limited(), "{full}");
    let wait: u64 = full.header("retry-after").unwrap().parse().unwrap();
    assert!((3_000..=3_601).contains(&wait) && full.text().contains("console.entries_per_hour"), "{full}");
    assert_eq!([export(&gate, "walt", nobody()), export(&gate, "walt", nobody())].map(|one| one.status), [200, 429]);
    let in_sandbox = json!({"environment": "sandbox"});
    assert_eq!(export(&gate, "vera", in_sandbox).status, 200, "the sandbox has its own room");
    assert_eq!(ask(&gate, "GET", "payments", &token_of(PEOPLE, "vera", &["viewer"]), None).status, 200);
    // The decisions of others have room.
    assert_eq!(freeze(&gate, caller("one")).status, 201);
    assert_eq!(say_lift(&gate, caller("one"), "ops-2").status, 202);
}

#[test]
fn the_entry_of_an_export_keeps_the_beginning_of_long_filters() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start().ready();
    let text = "\u{1}".repeat(500);
    let exported = export(&gate, "vera", json!({"text": text, "caller": "main/payroll"}));
    assert_eq!(exported.status, 200, "{exported}");
    let entry = audited(&gate, &[("/what", json!("exported"))]);
    let filters = &entry["filters"];
    assert_eq!((&filters["caller"], filters["sha256"].as_str().map(str::len)), (&json!("main/payroll"), Some(64)));
    assert!(entry.to_string().len() < 1_000, "{entry}");
}

#[test]
fn further_reasons_and_lifts_are_bounded_and_a_freeze_never() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).set_raw("console", "entries_per_hour", "4").start().ready();
    let created = |answer: (u16, String)| answer.0 == 201;
    assert!(created(freeze_for(&gate, caller("one"), "leaked keys")));
    assert!(
        created(freeze_for(&gate, caller("one"), "again")) && created(freeze_for(&gate, caller("one"), "and again"))
    );
    assert_eq!(freeze_for(&gate, caller("one"), "and again and again"), limited());
    assert_eq!(told(&say_lift(&gate, caller("one"), "ops-1")), limited());
    for scope in [caller("two"), json!({"reads": {"issuer": "main", "subject": "one"}}), json!("all")] {
        assert!(created(freeze_for(&gate, scope.clone(), "an incident")), "{scope}");
    }
    assert!(created(freeze_for(&gate, json!({"operation": "createSwap"}), "an incident")));
    assert_eq!(say_lift(&gate, caller("one"), "ops-2").status, 202, "another operator has room");
    let service = token_of(ISSUER, "test", &["viewer"]);
    assert_eq!(ask(&gate, "POST", "payments/export", &service, Some(json!({"format": "csv"}))).status, 401);
}

#[test]
fn ends_of_sessions_have_a_rate_and_no_room() {
    let upstream = Upstream::start();
    let setup = console(Setup::of(&upstream)).set_raw("console", "entries_per_hour", "2");
    let gate = setup.set_raw("console", "sign_ins_per_minute", "1").start().ready();
    let end = |who: &str, body: Value| told(&ask(&gate, "POST", "sessions/end", &operator(who), Some(body))).0;
    let own = || json!({"reason": "a stolen cookie"});
    assert_eq!([end("ops-1", own()), end("ops-1", own()), end("ops-2", own())], [200, 429, 200]);
    for nth in 0..10 {
        assert_eq!(end("ops-1", json!({"person": format!("vera-{nth}"), "reason": "left"})), 200);
    }
    assert_eq!(end("ops-1", json!({"person": "walt", "reason": "left"})), 429);
}
