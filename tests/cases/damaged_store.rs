//! An embedded store whose file lost bytes on its disk: the gate builds it anew from the journal, as one that was lost.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use super::claims::{swap, told};
use super::doctor::{findings, json as doctor};
use super::nodes::setup as on_redis;
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::{Call, Gate, Redis, Setup, Upstream};

const PAGE: usize = 4096;
const AGAIN: &str = "200 - executed again";
const STORE: &str = "sluice-data/store.redb";

type Files = BTreeMap<PathBuf, Vec<u8>>;

fn files(setup: &Setup) -> Files {
    let paths =
        ["sluice-data", "sluice-audit"].into_iter().flat_map(|folder| fs::read_dir(setup.path(folder)).unwrap());
    let paths = paths.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    paths.map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Puts bytes back into the same files, but for what marks the folder as the original: a copy of it opens no money.
fn restore(setup: &Setup, before: &Files) {
    let is_mark = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "original");
    for path in files(setup).keys().filter(|path| !before.contains_key(*path) && !is_mark(path)) {
        fs::remove_file(path).unwrap();
    }
    for (path, bytes) in before.iter().filter(|(path, _)| !is_mark(path)) {
        fs::write(path, bytes).unwrap();
    }
}

fn paid(setup: Setup) -> (Setup, [Call; 3]) {
    let gate = setup.start();
    let calls = [(); 3].map(|()| swap());
    calls.iter().for_each(|call| assert_eq!(told(&call.send(gate.production())), "200 - executed"));
    (gate.end(), calls)
}

/// Starts with another file; everything is known, and money is open.
fn heals(setup: Setup, calls: &[Call], what: &str) -> Setup {
    let gate = setup.start();
    for call in calls {
        assert_eq!(told(&call.send(gate.production())), AGAIN, "{what}: {}", gate.stderr());
    }
    assert_eq!(gate.probe("/readyz/money").status, 200, "{what}: {}", gate.stderr());
    let setup = gate.end();
    let gate = setup.start();
    assert_eq!(told(&calls[0].send(gate.production())), AGAIN, "{what}, at the next start");
    gate.end()
}

fn is_replaced(setup: &Setup, nth: u32) -> bool {
    setup.path(&format!("{STORE}.replaced-{nth}")).exists()
}

fn is_told_by_doctor(setup: &Setup, what: &str) {
    let (code, report) = doctor(setup);
    assert_eq!(code, 8, "{what}: {report}");
    let told = report["store"].as_str().unwrap_or_default();
    assert!(findings(&report).contains("the file of the store is damaged"), "{what}: {told}: {report}");
}

#[test]
fn whatever_page_is_lost_the_store_is_built_anew_from_the_journal() {
    let upstream = Upstream::start();
    let (mut setup, calls) = paid(Setup::of(&upstream));
    let before = files(&setup);
    let whole = fs::read(setup.path(STORE)).unwrap();
    let used: Vec<usize> =
        (0..whole.len() / PAGE).filter(|at| page(&whole, *at).iter().any(|byte| *byte != 0)).collect();
    assert!(used.len() > 10, "{used:?}");
    let mut replaced = 0;
    for at in used {
        for (how, change) in [("zeroed", zero as fn(&mut [u8])), ("scrambled", scramble)] {
            restore(&setup, &before);
            let mut damaged = whole.clone();
            change(&mut damaged[at * PAGE..(at + 1) * PAGE]);
            fs::write(setup.path(STORE), damaged).unwrap();
            setup = heals(setup, &calls, &format!("page {at} {how}"));
            replaced += u32::from(is_replaced(&setup, 1));
        }
    }
    assert!(replaced > 10, "{replaced}");
    assert_eq!(upstream.seen().len(), 3);
}

fn page(bytes: &[u8], at: usize) -> &[u8] {
    &bytes[at * PAGE..(at + 1) * PAGE]
}

fn zero(page: &mut [u8]) {
    page.fill(0);
}

fn scramble(page: &mut [u8]) {
    (10..50_u8).for_each(|at| page[usize::from(at)] ^= at.wrapping_mul(73) | 1);
}

