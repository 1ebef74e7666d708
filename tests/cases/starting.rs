//! A start serves reads before a large store is verified, and money afterwards.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use bytes::Bytes;
use sluice::adapters::clock::SystemClock;
use sluice::adapters::store::embedded::{Embedded, Options};
use sluice::base::ids::Environment;
use sluice::ledger::{Keep, Kind, NodeId, RecordKey, Step};
use sluice::ports::Store as _;
use sluice::stations::claim::{self, Freeze, Owner};

use super::claims::{swap, told};
use super::nodes::{await_log, read, says};
use crate::support::clock::wait_until;
use crate::support::{Gate, Setup, Upstream};

/// Commits of ever larger stores, until one takes longer to verify than a read takes.
const COMMITS: [usize; 4] = [80, 240, 720, 2_160];
const RECORDS: usize = 1_000;

/// Fills the store with records of which nothing reads one.
fn fill(setup: &Setup, commits: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = setup.path("sluice-data");
    let store = Embedded::open_existing(&folder, Arc::new(SystemClock), Options::default()).unwrap();
    let (environment, node) = (Environment::Production, NodeId::parse("gate").unwrap());
    for at in 0..commits {
        let nobody = Freeze::Caller(Owner::named("main", format!("nobody-{at}")));
        let mut commit = claim::freeze(&nobody, environment, &Owner::named("main", "ann"), "a large store", &node);
        commit.steps.extend((0..RECORDS).map(|one| {
            let key = RecordKey { environment, kind: Kind::Claim, name: format!("request/of-{at}-{one}") };
            Step::Create { key, value: Bytes::from(vec![b'x'; 300]), keep: Keep::Forever }
        }));
        runtime.block_on(store.commit(commit)).unwrap();
    }
}

#[test]
fn reads_are_served_before_a_large_store_is_verified_and_money_afterwards() {
    let is_served_before = COMMITS.into_iter().any(serves_reads_before_it_verified);
    assert!(is_served_before, "no read was answered before the store was verified");
}

/// Returns whether a read was answered before the store with so many commits was verified.
fn serves_reads_before_it_verified(commits: usize) -> bool {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream).created();
    fill(&setup, commits);
    let gate = setup.start();
    assert_eq!(read(&gate).status, 200);
    let is_before = !says(&gate, "the content of the store is verified");
    assert_eq!(gate.probe("/readyz").status, 200);
    let stops = gate.probe("/readyz/money");
    assert_eq!(stops.status, 503, "{stops}");
    // Calls for money wait until it is verified. The journal is new, and the store knows earlier calls: money is closed.
    wait_until("money to be answered for", || told(&swap().send(gate.production())) == "503 FROZEN unknown");
    wait_until("the log to say so", || says(&gate, "the content of the store is verified"));
    assert!(upstream.seen().iter().all(|seen| seen.line().starts_with("GET ")), "something was sent");
    is_before
}

#[test]
fn a_gate_that_takes_plain_records_says_so_in_the_audit_log() {
    let upstream = Upstream::start();
    let journal = |gate: &Gate| {
        let files = fs::read_dir(gate.path("sluice-audit")).unwrap().map(|file| file.unwrap().path());
        files.filter_map(|file| fs::read_to_string(file).ok()).collect::<String>()
    };
    for (takes_plain, key) in [(false, true), (true, true), (true, false)] {
        let setup = Setup::of(&upstream).set_raw("store", "allow_plain", &takes_plain.to_string());
        let setup = if key { setup.set("store", "seal_key", &"5e".repeat(32)) } else { setup };
        let gate = setup.start();
        assert_eq!(told(&swap().send(gate.production())), "200 - executed");
        let is_told = || journal(&gate).contains("\"what\":\"took-plain\"");
        if takes_plain && key {
            wait_until("the journal to say so", is_told);
        }
        assert_eq!(is_told(), takes_plain && key, "{takes_plain} {key}");
    }
}

#[test]
fn a_gate_says_at_its_start_which_of_its_files_others_can_change() {
    let upstream = Upstream::start();
    let open = "it is `audit.folder`, and every user of this machine can remove or replace what the gate keeps in it";
    let gate = Setup::of(&upstream).start();
    assert!(!says(&gate, open));
    let setup = gate.end();
    fs::set_permissions(setup.path("sluice-audit"), Permissions::from_mode(0o777)).unwrap();
    let gate = setup.start();
    await_log(&gate, open);
    assert_eq!(read(&gate).status, 200);
}
