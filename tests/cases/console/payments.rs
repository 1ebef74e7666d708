//! What the console tells of payments: lists with sums, one payment, exports, and who sees whose.

use serde_json::{Value, json};

use super::policies::assert_described;
use super::{PEOPLE, ask, body, console, in_doubt, operator, swap, token_of};
use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::terminal::Terminal;
use crate::support::{Answer, Gate, Setup, Upstream, post};

const RULES: &str = "[[rule]]\nid = \"swaps\"\neffect = \"allow\"\nwhen = { op = \"createSwap\" }\n";

fn viewer() -> String {
    token_of(PEOPLE, "v", &["viewer"])
}

fn asked(gate: &Gate, path: &str) -> Answer {
    ask(gate, "GET", path, &viewer(), None)
}

fn listed(gate: &Gate, query: &str) -> Value {
    let answer = asked(gate, &format!("payments{query}"));
    assert_described(&answer, "payments");
    answer.json()
}

/// The names of the listed payments with their status.
fn names(list: &Value) -> Vec<(String, String)> {
    let text = |one: &Value, name: &str| one[name].as_str().unwrap().to_owned();
    list["payments"].as_array().unwrap().iter().map(|one| (text(one, "name"), text(one, "status"))).collect()
}

/// Two swaps that were paid, an offramp that the rules denied, and a swap in doubt.
fn some_payments(gate: &Gate, upstream: &Upstream) {
    for request in ["p-1", "p-2"] {
        assert_eq!(swap(request).send(gate.production()).status, 200);
    }
    let offramp = post("/v2/offramps").json(body("createOfframp", "p-3").to_string());
    assert_eq!(offramp.send(gate.production()).code(), "POLICY_DENIED");
    in_doubt(gate, upstream, "p-4");
    wait_until("all payments to be told", || {
        let told = names(&listed(gate, ""));
        let is = |name: &str, status: &str| told.iter().any(|one| *one == (name.to_owned(), status.to_owned()));
        is("p-1", "paid") && is("p-2", "paid") && is("p-3", "refused") && is("p-4", "unknown")
    });
}

