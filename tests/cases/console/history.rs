//! What the console tells of the past: searched, of one request, and over time.

use serde_json::{Value, json};

use super::policies::assert_described;
use super::{PEOPLE, act, ask, body, console, in_doubt, operator, swap, token_of};
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::{Answer, Gate, Setup, Upstream, post};

fn asked(gate: &Gate, path: &str) -> Answer {
    ask(gate, "GET", path, &token_of(PEOPLE, "v", &["viewer"]), None)
}

/// All that a search finds, page by page.
fn found(gate: &Gate, query: &str) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let answer = asked(gate, &format!("history?{query}{after}"));
        assert_described(&answer, "history");
        all.extend(answer.json()["entries"].as_array().unwrap().clone());
        match answer.json()["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return all,
        }
    }
}

fn whats(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["what"].as_str().unwrap()).collect()
}

/// Waits until so many entries are in the chain.
fn settled(gate: &Gate, query: &str, count: usize) -> Vec<Value> {
    wait_until("the chain to tell of it", || found(gate, query).len() >= count);
    found(gate, query)
}

const RULES: &str = "[[rule]]\nid = \"swaps\"\neffect = \"allow\"\nwhen = { op = \"createSwap\" }\n";

#[test]
fn the_past_is_found_by_what_people_know_of_it() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).file("policies/everything.toml", RULES).start();
    for request in ["h-1", "h-2"] {
        assert_eq!(swap(request).send(gate.production()).status, 200);
    }
    let offramp = post("/v2/offramps").json(body("createOfframp", "h-3").to_string());
    assert_eq!(offramp.send(gate.production()).code(), "POLICY_DENIED");
    in_doubt(&gate, &upstream, "h-4");
    super::freeze(&gate, json!({"operation": "createOfframp"}));
    settled(&gate, "requestId=h-2", 2);
    settled(&gate, "requestId=h-3", 1);
    // What is in doubt is looked for, and that is told as well.
    assert!(settled(&gate, "limit=3", 8).len() >= 8);
    let all = found(&gate, "limit=100");
    // The steps of a commit have bodies, which not every role may see.
    let is_bare = |one: &Value| ["steps", "values"].iter().all(|name| one["entry"].get(name).is_none());
    assert!(all.iter().all(is_bare), "{all:?}");
    let numbers: Vec<u64> = all.iter().map(|entry| entry["number"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|one, next| one > next), "the newest first: {numbers:?}");
    assert_eq!(whats(&found(&gate, "requestId=h-2")), ["executed", "sending"]);
    assert_eq!(whats(&found(&gate, "requestId=h-3")), ["refused"]);
    assert_eq!(whats(&found(&gate, "person=ops-1")), ["frozen"]);
    assert!(found(&gate, "person=test").len() >= 7);
    assert_eq!(found(&gate, "person=te").len(), 0);
    assert_eq!(found(&gate, "person=test&requestId=h-1&environment=production").len(), 2);
    let at = |one: &Value| one["at"].as_str().unwrap().to_owned();
    let (newest, oldest) = (at(&all[0])[..10].to_owned(), at(all.last().unwrap())[..10].to_owned());
    let times = |from: &str, until: &str| found(&gate, &format!("from={from}&until={until}"));
    assert!(times(&oldest, &newest).len() >= all.len());
    assert_eq!(times("2020-01-01", "2020-12-31"), Vec::<Value>::new());
    assert_eq!(found(&gate, "from=2999-01-01"), Vec::<Value>::new());
    // Times count to the end that is named, and that itself no more.
    let middle = at(&all[3]);
    let before = found(&gate, &format!("until={middle}"));
    assert!(before.iter().all(|one| at(one) < middle) && before.iter().any(|one| *one == all[4]), "{middle}");
    let since: Vec<String> = found(&gate, &format!("from={middle}")).iter().map(&at).collect();
    assert!(since.iter().all(|one| *one >= middle) && since.contains(&middle), "{middle}: {since:?}");

    let sent = body("createSwap", "h-1");
    let wallet = sent.pointer("/destination/walletAddress").or(sent.pointer("/destination/externalWalletAddress"));
    let wallet = wallet.or(sent.pointer("/destination/walletId")).and_then(Value::as_str);
    let wallet = wallet.unwrap_or_else(|| panic!("no destination: {sent}"));
    let there = found(&gate, &format!("destination={wallet}"));
    assert_eq!(whats(&there), ["sending"; 3], "{there:?}");
    assert_eq!(found(&gate, "destination=nowhere"), Vec::<Value>::new());
    assert!(!Value::from(there).to_string().contains(wallet), "its name stands there under a key alone");
}

