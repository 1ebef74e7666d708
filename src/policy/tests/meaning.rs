use super::language::{WORDS, all};
use super::*;

const SET: &str = r#"
[[rule]]
id = "small"
effect = "allow"
when = { op = ["createSwap", "createOfframp"], role = ["a", "b"], amount = "(0, 5] USD", chain = "POLYGON", weekday = ["mon", "tue"], hour = "[9, 17)", zone = "UTC", body = { "/source/amount" = "absent" } }
[[rule]]
id = "large"
effect = "hold"
approval = "dual"
when = { op = "@money" }
[[limit]]
id = "day"
ops = ["createSwap"]
window = "rolling 24h"
per = ["environment", "caller"]
max = "500 USD"
over = "deny"
[[rate]]
id = "fast"
ops = ["*"]
per = ["caller", "environment"]
quota = "10/s"
[asset.weth]
decimals = 18
value = "2500.5 USD"
as_of = "2026-11-20T09:00:00Z"
good_for = "24h"
"#;

fn meaning(texts: &[&str]) -> Meaning {
    all(texts).unwrap().policies.meaning
}

/// The set with one thing written otherwise.
fn with(from: &str, to: &str) -> Meaning {
    let whole = format!("{SET}\n# ---\n{WORDS}");
    assert!(whole.contains(from), "{from}");
    meaning(&[&whole.replacen(from, to, 1)])
}

#[test]
fn how_a_set_is_written_says_nothing() {
    let first = meaning(&[SET, WORDS]);
    assert_eq!(meaning(&[WORDS, SET]), first);
    for (from, to) in [
        ("# ---", "# another word"),
        ("[\"createSwap\", \"createOfframp\"]", "[\"createOfframp\", \"createSwap\"]"),
        ("role = [\"a\", \"b\"], amount = \"(0, 5] USD\"", "amount = \"[0.000001, 5.00] USD\", role = [\"b\", \"a\"]"),
        ("chain = \"POLYGON\"", "chain = [\"polygon\"]"),
        ("[\"mon\", \"tue\"]", "[\"tue\", \"mon\"]"),
        ("\"[9, 17)\"", "\"[9, 16]\""),
        ("per = [\"environment\", \"caller\"]", "per = [\"caller\", \"environment\"]"),
        ("\"500 USD\"", "\"500.00 USD\""),
        ("\"rolling 24h\"", "\"rolling 1d\""),
        ("\"10/s\"", "\"10/s burst 10\""),
        ("\"2500.5 USD\"", "\"2500.50 USD\""),
        (
            "[{ of = \"ops\", n = 2 }, { of = \"finance\", n = 1 }]",
            "[{ of = \"finance\", n = 1 }, { of = \"ops\", n = 2 }]",
        ),
        ("\"console:ops-1\", \"console:ops-2\"", "\"console:ops-2\", \"console:ops-1\""),
        ("# ---", "[[test]]\ngiven = { op = \"createSwap\" }\nexpect = \"deny\""),
        ("# ---", "[list.unused]\nchain = [\"BASE\"]"),
    ] {
        assert_eq!(with(from, to), first, "{from} -> {to}");
    }
    // What a class holds, written out.
    let money = catalog().operations().iter().filter(|operation| operation.class == crate::catalog::Class::Money);
    let ids: Vec<String> = money.map(|operation| format!("\"{}\"", operation.id)).collect();
    assert_eq!(with("\"@money\"", &format!("[{}]", ids.join(", "))), first);
}

