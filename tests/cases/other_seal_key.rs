//! A gate whose seal key was replaced by another secret under the same id, as when files are mixed up.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::claims::{swap, told};
use super::doctor::{findings, json as doctor};
use super::nodes::setup as on_redis;
use crate::support::gate::sluice;
use crate::support::{Call, Gate, Redis, Setup, Upstream};

const TELLS: &str = "the key with the id `1` is another one";
const EXECUTED: &str = "200 - executed";
const AGAIN: &str = "200 - executed again";

fn keyed(setup: Setup, digit: &str) -> Setup {
    setup.set("store", "seal_key", &digit.repeat(32))
}

/// Returns every file that counts, with its bytes.
fn files(setup: &Setup) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for folder in ["sluice-data", "sluice-audit"] {
        for path in fs::read_dir(setup.path(folder)).into_iter().flatten().map(|entry| entry.unwrap().path()) {
            if path.is_file() {
                found.insert(path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn is_refused(setup: Setup) -> Setup {
    let before = files(&setup);
    let gate = Gate::spawn(setup);
    assert_eq!(gate.wait_end().code(), Some(1), "{}", gate.stderr());
    let said = gate.stderr();
    assert!(said.contains(TELLS) && said.contains("nothing was changed"), "{said}");
    assert!(!said.contains("built") && !said.contains("unfreeze"), "{said}");
    let setup = gate.kill();
    assert!(files(&setup) == before, "files were changed");
    setup
}

fn paid(gate: &Gate) -> Call {
    let call = swap();
    assert_eq!(told(&call.send(gate.production())), EXECUTED);
    call
}

fn names_the_key(setup: &Setup) {
    let (_, report) = doctor(setup);
    assert!(findings(&report).contains(TELLS), "{report}");
    let output = sluice(&["check", "--config", setup.write().to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.code() == Some(3) && text.contains(TELLS), "{text}");
}

#[test]
fn another_key_of_the_same_id_changes_nothing_and_the_right_one_finds_everything() {
    let upstream = Upstream::start();
    let gate = keyed(Setup::of(&upstream), "5e").start();
    let calls = [paid(&gate), paid(&gate)];
    let setup = is_refused(keyed(gate.end(), "6f"));
    names_the_key(&setup);
    // A lost store would be built from a journal of which nothing opens.
    let store = setup.path("sluice-data");
    fs::rename(&store, setup.path("aside")).unwrap();
    let setup = is_refused(setup);
    fs::remove_dir_all(&store).ok();
    fs::rename(setup.path("aside"), &store).unwrap();
    // Either file tells it.
    fs::rename(setup.path("sluice-audit/audit-gate.seal-keys"), setup.path("aside")).unwrap();
    let setup = is_refused(setup);
    fs::rename(setup.path("aside"), setup.path("sluice-audit/audit-gate.seal-keys")).unwrap();
    let gate = keyed(setup, "5e").start().ready();
    assert_eq!(gate.probe("/readyz/money").status, 200);
    calls.iter().for_each(|call| assert_eq!(told(&call.send(gate.production())), AGAIN));
    assert_eq!(upstream.seen().len(), 2);
}

#[test]
fn a_key_that_was_replaced_goes_on_and_its_former_one_is_known_too() {
    let upstream = Upstream::start();
    let gate = keyed(Setup::of(&upstream), "5e").start();
    let call = paid(&gate);
    let setup = keyed(gate.end(), "6f").set("store", "seal_key_id", "2");
    let former = |setup: Setup, digit: &str| {
        setup.set("store", "former_seal_key", &digit.repeat(32)).set("store", "former_seal_key_id", "1")
    };
    let setup = is_refused(former(setup, "7a"));
    let gate = former(setup, "5e").start().ready();
    assert_eq!(told(&call.send(gate.production())), AGAIN);
    // A damaged file of check values stands for nothing, and is written anew.
    let setup = gate.end();
    let names = ["sluice-data/store.seal-keys", "sluice-audit/audit-gate.seal-keys"];
    let paths = names.map(|name| setup.path(name));
    let texts = paths.each_ref().map(|path| fs::read_to_string(path).unwrap());
    paths.iter().for_each(|path: &std::path::PathBuf| fs::write(path, "{\"format\":1").unwrap());
    let gate = setup.start().ready();
    assert_eq!(told(&call.send(gate.production())), AGAIN);
    let ids = |text: &str| text.matches("\"id\"").count();
    for (path, text) in paths.iter().zip(&texts) {
        assert_eq!(ids(text), 2, "{text}");
        assert!(!text.contains(&"5e".repeat(32)), "{text}");
        assert_eq!(ids(&read(path)), 2);
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

/// What it sealed, no other gate could open.
#[test]
fn a_gate_on_a_redis_with_another_key_of_the_same_id_does_not_start() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = keyed(on_redis(&upstream, &redis.url(), "gate"), "5e").start().ready();
    let call = paid(&gate);
    let setup = is_refused(keyed(gate.end(), "6f"));
    names_the_key(&setup);
    let gate = keyed(setup, "5e").start().ready();
    assert_eq!(told(&call.send(gate.production())), AGAIN);
    assert_eq!(upstream.seen().len(), 1);
}

/// A gate that is new has no check value of its own yet.
#[test]
fn a_new_gate_with_another_key_of_the_same_id_names_it_and_takes_nothing_as_changed() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = keyed(on_redis(&upstream, &redis.url(), "gate"), "5e").start().ready();
    let call = paid(&gate);
    let other = Gate::spawn(keyed(on_redis(&upstream, &redis.url(), "gate-2"), "6f"));
    assert_eq!(other.wait_end().code(), Some(1), "{}", other.stderr());
    let said = other.stderr();
    assert!(said.contains("the key with the id `1` is another one than that of `gate`"), "{said}");
    let log = other.log.all();
    let closed = |line: &&serde_json::Value| line.to_string().contains("cannot be opened with the key");
    assert!(!log.iter().any(|line| closed(&line)), "records were taken as changed");
    // The others go on, and what was paid is known.
    assert_eq!(gate.probe("/readyz/money").status, 200);
    assert_eq!(told(&call.send(gate.production())), AGAIN);
    assert_eq!(told(&swap().send(gate.production())), EXECUTED);
    let right = keyed(other.kill(), "5e").start().ready();
    assert_eq!(told(&call.send(right.production())), AGAIN);
    assert_eq!(upstream.seen().len(), 2);
}
