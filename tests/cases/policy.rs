//! `sluice policy`: rules and limits are read and tried without a gate, and a gate refuses what it does not apply.

use std::path::Path;

use serde_json::Value;

use crate::support::gate::sluice;

const RULES: &str = r#"
[[rule]]
id = "small"
effect = "allow"
when = { op = ["createSwap"], role = "payer", amount = "(0, 100] USD" }
[[limit]]
id = "day"
ops = ["createSwap"]
window = "calendar day UTC"
max = "500 USD"
over = "deny"
[[test]]
given = { op = "createSwap", role = "payer", amount = "100 usdc" }
expect = "allow"
"#;

fn folder(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("rules.toml"), text).unwrap();
    folder
}

fn run(words: &[&str], folder: &Path) -> (Option<i32>, String) {
    let output = sluice(&[&["policy"], words, &[folder.to_str().unwrap()]].concat()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_set_is_checked_and_its_tests_are_run() {
    let good = folder(RULES);
    let (code, text) = run(&["check"], good.path());
    assert!(code == Some(0) && text.contains("0 errors, 2 warnings\nversion "), "{text}");
    assert!(text.contains("rules.toml:2:1: no test covers an edge of `small`: 100.000001 USD"), "{text}");
    let (_, text) = run(&["check", "--output", "json"], good.path());
    assert_eq!(json(&text)["version"].as_str().unwrap().len(), 64);
    assert_eq!(run(&["test"], good.path()), (Some(0), "1 passed, 0 failed\n".to_owned()));
    let failing = folder(&RULES.replace("\"100 usdc\"", "\"100.000001 usdc\""));
    let (code, text) = run(&["test"], failing.path());
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("rules.toml:12:1: expected `allow`, found `deny`"), "{text}");
    assert!(
        text.contains("gate: no rule matches (denied by default)") && text.contains("0 passed, 1 failed"),
        "{text}"
    );
    let (code, text) = run(&["check"], failing.path());
    let told = "rules.toml:12:1: `allow` is expected, and it is `deny` (gate: no rule matches (denied by default))";
    assert!(code == Some(3) && text.contains(told), "{text}");
    let (code, text) = run(&["test", "--output", "json"], failing.path());
    assert_eq!((code, &json(&text)["tests"][0]["found"]), (Some(3), &Value::from("deny")));
    let faulty = folder(&RULES.replace("createSwap", "createSwop"));
    for command in ["check", "test"] {
        let (code, text) = run(&[command], faulty.path());
        assert!(code == Some(3) && text.contains("did you mean `createSwap`?"), "{text}");
    }
}

#[test]
fn a_request_is_explained() {
    let good = folder(RULES);
    let explain = |given: &str| run(&["explain", "--given", given], good.path());
    let (code, text) = explain("op = \"createSwap\", role = \"payer\", amount = \"5 usdc\"");
    assert_eq!(code, Some(0), "{text}");
    assert_eq!(
        text,
        "allow\n  value: 5 USD\n  because: rule small: allowed by rule\n  counts: 5 USD of 500 USD in limit day\n"
    );
    let (_, text) = explain("op = \"createSwap\", amount = \"5 usdc\"");
    assert!(text.contains("nearly: rule small (allow), if a role of the caller is `payer`"), "{text}");
    let (_, text) = explain("op = \"createSwap\", role = \"payer\", amount = \"600 usdc\"");
    assert!(text.contains("nearly: rule small (allow), if the value is at most 100 USD"), "{text}");
    let (code, text) = explain("op = \"createSwop\"");
    assert!(code == Some(3) && text.contains("did you mean `createSwap`?"), "{text}");
    let words = ["explain", "--output", "json", "--given", "op = \"createSwap\", amount = \"5 usdc\""];
    let (_, text) = run(&words, good.path());
    assert_eq!((&json(&text)["effect"], &json(&text)["microUsd"]), (&"deny".into(), &5_000_000.into()));
}

#[test]
fn two_sets_are_compared_payment_by_payment() {
    let (old, new) = (folder(RULES), folder(&RULES.replace("(0, 100]", "(0, 150]").replace("500 USD", "400 USD")));
    let diff = |words: &[&str], old: &Path, new: &Path| {
        let words = [&["policy", "diff"], words, &[old.to_str().unwrap(), new.to_str().unwrap()]].concat();
        let output = sluice(&words).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = diff(&[], old.path(), new.path());
    assert_eq!(code, Some(0));
    for line in [
        "now allowed without people, denied before: createSwap, 100.000001 USD to 150 USD, some callers, any destination, any time",
        "  only where a role of the caller is `payer`",
        "  then: allow `createSwap`, where a role of the caller is `payer` and the value is at most 150 USD",
        "  example: op = \"createSwap\", caller = \"main:anybody\", role = [\"payer\"], source = { amount = \"100.000001\", currency = \"usdc\" }",
        "  before: deny, gate: no rule matches (denied by default)",
        "  then: allow, rule small: allowed by rule",
        "limit `day` allows less (its maximum)",
        "allows more than today",
    ] {
        assert!(text.lines().any(|found| found.starts_with(line)), "{line}\n{text}");
    }
    assert_eq!(diff(&["--only-tighter"], old.path(), new.path()).0, Some(3));
    let tighter = folder(&RULES.replace("500 USD", "400 USD"));
    let (code, text) = diff(&["--only-tighter", "--output", "json"], old.path(), tighter.path());
    let told = json(&text);
    assert_eq!((code, &told["direction"]), (Some(0), &Value::from("onlyTightens")), "{text}");
    assert_eq!(diff(&[], old.path(), old.path()).1, "every request has the same outcome: proved\n");
    let faulty = folder(&RULES.replace("createSwap", "createSwop"));
    assert_eq!(diff(&[], old.path(), faulty.path()).0, Some(3));
    // Of rates nothing is proved.
    let rate = |quota: u32| {
        format!("{RULES}[[rate]]\nid = \"few\"\nops = [\"*\"]\nper = [\"caller\"]\nquota = \"{quota}/s burst 20\"\n")
    };
    let (few, many) = (folder(&rate(5)), folder(&rate(6)));
    let (code, text) = diff(&["--only-tighter"], few.path(), many.path());
    assert!(code == Some(3) && text.contains("rate few is removed or changed: more calls may be allowed"), "{text}");
    assert_eq!(diff(&["--only-tighter"], old.path(), few.path()).0, Some(0));
}

#[test]
fn what_is_missing_from_a_command_is_told() {
    let (code, text) = run(&["check"], Path::new("/nowhere"));
    assert!(code == Some(3) && text.contains("/nowhere: the folder of the policies does not exist"), "{text}");
    assert!(text.contains("remedy: name the folder with the policies"), "{text}");
    let broken = folder("[[rule]\n");
    let (code, text) = run(&["check"], broken.path());
    assert!(code == Some(3) && text.contains("remedy: write a section as `[name]`"), "{text}");
    let set = folder(RULES);
    let (_, text) = run(&["explain", "--given", "op = \"createSwap\", amount = \"5\""], set.path());
    assert!(text.contains("it names no asset, as `5 usdc` does"), "{text}");
}

#[test]
fn the_largest_amounts_that_pass_are_shown_in_a_table() {
    let set = folder(RULES);
    let (code, text) = run(&["table"], set.path());
    assert_eq!(code, Some(0), "{text}");
    let line = text.lines().find(|line| line.contains("role `payer` alone")).unwrap();
    assert!(line.ends_with("100 USD"), "{text}");
    assert!(text.contains("  limit `day`: at most 500 USD in each day of UTC") && text.ends_with("proved\n"), "{text}");
    let (_, text) = run(&["table", "--output", "json"], set.path());
    let told = json(&text);
    let swaps = told["operations"].as_array().unwrap().iter().find(|one| one["operation"] == "createSwap").unwrap();
    let payer = swaps["rows"].as_array().unwrap().iter().find(|row| row["caller"] == "role `payer` alone").unwrap();
    assert_eq!((&payer["most"][0]["microUsd"], &payer["most"][0]["exact"]), (&100_000_000.into(), &true.into()));
    let faulty = folder(&RULES.replace("createSwap", "createSwop"));
    assert_eq!(run(&["table"], faulty.path()).0, Some(3));
}

#[test]
fn mutants_that_tests_do_not_notice_are_listed() {
    let edges = RULES.replace("amount = \"100 usdc\"", "amount = \"99 usdc\"");
    let set = folder(&edges);
    let (code, text) = run(&["mutate"], set.path());
    assert_eq!(code, Some(3), "{text}");
    let missed = "not caught: {}/rules.toml:2:1: rule `small`: amounts of 0.000001 USD to 99.999999 USD\n  a test that \
                  catches it: given = { op = \"createSwap\", caller = \"main:anybody\", role = [\"payer\"], source = { amount \
                  = \"100\", currency = \"usdc\" } }";
    assert!(text.contains(&missed.replacen("{}", set.path().to_str().unwrap(), 1)), "{text}");
    assert!(text.contains("not testable: ") && text.contains("limit `day`: at most 499.999999 USD"), "{text}");
    let (_, text) = run(&["mutate", "--output", "json"], set.path());
    assert!(json(&text)["mutants"].as_array().unwrap().iter().any(|mutant| mutant["fate"] == "noticed"), "{text}");
    let failing = folder(&RULES.replace("expect = \"allow\"", "expect = \"deny\""));
    let (code, text) = run(&["mutate"], failing.path());
    assert!(code != Some(0) && text.contains("a test fails without any change"), "{text}");
}
