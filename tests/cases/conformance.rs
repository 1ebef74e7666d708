//! `sluice conformance`: what it sends, what it tells of a sandbox, and what it refuses.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::gate::sluice;
use crate::support::shape::{examples, operation, operations};
use crate::support::{Act, Setup, Upstream};

const TOKEN: &str = "the-token-of-the-sandbox";

/// A simulator in a process of its own.
pub(super) struct Simulated {
    process: Child,
    pub url: String,
}

impl Simulated {
    pub fn start() -> Simulated {
        Simulated::start_with(&[])
    }

    pub fn start_with(more: &[&str]) -> Simulated {
        Simulated::start_within(more, &[])
    }

    /// One that has these variables in its environment.
    pub fn start_within(more: &[&str], variables: &[(String, String)]) -> Simulated {
        let mut command: Command = sluice(&[&["simulate", "--listen", "127.0.0.1:0"], more].concat());
        command.envs(variables.iter().cloned());
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let first = BufReader::new(process.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        let url = first.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        let url = url.trim_end_matches(';').to_owned();
        Simulated { process, url }
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// The exit code, and everything that was said.
fn conformance(setup: &Setup, more: &[&str]) -> (i32, String) {
    let config = setup.write();
    let words = [&["conformance", "--config", config.to_str().unwrap(), "--environment", "sandbox"], more].concat();
    let output = sluice(&words).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

fn sandbox(url: &str) -> Setup {
    Setup::new().environment("sandbox", url).set("sandbox", "credential", TOKEN)
}

#[test]
fn the_simulator_conforms_and_its_refusals_are_proposed() {
    let simulated = Simulated::start();
    let setup = sandbox(&simulated.url);
    let (code, lines) = conformance(&setup, &[]);
    assert!(code == 0 && lines.contains("The sandbox conforms."), "{lines}");
    assert!(lines.contains("headers of the answers: ") && !lines.contains(TOKEN), "{lines}");
    let (code, text) = conformance(&setup, &["--output", "json"]);
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &told["conforms"]), (0, &true.into()), "{told:#}");
    let proposed = &told["proposals"]["createSwap"]["notExecuted"]["proves"];
    let codes = |status: u64| {
        let of = proposed.as_array().unwrap().iter().find(|one| one["status"] == status);
        of.map(|one| one["codes"].clone()).unwrap_or_default()
    };
    assert_eq!(codes(400), serde_json::json!(["INVALID_JSON", "VALIDATION_ERROR"]), "{told:#}");
    assert_eq!(codes(415), serde_json::json!(["UNSUPPORTED_MEDIA_TYPE"]), "{told:#}");
    // What it proposes is in the contract's own form, and is not proposed again.
    let folder = setup.path("schemas");
    super::belief::write_contract(&folder, |document| {
        for item in document["paths"].as_object_mut().unwrap().values_mut() {
            for operation in item.as_object_mut().unwrap().values_mut() {
                let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
                if let Some(lists) = told["proposals"].get(&id) {
                    operation["x-sluice"]["notExecuted"] = lists["notExecuted"].clone();
                }
            }
        }
    });
    let (code, text) = conformance(&setup, &["--output", "json", "--schemas", folder.to_str().unwrap()]);
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((code, &told["proposals"]), (0, &serde_json::json!({})), "{told:#}");
    for operation in operations() {
        let of = told["answers"].as_array().unwrap().iter().filter(|one| one["operation"] == operation.id.as_str());
        assert!(of.count() >= 2, "{} is not tried", operation.id);
    }
    let journal = crate::support::get("/simulator/data").send(simulated.url["http://".len()..].parse().unwrap());
    assert_eq!(journal.status, 200);
}

#[test]
fn no_request_could_move_money() {
    let upstream = Upstream::start();
    upstream.always(Act::json(400, r#"{"error":"no"}"#));
    let (code, text) = conformance(&sandbox(&upstream.url()), &[]);
    assert_eq!(code, 3, "reads are refused: {text}");
    for seen in upstream.seen() {
        let body: Result<Value, _> = serde_json::from_slice(&seen.body);
        let is_write = !seen.line().starts_with("GET ");
        let swap = operation("createSwap").body.as_ref().unwrap();
        assert!(!is_write || body.is_err() || !swap.accepts(&body.unwrap()), "{}: {}", seen.line(), seen.text());
        let authorization = seen.head.header("authorization").unwrap();
        assert!([format!("Bearer {TOKEN}"), "Bearer invalid".to_owned()].contains(&authorization), "{authorization}");
        assert!(!seen.text().contains("amount"), "{}", seen.text());
    }
    let paths = upstream.seen().iter().filter(|seen| seen.line().starts_with("POST /v2/wallets/swaps")).count();
    assert!(paths >= 6, "{paths}");
}

#[test]
fn what_differs_or_is_accepted_is_told_and_left_alone() {
    let upstream = Upstream::start();
    let record = examples(operation("createSwap"), "answer-good-").remove(0).1;
    upstream.always(Act::json(201, record));
    let (code, text) = conformance(&sandbox(&upstream.url()), &["--output", "json"]);
    let told: Value = serde_json::from_str(&text).unwrap();
    let answers = told["answers"].as_array().unwrap();
    assert_eq!((code, &told["conforms"]), (3, &false.into()));
    let swaps: Vec<&Value> = answers.iter().filter(|one| one["operation"] == "createSwap").collect();
    assert_eq!((swaps.len(), &swaps[0]["accepted"]), (1, &true.into()), "{told:#}");
    assert!(answers.iter().any(|one| one["operation"] == "listUsers" && one["drift"].is_string()), "{told:#}");
}

#[test]
fn production_is_refused_and_so_is_a_sandbox_that_cannot_be_asked() {
    let upstream = Upstream::start();
    let config = Setup::of(&upstream).sandbox(&Upstream::start()).write();
    let words = ["conformance", "--config", config.to_str().unwrap(), "--environment", "production"];
    let output = sluice(&words).output().unwrap();
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("never calls production"));

    let address = upstream.url();
    let same_host = sandbox(&format!("{address}/sandbox")).environment("production", &address);
    let rows = [
        (same_host, "the host and port of `production.upstream`"),
        (Setup::of(&upstream), "no `[sandbox]`"),
        (Setup::new().environment("sandbox", &address), "--token-file"),
    ];
    for (setup, told) in rows {
        let (code, text) = conformance(&setup, &[]);
        assert!(code == 1 && text.contains(told), "{told}: {text}");
    }
    assert_eq!(upstream.seen().len(), 0);

    upstream.always(Act::silence().hang());
    let (code, text) = conformance(&sandbox(&upstream.url()), &["--timeout-ms", "50"]);
    assert!(code == 1 && text.contains("gave no answer: no answer in time"), "{text}");
    drop(upstream);
}

/// What is told of each fact.
fn facts(told: &Value) -> std::collections::BTreeMap<String, String> {
    let text = |row: &Value, name: &str| row[name].as_str().unwrap().to_owned();
    told["following"].as_array().unwrap().iter().map(|row| (text(row, "fact"), text(row, "result"))).collect()
}

#[test]
fn it_tells_what_of_following_a_sandbox_bears_out() {
    let simulated = Simulated::start_with(&["--pace-ms", "300"]);
    let address = simulated.url["http://".len()..].parse().unwrap();
    let body = |request_id: &str| {
        serde_json::json!({
            "requestId": request_id,
            "source": {"userId": "0e8e9f1c-2f53-4a5e-9a52-6a1c0f7d4e22", "chain": "POLYGON", "currency": "usdc", "amount": "5"},
            "destination": {"accountId": "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11"},
        })
    };
    for id in ["00000000-0000-4000-8000-000000000001", "test-deposit-1"] {
        let call = crate::support::post("/v2/offramps").json(body(id).to_string());
        assert_eq!(call.send(address).status, 201);
    }
    let named = ["--output", "json", "--watch-secs", "6", "--request-id", "00000000-0000-4000-8000-000000000001"];
    let (code, text) = conformance(&sandbox(&simulated.url), &named);
    let told: Value = serde_json::from_str(&text).unwrap();
    let facts = facts(&told);
    for fact in ["pages", "states", "ranks", "made-by-upstream", "amounts", "request-ids", "named-calls"] {
        assert_eq!(facts[fact], "borne-out", "{fact}: {told:#}");
    }
    assert_ne!(facts["equal-times"], "differs");
    assert_eq!(code, 0);
}

#[test]
fn a_list_that_cannot_be_followed_is_told() {
    let upstream = Upstream::start();
    let record = |id: &str, state: &str, created: &str| {
        serde_json::json!({"transferType": "OFFRAMP", "transferDetails": {
            "id": id, "requestId": "one-for-all", "status": state, "createdAt": created, "updatedAt": created,
            "source": {"currency": "usdc", "chain": "POLYGON"}, "destination": {"accountId": "x"},
        }})
    };
    let time = "2026-11-25T10:00:00Z";
    let records = [record("r-1", "TELEPORTED", time), record("r-2", "CREATED", "2026-11-25T11:00:00Z")];
    upstream
        .always(Act::json(200, serde_json::json!({"count": 2, "records": records, "nextCursor": time}).to_string()));
    let (code, text) = conformance(&sandbox(&upstream.url()), &["--output", "json", "--request-id", "mine"]);
    let told: Value = serde_json::from_str(&text).unwrap();
    let facts = facts(&told);
    for fact in ["pages", "states", "made-by-upstream", "amounts", "request-ids", "named-calls"] {
        assert_eq!(facts[fact], "differs", "{fact}: {told:#}");
    }
    assert_eq!((facts["ranks"].as_str(), facts["equal-times"].as_str(), code), ("not-shown", "not-shown", 3));
}