#[test]
fn payments_are_told_with_their_money_and_found_by_each_filter() {
    let upstream = Upstream::start();
    let sent = body("createSwap", "x");
    let wallet = ["/destination/walletAddress", "/destination/externalWalletAddress", "/destination/walletId"];
    let wallet = wallet.iter().find_map(|place| sent.pointer(place).and_then(Value::as_str));
    let wallet = wallet.unwrap_or_else(|| panic!("no destination: {sent}")).to_owned();
    let gate = console(Setup::of(&upstream)).file("policies/everything.toml", RULES).start();
    some_payments(&gate, &upstream);

    let all = listed(&gate, "");
    assert_eq!((names(&all).len(), &all["count"], &all["next"]), (4, &json!(4), &Value::Null));
    assert_eq!((&all["complete"], &all["since"]), (&json!(true), &Value::Null));
    let paid = all["payments"].as_array().unwrap().iter().find(|one| one["name"] == "p-2").unwrap();
    assert_eq!((&paid["owner"]["subject"], &paid["operation"]), (&json!("test"), &json!("createSwap")));
    assert!(paid["amount"].is_string() && paid["currency"].is_string(), "{paid}");
    // The address stands in the bytes that were sent, not in the words of the journal.
    assert!(paid["to"]["name"].as_str().is_some_and(|name| name.eq_ignore_ascii_case(&wallet)), "{paid}");
    let refused = all["payments"].as_array().unwrap().iter().find(|one| one["name"] == "p-3").unwrap();
    assert_eq!((&refused["event"], &refused["to"]["name"]), (&json!("denied by the rules"), &Value::Null));

    for (query, found) in [
        ("?status=paid", 2),
        ("?status=cancelled", 0),
        ("?operation=createOfframp", 1),
        ("?caller=test", 4),
        ("?caller=tes", 0),
        ("?text=P-4", 1),
        ("?text=tes", 4),
        ("?text=swaps", 3),
        ("?environment=production", 4),
        ("?from=2020-01-01&until=2020-12-31", 0),
        ("?from=2020-01-01", 4),
        ("?amountFrom=99999999999", 0),
        ("?amountTo=99999999999&operation=createSwap", 3),
        ("?currency=none", 0),
        ("?destination=nowhere", 0),
        ("?sort=value", 4),
    ] {
        let list = listed(&gate, query);
        assert_eq!((names(&list).len(), &list["count"]), (found, &json!(found)), "{query}");
    }
    assert_eq!(listed(&gate, &format!("?destination={wallet}"))["count"], json!(3));

    // Every page has the sums of all that match.
    let first = listed(&gate, "?limit=3");
    assert_eq!((names(&first).len(), &first["count"], &first["sums"]), (3, &json!(4), &all["sums"]));
    let rest = listed(&gate, &format!("?limit=3&after={}", first["next"].as_str().unwrap()));
    let mut both = names(&first);
    both.extend(names(&rest));
    assert_eq!(both, names(&all));
    let sum = all["sums"].as_array().unwrap().iter().find(|sum| sum["status"] == "paid").unwrap();
    let value = |one: &Value| one["value"].as_u64().unwrap();
    assert_eq!((&sum["count"], sum["value"].as_str().unwrap().to_owned()), (&json!(2), (value(paid) * 2).to_string()));

    let one = asked(&gate, "payments/production/p-2");
    assert_described(&one, "payment");
    assert_eq!(one.json(), *paid);
    assert_eq!(asked(&gate, "payments/production/p-9").code(), "REQUEST_NOT_FOUND");
    assert_eq!(asked(&gate, "payments/sandbox/p-2").code(), "REQUEST_NOT_FOUND");
    let days = asked(&gate, "payments/days?days=7");
    assert_described(&days, "paymentDays");
    let today = days.json()["days"].as_array().unwrap().last().unwrap().clone();
    let paid_today = today["sums"].as_array().unwrap().iter().find(|sum| sum["status"] == "paid").unwrap();
    assert_eq!((days.json()["days"].as_array().unwrap().len(), &paid_today["count"]), (7, &json!(2)));

    // What comes later is told without a restart, and all of it after one.
    assert_eq!(swap("p-5").send(gate.production()).status, 200);
    wait_until("the new payment to be told", || listed(&gate, "?status=paid")["count"] == json!(3));
    let gate = gate.end().start();
    assert_eq!(listed(&gate, "?status=paid")["count"], json!(3));
}

#[test]
fn payments_are_asked_for_in_one_way() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    for (query, name) in [
        ("environment=sandbox", "environment"),
        ("status=done", "status"),
        ("from=yesterday", "from"),
        ("until=2026-02-30", "until"),
        ("amountFrom=1e3", "amountFrom"),
        ("amountTo=-1", "amountTo"),
        ("sort=name", "sort"),
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("after=1.2", "after"),
        ("after=1.2.x", "after"),
        ("text=", "text"),
        ("colour=red", "colour"),
    ] {
        let answer = asked(&gate, &format!("payments?{query}"));
        assert_eq!((answer.status, answer.code().as_str()), (400, "INVALID_REQUEST"), "{query}: {answer}");
        assert!(answer.violations()[0].starts_with(name), "{query}: {answer}");
    }
    for odd in
        ["payments?text=a&text=b", "payments/days?days=0", "payments/days?days=91", "payments/production/p-1?x=1"]
    {
        assert_eq!(asked(&gate, odd).status, 400, "{odd}");
    }
    let nobody = token_of(PEOPLE, "v", &[]);
    for path in ["payments", "payments/days", "payments/production/p-1"] {
        assert_eq!(ask(&gate, "GET", path, &nobody, None).status, 403, "{path}");
    }
    assert_eq!(ask(&gate, "POST", "payments/export", &nobody, Some(json!({"format": "csv"}))).status, 403);
}

