//! One set and one contract in force on all gates, whatever folder, name or contract a gate comes with.

use std::fs;

use serde_json::{Value, json};

use super::{PEOPLE, ask, console, token_of};
use crate::cases::belief::write_contract;
use crate::cases::claims::{named, pay as swap, told};
use crate::cases::holds;
use crate::cases::nodes::{all_have_it, setup};
use crate::support::clock::wait_until;
use crate::support::gate::EVERYTHING;
use crate::support::{Answer, Gate, Redis, Setup, Upstream, post};

pub(super) const TIGHT: &str =
    "[[rule]]\nid = \"small\"\neffect = \"allow\"\nwhen = { op = \"createSwap\", amount = \"(0, 50] USD\" }\n";
const TIGHTER: &str =
    "[[rule]]\nid = \"small\"\neffect = \"allow\"\nwhen = { op = \"createSwap\", amount = \"(0, 40] USD\" }\n";
const LOOSE: &str =
    "[[rule]]\nid = \"small\"\neffect = \"allow\"\nwhen = { op = \"createSwap\", amount = \"(0, 100] USD\" }\n";

pub(super) fn with(setup: Setup, rules: &str) -> Setup {
    console(setup).file("policies/everything.toml", rules)
}

fn guarded(setup: Setup, rules: &str) -> Setup {
    with(setup, rules).set("", "loosening", "two-people")
}

const OTHERS_THAN_THE_FOLDER_S: &str = "the policies in force are others than those of the folder, which were proposed before: \
    change the folder to propose them again";

pub(super) fn write(gate: &Gate, text: &str) {
    fs::write(gate.path("policies/everything.toml"), text).unwrap();
}

fn shown(gate: &Gate) -> Value {
    ask(gate, "GET", "policies", &token_of(PEOPLE, "anna", &["policy-admin"]), None).json()
}

pub(super) fn version(gate: &Gate) -> String {
    shown(gate)["version"].as_str().unwrap().to_owned()
}

pub(super) fn candidate(gate: &Gate) -> String {
    let found = || shown(gate)["candidate"]["version"].as_str().map(str::to_owned);
    wait_until("a set waits", || found().is_some());
    found().unwrap()
}

fn agree(gate: &Gate, version: &str) {
    for subject in ["anna", "ben"] {
        let body = Some(json!({"reason": "the new limit of treasury"}));
        let path = format!("policies/{version}/agree");
        let answer = ask(gate, "POST", &path, &token_of(PEOPLE, subject, &["policy-admin"]), body);
        assert!(answer.status == 202 || answer.status == 200, "{answer}");
    }
}

/// Two people have the set that waits take force.
pub(in crate::cases) fn take_force(gate: &Gate) {
    let waiting = candidate(gate);
    agree(gate, &waiting);
    wait_until("the set is in force", || version(gate) == waiting);
}

pub(super) fn pay(gate: &Gate, request_id: &str, amount: &str) -> Answer {
    let body = json!({
        "requestId": request_id,
        "source": {"chain": "POLYGON", "currency": "usdc", "amount": amount},
        "destination": {"chain": "POLYGON", "currency": "usdt", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
    });
    post("/v2/wallets/swaps").json(body.to_string()).send_when_met(gate.production())
}

fn lines(gate: &Gate, message: &str) -> usize {
    gate.log.all().iter().filter(|line| line["message"] == message).count()
}

/// How often this gate put others in force.
fn times_in_force(gate: &Gate) -> usize {
    lines(gate, "policies came into force")
}

#[test]
fn no_new_or_renamed_gate_brings_a_looser_set() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let left = guarded(setup(&upstream, &redis.url(), "left"), TIGHT).start();
    // Before the first payment, too.
    let right = guarded(setup(&upstream, &redis.url(), "right"), LOOSE).start();
    assert_eq!(pay(&right, "r-1", "80").status, 403);
    assert_eq!(pay(&left, "r-2", "20").status, 200);
    assert_eq!((version(&right), shown(&right)["candidate"].clone()), (version(&left), Value::Null));

    // Under another name, and with a configuration that lets one person decide.
    let renamed = right.end().set("store", "node", "renamed").set("", "loosening", "free").start();
    assert_eq!(pay(&renamed, "r-3", "80").status, 403);
    let other = with(setup(&upstream, &redis.url(), "other"), LOOSE).start();
    assert_eq!(pay(&other, "r-4", "80").status, 403);
    // What changes there afterwards waits for two people.
    write(&other, &format!("{LOOSE}{EVERYTHING}"));
    let looser = candidate(&other);
    assert_eq!(pay(&other, "r-5", "80").status, 403);
    agree(&other, &looser);
    for gate in [&left, &renamed, &other] {
        wait_until("the set is in force", || version(gate) == looser);
    }
    assert_eq!(pay(&left, "r-6", "80").status, 200);
}

