//! What the console says of rules and limits.

use serde_json::{Value, json};

use super::{PEOPLE, act, ask, console, operator, token_of};
use crate::support::clock::{Watch, wait_until};
use crate::support::gate::sluice;
use crate::support::{Answer, Caller, Gate, Setup, Upstream, post};

/// That an answer is what the document says.
pub(in crate::cases) fn assert_described(answer: &Answer, schema: &str) {
    let document: Value = serde_json::from_str(include_str!("../../../schemas/console.json")).unwrap();
    let whole = json!({"$ref": format!("#/components/schemas/{schema}"), "components": document["components"]});
    let validator = jsonschema::validator_for(&whole).unwrap();
    let faults: Vec<String> = validator.iter_errors(&answer.json()).map(|error| error.to_string()).collect();
    assert!(answer.status == 200 && faults.is_empty(), "{faults:?}: {answer}");
}

const RULES: &str = r#"
[[rule]]
id = "small"
effect = "allow"
when = { op = ["createSwap"], amount = "(0, 100] USD" }
[[rule]]
id = "new-ones"
effect = "deny"
when = { op = ["createSwap"], amount = "(50, inf) USD", destination.new = true }
[[limit]]
id = "day"
ops = ["createSwap"]
window = "rolling 24h"
per = ["environment", "caller"]
max = "150 USD"
over = "deny"
[[limit]]
id = "calls"
ops = ["createSwap"]
window = "calendar day UTC"
max = "40 calls"
over = "deny"
mode = "shadow"
"#;

fn gate(upstream: &Upstream) -> Gate {
    console(Setup::of(upstream)).file("policies/everything.toml", RULES).start()
}

fn body(amount: &str) -> Value {
    json!({
        "requestId": format!("r-{amount}"),
        "source": {"chain": "POLYGON", "currency": "usdc", "amount": amount},
        "destination": {"chain": "POLYGON", "currency": "usdt", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
    })
}

fn pay(gate: &Gate, amount: &str) -> u16 {
    post("/v2/wallets/swaps").json(body(amount).to_string()).send(gate.production()).status
}

fn viewer() -> String {
    token_of(PEOPLE, "anna", &["viewer"])
}

/// Who pays in these tests.
fn payer() -> Value {
    json!({"issuer": "main", "subject": crate::support::token::claims()["sub"]})
}

fn explain(gate: &Gate, amount: &str, more: Value) -> Answer {
    let mut asked =
        json!({"environment": "production", "operation": "createSwap", "caller": payer(), "body": body(amount)});
    asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    ask(gate, "POST", "explain", &viewer(), Some(asked))
}

fn reasons(answer: &Answer) -> Value {
    let told = answer.json();
    json!([told["effect"], told["reasons"].as_array().unwrap().iter().map(|r| r["cause"].clone()).collect::<Vec<_>>()])
}

#[test]
fn a_request_is_explained_and_nothing_is_done() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let small = explain(&gate, "5", json!({}));
    assert_eq!(small.status, 200, "{small}");
    assert_eq!(reasons(&small), json!(["allow", ["rule small"]]));
    assert_eq!(small.json()["counts"][0]["used"], Value::Null);
    let version = small.json()["version"].as_str().unwrap().to_owned();
    assert_eq!(gate.metric(&format!("sluice_policy_info{{version=\"{version}\"}}")), 1);
    let large = explain(&gate, "101", json!({}));
    assert_eq!(reasons(&large), json!(["deny", ["gate"]]));
    assert_eq!(large.json()["near"][0]["missing"], "the value is at most 100 USD");
    assert!(large.json()["words"].as_str().unwrap().starts_with("deny\n  value: 101 USD\n"), "{large}");

    // Of what was paid before, the request says what is assumed, or the store says what is so.
    assert_eq!(reasons(&explain(&gate, "60", json!({"paidBefore": true}))), json!(["allow", ["rule small"]]));
    assert_eq!(reasons(&explain(&gate, "60", json!({"paidBefore": false}))), json!(["deny", ["rule new-ones"]]));
    assert_eq!(reasons(&explain(&gate, "60", json!({"byStore": true}))), json!(["deny", ["rule new-ones"]]));
    assert_eq!((pay(&gate, "50"), pay(&gate, "60")), (200, 200));
    let third = explain(&gate, "60", json!({"byStore": true}));
    assert_eq!(reasons(&third), json!(["deny", ["limit day"]]));
    let fits = explain(&gate, "40", json!({"byStore": true}));
    assert_eq!(reasons(&fits), json!(["allow", ["rule small"]]));
    for (answer, units) in [(&third, 60_000_000), (&fits, 40_000_000)] {
        let counts = answer.json()["counts"].clone();
        let day = counts.as_array().unwrap().iter().find(|count| count["limit"] == "day").unwrap();
        let numbers = [&day["units"], &day["used"], &day["max"]];
        assert_eq!(numbers, [&json!(units), &json!(110_000_000), &json!(150_000_000)], "{answer}");
    }
    let words = fits.json()["words"].as_str().unwrap().to_owned();
    assert!(
        words.contains("counts: 40 USD of 150 USD, 110 USD used in limit day for environment production"),
        "{words}"
    );
    assert_eq!(upstream.seen().len(), 2);
    for answer in [&small, &large, &third, &fits] {
        assert_described(answer, "explanation");
    }
}

