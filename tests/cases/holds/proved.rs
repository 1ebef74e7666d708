//! Who agreed to which payment is proved from audit files and archived sets alone, whatever root did to them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sluice::audit::{FileHeader, Hash, LineBody, LineText, read_line};
use sluice::ledger::Outstanding;
use sluice::policy::ArchivedRules;

use super::signed::{Enrolled, agree};
use super::{answered, gate, held, say, sluice, swap};
use crate::support::clock::wait_until;
use crate::support::files::copy_folder;
use crate::support::soft_key::{SoftKey, encoded};
use crate::support::{Gate, Setup, Upstream};

/// What root does to entries, each with what it says.
pub(super) type Forgery<'f> = &'f dyn Fn(&mut Vec<(Outstanding, Value)>);

/// The version of the set in force.
fn version(gate: &Gate) -> String {
    super::ask(gate, "GET", "policies", &super::approver("ops-1"), None).json()["version"].as_str().unwrap().to_owned()
}

/// Two payments that ops-1 and finance-1 signed, and one that nobody had to sign; ops-1 withdrew a vote on the second one.
/// Returns the gate's files, and the root.
pub(super) fn two_payments() -> (Setup, String) {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &people.rules()).start();
    let root = version(&gate);
    for request in ["p-1", "p-2"] {
        let hold = held(&gate, request);
        if request == "p-2" {
            assert_eq!(agree(&gate, &people, &hold, "ops-1").status, 200);
            assert_eq!(say(&gate, "withdraw", &hold, "ops-1").status, 200);
        }
        for who in ["ops-1", "finance-1"] {
            assert_eq!(agree(&gate, &people, &hold, who).status, 200);
        }
        assert_eq!(answered(&gate, &swap(request, "500")).status, 201);
    }
    assert_eq!(swap("p-3", "50").send(gate.production()).status, 201);
    (gate.end(), root)
}

pub(super) fn verify(folder: &Path, roots: &[&str], output: &str) -> (i32, String) {
    let folder = folder.to_str().unwrap();
    let roots = roots.iter().flat_map(|root| ["--root", root]);
    let words = ["audit", "verify", folder, "--people", "--output", output];
    let output = sluice(&words.into_iter().chain(roots).collect::<Vec<_>>()).output().unwrap();
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

pub(super) fn proofs(folder: &Path, roots: &[&str]) -> (i32, Value) {
    let (code, text) = verify(folder, roots, "json");
    (code, serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}")))
}

pub(super) fn payment<'v>(told: &'v Value, request: &str) -> &'v Value {
    told["payments"].as_array().unwrap().iter().find(|one| one["requestId"] == request).unwrap_or(&Value::Null)
}

/// The audit file of the only node.
fn journal(folder: &Path) -> PathBuf {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_journal = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("audit-") && name.ends_with(".jsonl") && name.matches('.').count() == 1
    };
    files.into_iter().find(is_journal).unwrap()
}

/// Writes the audit file again as root can: with hashes that fit.
pub(super) fn rewrite(folder: &Path, change: Forgery<'_>) {
    let path = journal(folder);
    let (mut header, mut entries): (Option<FileHeader>, _) = (None, Vec::new());
    for line in fs::read_to_string(&path).unwrap().lines() {
        match read_line(line.as_bytes()).unwrap().body {
            LineBody::Header(read) => header = Some(read),
            LineBody::Entry(entry) => {
                let says = serde_json::from_slice(&entry.entry).unwrap();
                entries.push((entry, says));
            }
        }
    }
    change(&mut entries);
    let (mut out, mut previous) = (Vec::new(), Hash::NOTHING);
    previous = LineText::of_header(&header.unwrap()).unwrap().put_behind(previous, &mut out);
    for (entry, says) in entries {
        let entry = Outstanding { entry: serde_json::to_vec(&says).unwrap().into(), ..entry };
        previous = LineText::of_entry(&entry).unwrap().put_behind(previous, &mut out);
    }
    fs::write(&path, out).unwrap();
}

