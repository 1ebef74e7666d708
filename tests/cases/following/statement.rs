//! The statement of a day, beside what the journal says of the same day.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::gate::{before, foreign, pay, pay_past, read};
use super::{id, operator};
use crate::cases::claims::audit::entries;
use crate::cases::conformance::Simulated;
use crate::cases::console::{ask, policies::assert_described};
use crate::support::Gate;
use crate::support::clock::wait_until;
use crate::support::gate::sluice;

/// Count and cents.
pub(super) type Sum = (u64, u64);

/// A day and a zone in which it is now near noon, so that the test stays within one day.
#[expect(clippy::disallowed_methods, reason = "the gate lives by the time of day")]
pub(super) fn today() -> (String, String) {
    let now = jiff::Timestamp::now();
    let ahead = 12 - i32::from(now.to_zoned(jiff::tz::TimeZone::UTC).hour());
    // The names of these zones have the opposite sign.
    let zone = if ahead >= 0 { format!("Etc/GMT-{ahead}") } else { format!("Etc/GMT+{}", -ahead) };
    let day = now.to_zoned(jiff::tz::TimeZone::get(&zone).unwrap()).date();
    (day.to_string(), zone)
}

pub(super) fn cents(amount: &str) -> u64 {
    let (whole, rest) = amount.split_once('.').unwrap_or((amount, ""));
    format!("{whole}{rest:0<2}").parse().unwrap()
}

fn statement(gate: &Gate, more: &str) -> Value {
    let (day, zone) = today();
    let zone = zone.replace('/', "%2F").replace('+', "%2B");
    let answer = ask(gate, "GET", &format!("payments/statement?day={day}&zone={zone}{more}"), &operator("o"), None);
    assert_described(&answer, "paymentStatement");
    answer.json()
}

/// The sums of one part of the statement, `lines` or `totals`.
pub(super) fn sums(statement: &Value, part: &str) -> BTreeMap<String, Sum> {
    let mut all: BTreeMap<String, Sum> = BTreeMap::new();
    for one in statement[part].as_array().unwrap() {
        for (name, sum) in one["sums"].as_object().unwrap() {
            let entry = all.entry(name.clone()).or_default();
            entry.0 += sum["count"].as_u64().unwrap();
            entry.1 += cents(sum["amount"].as_str().unwrap());
        }
    }
    all.retain(|_, sum| sum.0 > 0);
    all
}

/// The same sums from the files of the journal alone.
pub(super) fn journalled(gate: &Gate) -> BTreeMap<String, Sum> {
    let mut all: BTreeMap<String, Sum> = BTreeMap::new();
    let mut count = |name: &str, cents: u64| {
        let entry = all.entry(name.to_owned()).or_default();
        *entry = (entry.0 + 1, entry.1 + cents);
    };
    let (mut amounts, mut ends) = (BTreeMap::new(), BTreeMap::new());
    for line in entries(&gate.path("sluice-audit")) {
        let entry = &line["entry"];
        let claim = entry["claim"].as_str().unwrap_or_default().to_owned();
        match (entry["what"].as_str().unwrap(), entry["meaning"].as_str()) {
            ("sending", _) => {
                let sent = cents(entry["operands"]["source"]["amount"].as_str().unwrap());
                count("sent", sent);
                amounts.insert(claim, sent);
            }
            ("followed", Some("open")) => assert_eq!(ends.get(&claim), None, "no payment here goes on after its end"),
            ("followed", Some(meaning)) => {
                let before = ends.insert(claim.clone(), meaning.to_owned());
                if before.as_deref() == Some(meaning) {
                    continue;
                }
                if before.is_some() {
                    count("reopened", amounts[&claim]);
                }
                count(meaning, amounts[&claim]);
            }
            ("foreign", _) => count("foreign", cents(entry["amount"].as_str().unwrap())),
            _ => {}
        }
    }
    for (claim, sent) in amounts {
        if !ends.contains_key(&claim) {
            count("open", sent);
        }
    }
    all
}