#[test]
fn one_requests_story_is_told_in_order_and_in_words() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    in_doubt(&gate, &upstream, "s-1");
    assert_eq!(swap("s-2").send(gate.production()).status, 200);
    settled(&gate, "requestId=s-1", 2);
    let answer = asked(&gate, "history/production/s-1");
    assert_described(&answer, "history");
    let told = answer.json();
    let entries = told["entries"].as_array().unwrap();
    assert_eq!((&whats(entries)[..2], &told["next"]), (&["sending", "unknown"][..], &Value::Null));
    assert_eq!(entries[0]["words"], json!("the call was allowed and sent upstream, by everything"));
    assert_eq!((&entries[0]["name"], &entries[0]["environment"]), (&json!("s-1"), &json!("production")));
    assert_eq!(told["of"], entries[0]["node"]);
    for nothing in ["history/production/s-9", "history/sandbox/s-1", "history/nowhere/s-1"] {
        assert_eq!((asked(&gate, nothing).status, asked(&gate, nothing).code()), (404, "REQUEST_NOT_FOUND".to_owned()));
    }
}

#[test]
fn what_is_asked_wrongly_is_refused() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    for (query, name) in [
        ("environment=sandbox", "environment"),
        ("requestId=a%2Fb", "requestId"),
        ("from=yesterday", "from"),
        ("until=2026-02-30", "until"),
        ("until=2026-02-03T00:00", "until"),
        ("sessions=perhaps", "sessions"),
        ("day=2026-02-03", "day"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("after=1", "after"),
        ("after=1.1", "after"),
        ("after=99.x", "after"),
        ("person=", "person"),
        ("colour=red", "colour"),
    ] {
        let answer = asked(&gate, &format!("history?{query}"));
        assert_eq!((answer.status, answer.code().as_str()), (400, "INVALID_REQUEST"), "{query}: {answer}");
        assert!(answer.violations()[0].starts_with(name), "{query}: {answer}");
    }
    for odd in ["person=%zz", "person=a&person=b", "person", "person=%00"] {
        assert_eq!(asked(&gate, &format!("history?{odd}")).status, 400, "{odd}");
    }
    assert_eq!(asked(&gate, "history?person=ann%40bank.example%2Fx+y").status, 200);
    for odd in ["decisions?hours=0", "decisions?hours=169", "decisions?environment=x", "decisions?x=1"] {
        assert_eq!(asked(&gate, odd).status, 400, "{odd}");
    }
    let nobody = act("GET", "history", "x").without("Authorization");
    assert_eq!(nobody.send(gate.console().unwrap()).status, 401);
    assert_eq!(ask(&gate, "GET", "decisions", &token_of(PEOPLE, "v", &[]), None).status, 403);
}

