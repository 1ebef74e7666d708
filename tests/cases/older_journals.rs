//! One gate whose journal, or whose journal and store, are older than its last payments: money closes, and nothing is paid
//! twice.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use serde_json::json;
use sluice::adapters::audit::audit_files;

use super::claims::{swap, told};
use super::console::{self, console};
use super::nodes::{EXECUTED, await_log, paid};
use crate::support::clock::wait_until;
use crate::support::{Call, Gate, Setup, Upstream, copy_folder};

const FROZEN: &str = "503 FROZEN unknown";
const AGAIN: &str = "200 - executed again";
const FOLDERS: [&str; 2] = ["sluice-audit", "sluice-data"];

fn setup(upstream: &Upstream) -> Setup {
    console(Setup::of(upstream))
}

/// Puts copies of these folders in their places.
fn put_back(setup: &Setup, folders: &[&str]) {
    for folder in folders {
        fs::remove_dir_all(setup.path(folder)).unwrap();
        copy_folder(&setup.path(&format!("copied/{folder}")), &setup.path(folder));
    }
}

fn keep_copies(gate: &Gate) {
    FOLDERS.iter().for_each(|folder| copy_folder(&gate.path(folder), &gate.path(&format!("copied/{folder}"))));
}

/// Money is closed, also for what was paid and forgotten, until two people open it.
fn is_closed_until_people_open(gate: Gate, upstream: &Upstream, forgotten: &Call, why: &str) {
    let before = upstream.posts();
    let closed = |gate: &Gate| {
        wait_until("money to be closed", || told(&swap().send(gate.production())) == FROZEN);
        await_log(gate, why);
        assert_eq!(told(&forgotten.send_when_met(gate.production())), FROZEN);
    };
    closed(&gate);
    // It stays so, whatever the gate wrote since.
    let gate = gate.kill().start();
    wait_until("money to be closed", || told(&swap().send(gate.production())) == FROZEN);
    assert_eq!(told(&forgotten.send_when_met(gate.production())), FROZEN);
    assert_eq!(upstream.posts(), before);
    assert_eq!(console::lift(&gate, json!("restored")).status, 200);
    paid(&gate);
    let gate = gate.end().start();
    assert_eq!(told(&swap().send(gate.production())), EXECUTED, "people are asked once");
}

#[test]
fn an_older_copy_of_the_journal_of_a_killed_gate_closes_money() {
    let upstream = Upstream::start();
    let gate = setup(&upstream).start().ready();
    paid(&gate);
    keep_copies(&gate);
    let forgotten = paid(&gate);
    let killed = gate.kill();
    put_back(&killed, &["sluice-audit"]);
    is_closed_until_people_open(
        killed.start(),
        &upstream,
        &forgotten,
        "the journal was cut, is an older copy, or is not the one of the last start",
    );
}

/// Whoever cuts it does not have the folder of the store.
#[test]
fn a_journal_that_was_cut_after_a_kill_closes_money() {
    let upstream = Upstream::start();
    let gate = setup(&upstream).start().ready();
    paid(&gate);
    let newest = |folder: PathBuf| audit_files(&folder).unwrap().pop().unwrap().path;
    let length = fs::metadata(newest(gate.path("sluice-audit"))).unwrap().len();
    let forgotten = paid(&gate);
    let killed = gate.kill();
    let file = OpenOptions::new().write(true).open(newest(killed.path("sluice-audit"))).unwrap();
    file.set_len(length).unwrap();
    is_closed_until_people_open(
        killed.start(),
        &upstream,
        &forgotten,
        "the journal was cut, is an older copy, or is not the one of the last start",
    );
}

#[test]
fn older_copies_of_store_and_journal_close_money() {
    let upstream = Upstream::start();
    let gate = setup(&upstream).start().ready();
    paid(&gate);
    let stopped = gate.end();
    FOLDERS.iter().for_each(|folder| copy_folder(&stopped.path(folder), &stopped.path(&format!("copied/{folder}"))));
    let gate = stopped.start();
    let forgotten = paid(&gate);
    let stopped = gate.end();
    put_back(&stopped, &FOLDERS);
    let why = "the audit folder is a copy, and whether it and the store beside it are the newest is not known";
    is_closed_until_people_open(stopped.start(), &upstream, &forgotten, why);
}

/// `cp` and other programs write over the files that are there, which keep their inodes.
#[test]
fn older_folders_that_are_put_back_over_the_newer_ones_close_money() {
    for ends_in_order in [true, false] {
        let upstream = Upstream::start();
        let gate = setup(&upstream).start().ready();
        paid(&gate);
        let mark = || fs::read(gate.path("sluice-audit/audit-gate.original")).unwrap();
        keep_copies(&gate);
        let (before, forgotten) = (mark(), paid(&gate));
        wait_until("the folder to differ from its backup", || ends_in_order || mark() != before);
        let stopped = if ends_in_order { gate.end() } else { gate.kill() };
        FOLDERS.iter().for_each(|folder| write_over(&stopped.path(&format!("copied/{folder}")), &stopped.path(folder)));
        let why = "the audit folder is a copy, and whether it and the store beside it are the newest is not known";
        is_closed_until_people_open(stopped.start(), &upstream, &forgotten, why);
    }
}

/// Writes the files of a folder over those of another one, and removes what the first lacks.
fn write_over(from: &Path, to: &Path) {
    for found in fs::read_dir(to).unwrap().map(Result::unwrap) {
        if found.file_type().unwrap().is_file() && !from.join(found.file_name()).exists() {
            fs::remove_file(found.path()).unwrap();
        }
    }
    for found in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let there = to.join(found.file_name());
        match found.file_type().unwrap().is_dir() {
            true => write_over(&found.path(), &there),
            false => drop(fs::copy(found.path(), there).unwrap()),
        }
    }
}

#[test]
fn a_store_without_its_journal_closes_money() {
    let upstream = Upstream::start();
    let gate = setup(&upstream).start().ready();
    let known = paid(&gate);
    let stopped = gate.end();
    fs::remove_dir_all(stopped.path("sluice-audit")).unwrap();
    let gate = stopped.start();
    wait_until("money to be closed", || told(&swap().send(gate.production())) == FROZEN);
    await_log(&gate, "is not the one of the last start: it is empty");
    assert_eq!(told(&known.send_when_met(gate.production())), AGAIN);
}

#[test]
fn a_journal_that_was_moved_and_one_of_a_killed_gate_open_money_by_themselves() {
    let upstream = Upstream::start();
    let gate = setup(&upstream).start().ready();
    let known = paid(&gate);
    let killed = gate.kill();
    fs::rename(killed.path("sluice-audit"), killed.path("moved")).unwrap();
    fs::rename(killed.path("moved"), killed.path("sluice-audit")).unwrap();
    let gate = killed.start();
    wait_until("the call to be known", || told(&known.send(gate.production())) == AGAIN);
    paid(&gate);
}
