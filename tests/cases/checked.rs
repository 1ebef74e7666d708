//! What `sluice check` says of settings that fit neither the policies nor each other.

use serde_json::Value;

use crate::support::gate::sluice;
use crate::support::{Setup, Upstream};

/// A rule that lets payments wait, and a limit.
const HOLDING: &str = r#"
[group.finance]
members = ["people:anna", "people:bert"]
[approval.payments]
of = "finance"
n = 1
expires = "8h"
[[rule]]
id = "large"
effect = "hold"
approval = "payments"
when = { op = ["createSwap"], amount = "(100, inf) USD" }
[[rule]]
id = "all"
effect = "allow"
when = { op = "*" }
"#;

/// The findings about a gate of production, each with its severity; those that are errors with `--production` as `error`.
fn findings(setup: &Setup) -> Vec<String> {
    let file = setup.write();
    let arguments = ["check", "--production", "--output", "json", "--config", file.to_str().unwrap()];
    let output = sluice(&arguments).output().unwrap();
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |finding: &Value| {
        let part = |name: &str| finding[name].as_str().unwrap_or_default().to_owned();
        format!("{} {}:{} {} ({})", part("severity"), part("file"), part("place"), part("text"), part("remedy"))
    };
    told["findings"].as_array().unwrap().iter().map(text).collect()
}

fn about(setup: &Setup, text: &str) -> Vec<String> {
    findings(setup).into_iter().filter(|finding| finding.contains(text)).collect()
}

/// A gate that would move money, with a console.
fn real(upstream: &Upstream) -> Setup {
    let setup = Setup::of(upstream).set("production", "upstream", "https://api.example.com").file("token", "t");
    let setup = setup.set_raw("production", "credential", "{ file = \"token\" }");
    with_console(setup.set("store", "seal_key", &"5e6f".repeat(16)))
}

fn with_console(setup: Setup) -> Setup {
    setup
        .set("issuer.people", "issuer", "https://people.example.com")
        .set_raw("issuer.people", "audience", "[\"sluice-console\"]")
        .set_raw("issuer.people", "environments", "[]")
        .set_raw("issuer.people", "algorithms", "[\"RS256\"]")
        .set("issuer.people", "jwks_url", "https://people.example.com/keys")
        .set("issuer.people", "roles", "roles")
        .set("console", "listen", "127.0.0.1:8083")
        .set("console", "issuer", "people")
}

