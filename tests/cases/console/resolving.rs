//! What people say of calls in doubt.

use serde_json::{Value, json};

use super::policies::assert_described;
use super::{PEOPLE, ask, audited, body, console, in_doubt, operator, swap, token_of, told};
use crate::cases::holds;
use crate::support::clock::{DAY, PATIENCE, Watch, upstream_time};
use crate::support::shape::{operation, path, record_of};
use crate::support::{Act, Answer, Call, Gate, Redis, Setup, Upstream, post};

fn resolve(gate: &Gate, request: &str, who: &str, body: Value) -> Answer {
    ask(gate, "POST", &format!("requests/production/{request}/resolve"), &operator(who), Some(body))
}

/// Said again until upstream can do it no more.
fn absent(gate: &Gate, request: &str, who: &str) -> Answer {
    let watch = Watch::start();
    loop {
        let answer = absent_now(gate, request, who);
        if answer.code() != "TOO_EARLY" {
            return answer;
        }
        assert!(watch.elapsed() < PATIENCE, "{answer}");
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
}

fn absent_now(gate: &Gate, request: &str, who: &str) -> Answer {
    resolve(gate, request, who, json!({"outcome": "absent", "reason": "not in their list"}))
}

fn show(gate: &Gate, request: &str) -> Answer {
    ask(gate, "GET", &format!("requests/production/{request}"), &operator("ops-1"), None)
}

#[test]
fn absent_takes_two_people_neither_of_whom_asked() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    in_doubt(&gate, &upstream, "lost-1");
    assert_eq!(swap("lost-1").send(gate.production()).code(), "OUTCOME_UNKNOWN");

    assert_eq!(told(&absent(&gate, "lost-1", "test")), (403, "FORBIDDEN".to_owned()), "its owner");
    let first = absent(&gate, "lost-1", "ops-1");
    assert_eq!((first.status, first.json()), (202, json!({"state": "unknown", "missing": 1})));
    assert_eq!(show(&gate, "lost-1").json()["saidAbsent"], "people/ops-1");
    assert_eq!(told(&absent(&gate, "lost-1", "ops-1")), (409, "TWO_PEOPLE_NEEDED".to_owned()));
    assert_eq!(told(&absent(&gate, "lost-1", "test")), (403, "FORBIDDEN".to_owned()), "its owner");
    assert_eq!(swap("lost-1").send(gate.production()).code(), "OUTCOME_UNKNOWN", "one word is none");

    let second = absent(&gate, "lost-1", "ops-2");
    assert_eq!((second.status, second.json()), (200, json!({"state": "absent", "missing": 0})));
    assert_eq!(show(&gate, "lost-1").json()["state"], "absent");
    // Their word is no proof.
    let status = |path: &str| ask(&gate, "GET", path, &operator("ops-1"), None).json();
    assert_eq!(status("payments/production/lost-1")["status"], "absent");
    assert_eq!(
        (status("payments?status=not-sent")["count"].clone(), status("payments?status=absent")["count"].clone()),
        (0.into(), 1.into())
    );
    let again = swap("lost-1").send(gate.production());
    assert_eq!((again.status, again.outcome()), (200, "executed".to_owned()));
    assert_eq!(upstream.seen().len(), 2);

    let said = audited(&gate, &[("/what", json!("said-absent")), ("/requestId", json!("lost-1"))]);
    assert_eq!((&said["saidBy"], &said["reason"]), (&json!(["people/ops-1"]), &json!("not in their list")));
    let undone = audited(&gate, &[("/what", json!("undone")), ("/requestId", json!("lost-1"))]);
    assert_eq!(undone["saidBy"], json!(["people/ops-1", "people/ops-2"]));
}