#[test]
fn deleted_files_bring_no_looser_set() {
    let upstream = Upstream::start();
    let gate = guarded(Setup::of(&upstream), TIGHT).start();
    let first = version(&gate);
    let setup = gate.end().file("policies/everything.toml", LOOSE);
    fs::remove_dir_all(setup.path("sluice-audit/policies")).unwrap();
    let gate = setup.start();
    assert_eq!((pay(&gate, "r-1", "80").status, version(&gate)), (403, first.clone()));
    // Only the file that names the set.
    let setup = gate.end();
    let files = fs::read_dir(setup.path("sluice-audit/policies")).unwrap().map(|file| file.unwrap().path());
    let names: Vec<_> = files.filter(|path| path.to_str().unwrap().contains("/in-force.")).collect();
    names.iter().for_each(|path| fs::remove_file(path).unwrap());
    assert_eq!(names.len(), 1);
    let gate = setup.file("policies/everything.toml", &format!("{LOOSE}{EVERYTHING}")).start();
    assert_eq!((pay(&gate, "r-2", "80").status, version(&gate)), (403, first));
    candidate(&gate);
}

#[test]
fn a_contract_that_binds_otherwise_waits_for_two_people() {
    let upstream = Upstream::start();
    let setup = guarded(Setup::of(&upstream), EVERYTHING);
    let schemas = setup.path("schemas");
    write_contract(&schemas, |_| {});
    let gate = setup.set("catalog", "schemas", schemas.to_str().unwrap()).start();
    let first = version(&gate);
    assert_eq!(pay(&gate, "r-1", "80").status, 200);

    // What only people read is in force at once.
    write_contract(&schemas, |document| {
        document["paths"]["/v2/wallets/swaps"]["post"]["summary"] = json!("Swap one for the other");
    });
    gate.signal("HUP");
    wait_until("the description is in force", || version(&gate) != first);
    let second = version(&gate);

    // That a 409 proves that nothing was executed is for two people to say.
    write_contract(&schemas, |document| {
        document["x-sluice"] =
            json!({"notExecuted": {"proves": [{"status": 409, "codes": ["BUSY"]}], "doesNotProve": []}});
    });
    gate.signal("HUP");
    let waiting = candidate(&gate);
    let words = shown(&gate)["candidate"]["words"].as_str().unwrap().to_owned();
    assert!(words.contains("the contract changes beyond descriptions"), "{words}");
    assert_eq!(version(&gate), second);

    // So is which fields are money.
    write_contract(&schemas, |document| {
        let notes = &mut document["paths"]["/v2/offramps"]["post"]["x-sluice"]["money"];
        notes.as_object_mut().unwrap().remove("fees").unwrap();
    });
    gate.signal("HUP");
    wait_until("the other contract waits", || candidate(&gate) != waiting);
    assert_eq!(version(&gate), second);
    let paid = pay(&gate, "r-2", "80");
    assert_eq!(paid.status, 200, "{paid}");

    // A restart changes nothing of it.
    let gate = gate.kill().start();
    wait_until("the set of the store", || version(&gate) == second);
    let waiting = candidate(&gate);
    agree(&gate, &waiting);
    wait_until("the contract is in force", || version(&gate) == waiting);
}

/// Whoever can write the folder may loosen the policies here, but not say what counts as money.
#[test]
fn a_contract_that_binds_otherwise_waits_also_where_one_person_may_loosen_the_policies() {
    let upstream = Upstream::start();
    let setup = super::console(Setup::of(&upstream).file("policies/everything.toml", EVERYTHING));
    let schemas = setup.path("schemas");
    write_contract(&schemas, |_| {});
    let gate = setup.set("catalog", "schemas", schemas.to_str().unwrap()).start();
    let first = version(&gate);
    assert_eq!(pay(&gate, "r-1", "80").status, 200);
    write_contract(&schemas, |document| {
        document["x-sluice"] =
            json!({"notExecuted": {"proves": [{"status": 409, "codes": ["BUSY"]}], "doesNotProve": []}});
    });
    gate.signal("HUP");
    let waiting = candidate(&gate);
    assert_eq!(version(&gate), first);
    let gate = gate.end().start();
    assert_eq!((version(&gate), candidate(&gate)), (first, waiting.clone()));
    take_force(&gate);
    assert_eq!(version(&gate), waiting);
}