#[test]
fn entries_say_what_their_call_moves_and_are_exported_with_it() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).file("policies/everything.toml", RULES).start();
    assert_eq!(swap("m-1").send(gate.production()).status, 200);
    in_doubt(&gate, &upstream, "m-2");
    super::freeze(&gate, json!({"operation": "createOfframp"}));
    settled(&gate, "requestId=m-2", 2);
    let money = |query: &str| -> Vec<Value> { found(&gate, query).iter().map(|one| one["payment"].clone()).collect() };
    wait_until("the outcomes to be told", || {
        money("requestId=m-1").iter().all(|one| one["status"] == "paid")
            && money("requestId=m-2").iter().all(|one| one["status"] == "unknown")
    });
    let paid = money("requestId=m-1")[0].clone();
    let payment = asked(&gate, "payments/production/m-1").json();
    for member in ["amount", "currency", "to", "event"] {
        assert_eq!(paid[member], payment[member], "{member}");
    }
    assert!(paid["amount"].is_string() && paid["to"]["name"].is_string(), "{paid}");
    assert_eq!(money("person=ops-1"), [Value::Null], "a freeze moves nothing");

    let export = |token: &str, body: Value| ask(&gate, "POST", "history/export", token, Some(body));
    let of = |format: &str| {
        let body = json!({"format": format, "filters": {"requestId": "m-1", "environment": "production"}});
        let answer = export(&token_of(PEOPLE, "v", &["viewer"]), body);
        assert_described(&answer, "exportAnswer");
        answer.json()
    };
    let csv = of("csv");
    assert_eq!((&csv["rows"], &csv["next"]), (&json!(2), &Value::Null));
    let text = csv["content"].as_str().unwrap();
    let amount = format!(",m-1,createSwap,paid,{},", paid["amount"].as_str().unwrap());
    assert!(text.lines().count() == 3 && text.contains(&amount), "{text}");
    let lines = of("jsonl");
    let members = [
        ("/what", json!("exported")),
        ("/list", json!("history")),
        ("/sha256", lines["sha256"].clone()),
        ("/by/subject", json!("v")),
        ("/filters", json!({"requestId": "m-1", "environment": "production"})),
    ];
    super::audited(&gate, &members);
    let told = settled(&gate, "person=v", 2);
    assert!(
        told.iter().any(|one| one["words"].as_str().unwrap().starts_with("entries of the audit log were exported"))
    );
    let (file, audit) = (gate.path("export.jsonl"), gate.path("sluice-audit"));
    let verify = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let words = ["payments", "verify", file.to_str().unwrap(), "--audit", audit.to_str().unwrap()];
        let output = sluice(&words).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let text = lines["content"].as_str().unwrap();
    let (code, words) = verify(text);
    assert!(code == Some(0) && words.contains("2 entries"), "{words}");
    assert_eq!(verify(&text.replacen("createSwap", "createSwop", 1)).0, Some(3));

    for (body, status) in [
        (json!({"format": "xml"}), 400),
        (json!({"format": "csv", "filters": {"day": "2026-11-20"}}), 400),
        (json!({"format": "csv", "filters": {"from": "yesterday"}}), 400),
        (json!({"format": "csv", "after": "x"}), 400),
    ] {
        assert_eq!(export(&operator("o"), body.clone()).status, status, "{body}");
    }
    assert_eq!(export(&token_of(PEOPLE, "n", &[]), json!({"format": "csv"})).status, 403);
}

