//! A store that was set back, emptied or taken in from elsewhere is closed for money until somebody opens it.

use std::fs;
use std::path::Path;

use super::{ask, console, lift, operator, swap};
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::shape::{operation, valid};
use crate::support::{Answer, Gate, Setup, Upstream};

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

#[test]
fn an_emptied_store_is_noticed_by_the_chain_and_stays_closed_until_it_is_opened() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    assert_eq!(pay(&gate, "paid"), "200 - executed");
    let setup = gate.end();
    fs::rename(setup.path("sluice-data"), setup.path("away")).unwrap();

    let gate = setup.start();
    assert!(gate.log.all().iter().any(|line| {
        line["message"].as_str().is_some_and(|message| message.contains("sluice unfreeze --restored"))
    }));
    let sent = upstream.seen().len();
    for _ in 0..2 {
        assert_eq!(pay(&gate, "paid").get(..10), Some("503 FROZEN"));
    }
    assert_eq!(upstream.seen().len(), sent);
    assert_closed(&gate, "sluice serve");

    let gate = gate.end().start();
    assert_eq!(pay(&gate, "paid").get(..10), Some("503 FROZEN"), "it outlives a start");
    assert_eq!(lift(&gate, serde_json::json!("restored")).json()["changed"], true);
    assert_eq!(pay(&gate, "later"), "200 - executed");
    let gate = gate.end().start();
    assert_eq!(pay(&gate, "later"), "200 - executed", "nothing is behind any more");
    let setup = gate.end();
    let verified = verified(&setup.path("sluice-audit"));
    assert!(!verified.contains("differ") && !verified.contains("missing"), "{verified}");
    assert!(verified.contains("0 errors") || verified.contains("ok") || verified.contains("whole"), "{verified}");
}

/// The import takes the number of a call that was made after the export: the chain takes no second Entry of it, and all
/// others are brought to disk.
#[test]
fn an_import_is_closed_for_money_and_its_clash_with_the_chain_stops_nothing() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    assert_eq!(pay(&gate, "before"), "200 - executed");
    let setup = gate.end();
    let (data, export) = (text(&setup.path("sluice-data")), text(&setup.path("export")));
    store(&["export", "--folder", &data, "--output", &export]);
    let gate = setup.start();
    for request_id in ["after", "and-after"] {
        assert_eq!(pay(&gate, request_id), "200 - executed");
    }
    let setup = gate.end();
    fs::rename(setup.path("sluice-data"), setup.path("away")).unwrap();
    store(&["import", "--folder", &data, "--input", &export]);

    let gate = setup.start();
    assert_eq!(pay(&gate, "before"), "200 - executed", "what the export knew is told");
    assert_eq!(pay(&gate, "after").get(..10), Some("503 FROZEN"));
    assert_closed(&gate, "sluice serve");
    let refused = || gate.metric("sluice_audit_refused_total{environment=\"production\"}");
    wait_until("the clash to be told", || refused() == 1);
    assert_eq!(lift(&gate, serde_json::json!("restored")).json()["changed"], true);
    assert_eq!(pay(&gate, "later"), "200 - executed");
    let chain = || {
        fs::read_dir(gate.path("sluice-audit"))
            .unwrap()
            .map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap_or_default())
            .collect::<String>()
    };
    wait_until("the outcome to be on disk", || {
        let chain = chain();
        chain.lines().any(|line| line.contains("\"executed\"") && line.contains("later"))
    });
    assert_eq!(refused(), 1, "it is told once");
}
