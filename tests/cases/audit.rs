//! `sluice audit`: what auditors do with the files, while they are written and afterwards.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use sluice::adapters::audit::{AuditFiles, AuditSettings, Checkpoints, SigningKey, audit_file, checkpoints_file};
use sluice::adapters::clock::SystemClock;
use sluice::base::ids::Environment;
use sluice::ledger::{NodeId, Number, Outstanding, StoreTime};
use sluice::ports::AuditSink as _;

use super::console::{ask, console, operator};
use crate::support::gate::sluice;
use crate::support::{Setup, Upstream};

/// A folder with a key and the files of nodes.
struct Archive {
    folder: tempfile::TempDir,
}

fn node(name: &str) -> NodeId {
    NodeId::parse(name).unwrap()
}

fn entry(node: &NodeId, number: u64, entry: &Value) -> Outstanding {
    Outstanding {
        environment: Environment::Production,
        number: Number::new(number),
        at: StoreTime::of_micros(1_763_648_145_000_000 + i64::try_from(number).unwrap()),
        node: node.clone(),
        entry: Bytes::from(entry.to_string()),
    }
}

/// The convention of entries.
fn said(what: &str, claim: &str) -> Value {
    json!({"what": what, "claim": claim, "operation": "createSwap", "attempt": 1, "trace": "t-1",
           "owner": {"issuer": "main", "subject": "payroll"}, "fingerprint": "ab12"})
}

impl Archive {
    fn new() -> Archive {
        let archive = Archive { folder: tempfile::tempdir().unwrap() };
        let (code, text) = run(&["audit", "key", archive.path("key").to_str().unwrap()]);
        assert!(code == 0 && text.contains("key.pub"), "{text}");
        archive
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn files(&self) -> PathBuf {
        self.path("audit")
    }

    fn open(&self, node: &NodeId) -> AuditFiles {
        let key = SigningKey::of_pem(&fs::read(self.path("key")).unwrap()).unwrap();
        let every = Duration::from_secs(3600);
        let checkpoints =
            Some(Checkpoints { key, every_entries: 1_000_000, every, to_log: false, is_witnessed: false });
        let settings = AuditSettings { checkpoints, ..AuditSettings::of(&self.files(), node.clone()) };
        AuditFiles::open(settings, Arc::new(SystemClock)).unwrap()
    }

    /// A swap by `a`, which was executed, and something of `b` between. The journal of `b` ends before the swap does.
    fn fill(&self) {
        let (a, b) = (node("a"), node("b"));
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(async {
            let (of_a, of_b) = (self.open(&a), self.open(&b));
            let begun = vec![entry(&a, 1, &said("sending", "pay-1")), entry(&b, 2, &said("sending", "=cmd|\u{7}"))];
            of_a.append(begun.clone()).await.unwrap();
            of_b.append(begun).await.unwrap();
            let mut executed = said("executed", "pay-1");
            executed["status"] = 201.into();
            of_a.append(vec![entry(&a, 3, &executed)]).await.unwrap();
        });
    }

    fn audit(&self, command: &str, more: &[&str]) -> (i32, String) {
        let files = self.files();
        run(&[&["audit", command, files.to_str().unwrap()], more].concat())
    }

    fn verify(&self) -> (i32, String) {
        let key = self.path("key.pub");
        self.audit("verify", &["--public-key", key.to_str().unwrap()])
    }
}

#[test]
fn only_signed_checkpoints_prove_that_nothing_is_missing() {
    let archive = Archive::new();
    archive.fill();
    let (files, key) = (archive.files(), archive.path("key.pub"));
    let (files, key) = (files.to_str().unwrap(), key.to_str().unwrap());
    let (code, text) = run(&["audit", "verify", files, "--public-key", key]);
    assert!(code == 0 && text.contains("complete and unchanged up to the newest signed checkpoint"), "{text}");
    let (code, text) = run(&["audit", "verify", files]);
    assert!(code == 0 && text.contains("can write these checkpoints") && !text.contains("unchanged"), "{text}");
    for name in ["a", "b"] {
        fs::remove_file(checkpoints_file(&archive.files(), &node(name))).unwrap();
    }
    let (code, text) = run(&["audit", "verify", files, "--public-key", key]);
    assert!(
        code == 3 && text.contains("1 finding: there are no checkpoints of `a`, `b`") && !text.contains("unchanged"),
        "{text}"
    );
    let (code, text) = run(&["audit", "verify", files, "--public-key", key, "--output", "json"]);
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &told["clean"], &told["findingCount"]), (3, &json!(false), &json!(0)), "{text}");
    assert_eq!(
        told["reasons"],
        json!(["completeness is not proved: the public key verifies no checkpoint of `a`, `b`"]),
        "{text}"
    );
    // Without a key no proof is asked for.
    let (code, text) = run(&["audit", "verify", files, "--output", "json"]);
    assert_eq!(code, 0, "{text}");
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&told["clean"], &told["completeUpToCheckpoints"]), (&json!(true), &json!(false)));
    assert_eq!(told["reasons"], json!([]));
}

