//! Exports: each has a name of its own, and says what it lacks.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use super::unrecorded::restored;
use super::{ask, console, operator, swap};
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::{Gate, Setup, Upstream};

/// The day of now, in UTC.
#[expect(clippy::disallowed_methods, reason = "a statement is of a real day")]
fn today() -> String {
    jiff::Timestamp::now().to_string()[..10].to_owned()
}

fn exported(gate: &Gate, body: Value) -> Value {
    ask(gate, "POST", "payments/export", &operator("o"), Some(body)).json()
}

/// Each export begins behind the newest row.
#[test]
fn a_part_of_an_export_says_that_it_is_one() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    for id in ["one", "two", "three"] {
        assert_eq!(swap(id).send(gate.production()).status, 200);
    }
    wait_until("the payments to be told", || {
        ask(&gate, "GET", "payments?status=paid", &operator("o"), None).json()["count"] == 3
    });
    for list in ["payments", "history"] {
        let next = ask(&gate, "GET", &format!("{list}?limit=1"), &operator("o"), None).json()["next"].clone();
        let export = |body: Value| ask(&gate, "POST", &format!("{list}/export"), &operator("o"), Some(body)).json();
        let whole = export(json!({"format": "jsonl"}));
        assert_eq!((&head(&whole)["after"], &head(&whole)["next"]), (&Value::Null, &Value::Null), "{list}");
        assert_eq!(verified(&gate, &whole, "table").0, Some(0), "{list}");
        let part = export(json!({"format": "jsonl", "after": next}));
        assert_eq!(head(&part)["after"], next, "{list}");
        super::audited(&gate, &[("/list", json!(list)), ("/after", next.clone()), ("/sha256", part["sha256"].clone())]);
        let (code, said) = verified(&gate, &part, "table");
        assert!(
            code == Some(3)
                && said.contains("It is NOT whole: it is a part, and the rows before it are in other files"),
            "{said}"
        );
        let told: Value = serde_json::from_str(&verified(&gate, &part, "json").1).unwrap();
        assert_eq!(
            (&told["whole"], &told["unchanged"], &told["files"][0]["after"]),
            (&json!(false), &json!(true), &next)
        );
        let csv = export(json!({"format": "csv", "after": next}))["content"].as_str().unwrap().to_owned();
        let behind = format!(",{},", next.as_str().unwrap());
        assert!(csv.lines().next().unwrap().contains(",part begins behind,next part begins behind"), "{csv}");
        assert!(csv.lines().skip(1).all(|row| row.contains(&behind)) && csv.lines().count() > 1, "{csv}");
        let both = [gate.path("whole.jsonl"), gate.path("part.jsonl")];
        for (file, export) in both.iter().zip([&whole, &part]) {
            fs::write(file, export["content"].as_str().unwrap()).unwrap();
        }
        let [whole, part] = both.map(|file| file.to_str().unwrap().to_owned());
        let together = sluice(&["payments", "verify", &part, &whole]).output().unwrap();
        let said = String::from_utf8([together.stdout, together.stderr].concat()).unwrap();
        let joins_none = format!("They are NOT whole: `{part}` joins none of the others.\n");
        assert!(together.status.code() == Some(3) && said.contains(&joins_none), "{said}");
    }
    let csv = gate.path("export.csv");
    fs::write(&csv, exported(&gate, json!({"format": "csv"}))["content"].as_str().unwrap()).unwrap();
    let refused = sluice(&["payments", "verify", csv.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(3) && said.contains("is CSV, which proves nothing by itself"), "{said}");
}

fn head(export: &Value) -> Value {
    serde_json::from_str(export["content"].as_str().unwrap().lines().next().unwrap()).unwrap()
}