/// Returns an entry of a kind of a request.
pub(super) fn found<'e>(
    entries: &'e mut [(Outstanding, Value)],
    what: &str,
    request: &str,
    nth: usize,
) -> &'e mut Value {
    let is_it = |says: &Value| says["what"] == what && says["requestId"] == request;
    entries.iter_mut().map(|(_, says)| says).filter(|says| is_it(says)).nth(nth).unwrap()
}

#[test]
fn each_payment_is_proved_with_its_people_bytes_and_figures() {
    let (setup, root) = two_payments();
    let folder = setup.path("sluice-audit");
    let (code, told) = proofs(&folder, &[&root]);
    assert_eq!((code, &told["people"]["proved"]), (0, &json!(true)), "{told:#}");
    assert_eq!(
        (&told["people"]["provedPayments"], &told["people"]["otherPayments"]),
        (&json!(2), &json!(1)),
        "{told:#}"
    );
    let first = payment(&told, "p-1");
    let people: Vec<&Value> = first["signers"].as_array().unwrap().iter().map(|signer| &signer["person"]).collect();
    assert_eq!(people, [&json!("people:ops-1"), &json!("people:finance-1")], "{first:#}");
    let moved = json!({"amount": "500", "currency": "usdt", "chain": "POLYGON"});
    assert_eq!((&first["amounts"]["source"], &first["policy"]), (&moved, &json!(root)), "{first:#}");
    assert!(first["shown"][0].as_str().unwrap().contains("by signed votes"), "{first:#}");
    assert_eq!((first["line"].is_u64(), first["fingerprint"].as_str().unwrap().len()), (true, 64), "{first:#}");
    let (code, text) = verify(&folder, &[&root], "table");
    assert!(
        code == 0 && text.contains("2 payments with signed approvals are proved, 0 are not; of 1 others"),
        "{text}"
    );
    let (code, text) = verify(&folder, &[&root], "csv");
    assert!(code == 0 && text.lines().count() == 3 && text.contains("p-2"), "{text}");
    // The archive of sets may be elsewhere; without it, nothing is proved.
    let elsewhere = setup.path("sets");
    fs::rename(folder.join("policies"), &elsewhere).unwrap();
    let (code, text) = verify(&folder, &[&root], "table");
    assert!(code == 1 && text.contains("--policies"), "{code} {text}");
    let words = ["audit", "verify", folder.to_str().unwrap(), "--people", "--root", &root, "--policies"];
    let named = sluice(&[words.as_slice(), &[elsewhere.to_str().unwrap()]].concat()).output().unwrap();
    assert_eq!(named.status.code(), Some(0));
    let (code, text) = verify(&folder, &["1234"], "table");
    assert!(code == 1 && text.contains("is no digest"), "{code} {text}");
}