#[test]
fn an_owner_of_the_service_says_nothing_of_its_calls() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).set_raw("console", "owners", r#"["main:test=ops-1"]"#).start();
    in_doubt(&gate, &upstream, "lost-4");
    for owner in ["ops-1", "OPS-1", "\u{ff4f}ps-1"] {
        assert_eq!(told(&absent(&gate, "lost-4", owner)), (403, "FORBIDDEN".to_owned()), "{owner}");
    }
    assert_eq!(absent(&gate, "lost-4", "ops-2").status, 202);
    assert_eq!(told(&absent(&gate, "lost-4", "\u{ff4f}PS-2")), (409, "TWO_PEOPLE_NEEDED".to_owned()));
    assert_eq!(absent(&gate, "lost-4", "ops-3").status, 200);
}

#[test]
fn nobody_says_absent_while_upstream_may_still_do_it() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).set_raw("reconcile", "first_look_ms", "60_000").start();
    in_doubt(&gate, &upstream, "lost-3");
    for who in ["ops-1", "ops-2"] {
        let answer = absent_now(&gate, "lost-3", who);
        assert_eq!(told(&answer), (409, "TOO_EARLY".to_owned()));
        assert!(answer.json()["error"]["details"]["from"].is_string(), "{answer}");
    }
    assert_eq!(swap("lost-3").send(gate.production()).code(), "OUTCOME_UNKNOWN");
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn executed_takes_the_record_which_the_caller_then_hears() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    in_doubt(&gate, &upstream, "lost-2");
    let say_as = |who: &str, record: Value| {
        resolve(&gate, "lost-2", who, json!({"outcome": "executed", "record": record, "reason": "I saw it"}))
    };
    let say = |record: Value| say_as("ops-1", record);
    assert_eq!(say(json!({"id": "x"})).status, 400, "it is no record of a swap");
    let another = say(record_of("createSwap", "another"));
    assert_eq!(another.violations(), ["/record const"], "it bears another requestId");
    let record = record_of("createSwap", "lost-2");
    // Two people show the same record; neither of them requested the call.
    assert_eq!(told(&say_as("test", record.clone())), (403, "FORBIDDEN".to_owned()), "its owner");
    let first = say(record.clone());
    assert_eq!((first.status, first.json()), (202, json!({"state": "unknown", "missing": 1})), "{first}");
    assert_eq!(told(&say_as("Ops-1", record.clone())), (409, "TWO_PEOPLE_NEEDED".to_owned()));
    assert_eq!(show(&gate, "lost-2").json()["saidExecuted"], "people/ops-1");
    assert_eq!(swap("lost-2").send(gate.production()).code(), "OUTCOME_UNKNOWN", "one word is none");
    let mut invented = record.clone();
    invented["id"] = json!("6f9619ff-8b86-4d01-b42d-00cf4fc964ff");
    assert_eq!(say_as("ops-2", invented).status, 202, "another record is another first word");
    assert_eq!(told(&say(record.clone())), (409, "TWO_PEOPLE_NEEDED".to_owned()), "the other one stands");
    let answer = say_as("ops-2", record.clone());
    assert_eq!((answer.status, answer.json()), (200, json!({"state": "executed", "missing": 0})), "{answer}");
    let replay = swap("lost-2").send(gate.production());
    assert_eq!((replay.status, replay.outcome(), replay.json()), (200, "executed".to_owned(), record.clone()));
    assert_eq!(replay.header("sluice-replayed").as_deref(), Some("true"));
    let late = say(record);
    assert_eq!(
        (told(&late), &late.json()["error"]["details"]["state"]),
        ((409, "NOT_IN_DOUBT".into()), &json!("executed"))
    );
    assert_eq!(told(&absent(&gate, "lost-2", "ops-1")), (409, "NOT_IN_DOUBT".to_owned()));
    let entry = audited(&gate, &[("/what", json!("executed")), ("/requestId", json!("lost-2"))]);
    assert_eq!((&entry["saidBy"], &entry["reason"]), (&json!(["people/ops-1", "people/ops-2"]), &json!("I saw it")));
    audited(&gate, &[("/what", json!("said-executed")), ("/requestId", json!("lost-2"))]);
    assert_eq!(upstream.seen().len(), 1);
}