/// The page asks for a call by a form: the gate names the fields of each operation, and the issuers.
#[test]
fn a_form_for_every_call_is_described() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let shown = ask(&gate, "GET", "policies", &viewer(), None);
    assert_described(&shown, "policies");
    let shown = shown.json();
    assert!(shown["issuers"].as_array().unwrap().contains(&json!("main")), "{shown}");
    let operation = |name: &str| {
        let all = shown["operations"].as_array().unwrap();
        all.iter().find(|one| one["operation"] == name).unwrap().clone()
    };
    let amount = json!({"pointer": "/source/amount", "kind": "text", "choices": []});
    assert!(operation("createSwap")["fields"].as_array().unwrap().contains(&amount), "{}", operation("createSwap"));
    assert_eq!(operation("acceptOffer")["fields"], json!([]));
    assert_eq!(operation("acceptOffer")["path"].as_array().unwrap().len(), 2);
    assert_eq!(operation("listUsers")["fields"], json!([]));
}

/// A policy admin tries a set: its errors, or its changes, its table and what it would have changed. It is not in force
/// afterwards, and it does not wait.
#[test]
fn a_set_is_tried_and_changes_nothing() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    assert_eq!((pay(&gate, "10"), pay(&gate, "130")), (200, 403));
    let admin = token_of(PEOPLE, "anna", &["policy-admin"]);
    let attempt = |token: &str, text: &str| {
        let files = json!({"files": [{"name": "all.toml", "text": text}]});
        ask(&gate, "POST", "policies/try", token, Some(files))
    };
    let before = ask(&gate, "GET", "policies", &admin, None).json();
    let larger = RULES.replace("(0, 100]", "(0, 140]").replace("\"deny\"\nwhen", "\"deny\"\nmode = \"shadow\"\nwhen");
    let tried = attempt(&admin, &larger);
    assert_described(&tried, "triedPolicies");
    let tried = tried.json();
    assert_eq!((&tried["loosens"], &tried["inForce"]), (&json!(true), &before["version"]));
    assert_ne!(tried["version"], before["version"]);
    assert!(tried["words"].as_str().unwrap().contains("50.000001 USD to 140 USD"), "{tried}");
    let swaps = tried["table"]["operations"].as_array().unwrap().iter().find(|one| one["operation"] == "createSwap");
    let most = swaps.unwrap()["rows"][0]["most"][0]["words"].as_str().unwrap();
    assert!(most.contains("140"), "{tried}");
    let week = &tried["history"]["windows"][0];
    assert_eq!((&week["decisions"], &week["changes"][0]["then"]), (&json!(2), &json!("allow")), "{tried}");

    let same = attempt(&admin, RULES).json();
    assert_eq!((&same["loosens"], &same["version"]), (&json!(false), &before["version"]), "{same}");
    let faulty = attempt(&admin, &RULES.replace("createSwap", "createSwop"));
    assert_described(&faulty, "triedPolicies");
    let faulty = faulty.json();
    assert_eq!(faulty["version"], Value::Null);
    let finding = faulty["findings"][0].clone();
    assert!(finding["text"].as_str().unwrap().starts_with("error: all.toml:"), "{finding}");
    assert_eq!(finding["error"], true);

    assert_eq!(attempt(&viewer(), RULES).status, 403);
    let twice = json!({"files": [{"name": "a.toml", "text": ""}, {"name": "a.toml", "text": ""}]});
    assert_eq!(ask(&gate, "POST", "policies/try", &admin, Some(twice)).status, 400);
    let after = ask(&gate, "GET", "policies", &admin, None).json();
    assert_eq!((&after["version"], &after["candidate"]), (&before["version"], &Value::Null));
    assert_eq!(pay(&gate, "131"), 403);
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let pointer = |answer: &Answer| answer.json()["error"]["details"]["violations"][0]["pointer"].clone();
    for (more, place) in [
        (json!({"operation": "createSwop"}), "/operation"),
        (json!({"environment": "sandbox"}), "/environment"),
        (json!({"caller": {"issuer": "nobody", "subject": "x"}}), "/caller/issuer"),
        (json!({"time": "noon"}), "/time"),
        (json!({"body": {"requestId": "r", "source": {}, "destination": {}, "x": 1}}), "/body/x"),
        (json!({"byStore": "yes"}), "/byStore"),
        (json!({"more": 1}), "/more"),
    ] {
        let answer = explain(&gate, "5", more);
        assert_eq!((answer.status, pointer(&answer)), (400, json!(place)), "{answer}");
    }
    let foreign = act("POST", "explain", &token_of(PEOPLE, "anna", &[])).json("{}").send(gate.console().unwrap());
    assert_eq!(foreign.status, 403, "{foreign}");
}

