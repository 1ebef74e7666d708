use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;

use super::*;
use crate::base::ids::{Environment, OperationId};
use crate::catalog::SchemaFiles;

mod acquaintances;
mod deciding;
mod exclusions;
mod fees;
mod language;
mod meaning;
mod schema;
mod recovery_keys;
mod signing;
mod slips;
mod times;
mod windows;

fn catalog() -> &'static Catalog {
    static CATALOG: LazyLock<Catalog> = LazyLock::new(|| Catalog::build(&SchemaFiles::built_in(), &[]).unwrap());
    &CATALOG
}

fn read_with(texts: &[&str], can_share: bool) -> Result<Policies, Vec<Finding>> {
    let files: Vec<(String, String)> =
        texts.iter().enumerate().map(|(at, text)| (format!("{at}.toml"), (*text).to_owned())).collect();
    let known = KnownNames { catalog: catalog(), issuers: &["main", "console"], can_share };
    read_policies(&files, &known).map(|reading| reading.policies)
}

fn good(text: &str) -> Rate {
    read_with(&[text], true).unwrap().rates.pop().unwrap()
}

fn wrong(texts: &[&str], can_share: bool) -> String {
    let findings = read_with(texts, can_share).unwrap_err();
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// One rate, with these lines more.
fn rate(lines: &str) -> String {
    format!("[[rate]]\nid = \"r\"\nops = [\"*\"]\n{lines}\n")
}

struct Who {
    environment: Environment,
    operation: &'static str,
    issuer: &'static str,
    subject: &'static str,
    roles: BTreeSet<String>,
}

fn who() -> Who {
    Who {
        environment: Environment::Production,
        operation: "createSwap",
        issuer: "main",
        subject: "payroll",
        roles: ["payer", "reader"].map(str::to_owned).into(),
    }
}

fn buckets(rate: &Rate, who: &Who) -> Vec<crate::base::digest::Fingerprint> {
    let catalog = catalog();
    let operation = catalog.operation(&OperationId::new(who.operation)).unwrap();
    let Who { environment, issuer, subject, ref roles, .. } = *who;
    rate.buckets(&RateCall { environment, operation: Some(operation), issuer, subject, roles })
}

#[test]
fn a_rate_is_read() {
    let rate =
        good(&rate("per = [\"caller\", \"operation\"]\nquota = \"100/s burst 200\"\nshared = true\nmode = \"shadow\""));
    assert_eq!((&*rate.id, rate.is_shared, rate.mode), ("r", true, Mode::Shadow));
    assert_eq!(rate.bound, RateBound::Quota(Quota::parse("100/s burst 200").unwrap()));
    let plain = good(&self::rate("concurrent = 32"));
    assert_eq!((plain.bound, plain.is_shared, plain.mode), (RateBound::Concurrent(32), false, Mode::Enforce));
}

/// Questions about holds take from the rates that are about every read.
#[test]
fn asking_of_holds_is_a_read() {
    let takes = |ops: &str| {
        let text = format!("[[rate]]\nid = \"r\"\nops = {ops}\nper = [\"operation\"]\nquota = \"1/s\"\n");
        let rate = good(&text);
        let roles = BTreeSet::new();
        let environment = Environment::Sandbox;
        rate.buckets(&RateCall { environment, operation: None, issuer: "main", subject: "x", roles: &roles }).len()
    };
    assert_eq!([r#"["*"]"#, r#"["@read"]"#, r#"["@money"]"#, r#"["listUsers"]"#].map(takes), [1, 1, 0, 0]);
}

#[test]
fn the_set_that_ships_is_good() {
    let set = read_with(&[include_str!("../../policies/rates.toml")], false).unwrap();
    assert!(!set.rates.is_empty() && set.rates.iter().all(Rate::is_enforced));
}

/// Authors are told of many faults at once.
#[test]
fn every_fault_is_told_with_its_place_and_a_remedy() {
    let faulty = [
        "[[rate]]\nid = \"Per Caller\"\nops = [\"createSwop\", \"@Money\", \"*\"]\nqouta = \"1/s\"\n",
        "[[rate]]\nops = []\nquota = \"100 per s\"\nconcurrent = 3\n[[rate]]\n",
        "[[rat]]\nid = \"x\"\n[rate.x]\nid = \"x\"\n",
        "[[rule]]\nid = \"x\"\n",
        "rate = 7\n",
        "rate = [7]\n",
        &rate("quota = \"5/w\"\nper = [\"caler\", \"role\", \"role\"]\nmode = \"off\"\nshared = \"yes\"")[..],
        &rate("quota = 5\nissuer = [\"mian\"]\nrole = [\"\"]\ncaller = [\"payroll\", \"maim:x\", \"main:\"]"),
        &rate("concurrent = 0\nenvironment = [\"Production\"]").replace("\"r\"", "\"s\""),
        &rate("concurrent = 5\nshared = true").replace("\"r\"", "\"t\""),
        &rate("quota = \"20000/s\"\nshared = true").replace("\"r\"", "\"u\""),
        &rate("quota = \"1/s\"").replace("\"r\"", "\"v\""),
        &rate("quota = \"1/s\"").replace("\"r\"", "\"v\""),
        "[[rate]\n",
    ];
    insta::assert_snapshot!(wrong(&faulty, false));
}

#[test]
fn a_rate_is_about_the_calls_that_it_names() {
    for (lines, fits) in [
        ("", true),
        ("environment = [\"production\"]", true),
        ("environment = [\"sandbox\"]", false),
        ("issuer = [\"main\", \"console\"]", true),
        ("issuer = [\"console\"]", false),
        ("role = [\"payer\"]", true),
        ("role = [\"Payer\"]", false),
        ("role = [\"approver\"]", false),
        ("caller = [\"main:payroll\"]", true),
        ("caller = [\"console:payroll\"]", false),
        ("caller = [\"main:Payroll\"]", false),
    ] {
        let rate = good(&rate(&format!("quota = \"1/s\"\n{lines}")));
        assert_eq!(!buckets(&rate, &who()).is_empty(), fits, "{lines}");
    }
    for (ops, fits) in
        [("@money", true), ("@read", false), ("@change", false), ("createSwap", true), ("createOfframp", false)]
    {
        let rate = good(&rate("quota = \"1/s\"").replace('*', ops));
        assert_eq!(!buckets(&rate, &who()).is_empty(), fits, "{ops}");
    }
}

#[test]
fn what_counts_together_is_what_per_leaves_out() {
    let other = |change: fn(&mut Who)| {
        let mut other = who();
        change(&mut other);
        other
    };
    let others: [(&str, Who); 6] = [
        ("caller", other(|who| who.subject = "treasury")),
        ("issuer", other(|who| who.issuer = "console")),
        ("operation", other(|who| who.operation = "createOfframp")),
        ("class", other(|who| who.operation = "listUsers")),
        ("environment", other(|who| who.environment = Environment::Sandbox)),
        ("role", other(|who| who.roles = ["approver".to_owned()].into())),
    ];
    for (key, other) in &others {
        let alone = good(&rate(&format!("quota = \"1/s\"\nper = [\"{key}\"]")));
        assert_ne!(buckets(&alone, &who()), buckets(&alone, other), "{key}");
        let together = good(&rate("quota = \"1/s\"\nper = []"));
        assert_eq!(buckets(&together, &who()), buckets(&together, other), "{key}");
    }
    // A caller is a subject of an issuer.
    let per_caller = good(&rate("quota = \"1/s\"\nper = [\"caller\"]"));
    assert_ne!(buckets(&per_caller, &who()), buckets(&per_caller, &others[1].1));
}

#[test]
fn who_has_several_roles_takes_from_each_that_fits() {
    let per_role = good(&rate("quota = \"1/s\"\nper = [\"role\"]"));
    let both = buckets(&per_role, &who());
    assert_eq!(both.len(), 2);
    let payer = Who { roles: ["payer".to_owned()].into(), ..who() };
    assert!(both.contains(&buckets(&per_role, &payer)[0]));
    let named = good(&rate("quota = \"1/s\"\nper = [\"role\"]\nrole = [\"payer\", \"approver\"]"));
    assert_eq!(buckets(&named, &who()), buckets(&named, &payer));
    // Without roles, one is limited all the same; a role that is called so is another.
    let none = Who { roles: BTreeSet::new(), ..who() };
    let odd = Who { roles: ["no role".to_owned()].into(), ..who() };
    assert_eq!(buckets(&per_role, &none).len(), 1);
    assert_ne!(buckets(&per_role, &none), buckets(&per_role, &odd));
    assert!(buckets(&named, &none).is_empty());
}
