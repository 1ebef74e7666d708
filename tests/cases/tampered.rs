//! An embedded store that somebody changes while no gate serves from it.

use std::collections::BTreeMap;
use std::fs;

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};
use serde_json::Value;

use super::claims::told;
use super::doctor::{findings, json as doctor};
use super::holds::{self, held, say, state, swap, text};
use crate::support::clock::wait_until;
use crate::support::{Gate, Setup, Upstream};

const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("store");
const LIMIT: &str = "[[limit]]\nid = \"budget\"\nops = [\"createSwap\"]\nwindow = \"rolling 30d\"\nmax = \"2 calls\"\nover = \"deny\"\n";
const TELLS: &str = "somebody changed the store while no gate served from it";

type Content = BTreeMap<Vec<u8>, Vec<u8>>;
/// What somebody does, and how.
type Change<'c> = (&'c str, &'c dyn Fn(&mut Content));

fn open(setup: &Setup) -> Database {
    Database::open(setup.path("sluice-data/store.redb")).unwrap()
}

fn content(setup: &Setup) -> Content {
    let database = open(setup);
    let read = database.begin_read().unwrap();
    let table = read.open_table(TABLE).unwrap();
    table
        .iter()
        .unwrap()
        .map(|pair| pair.unwrap())
        .map(|(key, value)| (key.value().to_vec(), value.value().to_vec()))
        .collect()
}

/// Changes the file as somebody does who knows its layout and has no key.
fn change(setup: &Setup, change: impl FnOnce(&mut Content)) {
    let before = content(setup);
    let mut after = before.clone();
    change(&mut after);
    assert_ne!(before, after, "nothing was changed");
    // A database that is dropped is closed.
    let database = open(setup);
    let write = database.begin_write().unwrap();
    {
        let mut table = write.open_table(TABLE).unwrap();
        for key in before.keys().filter(|key| !after.contains_key(*key)) {
            table.remove(key.as_slice()).unwrap();
        }
        for (key, value) in after.iter().filter(|(key, value)| before.get(*key) != Some(value)) {
            table.insert(key.as_slice(), value.as_slice()).unwrap();
        }
    }
    write.commit().unwrap();
}

/// Whether a key of this table has this word in it.
fn has(key: &[u8], letter: u8, word: &str) -> bool {
    key.first() == Some(&letter) && key.windows(word.len()).any(|window| window == word.as_bytes())
}

fn setup(upstream: &Upstream, seal_key: Option<&str>) -> Setup {
    let setup = holds::gate(upstream, &format!("{}{LIMIT}", holds::RULES));
    seal_key.into_iter().fold(setup, |setup, key| setup.set("store", "seal_key", key))
}

fn pay(gate: &Gate, request_id: &str) -> String {
    told(&swap(request_id, "50").send(gate.production()))
}

/// One swap was paid, and a hold had a vote that was withdrawn. Returns the content that the store had while it stood.
fn begin(setup: Setup) -> (Setup, Value, Content) {
    let gate = setup.start();
    let hold = held(&gate, "held-1");
    assert_eq!(pay(&gate, "paid-1"), "201 - executed");
    assert_eq!(pay(&gate, "paid-2"), "201 - executed");
    assert_eq!(say(&gate, "approve", &hold, "ops-1").status, 200);
    let setup = gate.end();
    let voted = content(&setup);
    let gate = setup.start();
    assert_eq!(say(&gate, "withdraw", &hold, "ops-1").status, 200);
    (gate.end(), hold, voted)
}

