//! Which answers of upstream are believed: a success that is this call's own, and a refusal that proves what it says.

use serde_json::json;

use super::claims::{assert_again, swap, told};
use super::holds;
use crate::support::clock::wait_until;
use crate::support::shape::{ID, examples, operation, swap_record};
use crate::support::{Act, Call, Gate, Setup, Upstream, copy_folder};

const BUSY: &str = r#"{"code":429,"error":"TOO_MANY","errorDetails":"later"}"#;
const REFUSED: &str = r#"{"status":"error","error":{"code":"NO_SUCH_WALLET","message":"y"}}"#;
const UNKNOWN: &str = "409 OUTCOME_UNKNOWN unknown";

fn record_of(request_id: &str) -> String {
    json!({"transferType": "WALLET.SWAP", "transferDetails": {"id": ID, "requestId": request_id}}).to_string()
}

fn request_id(call: &Call) -> String {
    let body: serde_json::Value = serde_json::from_slice(&call.body_bytes()).unwrap();
    body["requestId"].as_str().unwrap().to_owned()
}

#[test]
fn a_record_of_another_call_is_never_this_calls_answer() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let (ours, theirs) = (swap(), swap());
    upstream.next(Act::json(201, record_of(&request_id(&theirs))));
    assert_eq!(told(&ours.send(gate.production())), "502 OUTCOME_UNKNOWN unknown");
    assert_eq!(told(&ours.send(gate.production())), UNKNOWN);
    // The other call is another call.
    upstream.next(Act::json(201, record_of(&request_id(&theirs).to_uppercase())));
    let first = theirs.send(gate.production());
    assert_eq!(told(&first), "201 - executed", "{first}");
    assert_again(&first, &theirs.send(gate.production()));
    assert_eq!(upstream.seen().len(), 2);
}

#[test]
fn a_maintenance_page_is_nobodys_answer() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let call = swap();
    upstream.next(Act::answer(200, "text/html", "<h1>Back soon</h1> at pg-host.internal"));
    let first = call.send(gate.production());
    assert_eq!((told(&first).as_str(), first.origin().as_str()), ("502 OUTCOME_UNKNOWN unknown", "gateway"));
    let again = call.send(gate.production());
    assert_eq!(told(&again), UNKNOWN);
    assert!(!first.text().contains("soon") && !again.text().contains("soon"), "{first}{again}");
    assert_eq!(upstream.seen().len(), 1);
}

