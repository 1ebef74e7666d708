//! Audit files that were moved to an archive, and the snapshot that stands for them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use sluice::adapters::audit::audit_files;

use super::claims::{swap, told};
use super::nodes::{CLOSED, setup};
use super::rules::{allow, limit, swap_of};
use super::witness::{Witnessed, have_witnessed};
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::shape::fresh_id;
use crate::support::{Call, Gate, Redis, Setup, Upstream};

const EXECUTED: &str = "200 - executed";
const AGAIN: &str = "200 - executed again";
const FOLDER: &str = "sluice-audit";

/// Files end soon, although the first payment's entry has the contract; and nearly all of what is paid leaves a limit of ten million.
fn small_files(setup: Setup) -> Setup {
    let span = "window = \"rolling 24h\"\nmax = \"10000000 USD\"\nover = \"deny\"";
    let rules = allow("op = \"createSwap\"") + &limit("all", span);
    setup.set_raw("audit", "file_bytes", "131072").file("policies/everything.toml", &rules)
}

fn of(amount: &str) -> Call {
    swap_of(&fresh_id(), amount)
}

fn first_line(path: &Path) -> String {
    fs::read_to_string(path).unwrap().lines().next().unwrap_or_default().to_owned()
}

/// Pays until a header names a snapshot; returns what was paid.
fn pay_until_a_snapshot_is_named(gate: &Gate) -> Vec<Call> {
    let mut paid = Vec::new();
    let folder = gate.path(FOLDER);
    wait_until("a header to name a snapshot", || {
        let call = of("1000");
        assert_eq!(told(&call.send(gate.production())), EXECUTED);
        paid.push(call);
        first_line(&audit_files(&folder).unwrap().pop().unwrap().path).contains("\"snapshot\"")
    });
    paid
}

fn run(arguments: &[&str]) -> (i32, String) {
    let output = sluice(arguments).output().unwrap();
    let text = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

fn archive(folder: &Path) -> PathBuf {
    let to = folder.parent().unwrap().join("archive");
    let (code, text) = run(&["audit", "archive", folder.to_str().unwrap(), "--to", to.to_str().unwrap()]);
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("a rebuild needs those from"), "{text}");
    assert!(!text.contains("moved 0 files"), "{text}");
    to
}

fn verify(folders: &[&Path]) -> (i32, String) {
    let folders = folders.iter().map(|folder| folder.to_str().unwrap());
    run(&["audit", "verify"].into_iter().chain(folders).collect::<Vec<_>>())
}

fn is_again(call: &Call, gate: &Gate) {
    wait_until("what was paid to be known", || {
        let answer = told(&call.send(gate.production()));
        assert!([CLOSED, AGAIN].contains(&answer.as_str()), "{answer}");
        answer == AGAIN
    });
}

/// What was paid is known, and the limit counts it to the cent.
fn stands_as_it_stood(gate: &Gate, paid: &[Call]) {
    paid.iter().for_each(|call| is_again(call, gate));
    let left = 10_000_000 - 1_000 * paid.len();
    let more = of(&format!("{left}.01"));
    assert_eq!(told(&more.send(gate.production())), "403 LIMIT_EXCEEDED not-executed");
    assert_eq!(told(&of(&left.to_string()).send(gate.production())), EXECUTED);
}

#[test]
fn an_embedded_store_is_rebuilt_from_the_snapshot_and_the_files_behind_it() {
    let upstream = Upstream::start();
    let gate = small_files(Setup::of(&upstream)).start();
    let paid = pay_until_a_snapshot_is_named(&gate);
    let folder = gate.path(FOLDER);
    let archived = archive(&folder);
    let (code, text) = verify(&[&folder]);
    assert!(code == 0 && text.contains("are in an archive, as the manifest says"), "{text}");
    let (code, text) = verify(&[&folder, &archived]);
    assert!(code == 0 && text.contains("no finding. Whether the files are complete is not known"), "{text}");

    let stopped = gate.end();
    fs::remove_file(stopped.path("sluice-data/store.redb")).unwrap();
    let gate = stopped.start();
    stands_as_it_stood(&gate, &paid);
    let (code, text) = verify(&[&folder, &archived]);
    assert_eq!(code, 0, "{text}");
}

#[test]
fn a_redis_and_a_replica_are_rebuilt_from_the_snapshot_and_the_files_behind_it() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = small_files(setup(&upstream, &redis.url(), "left")).start().ready();
    let paid = pay_until_a_snapshot_is_named(&gate);
    archive(&gate.path(FOLDER));
    let stopped = gate.end();
    fs::remove_dir_all(stopped.path("sluice-audit/replica-left")).unwrap();
    let gate = stopped.start().ready();
    redis.ask(&["FLUSHALL"]);
    stands_as_it_stood(&gate, &paid);
}

