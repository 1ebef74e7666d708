//! Witnesses: what they sign, what they refuse, and what an auditor knows by them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use sluice::adapters::audit::{AuditFiles, AuditSettings, Checkpoints, SigningKey, audit_file, checkpoints_file};
use sluice::adapters::clock::SystemClock;
use sluice::audit::{LineBody, LineReader, read_line};
use sluice::ledger::NodeId;
use sluice::ports::AuditSink as _;

use super::audit::run;
use super::claims::{pay, swap, told};
use crate::support::between::Between;
use crate::support::call::get;
use crate::support::clock::wait_until;
use crate::support::files::copy_folder;
use crate::support::gate::sluice;
use crate::support::shape::{examples, operation};
use crate::support::{Call, Gate, Setup, Upstream};

const EXECUTED: &str = "200 - executed";

/// The process of a witness, on a folder that outlives it.
pub(super) struct Witness {
    child: Child,
    pub port: u16,
    pub key: String,
}

impl Witness {
    /// Starts a witness whose key and folder are in a home.
    pub fn start(home: &Path, name: &str, log_key: &Path) -> Witness {
        let key = home.join(format!("{name}.pem"));
        if !key.exists() {
            assert!(sluice(&["audit", "key", key.to_str().unwrap()]).output().unwrap().status.success());
        }
        let folder = home.join(name);
        let paths = [&key, &folder, &log_key.to_owned()].map(|path: &PathBuf| path.to_str().unwrap().to_owned());
        let [key, folder, log_key] = paths.each_ref().map(String::as_str);
        let arguments = ["witness", "--name", name, "--key", key, "--folder", folder, "--log-key", log_key];
        let mut command = sluice(&[&arguments[..], &["--listen", "127.0.0.1:0"]].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let first = lines.next().unwrap();
        let port = first.split(';').next().unwrap().rsplit(':').next().unwrap().parse().unwrap();
        let key = lines.nth(1).unwrap();
        Witness { child, port, key }
    }

    /// Writes the list for auditors into a file.
    fn checkpoints(&self, file: &Path) -> String {
        fs::write(file, self.list()).unwrap();
        file.to_str().unwrap().to_owned()
    }

    /// The list for auditors.
    pub fn list(&self) -> Vec<u8> {
        let answer = get("/checkpoints").send(([127, 0, 0, 1], self.port).into());
        assert_eq!(answer.status, 200, "{answer}");
        answer.body
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A gate that has its journal witnessed, and the ways to its witnesses.
pub(super) struct Witnessed {
    pub(super) gate: Gate,
    first: Witness,
    second: Witness,
    ways: [Between; 2],
    home: tempfile::TempDir,
}

fn witnessed(upstream: &Upstream, settings: &[(&str, &str)]) -> Witnessed {
    have_witnessed(Setup::of(upstream), settings)
}

pub(super) fn have_witnessed(setup: Setup, settings: &[(&str, &str)]) -> Witnessed {
    let home = tempfile::tempdir().unwrap();
    let setup = setup.set_raw("audit", "checkpoint_key", r#"{ file = "log.pem" }"#);
    assert!(sluice(&["audit", "key", setup.path("log.pem").to_str().unwrap()]).output().unwrap().status.success());
    let log_key = home.path().join("log.pem.pub");
    fs::copy(setup.path("log.pem.pub"), &log_key).unwrap();
    let [first, second] = ["w1.example", "w2.example"].map(|name| Witness::start(home.path(), name, &log_key));
    let ways = [&first, &second].map(|witness| Between::to(witness.port));
    let mut setup = setup.set_raw("audit", "checkpoint_seconds", "1");
    for (name, toml) in settings {
        setup = setup.set_raw("audit", name, toml);
    }
    for (name, witness, way) in [("first", &first, &ways[0]), ("second", &second, &ways[1])] {
        let section = format!("witness.{name}");
        setup = setup.set(&section, "url", &format!("http://{}", way.address())).set(&section, "key", &witness.key);
    }
    Witnessed { gate: setup.start(), first, second, ways, home }
}

fn answers(gate: &Gate, witness: &str, answer: &str) -> u64 {
    gate.metric(&format!("sluice_witness_answers_total{{answer=\"{answer}\",witness=\"{witness}\"}}"))
}

fn paid(gate: &Gate, upstream: &Upstream) {
    let before = upstream.seen().len();
    wait_until("the call to be paid", || told(&swap().send(gate.production())) == EXECUTED);
    assert_eq!(upstream.seen().len(), before + 1);
}

/// Until enough witnesses signed all that the files have.
fn all_is_witnessed(gate: &Gate, folder: &Path) {
    wait_until("the witnesses to sign all", || {
        let text = fs::read_to_string(checkpoints_file(folder, &node())).unwrap_or_default();
        let last = text.lines().last().unwrap_or_default().to_owned();
        let newest = fs::read_to_string(audit_file(folder, &node(), 1)).unwrap();
        gate.metric("sluice_unwitnessed_since_seconds") == 0
            && last.contains("w1.example")
            && last.contains(&format!(r"\n{}\n", newest.lines().count()))
    });
}

/// Makes two payments that both witnesses have signed.
fn two_are_witnessed(of: &Witnessed, upstream: &Upstream) {
    paid(&of.gate, upstream);
    paid(&of.gate, upstream);
    all_is_witnessed(&of.gate, &of.gate.path("sluice-audit"));
}

/// A swap with this requestId.
fn named(request_id: &str) -> Call {
    let mut body: Value = serde_json::from_slice(&examples(operation("createSwap"), "good-")[0].1).unwrap();
    body["requestId"] = request_id.into();
    pay(body.to_string())
}

fn node() -> NodeId {
    NodeId::parse("gate").unwrap()
}

impl Witnessed {
    fn path(&self, name: &str) -> PathBuf {
        self.home.path().join(name)
    }

    /// No witness can be reached any more.
    pub(super) fn cut_off(&self) {
        self.ways.iter().for_each(|way| way.lead(1));
    }

    /// The witnesses can be reached again.
    pub(super) fn reconnect(&self) {
        self.ways[0].lead(self.first.port);
        self.ways[1].lead(self.second.port);
    }

    /// The arguments that name the keys of the journal and of both witnesses.
    pub(super) fn keys(&self) -> [String; 6] {
        let key = self.path("log.pem.pub").to_str().unwrap().to_owned();
        let witnesses = [self.first.key.clone(), self.second.key.clone()];
        let [first, second] = witnesses.map(|key| ["--witness-key".to_owned(), key]);
        ["--public-key".to_owned(), key].into_iter().chain(first).chain(second).collect::<Vec<_>>().try_into().unwrap()
    }

    /// Starts the gate again.
    pub(super) fn again(self) -> Witnessed {
        let Witnessed { gate, first, second, ways, home } = self;
        Witnessed { gate: gate.end().start(), first, second, ways, home }
    }

    /// Verifies a folder as an auditor who got the checkpoints from both witnesses.
    pub(super) fn verify(&self, folder: &Path, more: &[&str]) -> (i32, String) {
        let lists = [(&self.first, "first.jsonl"), (&self.second, "second.jsonl")];
        let [first, second] = lists.map(|(witness, name)| witness.checkpoints(&self.path(name)));
        let key = self.path("log.pem.pub");
        let checkpoints = ["--checkpoints", &first, "--checkpoints", &second];
        let keys = ["--public-key", key.to_str().unwrap(), "--witness-key", &self.first.key];
        run(&[&["audit", "verify", folder.to_str().unwrap()][..], &checkpoints, &keys, more].concat())
    }
}

#[test]
fn an_auditor_knows_that_nobody_was_shown_another_journal() {
    let upstream = Upstream::start();
    let of = witnessed(&upstream, &[]);
    let folder = of.gate.path("sluice-audit");
    paid(&of.gate, &upstream);
    all_is_witnessed(&of.gate, &folder);
    let both = ["--witness-key", &of.second.key];
    let (code, text) = of.verify(&folder, &both);
    assert!(
        code == 0 && text.contains("complete and unchanged up to the newest checkpoint that enough witnesses signed"),
        "{text}"
    );
    assert!(text.contains("`gate` up to line") && text.contains("with 0 lines behind it"), "{text}");
    let (code, text) = of.verify(&folder, &["--witnessed", "2"]);
    assert!(code == 1 && text.contains("needs as many different `--witness-key`"), "{text}");
    // A third one is not needed, and never signed.
    let third = Witness::start(of.home.path(), "w3.example", &of.path("log.pem.pub"));
    let all = ["--witness-key", &of.second.key, "--witness-key", &third.key];
    assert_eq!(of.verify(&folder, &[&all[..], &["--witnessed", "2"]].concat()).0, 0);
    let (code, text) = of.verify(&folder, &all);
    assert!(code == 3 && text.contains("too few witnesses signed checkpoints of `gate`"), "{text}");
    let (_, text) = of.verify(&folder, &[&both[..], &["--output", "json"]].concat());
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&told["completeUpToWitnessed"], &told["witnessed"]["gate"]["linesBehind"]), (&true.into(), &0.into()));

    // One witness is lost: the journal goes on, and says so.
    let Witnessed { gate, first, second, ways, home } = of;
    drop(second);
    paid(&gate, &upstream);
    wait_until("the loss to be counted", || answers(&gate, "second", "unreachable") > 0);
    wait_until("the wait to be told", || gate.metric("sluice_unwitnessed_since_seconds") > 0);
    assert_eq!(gate.probe("/readyz/money").status, 200);
    let second = Witness::start(home.path(), "w2.example", &home.path().join("log.pem.pub"));
    ways[1].lead(second.port);
    all_is_witnessed(&gate, &folder);
    let of = Witnessed { gate, first, second, ways, home };
    assert_eq!(of.verify(&folder, &["--witness-key", &of.second.key]).0, 0);
}

/// Root has all files and keys, writes a journal without a payment, and signs it. The witnesses have seen another one.
#[test]
fn a_journal_that_was_written_anew_by_root_is_found_by_its_witnesses() {
    let upstream = Upstream::start();
    let of = witnessed(&upstream, &[]);
    let folder = of.gate.path("sluice-audit");
    two_are_witnessed(&of, &upstream);
    let Witnessed { gate, first, second, ways, home } = of;
    let setup = gate.end();
    let forged = home.path().join("forged");
    forge(&folder, &forged, &setup.path("log.pem"));
    // With the journal's own key alone, nothing is found.
    let key = home.path().join("log.pem.pub");
    let (code, text) = run(&["audit", "verify", forged.to_str().unwrap(), "--public-key", key.to_str().unwrap()]);
    assert!(code == 0 && text.contains("complete and unchanged up to the newest signed checkpoint"), "{text}");
    fs::remove_dir_all(&folder).unwrap();
    copy_folder(&forged, &folder);
    fs::remove_dir_all(setup.path("sluice-data")).unwrap();
    let of = Witnessed { gate: setup.start(), first, second, ways, home };
    wait_until("the witnesses to refuse", || {
        answers(&of.gate, "first", "inconsistent") + answers(&of.gate, "first", "set_back") > 0
    });
    let (code, text) = of.verify(&folder, &["--witness-key", &of.second.key]);
    assert!(code == 3 && text.contains("finding"), "{text}");
    assert!(text.contains("the files were rewritten") || text.contains("was cut off"), "{text}");
}

/// Writes a journal with the same identity and salt that lacks the last payment, and signs it.
fn forge(from: &Path, to: &Path, key: &Path) {
    fs::create_dir_all(to).unwrap();
    for name in ["audit-gate.id", "audit-gate.salt"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
    let bytes = fs::read(audit_file(from, &node(), 1)).unwrap();
    let mut lines = LineReader::of(bytes.as_slice());
    let mut entries = Vec::new();
    while let Some(raw) = lines.following().unwrap() {
        if let LineBody::Entry(entry) = read_line(raw.bytes).unwrap().body {
            entries.push(entry);
        }
    }
    let kept = entries.iter().rposition(|entry| entry.entry.windows(9).any(|part| part == b"\"sending\"")).unwrap();
    entries.truncate(kept);
    let key = SigningKey::of_pem(&fs::read(key).unwrap()).unwrap();
    let every = Duration::from_secs(3_600);
    let checkpoints = Some(Checkpoints { key, every_entries: 1_000_000, every, to_log: false, is_witnessed: false });
    let settings = AuditSettings { checkpoints, ..AuditSettings::of(to, node()) };
    let files = AuditFiles::open(settings, Arc::new(SystemClock)).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(files.append(entries)).unwrap();
}

/// Root forges a journal, and begins a new log for it: its witnesses sign that from the first line. They list the former one, too.
#[test]
fn a_second_log_for_another_journal_is_found_and_accepted_only_by_name() {
    let upstream = Upstream::start();
    let of = witnessed(&upstream, &[]);
    let folder = of.gate.path("sluice-audit");
    two_are_witnessed(&of, &upstream);
    let Witnessed { gate, first, second, ways, home } = of;
    let setup = gate.end();
    let forged = home.path().join("forged");
    forge(&folder, &forged, &setup.path("log.pem"));
    for name in ["sluice-audit", "sluice-data"] {
        fs::remove_dir_all(setup.path(name)).unwrap();
    }
    fs::create_dir(&folder).unwrap();
    for name in ["audit-gate.id", "audit-gate-00000001.jsonl"] {
        fs::copy(forged.join(name), folder.join(name)).unwrap();
    }
    let of = Witnessed { gate: setup.start(), first, second, ways, home };
    all_is_witnessed(&of.gate, &folder);
    let both = ["--witness-key", &of.second.key];
    let (code, text) = of.verify(&folder, &both);
    assert!(code == 3 && text.contains("or a new log was begun"), "{text}");
    let former = text.split("--former-log ").nth(1).unwrap().split_whitespace().next().unwrap();
    let former = former.trim_end_matches('`').to_owned();
    let (code, text) = of.verify(&folder, &[&both[..], &["--former-log", &former]].concat());
    assert!(code == 0 && text.contains(&format!("the former log `{former}` is accepted")), "{text}");
    // Without the salt, no signature proves anything.
    let copy = of.path("copy");
    copy_folder(&folder, &copy);
    fs::remove_file(copy.join("audit-gate.salt")).unwrap();
    let (code, text) = of.verify(&copy, &[&both[..], &["--former-log", &former]].concat());
    assert!(code == 3 && text.contains("or its salt are not among those given"), "{text}");
}

#[test]
fn a_verification_with_fewer_witnesses_than_it_says_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let key = home.path().join("log.pem");
    assert_eq!(run(&["audit", "key", key.to_str().unwrap()]).0, 0);
    let public = home.path().join("log.pem.pub");
    let show = |name: &str| {
        let (code, text) = run(&["witness", "--name", name, "--key", key.to_str().unwrap(), "--show-key"]);
        assert_eq!(code, 0, "{text}");
        text.trim().to_owned()
    };
    let (one, other) = (show("w.example"), show("v.example"));
    let verify = |more: &[&str]| run(&[&["audit", "verify", home.path().to_str().unwrap()][..], more].concat());
    let public = ["--public-key", public.to_str().unwrap()];
    let same = ["--witness-key", &one, "--witness-key", &other];
    let (code, text) = verify(&[public, [same[0], same[1]]].concat());
    assert!(code == 1 && text.contains("no audit files"), "{text}");
    let (code, text) = verify(&[&public[..], &same].concat());
    assert!(code == 1 && text.contains("are one witness"), "{text}");
    for wrong in [&["--witnessed", "0"][..], &["--witnessed", "1"], &same[..2]] {
        assert_eq!(verify(wrong).0, 2, "{wrong:?}");
    }
    assert_eq!(verify(&[&public[..], &same[..2], &["--witnessed", "0"]].concat()).0, 2);
    let (code, text) = verify(&[&public[..], &["--witness-key", "w.example"]].concat());
    assert!(code == 1 && text.contains("neither the key of a witness"), "{text}");
}

/// A backup of the whole gate is put back: it goes on from there, and its witnesses have signed more.
#[test]
fn a_journal_that_was_set_back_is_refused_by_its_witnesses() {
    let upstream = Upstream::start();
    let of = witnessed(&upstream, &[("unwitnessed", "\"close\""), ("unwitnessed_seconds", "2")]);
    let folder = of.gate.path("sluice-audit");
    paid(&of.gate, &upstream);
    all_is_witnessed(&of.gate, &folder);
    let Witnessed { gate, first, second, ways, home } = of;
    let setup = gate.end();
    let backup = home.path().join("backup");
    for name in ["sluice-audit", "sluice-data"] {
        copy_folder(&setup.path(name), &backup.join(name));
    }
    let gate = setup.start();
    (0..3).for_each(|_| paid(&gate, &upstream));
    all_is_witnessed(&gate, &folder);
    let setup = gate.end();
    for name in ["sluice-audit", "sluice-data"] {
        fs::remove_dir_all(setup.path(name)).unwrap();
        copy_folder(&backup.join(name), &setup.path(name));
    }
    // As after a snapshot of the whole disk: only the witnesses know that it is an older one.
    sluice::adapters::audit::keep_original(&folder, &NodeId::parse("gate").unwrap()).unwrap();
    let of = Witnessed { gate: setup.start(), first, second, ways, home };
    let refused = || answers(&of.gate, "first", "set_back") + answers(&of.gate, "first", "inconsistent") > 0;
    wait_until("the witnesses to refuse", refused);
    wait_until("money to be closed", || told(&swap().send(of.gate.production())).starts_with("503 "));
    let reasons = of.gate.probe("/readyz/money").json()["reasons"].clone();
    assert!(reasons.to_string().contains("\"unwitnessed\""), "{reasons}");
    assert_eq!(of.gate.probe("/readyz").status, 200);
    assert_eq!(of.verify(&folder, &[]).0, 3);
}

#[test]
fn money_waits_for_witnesses_where_that_is_asked_and_reads_go_on() {
    let upstream = Upstream::start();
    let of =
        witnessed(&upstream, &[("unwitnessed", "\"close\""), ("unwitnessed_seconds", "2"), ("witnesses_needed", "1")]);
    paid(&of.gate, &upstream);
    // One of two is enough.
    of.ways[1].swallow(true);
    for _ in 0..2 {
        paid(&of.gate, &upstream);
        all_is_witnessed(&of.gate, &of.gate.path("sluice-audit"));
    }
    of.ways[0].lead(1);
    let closed = || told(&swap().send(of.gate.production())).starts_with("503 ");
    wait_until("money to be closed", closed);
    let sent = upstream.seen().len();
    assert!(closed() && upstream.seen().len() == sent);
    assert_eq!(super::nodes::read(&of.gate).status, 200);
    of.ways[0].lead(of.first.port);
    paid(&of.gate, &upstream);
    assert_eq!(of.gate.probe("/readyz/money").status, 200);
}

/// A caller keeps a receipt; later root deletes the payment everywhere.
#[test]
fn a_receipt_proves_a_payment_that_was_deleted_since() {
    let upstream = Upstream::start();
    let of = witnessed(&upstream, &[]);
    let folder = of.gate.path("sluice-audit");
    let call = named("kept");
    wait_until("the call to be paid", || told(&call.send(of.gate.production())) == EXECUTED);
    paid(&of.gate, &upstream);
    all_is_witnessed(&of.gate, &folder);
    let (code, receipt) = run(&["audit", "receipt", folder.to_str().unwrap(), "--request-id", "kept"]);
    assert_eq!(code, 0, "{receipt}");
    let file = of.path("receipt.json");
    fs::write(&file, &receipt).unwrap();
    let key = of.path("log.pem.pub");
    let keys = ["--public-key", key.to_str().unwrap(), "--witness-key", &of.first.key, "--witness-key", &of.second.key];
    let check = |file: &Path, more: &[&str]| {
        run(&[&["audit", "check-receipt", file.to_str().unwrap()][..], &keys, more].concat())
    };
    let (code, text) = check(&file, &[]);
    assert!(code == 0 && text.contains("kept") && text.contains("executed") && text.contains("proved:"), "{text}");
    let (code, text) = check(&file, &["--output", "json"]);
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &told["proved"]), (0, &true.into()));
    // A changed receipt proves nothing.
    let value: Value = serde_json::from_str(&receipt).unwrap();
    let changed = of.path("changed.json");
    for (from, to) in [("executed", "rejected"), ("\"index\":1", "\"index\":2"), ("\"salt\":\"", "\"salt\":\"0")] {
        let text = value.to_string().replacen(from, to, 1);
        assert_ne!(text, value.to_string(), "{from}");
        fs::write(&changed, text).unwrap();
        let (code, text) = check(&changed, &[]);
        assert!(
            (code == 3 && text.contains("proves nothing")) || (code == 1 && text.contains("not a receipt")),
            "{text}"
        );
    }
    let third = Witness::start(of.home.path(), "w3.example", &key);
    let (code, text) = check(&file, &["--witness-key", &third.key]);
    assert!(code == 3 && text.contains("not every given witness signed"), "{text}");
    let third_too = ["--witness-key", &third.key];
    let (code, text) = check(&file, &[&third_too[..], &["--witnessed", "2"]].concat());
    assert!(code == 0 && text.contains("proved:"), "{text}");
    let (code, text) = check(&file, &[&third_too[..], &["--witnessed", "3"]].concat());
    assert!(code == 3 && text.contains("fewer of the given witnesses"), "{text}");
    let (code, text) = check(&file, &["--witnessed", "3"]);
    assert!(code == 1 && text.contains("as many different"), "{text}");
    let (code, text) = run(&["audit", "receipt", folder.to_str().unwrap(), "--request-id", "nobody-s"]);
    assert!(code == 1 && text.contains("no matching entries"), "{text}");
}
