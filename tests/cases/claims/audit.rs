//! No money moves unrecorded: before upstream sees a call, its Entry is on disk.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{named, pay, swap, told};
use crate::support::shape::{ID, operation, operations, valid};
use crate::support::shared::Shared;
use crate::support::token::token;
use crate::support::{Act, Setup, Upstream, post};

/// Every Entry of the chain, in the order of its files.
pub fn entries(folder: &Path) -> Vec<Value> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    files.sort();
    let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    let whole = texts.iter().flat_map(|text| text.split_inclusive('\n')).filter(|line| line.ends_with('\n'));
    let lines = whole.map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["entry"].is_object()).collect()
}

fn sending<'e>(entries: &'e [Value], trace: &str) -> Option<&'e Value> {
    entries.iter().find(|line| line["entry"]["what"] == "sending" && line["entry"]["trace"] == trace)
}

#[test]
fn what_upstream_sees_is_on_disk_before() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let folder = gate.path("sluice-audit");
    let recorded: Shared<(bool, String)> = Shared::new();
    let (seen, audit) = (recorded.clone(), folder.clone());
    upstream.watch(move |head| {
        let trace = head.header("x-request-id").unwrap();
        seen.push((sending(&entries(&audit), &trace).is_some(), trace));
    });
    let mut sent = 0;
    for operation in operations().filter(|operation| operation.is_write()) {
        for round in 0..5 {
            let call = valid(operation).header("X-Request-Id", format!("{}-{round}", operation.id));
            assert_eq!(told(&call.send(gate.production())), "200 - executed");
            sent += 1;
        }
    }
    let missing: Vec<String> = recorded.all().into_iter().filter(|(is, _)| !is).map(|(_, trace)| trace).collect();
    assert_eq!((recorded.all().len(), missing), (sent, Vec::new()));
    let entries = entries(&folder);
    let entry = sending(&entries, "createSwap-0").unwrap();
    assert_eq!((&entry["environment"], &entry["node"]), (&"production".into(), &"gate".into()));
    assert_eq!(entry["entry"]["operation"], "createSwap");
    assert_eq!(entry["entry"]["owner"]["subject"], "test");
    assert!(entry["entry"]["requestId"].is_string() && entry["entry"]["fingerprint"].is_string(), "{entry}");
}

#[test]
fn what_is_answered_without_sending_leaves_no_sending_entry() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let call = swap();
    assert_eq!(told(&call.clone().header("X-Request-Id", "sent").send(gate.production())), "200 - executed");
    call.clone().header("X-Request-Id", "replayed").send(gate.production());
    pay("{}").header("X-Request-Id", "refused").send(gate.production());
    let entries = entries(&gate.path("sluice-audit"));
    assert!(sending(&entries, "sent").is_some());
    assert!(sending(&entries, "replayed").is_none() && sending(&entries, "refused").is_none());
}

#[test]
fn every_attempt_has_an_end_in_the_chain() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let refused = r#"{"status":"error","error":{"code":"X","message":"y"}}"#;
    let acts = [
        ("executed", Act::done(201)),
        ("not-executed", Act::json(400, refused)),
        ("undone", Act::json(429, refused)),
        ("unknown", Act::silence().close()),
    ];
    for (what, act) in &acts {
        upstream.next(act.clone());
        pay(named(what)).send(gate.production());
    }
    let setup = gate.end();
    let entries = entries(&setup.path("sluice-audit"));
    for (what, _) in &acts {
        let of_it = entries.iter().filter(|line| line["entry"]["requestId"] == *what);
        let said: Vec<&str> = of_it.filter_map(|line| line["entry"]["what"].as_str()).collect();
        assert_eq!(said, ["sending", what], "{entries:#?}");
    }
    let numbers: Vec<u64> = entries.iter().map(|line| line["number"].as_u64().unwrap()).collect();
    let mut counted = numbers.clone();
    counted.sort_unstable();
    assert_eq!(counted, (1..=numbers.len() as u64).collect::<Vec<_>>(), "a number a commit, without a gap");
}

/// A file is full, and the next one cannot be begun: its folder is gone.
#[test]
fn without_its_chain_no_money_moves_and_it_goes_on_by_itself() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).set_raw("audit", "file_bytes", "4096").start();
    let (folder, away) = (gate.path("sluice-audit"), gate.path("away"));
    let paid = swap();
    assert_eq!(told(&paid.send(gate.production())), "200 - executed");
    fs::rename(&folder, &away).unwrap();
    let refused = (0..100).find_map(|_| {
        let call = swap();
        let answer = call.send(gate.production());
        (answer.status != 200).then_some((call, answer))
    });
    let (call, answer) = refused.unwrap();
    assert_eq!(told(&answer), "503 AUDIT_UNAVAILABLE not-executed", "{answer}");
    assert!(answer.header("retry-after").is_some() && answer.origin() == "gateway", "{answer}");
    let sent = upstream.seen().len();
    for operation in operations().filter(|operation| operation.is_write()) {
        let answer = valid(operation).send(gate.production());
        assert_eq!(told(&answer), "503 AUDIT_UNAVAILABLE not-executed", "{}", operation.id);
    }
    assert_eq!(told(&paid.send(gate.production())), "200 - executed again", "what was paid is told");
    assert_eq!(upstream.seen().len(), sent);
    assert_eq!(valid(operation("listUsers")).send(gate.production()).status, 200, "reads go on");

    fs::rename(&away, &folder).unwrap();
    gate.log.wait("the chain to be written again", |lines| {
        lines.iter().any(|line| line["message"] == "the audit chain can be written again").then_some(())
    });
    assert_eq!(told(&call.send(gate.production())), "200 - executed");
    assert_eq!(told(&call.send(gate.production())), "200 - executed again");
    assert_eq!(upstream.seen().len(), sent + 2);
}

#[test]
fn the_chain_says_nothing_of_bodies_and_tokens() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let person = "Zaphod-Beeblebrox";
    let call = post("/v2/users/u-1").json(format!(r#"{{"type":"individual","firstName":"{person}"}}"#));
    upstream.next(Act::json(200, format!(r#"{{"id":"{ID}","name":"{person}"}}"#)));
    assert_eq!(told(&call.send(gate.production())), "200 - executed");
    let amount = "123.456789";
    let body = named("r-1").replace("\"source\":{}", &format!("\"source\":{{\"amount\":\"{amount}\"}}"));
    assert_eq!(told(&pay(body).send(gate.production())), "200 - executed");
    let setup = gate.end();
    let chain = format!("{:?}", entries(&setup.path("sluice-audit")));
    assert!(chain.contains("updateUser") && chain.contains("r-1"));
    for word in [person, amount, token()] {
        assert!(!chain.contains(word), "{word} stands in the chain");
    }
}
