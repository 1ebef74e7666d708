//! Mistakes in names, and in the text of a file itself.

use super::deciding::rule;
use super::language::{WORDS, all};

/// Names are compared letter by letter: only operations have a pattern.
#[test]
fn a_name_with_a_star_is_refused() {
    let rule = |when: &str| rule("r", "deny", &format!("op = \"createSwap\", {when}"));
    let list = "[list.x]\ntext = [\"contractor-*\"]\n";
    let table = [
        rule("caller = \"main:*\""),
        rule("caller = { not_in = \"main:svc-*\" }"),
        rule("role = [\"payer\", \"contractor-*\"]"),
        rule("requester = \"*@agency.example\""),
        rule("role = \"@x\"") + list,
        "[group.more]\nmembers = [\"console:*\"]\n".to_owned(),
        "[[rate]]\nid = \"a\"\nops = [\"*\"]\nrole = [\"*\"]\nquota = \"1/s\"\n".to_owned(),
        "[[rate]]\nid = \"a\"\nops = [\"*\"]\ncaller = [\"main:*\"]\nquota = \"1/s\"\n".to_owned(),
    ];
    for text in table {
        let findings = all(&[&text, WORDS]).unwrap_err();
        let told =
            findings.iter().all(|one| one.text.ends_with("would match only that name itself: `*` is no pattern here"));
        assert!(findings.len() == 1 && told, "{text}: {findings:?}");
    }
    let good = rule("body = { \"/memo\" = { in = [\"*\", \"@x\"] } }")
        + list
        + "[[rule]]\nid = \"s\"\neffect = \"allow\"\nwhen = { op = \"*\" }\n";
    let findings = all(&[&good, WORDS]);
    assert!(
        findings.as_ref().err().is_none_or(|all| all.iter().all(|one| !one.text.contains("pattern"))),
        "{findings:?}"
    );
}

/// Each mistake of the file itself is told once, with what to do about it.
#[test]
fn texts_that_are_no_toml_are_told_once_each() {
    let rule = rule("r", "deny", "op = \"createSwap\"");
    let twice = "[group.more]\nmembers = [\"console:a\"]\nmembers = [\"console:b\"]\n";
    let findings = all(&[twice, WORDS]).unwrap_err();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].to_string().contains("3:1: the file is not valid TOML: duplicate key"), "{}", findings[0]);
    assert!(findings[0].remedy.as_deref().unwrap().contains("once"), "{findings:?}");
    let findings = all(&[&rule.replace('\n', "\r"), WORDS]).unwrap_err();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].to_string().contains("1:9: a line ends with a carriage return alone"), "{}", findings[0]);
    assert!(all(&[&rule.replace('\n', "\r\n"), WORDS]).is_ok());
}
