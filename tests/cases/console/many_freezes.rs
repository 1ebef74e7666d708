//! However many callers are frozen, no freeze is without effect, and none is unseen.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use sluice::adapters::clock::SystemClock;
use sluice::adapters::store::embedded::{Embedded, Options};
use sluice::base::ids::Environment;
use sluice::ledger::{Commit, Index, Keep, Kind, NodeId, RecordKey, Step};
use sluice::ports::Store as _;

use super::policies::assert_described;
use super::{ask, console, freeze, lift, operator, swap, told};
use crate::support::clock::wait_until;
use crate::support::{Gate, Setup, Upstream, get};

/// The most freezes of callers and their reads that people may make.
const MOST: usize = 1_000;

/// Plants freezes in the store of a gate that is stopped, with their records or by their names alone.
async fn plant(setup: &Setup, names: &[String], have_records: bool) {
    let store = Embedded::open(&setup.path("sluice-data"), Arc::new(SystemClock), Options::default()).unwrap();
    let value = Bytes::from_static(br#"{"format":1,"reason":"leaked keys","by":"people/op","forgotten":null}"#);
    for part in names.chunks(500) {
        let mut steps = Vec::new();
        for name in part {
            if have_records {
                let key = RecordKey { environment: Environment::Production, kind: Kind::Freeze, name: name.clone() };
                steps.push(Step::Create { key, value: value.clone(), keep: Keep::Forever });
            }
            steps.push(Step::IndexAdd { index: Index::Frozen, member: name.clone(), due: Duration::ZERO });
        }
        let (node, entry) = (NodeId::parse("gate").unwrap(), Bytes::from_static(b"{}"));
        store.commit(Commit { environment: Environment::Production, node, steps, entry }).await.unwrap();
    }
}

fn leaked(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("caller/main/leaked-{number}")).collect()
}

fn scope_of_reads(subject: &str) -> Value {
    json!({"reads": {"issuer": "main", "subject": subject}})
}

fn reads(gate: &Gate) -> (u16, String) {
    told(&get("/v2/users").send(gate.production()))
}

fn frozen() -> (u16, String) {
    (503, "FROZEN".to_owned())
}

/// The freezes that are listed, and whether there are more.
fn listed(gate: &Gate) -> (Vec<Value>, Value) {
    let answer = ask(gate, "GET", "freezes", &operator("ops-1"), None);
    assert_described(&answer, "freezes");
    let all = answer.json();
    (all["freezes"].as_array().unwrap().iter().map(|one| one["scope"].clone()).collect(), all["more"].clone())
}

#[tokio::test]
async fn a_freeze_beyond_the_most_is_refused_and_one_of_all_never() {
    let upstream = Upstream::start();
    let setup = console(Setup::of(&upstream)).start().ready().end();
    plant(&setup, &leaked(MOST), true).await;
    let gate = setup.start().ready();
    let refused = freeze(&gate, scope_of_reads("test"));
    assert_eq!(told(&refused), (409, "TOO_MANY_FREEZES".to_owned()), "{refused}");
    assert!(refused.text().contains("1000 freezes") && refused.text().contains("lift those"), "{refused}");
    assert_eq!(freeze(&gate, json!({"caller": {"issuer": "main", "subject": "test"}})).status, 409);
    let again = freeze(&gate, json!({"caller": {"issuer": "main", "subject": "leaked-7"}}));
    assert_eq!(again.status, 201, "another reason for what is frozen: {again}");

    assert_eq!(freeze(&gate, json!("all")).status, 201);
    assert_eq!(freeze(&gate, json!({"operation": "createSwap"})).status, 201);
    let (scopes, more) = listed(&gate);
    assert_eq!((scopes.len(), &scopes[0], &more), (MOST + 2, &json!("all"), &json!(false)));
    assert_eq!(told(&swap("r-1").send(gate.production())), frozen());
    let money = || ask(&gate, "GET", "money", &operator("ops-1"), None).json();
    wait_until("the freeze of all to be told", || money()["reasons"][0]["reason"] == "frozen");
    let series = |scope: &str| gate.metric(&format!("sluice_frozen{{environment=\"production\",scope=\"{scope}\"}}"));
    wait_until("the freeze of all to be measured", || series("all") == 1);

    assert_eq!(reads(&gate).0, 200);
    assert_eq!(lift(&gate, json!({"caller": {"issuer": "main", "subject": "leaked-7"}})).status, 200);
    assert_eq!(freeze(&gate, scope_of_reads("test")).status, 201, "there is room again");
    wait_until("the reads to be frozen", || reads(&gate) == frozen());
}

/// People who freeze callers at one moment do not freeze more than there may be.
#[tokio::test]
async fn people_at_one_moment_freeze_no_more_callers_than_there_may_be() {
    let upstream = Upstream::start();
    let setup = console(Setup::of(&upstream)).start().ready().end();
    plant(&setup, &leaked(MOST - 2), true).await;
    let gate = setup.start().ready();
    let scope = |nth: usize| json!({"caller": {"issuer": "main", "subject": format!("late-{nth}")}});
    let mut said: Vec<u16> = std::thread::scope(|threads| {
        let gate = &gate;
        let all: Vec<_> = (0..8).map(|nth| threads.spawn(move || freeze(gate, scope(nth)).status)).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    said.sort_unstable();
    assert_eq!(said, [201, 201, 409, 409, 409, 409, 409, 409]);
    assert_eq!((listed(&gate).0.len(), listed(&gate).1), (MOST, json!(false)));
}

/// A journal tells all that people froze.
#[tokio::test]
async fn what_is_frozen_beyond_the_most_is_in_force_and_told() {
    let upstream = Upstream::start();
    let setup = console(Setup::of(&upstream)).start().ready().end();
    let names = leaked(MOST).into_iter().chain(["reads/main/test".to_owned(), "clock".to_owned()]);
    plant(&setup, &names.collect::<Vec<_>>(), true).await;
    let gate = setup.start();
    wait_until("the reads to be frozen", || reads(&gate) == frozen());
    let (scopes, more) = listed(&gate);
    assert_eq!((scopes.len(), &scopes[0], &more), (MOST + 1, &json!("clock"), &json!(true)));
    let money = || ask(&gate, "GET", "money", &operator("ops-1"), None).json();
    wait_until("the clock to be told", || money()["reasons"][0]["reason"] == "clock");
    let series = |scope: &str| gate.metric(&format!("sluice_frozen{{environment=\"production\",scope=\"{scope}\"}}"));
    wait_until("all to be measured", || (series("clock"), series("reads"), series("caller")) == (1, 1, MOST as u64));
}

#[tokio::test]
async fn where_more_is_frozen_than_a_gate_reads_nobody_reads_and_what_stops_money_is_told() {
    let upstream = Upstream::start();
    let setup = console(Setup::of(&upstream)).start().ready().end();
    let mut names = leaked(10 * MOST);
    names.push("all".to_owned());
    plant(&setup, &names, false).await;
    let gate = setup.start();
    wait_until("the reads of all to be frozen", || reads(&gate) == frozen());
    let money = || ask(&gate, "GET", "money", &operator("ops-1"), None).json();
    wait_until("the freeze of all to be told", || money()["reasons"][0]["reason"] == "frozen");
}