#[test]
fn what_a_person_may_not_see_is_in_no_history_and_in_no_export() {
    let upstream = Upstream::start();
    let setup = console(Setup::of(&upstream)).set_raw("console", "visible", r#"["viewer:production:main:somebody"]"#);
    let gate = setup.file("policies/everything.toml", RULES).start();
    assert_eq!(swap("v-1").send(gate.production()).status, 200);
    let count = |token: &str| {
        let body = json!({"format": "jsonl", "filters": {"requestId": "v-1"}});
        ask(&gate, "POST", "history/export", token, Some(body)).json()["rows"].clone()
    };
    wait_until("both entries to be told", || count(&operator("o")) == json!(2));
    assert_eq!(count(&token_of(PEOPLE, "v", &["viewer"])), json!(0));
}

#[test]
fn whoever_sees_the_calls_of_one_caller_is_told_nothing_of_others_by_limits_the_store_or_freezes() {
    let upstream = Upstream::start();
    let limit = |id: &str, per: &str| {
        let window = "ops = [\"createSwap\"]\nwindow = \"rolling 1h\"\nmax = \"9 calls\"\nover = \"deny\"\n";
        format!("[[limit]]\nid = \"{id}\"\n{window}per = [{per}]\n")
    };
    let rules = [RULES, &limit("all", "\"environment\""), &limit("each", "\"caller\"")].concat();
    let setup = console(Setup::of(&upstream)).set_raw("console", "visible", r#"["viewer:production:main:somebody"]"#);
    let gate = setup.file("policies/everything.toml", &rules).start();
    assert_eq!(swap("w-1").send(gate.production()).status, 200);
    let others = json!({"caller": {"issuer": "main", "subject": crate::support::token::claims()["sub"]}});
    assert_eq!(super::freeze(&gate, others).status, 201);
    let viewer = token_of(PEOPLE, "v", &["viewer"]);
    let told = |token: &str| {
        let ids = |path: &str, list: &str, name: &str| -> Vec<Value> {
            let answer = ask(&gate, "GET", path, token, None).json();
            answer[list].as_array().unwrap().iter().map(|one| one[name].clone()).collect()
        };
        let call = json!({"operation": "createSwap", "environment": "production", "byStore": true,
            "caller": {"issuer": "main", "subject": crate::support::token::claims()["sub"]}, "body": body("createSwap", "w-2")});
        let history = ask(&gate, "GET", "history?limit=100", token, None).json();
        let is_freeze = |entry: &&Value| entry["what"] == "frozen";
        let history = history["entries"].as_array().unwrap().iter().filter(is_freeze).count();
        let explained = ask(&gate, "POST", "explain", token, Some(call)).status;
        (ids("usage", "usage", "limit"), ids("freezes", "freezes", "reason").len(), history, explained)
    };
    wait_until("the freeze to be told", || told(&operator("o")).2 == 1);
    assert_eq!(told(&operator("o")), (vec![json!("all"), json!("each")], 1, 1, 200));
    assert_eq!(told(&viewer), (vec![json!("all")], 0, 0, 403));
}

/// All hours together.
fn counted(gate: &Gate, query: &str) -> [u64; 3] {
    let answer = asked(gate, &format!("decisions{query}"));
    assert_described(&answer, "decisions");
    let sum = |name: &str| {
        answer.json()["buckets"].as_array().unwrap().iter().map(|one| one[name].as_u64().unwrap()).sum::<u64>()
    };
    ["allowed", "held", "denied"].map(sum)
}

#[test]
fn decisions_are_counted_by_the_hour_and_over_a_restart() {
    let upstream = Upstream::start();
    let rules = format!(
        "{RULES}[[rule]]\nid = \"users\"\neffect = \"hold\"\napproval = \"one\"\nwhen = {{ op = \"updateUser\" }}\n\
         [approval.one]\nof = \"ops\"\nn = 1\nexpires = \"1h\"\n[group.ops]\nmembers = [\"people:ops-1\", \"people:ops-2\"]\n"
    );
    let setup = console(Setup::of(&upstream)).file("policies/everything.toml", &rules);
    let gate = setup.set("production", "credential", "of-the-gate-itself").start();
    let offramp = |request| post("/v2/offramps").json(body("createOfframp", request).to_string());
    let user = || crate::support::shape::valid(crate::support::shape::operation("updateUser"));
    assert_eq!(swap("d-1").send(gate.production()).status, 200);
    // Its repeat is no decision.
    assert_eq!(swap("d-1").send(gate.production()).status, 200);
    assert_eq!(swap("d-2").send(gate.production()).status, 200);
    assert_eq!(offramp("d-3").send(gate.production()).status, 403);
    assert_eq!(user().send(gate.production()).status, 202);
    assert_eq!(counted(&gate, ""), [2, 1, 1]);
    assert_eq!(counted(&gate, "?environment=production&hours=168"), [2, 1, 1]);
    let buckets = asked(&gate, "decisions?hours=5").json()["buckets"].as_array().unwrap().len();
    assert_eq!(buckets, 5);

    let gate = gate.end().start();
    assert_eq!(offramp("d-4").send(gate.production()).status, 403);
    assert_eq!(counted(&gate, "?hours=168"), [2, 1, 2]);
    assert_eq!(ask(&gate, "GET", "decisions", &operator("o"), None).status, 200);
}
