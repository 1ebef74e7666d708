//! What counts together, and which calls a rate is about.

use super::{by, call, list, passed, rate, token, with};
use crate::support::shape::{operation, valid};
use crate::support::token::{SECRET, claims, signed};
use crate::support::{Setup, Upstream, get};

#[test]
fn each_key_has_buckets_of_its_own() {
    let (upstream, sandbox) = (Upstream::start(), Upstream::start());
    let one = call("listUsers", &token("one", &["a"]));
    for (key, other, other_is_sandbox) in [
        ("caller", call("listUsers", &token("two", &["a"])), false),
        ("role", call("listUsers", &token("one", &["b"])), false),
        ("operation", call("listTransfers", &token("one", &["a"])), false),
        ("class", call("createSwap", &token("one", &["a"])), false),
        ("environment", one.clone(), true),
    ] {
        let policies = rate("keyed", &format!("per = [\"{key}\"]\nquota = \"3/h\""));
        let gate = with(Setup::of(&upstream).sandbox(&sandbox), &policies).start();
        assert_eq!(passed(gate.production(), &one, 5), 3, "{key}");
        let address = if other_is_sandbox { gate.sandbox() } else { gate.production() };
        assert_eq!(passed(address, &other, 5), 3, "{key}");
        assert_eq!(passed(gate.production(), &one, 1), 0, "{key}");
    }
}

#[test]
fn issuers_count_apart_and_so_do_their_subjects() {
    let upstream = Upstream::start();
    let policies =
        rate("issuer", "per = [\"issuer\"]\nquota = \"3/h\"") + &rate("who", "per = [\"caller\"]\nquota = \"2/h\"");
    let setup = with(Setup::of(&upstream), &policies)
        .set("issuer.second", "issuer", "https://second.test")
        .set_raw("issuer.second", "audience", r#"["sluice"]"#)
        .set_raw("issuer.second", "environments", r#"["production"]"#)
        .set_raw("issuer.second", "algorithms", r#"["HS256"]"#)
        .set("issuer.second", "shared_secret", SECRET);
    let gate = setup.start();
    let second = |subject: &str| {
        let mut claims = claims();
        (claims["iss"], claims["sub"]) = ("https://second.test".into(), subject.into());
        by(valid(operation("listUsers")), &signed(&claims))
    };
    assert_eq!(passed(gate.production(), &list("one"), 5), 2);
    assert_eq!(passed(gate.production(), &second("one"), 5), 2);
    assert_eq!(passed(gate.production(), &list("two"), 5), 1);
    assert_eq!(passed(gate.production(), &second("two"), 5), 1);
}

#[test]
fn without_keys_all_count_together() {
    let (upstream, sandbox) = (Upstream::start(), Upstream::start());
    let gate = with(Setup::of(&upstream).sandbox(&sandbox), &rate("all", "quota = \"3/h\"")).start();
    assert_eq!(passed(gate.production(), &call("listUsers", &token("one", &["a"])), 1), 1);
    assert_eq!(passed(gate.sandbox(), &call("createSwap", &token("two", &["b"])), 1), 1);
    assert_eq!(passed(gate.production(), &call("cancelSwap", &token("three", &[])), 3), 1);
}

#[test]
fn a_caller_takes_from_each_of_its_roles() {
    let upstream = Upstream::start();
    let gate = with(Setup::of(&upstream), &rate("roles", "per = [\"role\"]\nquota = \"3/h\"")).start();
    let of = |roles: &[&str]| call("listUsers", &token("one", roles));
    assert_eq!(passed(gate.production(), &of(&["a", "b"]), 2), 2);
    assert_eq!(passed(gate.production(), &of(&["a"]), 5), 1);
    // One of its roles has nothing left: it is limited, and takes nothing of the other.
    assert_eq!(passed(gate.production(), &of(&["a", "b"]), 5), 0);
    assert_eq!(passed(gate.production(), &of(&["b"]), 5), 1);
    // Leaving roles out is no way around.
    assert_eq!(passed(gate.production(), &of(&[]), 5), 3);
}

#[test]
fn a_rate_is_about_what_it_selects() {
    let (upstream, sandbox) = (Upstream::start(), Upstream::start());
    let policies = [
        rate("money", "ops = [\"@money\"]\nquota = \"2/h\""),
        rate("sandbox", "environment = [\"sandbox\"]\nquota = \"1/h\""),
        rate("runaway", "caller = [\"main:loop\"]\nissuer = [\"main\"]\nquota = \"1/h\""),
        rate("guests", "role = [\"guest\"]\nper = [\"caller\"]\nquota = \"1/h\""),
    ];
    let gate = with(Setup::of(&upstream).sandbox(&sandbox), &policies.concat()).start();
    let at = gate.production();
    assert_eq!(passed(at, &list("one"), 10), 10);
    assert_eq!(passed(at, &call("createSwap", &token("one", &[])), 2), 2);
    assert_eq!(passed(at, &call("createOfframp", &token("two", &[])), 2), 0);
    assert_eq!(passed(at, &call("cancelSwap", &token("one", &[])), 5), 5);
    assert_eq!(passed(gate.sandbox(), &list("one"), 5), 1);
    assert_eq!(passed(at, &list("loop"), 5), 1);
    assert_eq!(passed(at, &call("listUsers", &token("one", &["guest"])), 5), 1);
}

/// Other spellings of a call, other tokens of a caller and other connections are the same call, or none at all.
#[test]
fn nothing_that_a_caller_writes_makes_it_another() {
    let upstream = Upstream::start();
    let policies = rate("caller", "per = [\"caller\", \"operation\"]\nquota = \"4/h\"");
    let gate = with(Setup::of(&upstream), &policies).start();
    let token = token("one", &[]);
    let plain = by(valid(operation("listUsers")), &token);
    let calls = [
        plain.clone(),
        plain.clone().header("X-Forwarded-For", "10.0.0.1").header("X-Request-Id", "another"),
        by(get("/v2/users?limit=7"), &super::token("one", &["another-role"])),
        plain.without("Authorization").header("Authorization", format!("bEaReR {token}")),
    ];
    for call in &calls {
        assert_eq!(passed(gate.production(), call, 1), 1);
    }
    for call in &calls {
        assert_eq!(passed(gate.production(), call, 1), 0);
    }
    // These are no operations: nothing is counted, and nothing goes on.
    let before = upstream.seen().len();
    for target in ["/v2/Users", "/V2/users", "/v2/users/", "/v2//users", "/v2/%75sers", "/v2/./users"] {
        let answer = by(get(target), &token).send(gate.production());
        assert!(matches!(answer.status, 400 | 404), "{target}: {answer}");
    }
    assert_eq!(upstream.seen().len(), before);
}