/// How a gate is set up, and what a refusal proves there.
type Terms = (&'static str, fn(Setup) -> Setup, bool);

fn told_of(status: u16, body: &str, terms: fn(Setup) -> Setup) -> (String, usize) {
    let upstream = Upstream::start();
    let gate = terms(Setup::of(&upstream)).start();
    let call = swap();
    upstream.next(Act::json(status, body));
    let first = told(&call.send(gate.production()));
    call.send(gate.production());
    (first, upstream.seen().len())
}

/// A proxy in between may answer 429 after it has passed the call on.
#[test]
fn refusals_of_a_proxy_in_between_prove_nothing() {
    let rows: [Terms; 3] = [
        ("direct", |setup| setup, true),
        ("behind a proxy", |setup| setup.set_raw("production", "upstream_behind_proxy", "true"), false),
        ("strict", |setup| setup.set("production", "unlisted", "unknown"), false),
    ];
    for (name, terms, is_proof) in rows {
        for status in [401, 429] {
            let (first, sent) = told_of(status, BUSY, terms);
            if is_proof {
                assert_eq!((first, sent), (format!("{status} TOO_MANY not-executed"), 2), "{name}");
            } else {
                assert_eq!((first, sent), (format!("{status} OUTCOME_UNKNOWN unknown"), 1), "{name}");
            }
        }
    }
    let proxied: fn(Setup) -> Setup = |setup| setup.set_raw("production", "upstream_behind_proxy", "true");
    assert_eq!(told_of(422, REFUSED, proxied), ("422 NO_SUCH_WALLET not-executed".to_owned(), 1));
    let strict: fn(Setup) -> Setup = |setup| setup.set("production", "unlisted", "unknown");
    assert_eq!(told_of(422, REFUSED, strict), ("422 OUTCOME_UNKNOWN unknown".to_owned(), 1));
}

/// The gate itself sends a hold again only after a refusal that proves that nothing was executed.
#[test]
fn a_hold_is_not_sent_again_after_a_429_that_proves_nothing() {
    let upstream = Upstream::start();
    let gate = holds::gate(&upstream, holds::RULES).set_raw("production", "upstream_behind_proxy", "true").start();
    let hold = holds::held(&gate, "p-1");
    upstream.next(Act::json(429, BUSY));
    holds::all_agree(&gate, &hold);
    wait_until("it to be in doubt", || holds::swap("p-1", "500").send(gate.production()).code() == "OUTCOME_UNKNOWN");
    // Another hold is released meanwhile, by the same worker.
    let second = holds::held(&gate, "p-2");
    holds::all_agree(&gate, &second);
    assert_eq!(holds::answered(&gate, &holds::swap("p-2", "500")).status, 201);
    let first = upstream.seen().iter().filter(|seen| seen.text().contains("\"p-1\"")).count();
    assert_eq!((first, upstream.seen().len()), (1, 2));
}

fn unlisted(gate: &Gate, status: u16, code: &str) -> u64 {
    let labels = format!("code=\"{code}\",environment=\"production\",operation=\"createSwap\",status=\"{status}\"");
    gate.metric(&format!("sluice_unlisted_refusals_total{{{labels}}}"))
}

#[test]
fn unlisted_refusals_are_counted_until_the_contract_lists_them() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    let personal = r#"{"status":"error","error":{"code":"anna@example.com","message":"y"}}"#;
    let rows = [(422, REFUSED), (422, REFUSED), (400, personal), (409, REFUSED), (403, r#"{"error":"no"}"#)];
    for (status, body) in rows {
        upstream.next(Act::json(status, body));
        swap().send(gate.production());
    }
    // What is not well formed has no code, and a 500 can never prove anything.
    for act in [Act::answer(400, "text/html", "<p>"), Act::json(500, BUSY), Act::json(400, "{}")] {
        upstream.next(act);
        swap().send(gate.production());
    }
    let counts = [(422, "NO_SUCH_WALLET"), (400, "(others)"), (409, "NO_SUCH_WALLET"), (403, "(none)")];
    assert_eq!(counts.map(|(status, code)| unlisted(&gate, status, code)), [2, 1, 1, 1]);
    let text = gate.probe("/metrics").text();
    let series = text.lines().filter(|line| line.starts_with("sluice_unlisted_refusals_total")).count();
    assert!(series == 4 && !text.contains("anna"), "{text}");

    let setup = gate.end();
    let schemas = setup.path("schemas");
    write_contract(&schemas, |document| {
        document["x-sluice"] = json!({"notExecuted": {
            "proves": [{"status": 409, "codes": ["NO_SUCH_WALLET"]}],
            "doesNotProve": [{"status": 422, "codes": ["NO_SUCH_WALLET"]}],
        }});
    });
    let gate = setup.set("catalog", "schemas", schemas.to_str().unwrap()).start();
    for (status, expected) in [(422, "422 OUTCOME_UNKNOWN unknown"), (409, "409 NO_SUCH_WALLET not-executed")] {
        upstream.next(Act::json(status, REFUSED));
        assert_eq!(told(&swap().send(gate.production())), expected);
        assert_eq!(unlisted(&gate, status, "NO_SUCH_WALLET"), 0);
    }
}

/// Writes the built-in contract to a folder, with a change to `openapi.json`.
pub(super) fn write_contract(folder: &std::path::Path, change: impl FnOnce(&mut serde_json::Value)) {
    let from = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas");
    copy_folder(&from, folder);
    let path = folder.join("openapi.json");
    let mut document = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut document);
    std::fs::write(&path, document.to_string()).unwrap();
}

#[test]
fn an_answer_of_more_than_is_documented_is_believed() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    for (_, example) in examples(operation("createSwap"), "answer-good-") {
        let call = swap();
        let mut record: serde_json::Value = serde_json::from_slice(&example).unwrap();
        record["transferDetails"]["requestId"] = json!(request_id(&call));
        record["new"] = json!({"of": "tomorrow"});
        upstream.next(Act::json(200, record.to_string()));
        assert_eq!(told(&call.send(gate.production())), "200 - executed", "{record}");
    }
    upstream.next(Act::json(200, swap_record("A_STATE_OF_TOMORROW")));
    assert_eq!(told(&swap().send(gate.production())), "200 - executed");
}
