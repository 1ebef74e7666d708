//! An embedded store that was lost or set back is built from the journal; money stays closed if that is not whole.

use std::fs;
use std::path::Path;

use serde_json::json;
use sluice::adapters::audit::audit_files;

use super::{ask, console, freeze, in_doubt, lift, operator, swap};
use crate::cases::rules::{allow, limit, ruled, swap_of};
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::shape::{operation, valid};
use crate::support::{Act, Answer, Gate, Setup, Upstream};

fn told(answer: &Answer) -> String {
    format!("{} {} {}", answer.status, answer.code(), answer.outcome())
}

fn pay(gate: &Gate, request_id: &str) -> String {
    told(&swap(request_id).send(gate.production()))
}

fn store(arguments: &[&str]) {
    let output = sluice(&[&["store"], arguments].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}

/// Nothing but reads, and its reason among what is frozen.
fn assert_closed(gate: &Gate, by: &str) {
    assert_eq!(told(&swap("new").send(gate.production())).get(..10), Some("503 FROZEN"));
    assert_eq!(valid(operation("listUsers")).send(gate.production()).status, 200, "reads go on");
    let frozen = ask(gate, "GET", "freezes", &operator("ops-1"), None).json();
    assert_eq!((&frozen["freezes"][0]["scope"], &frozen["freezes"][0]["by"]), (&"restored".into(), &by.into()));
}

fn verified(folder: &Path) -> String {
    let output = sluice(&["audit", "verify", &text(folder)]).output().unwrap();
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn lines(folder: &Path) -> Vec<String> {
    let file = audit_files(folder).unwrap().pop().unwrap().path;
    fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
}

fn is_told(gate: &Gate, part: &str) -> bool {
    gate.log.all().iter().any(|line| line.to_string().contains(part))
}

/// Waits for it: a line of the log is written a moment after what it tells.
fn await_told(gate: &Gate, part: &str) {
    wait_until("it to be told", || is_told(gate, part));
}

#[test]
fn a_lost_store_is_built_from_the_journal_and_pays_nothing_twice() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    assert_eq!(pay(&gate, "paid"), "200 - executed");
    in_doubt(&gate, &upstream, "doubt");
    assert_eq!(freeze(&gate, json!({"operation": "createSwap"})).status, 201);
    let setup = gate.end();
    fs::remove_dir_all(setup.path("sluice-data")).unwrap();

    let gate = setup.start();
    await_told(&gate, "the store was built from the journal");
    let sent = upstream.seen().len();
    assert_eq!(pay(&gate, "paid"), "200 - executed");
    assert_eq!(pay(&gate, "doubt"), "409 OUTCOME_UNKNOWN unknown");
    assert_eq!(pay(&gate, "new").get(..10), Some("503 FROZEN"), "a freeze stands");
    assert_eq!(lift(&gate, json!({"operation": "createSwap"})).json()["changed"], true);
    assert_eq!(upstream.seen().len(), sent);
    assert_eq!(pay(&gate, "later"), "200 - executed");
    let setup = gate.end();
    let verified = verified(&setup.path("sluice-audit"));
    assert!(verified.contains("no finding. Whether the files are complete is not known"), "{verified}");
    let gate = setup.start();
    assert!(!is_told(&gate, "built from the journal"), "once");
    assert_eq!(pay(&gate, "later"), "200 - executed");
}

#[test]
fn windows_stand_as_they_stood_after_the_store_was_lost() {
    let upstream = Upstream::start();
    let hundred = "window = \"rolling 24h\"\nmax = \"100 USD\"\nover = \"deny\"";
    let rules = allow("op = \"createSwap\"") + &limit("hundred", hundred);
    let gate = ruled(&upstream, &rules).timeout_ms("answer_ms", 300).start();
    assert_eq!(told(&swap_of("a", "40").send(gate.production())), "200 - executed");
    upstream.next(Act::silence());
    assert_eq!(told(&swap_of("b", "30").send(gate.production())), "504 OUTCOME_UNKNOWN unknown");
    upstream.next(Act::json(400, r#"{"code":400,"error":"X","errorDetails":"y"}"#));
    assert_eq!(swap_of("c", "20").send(gate.production()).outcome(), "not-executed");
    let setup = gate.end();
    fs::remove_dir_all(setup.path("sluice-data")).unwrap();

    let gate = setup.start();
    assert_eq!(told(&swap_of("d", "30.01").send(gate.production())), "403 LIMIT_EXCEEDED not-executed");
    assert_eq!(told(&swap_of("e", "30").send(gate.production())), "200 - executed");
    assert_eq!(told(&swap_of("f", "0.01").send(gate.production())), "403 LIMIT_EXCEEDED not-executed");
}

#[test]
fn an_older_store_beside_a_newer_journal_is_built_anew() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    assert_eq!(pay(&gate, "before"), "200 - executed");
    let setup = gate.end();
    let (data, export) = (text(&setup.path("sluice-data")), text(&setup.path("export")));
    store(&["export", "--folder", &data, "--to", &export]);
    let gate = setup.start();
    for request_id in ["after", "and-after"] {
        assert_eq!(pay(&gate, request_id), "200 - executed");
    }
    let setup = gate.end();
    fs::rename(setup.path("sluice-data"), setup.path("away")).unwrap();
    store(&["import", "--folder", &data, "--input", &export]);

    let gate = setup.start();
    let sent = upstream.seen().len();
    for request_id in ["before", "after", "and-after"] {
        assert_eq!(pay(&gate, request_id), "200 - executed");
    }
    assert_eq!(upstream.seen().len(), sent);
    assert_eq!(pay(&gate, "later"), "200 - executed");
    assert_eq!(gate.metric("sluice_audit_refused_total{environment=\"production\"}"), 0);
}

#[test]
fn a_journal_that_was_cut_closes_money_until_somebody_opens_it() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    for request_id in ["a", "b"] {
        assert_eq!(pay(&gate, request_id), "200 - executed");
    }
    let setup = gate.end();
    let folder = setup.path("sluice-audit");
    let (file, lines) = (audit_files(&folder).unwrap().pop().unwrap().path, lines(&folder));
    fs::write(&file, lines[..lines.len() - 2].join("\n") + "\n").unwrap();

    let gate = setup.start();
    await_told(&gate, "the journal was cut");
    assert_closed(&gate, "sluice serve");
    assert_eq!(pay(&gate, "a"), "200 - executed", "what the store knows is told");
    let gate = gate.end().start();
    assert_closed(&gate, "sluice serve");
    assert_eq!(lift(&gate, json!("restored")).json()["changed"], true);
    assert_eq!(pay(&gate, "later"), "200 - executed");
}

/// Neither a store nor a journal that lacks what was before can prove what was paid.
#[test]
fn a_rebuild_that_is_not_whole_stays_closed() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    assert_eq!(pay(&gate, "first"), "200 - executed");
    let setup = gate.end();
    fs::rename(setup.path("sluice-audit"), setup.path("away")).unwrap();
    let gate = setup.start();
    await_told(&gate, "is not the one of the last start: it is empty");
    assert_closed(&gate, "sluice serve");
    assert_eq!(lift(&gate, json!("restored")).status, 200);
    assert_eq!(pay(&gate, "second"), "200 - executed", "people found that the store is whole");
    let setup = gate.end();
    fs::remove_dir_all(setup.path("sluice-data")).unwrap();

    let gate = setup.start();
    await_told(&gate, "are missing in the journal");
    assert_closed(&gate, "sluice serve");
    assert_eq!(pay(&gate, "second"), "200 - executed", "what the journal knows is told");
    assert_eq!(pay(&gate, "first").get(..10), Some("503 FROZEN"));
}
