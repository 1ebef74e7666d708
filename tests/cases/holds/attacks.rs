//! Holds under attack: gates that could not send, races between people, and two gates that release.

use std::sync::{Arc, Barrier};
use std::thread;

use sluice::adapters::store::sealed::Seals;
use sluice::base::ids::Environment;
use sluice::ledger::{Kind, RecordKey};

use super::{
    RULES, answered, approver, ask, ask_at, body, gate, held, on_redis, person, say, sent, shown, state, swap, text,
};
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::{Redis, Setup, Upstream};

#[test]
fn rules_that_hold_where_nothing_could_be_sent_do_not_load() {
    let upstream = Upstream::start();
    let setup = Setup::of(&upstream).file("policies/everything.toml", &RULES.replace("people:", "main:"));
    let config = setup.write();
    let check = || {
        let output = sluice(&["check", "--config", config.to_str().unwrap()]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, out) = check();
    assert!(code == Some(3) && out.contains("`production.credential` is not set"), "{out}");
    assert!(out.contains("set `credential` in `[production]`"), "{out}");
    // Rules that hold elsewhere alone are none of its concern.
    let elsewhere = RULES.replace("people:", "main:").replace(
        "op = \"createSwap\", amount = \"(100, inf)",
        "op = \"createSwap\", environment = \"sandbox\", amount = \"(100, inf)",
    );
    let elsewhere = elsewhere.replace(
        "when = { op = [\"updateUser\", \"acceptOffer\"] }",
        "when = { op = [\"updateUser\", \"acceptOffer\"], environment = \"sandbox\" }",
    );
    let setup = setup.file("policies/everything.toml", &elsewhere);
    let (code, out) = check();
    assert_eq!(code, Some(0), "{out}");
    drop(setup);
}

/// Many holds, and two people at once on each; what became of each, and of what each was told.
fn race(first: (&'static str, &'static str), second: (&'static str, &'static str), votes_before: &[&str]) {
    const HOLDS: usize = 24;
    let upstream = Upstream::start();
    let gate = Arc::new(gate(&upstream, RULES).start());
    for n in 0..HOLDS {
        let request_id = format!("x-{n}");
        let hold = held(&gate, &request_id);
        for who in votes_before {
            assert_eq!(say(&gate, "approve", &hold, who).status, 200);
        }
        let (console, barrier) = (gate.console().unwrap(), Arc::new(Barrier::new(2)));
        let one = |(act, who): (&'static str, &'static str)| {
            let (hold, barrier) = (hold.clone(), barrier.clone());
            thread::spawn(move || {
                let body = super::named(&hold, act);
                let path = format!("holds/{}/{act}", text(&hold, "id"));
                barrier.wait();
                ask_at(console, "POST", &path, &approver(who), Some(&body)).status
            })
        };
        let (first_told, second_told) = (one(first), one(second));
        let (first_told, second_told) = (first_told.join().unwrap(), second_told.join().unwrap());
        let answer = answered_or_waiting(&gate, &request_id);
        let is_rejected = first.0 == "reject" && first_told == 200 || second.0 == "reject" && second_told == 200;
        match answer {
            201 => assert!(!is_rejected, "{n}: sent after a rejection was acknowledged"),
            403 => assert!(is_rejected, "{n}: declined by nobody"),
            other => panic!("{n}: {other} ({first_told}, {second_told})"),
        }
    }
    let done = (0..HOLDS).filter(|n| swap(&format!("x-{n}"), "500").send(gate.production()).status == 201).count();
    assert_eq!(sent(&upstream), done, "each at most once");
}

fn answered_or_waiting(gate: &crate::support::Gate, request_id: &str) -> u16 {
    answered(gate, &swap(request_id, "500")).status
}

#[test]
fn two_who_complete_it_at_once_send_it_once() {
    race(("approve", "ops-2"), ("approve", "finance-1"), &["ops-1"]);
}

#[test]
fn a_vote_and_a_rejection_at_once_end_in_one_of_them() {
    race(("approve", "finance-1"), ("reject", "ops-3"), &["ops-1", "ops-2"]);
}

#[test]
fn a_replayed_vote_changes_nothing() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "y-1");
    for _ in 0..5 {
        assert_eq!(say(&gate, "approve", &hold, "ops-1").status, 200);
    }
    assert_eq!((state(&gate, &hold), sent(&upstream)), ("pending".to_owned(), 0));
    assert_eq!(say(&gate, "approve", &hold, "ops-1").json()["hold"]["votes"].as_array().unwrap().len(), 1);
}

