//! Freezing works at once, for what has not begun, and nothing else.

use std::fs;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use sluice::adapters::clock::SystemClock;
use sluice::adapters::store::embedded::{Embedded, Options};
use sluice::base::ids::Environment;
use sluice::ledger::{Commit, Index, Keep, Kind, NodeId, RecordKey, Step};
use sluice::ports::Store as _;

use super::policies::assert_described;
use super::{ISSUER, ask, audited, body, console, freeze, lift, operator, say_lift, swap, token_of, told};
use crate::cases::nodes;
use crate::support::clock::wait_until;
use crate::support::shape::{operation, path, valid};
use crate::support::token::{claims, signed};
use crate::support::{Answer, Call, Gate, Redis, Setup, Upstream, get, post};

fn offramp(request_id: &str) -> Call {
    post("/v2/offramps").json(body("createOfframp", request_id).to_string())
}

fn cancel() -> Call {
    valid(operation("cancelSwap"))
}

fn is_frozen(answer: &Answer) -> bool {
    is_frozen_as(answer, "not-executed")
}

fn is_frozen_as(answer: &Answer, outcome: &str) -> bool {
    let frozen = told(answer) == (503, "FROZEN".to_owned());
    assert!(frozen || answer.status == 200, "{answer}");
    assert!(!frozen || (answer.outcome() == outcome && answer.header("retry-after").is_some()), "{answer}");
    frozen
}

fn send(gate: &Gate, call: &Call) -> bool {
    is_frozen(&call.send(gate.production()))
}

#[test]
fn an_environment_is_frozen_for_new_money_alone() {
    let (upstream, sandbox) = (Upstream::start(), Upstream::start());
    let gate = console(Setup::of(&upstream).sandbox(&sandbox)).start();
    assert!(!send(&gate, &swap("before")));

    let answer = freeze(&gate, json!("all"));
    assert_eq!((answer.status, &answer.json()["changed"]), (201, &json!(true)));
    let seen = upstream.seen().len();
    assert!(send(&gate, &swap("during")) && send(&gate, &offramp("during-2")));
    assert_eq!(upstream.seen().len(), seen, "what is frozen reaches nobody");
    let replay = swap("before").send(gate.production());
    assert_eq!((replay.status, replay.header("sluice-replayed").as_deref()), (200, Some("true")));
    let reused = swap("before").without("Authorization");
    let other = format!("Bearer {}", token_of(ISSUER, "somebody-else", &[]));
    assert_eq!(reused.header("Authorization", other).send(gate.production()).code(), "REQUEST_ID_REUSED");
    assert_eq!(get("/v2/users").send(gate.production()).status, 200);
    assert!(!send(&gate, &cancel()), "a change moves no money");
    assert_eq!(swap("elsewhere").send(gate.sandbox()).status, 200);

    assert_eq!(lift(&gate, json!("all")).json(), json!({"changed": true, "missing": 0}));
    assert!(!send(&gate, &swap("during")), "the refused requestId is free");
    audited(&gate, &[("/what", json!("frozen")), ("/by/subject", json!("ops-1")), ("/reason", json!("a drill"))]);
    audited(&gate, &[("/what", json!("unfrozen")), ("/freeze", json!("all")), ("/by/issuer", json!("people"))]);
}