#[test]
fn two_contracts_side_by_side_are_one() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [old, new] = ["old", "new"].map(|node| with(setup(&upstream, &redis.url(), node), EVERYTHING).start());
    // A gate hears of a set a moment before it runs it.
    let pays = |gate: &Gate, id: &str| {
        let call = swap(named(id));
        wait_until("it to run what is in force", || {
            let answer = call.send_when_met(gate.production());
            answer.code() != "POLICIES_UNAVAILABLE" && told(&answer) == "200 - executed"
        });
    };
    pays(&old, "before");
    let before = version(&old);
    // The other gate is upgraded: its contract has an operation less.
    let upgraded = new.end();
    let schemas = upgraded.path("schemas");
    write_contract(&schemas, |document| {
        document["paths"]["/v2/wallets/swaps"]["post"]["description"] = json!("Swaps.");
    });
    let new = upgraded.set("catalog", "schemas", schemas.to_str().unwrap()).start();
    wait_until("its contract is in force", || version(&new) != before);
    wait_until("the old gate runs it as well", || version(&old) == version(&new));
    for (gate, id) in [(&old, "at-old"), (&new, "at-new")] {
        pays(gate, id);
    }
    // The old gate, started again, has its own contract still, and proposes it no more.
    let old = old.end().start();
    wait_until("it has met the store", || version(&old) == version(&new));
    pays(&old, "again");
    assert_eq!(version(&old), version(&new));
}

#[test]
fn two_folders_in_a_rolling_update_do_not_take_turns() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| with(setup(&upstream, &redis.url(), node), TIGHT).start());
    assert_eq!(pay(&left, "r-1", "20").status, 200);
    let first = version(&left);
    write(&left, LOOSE);
    wait_until("the set is in force", || version(&left) != first);
    let second = version(&left);
    wait_until("the other gate has it", || version(&right) == second);
    // The other folder is as it was, also for a gate that starts again, and for one that reads it again.
    let right = right.end().start();
    right.signal("HUP");
    wait_until("its folder is read again", || lines(&right, OTHERS_THAN_THE_FOLDER_S) > 0);
    assert_eq!((version(&left), version(&right)), (second.clone(), second.clone()));
    assert_eq!([pay(&left, "r-2", "80").status, pay(&right, "r-3", "80").status], [200, 200]);
    // It comes after, with the same set: nothing changes.
    let times = times_in_force(&left);
    write(&right, LOOSE);
    wait_until("it is read", || lines(&right, "policies were reloaded: no change in meaning") > 0);
    assert_eq!((version(&left), version(&right), times_in_force(&left)), (second.clone(), second, times));
    // Going back is a change like any other.
    write(&right, TIGHT);
    for gate in [&left, &right] {
        wait_until("the former set is in force", || version(gate) == first);
    }
    assert_eq!(pay(&left, "r-4", "80").status, 403);
}

#[test]
fn a_folder_whose_set_another_gate_put_in_force_meanwhile_does_not_come_back_with_it() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| with(setup(&upstream, &redis.url(), node), TIGHT).start());
    assert_eq!(pay(&left, "r-1", "20").status, 200);
    // Both folders change while this gate is down; the other one puts the set in force.
    let (first, right) = (version(&left), right.end());
    write(&left, LOOSE);
    wait_until("the set is in force", || version(&left) != first);
    std::fs::write(right.path("policies/everything.toml"), LOOSE).unwrap();
    let (second, right) = (version(&left), right.start().ready());
    // Money goes by the set in force at once; what the console shows follows.
    assert_eq!(pay(&right, "r-2", "80").status, 200);
    wait_until("it to follow the set in force", || version(&right) == second);
    // The other gate puts a stricter one in its place; this folder stays as it is.
    write(&left, TIGHTER);
    wait_until("the stricter set is in force", || version(&left) != second && version(&right) == version(&left));
    let (third, times) = (version(&left), times_in_force(&left));
    let right = right.end().start().ready();
    wait_until("its folder is compared", || lines(&right, OTHERS_THAN_THE_FOLDER_S) > 0);
    wait_until("it to follow the set in force", || version(&right) == third);
    assert_eq!((version(&left), times_in_force(&left)), (third, times));
}

/// A gate on a Redis that holds calls until one person agrees.
pub(super) fn of_one(upstream: &Upstream, redis: &Redis, node: &str) -> Setup {
    let rules = holds::RULES.replace("approval = \"dual\"", "approval = \"one\"");
    let setup = holds::gate(upstream, &rules).set("store", "kind", "redis").set("store", "node", node);
    setup.set("redis", "url", &redis.url()).set_raw("redis", "timeout_ms", "10000")
}