#[test]
fn the_statement_of_a_day_agrees_with_the_journal_and_can_be_taken_out() {
    let simulated = Simulated::start_with(&["--pace-ms", "100"]);
    let gate = before(&simulated).start();
    wait_until("the baseline", || read(&gate) >= 1);
    for (n, amount) in ["100", "0.01", "13.13", "14.14", "16.16", "18.18", "19.19", "20.20"].iter().enumerate() {
        assert_eq!(pay(&gate, &id(n), amount).status, 201);
    }
    pay_past(&simulated, &id(77), "77.70");
    wait_until("the payment past the gate", || foreign(&gate, "unknown-request") == 1);
    wait_until("each payment but one to end", || {
        let sums = sums(&statement(&gate, ""), "lines");
        let count = |name: &str| sums.get(name).map_or(0, |sum| sum.0);
        (count("sent"), count("open"), count("returned")) == (8, 1, 2)
    });
    let whole = statement(&gate, "");
    let told = sums(&whole, "lines");
    assert_eq!(told, journalled(&gate));
    assert_eq!(told, sums(&whole, "totals"));
    assert_eq!((told["sent"], told["open"], told["foreign"]), ((8, 20_101), (1, 1_818), (1, 7_770)));
    assert_eq!(whole["totals"][0]["currency"], json!("usdc"));
    // What no gate sent has no caller.
    assert!(!sums(&statement(&gate, "&caller=test"), "lines").contains_key("foreign"));
    assert_eq!(sums(&statement(&gate, "&operation=createSwap"), "lines"), BTreeMap::new());
    for wrong in [
        "day=today",
        "day=2026-11-20&zone=Mars",
        "day=2026-11-20&zone=Etc/Unknown",
        "day=2026-11-20T00:00:00",
        "day=2026-11-20&status=paid",
        "zone=UTC",
    ] {
        let answer = ask(&gate, "GET", &format!("payments/statement?{wrong}"), &operator("o"), None);
        assert_eq!(answer.status, 400, "{wrong}: {answer}");
    }

    let (day, zone) = today();
    let export = |format: &str| {
        let body = json!({"format": format, "statement": {"day": day, "zone": zone}});
        let answer = ask(&gate, "POST", "payments/export", &operator("o"), Some(body));
        assert_described(&answer, "exportAnswer");
        answer.json()
    };
    let csv = export("csv");
    assert_eq!(csv["content"].as_str().unwrap().lines().count(), whole["lines"].as_array().unwrap().len() + 1);
    assert!(csv["content"].as_str().unwrap().contains(&format!("\r\n{day},{zone},false,,production,")), "{csv}");
    let lines = export("jsonl");
    let journal = entries(&gate.path("sluice-audit"));
    let recorded = &journal.iter().rev().find(|line| line["entry"]["what"] == "exported").unwrap()["entry"];
    assert_eq!((&recorded["statement"], &recorded["sha256"]), (&json!({"day": day, "zone": zone}), &lines["sha256"]));
    let file = gate.path("statement.jsonl");
    let content = lines["content"].as_str().unwrap();
    std::fs::write(&file, content).unwrap();
    let verify = |content: &str| {
        std::fs::write(&file, content).unwrap();
        let audit = gate.path("sluice-audit");
        let words = ["payments", "verify", file.to_str().unwrap(), "--audit", audit.to_str().unwrap()];
        let output = sluice(&words).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (code, said) = verify(content);
    assert!(code == Some(3) && said.contains("It is NOT whole: the day was not over.\n"), "{said}");
    assert!(said.contains("is unchanged") && said.contains(&format!(" lines of {day} in {zone}\n")), "{said}");
    let (code, said) = verify(&content.replacen("18.18", "28.18", 1));
    assert!(code == Some(3) && said.contains("is not what a gate wrote"), "{said}");
    let day_before = day.parse::<jiff::civil::Date>().unwrap().yesterday().unwrap();
    let body = json!({"format": "jsonl", "statement": {"day": day_before.to_string(), "zone": zone}});
    let before = ask(&gate, "POST", "payments/export", &operator("o"), Some(body)).json();
    let (code, said) = verify(before["content"].as_str().unwrap());
    assert!(code == Some(0) && said.contains("is whole, and the audit log says the same: 0 lines of "), "{said}");

    let url = format!("http://{}", gate.console().unwrap());
    let table = sluice(&["payments", "statement", "--day", &day, "--zone", &zone, "--console", &url]);
    let table = String::from_utf8({ table }.env("SLUICE_TOKEN", operator("o")).output().unwrap().stdout).unwrap();
    assert!(
        table.contains("8: 201.01")
            && table.contains("sum  production USDC POLYGON: ")
            && table.contains("The day is not over.")
            && table.contains("NETWORK"),
        "{table}"
    );
}