/// Upstream's record goes on: two people show it in different states. What one of them takes back is not the other's word.
#[test]
fn nobody_takes_back_what_another_person_showed() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    in_doubt(&gate, &upstream, "lost-6");
    let record = record_of("createSwap", "lost-6");
    let mut later = record.clone();
    later["id"] = json!("6f9619ff-8b86-4d01-b42d-00cf4fc964ff");
    let shows = |who: &str, record: &Value| {
        resolve(&gate, "lost-6", who, json!({"outcome": "executed", "record": record, "reason": "I saw it"}))
    };
    assert_eq!(shows("ops-1", &record).status, 202);
    assert_eq!(shows("ops-2", &later).status, 202);
    for who in ["ops-2", "ops-3"] {
        let answer = absent(&gate, "lost-6", who);
        assert_eq!(told(&answer), (409, "SAID_EXECUTED".to_owned()), "{answer}");
    }
    assert_eq!(swap("lost-6").send(gate.production()).code(), "OUTCOME_UNKNOWN");
    assert_eq!(shows("ops-3", &record).status, 200);
    assert_eq!(swap("lost-6").send(gate.production()).header("sluice-replayed").as_deref(), Some("true"));
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_call_that_two_people_called_absent_is_not_sent_again_once_somebody_shows_its_record() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    in_doubt(&gate, &upstream, "lost-7");
    assert_eq!(absent(&gate, "lost-7", "ops-1").status, 202);
    assert_eq!(absent(&gate, "lost-7", "ops-2").status, 200);
    let record = record_of("createSwap", "lost-7");
    let shows = |who: &str| {
        resolve(&gate, "lost-7", who, json!({"outcome": "executed", "record": record, "reason": "I saw it"}))
    };
    let first = shows("ops-3");
    assert_eq!((first.status, first.json()), (202, json!({"state": "absent", "missing": 1})), "{first}");
    assert_eq!(show(&gate, "lost-7").json()["saidExecuted"], "people/ops-3");
    let repeat = swap("lost-7").send(gate.production());
    assert_eq!((repeat.code(), repeat.outcome()), ("OUTCOME_UNKNOWN".to_owned(), "unknown".to_owned()));
    assert_eq!(shows("ops-1").status, 200);
    assert_eq!(swap("lost-7").send(gate.production()).header("sluice-replayed").as_deref(), Some("true"));
    assert_eq!(upstream.seen().len(), 1);
}

/// The repeat is held, since the policies hold it: its approval sends nothing once somebody shows the record.
#[test]
fn an_approved_repeat_of_an_absent_call_is_not_sent_once_somebody_shows_its_record() {
    let upstream = Upstream::start();
    let gate = holds::gate(&upstream, holds::RULES).short_quiet_time().start();
    let (repeat, record) = (holds::swap("lost-8", "500"), record_of("createSwap", "lost-8"));
    let hold = holds::held(&gate, "lost-8");
    upstream.next(Act::silence().close());
    holds::all_agree(&gate, &hold);
    let watch = Watch::start();
    while repeat.send(gate.production()).outcome() != "unknown" {
        assert!(watch.elapsed() < PATIENCE);
        std::thread::park_timeout(std::time::Duration::from_millis(20));
    }
    assert_eq!(absent(&gate, "lost-8", "ops-1").status, 202);
    assert_eq!(absent(&gate, "lost-8", "ops-2").status, 200);
    let again = holds::held(&gate, "lost-8");
    assert_ne!(hold["id"], again["id"]);
    let shows = |who: &str| {
        resolve(&gate, "lost-8", who, json!({"outcome": "executed", "record": record, "reason": "I saw it"}))
    };
    let first = shows("ops-3");
    assert_eq!(first.status, 202, "{first}");
    holds::all_agree(&gate, &again);
    // The gate itself tries to send what is approved, and so does the caller.
    for _ in 0..5 {
        let answer = repeat.send(gate.production());
        assert!(answer.code() == "OUTCOME_UNKNOWN" || answer.status == 202, "{answer}");
    }
    let second = shows("ops-1");
    assert_eq!(second.status, 200, "{second}");
    assert_eq!(repeat.send(gate.production()).header("sluice-replayed").as_deref(), Some("true"));
    assert_eq!(upstream.seen().len(), 1);
}