/// A name that leads to the audit folder, or to a file of it, is no archive: the original would be the copy that stays.
#[test]
fn an_archive_that_is_the_journal_itself_removes_nothing() {
    let upstream = Upstream::start();
    let gate = small_files(Setup::of(&upstream)).start();
    pay_until_a_snapshot_is_named(&gate);
    let folder = gate.path(FOLDER);
    let _stopped = gate.end();
    let names = || audit_files(&folder).unwrap().into_iter().map(|file| file.path).collect::<Vec<_>>();
    let before = names();
    let root = folder.parent().unwrap();
    symlink(&folder, root.join("link")).unwrap();
    for same in [folder.clone(), root.join("link"), folder.join("../sluice-audit")] {
        let (code, text) = run(&["audit", "archive", folder.to_str().unwrap(), "--to", same.to_str().unwrap()]);
        assert!(code == 1 && text.contains("is the audit folder itself"), "{code} {text}");
        assert_eq!(names(), before);
    }
    let first = before[0].file_name().unwrap();
    for (of, link) in [("hard", fs::hard_link as fn(_, _) -> _), ("soft", |from: PathBuf, to| symlink(from, to))] {
        let to = root.join(of);
        fs::create_dir(&to).unwrap();
        link(before[0].clone(), to.join(first)).unwrap();
        let (code, text) = run(&["audit", "archive", folder.to_str().unwrap(), "--to", to.to_str().unwrap()]);
        assert!(code == 1 && text.contains("is the file itself"), "{code} {text}");
        assert_eq!(names(), before);
    }
    // A link in the place of an unfinished copy is not written through.
    let to = root.join("archive");
    fs::create_dir(&to).unwrap();
    let text = fs::read(&before[0]).unwrap();
    symlink(&before[0], to.join(format!("{}.new", first.to_str().unwrap()))).unwrap();
    let archived = archive(&folder);
    assert_eq!(fs::read(archived.join(first)).unwrap(), text);
    let (code, text) = verify(&[&folder, &archived]);
    assert_eq!(code, 0, "{text}");
}

/// Nobody knows what the archived files say: a person must look.
#[test]
fn a_snapshot_that_was_changed_opens_nothing() {
    let upstream = Upstream::start();
    let gate = small_files(Setup::of(&upstream)).start();
    let paid = pay_until_a_snapshot_is_named(&gate);
    let folder = gate.path(FOLDER);
    archive(&folder);
    let stopped = gate.end();
    for entry in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.extension().is_some_and(|extension| extension == "snapshot") {
            let text = fs::read_to_string(&entry).unwrap();
            fs::write(&entry, text.replacen("\"units\":", "\"units\":1", 1)).unwrap();
        }
    }
    fs::remove_file(stopped.path("sluice-data/store.redb")).unwrap();
    let gate = stopped.start();
    assert_eq!(told(&paid[0].send(gate.production())), "503 FROZEN unknown");
    assert_eq!(told(&swap().send(gate.production())), "503 FROZEN unknown");
    let to = folder.parent().unwrap().join("archive");
    let (code, text) = run(&["audit", "archive", folder.to_str().unwrap(), "--to", to.to_str().unwrap()]);
    assert!(code == 1 && text.contains("was changed"), "{text}");
    let (code, text) = verify(&[&folder]);
    assert!(code == 3 && text.contains("the snapshot was changed after it was written"), "{text}");
}

/// A manifest explains only files that it names, and that the rest follows.
#[test]
fn files_that_are_missing_without_a_manifest_or_with_another_are_found() {
    let upstream = Upstream::start();
    let gate = small_files(Setup::of(&upstream)).start();
    pay_until_a_snapshot_is_named(&gate);
    let folder = gate.path(FOLDER);
    archive(&folder);
    let _stopped = gate.end();
    let all = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let manifest = all.into_iter().find(|path| path.to_str().unwrap().ends_with(".archived.jsonl")).unwrap();
    let text = fs::read_to_string(&manifest).unwrap();
    let at = text.rfind("\"last\":\"").unwrap() + 8;
    let other = if text[at..].starts_with('0') { "1" } else { "0" };
    fs::write(&manifest, format!("{}{other}{}", &text[..at], &text[at + 1..])).unwrap();
    let (code, said) = verify(&[&folder]);
    assert!(code == 3 && said.contains("does not continue where the file before it ends"), "{said}");
    fs::remove_file(&manifest).unwrap();
    let (code, said) = verify(&[&folder]);
    assert!(code == 3 && said.contains("missing"), "{said}");
}

/// The tree stands for the lines of files that are in an archive, and an auditor sees if it was changed.
#[test]
fn a_witnessed_journal_whose_first_files_are_in_an_archive_is_verified_by_its_tree() {
    let upstream = Upstream::start();
    let mut scene = have_witnessed(small_files(Setup::of(&upstream)), &[]);
    let folder = scene.gate.path(FOLDER);
    let paid = pay_until_a_snapshot_is_named(&scene.gate);
    let is_whole = |scene: &Witnessed| {
        let (code, text) = scene.verify(&folder, &[]);
        code == 0 && text.contains("with 0 lines behind it")
    };
    wait_until("all to be witnessed", || is_whole(&scene));
    let to = archive(&folder);
    assert!(is_whole(&scene), "{:?}", scene.verify(&folder, &[]));
    assert_eq!(scene.verify(&folder, &[to.to_str().unwrap()]).0, 0);
    // The gate goes on from the tree, too.
    scene = scene.again();
    is_again(&paid[0], &scene.gate);
    let call = of("1000");
    wait_until("money to move", || told(&call.send(scene.gate.production())) == EXECUTED);
    wait_until("all to be witnessed", || is_whole(&scene));
    let request = call.request_id();
    let (code, text) = run(&["audit", "receipt", folder.to_str().unwrap(), "--request-id", &request]);
    assert!(code == 0 && text.contains("w1.example") && text.contains("w2.example"), "{text}");
    let level = folder.join("audit-gate.tree/tile/0");
    let partial = fs::read_dir(level.join("000.p")).into_iter().flatten().map(|file| file.unwrap().path());
    let width = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap();
    let tile = partial.max_by_key(width).unwrap_or(level.join("000"));
    let mut bytes = fs::read(&tile).unwrap();
    bytes[0] ^= 1;
    fs::write(&tile, bytes).unwrap();
    let (code, text) = scene.verify(&folder, &[]);
    assert!(code == 3 && text.contains("the lines up to here are not those that a checkpoint covers"), "{text}");
}