#[test]
fn whatever_root_changes_is_named() {
    let (setup, root) = two_payments();
    let folder = setup.path("sluice-audit");
    let attacks: [(&str, Forgery<'_>, &str); 14] = [
        (
            "other bytes",
            &|entries| found(entries, "sending", "p-1", 0)["fingerprint"] = json!("0".repeat(64)),
            "other bytes were sent",
        ),
        (
            "a vote is removed",
            &|entries| found(entries, "voted", "p-1", 1)["what"] = json!("noted"),
            "`dual` is not complete: 1 of 2",
        ),
        (
            "a vote is moved from another hold",
            &|entries| {
                let signed = found(entries, "voted", "p-2", 2)["signed"].clone();
                found(entries, "voted", "p-1", 1)["signed"] = signed;
                found(entries, "voted", "p-2", 2)["what"] = json!("noted");
            },
            "1 of 2",
        ),
        (
            "a vote that was withdrawn is put back",
            &|entries| {
                let withdrawn = found(entries, "voted", "p-2", 0)["signed"].clone();
                found(entries, "voted", "p-2", 1)["signed"] = withdrawn;
            },
            "1 of 2",
        ),
        (
            "a vote is another person's",
            &|entries| {
                let signed = found(entries, "voted", "p-1", 0)["signed"].clone();
                let signature = found(entries, "voted", "p-1", 1);
                signature["signed"]["assertion"] = signed["assertion"].clone();
                signature["signed"]["credential"] = signed["credential"].clone();
            },
            "1 of 2",
        ),
        (
            "one signature is used twice",
            &|entries| {
                let vote = found(entries, "voted", "p-1", 0).clone();
                found(entries, "voted", "p-1", 1)["signed"] = vote["signed"].clone();
            },
            "1 of 2",
        ),
        (
            "a larger amount is sent",
            &|entries| found(entries, "sending", "p-1", 0)["operands"]["source"]["amount"] = json!("900"),
            "its amounts are not those that were held",
        ),
        (
            "a larger amount was held and sent",
            &|entries| {
                for what in ["held", "sending"] {
                    found(entries, what, "p-1", 0)["operands"]["source"]["amount"] = json!("900");
                }
            },
            "0 of 2",
        ),
        (
            "a larger amount was held, signed and sent",
            &|entries| {
                for what in ["held", "sending"] {
                    found(entries, what, "p-1", 0)["operands"]["source"]["amount"] = json!("900");
                }
                for nth in [0, 1] {
                    found(entries, "voted", "p-1", nth)["signed"]["challenge"]["amounts"]["source"]["amount"] =
                        json!("900");
                }
            },
            "0 of 2",
        ),
        (
            "other reasons were shown",
            &|entries| found(entries, "held", "p-1", 0)["causes"][0]["text"] = json!("harmless"),
            "0 of 2",
        ),
        (
            "other figures were shown",
            &|entries| found(entries, "voted", "p-1", 0)["figures"] = json!("0".repeat(64)),
            "1 of 2",
        ),
        (
            "its hold is hidden",
            &|entries| drop(found(entries, "sending", "p-1", 0).as_object_mut().unwrap().remove("hold")),
            "its entry names no hold",
        ),
        (
            "what held it is gone",
            &|entries| found(entries, "held", "p-1", 0)["what"] = json!("noted"),
            "the entry that held it is missing",
        ),
        (
            "another set decided",
            &|entries| found(entries, "sending", "p-1", 0)["decision"]["policy"] = json!("1".repeat(64)),
            "was in force",
        ),
    ];
    for (what, change, expected) in attacks {
        let copy = setup.path(&format!("copy of {what}"));
        copy_folder(&folder, &copy);
        rewrite(&copy, change);
        let (code, told) = proofs(&copy, &[&root]);
        assert_eq!((code, &told["clean"]), (3, &json!(false)), "{what}: {told:#}");
        assert!(
            told["findingCount"] == 0 && told["reasons"][0].to_string().contains("people are not proved"),
            "{told:#}"
        );
        let request = if what.contains("withdrawn") { "p-2" } else { "p-1" };
        let named = payment(&told, request);
        assert!(named["reason"].as_str().is_some_and(|reason| reason.contains(expected)), "{what}: {named:#}");
        let line = fs::read_to_string(journal(&copy))
            .unwrap()
            .lines()
            .nth(named["line"].as_u64().unwrap() as usize - 1)
            .unwrap()
            .to_owned();
        assert!(line.contains("\"what\":\"sending\"") && line.contains(request), "{what}: {line}");
    }
    // What two people signed once is sent twice, in place of a payment that nobody had to sign.
    let copy = setup.path("sent twice");
    copy_folder(&folder, &copy);
    rewrite(&copy, &|entries| {
        let sent = found(entries, "sending", "p-1", 0).clone();
        *found(entries, "sending", "p-3", 0) = sent;
    });
    let (code, told) = proofs(&copy, &[&root]);
    let of_request: Vec<&Value> =
        told["payments"].as_array().unwrap().iter().filter(|one| one["requestId"] == "p-1").collect();
    assert_eq!((code, of_request.len(), &of_request[0]["proved"]), (3, 2, &json!(true)), "{told:#}");
    let reason = of_request[1]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("it was sent before, by entry"), "{told:#}");
    // Whoever has no tool for it leaves hashes that do not fit.
    let copy = setup.path("edited");
    copy_folder(&folder, &copy);
    let text = fs::read_to_string(journal(&copy)).unwrap();
    fs::write(journal(&copy), text.replacen("\"complete\":true", "\"complete\":null", 1)).unwrap();
    let (code, told) = proofs(&copy, &[&root]);
    assert_eq!((code, &told["clean"]), (3, &json!(false)), "{told:#}");
}

