//! A caller with a prefix uses its own requestIds, and nobody can take them first.

use serde_json::Value;

use super::{assert_again, swap, told};
use crate::support::gate::sluice;
use crate::support::token::{claims, signed};
use crate::support::{Act, Call, Setup, Upstream};

/// A swap of a caller under this requestId.
fn by(subject: &str, id: &str) -> Call {
    let mut said: Value = claims();
    said["sub"] = subject.into();
    let call = swap();
    let body = String::from_utf8(call.body_bytes()).unwrap().replace(&call.request_id(), id);
    let call = crate::support::post("/v2/wallets/swaps").json(body);
    call.without("Authorization").header("Authorization", format!("Bearer {}", signed(&said)))
}

#[test]
fn nobody_takes_anothers_request_id_first() {
    let upstream = Upstream::start();
    upstream.always(Act::done(201));
    let setup =
        Setup::of(&upstream).set_raw("", "request_id_prefixes", r#"["main:payroll=pay-", "main:treasury=tre-"]"#);
    let gate = setup.start();
    for (who, id) in
        [("other", "pay-1"), ("treasury", "pay-1"), ("other", "PAY-1"), ("payroll", "1"), ("payroll", "tre-1")]
    {
        let refused = by(who, id).send(gate.production());
        assert_eq!(told(&refused), "400 INVALID_REQUEST not-executed", "{who} {id}: {refused}");
        assert_eq!(refused.violations(), ["/requestId prefix"]);
        let tells = |text: &str| refused.text().contains(text);
        assert!(!tells("treasury") && !tells("payroll") && (who != "other" || !tells("pay-")), "{refused}");
    }
    assert!(upstream.seen().is_empty());
    for (who, id) in [("payroll", "pay-1"), ("treasury", "tre-1"), ("other", "1")] {
        let paid = by(who, id).send(gate.production());
        assert_eq!(told(&paid), "201 - executed", "{who} {id}");
        assert_again(&paid, &by(who, id).send(gate.production()));
    }
    // Whoever meets another's requestId is told that it is used, and that is counted.
    let met = r#"sluice_claims_met_total{environment="production",said="reused"}"#;
    assert_eq!(gate.metric(met), 0);
    assert_eq!(told(&by("another", "1").send(gate.production())), "422 REQUEST_ID_REUSED unknown");
    assert_eq!(gate.metric(met), 1);
}

/// What `sluice check` says of a configuration, and whether it accepts it.
fn checked(setup: &Setup) -> (bool, String) {
    let config = setup.write();
    let output = sluice(&["check", "--config", config.to_str().unwrap()]).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[test]
fn check_refuses_prefixes_that_overlap_and_recommends_them_to_several_issuers() {
    let upstream = Upstream::start();
    let setup = || Setup::of(&upstream);
    for (given, says) in [
        (r#"["main:payroll"]"#, "not a caller and its prefix"),
        (r#"["main:a=x-", "main:b=x-y"]"#, "one begins with the other"),
        (r#"["main:a=x-", "nobody:b=y-"]"#, "there is no `[issuer.nobody]`"),
    ] {
        let (is_good, text) = checked(&setup().set_raw("", "request_id_prefixes", given));
        assert!(!is_good && text.contains(says), "{given}: {text}");
    }
    let recommended = "another caller can take their requestIds first";
    assert!(!checked(&setup()).1.contains(recommended));
    let second = || {
        let setup = setup().set("issuer.second", "issuer", "https://second.test");
        let setup = setup.set_raw("issuer.second", "audience", r#"["sluice"]"#);
        let setup = setup.set_raw("issuer.second", "environments", r#"["production"]"#);
        let setup = setup.set_raw("issuer.second", "algorithms", r#"["HS256"]"#);
        setup.set("issuer.second", "shared_secret", crate::support::token::SECRET)
    };
    assert!(checked(&second()).1.contains(recommended));
    let with = second().set_raw("", "request_id_prefixes", r#"["main=m-", "second=s-"]"#);
    assert!(!checked(&with).1.contains(recommended));
}
