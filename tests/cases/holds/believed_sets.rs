//! A gate takes a set from the store only if signatures lead to it: root on another gate, and whoever writes the store, puts none
//! in force.

use std::fs;
use std::sync::Arc;

use serde_json::json;
use sluice::adapters::store::redis::RedisStore;
use sluice::adapters::store::sealed::{Sealed, Seals};
use sluice::base::ids::Environment;
use sluice::ledger::{NodeId, Record, RecordKey};
use sluice::people::activation::{
    ActivationProof, ActiveSet, ArchivedSet, SetInForce, activate, active, archive, in_force_key,
};
use sluice::people::succession::{SetSuccession, succession_key};
use sluice::ports::Store as _;
use tokio::runtime::Runtime;

use super::signed::{Enrolled, agree, page, sign};
use super::{approver, ask, gate, held, named, person, sent, state, swap, text};
use crate::cases::claims::told;
use crate::cases::store::redis::connected;
use crate::support::clock::wait_until;
use crate::support::{Gate, Redis, Setup, Upstream};

const HERE: Environment = Environment::Production;
const ROLES: [&str; 2] = ["operator", "policy-admin"];
const REFUSED: &str = "503 POLICIES_UNAVAILABLE unknown";

/// Small swaps up to so much go without people.
fn rules(people: &Enrolled, small: u64) -> String {
    let rules = people.rules().replace("[signing]\n", "[signing]\nacts = [\"activation\"]\n");
    let changed = rules.replace("amount = \"(0, 100] USD\"", &format!("amount = \"(0, {small}] USD\""));
    assert!(small == 100 || changed != rules);
    changed
}

fn on_redis(upstream: &Upstream, redis: &Redis, node: &str, rules: &str) -> Setup {
    let setup = gate(upstream, rules).set("store", "kind", "redis").set("store", "node", node);
    setup.set("redis", "url", &redis.url()).set_raw("redis", "timeout_ms", "10000")
}

fn version(gate: &Gate) -> String {
    text(&ask(gate, "GET", "policies", &person("ops-1", &ROLES), None).json(), "version").to_owned()
}

fn is_not_run(gate: &Gate) {
    wait_until("the set to be refused", || gate.metric("sluice_policy_not_run") == 1);
}

fn pays(gate: &Gate, request: &str) -> String {
    told(&swap(request, "50").send(gate.production()))
}

fn says(gate: &Gate, words: &str) {
    wait_until(words, || gate.log.all().iter().any(|line| line.to_string().contains(words)));
}

/// Two people sign that the set in the folder of a gate takes force.
fn sign_in(gate: &Gate, people: &Enrolled, rules: &str) -> String {
    fs::write(gate.path("policies/everything.toml"), rules).unwrap();
    let waits = || ask(gate, "GET", "policies", &person("ops-1", &ROLES), None).json()["candidate"]["version"].clone();
    wait_until("a set waits", || waits().is_string());
    let next = waits().as_str().unwrap().to_owned();
    let path = format!("policies/{next}/agree");
    for who in ["ops-1", "ops-2"] {
        let asked = ask(gate, "POST", &format!("{path}/challenge"), &person(who, &ROLES), None);
        assert_eq!(asked.status, 200, "{asked}");
        let body = json!({ "reason": "looked", "signature": sign(people.key(who), &asked.json(), &page()) });
        let said = ask(gate, "POST", &path, &person(who, &ROLES), Some(body));
        assert!([200, 202].contains(&said.status), "{said}");
    }
    wait_until("it to take force", || version(gate) == next);
    next
}

/// Whoever writes the store as a gate does, and verifies nothing.
struct StoreWriter {
    runtime: Runtime,
    store: Sealed,
}

impl StoreWriter {
    fn of(redis: &Redis) -> StoreWriter {
        let runtime = Runtime::new().unwrap();
        let store = RedisStore::new(runtime.block_on(connected(&redis.url())));
        StoreWriter { runtime, store: Sealed::new(Arc::new(store), Seals::new(Vec::new())) }
    }

    fn read(&self, key: &RecordKey) -> Option<Record> {
        self.runtime.block_on(self.store.read(key)).unwrap().0
    }