#[test]
fn a_freeze_of_production_is_lifted_by_two_people_and_one_of_the_sandbox_by_one() {
    let (upstream, sandbox) = (Upstream::start(), Upstream::start());
    let gate = console(Setup::of(&upstream).sandbox(&sandbox)).start();
    for scope in
        [json!("all"), json!({"operation": "createSwap"}), json!({"caller": {"issuer": "main", "subject": "test"}})]
    {
        assert_eq!(freeze(&gate, scope.clone()).status, 201);
        let first = say_lift(&gate, scope.clone(), "ops-1");
        assert_eq!((first.status, first.json()), (202, json!({"changed": false, "missing": 1})));
        for same in ["ops-1", "OPS-1"] {
            assert_eq!(told(&say_lift(&gate, scope.clone(), same)), (409, "TWO_PEOPLE_NEEDED".to_owned()), "{same}");
        }
        let listed = ask(&gate, "GET", "freezes", &operator("ops-2"), None).json();
        assert_eq!(listed["freezes"][0]["saidUnfrozen"], "people/ops-1");
        assert!(send(&gate, &swap("between")), "one word is none");
        assert_eq!(say_lift(&gate, scope, "ops-2").json(), json!({"changed": true, "missing": 0}));
    }
    let entry = audited(&gate, &[("/what", json!("unfrozen")), ("/freeze", json!("all"))]);
    assert_eq!(
        (&entry["saidBy"], &entry["by"]["subject"]),
        (&json!(["people/ops-1", "people/ops-2"]), &json!("ops-2"))
    );
    audited(
        &gate,
        &[("/what", json!("said-unfrozen")), ("/freeze", json!("all")), ("/saidBy", json!(["people/ops-1"]))],
    );
    // A word is for one freeze: what is frozen anew takes two again.
    assert_eq!(freeze(&gate, json!("all")).status, 201);
    assert_eq!(say_lift(&gate, json!("all"), "ops-1").status, 202);
    assert_eq!(say_lift(&gate, json!("all"), "ops-3").status, 200);
    assert_eq!(freeze(&gate, json!("all")).status, 201);
    assert_eq!(say_lift(&gate, json!("all"), "ops-2").status, 202);
    let body = |path: &str| {
        let body = json!({"environment": "sandbox", "scope": "all", "reason": "a drill"});
        ask(&gate, "POST", path, &operator("ops-1"), Some(body))
    };
    assert_eq!((body("freezes").status, body("freezes/lift").json()["changed"].clone()), (201, json!(true)));
}

/// Whoever is frozen, under whatever issuer, and whoever owns a frozen service, leaves the lift to others.
#[test]
fn whoever_is_frozen_has_no_word_on_the_lift() {
    let (upstream, sandbox) = (Upstream::start(), Upstream::start());
    let setup = console(Setup::of(&upstream).sandbox(&sandbox));
    let gate = setup.set_raw("console", "owners", r#"["main:test=ops-9"]"#).start();
    for (scope, own) in [
        (json!({"caller": {"issuer": "main", "subject": "ops-1"}}), ["ops-1", "OPS-1"]),
        (json!({"caller": {"issuer": "main", "subject": "test"}}), ["ops-9", "Ops-9"]),
        (json!({"reads": {"issuer": "main", "subject": "test"}}), ["ops-9", "\u{ff4f}ps-9"]),
    ] {
        assert_eq!(freeze(&gate, scope.clone()).status, 201);
        for who in own {
            let refused = say_lift(&gate, scope.clone(), who);
            assert_eq!(told(&refused), (403, "FORBIDDEN".to_owned()), "{who}: {refused}");
        }
        assert_eq!(say_lift(&gate, scope.clone(), "ops-2").status, 202, "the refused word was none");
        assert_eq!(told(&say_lift(&gate, scope.clone(), own[0])).0, 403);
        assert_eq!(say_lift(&gate, scope.clone(), "ops-3").json(), json!({"changed": true, "missing": 0}));
        let body = json!({"environment": "sandbox", "scope": scope, "reason": "a drill"});
        let at = |path: &str, who: &str| ask(&gate, "POST", path, &operator(who), Some(body.clone())).status;
        assert_eq!((at("freezes", own[0]), at("freezes/lift", own[0]), at("freezes/lift", "ops-2")), (201, 403, 200));
    }
    assert_eq!(freeze(&gate, json!("all")).status, 201);
    assert_eq!(say_lift(&gate, json!("all"), "ops-9").status, 202, "what stops everybody is nobody's own");
}

/// A gate without `console.owners` takes the word of an owner.
#[test]
fn the_word_of_an_owner_at_another_gate_counts_for_nothing() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let setup = |node: &str| console(nodes::setup(&upstream, &redis.url(), node));
    let plain = setup("left").start().ready();
    let owned = setup("right").set_raw("console", "owners", r#"["main:test=ops-9"]"#).start().ready();
    let scope = json!({"caller": {"issuer": "main", "subject": "test"}});
    assert_eq!(freeze(&plain, scope.clone()).status, 201);
    assert_eq!(say_lift(&plain, scope.clone(), "ops-9").status, 202);
    let listed = ask(&owned, "GET", "freezes", &operator("ops-2"), None).json();
    assert_eq!(listed["freezes"][0]["saidUnfrozen"], Value::Null, "{listed}");
    assert_eq!(say_lift(&owned, scope.clone(), "ops-2").status, 202, "the first word that counts");
    assert_eq!(say_lift(&owned, scope, "ops-3").status, 200);
}

#[test]
fn an_operation_is_frozen_whatever_its_class() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    assert_eq!(freeze(&gate, json!({"operation": "createSwap"})).status, 201);
    assert!(send(&gate, &swap("s-1")) && !send(&gate, &offramp("o-1")) && !send(&gate, &cancel()));
    assert_eq!(freeze(&gate, json!({"operation": "cancelSwap"})).status, 201);
    assert!(send(&gate, &cancel()));
    assert_eq!(lift(&gate, json!({"operation": "createSwap"})).status, 200);
    assert!(!send(&gate, &swap("s-1")) && send(&gate, &cancel()));
    for none in ["listUsers", "createSwop"] {
        let answer = freeze(&gate, json!({"operation": none}));
        assert_eq!(
            (told(&answer), answer.violations()),
            ((400, "INVALID_REQUEST".into()), vec!["/scope/operation enum".into()])
        );
    }
}