/// Whichever gate a vote comes to, and whichever looks first: one of them sends.
#[test]
fn two_gates_on_one_redis_release_each_once() {
    const HOLDS: usize = 12;
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let [left, right] = ["left", "right"].map(|node| on_redis(gate(&upstream, RULES), &redis, node).start());
    let calls: Vec<_> = (0..HOLDS).map(|n| swap(&format!("z-{n}"), "500")).collect();
    let holds: Vec<_> = calls.iter().map(|call| call.send(left.production()).json()["hold"].clone()).collect();
    for hold in &holds {
        for (at, who) in [(&left, "ops-1"), (&right, "ops-2")] {
            assert_eq!(say(at, "approve", hold, who).status, 200);
        }
        // The vote that completes it comes to both at once.
        let barrier = Arc::new(Barrier::new(2));
        let at_once = [&left, &right].map(|at| {
            let (console, hold, barrier) = (at.console().unwrap(), hold.clone(), barrier.clone());
            thread::spawn(move || {
                let (path, body) = (format!("holds/{}/approve", text(&hold, "id")), json_of(&hold));
                barrier.wait();
                ask_at(console, "POST", &path, &approver("finance-1"), Some(&body)).status
            })
        });
        for told in at_once.map(|one| one.join().unwrap()) {
            assert!(told == 200 || told == 409, "{told}");
        }
    }
    for call in &calls {
        for at in [&left, &right] {
            assert_eq!(answered(at, call).status, 201);
        }
    }
    assert_eq!(sent(&upstream), HOLDS, "each once");
}

fn json_of(hold: &serde_json::Value) -> serde_json::Value {
    super::named(hold, "approve")
}

#[test]
fn whoever_owns_a_service_does_not_judge_what_it_asks_for() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).set_raw("console", "owners", r#"["main:test=ops-1"]"#).start();
    let hold = held(&gate, "n-1");
    let answer = say(&gate, "approve", &hold, "ops-1");
    assert!(answer.status == 403 && answer.text().contains("others must approve or reject it"), "{answer}");
    assert_eq!(say(&gate, "approve", &hold, "ops-2").status, 200);
    let wrong = gate.end().set_raw("console", "owners", r#"["test=ops-1"]"#);
    let output = sluice(&["check", "--config", wrong.write().to_str().unwrap()]).output().unwrap();
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(3) && told.contains("`console.owners` contains `test=ops-1`"), "{told}");
}

/// What is stored of a hold, where whoever reaches the Redis finds it.
fn stored(hold: &serde_json::Value) -> String {
    format!("sluice:{{production}}:r:hold:{}", text(hold, "id"))
}

fn hold_key(hold: &serde_json::Value) -> RecordKey {
    RecordKey { environment: Environment::Production, kind: Kind::Hold, name: text(hold, "id").to_owned() }
}

fn of_hex(text: &str) -> Vec<u8> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    text.as_bytes().chunks(2).map(byte).collect()
}

fn frozen(gate: &crate::support::Gate, path: &str, scope: &str) {
    let body = serde_json::json!({"environment": "production", "scope": scope, "reason": "a drill"});
    // It takes two people to lift a freeze.
    let people = if path == "freezes" { &["op"][..] } else { &["op", "op-2"] };
    for who in people {
        assert!(ask(gate, "POST", path, &person(who, &["operator"]), Some(body.clone())).status < 300);
    }
}