pub(super) fn run(arguments: &[&str]) -> (i32, String) {
    let output = sluice(arguments).output().unwrap();
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

fn change(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn a_whole_chain_is_told_from_one_that_was_touched() {
    let archive = Archive::new();
    archive.fill();
    assert_eq!(fs::metadata(archive.path("key")).unwrap().permissions().mode() & 0o777, 0o600);
    let (code, text) = run(&["audit", "key", archive.path("key").to_str().unwrap()]);
    assert!(code == 1 && text.contains("never overwritten"), "{text}");

    let (code, text) = archive.verify();
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("5 entries in 2 files, production up to 3; 2 checkpoints match"), "{text}");
    let (code, text) = archive.audit("verify", &[]);
    assert!(code == 0 && text.contains("no public key was given"), "{text}");

    let file = audit_file(&archive.files(), &node("a"), 1);
    let whole = fs::read_to_string(&file).unwrap();
    change(&file, "executed", "refused!");
    let (code, text) = archive.verify();
    assert_eq!(code, 3, "{text}");
    let offset = whole.rfind("{\"at\"").unwrap();
    assert!(text.contains(&format!("{}, line 4, byte {offset}: its hash", file.display())), "{text}");

    fs::write(&file, &whole[..offset]).unwrap();
    let (code, text) = archive.audit("verify", &["--output", "json"]);
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &told["clean"]), (3, &json!(false)));
    let cut = told["findings"].as_array().unwrap().iter().find(|finding| finding["what"] == "cut-off").unwrap();
    assert_eq!(cut["line"], 3, "{text}");
    assert!(cut["text"].as_str().unwrap().contains("has 3 lines, but a checkpoint says that it had 4"), "{text}");

    fs::write(&file, &whole).unwrap();
    let checkpoints = checkpoints_file(&archive.files(), &node("a"));
    change(&checkpoints, r"\n4\n", r"\n3\n");
    let (code, text) = archive.verify();
    assert!(code == 3 && text.contains("not signed by one of the given keys"), "{text}");

    let (code, text) = run(&["audit", "verify", archive.path("nowhere").to_str().unwrap()]);
    assert!(code == 1 && text.contains("cannot be read"), "{text}");
    assert_eq!(run(&["audit", "verify"]).0, 2);
}

#[test]
fn a_copy_of_a_checkpoint_in_a_log_is_as_good() {
    let archive = Archive::new();
    archive.fill();
    let beside = checkpoints_file(&archive.files(), &node("a"));
    let text = fs::read_to_string(&beside).unwrap();
    let log = archive.path("gate.log");
    let checkpoint: Value = serde_json::from_str(text.trim_end()).unwrap();
    let logged = json!({"message": "audit checkpoint", "checkpoint": checkpoint["checkpoint"]});
    fs::write(&log, format!("{{\"message\": \"listening\"}}\n{logged}\nnot JSON\n")).unwrap();
    // Whoever can write the files removes what speaks against them.
    fs::remove_file(&beside).unwrap();
    fs::remove_file(audit_file(&archive.files(), &node("a"), 1)).unwrap();
    let (code, text) = archive.audit("verify", &["--checkpoints", log.to_str().unwrap()]);
    assert_eq!(code, 3, "{text}");
    assert!(text.contains("the log `sluice/a/") && text.contains("its journal was removed"), "{text}");
}

#[test]
fn a_chain_that_is_written_at_this_moment_is_no_worse_for_it() {
    let archive = Archive::new();
    archive.fill();
    let a = node("a");
    let open = archive.open(&a);
    let mut file = OpenOptions::new().append(true).open(audit_file(&archive.files(), &a, 1)).unwrap();
    file.write_all(b"{\"at\":\"2026-").unwrap();
    let (code, text) = archive.verify();
    assert_eq!(code, 0, "{text}");
    drop(open);
    let (code, text) = archive.verify();
    assert!(code == 3 && text.contains("ends inside of this line"), "{text}");
}

#[test]
fn one_request_is_told_as_a_story() {
    let archive = Archive::new();
    archive.fill();
    let (code, text) = archive.audit("show", &["--request-id", "PAY-1"]);
    assert!(code == 1 && text.contains("upper and lower case letters of a requestId differ"), "{text}");
    let (code, text) = archive.audit("show", &["--request-id", "pay-1"]);
    assert_eq!(code, 0, "{text}");
    insta::assert_snapshot!(text, @"
    production: createSwap pay-1 by payroll of main
      fingerprint ab12
      2025-11-20T14:15:45.000001Z  sending, attempt 1, trace t-1  (number 1, node a)
      2025-11-20T14:15:45.000003Z  executed, attempt 1, status 201, trace t-1  (number 3, node a)
    ");
    let count = |more: &[&str]| archive.audit("show", more).1.lines().count();
    assert_eq!(count(&[]), 3);
    assert_eq!(count(&["--subject", "payroll", "--what", "executed", "--day", "2025-11-20"]), 1);
    assert_eq!(count(&["--operation", "createSwap", "--environment", "production"]), 3);
    let (code, text) = archive.audit("show", &["--number", "9"]);
    assert!(code == 1 && text.contains("no matching entries"), "{text}");
    let (_, text) = archive.audit("show", &["--number", "2", "--output", "json"]);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["entry"]["what"], "sending");
    // What a caller chose does nothing to a terminal.
    assert!(!archive.audit("show", &[]).1.contains('\u{7}'));
}

