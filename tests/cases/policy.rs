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
    let version = text.strip_prefix("0 errors, 0 warnings\nversion ").unwrap();
    assert!(code == Some(0) && version.trim_end().len() == 64, "{text}");
    let (_, text) = run(&["check", "--output", "json"], good.path());
    assert_eq!(json(&text)["version"], version.trim_end());
    assert_eq!(run(&["test"], good.path()), (Some(0), "1 passed, 0 failed\n".to_owned()));
    let failing = folder(&RULES.replace("\"100 usdc\"", "\"100.000001 usdc\""));
    let (code, text) = run(&["test"], failing.path());
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("rules.toml:12:1: `allow` is expected, and it is `deny`"), "{text}");
    assert!(text.contains("gate: no rule is about the request") && text.contains("0 passed, 1 failed"), "{text}");
    let (code, text) = run(&["check"], failing.path());
    let told = "rules.toml:12:1: `allow` is expected, and it is `deny` (gate: no rule is about the request)";
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
        "allow\n  value: 5 USD\n  because: rule small: allow by rule\n  counts: 5 USD of 500 USD in limit day\n"
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