#[test]
fn what_passes_is_told_as_one_table() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let told = ask(&gate, "GET", "policies/table", &viewer(), None);
    assert_eq!(told.status, 200, "{told}");
    assert_described(&told, "passTable");
    let table = told.json();
    assert_eq!(table["version"], ask(&gate, "GET", "policies", &viewer(), None).json()["version"]);
    let swaps = table["operations"].as_array().unwrap().iter().find(|one| one["operation"] == "createSwap").unwrap();
    let nobody = swaps["rows"].as_array().unwrap().iter().map(|row| row["most"][0]["microUsd"].as_u64()).max().unwrap();
    assert_eq!(nobody, Some(100_000_000), "{table:#}");
    assert_eq!(ask(&gate, "GET", "policies/table", &viewer(), None).json(), table);
    assert_eq!(ask(&gate, "GET", "policies/table?x=1", &viewer(), None).status, 400);
}

#[test]
fn what_limits_have_used_is_told() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let usage = |query: &str| ask(&gate, "GET", &format!("usage{query}"), &viewer(), None);
    assert_eq!(usage("").json()["usage"], json!([]));
    assert_eq!((pay(&gate, "50"), pay(&gate, "25.5"), pay(&gate, "101")), (200, 200, 403));
    let told = usage("");
    assert_described(&told, "usage");
    let all = told.json()["usage"].clone();
    let subject = payer()["subject"].as_str().unwrap().to_owned();
    assert_eq!(all[0]["key"], json!({"environment": "production", "caller": format!("main:{subject}")}));
    let numbers = |one: &Value| (one["limit"].clone(), one["used"].clone(), one["left"].clone(), one["unit"].clone());
    assert_eq!(numbers(&all[0]), (json!("day"), json!(75_500_000), json!(74_500_000), json!("microUsd")));
    assert_eq!(numbers(&all[1]), (json!("calls"), json!(2), json!(38), json!("calls")));
    assert_eq!(usage("?limit=calls").json()["usage"].as_array().unwrap().len(), 1);
    for wrong in ["?limit=none", "?environment=sandbox", "?limt=day"] {
        assert_eq!(usage(wrong).status, 400, "{wrong}");
    }

    let url = format!("http://{}", gate.console().unwrap());
    let run = |words: &[&str]| {
        let words = [&["policy", "usage", "--console", &url], words].concat();
        let output = sluice(&words).env("SLUICE_TOKEN", operator("ops-1")).output().unwrap();
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    let (code, text) = run(&[]);
    let day = format!("day for environment production, caller main:{subject}: 75.5 USD of 150 USD used, 74.5 USD left");
    let calls = "calls: 2 calls of 40 calls used, 38 calls left";
    assert_eq!((code, text), (Some(0), format!("production  {day}\nproduction  {calls}\n")));
    let (code, text) = run(&["--limit", "none"]);
    assert!(code == Some(4) && text.contains("the id of a limit in force"), "{text}");
}

/// Small swaps go, and larger ones wait for one person.
pub(super) const SMALL_GO_LARGER_WAIT: &str = r#"
[[rule]]
id = "small"
effect = "allow"
when = { op = ["createSwap"], amount = "(0, 50] USD" }
[[rule]]
id = "larger"
effect = "hold"
approval = "one"
when = { op = ["createSwap"], amount = "(50, inf) USD" }
[approval.one]
of = "ops"
n = 1
expires = "1h"
[group.ops]
members = ["people:ops-1", "people:ops-2"]
"#;