#[test]
fn whatever_is_changed_the_store_is_built_anew_from_the_journal() {
    for seal_key in [None, Some("5e".repeat(32))] {
        let upstream = Upstream::start();
        let (mut setup, hold, voted) = begin(setup(&upstream, seal_key.as_deref()));
        let id = text(&hold, "id").to_owned();
        let put_back = |content: &mut Content| {
            let older = voted.iter().filter(|(key, _)| has(key, b'r', &id));
            content.extend(older.map(|(key, value)| (key.clone(), value.clone())));
        };
        let remove = |content: &mut Content| content.retain(|key, _| !has(key, b'r', "paid-1"));
        let remove_with_sum = |content: &mut Content| {
            content.retain(|key, _| !has(key, b'r', "paid-1") && key.first() != Some(&b'a'));
        };
        let plant_member = |content: &mut Content| {
            let (mut key, due) =
                content.iter().find(|(key, _)| has(key, b'm', "paid")).map(|(k, v)| (k.clone(), v.clone())).unwrap();
            let last = key.last_mut().unwrap();
            *last = if *last == b'0' { b'1' } else { b'0' };
            content.insert(key, due);
        };
        let remove_member =
            |content: &mut Content| content.retain(|key, _| !has(key, b'm', "held") && !has(key, b'd', "held"));
        let empty_windows = |content: &mut Content| content.retain(|key, _| !has(key, b's', "budget"));
        let changes: [Change<'_>; 6] = [
            ("an older record is put back", &put_back),
            ("a record is removed", &remove),
            ("a record is removed, and the sum", &remove_with_sum),
            ("a member is planted in an index", &plant_member),
            ("a member is removed from an index", &remove_member),
            ("a window is emptied", &empty_windows),
        ];
        for (what, tampering) in changes {
            change(&setup, tampering);
            assert!(findings(&doctor(&setup).1).contains(TELLS) || what.contains("the sum"), "{what}");
            let gate = setup.start();
            let logged = gate.log.all().iter().any(|line| line.to_string().contains(TELLS));
            assert!(logged, "{what}: {}", gate.stderr());
            assert_eq!(pay(&gate, "paid-1"), "201 - executed again", "{what}");
            assert_eq!(pay(&gate, "paid-3"), "403 LIMIT_EXCEEDED not-executed", "{what}");
            assert_eq!(state(&gate, &hold), "pending", "{what}");
            setup = gate.end();
        }
        // Nobody changed it now.
        let files = |setup: &Setup| {
            let names = fs::read_dir(setup.path("sluice-data")).unwrap().map(|file| file.unwrap().file_name());
            names.filter(|name| name.to_string_lossy().starts_with("store.redb")).count()
        };
        let before = files(&setup);
        let gate = setup.start();
        assert_eq!(pay(&gate, "paid-1"), "201 - executed again");
        assert_eq!(say(&gate, "approve", &hold, "ops-2").status, 200);
        assert_eq!(say(&gate, "approve", &hold, "finance-1").status, 200);
        assert_eq!((state(&gate, &hold).as_str(), holds::sent(&upstream)), ("pending", 2));
        let setup = gate.kill();
        assert_eq!(files(&setup), before);
        // Nor did a crash.
        let gate = setup.start();
        assert!(!gate.log.all().iter().any(|line| line.to_string().contains(TELLS)), "{}", gate.stderr());
    }
}

#[test]
fn a_store_whose_gate_was_killed_stays_closed_for_money_without_its_journal() {
    let upstream = Upstream::start();
    let gate = setup(&upstream, None).start();
    assert_eq!(pay(&gate, "paid-1"), "201 - executed");
    assert_eq!(pay(&gate, "paid-2"), "201 - executed");
    let setup = gate.kill();
    fs::remove_dir_all(setup.path("sluice-audit")).unwrap();
    for _ in 0..2 {
        // Who only looks takes the mark away from nobody.
        assert!(doctor(&setup).1.to_string().contains("may be in the journal alone"));
    }
    let gate = setup.start();
    wait_until("money to be closed", || gate.probe("/readyz/money").text().contains("restored"));
    for id in ["paid-1", "paid-2", "another"] {
        let said = pay(&gate, id);
        let is_remembered = ["201 - executed again", "409 OUTCOME_UNKNOWN unknown"].contains(&said.as_str());
        assert!(said == "503 FROZEN unknown" || (is_remembered && id != "another"), "{id}: {said}");
    }
    assert_eq!(holds::sent(&upstream), 2);
}

#[test]
fn a_changed_store_whose_journal_is_lost_stays_closed_for_money() {
    let upstream = Upstream::start();
    let (setup, ..) = begin(setup(&upstream, None));
    change(&setup, |content| content.retain(|key, _| !has(key, b'r', "paid-1")));
    fs::remove_dir_all(setup.path("sluice-audit")).unwrap();
    let gate = setup.start();
    wait_until("money to be closed", || gate.probe("/readyz/money").text().contains("restored"));
    assert_eq!(pay(&gate, "paid-1"), "503 FROZEN unknown");
    assert_eq!(holds::sent(&upstream), 2);
}