#[test]
fn whatever_could_decide_otherwise_changes_the_version() {
    let first = meaning(&[SET, WORDS]);
    let mut versions = std::collections::BTreeSet::from([first.version().to_owned()]);
    for (from, to, told) in [
        ("id = \"small\"", "id = \"smaller\"", "added: rule smaller; removed: rule small"),
        ("effect = \"allow\"", "effect = \"deny\"", "changed: rule small"),
        ("effect = \"allow\"", "effect = \"allow\"\nmode = \"shadow\"", "changed: rule small"),
        ("[\"createSwap\", \"createOfframp\"], role", "[\"createOfframp\"], role", "changed: rule small"),
        ("[\"a\", \"b\"]", "[\"a\", \"B\"]", "changed: rule small"),
        ("(0, 5]", "(0, 5)", "changed: rule small"),
        ("(0, 5]", "[5, 5]", "changed: rule small"),
        ("POLYGON", "BASE", "changed: rule small"),
        ("\"tue\"]", "\"wed\"]", "changed: rule small"),
        ("\"UTC\"", "\"Europe/Berlin\"", "changed: rule small"),
        ("\"absent\"", "\"present\"", "changed: rule small"),
        ("\"absent\"", "{ equals = 5 }", "changed: rule small"),
        ("\"absent\"", "{ equals = \"5\" }", "changed: rule small"),
        ("/source/amount", "/source/currency", "changed: rule small"),
        ("approval = \"dual\"", "approval = \"one\"", "changed: rule large"),
        ("rolling 24h", "calendar day UTC", "changed: limit day"),
        ("rolling 24h", "rolling 25h", "changed: limit day"),
        (", \"caller\"]\nmax", "]\nmax", "changed: limit day"),
        ("500 USD", "500.01 USD", "changed: limit day"),
        ("500 USD", "500 calls", "changed: limit day"),
        ("over = \"deny\"", "over = \"hold\"\napproval = \"one\"", "changed: limit day"),
        ("over = \"deny\"", "over = \"deny\"\nalert = [\"treasury\"]", "changed: limit day"),
        ("over = \"deny\"", "over = \"deny\"\nwhen = { chain = \"BASE\" }", "changed: limit day"),
        ("10/s", "10/s burst 11", "changed: rate fast"),
        ("10/s", "600/m burst 10", "changed: rate fast"),
        ("quota = \"10/s\"", "concurrent = 10", "changed: rate fast"),
        ("quota = \"10/s\"", "quota = \"10/s\"\nshared = true", "changed: rate fast"),
        ("2500.5", "2500.51", "changed: asset weth"),
        ("\"24h\"\n", "\"23h\"\n", "changed: asset weth"),
        ("decimals = 18", "decimals = 17", "changed: asset weth"),
        ("n = 2 }", "n = 1 }", "changed: approval dual"),
        ("\"8h\"", "\"9h\"", "changed: approval dual"),
        ("console:ops-1", "console:ops-4", "changed: group ops"),
        ("# ---", "[value]\nslippage = \"1%\"", "added: slippage"),
    ] {
        let other = with(from, to);
        assert_eq!(other.since(&first).to_string(), told, "{from} -> {to}");
        assert!(versions.insert(other.version().to_owned()), "{from} -> {to}: a version twice");
    }
    assert!(first.since(&first).is_empty());
}

#[test]
fn the_catalogue_is_part_of_the_version() {
    let of = |catalog: &Catalog| {
        let known = KnownNames { catalog, issuers: &["main", "console"], can_share: true };
        read_policies(&[], &known).unwrap().policies.version().to_owned()
    };
    let built_in = SchemaFiles::built_in();
    let first = of(&Catalog::build(&built_in, &[]).unwrap());
    let openapi = String::from_utf8(built_in.read("openapi.json").unwrap().to_vec()).unwrap();
    let with = |text: String| {
        let mut files = built_in.clone();
        files.insert("openapi.json", text.into_bytes());
        of(&Catalog::build(&files, &[]).unwrap())
    };
    let value: serde_json::Value = serde_json::from_str(&openapi).unwrap();
    assert_eq!(with(value.to_string()), first);
    assert_ne!(with(openapi.replacen("\"class\": \"change\"", "\"class\": \"money\"", 1)), first);
    assert_ne!(of(&Catalog::build(&built_in, &["createTosLink".to_owned()]).unwrap()), first);
}