    fn active(&self) -> ActiveSet {
        active(&self.read(&in_force_key(HERE)).unwrap()).unwrap()
    }

    fn proof(&self, nth: u64) -> Option<ActivationProof> {
        SetSuccession::read(&self.read(&succession_key(HERE, nth)).unwrap()).unwrap().0.proof()
    }

    fn put_in_force(&self, version: &str, rules: &str, proof: Option<&ActivationProof>, tells: bool) {
        let before = self.active();
        let successions = before.set.successions + 1;
        let contract = before.set.contract.clone();
        let next =
            SetInForce { version: version.to_owned(), contract: contract.clone(), two_people: false, successions };
        let mut steps = Vec::new();
        let archived = sluice::people::activation::archived_key(HERE, version);
        if self.read(&archived).is_none() {
            let texts = [("everything.toml".to_owned(), rules.to_owned())].into();
            steps.push(archive(HERE, version, &ArchivedSet { texts, contract }));
        }
        if tells {
            let key = succession_key(HERE, successions);
            let there = self.read(&key).map(|record| record.version);
            steps.push(SetSuccession::new((before.set.version.as_str(), version), proof).write(key, there));
        }
        let from = before.set.version.as_str();
        let node = NodeId::parse("left").unwrap();
        let commit = activate(HERE, (Some(&before), from), &next, steps, (None, proof), &node);
        self.runtime.block_on(self.store.commit(commit)).unwrap();
    }
}

/// The version of rules, as a gate of its own has them.
fn version_of(upstream: &Upstream, rules: &str) -> String {
    version(&gate(upstream, rules).start())
}

#[test]
fn no_gate_takes_a_set_that_nobody_signed() {
    let (upstream, redis, elsewhere) = (Upstream::start(), Redis::start_kept(), Upstream::start());
    let (people, thieves) = (Enrolled::new(), Enrolled::new());
    let start = |node: &str| on_redis(&upstream, &redis, node, &rules(&people, 100)).start().ready();
    let [left, right] = ["left", "right"].map(start);
    let root = version(&left);
    assert_eq!(pays(&left, "b-1"), "201 - executed");
    let hold = held(&right, "b-2");
    let paid = sent(&upstream);

    // The same people with keys of a thief.
    let evil_rules = rules(&thieves, 100);
    let evil = version_of(&elsewhere, &evil_rules);
    let writer = StoreWriter::of(&redis);
    writer.put_in_force(&evil, &evil_rules, None, false);
    for gate in [&left, &right] {
        is_not_run(gate);
        assert_eq!(version(gate), root);
    }
    assert_eq!(pays(&left, "b-3"), REFUSED);
    says(&left, "name it as `policies_root`");
    says(&left, "no succession of sets");
    let probe = right.probe("/readyz/money");
    assert!(probe.text().contains("policies-not-run"), "{probe}");
    // A thief's signature does not count by the set that runs here.
    let asked = ask(&right, "POST", &format!("holds/{}/challenge", text(&hold, "id")), &approver("ops-1"), {
        Some(named(&hold, "approve"))
    });
    if asked.status == 200 {
        let mut body = named(&hold, "approve");
        body["signature"] = sign(thieves.key("ops-1"), &asked.json(), &page());
        body["signature"]["credential"] = json!(thieves.key("ops-1").credential);
        let voted =
            ask(&right, "POST", &format!("holds/{}/approve", text(&hold, "id")), &approver("ops-1"), Some(body));
        assert_eq!(voted.status, 403, "{voted}");
    }
    // With a succession that has no signature, after a restart too.
    writer.put_in_force(&root, "", None, true);
    for gate in [&left, &right] {
        wait_until("the set of before", || gate.metric("sluice_policy_not_run") == 0);
    }
    writer.put_in_force(&evil, &evil_rules, None, true);
    is_not_run(&left);
    says(&left, "nobody signed that version");
    let right = right.end().start();
    is_not_run(&right);
    assert_eq!((version(&right), pays(&right, "b-4").as_str()), (root.clone(), REFUSED));
    // A gate that is new and has the folder of before.
    let third = on_redis(&upstream, &redis, "third", &rules(&people, 100)).start();
    is_not_run(&third);
    assert_eq!(pays(&third, "b-5"), REFUSED);
    assert_eq!((state(&left, &hold).as_str(), sent(&upstream)), ("pending", paid));

    // People find it out, and name the set that they vouch for at one gate.
    let left = left.end().set("", "policies_root", &root).start();
    for gate in [&left, &right] {
        wait_until("the set of before", || gate.metric("sluice_policy_not_run") == 0);
    }
    assert_eq!((version(&left), writer.active().set.version), (root.clone(), root.clone()));
    says(&left, "the policies that the configuration vouches for are in force again");
    assert_eq!(pays(&left, "b-6"), "201 - executed");
    for who in ["ops-1", "finance-1"] {
        assert_eq!(agree(&right, &people, &hold, who).status, 200);
    }
    wait_until("the hold to be sent", || sent(&upstream) == paid + 2);
    // The gate does so once: a later set is refused again.
    writer.put_in_force(&evil, &evil_rules, None, true);
    is_not_run(&left);
    let left = left.end().start();
    is_not_run(&left);
    assert_eq!(writer.active().set.version, evil);
}