/// The exit code and the output of `sluice payments verify`.
fn verified(gate: &Gate, export: &Value, output: &str) -> (Option<i32>, String) {
    let file = gate.path("export.jsonl");
    fs::write(&file, export["content"].as_str().unwrap()).unwrap();
    let audit = gate.path("sluice-audit");
    let words = ["payments", "verify", file.to_str().unwrap(), "--audit", audit.to_str().unwrap(), "--output", output];
    let output = sluice(&words).output().unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn an_export_without_the_payments_of_a_lost_journal_says_so_itself() {
    let (upstream, sandbox) = (Upstream::start(), Upstream::start());
    let gate = console(Setup::of(&upstream).sandbox(&sandbox)).start();
    assert_eq!(swap("known").send(gate.production()).status, 200);
    let gate = restored(gate, "lost");
    let mut since = Value::Null;
    wait_until("the journal to be read", || {
        let list = ask(&gate, "GET", "payments", &operator("o"), None).json();
        since = list["since"].clone();
        assert_eq!(list["auditFolder"].as_str(), gate.path("sluice-audit").to_str());
        list["reading"] == false && since.is_string()
    });
    let day = today();
    let statement = |format: &str, zone: &str| json!({"format": format, "statement": {"day": day, "zone": zone}});
    for body in [json!({"format": "jsonl"}), statement("jsonl", "UTC")] {
        let export = exported(&gate, body);
        assert_eq!(head(&export)["since"], since);
        super::audited(
            &gate,
            &[("/what", json!("exported")), ("/since", since.clone()), ("/sha256", export["sha256"].clone())],
        );
        let (code, said) = verified(&gate, &export, "table");
        let lacks = format!("It is NOT whole: payments before {} are not in it.\n", since.as_str().unwrap());
        assert!(
            code == Some(3) && said.contains("is unchanged, and the audit log says the same") && said.contains(&lacks),
            "{said}"
        );
        let told: Value = serde_json::from_str(&verified(&gate, &export, "json").1).unwrap();
        assert_eq!((&told["whole"], &told["unchanged"], &told["since"]), (&json!(false), &json!(true), &since));
    }
    let history = |filters: Value| {
        let body = json!({"format": "jsonl", "filters": filters});
        ask(&gate, "POST", "history/export", &operator("o"), Some(body)).json()
    };
    let entries = history(json!({}));
    let begins = head(&entries)["since"].clone();
    assert!(begins.is_string() && begins == entries["since"], "{}", head(&entries));
    super::audited(&gate, &[("/list", json!("history")), ("/since", begins.clone())]);
    let (code, said) = verified(&gate, &entries, "table");
    let lacks = format!("It is NOT whole: entries before {} are not in it.\n", begins.as_str().unwrap());
    assert!(code == Some(3) && said.contains(&lacks), "{said}");
    assert_eq!(verified(&gate, &history(json!({"from": begins})), "table").0, Some(0));
    // What was asked for only from then on is whole.
    let later = json!({"format": "jsonl", "filters": {"from": since}});
    assert_eq!(verified(&gate, &exported(&gate, later), "table").0, Some(0));
    let csv = exported(&gate, json!({"format": "csv"}));
    assert!(csv["content"].as_str().unwrap().lines().next().unwrap().contains(",complete since,"), "{csv}");
    let csv = exported(&gate, statement("csv", "Europe/Berlin"));
    assert!(csv["content"].as_str().unwrap().starts_with("day,zone,day is over,complete since,"), "{csv}");
}

#[test]
fn exports_of_one_second_have_names_of_their_own_and_a_statement_its_zone() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    assert_eq!(swap("one").send(gate.production()).status, 200);
    let day = today();
    wait_until("the payment to be told", || {
        ask(&gate, "GET", "payments?status=paid", &operator("o"), None).json()["count"] == 1
    });
    let zones = ["UTC", "europe/berlin", "America/New_York", "UTC"];
    let url = format!("http://{}", gate.console().unwrap());
    let folder = gate.path("taken-out");
    fs::create_dir(&folder).unwrap();
    for zone in zones {
        let to = folder.to_str().unwrap();
        let words = ["payments", "export", "--statement", &day, "--zone", zone, "--format", "csv", "--folder", to];
        let mut command = sluice(&[&words[..], &["--console", &url]].concat());
        let output = command.env("SLUICE_TOKEN", operator("o")).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    let files: BTreeSet<String> =
        fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files.len(), zones.len(), "{files:?}");
    assert!(files.iter().any(|name| name.starts_with(&format!("statement-{day}-America-New-York-"))), "{files:?}");
    let contents: BTreeSet<String> = files.iter().map(|name| fs::read_to_string(folder.join(name)).unwrap()).collect();
    assert_eq!(contents.len(), 3, "each zone has a content of its own: {contents:?}");
    assert!(contents.iter().any(|text| text.contains(&format!("\r\n{day},Europe/Berlin,"))), "{contents:?}");
}