#[test]
fn a_caller_is_frozen_and_no_other() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let other = |call: Call| {
        let token = token_of(ISSUER, "other/service", &[]);
        call.without("Authorization").header("Authorization", format!("Bearer {token}"))
    };
    assert_eq!(freeze(&gate, json!({"caller": {"issuer": "main", "subject": "test"}})).status, 201);
    assert!(send(&gate, &swap("c-1")) && !send(&gate, &other(swap("c-2"))) && !send(&gate, &cancel()));
    assert_eq!(freeze(&gate, json!({"caller": {"issuer": "main", "subject": "other/service"}})).status, 201);
    assert!(send(&gate, &other(swap("c-3"))));
    let typo = freeze(&gate, json!({"caller": {"issuer": "mian", "subject": "test"}}));
    assert_eq!(typo.violations(), ["/scope/caller/issuer enum"]);

    let all = ask(&gate, "GET", "freezes", &operator("ops-2"), None).json();
    let scopes: Vec<Value> = all["freezes"].as_array().unwrap().iter().map(|one| one["scope"].clone()).collect();
    assert_eq!(scopes[1], json!({"caller": {"issuer": "main", "subject": "other/service"}}));
    assert_eq!((scopes.len(), &all["freezes"][0]["by"]), (2, &json!("people/ops-1")));
}

#[test]
fn doing_it_twice_is_harmless_and_told() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    assert_eq!(lift(&gate, json!("all")).json(), json!({"changed": false, "missing": 0}));
    assert_eq!(freeze(&gate, json!("all")).status, 201);
    let again = freeze(&gate, json!("all"));
    let told = (again.status, again.json());
    assert_eq!((told.0, &told.1["changed"], &told.1["freeze"]["reason"]), (200, &json!(false), &json!("a drill")));
    assert_eq!(lift(&gate, json!("all")).json()["changed"], true);
    assert_eq!(lift(&gate, json!("all")).json()["changed"], false);
    assert_eq!(lift(&gate, json!({"operation": "goneLongAgo"})).json()["changed"], false);
}

#[test]
fn a_freeze_for_another_reason_is_recorded_and_ends_earlier_words_to_lift_it() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    assert_eq!(freeze(&gate, json!("all")).status, 201);
    assert_eq!(say_lift(&gate, json!("all"), "ops-1").status, 202);
    let again = json!({"environment": "production", "scope": "all", "reason": "a token was stolen"});
    let answer = ask(&gate, "POST", "freezes", &operator("ops-3"), Some(again.clone()));
    let both = json!("a token was stolen; before that, people/ops-1: a drill");
    assert_eq!((answer.status, &answer.json()["freeze"]["reason"]), (201, &both), "{answer}");
    let twice = ask(&gate, "POST", "freezes", &operator("ops-3"), Some(again));
    assert_eq!((twice.status, &twice.json()["changed"]), (200, &json!(false)), "{twice}");
    // The word of before the second reason counts for nothing.
    assert_eq!(say_lift(&gate, json!("all"), "ops-2").status, 202);
    assert_eq!(ask(&gate, "GET", "freezes", &operator("ops-1"), None).json()["freezes"].as_array().unwrap().len(), 1);
    assert_eq!(say_lift(&gate, json!("all"), "ops-3").status, 200);
}