/// Both people signed twice, because they took their first votes back. Root tells that twice as much was sent.
#[test]
fn votes_that_were_given_again_prove_no_second_payment() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &people.rules()).start();
    let root = version(&gate);
    let hold = held(&gate, "g-1");
    for who in ["ops-1", "finance-1"] {
        assert_eq!(agree(&gate, &people, &hold, who).status, 200);
        if who == "finance-1" {
            // One of the entries in whose place root writes.
            let comment = json!({ "text": "wait" });
            let path = format!("holds/{}/comment", super::text(&hold, "id"));
            let said = super::ask(&gate, "POST", &path, &super::approver("ops-1"), Some(comment));
            assert_eq!(said.status, 200, "{said}");
        }
        assert_eq!(say(&gate, "withdraw", &hold, who).status, 200);
    }
    for who in ["ops-1", "finance-1"] {
        assert_eq!(agree(&gate, &people, &hold, who).status, 200);
    }
    assert_eq!(answered(&gate, &swap("g-1", "500")).status, 201);
    let setup = gate.end();
    let folder = setup.path("sluice-audit");
    let (code, told) = proofs(&folder, &[&root]);
    assert_eq!((code, &told["people"]["provedPayments"]), (0, &json!(1)), "{told:#}");
    rewrite(&folder, &|entries| {
        let (sent, held) = (found(entries, "sending", "g-1", 0).clone(), found(entries, "held", "g-1", 0).clone());
        found(entries, "withdrawn", "g-1", 0)["what"] = json!("noted");
        *found(entries, "withdrawn", "g-1", 0) = held;
        let is_comment = |says: &Value| says["what"] == "noted" && says["text"] == "wait";
        let comment = entries.iter_mut().map(|(_, says)| says).find(|says| is_comment(says)).unwrap();
        *comment = sent;
    });
    let (code, told) = proofs(&folder, &[&root]);
    let proved: Vec<&Value> = told["payments"].as_array().unwrap().iter().map(|one| &one["proved"]).collect();
    assert_eq!((code, &proved[..]), (3, &[&json!(true), &json!(false)][..]), "{told:#}");
}

/// Root tells that a rule let the payment pass without people: then the log is no proof, and the rules tell it.
#[test]
fn a_payment_of_which_the_log_says_that_nobody_was_asked_is_decided_on_again() {
    let (setup, root) = two_payments();
    let folder = setup.path("sluice-audit");
    rewrite(&folder, &|entries| {
        for what in ["held", "voted", "voted"] {
            found(entries, what, "p-1", 0)["what"] = json!("told");
        }
        let sent = found(entries, "sending", "p-1", 0).as_object_mut().unwrap();
        drop(sent.remove("hold"));
        sent["decision"] = json!({ "effect": "allow", "by": ["small"], "policy": root });
    });
    let (code, told) = proofs(&folder, &[&root]);
    let others = &told["people"]["otherPayments"];
    assert_eq!((code, &told["allProved"], others), (0, &json!(true), &json!(2)), "{told:#}");
    let (set, config) = (folder.join("policies").join(&root), setup.path("sluice.toml"));
    let words = [set.to_str().unwrap(), folder.to_str().unwrap(), "--config", config.to_str().unwrap()];
    let output = sluice(&[&["policy", "replay"], &words[..]].concat()).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(text.contains("now held, recorded as allowed") && text.contains("p-1"), "{text}");
    assert!(text.contains("1 changed, 0 undecided"), "{text}");
}

