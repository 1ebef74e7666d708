//! A claim outlives its process, however that ended; and one process at a time keeps it.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{assert_again, named, pay, swap, told};
use crate::support::shape::swap_record;
use crate::support::{Act, Caller, Gate, Setup, Upstream};

const IN_DOUBT: &str = "409 OUTCOME_UNKNOWN unknown";
const REFUSED: &str = r#"{"status":"error","error":{"code":"X","message":"y"}}"#;

#[test]
fn claims_outlive_their_process() {
    let (upstream, other) = (Upstream::start(), Upstream::start());
    let gate = Setup::of(&upstream).sandbox(&other).start();
    let (paid, refused, in_doubt, elsewhere) = (swap(), swap(), swap(), swap());
    upstream.next(Act::json(201, swap_record("paid")));
    let first_paid = paid.send(gate.production());
    upstream.next(Act::json(422, REFUSED));
    let first_refused = refused.send(gate.production());
    upstream.next(Act::silence().close());
    assert_eq!(told(&in_doubt.send(gate.production())), "502 OUTCOME_UNKNOWN unknown");
    assert_eq!(told(&elsewhere.send(gate.sandbox())), "200 - executed");
    let sent = upstream.seen().len();

    let ways: [fn(Gate) -> Setup; 3] = [Gate::end, Gate::kill, Gate::kill];
    let mut gate = gate;
    for end in ways {
        gate = end(gate).start();
        assert_again(&first_paid, &paid.send(gate.production()));
        assert_again(&first_refused, &refused.send(gate.production()));
        assert_eq!(told(&in_doubt.send(gate.production())), IN_DOUBT);
        assert_eq!(told(&elsewhere.send(gate.sandbox())), "200 - executed again");
        assert_eq!((upstream.seen().len(), other.seen().len()), (sent, 1));
    }
    assert_eq!(told(&elsewhere.send(gate.production())), "200 - executed", "it was another environment's");
}

#[test]
fn an_answer_that_was_heard_is_kept_whatever_happens_next() {
    let upstream = Upstream::start();
    let mut setup = Setup::of(&upstream);
    for round in 0..5 {
        let gate = setup.start();
        let call = pay(named(&format!("round-{round}")));
        upstream.next(Act::json(201, swap_record(&round.to_string())));
        let first = call.send(gate.production());
        assert_eq!(told(&first), "201 - executed");
        let gate = gate.kill().start();
        assert_again(&first, &call.send(gate.production()));
        setup = gate.kill();
    }
    assert_eq!(upstream.seen().len(), 5);
}

#[test]
fn what_was_being_sent_when_its_process_was_killed_is_in_doubt() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let calls = [swap(), swap(), swap()];
    let mut callers = Vec::new();
    for (at, call) in calls.iter().enumerate() {
        upstream.next(Act::silence().hang());
        let mut caller = Caller::connect(gate.production());
        caller.send(call.bytes());
        upstream.wait_for(at);
        callers.push(caller);
    }
    let gate = gate.kill().start();
    for mut caller in callers {
        assert!(caller.try_answer().is_err(), "nobody was told anything");
    }
    for _ in 0..2 {
        for call in &calls {
            let answer = call.clone().header("Prefer", "wait=20").send(gate.production());
            assert_eq!(told(&answer), IN_DOUBT, "{answer}");
        }
    }
    assert_eq!(upstream.seen().len(), calls.len());
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
}