#[test]
fn a_file_that_is_cut_or_no_store_is_built_anew_and_doctor_says_so() {
    let upstream = Upstream::start();
    let (mut setup, calls) = paid(Setup::of(&upstream).set("store", "seal_key", &"5e".repeat(32)));
    let before = files(&setup);
    let whole = fs::read(setup.path(STORE)).unwrap();
    let damages: [(&str, Vec<u8>); 4] = [
        ("cut", whole[..100_000.min(whole.len() / 2)].to_vec()),
        ("cut in its first page", whole[..1_000].to_vec()),
        ("another format", b"SQLite format 3".repeat(1_000)),
        ("a root page lost", [&whole[..PAGE], &vec![0; whole.len() - PAGE]].concat()),
    ];
    for (what, bytes) in damages {
        restore(&setup, &before);
        fs::write(setup.path(STORE), &bytes).unwrap();
        is_told_by_doctor(&setup, what);
        assert_eq!(fs::read(setup.path(STORE)).unwrap().len(), bytes.len(), "{what}: doctor changed it");
        setup = heals(setup, &calls, what);
        assert!(is_replaced(&setup, 1), "{what}");
    }
    restore(&setup, &before);
    fs::write(setup.path(STORE), [whole.as_slice(), &[7; 5_000]].concat()).unwrap();
    heals(setup, &calls, "longer");
    assert_eq!(upstream.seen().len(), 3);
}

/// A copy of nothing would take the place of a sound one.
#[test]
fn an_empty_file_is_lost_and_not_copied_and_its_gate_builds_it_anew() {
    let upstream = Upstream::start();
    let (setup, calls) = paid(Setup::of(&upstream));
    fs::write(setup.path(STORE), "").unwrap();
    let (code, report) = doctor(&setup);
    assert_eq!(code, 8, "{report}");
    assert!(report.to_string().contains("DAMAGED"), "{report}");
    assert!(findings(&report).contains("is empty: what it held is lost"), "{report}");
    for what in ["backup", "export"] {
        copies_nothing(&setup, what, "is empty: what it held is lost; start its gate, which builds the store anew");
    }
    assert_eq!(fs::read(setup.path(STORE)).unwrap(), b"");
    heals(setup, &calls, "empty");
    assert_eq!(upstream.seen().len(), 3);
}

#[test]
fn a_damaged_file_is_not_copied_and_the_remedy_is_told() {
    let upstream = Upstream::start();
    let (setup, _) = paid(Setup::of(&upstream));
    let whole = fs::read(setup.path(STORE)).unwrap();
    for at in (0..whole.len() / PAGE).filter(|at| page(&whole, *at).iter().any(|byte| *byte != 0)) {
        let mut damaged = whole.clone();
        scramble(&mut damaged[at * PAGE..(at + 1) * PAGE]);
        for what in ["backup", "export"] {
            fs::write(setup.path(STORE), &damaged).unwrap();
            let copy = setup.path("copy");
            let output = copied(&setup, what, &copy);
            if output.status.success() {
                fs::remove_file(copy).unwrap();
            } else {
                let why = String::from_utf8(output.stderr).unwrap();
                assert_eq!(output.status.code(), Some(1), "page {at}: {why}");
                assert!(!copy.exists(), "page {at}: {why}");
                let is_told = why.contains("start its gate, which builds the store anew");
                assert!(is_told || why.contains("has format"), "page {at}: {what}: {why}");
            }
        }
    }
}

fn copied(setup: &Setup, what: &str, copy: &Path) -> Output {
    let folder = setup.path("sluice-data");
    let words = ["store", what, "--folder", folder.to_str().unwrap(), "--to", copy.to_str().unwrap()];
    sluice(&words).output().unwrap()
}

fn copies_nothing(setup: &Setup, what: &str, why: &str) {
    let copy = setup.path("copy");
    let output = copied(setup, what, &copy);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains(why) && !copy.exists(), "{what}: {said}");
}

/// Nothing else is left that knows what was paid.
#[test]
fn a_damaged_store_without_a_journal_is_left_as_it_is() {
    let upstream = Upstream::start();
    let (setup, _) = paid(Setup::of(&upstream));
    fs::remove_dir_all(setup.path("sluice-audit")).unwrap();
    damage(&setup.path(STORE));
    let before = fs::read(setup.path(STORE)).unwrap();
    let gate = Gate::spawn(setup);
    assert_eq!(gate.wait_end().code(), Some(1), "{}", gate.stderr());
    assert!(gate.stderr().contains("the file of the store is damaged"), "{}", gate.stderr());
    let setup = gate.kill();
    assert!(fs::read(setup.path(STORE)).unwrap() == before && !is_replaced(&setup, 1));
}