/// People agreed to one call; its record is another's, or has another body, by the time that it is to be sent.
#[test]
fn records_that_were_swapped_or_altered_in_the_store_are_not_sent() {
    // The head of a record has four doubles; behind them stand its state and its content.
    let swap_them = "local function of(key) local all = redis.call('GET', key) return all:sub(1, 32), all:sub(33) end \
                     local head, a = of(KEYS[1]) local other, b = of(KEYS[2]) \
                     redis.call('MSET', KEYS[1], head .. b, KEYS[2], other .. a) return 'OK'";
    let content = "local content = string.sub(redis.call('GET', KEYS[1]), 34) \
                   return (string.gsub(content, '.', function(byte) return string.format('%02x', string.byte(byte)) end))";
    let alter = "local head = string.sub(redis.call('GET', KEYS[1]), 1, 33) \
                 redis.call('SET', KEYS[1], head .. ARGV[1]) return 'OK'";
    for seal_key in [None, Some("5e".repeat(32))] {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let setup = on_redis(gate(&upstream, RULES), &redis, "left");
        let is_sealed = seal_key.is_some();
        let gate = match &seal_key {
            Some(key) => setup.set("store", "seal_key", key).start(),
            None => setup.start(),
        };
        let [first, second, third] = ["a-1", "a-2", "a-3"].map(|request_id| held(&gate, request_id));
        frozen(&gate, "freezes", "all");
        for hold in [&first, &third] {
            super::all_agree(&gate, hold);
            assert_eq!(state(&gate, hold), "approved");
        }
        redis.ask(&["EVAL", swap_them, "2", &stored(&first), &stored(&second)]);
        if !is_sealed {
            let packed = of_hex(&redis.ask(&["EVAL", content, "1", &stored(&third)]).concat());
            let key = hold_key(&third);
            let written = String::from_utf8(Seals::default().open(&key, packed.into()).unwrap().to_vec()).unwrap();
            let inside = |text: String| serde_json::Value::from(text).to_string().trim_matches('"').to_owned();
            let altered = written.replace(&inside(body("a-3", "500")), &inside(body("a-3", "900")));
            assert_ne!(altered, written);
            redis.ask(&["EVAL", alter, "1", &stored(&third), &altered]);
        }
        for hold in [&first, &second] {
            let path = format!("holds/{}", text(hold, "id"));
            assert_eq!(ask(&gate, "GET", &path, &approver("ops-1"), None).status, 503, "it is not what it was");
            assert_eq!(say(&gate, "approve", hold, "ops-3").status, 503);
        }
        // The gate mends its store, and people open it: what they agreed to before is asked for again.
        wait_until("people to be asked", || gate.probe("/readyz/money").text().contains("restored"));
        frozen(&gate, "freezes/lift", "all");
        frozen(&gate, "freezes/lift", "restored");
        for request_id in ["a-1", "a-3"] {
            let answer = answered(&gate, &swap(request_id, "500"));
            assert_eq!((answer.code().as_str(), sent(&upstream)), ("APPROVAL_EXPIRED", 0), "{answer}");
        }
        let told = ["content", "read"]
            .map(|call| gate.metric(&format!("sluice_store_failures_total{{call=\"{call}\",kind=\"broken\"}}")));
        assert!(told.iter().any(|count| *count > 0), "{}", gate.probe("/metrics").text());
    }
}