#[test]
fn approvers_who_cannot_see_production_are_told() {
    let upstream = Upstream::start();
    let setup = |visible: &str| {
        real(&upstream).file("policies/everything.toml", HOLDING).set_raw("console", "visible", visible)
    };
    let [told] = about(&setup(r#"["approver:sandbox"]"#), "`console.visible`").try_into().unwrap();
    for part in ["error ", "sluice.toml", "`large`", "(add `\"approver:production\"`"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    for visible in [
        "[]",
        r#"["viewer:sandbox"]"#,
        r#"["approver:sandbox", "approver:production"]"#,
        r#"["approver:production:main:payroll"]"#,
    ] {
        assert_eq!(about(&setup(visible), "`console.visible`"), [""; 0], "{visible}");
    }
    let holds_nothing = setup(r#"["approver:sandbox"]"#).file(
        "policies/everything.toml",
        "[[rule]]\nid = \"a\"\neffect = \
        \"allow\"\nwhen = { op = \"*\" }\n",
    );
    assert_eq!(about(&holds_nothing, "`console.visible`"), [""; 0]);
}

#[test]
fn upstreams_that_look_swapped_are_told() {
    let upstream = Upstream::start();
    let setup = |production: &str, sandbox: &str| {
        let setup = real(&upstream).set("production", "upstream", production);
        let setup = setup.set("sandbox", "listen", "127.0.0.1:0").set("sandbox", "upstream", sandbox);
        setup.set_raw("issuer.main", "environments", "[\"production\", \"sandbox\"]")
    };
    let swapped = about(&setup("https://sandbox.example.com", "https://api.prod.example.com/v1"), "in its name");
    assert_eq!(swapped.len(), 2, "{swapped:?}");
    assert!(
        swapped[0].starts_with("error ") && swapped[0].contains("`production.upstream` has `sandbox`"),
        "{swapped:?}"
    );
    assert!(swapped[1].contains("`sandbox.upstream` has `prod`") && swapped[1].contains("swapped"), "{swapped:?}");
    for production in
        ["https://api-test.example.com", "https://api.example.com/Sandbox/v2", "https://SBX.pay.example.com"]
    {
        assert_eq!(about(&setup(production, "https://sandbox.example.com"), "in its name").len(), 1, "{production}");
    }
    for (production, sandbox) in [
        ("https://api.example.com", "https://sandbox.example.com"),
        ("https://api.testing-payments.com", "https://api.example.com/sandbox"),
        ("https://live.example.com", "http://127.0.0.1:9"),
    ] {
        assert_eq!(about(&setup(production, sandbox), "in its name"), [""; 0], "{production}");
    }
    for same in [
        "https://api.example.com",
        "https://API.example.com/",
        "https://api.example.com.",
        "https://api.example.com:443",
    ] {
        let told = about(&setup("https://api.example.com", same), "sandbox.upstream");
        assert!(told.len() == 1 && told[0].starts_with("error "), "{same}: {told:?}");
    }
}

#[test]
fn payments_that_are_followed_for_too_short_are_told() {
    let upstream = Upstream::start();
    let setup = |follow: &str, kept: &str| {
        real(&upstream).set_raw("follow", "days", follow).set_raw("store", "answers_days", kept)
    };
    let [told] = about(&setup("7", "35"), "`follow.days`").try_into().unwrap();
    for part in ["error ", "sluice.toml", "`follow.days` is 7", "35 days", "(set `follow.days` to at least 35"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(about(&setup("35", "35"), "`follow.days`"), [""; 0]);
    assert_eq!(about(&setup("365", "400"), "`follow.days`"), [""; 0]);
    assert_eq!(about(&real(&upstream), "`follow.days`"), [""; 0]);
    let nobody = setup("7", "35").set_raw("follow", "enabled", "false");
    assert_eq!(about(&nobody, "`follow.days`"), [""; 0]);
}

#[test]
fn a_set_that_bounds_no_payment_is_told() {
    let upstream = Upstream::start();
    let with = |rules: &str| real(&upstream).file("policies/everything.toml", rules);
    let all = "[[rule]]\nid = \"all\"\neffect = \"allow\"\nwhen = { op = \"*\" }\n";
    let [told] = about(&with(all), "in any amount").try_into().unwrap();
    for part in ["error ", "everything.toml:1:1", "`all`", "production", "(add a `[[limit]]`"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let there = all.replace("op = \"*\"", "op = \"*\", environment = \"production\"");
    assert_eq!(about(&with(&there), "in any amount").len(), 1);
    let limit = "[[limit]]\nid = \"day\"\nops = [\"createSwap\"]\nwindow = \"rolling 24h\"\nper = [\"environment\"]\nmax = \"9 USD\"\n\
                 over = \"deny\"\n";
    for bounded in [
        format!("{all}{limit}"),
        all.replace("\"*\"", "\"createSwap\", amount = \"(0, 100] USD\""),
        all.replace("\"*\"", "\"*\", environment = \"sandbox\""),
        HOLDING.to_owned(),
    ] {
        let told = about(&with(&bounded), "everything.toml");
        let is_wrong = |told: &String| told.starts_with("error ") && !told.contains("can change it");
        assert!(!told.iter().any(is_wrong), "{bounded}: {told:#?}");
    }
    let in_shadow = format!("{all}{limit}mode = \"shadow\"\n");
    assert_eq!(about(&with(&in_shadow), "in any amount").len(), 1);
    // A simulator on this machine moves no money.
    assert_eq!(about(&Setup::of(&upstream), "in any amount"), [""; 0]);
}

#[test]
fn gates_that_share_a_redis_without_an_installation_are_told() {
    let upstream = Upstream::start();
    let shared = real(&upstream).set("store", "kind", "redis").set("store", "node", "a");
    let shared = shared.set("redis", "url", "redis://127.0.0.1:1");
    let [told] = about(&shared, "`store.installation`").try_into().unwrap();
    assert!(told.starts_with("error ") && told.contains("sluice store create"), "{told}");
    let named = shared.set("store", "installation", "0123456789abcdef0123456789abcdef");
    assert_eq!(about(&named, "`store.installation`"), [""; 0]);
}

#[test]
fn a_setting_whose_file_cannot_be_read_is_told_once() {
    let upstream = Upstream::start();
    for (section, name) in [
        ("production", "credential"),
        ("store", "seal_key"),
        ("audit", "checkpoint_key"),
        ("redis", "url"),
        ("console", "oidc_client_secret"),
        ("telemetry", "otlp_authorization"),
    ] {
        let setup = real(&upstream);
        let setup = match section {
            "redis" => setup.set("store", "kind", "redis").set("store", "node", "a"),
            "telemetry" => setup.set("telemetry", "otlp", "http://collector.example.com"),
            _ => setup,
        };
        let setup = setup.set_raw(section, name, "{ file = \"none\" }");
        let (path, all) = (format!("{section}.{name}`"), findings(&setup));
        let told: Vec<&String> = all.iter().filter(|finding| finding.contains(&path)).collect();
        let unreadable: Vec<&&String> = told.iter().filter(|finding| finding.contains("cannot be read")).collect();
        assert!(unreadable.len() == 1, "{path}: {all:#?}");
        let denied =
            ["is not set", "is set", "without `"].map(|word| told.iter().any(|finding| finding.contains(word)));
        assert!(section == "console" || denied == [false; 3], "{path}: {told:#?}");
    }
}