/// Of two people each word counts that they said last: one that was taken back does not complete another one's.
#[test]
fn a_word_that_was_taken_back_completes_nothing() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    in_doubt(&gate, &upstream, "lost-5");
    let record = record_of("createSwap", "lost-5");
    let executed = |who: &str| {
        resolve(&gate, "lost-5", who, json!({"outcome": "executed", "record": record, "reason": "I saw it"}))
    };
    let abandoned =
        |who: &str| resolve(&gate, "lost-5", who, json!({"outcome": "abandoned", "reason": "nobody answers"}));
    let said = || {
        let shown = show(&gate, "lost-5").json();
        ["saidAbsent", "saidAbandoned", "saidExecuted"].map(|name| shown[name].as_str().map(str::to_owned))
    };
    let one = |who: &str| Some(format!("people/{who}"));
    assert_eq!(absent(&gate, "lost-5", "ops-1").status, 202);
    assert_eq!(abandoned("ops-1").status, 202);
    assert_eq!(said(), [None, one("ops-1"), None]);
    assert_eq!(absent(&gate, "lost-5", "ops-2").status, 202, "the other one takes it back");
    assert_eq!(said(), [one("ops-2"), one("ops-1"), None]);
    assert_eq!(executed("OPS-2").status, 202);
    assert_eq!(said(), [None, one("ops-1"), one("OPS-2")]);
    for answer in [absent_now(&gate, "lost-5", "ops-1"), abandoned("ops-3"), absent_now(&gate, "lost-5", "ops-3")] {
        assert_eq!(told(&answer), (409, "SAID_EXECUTED".to_owned()), "{answer}");
        assert_eq!(answer.json()["error"]["details"]["by"], "people/OPS-2");
    }
    // Who showed it may take that back.
    assert_eq!(absent(&gate, "lost-5", "ops-2").status, 202);
    assert_eq!(said(), [one("ops-2"), one("ops-1"), None]);
    assert_eq!(executed("ops-1").status, 202, "as the first: what the other one showed was taken back");
    assert_eq!(said(), [one("ops-2"), None, one("ops-1")]);
    assert_eq!(swap("lost-5").send(gate.production()).code(), "OUTCOME_UNKNOWN");
    assert_eq!(executed("ops-2").status, 200);
    assert_eq!(swap("lost-5").send(gate.production()).header("sluice-replayed").as_deref(), Some("true"));
    assert_eq!(upstream.seen().len(), 1);
}

#[test]
fn a_record_of_something_else_is_not_taken() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let sent = body("createOfframp", "lost-3");
    upstream.next(Act::silence().close());
    let lost = post("/v2/offramps").json(sent.to_string()).send(gate.production());
    assert_eq!(lost.outcome(), "unknown");
    let say = |record: Value| {
        resolve(&gate, "lost-3", "ops-1", json!({"outcome": "executed", "record": record, "reason": "r"}))
    };
    assert_eq!(say(record_of("createOfframp", "another")).violations(), ["/record const"]);
    let mut other = record_of("createOfframp", "lost-3");
    other["transferDetails"]["source"]["amount"] = json!(999_999);
    assert_eq!(say(other).violations(), ["/record const"]);
    // The same money, made by somebody else before.
    let mut right = record_of("createOfframp", "lost-3");
    for side in ["source", "destination"] {
        for (name, value) in sent[side].as_object().unwrap() {
            let value = if name == "amount" { value.as_str().unwrap().parse().unwrap() } else { value.clone() };
            right["transferDetails"][side][name] = value;
        }
    }
    let made = |milliseconds: i64| {
        let mut record = right.clone();
        record["transferDetails"]["createdAt"] = json!(upstream_time(milliseconds));
        record
    };
    let older = say(made(-DAY));
    assert!(
        older.violations() == ["/record const"] && older.text().contains("made after the call was sent"),
        "{older}"
    );
    let mut timeless = right.clone();
    timeless["transferDetails"].as_object_mut().unwrap().remove("createdAt");
    assert_eq!(say(timeless).status, 400);
    assert_eq!(show(&gate, "lost-3").json()["state"], "unknown");
    assert_eq!(say(made(-600_000)).status, 202, "clocks differ");
}