/// Whoever writes the store, and has no key, makes approvers of themselves and a call that they agreed to.
#[test]
fn sessions_and_holds_that_somebody_planted_release_nothing() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let setup = on_redis(gate(&upstream, RULES), &redis, "left").set("store", "seal_key", &"5e".repeat(32));
    let gate = setup.start();
    let (hold, other) = (held(&gate, "f-1"), held(&gate, "f-2"));
    // A gate without a key makes what a forger knows of the form: records in plain text, with their votes.
    let (forged_upstream, forger) = (Upstream::start(), Redis::start_kept());
    let forging = on_redis(self::gate(&forged_upstream, RULES), &forger, "forger").start().ready();
    let forged = held(&forging, "f-1");
    frozen(&forging, "freezes", "all");
    super::all_agree(&forging, &forged);
    let port = redis.port().to_string();
    let copy = |from: &str, to: &str| {
        let renamed = "redis.call('SET', KEYS[2], redis.call('GET', KEYS[1])) return 'OK'";
        forger.ask(&["EVAL", renamed, "2", from, to]);
        forger.ask(&["MIGRATE", "127.0.0.1", &port, to, "0", "5000", "COPY", "REPLACE"]);
    };
    copy(&stored(&forged), &stored(&hold));
    let name = stored(&hold);
    redis.ask(&["ZADD", "sluice:{production}:i:approved", "1", name.rsplit(':').next().unwrap()]);
    let path = format!("holds/{}", text(&hold, "id"));
    assert_eq!(ask(&gate, "GET", &path, &approver("ops-1"), None).status, 503);
    assert_eq!(say(&gate, "approve", &hold, "ops-3").status, 503);
    // The other one goes its way.
    super::all_agree(&gate, &other);
    assert_eq!(answered(&gate, &swap("f-2", "500")).status, 201);
    assert_eq!(sent(&upstream), 1, "nothing that was planted is sent");
    let sessions = forger.ask(&["KEYS", "sluice:{production}:r:session:*"]);
    assert!(sessions.is_empty(), "sessions in plain text count as none: see the store's own test");
}

/// Nobody's journal has what is planted, so that the seal alone tells.
#[test]
fn records_in_plain_text_or_of_another_key_are_refused_and_counted() {
    for (forgers_key, reason) in [(None, "plain-text"), (Some("77".repeat(32)), "other-key")] {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let setup = on_redis(gate(&upstream, RULES), &redis, "left").set("store", "seal_key", &"5e".repeat(32));
        let gate = setup.start().ready();
        let own = held(&gate, "m-1");
        let forger = Redis::start_kept();
        let forging =
            with_key(on_redis(self::gate(&upstream, RULES), &forger, "forger"), forgers_key.as_deref()).start().ready();
        let planted = held(&forging, "m-2");
        super::all_agree(&forging, &planted);
        wait_until("the forger's own call to be sent", || sent(&upstream) == 1);
        let paid = sent(&upstream);
        let series = format!("sluice_store_records_refused_total{{environment=\"production\",reason=\"{reason}\"}}");
        let path = |hold| format!("holds/{}", text(hold, "id"));
        assert_eq!(ask(&gate, "GET", &path(&own), &approver("ops-1"), None).status, 200);
        assert_eq!(gate.metric(&series), 0, "{reason}");
        let (port, name) = (redis.port().to_string(), stored(&planted));
        forger.ask(&["MIGRATE", "127.0.0.1", &port, &name, "0", "5000", "COPY", "REPLACE"]);
        assert_eq!(ask(&gate, "GET", &path(&planted), &approver("ops-1"), None).status, 503, "{reason}");
        assert!(gate.metric(&series) >= 1, "{reason}: {}", gate.probe("/metrics").text());
        assert_eq!(say(&gate, "approve", &planted, "ops-3").status, 503, "{reason}");
        assert_eq!(sent(&upstream), paid, "{reason}");
    }
}

fn with_key(setup: Setup, seal_key: Option<&str>) -> Setup {
    match seal_key {
        Some(key) => setup.set("store", "seal_key", key),
        None => setup,
    }
}