#[test]
fn a_freeze_outlives_the_process_and_is_measured() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    freeze(&gate, json!("all"));
    freeze(&gate, json!({"operation": "createSwap"}));
    let gate = gate.kill().start();
    assert!(send(&gate, &swap("after")));
    let series = |scope: &str| gate.metric(&format!("sluice_frozen{{environment=\"production\",scope=\"{scope}\"}}"));
    crate::support::clock::wait_until("freezes to be measured", || series("all") == 1 && series("operation") == 1);
    assert_eq!(series("caller"), 0);
    assert_eq!(gate.probe("/readyz").status, 200);
    lift(&gate, json!("all"));
    crate::support::clock::wait_until("lifting to be measured", || series("all") == 0);
}

/// What `sluice store import` leaves behind.
#[tokio::test]
async fn a_restored_store_is_closed_for_money_until_somebody_opens_it() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    assert!(!send(&gate, &swap("before")));
    let setup = gate.end();
    {
        let store = Embedded::open(&setup.path("sluice-data"), Arc::new(SystemClock), Options::default()).unwrap();
        let key = RecordKey { environment: Environment::Production, kind: Kind::Freeze, name: "restored".to_owned() };
        let value = Bytes::from_static(
            br#"{"format":1,"reason":"restored from an export","by":"sluice store import","forgotten":null}"#,
        );
        let add = Step::IndexAdd { index: Index::Frozen, member: key.name.clone(), due: std::time::Duration::ZERO };
        let steps = vec![Step::Create { key, value, keep: Keep::Forever }, add];
        let node = NodeId::parse("gate").unwrap();
        let entry = Bytes::from_static(b"{}");
        store.commit(Commit { environment: Environment::Production, node, steps, entry }).await.unwrap();
    }
    let gate = setup.start();
    // What the store does not know, it may have forgotten.
    assert!(is_frozen_as(&swap("after").send(gate.production()), "unknown"));
    let unfit = post("/v2/wallets/swaps").json(r#"{"requestId": "after"}"#).send(gate.production());
    assert_eq!((unfit.status, unfit.outcome()), (400, "unknown".to_owned()), "{unfit}");
    assert!(!send(&gate, &swap("before")) && !send(&gate, &cancel()));
    let all = ask(&gate, "GET", "freezes", &operator("ops-1"), None).json();
    assert_eq!(
        (&all["freezes"][0]["scope"], &all["freezes"][0]["by"]),
        (&json!("restored"), &json!("sluice store import"))
    );
    assert_eq!(freeze(&gate, json!("restored")).status, 400, "nobody restores a store by hand");
    assert_eq!(lift(&gate, json!("all")).json()["changed"], false);
    assert!(is_frozen_as(&swap("after").send(gate.production()), "unknown"));
    assert_eq!(lift(&gate, json!("restored")).json()["changed"], true);
    assert!(!send(&gate, &swap("after")));
}

#[test]
fn an_offer_that_was_accepted_is_answered_while_frozen() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let accept = || Call::new("POST", path(operation("acceptOffer")));
    assert!(!send(&gate, &accept()));
    freeze(&gate, json!("all"));
    let replay = accept().send(gate.production());
    assert_eq!((replay.status, replay.header("sluice-replayed").as_deref()), (200, Some("true")), "{replay}");
}

#[test]
fn the_reads_of_a_caller_are_frozen_alone_and_stay_frozen_without_the_store() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let gate = console(nodes::setup(&upstream, &redis.url(), "gate")).start().ready();
    let scope = json!({"reads": {"issuer": "main", "subject": "test"}});
    let read = || get("/v2/users").send(gate.production());
    let status = || read().status;
    assert_eq!(status(), 200);
    assert_eq!(freeze(&gate, scope.clone()).status, 201);
    wait_until("the reads to be frozen", || status() == 503);
    assert_eq!(read().code(), "FROZEN");
    let mut other = claims();
    other["sub"] = json!("another");
    let of_other =
        get("/v2/users").without("Authorization").header("Authorization", format!("Bearer {}", signed(&other)));
    assert_eq!(of_other.send(gate.production()).status, 200, "others read on");
    assert_eq!(swap("r-1").send(gate.production()).status, 200, "its money has a freeze of its own");
    let listed = ask(&gate, "GET", "freezes", &operator("o"), None).json();
    assert_eq!(listed["freezes"][0]["scope"], scope);
    redis.freeze();
    wait_until("the store to be away", || gate.metric("sluice_store_up") == 0);
    assert_eq!((status(), of_other.send(gate.production()).status), (503, 200));
    redis.thaw();
    wait_until("the store to be back", || gate.metric("sluice_store_up") == 1);
    assert_eq!(lift(&gate, scope).status, 200);
    wait_until("the reads to go on", || status() == 200);
}