#[test]
fn what_was_sent_is_shown_to_operators_alone() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    in_doubt(&gate, &upstream, "lost-4");
    let shown = show(&gate, "lost-4").json();
    let plain = |name: &str| shown[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        (plain("state"), plain("operation"), plain("doubt")),
        ("unknown".into(), "createSwap".into(), "broken".into())
    );
    assert_eq!((&shown["owner"], plain("requestId")), (&json!({"issuer": "main", "subject": "test"}), "lost-4".into()));
    assert_eq!(shown["sent"], json!({"target": "/v2/wallets/swaps", "body": body("createSwap", "lost-4")}));
    assert_described(&show(&gate, "lost-4"), "request");
    // Whoever settles it sees what it moves.
    let sent = body("createSwap", "lost-4");
    let word = |name: &str| {
        let words = shown["words"].as_array().unwrap().iter();
        words
            .filter(|word| word["name"] == name)
            .map(|word| word["text"].as_str().unwrap().to_owned())
            .collect::<String>()
    };
    assert!(word("from").contains(sent["source"]["amount"].as_str().unwrap()), "{shown}");
    assert!(word("value").ends_with("USD, fees included"), "{shown}");
    let to = sent["destination"]["walletAddress"].as_str().unwrap();
    assert_eq!(shown["destination"]["name"].as_str().unwrap().to_lowercase(), to.to_lowercase());
    let listed = ask(&gate, "GET", "requests", &operator("ops-1"), None).json();
    assert_eq!(listed["requests"][0]["words"], shown["words"]);
    for role in ["viewer", "approver", "policy-admin"] {
        let token = token_of(PEOPLE, "p", &[role]);
        let seen = ask(&gate, "GET", "requests/production/lost-4", &token, None);
        assert_eq!((seen.status, &seen.json()["sent"]), (200, &Value::Null), "{role}");
        let listed = ask(&gate, "GET", "requests", &token, None);
        assert_eq!(listed.json()["requests"][0]["sent"], Value::Null);
    }
    assert_eq!(show(&gate, "LOST-4").status, 404);
    assert_eq!(ask(&gate, "GET", "requests/sandbox/lost-4", &operator("o"), None).status, 404);
}

#[test]
fn a_call_that_its_path_names_is_resolved_by_that() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let accept = || Call::new("POST", path(operation("acceptOffer"))).send(gate.production());
    upstream.next(Act::silence().close());
    assert_eq!(accept().outcome(), "unknown");
    let listed = ask(&gate, "GET", "requests?environment=production", &operator("ops-1"), None).json();
    let name = listed["requests"][0]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("acceptOffer:"), "{name}");
    assert_eq!(show(&gate, &name).json()["operation"], "acceptOffer");
    assert_eq!(absent(&gate, &name, "ops-1").status, 202);
    assert_eq!(absent(&gate, &name, "ops-2").status, 200);
    assert_eq!(accept().outcome(), "executed");
    assert_eq!(show(&gate, &name).json()["state"], "executed");
}