/// The numbers of the damaged store tell that its journal is an older one: what it lacks could be paid again.
#[test]
fn a_damaged_store_that_was_ahead_of_its_journal_opens_no_money() {
    let upstream = Upstream::start();
    let (setup, _) = paid(Setup::of(&upstream));
    // Enough for pages that do not hold the numbers.
    let gate = setup.start();
    for _ in 0..30 {
        assert_eq!(told(&swap().send(gate.production())), "200 - executed");
    }
    let setup = gate.end();
    let (older, before) = (files(&setup), upstream.seen().len());
    let gate = setup.start();
    let last = swap();
    assert_eq!(told(&last.send(gate.production())), "200 - executed");
    let mut setup = gate.end();
    let ahead = fs::read(setup.path(STORE)).unwrap();
    let is_used = |at: &usize| page(&ahead, *at).iter().any(|byte| *byte != 0);
    let mut is_closed = false;
    let pages = (0..ahead.len() / PAGE).filter(is_used);
    let both = pages.flat_map(|at| [(at, scramble as fn(&mut [u8])), (at, zero)]);
    for (at, change) in both {
        restore(&setup, &older);
        let mut damaged = ahead.clone();
        change(&mut damaged[at * PAGE..(at + 1) * PAGE]);
        fs::write(setup.path(STORE), damaged).unwrap();
        let gate = setup.start();
        wait_until("the store to be verified", || is_logged(&gate, "the content of the store is verified"));
        // Where the numbers are lost as well, nothing is left that knows of the last call.
        let is_rebuilt = is_logged(&gate, "the store is built anew from the journal");
        if is_rebuilt && is_logged(&gate, "the file of the store is damaged, and the journal ends before it") {
            assert_eq!(told(&last.send(gate.production())), "503 FROZEN unknown", "page {at}");
            is_closed = true;
        }
        setup = gate.end();
        if is_closed {
            break;
        }
    }
    assert!(is_closed);
    assert_eq!(upstream.seen().len(), before + 1);
}

fn is_logged(gate: &Gate, words: &str) -> bool {
    gate.log.all().iter().any(|line| line.to_string().contains(words))
}

/// Starts that fail again and again fill no disk.
#[test]
fn a_few_replaced_files_stay() {
    let upstream = Upstream::start();
    let (mut setup, calls) = paid(Setup::of(&upstream));
    for nth in 1..=6 {
        fs::write(setup.path(STORE), format!("damage {nth}")).unwrap();
        setup = heals(setup, &calls, "text");
    }
    let left: Vec<u32> = (1..40).filter(|nth| is_replaced(&setup, *nth)).collect();
    assert_eq!(left.len(), 3, "{left:?}");
    assert_eq!(fs::read_to_string(setup.path(&format!("{STORE}.replaced-1"))).unwrap(), "damage 1");
}

/// What a gate on a Redis keeps of its journal is built anew as well.
#[test]
fn a_replica_that_is_no_store_is_built_anew() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = on_redis(&upstream, &redis.url(), "left").set_raw("store", "all_nodes", r#"["left"]"#).start().ready();
    let call = swap();
    assert_eq!(told(&call.send(gate.production())), "200 - executed");
    let setup = gate.end();
    let replica = setup.path("sluice-audit/replica-left/store.redb");
    damage(&replica);
    let gate: Gate = setup.start().ready();
    assert_eq!(told(&call.send_when_met(gate.production())), AGAIN);
    redis.ask(&["FLUSHALL"]);
    let gate = gate.end().start().ready();
    wait_until("what was paid to be known", || told(&call.send(gate.production())) == AGAIN);
    assert_eq!(upstream.seen().len(), 1);
}

fn damage(path: &Path) {
    let mut bytes = fs::read(path).unwrap();
    bytes[..PAGE].fill(0);
    fs::write(path, bytes).unwrap();
}