#[test]
fn a_person_sees_the_calls_that_their_roles_may_see() {
    let upstream = Upstream::start();
    let visible = r#"["viewer:production:main:somebody", "approver:production:main:test"]"#;
    let setup = console(Setup::of(&upstream)).set_raw("console", "visible", visible);
    let gate = setup.file("policies/everything.toml", RULES).start();
    assert_eq!(swap("v-1").send(gate.production()).status, 200);
    in_doubt(&gate, &upstream, "v-2");
    let approver = token_of(PEOPLE, "a", &["approver"]);
    let both = token_of(PEOPLE, "b", &["viewer", "approver"]);
    let count = |token: &str| ask(&gate, "GET", "payments", token, None).json()["count"].clone();
    wait_until("the payments to be told", || count(&operator("o")) == json!(2));
    for (token, seen) in [(viewer(), 0), (approver, 2), (both, 2), (operator("o"), 2)] {
        assert_eq!(count(&token), json!(seen));
        let found = |path: &str| ask(&gate, "GET", path, &token, None);
        let entries = found("history?person=test").json()["entries"].as_array().unwrap().len();
        assert_eq!(
            (seen == 0, found("requests").json()["requests"].as_array().unwrap().len()),
            (entries == 0, seen / 2)
        );
        let status = if seen == 0 { 404 } else { 200 };
        for path in ["payments/production/v-1", "history/production/v-1", "requests/production/v-2"] {
            assert_eq!(found(path).status, status, "{path}");
        }
        let days = found("payments/days?days=1").json()["days"][0]["sums"].as_array().unwrap().len();
        assert_eq!(days == 0, seen == 0);
        let exported = ask(&gate, "POST", "payments/export", &token, Some(json!({"format": "csv"})));
        assert_eq!(exported.json()["rows"], json!(seen));
        let day = found("payments/days?days=1").json()["days"][0]["day"].as_str().unwrap().to_owned();
        let statement = found(&format!("payments/statement?day={day}"));
        assert_eq!((statement.status, statement.json()["lines"] == json!([])), (200, seen == 0), "{statement}");
    }
}

#[test]
fn an_export_is_an_audit_entry_and_can_be_verified() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).file("policies/everything.toml", RULES).start();
    some_payments(&gate, &upstream);
    let export = |format: &str| {
        let body = json!({"format": format, "filters": {"status": "paid"}});
        let answer = ask(&gate, "POST", "payments/export", &viewer(), Some(body));
        assert_described(&answer, "exportAnswer");
        answer.json()
    };
    let csv = export("csv");
    assert_eq!(csv["content"].as_str().unwrap().lines().count(), 3);
    let lines = export("jsonl");
    let members = [
        ("/what", json!("exported")),
        ("/sha256", lines["sha256"].clone()),
        ("/by/subject", json!("v")),
        ("/filters", json!({"status": "paid"})),
        ("/rows", json!(2)),
    ];
    super::audited(&gate, &members);
    let file = gate.path("export.jsonl");
    std::fs::write(&file, lines["content"].as_str().unwrap()).unwrap();
    let (file, audit) = (file.to_str().unwrap().to_owned(), gate.path("sluice-audit"));
    let verify = |file: &str| {
        let output = sluice(&["payments", "verify", file, "--audit", audit.to_str().unwrap()]).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    assert_eq!(verify(&file), (Some(0), String::new()));
    let told = |file: &str| {
        let words = ["payments", "verify", file, "--audit", audit.to_str().unwrap(), "--output", "json"];
        serde_json::from_slice::<Value>(&sluice(&words).output().unwrap().stdout).unwrap()
    };
    let none = Value::Null;
    let files = json!([{"path": file, "rows": 2, "after": none, "next": none}]);
    let whole = json!({"whole": true, "unchanged": true, "rows": 2, "since": none, "day": none, "zone": none, "gaps": [],
        "compared": true, "flaws": [], "files": files});
    assert_eq!(told(&file), whole);
    // A row of another amount is noticed, even where all else is the same.
    let changed = gate.path("changed.jsonl");
    let text = lines["content"].as_str().unwrap();
    std::fs::write(&changed, text.replacen("createSwap", "createSwop", 1)).unwrap();
    let (code, why) = verify(changed.to_str().unwrap());
    assert!(code == Some(3) && why.contains("the SHA-256 in its last line"), "{why}");
    assert_eq!(told(changed.to_str().unwrap())["whole"], false);
    let url = format!("http://{}", gate.console().unwrap());
    let list = sluice(&["payments", "list", "--text", "p-4", "--console", &url]).env("SLUICE_TOKEN", viewer()).output();
    let list = String::from_utf8(list.unwrap().stdout).unwrap();
    assert!(
        list.lines().count() == 3 && list.contains("unknown") && list.contains("sum  production unknown: 1 call,"),
        "{list}"
    );
    let wrong = ask(&gate, "POST", "payments/export", &viewer(), Some(json!({"format": "xml"})));
    assert_eq!(wrong.status, 400);
}