#[test]
fn signatures_lead_a_gate_to_the_set_in_force_and_count_once() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let people = Enrolled::new();
    let [first_rules, second_rules, third_rules] = [100, 90, 80].map(|small| rules(&people, small));
    let start = |node: &str, rules: &str| on_redis(&upstream, &redis, node, rules).start();
    let left = start("left", &first_rules).ready();
    let right = start("right", &first_rules).ready();
    let first = version(&left);
    assert_eq!(pays(&left, "c-1"), "201 - executed");
    let second = sign_in(&left, &people, &second_rules);
    wait_until("the other gate to follow", || version(&right) == second);
    // Two successions that a gate missed.
    let right = right.end();
    assert_eq!(sign_in(&left, &people, &first_rules), first);
    let third = sign_in(&left, &people, &third_rules);
    let right = right.start();
    wait_until("the other gate to follow", || version(&right) == third);
    assert_eq!((right.metric("sluice_policy_not_run"), pays(&right, "c-2").as_str()), (0, "201 - executed"));
    // A new gate with the folder of the beginning; one with another folder needs to be told from where.
    let new = start("new", &first_rules);
    wait_until("the new gate to follow", || version(&new) == third);
    let other = start("other", &rules(&people, 70));
    is_not_run(&other);
    assert_eq!(pays(&other, "c-3"), REFUSED);
    let other = other.end().set("", "policies_root", &first).start();
    wait_until("the other gate to follow", || version(&other) == third);
    assert_eq!((other.metric("sluice_policy_not_run"), pays(&other, "c-4").as_str()), (0, "201 - executed"));

    // Signatures of then count no more, nor does a set of before without any, also where the configuration names it.
    let writer = StoreWriter::of(&redis);
    assert_eq!(sign_in(&left, &people, &first_rules), first);
    // One that begins only now, and runs this set at once.
    let late = start("late", &first_rules).ready();
    for gate in [&right, &new, &other, &late] {
        wait_until("the gates to follow", || version(gate) == first);
    }
    let replayed = writer.proof(1);
    assert!(replayed.is_some());
    writer.put_in_force(&second, &second_rules, replayed.as_ref(), true);
    for gate in [&left, &right, &new, &other, &late] {
        is_not_run(gate);
    }
    drop(late);
    says(&left, "0 of 2 people signed");
    writer.put_in_force(&first, "", None, true);
    let fourth = sign_in_again(&left, &people, &second_rules);
    for gate in [&right, &new, &other] {
        wait_until("the gates to follow", || version(gate) == fourth);
    }
    writer.put_in_force(&first, "", None, true);
    for gate in [left, right, new, other] {
        is_not_run(&gate);
        let gate = gate.end().start();
        is_not_run(&gate);
        assert_eq!(version(&gate), fourth);
    }
}

/// The gate takes the store's set again first.
fn sign_in_again(gate: &Gate, people: &Enrolled, rules: &str) -> String {
    wait_until("the set of before", || gate.metric("sluice_policy_not_run") == 0);
    sign_in(gate, people, rules)
}
