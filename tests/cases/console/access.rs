//! Who may do what.

use serde_json::{Value, json};

use super::{ISSUER, PEOPLE, act, ask, console, operator, token_of};
use crate::support::token::{claims, signed};
use crate::support::{Call, Setup, Upstream, get, post};

/// Every act, with what it sends; and whether it is the operators' alone.
fn acts() -> Vec<(&'static str, &'static str, Option<Value>, bool)> {
    let frozen = json!({"environment": "production", "scope": {"operation": "createOfframp"}, "reason": "r"});
    let absent = json!({"outcome": "absent", "reason": "r"});
    vec![
        ("GET", "freezes", None, false),
        ("POST", "freezes", Some(frozen.clone()), true),
        ("POST", "freezes/lift", Some(frozen), true),
        ("GET", "requests", None, false),
        ("GET", "requests/production/none", None, false),
        ("POST", "requests/production/none/resolve", Some(absent), true),
    ]
}

#[test]
fn each_role_may_do_its_acts_and_no_others() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    for role in ["viewer", "approver", "policy-admin", "operator"] {
        for (method, path, body, operators) in acts() {
            let answer = ask(&gate, method, path, &token_of(PEOPLE, "p", &[role]), body);
            let is_refused = answer.status == 403;
            assert_eq!(is_refused, operators && role != "operator", "{role} {method} {path}: {answer}");
            assert!(is_refused || [200, 201, 202, 404].contains(&answer.status), "{role} {method} {path}: {answer}");
        }
    }
    for roles in [&[][..], &["admin"], &["Operator"], &["operators"], &["operator viewer"]] {
        for (method, path, body, _) in acts() {
            let answer = ask(&gate, method, path, &token_of(PEOPLE, "p", roles), body);
            // One text with blanks in it is a list of roles elsewhere; in a list it is one role, which nobody has.
            assert_eq!((answer.status, answer.code().as_str()), (403, "FORBIDDEN"), "{roles:?} {method} {path}");
        }
    }
}

#[test]
fn only_believed_tokens_of_the_consoles_issuer_are_taken() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream).set("issuer.main", "roles", "roles")).start();
    let mut expired = claims();
    expired["iss"] = json!(PEOPLE);
    expired["roles"] = json!(["operator"]);
    expired["iat"] = json!(1_700_000_000);
    expired["exp"] = json!(1_700_000_600);
    let mut bound = claims();
    bound["iss"] = json!(PEOPLE);
    bound["roles"] = json!(["operator"]);
    bound["cnf"] = json!({"x5t#S256": "A".repeat(43)});
    let good = operator("ops-1");
    let altered = format!("{}x", good);
    let bad = [
        ("an API caller's", token_of(ISSUER, "test", &["operator"])),
        ("another issuer's", token_of("https://nobody.test", "ops-1", &["operator"])),
        ("an expired one", signed(&expired)),
        ("an altered one", altered),
        ("one bound to a certificate", signed(&bound)),
        ("none that is one", "x".to_owned()),
    ];
    for (method, path, body, _) in acts() {
        for (what, token) in &bad {
            let answer = ask(&gate, method, path, token, body.clone());
            assert_eq!((answer.status, answer.code().as_str()), (401, "UNAUTHORIZED"), "{what} {method} {path}");
            assert!(answer.header("www-authenticate").is_some(), "{what}");
        }
        let call = act(method, path, &good).without("Authorization");
        assert_eq!(call.send(gate.console().unwrap()).status, 401, "{method} {path}");
        let twice = act(method, path, &good).header("Authorization", format!("Bearer {good}"));
        assert!([400, 401].contains(&twice.send(gate.console().unwrap()).status), "{method} {path}");
        let basic = act(method, path, "x").without("Authorization").header("Authorization", "Basic b3BzOng=");
        assert_eq!(basic.send(gate.console().unwrap()).status, 401, "{method} {path}");
    }
    assert!(ask(&gate, "GET", "freezes", &good, None).json()["freezes"].as_array().unwrap().is_empty());
    assert!(gate.metric("sluice_tokens_refused_total{environment=\"console\",reason=\"foreign\"}") >= 6);
}

#[test]
fn a_persons_token_is_good_at_no_gate_and_a_gate_serves_no_people() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let call = get("/v2/users").without("Authorization");
    let answer = call.header("Authorization", format!("Bearer {}", operator("ops-1"))).send(gate.production());
    assert_eq!((answer.status, answer.code().as_str()), (403, "FORBIDDEN"));
    assert_eq!(act("GET", "freezes", &operator("ops-1")).send(gate.production()).status, 404);
    assert_eq!(get("/v2/users").send(gate.console().unwrap()).status, 404);
    assert_eq!(upstream.seen().len(), 0);
}

#[test]
fn without_a_section_there_is_no_console() {
    let upstream = Upstream::start();
    let gate = Setup::of(&upstream).start();
    assert_eq!(gate.console(), None);
    assert_eq!(Call::new("GET", "/sluice/v1/freezes").send(gate.production()).status, 404);
}

#[test]
fn the_document_is_served_to_everybody() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let answer = act("GET", "openapi.json", "x").without("Authorization").send(gate.console().unwrap());
    assert_eq!(answer.status, 200);
    let shipped: Value = serde_json::from_str(include_str!("../../../schemas/console.json")).unwrap();
    assert_eq!(answer.json(), shipped);
}

/// Errors of the gate and of its console link to help on their codes, which is there without a token.
#[test]
fn an_error_links_to_help_on_its_code() {
    let upstream = Upstream::start();
    let gate = console(Setup::of(&upstream)).start();
    let (caller, people) = (gate.production(), gate.console().unwrap());
    let stranger = |target: &str| get(target).without("Authorization");
    for (refused, at, code) in [
        (stranger("/v2/users").send(caller), caller, "UNAUTHORIZED"),
        (get("/v2/users\u{7f}").send(caller), caller, "MALFORMED_REQUEST"),
        (post("/v2/wallets/swaps").json("{}").send(caller), caller, "INVALID_REQUEST"),
        (get("/sluice/v1/holds/x").send(caller), caller, "HOLD_NOT_FOUND"),
        (stranger("/sluice/v1/errors/NO_CODE").send(caller), caller, "OPERATION_NOT_FOUND"),
        (post("/sluice/v1/errors/FROZEN").json("{}").send(caller), caller, "METHOD_NOT_ALLOWED"),
        (stranger("/sluice/v1/freezes").send(people), people, "UNAUTHORIZED"),
        (stranger("/sluice/v1/errors/NO_CODE").send(people), people, "OPERATION_NOT_FOUND"),
        (act("GET", "requests/production/none", "x").send(people), people, "UNAUTHORIZED"),
    ] {
        assert_eq!(refused.code(), code, "{refused}");
        let path = format!("/sluice/v1/errors/{code}");
        assert_eq!(refused.header("link").unwrap(), format!("<{path}>; rel=\"help\""), "{refused}");
        let details = &refused.json()["error"]["details"];
        assert!(details.is_null() || details["docs"] == path, "{refused}");
        let help = stranger(&path).send(at);
        assert_eq!((help.status, &help.json()["code"]), (200, &json!(code)), "{help}");
        assert!(help.json()["answers"][0]["meaning"].is_string(), "{help}");
    }
    assert!(get("/v2/users").send(caller).header("link").is_none());
    assert!(upstream.seen().len() == 1, "{:?}", upstream.seen());
}