/// What cannot be read may have been paid.
#[test]
fn what_is_sealed_is_not_sent_again_without_its_key() {
    let upstream = Upstream::start();
    let (first_key, second_key) = ("11".repeat(32), "22".repeat(32));
    let gate = Setup::of(&upstream).set("store", "seal_key", &first_key).start();
    let secret = "known-to-the-owner";
    upstream.next(Act::json(201, swap_record(secret)));
    let call = pay(named("known-to-the-caller"));
    let first = call.send(gate.production());
    assert_eq!(told(&first), "201 - executed");

    let setup = gate.kill();
    for file in files(&setup.path("sluice-data")) {
        let bytes = fs::read(&file).unwrap();
        let is_there = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
        assert!(!is_there, "the answer stands in {}", file.display());
    }
    let setup = setup.set("store", "seal_key", &second_key).set("store", "seal_key_id", "2");
    let refused = Gate::spawn(setup);
    assert_eq!(refused.wait_end().code(), Some(1));
    let said = refused.stderr();
    assert!(said.contains("sealed with the key `1`, which is not configured"), "{said}");
    let setup = refused.kill();
    let gate = setup.set("store", "former_seal_key", &first_key).set("store", "former_seal_key_id", "1").start();
    assert_again(&first, &call.send(gate.production()));
    // It is sealed with the new key by now.
    let gate = gate.end().start();
    assert!(!gate.stderr().contains("built anew"), "{}", gate.stderr());
    assert_again(&first, &call.send(gate.production()));
    assert_eq!(upstream.seen().len(), 1);
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let (folders, mut files): (Vec<_>, Vec<_>) = all.partition(|path| path.is_dir());
    files.extend(folders.iter().flat_map(|folder| self::files(folder)));
    files
}

/// Ends by itself, with these words.
fn assert_refuses(setup: Setup, words: &[&str]) {
    let gate = Gate::spawn(setup);
    assert_eq!(gate.wait_end().code(), Some(1));
    let said = gate.stderr();
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(!gate.log.all().iter().any(|line| line["message"] == "listening for callers"));
}

#[test]
fn two_gates_do_not_share_a_folder() {
    let upstream = Upstream::start();
    let first = Setup::of(&upstream).start();
    let (store, audit) = (first.path("sluice-data"), first.path("sluice-audit"));
    let (store, audit) = (store.to_str().unwrap(), audit.to_str().unwrap());
    let second = || Setup::of(&upstream).set_raw("store", "wait_secs", "0");
    assert_refuses(second().set("store", "folder", store), &[store, "another process"]);
    assert_refuses(second().set("audit", "folder", audit), &[audit, "another process"]);
    // A start that waits names what it waits for.
    let waits = Setup::of(&upstream).set_raw("store", "wait_secs", "1").set("audit", "folder", audit);
    let gate = Gate::spawn(waits);
    assert_eq!(gate.wait_end().code(), Some(1));
    let all = gate.log.all();
    let waiting = |line: &&Value| line["message"].as_str().is_some_and(|text| text.starts_with("another process has"));
    let line = all.iter().find(waiting).unwrap();
    assert!(line["message"].as_str().unwrap().starts_with("another process has the audit log"), "{line}");
    assert_eq!(line["folder"], audit, "{line}");
    assert_eq!(told(&swap().send(first.production())), "200 - executed");
    first.end().start();
}

/// Somebody takes the lock file for one that was left behind, and the journal is being written.
#[test]
fn two_gates_do_not_write_one_journal_whose_lock_file_was_removed() {
    let upstream = Upstream::start();
    let first = Setup::of(&upstream).start();
    let call = swap();
    assert_eq!(told(&call.send(first.production())), "200 - executed");
    let audit = first.path("sluice-audit");
    fs::remove_file(audit.join("audit-gate.lock")).unwrap();
    let second =
        Setup::of(&upstream).set_raw("store", "wait_secs", "0").set("audit", "folder", audit.to_str().unwrap());
    assert_refuses(second, &["audit-gate-00000001.jsonl", "another process"]);
    assert_eq!(told(&swap().send(first.production())), "200 - executed");
    // The gate itself goes on after a failure, and at its next start.
    let gate = first.end().start();
    assert_eq!(told(&call.send(gate.production())), "200 - executed again");
}

#[test]
fn a_folder_that_cannot_be_written_ends_the_start() {
    let upstream = Upstream::start();
    for section in ["store", "audit"] {
        let setup = Setup::of(&upstream).file("taken", "a file, not a folder");
        let path = setup.path("taken");
        let path = path.to_str().unwrap().to_owned();
        assert_refuses(setup.set(section, "folder", &path), &[&path]);
    }
}