/// Everything that closes money is told, also where the store cannot be asked.
#[test]
fn why_no_money_moves_is_told_whoever_closed_it() {
    let (upstream, mut redis) = (Upstream::start(), Redis::start_kept());
    let gate = console(nodes::setup(&upstream, &redis.url(), "gate")).start().ready();
    let money = || ask(&gate, "GET", "money", &operator("o"), None);
    let reasons = || -> Vec<(Value, Value)> {
        let told = money().json();
        assert_eq!(told["ready"], json!(told["reasons"] == json!([])), "{told}");
        let reasons = told["reasons"].as_array().unwrap().iter();
        reasons.map(|one| (one["reason"].clone(), one["frozen"].clone())).collect()
    };
    assert_described(&money(), "money");
    assert_eq!(reasons(), []);
    fs::rename(gate.path("sluice-audit"), gate.path("away")).unwrap();
    assert_eq!(swap("r-1").send(gate.production()).status, 503);
    wait_until("the reason to be told", || reasons() == [(json!("audit-failing"), json!(false))]);
    assert_described(&money(), "money");
    assert_eq!(ask(&gate, "GET", "freezes", &operator("o"), None).json()["freezes"], json!([]));
    fs::rename(gate.path("away"), gate.path("sluice-audit")).unwrap();
    wait_until("money to move", || swap("r-2").send(gate.production()).status == 200);
    wait_until("the reason to be gone", || reasons().is_empty());
    assert_eq!(freeze(&gate, json!("all")).status, 201);
    wait_until("the freeze to be told", || reasons() == [(json!("frozen"), json!(true))]);
    redis.go();
    wait_until("the store to be away", || reasons().contains(&(json!("store-away"), json!(false))));
    assert_eq!(ask(&gate, "GET", "freezes", &operator("o"), None).status, 503);
    assert_eq!(ask(&gate, "GET", "money?x=1", &operator("o"), None).status, 400);
    redis.come();
}

/// One gate rebuilt the Redis without what another one knew, and people froze meanwhile. The other one comes back.
#[test]
fn a_freeze_stands_although_the_redis_is_rebuilt_from_a_journal_that_lacks_it() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] =
        ["left", "right"].map(|node| console(nodes::setup(&upstream, &redis.url(), node)).start().ready());
    nodes::paid(&left);
    left.signal("STOP");
    nodes::paid(&right);
    let right = right.kill();
    redis.ask(&["FLUSHALL"]);
    left.signal("CONT");
    wait_until("money to be closed", || told(&swap("r-1").send(left.production())).1 == "FROZEN");
    let frozen = |gate: &Gate| ask(gate, "GET", "freezes", &operator("o"), None).json()["freezes"].to_string();
    for scope in [json!({"operation": "createSwap"}), json!({"operation": "createOfframp"})] {
        assert_eq!(freeze(&left, scope).status, 201);
    }
    assert_eq!(lift(&left, json!({"operation": "createOfframp"})).status, 200);
    let right = right.start();
    for gate in [&left, &right] {
        wait_until("money to open", || frozen(gate).contains("createSwap") && !frozen(gate).contains("restored"));
        assert!(!frozen(gate).contains("createOfframp"), "{}", frozen(gate));
        assert_eq!(told(&swap("r-2").send(gate.production())), (503, "FROZEN".to_owned()));
    }
    assert_eq!(lift(&left, json!({"operation": "createSwap"})).status, 200);
    nodes::paid(&left);
}

/// Somebody removes the record of a freeze, and leaves the member of the index.
#[test]
fn a_freeze_whose_record_somebody_removed_is_not_left_out_of_the_list() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let setups = ["left", "right"].map(|node| console(nodes::setup(&upstream, &redis.url(), node)));
    let gates = setups.map(Setup::start);
    assert_eq!(freeze(&gates[0], json!("all")).status, 201);
    nodes::have_all(&redis, &["left", "right"]);
    redis.ask(&["DEL", "sluice:{production}:r:freeze:all"]);
    for gate in &gates {
        let answer = ask(gate, "GET", "freezes", &operator("ops-1"), None);
        assert_eq!(told(&answer), (503, "STORE_UNAVAILABLE".to_owned()), "{answer}");
    }
}
