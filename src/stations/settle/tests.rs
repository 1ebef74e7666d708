use serde_json::{Value, json};

use super::*;
use crate::base::ids::OperationId;
use crate::catalog::{Catalog, SchemaFiles};

const SHAPE_A: &str = r#"{"code":400,"error":"X","errorDetails":"y"}"#;
const SHAPE_D: &str = r#"{"error":"x"}"#;
const OURS: &str = "5eed0001-c1a1-4a5e-9a52-6a1c0f7d4e11";
const THEIRS: &str = "5eed0002-c1a1-4a5e-9a52-6a1c0f7d4e11";
const ID: &str = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11";
const DIRECT: ProofTerms = ProofTerms { injected: false, is_direct: true, is_strict: false, earlier_are_proven: true };

fn settled(
    catalog: &Catalog,
    operation: &str,
    terms: ProofTerms,
    status: u16,
    media: &str,
    body: AnswerBody,
) -> Outcome {
    let operation = catalog.operation(&OperationId::new(operation)).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, media.parse().unwrap());
    let request_id = operation.answered_request_id.is_some().then(|| RequestId::parse(OURS).unwrap());
    let own = CallIds { request_id, record: operation.answered_record.is_some().then(|| ID.to_owned()) };
    settle(operation, &own, terms, Sent::Answered { status, headers, body })
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Executed { .. } => "executed",
        Outcome::NotExecuted(_) => "not executed",
        Outcome::Unknown(_) => "unknown",
    }
}

fn shipped() -> Catalog {
    Catalog::build(&SchemaFiles::built_in(), &[]).unwrap()
}

fn complete(body: &str) -> AnswerBody {
    AnswerBody::Complete(Bytes::copy_from_slice(body.as_bytes()))
}

fn cut(beginning: &str) -> AnswerBody {
    AnswerBody::Incomplete { loss: Loss::Broken, beginning: Bytes::copy_from_slice(beginning.as_bytes()) }
}

fn outcome(status: u16, media: &str, body: Option<&str>) -> &'static str {
    let body = body.map_or_else(|| cut(""), complete);
    word(&settled(&shipped(), "createSwap", DIRECT, status, media, body))
}

fn word_of(operation: &str, status: u16, body: &Value) -> &'static str {
    word(&settled(&shipped(), operation, DIRECT, status, "application/json", complete(&body.to_string())))
}

fn refused(lists: Value, terms: ProofTerms, status: u16, body: &str) -> &'static str {
    let mut files = SchemaFiles::built_in();
    let text = SchemaFiles::built_in();
    let (_, document) = text.schemas().find(|(name, _)| *name == "openapi.json").unwrap();
    let mut document: Value = serde_json::from_slice(document).unwrap();
    document["paths"]["/v2/wallets/swaps"]["post"]["x-sluice"]["notExecuted"] = lists;
    files.insert("openapi.json", document.to_string().into_bytes());
    let catalog = Catalog::build(&files, &[]).unwrap();
    word(&settled(&catalog, "createSwap", terms, status, "application/json", complete(body)))
}

fn swap(details: Value) -> Value {
    json!({"transferType": "WALLET.SWAP", "transferDetails": details})
}

#[test]
fn a_success_is_believed_if_it_is_the_answer_to_this_call() {
    assert_eq!(word_of("createSwap", 201, &swap(json!({"id": ID, "requestId": OURS}))), "executed");
    assert_eq!(word_of("createSwap", 201, &swap(json!({"id": ID, "requestId": OURS.to_uppercase()}))), "executed");
    // An additive or other change of upstream does not turn payments into doubts.
    assert_eq!(word_of("createSwap", 200, &json!({"transferDetails": {"requestId": OURS, "id": 1}})), "executed");
    // Without a requestId, the documented form counts.
    assert_eq!(word_of("createSwap", 200, &swap(json!({"id": ID}))), "executed");
    assert_eq!(word_of("createSwap", 200, &swap(json!({"id": 1}))), "unknown");
    assert_eq!(word_of("createSwap", 200, &swap(json!({"id": ID, "requestId": null}))), "unknown");
    for operation in ["createSwap", "createOfframp"] {
        for body in [json!({}), json!([]), json!(null), json!("ok"), json!({"requestId": OURS})] {
            assert_eq!(word_of(operation, 200, &body), "unknown", "{operation} {body}");
        }
    }
    // Nobody is told another call's answer, however well formed.
    for other in [json!(THEIRS), json!(""), json!(7), json!([OURS])] {
        assert_eq!(word_of("createSwap", 201, &swap(json!({"id": ID, "requestId": other}))), "unknown", "{other}");
    }
    assert_eq!(word_of("createSettlementRule", 201, &json!({"id": ID})), "executed");
    assert_eq!(word_of("createSettlementRule", 201, &json!({"id": ID, "requestId": THEIRS})), "unknown");
    // Another 2xx than the documented one is judged by the form of the documented one.
    assert_eq!(word_of("acceptOffer", 201, &json!({"id": ID})), "executed");
    assert_eq!(word_of("acceptOffer", 200, &json!({"status": "ACCEPTED"})), "unknown");
}