#[test]
fn sets_follow_each_other_from_the_root_and_root_makes_none() {
    let upstream = Upstream::start();
    let mut people = Enrolled::new();
    let gate = gate(&upstream, &people.rules()).start();
    let pay = |gate: &Gate, people: &Enrolled, request: &str| {
        let hold = held(gate, request);
        for who in ["ops-1", "finance-1"] {
            assert_eq!(agree(gate, people, &hold, who).status, 200);
        }
        assert_eq!(answered(gate, &swap(request, "500")).status, 201);
    };
    let first = version(&gate);
    let (first_rules, credential) = (people.rules(), people.key("ops-1").credential.clone());
    pay(&gate, &people, "s-1");
    // ops-1 has another key from now on, and then the former one again.
    people.renew("ops-1", SoftKey::eddsa());
    fs::write(gate.path("policies/everything.toml"), people.rules()).unwrap();
    wait_until("the next set", || version(&gate) != first);
    let second = version(&gate);
    pay(&gate, &people, "s-2");
    fs::write(gate.path("policies/everything.toml"), first_rules).unwrap();
    wait_until("the first set again", || version(&gate) == first);
    assert_eq!(swap("s-3", "50").send(gate.production()).status, 201);
    let setup = gate.end();
    let folder = setup.path("sluice-audit");
    let reason = |told: &Value, request: &str| payment(told, request)["reason"].as_str().unwrap_or_default().to_owned();

    let (code, told) = proofs(&folder, &[&first, &second, &first]);
    assert_eq!((code, &told["people"]["provedPayments"]), (0, &json!(2)), "{told:#}");
    // A set that nobody vouches for proves nothing, and one that was replaced is no next one by itself.
    let (code, told) = proofs(&folder, &[&first]);
    assert_eq!((code, reason(&told, "s-1")), (3, String::new()), "{told:#}");
    assert!(reason(&told, "s-2").contains(&format!("nothing proves the set in force, {second}")), "{told:#}");
    assert!(reason(&told, "s-3").contains(&format!("nothing proves the set in force, {first}")), "{told:#}");
    let (_, told) = proofs(&folder, &[&second, &first]);
    assert!(reason(&told, "s-2").contains("nothing proves"), "{told:#}");
    let (_, told) = proofs(&folder, &[&first, &second]);
    assert!(reason(&told, "s-2").is_empty() && reason(&told, "s-3").contains("nothing proves"), "{told:#}");

    // An activation is missing.
    let copy = setup.path("without an activation");
    copy_folder(&folder, &copy);
    rewrite(&copy, &|entries| {
        for (_, says) in entries.iter_mut().filter(|(_, says)| says["policy"] == second.as_str()) {
            says["what"] = json!("told");
        }
    });
    let (code, told) = proofs(&copy, &[&first, &second, &first]);
    assert_eq!((code, told["people"]["breaks"].as_array().unwrap().len()), (3, 1), "{told:#}");
    assert!(reason(&told, "s-2").contains("was in force"), "{told:#}");

    // The archive has another key of ops-1 under the same name, and then under the name that fits.
    let meaning = |folder: &Path, set: &str| folder.join("policies").join(set).join("meaning.json");
    let text = fs::read_to_string(meaning(&folder, &first)).unwrap();
    let mut parts: Value = serde_json::from_str(&text).unwrap();
    let stranger = SoftKey::eddsa();
    parts[format!("passkey {credential}")]["key"] = json!(encoded(stranger.cose()));
    let forged = serde_json::to_vec(&parts).unwrap();
    let forged_version = ArchivedRules::read(&forged).unwrap().version().to_owned();
    let copy = setup.path("swapped key");
    copy_folder(&folder, &copy);
    fs::write(meaning(&copy, &first), &forged).unwrap();
    let (code, told) = proofs(&copy, &[&first, &second, &first]);
    assert_eq!(code, 3, "{told:#}");
    let changed = &told["people"]["changedSets"][0];
    assert!(
        changed["file"].as_str().unwrap().contains(&first)
            && changed["text"].as_str().unwrap().contains(&forged_version),
        "{told:#}"
    );
    assert!(reason(&told, "s-1").contains("in none of the folders"), "{told:#}");
    fs::create_dir(copy.join("policies").join(&forged_version)).unwrap();
    fs::write(meaning(&copy, &forged_version), &forged).unwrap();
    fs::write(meaning(&copy, &first), &text).unwrap();
    rewrite(&copy, &|entries| {
        for (_, says) in entries.iter_mut() {
            *says = serde_json::from_str(&says.to_string().replace(&first, &forged_version)).unwrap();
        }
    });
    let (code, told) = proofs(&copy, &[&first, &second, &first]);
    assert_eq!((code, &told["clean"]), (3, &json!(false)), "{told:#}");
    assert!(reason(&told, "s-1").contains(&format!("nothing proves the set in force, {forged_version}")), "{told:#}");
}