#[test]
fn an_export_is_csv_or_json_lines() {
    let archive = Archive::new();
    archive.fill();
    let (code, text) = archive.audit("export", &[]);
    let rows: Vec<&str> = text.lines().collect();
    assert_eq!((code, rows.len()), (0, 4), "{text}");
    assert!(rows[0].starts_with("environment,number,at,node,what,operation,claim,issuer,subject,"), "{text}");
    assert!(rows[1].starts_with("production,1,2025-11-20T14:15:45.000001Z,a,sending,createSwap,pay-1,main,payroll,"));
    assert!(text.contains(",'=cmd|"), "{text}");
    let (_, text) = archive.audit("export", &["--output", "json", "--what", "executed"]);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["number"], 3);
    let (code, text) = archive.audit("export", &["--operation", "createSwp"]);
    assert!(code == 0 && text.contains("the export is empty"), "{text}");
}

#[test]
fn what_is_no_day_and_no_kind_is_refused() {
    let archive = Archive::new();
    archive.fill();
    for day in ["30.11.2026", "2026-02-30", "2025-1", "2", "", "2025-11-20T14", "2025-11-0020"] {
        let (code, text) = archive.audit("export", &["--day", day]);
        assert!(code == 2 && text.contains("expected a day such as 2026-11-20"), "{day}: {text}");
    }
    let (code, text) = archive.audit("show", &["--what", "sendign"]);
    assert!(code == 2 && text.contains("the kinds are sending, refused"), "{text}");
}

#[test]
fn an_export_is_checked_by_its_digest() {
    let archive = Archive::new();
    archive.fill();
    let folder = tempfile::tempdir().unwrap();
    let [export, digest] = ["entries.csv", "entries.digest"].map(|name| folder.path().join(name));
    let [export_name, digest_name] = [&export, &digest].map(|path| path.to_str().unwrap());
    let (code, text) = archive.audit("export", &["--digest", digest_name]);
    assert_eq!(code, 0, "{text}");
    std::fs::write(&export, &text).unwrap();
    let check = || run(&["audit", "check-export", export_name, "--digest", digest_name]);
    let (code, said) = check();
    assert!(code == 0 && said.contains("whole and unchanged: 3 entries"), "{said}");
    let told = |format: &str| run(&["audit", "check-export", export_name, "--digest", digest_name, "--output", format]);
    let (code, said) = told("json");
    let found: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &found["whole"], &found["digest"]["entries"]), (0, &json!(true), &json!(3)));
    for altered in [text.replacen("pay-1", "pay-2", 1), text.lines().skip(1).collect(), String::new()] {
        std::fs::write(&export, altered).unwrap();
        let (code, said) = check();
        assert!(code == 3 && said.contains("NOT what was exported"), "{said}");
        let (code, said) = told("csv");
        assert!(code == 3 && said.lines().last().unwrap().ends_with(",false"), "{said}");
    }
}

#[test]
fn entries_are_found_by_the_person_who_acted() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    for (who, operation) in [("ann", "createSwap"), ("bob", "createOfframp")] {
        let body = json!({"environment": "production", "scope": {"operation": operation}, "reason": who});
        assert_eq!(ask(&gate, "POST", "freezes", &operator(who), Some(body)).status, 201);
    }
    let files = gate.path("sluice-audit");
    let by = |person: &str| run(&["audit", "show", files.to_str().unwrap(), "--by", person]);
    for person in ["ann", "people/ann"] {
        let (code, text) = by(person);
        assert!(code == 0 && text.lines().count() == 1 && text.contains("reason ann"), "{text}");
    }
    for nobody in ["an", "main/ann", "people/"] {
        assert_eq!(by(nobody).0, 1, "{nobody}");
    }
}

#[test]
fn what_comes_is_followed() {
    let archive = Archive::new();
    archive.fill();
    let (code, text) = archive.audit("tail", &["--lines", "2"]);
    assert_eq!((code, text.lines().count()), (0, 2), "{text}");
    let files = archive.files();
    let mut tail = sluice(&["audit", "tail", files.to_str().unwrap(), "--follow", "--lines", "1"]);
    let mut tail = tail.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.next().unwrap().contains(" production 3 "));
    let a = node("a");
    let open = archive.open(&a);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(open.append(vec![entry(&a, 4, &said("sending", "pay-2"))])).unwrap();
    let line = lines.next().unwrap();
    assert!(line.contains(" production 4 ") && line.contains("pay-2"), "{line}");
    tail.kill().unwrap();
    tail.wait().unwrap();
}