/// Each content was sealed by a gate for this very record, and stands there under the version of the newest one.
#[test]
fn a_vote_that_was_withdrawn_is_not_put_back_in_the_store() {
    for seal_key in [None, Some("5e".repeat(32))] {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let gate = with_key(on_redis(gate(&upstream, RULES), &redis, "left"), seal_key.as_deref()).start().ready();
        let hold = held(&gate, "b-1");
        let copy = |from: &str, to: &str| {
            // The head of a record has four doubles; behind them stand its state and its content.
            let script = "local old = redis.call('GET', KEYS[2]) or struct.pack('<dddd', 0, 0, -1, -1)
                local head, content = string.sub(old, 1, 32), string.sub(redis.call('GET', KEYS[1]), 33)
                redis.call('SET', KEYS[2], head .. content) return 'OK'";
            redis.ask(&["EVAL", script, "2", from, to]);
        };
        let under = |version: &str| {
            let script = "local rest = string.sub(redis.call('GET', KEYS[1]), 9)
                redis.call('SET', KEYS[1], struct.pack('<d', tonumber(ARGV[1])) .. rest) return 'OK'";
            redis.ask(&["EVAL", script, "1", &stored(&hold), version]);
        };
        assert_eq!(say(&gate, "approve", &hold, "ops-1").status, 200);
        copy(&stored(&hold), "elsewhere");
        assert_eq!(say(&gate, "withdraw", &hold, "ops-1").status, 200);
        copy("elsewhere", &stored(&hold));
        let path = format!("holds/{}", text(&hold, "id"));
        let shown = || ask(&gate, "GET", &path, &approver("ops-1"), None).status;
        wait_until("the journal to have the withdrawal", || shown() == 503);
        // Nor under an older version.
        under("1");
        assert_eq!(shown(), 503);
        // Nor under one that another commit has.
        assert_eq!(say(&gate, "approve", &held(&gate, "b-2"), "ops-1").status, 200);
        let last = redis.head("sluice:{production}", "last").to_string();
        under(&last);
        wait_until("the journal to have the other commit", || shown() == 503);
        for who in ["ops-2", "finance-1"] {
            assert_eq!(say(&gate, "approve", &hold, who).status, 503, "{who}");
        }
        assert_eq!(sent(&upstream), 0);
        let told = gate.log.all().iter().any(|line| line.to_string().contains("somebody changed it in the store"));
        assert!(told, "{}", gate.stderr());
    }
}

/// What waits takes nothing from anybody: a limit is not filled by asking.
#[test]
fn holds_that_are_made_to_fill_a_limit_fill_nothing() {
    let upstream = Upstream::start();
    let limit = "[[limit]]\nid = \"hour\"\nops = [\"createSwap\"]\nwindow = \"rolling 1h\"\nper = [\"environment\"]\nmax = \"700 USD\"\nover = \"deny\"\n";
    let gate = gate(&upstream, &format!("{RULES}{limit}")).start();
    let holds: Vec<_> = (0..20).map(|n| held(&gate, &format!("f-{n}"))).collect();
    let usage = ask(&gate, "GET", "usage", &person("v", &["viewer"]), None).json();
    assert!(usage["usage"].as_array().unwrap().iter().all(|window| window["used"] == 0), "{usage}");
    for n in 0..2 {
        assert_eq!(swap(&format!("small-{n}"), "100").send(gate.production()).status, 201, "{n}");
    }
    super::all_agree(&gate, &holds[7]);
    assert_eq!(answered(&gate, &swap("f-7", "500")).status, 201);
    let answer = swap("small-2", "100").send(gate.production());
    assert_eq!((answer.status, answer.code().as_str()), (403, "LIMIT_EXCEEDED"), "{answer}");
    assert_eq!(sent(&upstream), 3);
}