/// The Redis is rebuilt from the journal of a gate that comes later, which lacks what people said meanwhile.
#[test]
fn nobody_votes_while_the_store_waits_for_the_journal_of_another_gate() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| of_one(&upstream, &redis, node).start().ready());
    let hold = holds::held(&left, "r-1");
    all_have_it(&redis);
    left.signal("STOP");
    holds::held(&right, "r-2");
    let right = right.kill();
    redis.ask(&["FLUSHALL"]);
    left.signal("CONT");
    wait_until("money to be closed", || pay(&left, "r-3", "50").code() == "FROZEN");
    for act in ["reject", "approve"] {
        let said = holds::say(&left, act, &hold, "ops-1");
        assert_eq!((said.status, said.code()), (503, "STORE_UNAVAILABLE".to_owned()), "{said}");
    }
    let right = right.start().ready();
    wait_until("money to open", || pay(&left, "r-3", "50").status == 201);
    assert_eq!(holds::say(&right, "reject", &hold, "ops-1").status, 200);
    assert_eq!(holds::state(&left, &hold), "rejected");
}

/// A gate that stood still while others agreed on stricter rules decides by those, and not by what it had.
#[test]
fn a_vote_at_a_gate_that_lags_releases_nothing_by_the_rules_of_before() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let on_redis = |node: &str| of_one(&upstream, &redis, node);
    let [lags, leads] = ["lags", "leads"].map(|node| on_redis(node).start());
    let hold = holds::held(&lags, "r-1");
    lags.signal("STOP");
    let seen = upstream.seen().len();
    write(&leads, holds::RULES);
    leads.log.wait("the stricter rules", |lines| {
        lines.iter().filter(|line| line["message"] == "policies came into force").nth(1).cloned()
    });
    lags.signal("CONT");
    let said = holds::say(&lags, "approve", &hold, "ops-1");
    assert_eq!(said.status, 200, "{said}");
    assert_eq!(pay(&lags, "r-2", "50").status, 201);
    // Whichever gate looked at it, it waits for the people of the stricter rules.
    wait_until("it waits for more people", || holds::state(&leads, &hold) == "pending");
    assert_eq!(upstream.seen().len(), seen + 1, "only the small swap was sent");
    // The vote was for the rules of before: people vote again, for what holds it now.
    holds::all_agree(&leads, &holds::shown(&leads, &hold));
    let answer = holds::answered(&leads, &holds::swap("r-1", "500"));
    assert_eq!((answer.status, upstream.seen().len()), (201, seen + 2), "{answer}");
}

#[test]
fn a_rebuilt_store_has_the_set_in_force() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let left = with(setup(&upstream, &redis.url(), "left"), LOOSE).start();
    assert_eq!(pay(&left, "r-1", "80").status, 200);
    let first = version(&left);
    write(&left, TIGHTER);
    wait_until("the set is in force", || version(&left) != first);
    let second = version(&left);
    redis.ask(&["FLUSHALL"]);
    wait_until("the store is rebuilt", || pay(&left, "r-2", "20").status == 200);
    // It has the folder of before, and takes what the journals say.
    let right = with(setup(&upstream, &redis.url(), "right"), LOOSE).start().ready();
    assert_eq!((pay(&right, "r-3", "80").status, version(&right)), (403, second));
}

/// The journal from which the Redis was rebuilt lacks the set; the awaited one has it.
#[test]
fn a_set_that_took_force_while_a_gate_stood_still_is_in_force_again_with_the_awaited_journal() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| with(setup(&upstream, &redis.url(), node), LOOSE).start().ready());
    assert_eq!(pay(&left, "r-1", "80").status, 200);
    let first = version(&left);
    all_have_it(&redis);
    left.signal("STOP");
    write(&right, TIGHT);
    wait_until("the set is in force", || version(&right) != first);
    let second = version(&right);
    assert_eq!(pay(&right, "r-2", "20").status, 200);
    let right = right.kill();
    redis.ask(&["FLUSHALL"]);
    left.signal("CONT");
    wait_until("money to be closed", || pay(&left, "r-3", "20").code() == "FROZEN");
    let right = right.start().ready();
    for gate in [&left, &right] {
        wait_until("the set is in force", || version(gate) == second);
    }
    wait_until("money to open", || pay(&left, "r-3", "20").status == 200);
    assert_eq!([pay(&left, "r-4", "80").status, pay(&right, "r-5", "80").status], [403, 403]);
    // Another loss finds it in each journal.
    redis.ask(&["FLUSHALL"]);
    wait_until("money to open", || pay(&left, "r-6", "20").status == 200);
    assert_eq!((pay(&left, "r-7", "80").status, version(&left)), (403, second));
}