#[test]
fn lists_come_in_pages_and_by_state() {
    let (upstream, sandbox) = (Upstream::start(), Upstream::start());
    let gate = console(Setup::of(&upstream).sandbox(&sandbox)).start();
    for at in 0..3 {
        in_doubt(&gate, &upstream, &format!("p-{at}"));
    }
    sandbox.next(Act::silence().close());
    swap("p-9").send(gate.sandbox());
    let list = |query: &str| ask(&gate, "GET", &format!("requests?{query}"), &operator("ops-1"), None).json();
    let mut names = Vec::new();
    let mut after = String::new();
    loop {
        let page = list(&format!("limit=1{after}"));
        assert_eq!(page["requests"].as_array().unwrap().len(), 1, "{page}");
        let request = &page["requests"][0];
        names.push(format!("{} {}", request["environment"].as_str().unwrap(), request["name"].as_str().unwrap()));
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    assert_eq!(names, ["production p-0", "production p-1", "production p-2", "sandbox p-9"]);
    assert_eq!(list("environment=sandbox")["requests"].as_array().unwrap().len(), 1);
    assert_eq!(list("state=sending"), json!({"requests": [], "next": null}));
    for (wrong, violation) in [
        ("state=done", "state enum"),
        ("limit=0", "limit maximum"),
        ("limit=101", "limit maximum"),
        ("environment=staging", "environment enum"),
        ("after=x", "after pattern"),
        ("sort=desc", "sort additionalProperties"),
    ] {
        let answer = ask(&gate, "GET", &format!("requests?{wrong}"), &operator("ops-1"), None);
        assert_eq!((answer.status, answer.violations()), (400, vec![violation.to_owned()]));
    }
}

/// A list reads the names in doubt first, and then each call: one that was settled between the two is not in doubt.
#[test]
fn a_call_that_is_settled_while_a_list_is_read_is_not_listed() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let setup = console(Setup::of(&upstream)).set("store", "kind", "redis").set("redis", "url", &redis.url());
    let gate = setup.set("store", "node", "left").set_raw("redis", "timeout_ms", "1000").start().ready();
    in_doubt(&gate, &upstream, "lost-1");
    assert_eq!(swap("before-1").send(gate.production()).outcome(), "executed");
    let keys = redis.ask(&["KEYS", "sluice:*before-1"]);
    let [claim] = keys.as_slice() else { panic!("{keys:?}") };
    for index in ["unknown", "sending"] {
        let index = format!("sluice:{{production}}:i:{index}");
        assert_eq!(redis.ask(&["ZADD", &index, "1", claim.rsplit(':').next().unwrap()]), ["1"]);
    }
    let listed = |state: &str| {
        let page = ask(&gate, "GET", &format!("requests?state={state}"), &operator("ops-1"), None).json();
        let names = page["requests"].as_array().unwrap().iter().map(|request| request["name"].clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(listed("unknown"), ["lost-1"]);
    assert_eq!(listed("unknown&limit=1"), ["lost-1"], "the settled one takes no place");
    assert_eq!(listed("sending"), [Value::Null; 0]);
}

#[test]
fn a_call_that_is_being_sent_is_listed_and_not_resolved() {
    let upstream = Upstream::start();
    let gate =
        console(Setup::of(&upstream)).timeout_ms("answer_ms", 10_000).timeout_ms("upstream_max_ms", 10_000).start();
    upstream.next(Act::silence().hang());
    let mut caller = crate::support::Caller::connect(gate.production());
    caller.send(swap("slow").bytes());
    upstream.wait_for(0);
    let listed = ask(&gate, "GET", "requests?state=sending", &operator("ops-1"), None).json();
    assert_eq!((&listed["requests"][0]["name"], &listed["requests"][0]["node"]), (&json!("slow"), &json!("gate")));
    let early = absent(&gate, "slow", "ops-1");
    assert_eq!(
        (told(&early), &early.json()["error"]["details"]["state"]),
        ((409, "NOT_IN_DOUBT".into()), &json!("sending"))
    );
}