/// Neither another issuer's word, nor another role, nor what a request says of itself makes an approver.
#[test]
fn nobody_becomes_an_approver_by_what_they_show() {
    use crate::support::token::{claims, signed};
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "e-1");
    let path = format!("holds/{}/approve", text(&hold, "id"));
    let with = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut claims = claims();
        claims["iss"] = super::PEOPLE.into();
        claims["sub"] = "ops-1".into();
        change(&mut claims);
        signed(&claims)
    };
    let mut of_callers = claims();
    of_callers["sub"] = "ops-1".into();
    of_callers["roles"] = serde_json::json!(["approver"]);
    let tokens = [
        ("the callers' issuer", signed(&of_callers), 401),
        ("no roles", with(&|_| {}), 403),
        (
            "another role",
            with(&|claims| claims["roles"] = serde_json::json!(["viewer", "operator", "policy-admin"])),
            403,
        ),
        ("another case", with(&|claims| claims["roles"] = serde_json::json!(["Approver", "approver "])), 403),
        ("another claim", with(&|claims| claims["role"] = "approver".into()), 403),
        ("a nested claim", with(&|claims| claims["roles"] = serde_json::json!({"roles": ["approver"]})), 403),
    ];
    for (what, token, status) in &tokens {
        let answer = ask(&gate, "POST", &path, token, Some(json_of(&hold)));
        let is_refused = answer.status == *status || answer.status == 401;
        assert!(is_refused, "{what}: {answer}");
    }
    let mut loud = json_of(&hold);
    loud["roles"] = serde_json::json!(["approver"]);
    assert_eq!(ask(&gate, "POST", &path, &person("ops-1", &["viewer"]), Some(loud.clone())).status, 403);
    assert_eq!(ask(&gate, "POST", &path, &approver("ops-1"), Some(loud)).status, 400, "nothing unlisted in a vote");
    // The callers' listener has no such act, whoever asks.
    let call = crate::support::post(format!("/sluice/v1/{path}")).json(json_of(&hold).to_string());
    assert_eq!(call.send(gate.production()).status, 404);
    let shown = ask(&gate, "GET", &format!("holds/{}", text(&hold, "id")), &approver("ops-1"), None).json();
    assert_eq!((&shown["state"], &shown["votes"]), (&"pending".into(), &serde_json::json!([])));
}

/// Nobody would find a hold that is no member of its index.
#[test]
fn a_member_of_an_index_that_is_removed_or_planted_is_noticed() {
    for seal_key in [None, Some("5e".repeat(32))] {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let gate = with_key(on_redis(gate(&upstream, RULES), &redis, "left"), seal_key.as_deref()).start().ready();
        let hold = held(&gate, "b-1");
        let index = |name: &str| format!("sluice:{{production}}:i:{name}");
        let (of_holds, of_freezes, id) = (index("held"), index("frozen"), text(&hold, "id"));
        let due = redis.ask(&["ZSCORE", &of_holds, id]).concat();
        let noticed = || gate.metric("sluice_store_contradictions_total{environment=\"production\"}");
        redis.ask(&["ZREM", &of_holds, id]);
        redis.ask(&["ZADD", &of_freezes, "1", "operation/createSwap"]);
        wait_until("both to be noticed", || noticed() >= 2);
        wait_until("the store to be rebuilt", || redis.ask(&["ZSCORE", &of_holds, id]).concat() == due);
        assert_eq!(redis.ask(&["ZSCORE", &of_freezes, "operation/createSwap"]).concat(), "");
        wait_until("people to be asked", || gate.probe("/readyz/money").text().contains("restored"));
    }
}

/// Of the store's windows, only the answer to the vote needs one.
#[test]
fn a_vote_that_stands_is_not_told_as_undone() {
    let (upstream, redis) = (Upstream::start(), Redis::start_kept());
    let limit = "[[limit]]\nid = \"budget\"\nops = [\"createSwap\"]\nwindow = \"rolling 30d\"\nmax = \"9 calls\"\nover = \"deny\"\n";
    let gate = on_redis(gate(&upstream, &format!("{RULES}{limit}")), &redis, "left").start().ready();
    assert_eq!(swap("paid-1", "50").send(gate.production()).status, 201);
    let hold = held(&gate, "held-1");
    let windows = redis.ask(&["KEYS", "sluice:{production}:s:*budget*"]);
    assert_eq!(windows.len(), 1, "{windows:?}");
    redis.ask(&["COPY", &windows[0], "aside", "REPLACE"]);
    redis.ask(&["SET", &windows[0], "x"]);
    let answer = say(&gate, "approve", &hold, "ops-1");
    redis.ask(&["COPY", "aside", &windows[0], "REPLACE"]);
    assert!(answer.status == 503 && !answer.text().contains("nothing was done"), "{answer}");
    assert!(answer.text().contains("this was done"), "{answer}");
    // The store may be rebuilt meanwhile: a key of another type is damage.
    wait_until("the hold to be shown with its vote", || {
        shown(&gate, &hold)["votes"].as_array().is_some_and(|votes| votes.len() == 1)
    });
}