#[test]
fn a_success_of_more_values_than_are_read_is_unknown() {
    let with = |count: usize| {
        let mut answer = swap(json!({"id": ID, "requestId": OURS}));
        answer["more"] = json!(vec![0; count]);
        word_of("createSwap", 200, &answer)
    };
    assert_eq!((with(130_000), with(131_072)), ("executed", "unknown"));
    // Of one that is read, and is no record of this call, no tree is made.
    let other = json!({"more": vec![json!({"a": 0}); 60_000]});
    let catalog = shipped();
    let told = settled(&catalog, "createSwap", DIRECT, 200, "application/json", complete(&other.to_string()));
    let Outcome::Unknown(Doubt::Unbelieved { violation, .. }) = told else { panic!("{told:?}") };
    assert_eq!(violation.keyword, "schema", "{violation:?}");
}

#[test]
fn a_success_must_be_the_record_that_the_path_names() {
    let details = |id: &str| swap(json!({ "id": id }));
    for (operation, ours, theirs) in
        [("acceptOffer", json!({ "id": ID }), json!({ "id": THEIRS })), ("cancelSwap", details(ID), details(THEIRS))]
    {
        assert_eq!(word_of(operation, 200, &ours), "executed", "{operation}");
        assert_eq!(word_of(operation, 200, &theirs), "unknown", "{operation}");
    }
    assert_eq!(word_of("acceptOffer", 200, &json!({"id": ID.to_uppercase()})), "executed");
    for other in [json!({}), json!({"id": null}), json!({"id": [ID]})] {
        assert_eq!(word_of("acceptOffer", 200, &other), "unknown", "{other}");
    }
}

#[test]
fn a_success_that_is_not_json_is_unknown() {
    let body = swap(json!({"id": ID, "requestId": OURS})).to_string();
    assert_eq!(outcome(200, "application/json; charset=utf-8", Some(&body)), "executed");
    for media in ["text/html", "text/plain", "application/problem+json", ""] {
        assert_eq!(outcome(200, media, Some(&body)), "unknown", "{media}");
        assert_eq!(outcome(200, media, None), "unknown", "{media}");
    }
    for body in ["<h1>maintenance</h1>", "", "{\"a\":"] {
        assert_eq!(outcome(200, "application/json", Some(body)), "unknown", "{body}");
    }
}

/// Neither leaves a doubt: the requestId is free again.
#[test]
fn a_call_of_which_nothing_was_sent_was_not_executed() {
    let catalog = shipped();
    let operation = catalog.operation(&OperationId::new("createSwap")).unwrap();
    for terms in [DIRECT, ProofTerms { injected: true, is_direct: false, is_strict: true, earlier_are_proven: false }] {
        for sent in [Sent::TooLate, Sent::NotWritten] {
            let is_late = matches!(sent, Sent::TooLate);
            let outcome = settle(operation, &CallIds::default(), terms, sent);
            assert_eq!(matches!(outcome, Outcome::NotExecuted(NotExecuted::TooLate)), is_late, "{outcome:?}");
            assert_eq!(word(&outcome), "not executed");
            let nothing = StoredAnswer { status: 503, headers: HeaderMap::new(), body: Bytes::new() };
            assert_eq!(event(&outcome, nothing), ClaimEvent::Undone { status: None });
        }
    }
}

