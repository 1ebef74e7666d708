//! Keys that lie offline enrol passkeys together, and do nothing else; no gate, no operator and no journal does it without them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sluice::policy::recovery_key_digest;

use super::proved::{Forgery, proofs, rewrite};
use super::signed::{Enrolled, agree, page};
use super::{answered, ask, gate, held, person, sluice, swap, text};
use crate::support::clock::wait_until;
use crate::support::files::copy_folder;
use crate::support::soft_key::{SoftKey, encoded, sha256};
use crate::support::{Act, Answer, Gate, Setup, Upstream};

const ACTS: &str = "acts = [\"activation\"]\n";

/// A recovery key with its id.
struct Offline(&'static str, SoftKey);

impl Offline {
    fn table(&self) -> String {
        let Offline(id, key) = self;
        let public = encoded(key.cose());
        let proof = encoded(key.sign_bytes(&recovery_key_digest(id, &public)));
        format!("[[recovery_key]]\nid = \"{id}\"\nkey = \"{public}\"\nproof = \"{proof}\"\n")
    }

    fn sign(&self, statement: &Value) -> Value {
        // The members of a JSON value stand in the order of their names.
        let signature = self.1.sign_bytes(&sha256(statement.to_string().as_bytes()));
        json!({ "key": self.0, "signature": encoded(signature) })
    }
}

fn rules(people: &Enrolled, keys: &[Offline]) -> String {
    let signing = format!("[signing]\n{ACTS}");
    let tables: String = keys.iter().map(Offline::table).collect();
    format!("{}\n[recovery]\nneeds = 2\n{tables}", people.rules().replace("[signing]\n", &signing))
}

fn version(gate: &Gate) -> String {
    text(&ask(gate, "GET", "policies", &person("op", &["operator"]), None).json(), "version").to_owned()
}

/// Puts a set in the folder; returns its version once it waits.
fn proposed(gate: &Gate, rules: &str, before: &Value) -> String {
    fs::write(gate.path("policies/everything.toml"), rules).unwrap();
    let found =
        || ask(gate, "GET", "policies", &person("op", &["operator"]), None).json()["candidate"]["version"].clone();
    wait_until("a set waits", || found().is_string() && found() != *before);
    found().as_str().unwrap().to_owned()
}

#[expect(clippy::disallowed_methods, reason = "the end of a statement counts by the clock of the gate")]
fn in_hours(hours: i64) -> String {
    let moment = jiff::Timestamp::now().as_second() + hours * 3600;
    jiff::Timestamp::from_second(moment).unwrap().to_string()
}

fn statement(from: &str, to: &str) -> Value {
    json!({
        "statement": "sluice-recovery-1", "word": "enrol", "environment": "production", "installation": "tests",
        "from": from, "to": to, "until": in_hours(24),
    })
}

fn signed(statement: &Value, keys: &[&Offline]) -> Value {
    json!({ "statement": statement, "signatures": keys.iter().map(|key| key.sign(statement)).collect::<Vec<_>>() })
}

fn hand_in_as(gate: &Gate, to: &str, recovery: &Value, role: &str) -> Answer {
    let body = json!({ "reason": "lost phones", "recovery": recovery });
    ask(gate, "POST", &format!("policies/{to}/recover"), &person("op", &[role]), Some(body))
}

fn hand_in(gate: &Gate, to: &str, recovery: &Value) -> Answer {
    hand_in_as(gate, to, recovery, "operator")
}

fn refused(gate: &Gate, to: &str, recovery: &Value, why: &str) {
    let answer = hand_in(gate, to, recovery);
    assert_eq!((answer.status, answer.code().as_str()), (403, "SIGNATURE_REFUSED"), "{why}: {answer}");
    assert!(answer.text().contains(why), "{why}: {answer}");
}

fn keys() -> [Offline; 3] {
    [Offline("safe-1", SoftKey::eddsa()), Offline("safe-2", SoftKey::es256()), Offline("safe-3", SoftKey::eddsa())]
}

fn pay(gate: &Gate, people: &Enrolled, request: &str) {
    let hold = held(gate, request);
    for who in ["ops-1", "finance-1"] {
        assert_eq!(agree(gate, people, &hold, who).status, 200, "{who}");
    }
    assert_eq!(answered(gate, &swap(request, "500")).status, 201);
}

#[test]
fn two_recovery_keys_enrol_a_passkey_and_an_auditor_proves_it_from_the_root() {
    let (upstream, sandbox) = (Upstream::start(), Upstream::start());
    sandbox.always(Act::done(201));
    let (mut people, keys) = (Enrolled::new(), keys());
    let gate = gate(&upstream, &rules(&people, &keys))
        .sandbox(&sandbox)
        .set("sandbox", "credential", "upstream-s-own-token")
        .set("", "loosening", "two-people")
        .start();
    let root = version(&gate);
    pay(&gate, &people, "r-1");

    // ops-1 has lost the device, and has another one.
    let renewed = SoftKey::es256();
    let added = format!("{}{}", rules(&people, &keys), renewed.enrolled("people:ops-1", &page()));
    let next = proposed(&gate, &added, &Value::Null);
    let stated = statement(&root, &next);
    let [a, b, c] = &keys;

    // Not enough, or not these keys.
    refused(&gate, &next, &signed(&stated, &[a]), "1 of 2 different recovery keys signed");
    refused(&gate, &next, &signed(&stated, &[a, a]), "1 of 2 different recovery keys signed");
    let stranger = Offline("safe-9", SoftKey::eddsa());
    refused(&gate, &next, &signed(&stated, &[a, &stranger]), "no recovery key `safe-9`");
    let posing = Offline("safe-2", SoftKey::es256());
    refused(&gate, &next, &signed(&stated, &[a, &posing]), "the signature of `safe-2` is not of this key");
    let mut one_key = signed(&stated, &[a, a]);
    one_key["signatures"][1]["key"] = json!("safe-3");
    refused(&gate, &next, &one_key, "the signature of `safe-3` is not of this key");
    // For something else.
    let others = [
        ("installation", json!("elsewhere"), "installation `elsewhere`"),
        ("environment", json!("sandbox"), "they are for sandbox"),
        ("from", json!("0".repeat(64)), "which is not in force"),
        ("to", json!("1".repeat(64)), "they are for the set"),
        ("until", json!(in_hours(-1)), "they counted until"),
        ("until", json!(in_hours(24 * 8)), "the longest time is 7 days"),
        ("until", json!("tomorrow"), "is no moment"),
    ];
    for (name, value, why) in others {
        let mut other = stated.clone();
        other[name] = value;
        refused(&gate, &next, &signed(&other, &[a, b]), why);
        // Changed after it was signed.
        let mut changed = signed(&other, &[a, b]);
        changed["statement"] = stated.clone();
        refused(&gate, &next, &changed, "the signature of `safe-1` is not of this key");
    }
    let good = signed(&stated, &[a, c]);
    let malformed = [
        json!({}),
        json!({ "statement": stated, "signatures": [] }),
        json!({ "statement": stated, "signatures": [{ "key": "safe-1", "signature": "%" }] }),
        json!({ "statement": "sluice-recovery-1", "signatures": good["signatures"] }),
    ];
    for bad in malformed {
        let answer = hand_in(&gate, &next, &bad);
        assert!((400..=403).contains(&answer.status), "{answer}");
    }
    let mut word = good.clone();
    word["statement"]["word"] = json!("activate");
    assert_eq!(hand_in(&gate, &next, &word).status, 400);
    for role in ["viewer", "approver", "policy-admin"] {
        assert_eq!(hand_in_as(&gate, &next, &good, role).code(), "FORBIDDEN", "{role}");
    }
    assert_eq!(version(&gate), root, "nothing took force");

    let done = hand_in(&gate, &next, &good);
    assert_eq!(done.status, 200, "{done}");
    crate::cases::console::policies::assert_described(&done, "recovered");
    wait_until("the set to take force", || version(&gate) == next);
    assert!(hand_in(&gate, &next, &good).status >= 400, "it is in force");
    people.renew("ops-1", renewed);
    pay(&gate, &people, "r-2");
    wait_until("it to be in force in the sandbox", || swap("r-3", "50").send(gate.sandbox()).status == 201);

    let setup = gate.end();
    let folder = setup.path("sluice-audit");
    let (code, told) = proofs(&folder, &[&root]);
    assert_eq!((code, &told["allProved"]), (0, &json!(true)), "{told:#}");
    let acts = told["acts"].as_array().unwrap();
    let expected = format!("enrolment by recovery keys, of the set {next}");
    assert!(acts.iter().all(|act| act["act"] == expected) && acts.len() == 2, "{told:#}");
    assert_eq!(acts[0]["signers"][1], json!({"person": "recovery key", "passkey": "safe-3"}), "{told:#}");
    whatever_root_changes_is_named(&setup, &root);
}

/// Root has all files, and writes hashes that fit.
fn whatever_root_changes_is_named(setup: &Setup, root: &str) {
    fn took(entries: &mut [(sluice::ledger::Outstanding, Value)]) -> impl Iterator<Item = &mut Value> {
        entries
            .iter_mut()
            .map(|(_, says)| says)
            .filter(|says| says["recovery"].is_object() && says["what"] == "took-force")
    }
    let attacks: [(&str, Forgery<'_>, &str); 5] = [
        (
            "one signature",
            &|entries| {
                took(entries).for_each(|says| drop(says["recovery"]["signatures"].as_array_mut().unwrap().pop()))
            },
            "1 of 2 different recovery keys",
        ),
        (
            "one key twice",
            &|entries| {
                took(entries)
                    .for_each(|says| says["recovery"]["signatures"][1] = says["recovery"]["signatures"][0].clone());
            },
            "1 of 2 different recovery keys",
        ),
        (
            "another end",
            &|entries| took(entries).for_each(|says| says["recovery"]["statement"]["until"] = json!(in_hours(25))),
            "is not of this key",
        ),
        (
            "another set",
            &|entries| took(entries).for_each(|says| says["recovery"]["statement"]["to"] = json!("1".repeat(64))),
            "they are for the set",
        ),
        ("another form", &|entries| took(entries).for_each(|says| says["recovery"] = json!({})), "has another form"),
    ];
    for (what, change, expected) in attacks {
        let copy = setup.path(&format!("copy with {what}"));
        copy_folder(&setup.path("sluice-audit"), &copy);
        rewrite(&copy, change);
        let (code, told) = proofs(&copy, &[root]);
        assert_eq!((code, &told["clean"], &told["allProved"]), (3, &json!(false), &json!(false)), "{what}: {told:#}");
        let reason = told["acts"][0]["reason"].as_str().unwrap_or_default().to_owned();
        assert!(reason.contains(expected), "{what}: {told:#}");
    }
    // Without the signatures, nothing proves the set by which the later payments were sent, in either environment.
    let copy = setup.path("copy without");
    copy_folder(&setup.path("sluice-audit"), &copy);
    rewrite(&copy, &|entries| took(entries).for_each(|says| says["recovery"] = Value::Null));
    let (code, told) = proofs(&copy, &[root]);
    assert_eq!((code, &told["people"]["unprovedPayments"]), (3, &json!(2)), "{told:#}");
}

#[test]
fn recovery_keys_change_nothing_but_add_passkeys_and_count_once() {
    let upstream = Upstream::start();
    let (mut people, keys) = (Enrolled::new(), keys());
    people.renew("ops-1", SoftKey::eddsa());
    // Two people agree to what is looser; a set with a passkey less takes force at once.
    let first = rules(&people, &keys).replace(ACTS, "");
    let gate = gate(&upstream, &first).set("", "loosening", "two-people").start();
    let root = version(&gate);
    let [a, b, c] = &keys;
    let added = format!("{first}{}", SoftKey::es256().enrolled("people:ops-1", &page()));
    let stranger = Offline("safe-9", SoftKey::eddsa());
    let former = people.key("ops-1").enrolled("people:ops-1", &page());
    let more = [
        ("a rule", added.replace("amount = \"(0, 100] USD\"", "amount = \"(0, 900] USD\""), "rule small"),
        ("a quorum", added.replace("n = 1\nexpires", "n = 2\nexpires"), "approval one"),
        ("a group", added.replace("\"people:test\"]", "\"people:test\", \"people:eve\"]"), "group ops"),
        ("a setting", added.replace("[signing]\n", "[signing]\nsynced = \"allow\"\n"), "signing"),
        ("signed acts", added.replace("[signing]\n", "[signing]\nacts = [\"absent\"]\n"), "signing"),
        ("how many keys", added.replace("needs = 2", "needs = 3"), "recovery"),
        ("the keys", format!("{added}{}", stranger.table()), "recovery_key safe-9"),
        (
            "a limit",
            format!(
                "{added}[[limit]]\nid = \"l\"\nops = \"@money\"\nwindow = \"rolling 24h\"\nmax = \"5 calls\"\nover = \"deny\"\n"
            ),
            "limit l",
        ),
        ("a passkey less", added.replace(&former, ""), "passkey"),
    ];
    let mut waits = Value::Null;
    for (what, rules, named) in more {
        assert_ne!(rules, added, "{what}");
        let next = proposed(&gate, &rules, &waits);
        let recovery = signed(&statement(&root, &next), &[a, b, c]);
        let answer = hand_in(&gate, &next, &recovery);
        assert_eq!((answer.status, answer.code().as_str()), (403, "SIGNATURE_REFUSED"), "{what}: {answer}");
        assert!(answer.text().contains("only add passkeys") && answer.text().contains(named), "{what}: {answer}");
        waits = json!(next);
    }
    assert_eq!(version(&gate), root);

    let next = proposed(&gate, &added, &waits);
    let recovery = signed(&statement(&root, &next), &[b, c]);
    assert_eq!(hand_in(&gate, &next, &recovery).status, 200);
    wait_until("the set to take force", || version(&gate) == next);
    // Signatures for a set that was in force before count no more.
    let third = format!("{added}{}", SoftKey::eddsa().enrolled("people:ops-2", &page()));
    let later = proposed(&gate, &third, &Value::Null);
    refused(&gate, &later, &signed(&statement(&root, &later), &[a, b]), "which is not in force");
    refused(&gate, &later, &recovery, "which is not in force");
    // Nor do they when that set is in force again.
    fs::write(gate.path("policies/everything.toml"), &first).unwrap();
    wait_until("the first set to be in force again", || version(&gate) == root);
    assert_eq!(proposed(&gate, &added, &Value::Null), next);
    refused(&gate, &next, &recovery, "they were handed in before");
    assert!(gate.metric("sluice_signatures_refused_total{environment=\"production\",reason=\"recovery\"}") >= 11);
}

fn run(words: &[&str], folder: &Path) -> (i32, String, String) {
    let output = sluice(words).current_dir(folder).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_ceremony_goes_by_commands_from_new_keys_to_the_proof() {
    let upstream = Upstream::start();
    let setup = gate(&upstream, "").set("", "loosening", "two-people");
    let folder: PathBuf = setup.path("");
    let people = Enrolled::new();
    let mut tables = String::new();
    for (id, algorithm) in [("safe-1", "ed25519"), ("safe-2", "es256"), ("safe-3", "ed25519")] {
        let file = format!("{id}.key");
        let (code, table, _) = run(&["recovery", "new", &file, "--id", id, "--algorithm", algorithm], &folder);
        assert_eq!((code, fs::metadata(folder.join(&file)).unwrap().permissions().mode() & 0o777), (0, 0o600));
        assert_ne!(run(&["recovery", "new", &file, "--id", id], &folder).0, 0, "it is not overwritten");
        tables.push_str(&table);
    }
    assert_ne!(run(&["recovery", "new", "x.key", "--id", "Safe"], &folder).0, 0);
    let rules = format!(
        "{}[recovery]\nneeds = 2\n{tables}",
        people.rules().replace("[signing]\n", &format!("[signing]\n{ACTS}"))
    );
    fs::write(folder.join("policies/everything.toml"), &rules).unwrap();
    let gate = setup.start();
    let root = version(&gate);

    let table = SoftKey::eddsa().enrolled("people:ops-1", &page());
    fs::write(folder.join("ops-1.toml"), &table).unwrap();
    let (until, set) = (in_hours(2), format!("sluice-audit/policies/{root}"));
    let sign = |key: &str, to: &str, more: &[&str]| {
        let words = ["recovery", "sign", "ops-1.toml", "--in-force", &set, "--key", key, "--until", &until, "--to", to];
        run(&[words.as_slice(), more].concat(), &folder)
    };
    let (code, _, err) = sign("safe-1.key", "unasked.json", &[]);
    assert!(code != 0 && err.contains("no terminal") && !folder.join("unasked.json").exists(), "{err}");
    for key in ["safe-1", "safe-2"] {
        let (code, out, err) = sign(&format!("{key}.key"), &format!("{key}.json"), &["--yes"]);
        assert_eq!(code, 0, "{out}{err}");
        for part in ["It adds 1 passkeys, and changes nothing else", "`a key` of `people:ops-1`", key, &root, "2 of 3"]
        {
            assert!(out.contains(part), "{part}: {out}");
        }
    }
    // Of another set, of a stranger, and with more in it than passkeys.
    run(&["recovery", "new", "stranger.key", "--id", "safe-1"], &folder);
    assert!(sign("stranger.key", "s.json", &["--yes"]).2.contains("no recovery key of the set in force"));
    fs::write(folder.join("ops-1.toml"), format!("{table}[group.ops]\nmembers = [\"people:eve\"]\n")).unwrap();
    let (code, out, _) = sign("safe-1.key", "s.json", &["--yes"]);
    assert!(code == 3 && out.contains("this is no passkey: `[group.NAME]`"), "{out}");
    fs::write(folder.join("ops-1.toml"), table.replace("people:ops-1", "people:ops-2")).unwrap();
    let (code, out, _) = sign("safe-1.key", "s.json", &["--yes"]);
    assert!(code == 3 && out.contains("`proof` is refused"), "{out}");
    fs::set_permissions(folder.join("safe-3.key"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(sign("safe-3.key", "s.json", &["--yes"]).2.contains("others can read"));
    assert!(!folder.join("s.json").exists());

    let next = proposed(&gate, &format!("{rules}{table}"), &Value::Null);
    let url = format!("http://{}", gate.console().unwrap());
    let hand_in = |files: &[&str], role: &str| {
        let words = ["recovery", "hand-in", "--reason", "a lost phone", "--console", &url];
        let output = sluice(&[words.as_slice(), files].concat())
            .current_dir(&folder)
            .env("SLUICE_TOKEN", person("op", &[role]))
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(text).unwrap())
    };
    let (code, told) = hand_in(&["safe-1.json"], "operator");
    assert!(code == 4 && told.contains("1 of 2 different recovery keys signed"), "{told}");
    assert_eq!(hand_in(&["safe-1.json", "safe-2.json"], "approver").0, 4);
    let (code, told) = hand_in(&["safe-1.json", "safe-2.json"], "operator");
    assert!(code == 0 && told.contains(&next), "{told}");
    wait_until("the set to take force", || version(&gate) == next);
    fs::write(folder.join("odd.json"), "{}").unwrap();
    assert!(hand_in(&["odd.json"], "operator").1.contains("no file of `sluice recovery sign`"));
    let setup = gate.end();
    let (code, told) = proofs(&setup.path("sluice-audit"), &[&root]);
    assert_eq!((code, told["acts"].as_array().unwrap().len()), (0, 1), "{told:#}");
}

#[test]
fn keys_are_rotated_revoked_and_taken_along_only_where_enough_people_can_sign_afterwards() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let people = Enrolled::new();
    fs::create_dir(folder.join("policies")).unwrap();
    fs::write(folder.join("policies/rules.toml"), people.rules()).unwrap();
    fs::write(folder.join("new.toml"), SoftKey::es256().enrolled("people:ops-1", &page())).unwrap();
    let change = |words: &[&str]| {
        let (word, rest) = words.split_first().unwrap();
        let begin = ["passkeys", word, "policies"];
        let issuer = ["--issuer", "people", "--issuer", "main"];
        run(&[begin.as_slice(), rest, &issuer].concat(), folder)
    };
    let of_ops_1 = |folder_name: &str| {
        let text = fs::read_to_string(folder.join(folder_name).join("rules.toml")).unwrap();
        text.matches("person = \"people:ops-1\"").count()
    };
    let (code, out, _) = change(&["list"]);
    assert!(code == 0 && out.lines().count() == 4 && out.contains("people:ops-1  `a key`"), "{out}");

    let (code, out, err) =
        change(&["rotate", "--person", "people:ops-1", "--name", "a key", "--table", "new.toml", "--to", "rotated"]);
    assert!(code == 0 && out.contains("the new passkey is added") && out.contains("(allows more)"), "{out}{err}");
    assert_eq!(of_ops_1("rotated"), 1);
    let (code, out, err) = change(&["enrol", "--table", "new.toml", "--to", "enrolled"]);
    assert!(code == 0, "{out}{err}");
    assert_eq!(of_ops_1("enrolled"), 2);
    let again = change(&["enrol", "--table", "new.toml", "--to", "enrolled"]);
    assert!(again.0 == 1 && again.2.contains("a folder that is not there yet"), "{}", again.2);
    let wrong = change(&["rotate", "--person", "people:ops-2", "--table", "new.toml"]);
    assert!(wrong.0 == 1 && wrong.2.contains("is of `people:ops-1`, not of `people:ops-2`"), "{}", wrong.2);

    // One of ops and one of finance must sign, so the quorum and one more need both of each.
    for word in ["revoke", "leave"] {
        let (code, out, _) = change(&[word, "--person", "people:ops-1", "--to", "none"]);
        let told = "could not be completed without any one of the people who have a passkey";
        assert!(code == 3 && out.contains(told) && !folder.join("none").exists(), "{word}: {out}");
    }
    let third = SoftKey::eddsa().enrolled("people:test", &page());
    fs::write(folder.join("policies/rules.toml"), format!("{}{third}", people.rules())).unwrap();
    let (code, out, err) = change(&["revoke", "--person", "people:ops-1"]);
    assert!(code == 0 && out.contains("Nothing was written") && out.contains("is removed"), "{out}{err}");
    let (code, out, err) = change(&["leave", "--person", "people:ops-1", "--to", "left"]);
    assert!(code == 0 && out.contains("is removed from `[group.ops]`"), "{out}{err}");
    let left = fs::read_to_string(folder.join("left/rules.toml")).unwrap();
    assert!(!left.contains("people:ops-1\""), "{left}");
    let unknown = change(&["revoke", "--person", "people:nobody"]);
    assert!(unknown.0 == 1 && unknown.2.contains("no passkey of `people:nobody`"), "{}", unknown.2);
    fs::write(folder.join("new.toml"), "[group.more]\nmembers = [\"people:eve\"]\n").unwrap();
    assert_eq!(change(&["enrol", "--table", "new.toml"]).0, 1);
}