/// `sluice payments` with these words, at the console of this gate.
fn command(gate: &Gate, words: &[&str]) -> std::process::Command {
    let url = format!("http://{}", gate.console().unwrap());
    let mut command = sluice(&[&["payments"], words, &["--console", &url]].concat());
    command.env("SLUICE_TOKEN", viewer());
    command
}

fn printed(gate: &Gate, words: &[&str]) -> String {
    let output = command(gate, words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn what_an_export_wrote_is_told_in_the_wanted_form() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).file("policies/everything.toml", RULES).start();
    some_payments(&gate, &upstream);
    let export = |format: &str, output: &str| {
        let folder = gate.path(&format!("{format}-{output}"));
        std::fs::create_dir(&folder).unwrap();
        let words = ["export", "--status", "paid", "--format", format, "--output", output, "--folder"];
        let told = printed(&gate, &[&words[..], &[folder.to_str().unwrap()]].concat());
        let written = std::fs::read_dir(&folder).unwrap().next().unwrap().unwrap().path();
        assert_eq!(written.extension().unwrap(), format);
        (told, written.to_str().unwrap().to_owned())
    };
    let (told, path) = export("jsonl", "table");
    assert!(told.starts_with(&format!("`{path}`: 2 payments, SHA-256 ")) && told.lines().count() == 1, "{told}");
    let (told, path) = export("csv", "json");
    let told: Value = serde_json::from_str(&told).unwrap();
    let file = &told["files"][0];
    assert_eq!((&told["since"], told["files"].as_array().unwrap().len()), (&Value::Null, 1), "{told}");
    assert_eq!((&file["path"], &file["rows"], &file["environment"]), (&json!(path), &json!(2), &json!("production")));
    super::audited(&gate, &[("/what", json!("exported")), ("/sha256", file["sha256"].clone())]);
    let (told, path) = export("jsonl", "csv");
    let (head, row) = told.trim_end().split_once('\n').unwrap();
    let cell = |name: &str| head.split(',').position(|one| one == name).map(|at| row.split(',').nth(at).unwrap());
    assert_eq!((cell("path"), cell("rows")), (Some(path.as_str()), Some("2")), "{told}");
    assert!(cell("number").is_some() && cell("sha256").unwrap().len() == 64, "{told}");
    // Nothing is written, and the refusal is told.
    let output = command(&gate, &["export", "--output", "json", "--currency", ""]).output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), told), (Some(4), json!({"files": [], "since": null})), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("the console refused (400 "), "{output:?}");
}

#[test]
fn a_list_has_values_and_sources_where_the_terminal_has_room() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).file("policies/everything.toml", RULES).start();
    some_payments(&gate, &upstream);
    let head = |text: &str| {
        let head = text.lines().next().unwrap().to_owned();
        ["USD", "FROM", "TO", "OPERATION"].map(|column| head.split("  ").any(|one| one.trim() == column))
    };
    let words = ["list", "--status", "paid"];
    let all = printed(&gate, &words);
    assert_eq!(head(&all), [true; 4], "{all}");
    // An amount and its value.
    assert_eq!(all.lines().nth(1).unwrap().matches(" 0.000001 ").count(), 2, "{all}");
    let shown = |columns: u16| {
        let (status, text) = Terminal::of(columns, 24).run(command(&gate, &words));
        assert!(status.success(), "{text}");
        text
    };
    let wide = shown(200);
    assert_eq!(head(&wide), [true; 4], "{wide}");
    let narrow = shown(80);
    assert_eq!(head(&narrow), [false, false, true, false], "{narrow}");
    assert!(narrow.contains("no room for: OPERATION, FROM, USD (`--output csv` has all)\n"), "{narrow}");
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    let csv = printed(&gate, &[&words[..], &["--output", "csv"]].concat());
    let names: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    assert!(["value", "from.kind", "from.name", "to.name"].iter().all(|name| names.contains(name)), "{csv}");
    let json = printed(&gate, &[&words[..], &["--output", "json"]].concat());
    let told: Value = serde_json::from_str(&json).unwrap();
    assert!(told["payments"][0]["value"] == 1 && told["payments"][0]["from"].is_object(), "{json}");
}