#[test]
fn a_doubt_has_the_cause_that_people_read() {
    let cause = |status, media, body: &str| {
        let outcome = settled(&shipped(), "createSwap", DIRECT, status, media, complete(body));
        let nothing = StoredAnswer { status, headers: HeaderMap::new(), body: Bytes::new() };
        match event(&outcome, nothing) {
            ClaimEvent::Doubted(cause) => cause.as_str(),
            _ => "-",
        }
    };
    let theirs = swap(json!({"id": ID, "requestId": THEIRS})).to_string();
    assert_eq!(cause(200, "text/html", "<p>maintenance</p>"), "unbelieved");
    assert_eq!(cause(201, "application/json", &theirs), "unbelieved");
    assert_eq!(cause(200, "application/json", "{}"), "unbelieved");
    assert_eq!(cause(500, "application/json", SHAPE_A), "unproven");
    assert_eq!(cause(302, "application/json", SHAPE_A), "unproven");
}

#[test]
fn a_success_that_breaks_off_is_believed_if_its_beginning_names_this_call() {
    let word_of = |operation: &str, beginning: &str| {
        word(&settled(&shipped(), operation, DIRECT, 201, "application/json", cut(beginning)))
    };
    let ours = format!(r#"{{"transferType":"WALLET.SWAP","transferDetails":{{"requestId":"{OURS}""#);
    for rest in ["", ",", r#","id":"9f1c"#, r#","x":[{"y":1"#, r#"},"next":{"requestId":"#, "}}", ",\"ä"] {
        assert_eq!(word_of("createSwap", &format!("{ours}{rest}")), "executed", "{rest}");
    }
    let broken = [ours.as_bytes(), b",\"\xc3".as_slice()].concat();
    let broken = AnswerBody::Incomplete { loss: Loss::Silent, beginning: broken.into() };
    assert_eq!(word(&settled(&shipped(), "createSwap", DIRECT, 200, "application/json", broken)), "executed");
    for beginning in [
        "",
        " ",
        "<html>maintenance",
        r#"{"message":"under maintenance, nothing was done"#,
        r#"{"status":"error","error":{"code":"NOT_EXECUTED","message":"nothing was executed"}"#,
        r#"{"transferType":"WALLET.SWAP","transferDetails":{"id":"9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11","#,
        r#"{"transferType":"WALLET.SWAP","transferDetails":{"requestId":"#,
        r#"{"transferDetails":{"requestId":null,"#,
        r#"{"transferDetails":{"requestId":["5eed0001-c1a1-4a5e-9a52-6a1c0f7d4e11"#,
        // Another place.
        r#"{"requestId":"5eed0001-c1a1-4a5e-9a52-6a1c0f7d4e11","#,
        r#"{"error":{"requestId":"5eed0001-c1a1-4a5e-9a52-6a1c0f7d4e11","#,
        // Not all of it.
        r#"{"transferDetails":{"requestId":"5eed0001-c1a1-4a5e-9a52-6a1c0f7d4e11"#,
        r#"{"transferDetails":{"requestId":"5eed0001-c1a1-4a5e-9a52-6a1c0f7d4e1"#,
        // Another call's.
        r#"{"transferDetails":{"requestId":"5eed0002-c1a1-4a5e-9a52-6a1c0f7d4e11","id":"x""#,
        // Not JSON.
        r#"{"transferDetails":{"requestId":"5eed0001-c1a1-4a5e-9a52-6a1c0f7d4e11"<p>"#,
        r#"{"transferDetails":{"requestId":"5eed0001-c1a1-4a5e-9a52-6a1c0f7d4e11","requestId":"x"}"#,
    ] {
        assert_eq!(word_of("createSwap", beginning), "unknown", "{beginning}");
    }
    // Where answers have no requestId, the record that the path names.
    for (operation, ours, theirs) in [
        ("acceptOffer", format!(r#"{{"id":"{ID}","#), format!(r#"{{"id":"{THEIRS}","#)),
        ("cancelSwap", swap(json!({ "id": ID })).to_string(), swap(json!({ "id": THEIRS })).to_string()),
    ] {
        assert_eq!(word_of(operation, &ours), "executed", "{ours}");
        assert_eq!(word_of(operation, &theirs), "unknown", "{theirs}");
        assert_eq!(word_of(operation, "{"), "unknown");
    }
    // Where they have neither, only a whole answer tells.
    assert_eq!(word_of("updateUser", &format!(r#"{{"id":"{ID}","#)), "unknown");
}

#[test]
fn only_a_documented_refusal_proves_that_nothing_happened() {
    for status in [400, 401, 403, 404, 413, 415, 422, 429] {
        assert_eq!(outcome(status, "application/json", Some(SHAPE_A)), "not executed", "{status}");
        assert_eq!(outcome(status, "application/json; charset=utf-8", Some(SHAPE_D)), "not executed", "{status}");
        assert_eq!(outcome(status, "text/html", Some(SHAPE_A)), "unknown", "{status}");
        assert_eq!(outcome(status, "application/json", Some("<html>")), "unknown", "{status}");
        assert_eq!(outcome(status, "application/json", Some("{}")), "unknown", "{status}");
        assert_eq!(outcome(status, "application/json", None), "unknown", "{status}");
    }
    for status in [302, 307, 402, 405, 408, 409, 410, 418, 500, 502, 503, 504] {
        assert_eq!(outcome(status, "application/json", Some(SHAPE_A)), "unknown", "{status}");
    }
}

#[test]
fn a_refusal_of_a_repeat_proves_nothing() {
    let exists = r#"{"error":"this transaction request already exists"}"#;
    let twin = r#"{"status":"error","error":{"code":"DUPLICATE_REQUEST_ID","message":"x"}}"#;
    for status in [400, 403, 422, 429] {
        assert_eq!(outcome(status, "application/json", Some(exists)), "unknown", "{status}");
        assert_eq!(outcome(status, "application/json", Some(twin)), "unknown", "{status}");
        // A status alone says too little about a repeat; a code is what the provider's word is about.
        assert_eq!(refused(json!({"proves": [{"status": status}]}), DIRECT, status, twin), "unknown", "{status}");
        let by_code = json!({"proves": [{"status": status, "codes": ["DUPLICATE_REQUEST_ID"]}]});
        assert_eq!(refused(by_code, DIRECT, status, twin), "not executed", "{status}");
    }
}

#[test]
fn the_lists_decide_on_an_attempt_before_which_nothing_is_open() {
    let refusal = r#"{"status":"error","error":{"code":"RULED_OUT","message":"x"}}"#;
    for (terms, unlisted, proves) in [
        (DIRECT, "not executed", "not executed"),
        (ProofTerms { is_strict: true, ..DIRECT }, "unknown", "not executed"),
        (ProofTerms { is_direct: false, ..DIRECT }, "not executed", "not executed"),
        // A refusal of this attempt says nothing of an earlier one that people called absent, or that is unresolved.
        (ProofTerms { earlier_are_proven: false, ..DIRECT }, "unknown", "unknown"),
    ] {
        assert_eq!(refused(json!({}), terms, 422, refusal), unlisted, "{terms:?}");
        for status in [402, 409, 422] {
            let by_code = json!([{"status": status, "codes": ["RULED_OUT"]}]);
            for listed in [by_code, json!([{"status": status}])] {
                assert_eq!(refused(json!({"proves": listed}), terms, status, refusal), proves, "{terms:?}");
                assert_eq!(refused(json!({"doesNotProve": listed}), terms, status, refusal), "unknown", "{terms:?}");
            }
        }
    }
}

#[test]
fn refusals_that_a_proxy_could_make_prove_nothing_behind_one() {
    let proxied = ProofTerms { is_direct: false, ..DIRECT };
    for status in [401, 429] {
        for (terms, expected) in [
            (DIRECT, "not executed"),
            (proxied, "unknown"),
            (ProofTerms { is_strict: true, ..DIRECT }, "unknown"),
            (ProofTerms { earlier_are_proven: false, ..DIRECT }, "unknown"),
        ] {
            for injected in [false, true] {
                let terms = ProofTerms { injected, ..terms };
                assert_eq!(refused(json!({}), terms, status, SHAPE_A), expected, "{status} {terms:?}");
            }
        }
        // Whatever the provider says of its own answers, these may be another's.
        assert_eq!(refused(json!({"proves": [{"status": status}]}), proxied, status, SHAPE_A), "unknown");
    }
}