/// Small swaps go, larger ones wait; what is in doubt stays spent until it is known.
#[test]
fn usage_tells_what_is_in_flight_and_what_waits() {
    let limits = r#"
[[limit]]
id = "day"
ops = ["createSwap"]
window = "rolling 24h"
per = ["environment"]
max = "500 USD"
over = "deny"
[[limit]]
id = "calls"
ops = ["createSwap"]
window = "rolling 24h"
per = ["environment"]
max = "40 calls"
over = "deny"
"#;
    let upstream = Upstream::start();
    let setup =
        console(Setup::of(&upstream)).file("policies/everything.toml", &format!("{SMALL_GO_LARGER_WAIT}{limits}"));
    let gate = setup.set("production", "credential", "of-the-gate-itself").start();
    assert_eq!(pay(&gate, "60"), 202);
    let told = |limit: &str| {
        let answer = ask(&gate, "GET", &format!("usage?limit={limit}"), &viewer(), None);
        assert_described(&answer, "usage");
        let all = answer.json()["usage"].clone();
        ["used", "inFlight", "pending", "left"].map(|name| all[0][name].as_u64().unwrap())
    };
    assert_eq!(told("calls"), [0, 0, 1, 40], "what waits alone is told as well");
    assert_eq!(pay(&gate, "20"), 200);
    upstream.next(crate::support::Act::silence().close());
    assert_eq!(pay(&gate, "30"), 502);
    assert_eq!(told("calls"), [2, 1, 1, 38]);
    assert_eq!(told("day"), [50_000_000, 30_000_000, 60_000_000, 450_000_000]);
}

/// A set whose analysis takes a while: the texts of its files have so many bytes in all.
fn large_set(bytes: usize) -> Value {
    let limit = |at: usize| {
        format!(
            "[[limit]]\nid = \"l-{at}\"\nops = [\"createSwap\"]\nwindow = \"rolling 24h\"\nper = [\"caller\"]\nmax = \"{} USD\"\n\
             over = \"deny\"\n",
            at + 1
        )
    };
    let mut texts = vec![RULES.to_owned()];
    for at in 0.. {
        let (all, limit) = (texts.iter().map(String::len).sum::<usize>(), limit(at));
        if all + limit.len() + 2 > bytes {
            let rest = format!("#{}\n", "-".repeat(bytes.saturating_sub(all + 2)));
            texts.last_mut().unwrap().push_str(&rest);
            break;
        }
        match texts.last_mut().unwrap() {
            last if last.len() < 20_000 => last.push_str(&limit),
            _ => texts.push(limit),
        }
    }
    assert_eq!(texts.iter().map(String::len).sum::<usize>(), bytes);
    let file = |(at, text): (usize, &String)| json!({"name": format!("{at}.toml"), "text": text});
    json!({ "files": texts.iter().enumerate().map(file).collect::<Vec<_>>() })
}

fn policy_admin(name: &str) -> String {
    token_of(PEOPLE, name, &["policy-admin"])
}

#[test]
fn a_set_of_more_text_than_is_tried_is_refused_with_the_bound_and_the_other_way() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let refused = ask(&gate, "POST", "policies/try", &policy_admin("anna"), Some(large_set(32 * 1024 + 1)));
    assert_eq!(refused.status, 400, "{refused}");
    let violation = &refused.json()["error"]["details"]["violations"][0];
    let expected = violation["expected"].as_str().unwrap_or_default();
    assert_eq!(violation["pointer"], "/files");
    assert!(expected.contains("32 KiB") && expected.contains("sluice policy diff"), "{refused}");
}

#[test]
fn trials_wait_for_each_other() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let files = json!({"files": [{"name": "all.toml", "text": RULES}]});
    std::thread::scope(|scope| {
        let trials: Vec<_> = ["anna", "bert", "cleo"]
            .map(|name| scope.spawn(|| ask(&gate, "POST", "policies/try", &policy_admin(name), Some(files.clone()))))
            .into();
        for trial in trials {
            assert_eq!(trial.join().unwrap().status, 200);
        }
    });
}

#[test]
fn an_end_does_not_wait_for_a_trial() {
    let upstream = Upstream::start();
    let gate = gate(&upstream);
    let mut trial = Caller::connect(gate.console().unwrap());
    trial.send(act("POST", "policies/try", &policy_admin("anna")).json(large_set(32 * 1024).to_string()).bytes());
    let threads = || std::fs::read_dir(format!("/proc/{}/task", gate.process())).unwrap().filter_map(Result::ok);
    let name = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
    wait_until("the trial to run", || threads().any(|thread| name(thread).trim() == "policy trial"));
    let watch = Watch::start();
    gate.terminate();
    let given_up = trial.answer();
    assert!(given_up.status == 503 && given_up.to_string().contains("the gate ends"), "{given_up}");
    assert!(gate.wait_end().success());
    assert!(watch.elapsed().as_secs() < 5, "{:?}", watch.elapsed());
}
