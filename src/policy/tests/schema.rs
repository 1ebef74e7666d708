use serde_json::Value;

use super::language::{WORDS, all};
use super::*;

/// Each place where fields may stand: a set with one that nobody knows there, and where the schema speaks of it.
const PLACES: [(&str, &str); 25] = [
    ("[[rate]]\nzzzzzzzz = 1", "rate"),
    ("[[rule]]\nzzzzzzzz = 1", "rule"),
    ("[[limit]]\nzzzzzzzz = 1", "limit"),
    ("[approval.x]\nof = \"ops\"\nzzzzzzzz = 1", "approval"),
    ("[approval.x]\nexpires = \"8h\"\nall = [{ of = \"ops\", n = 1, zzzzzzzz = 1 }]", "need"),
    ("[group.x]\nzzzzzzzz = 1", "group"),
    ("[list.x]\nzzzzzzzz = 1", "list"),
    ("[signing]\nzzzzzzzz = 1", "signing"),
    ("[[passkey]]\nzzzzzzzz = 1", "passkey"),
    ("[recovery]\nzzzzzzzz = 1", "recovery"),
    ("[[recovery_key]]\nzzzzzzzz = 1", "recovery_key"),
    ("[asset.x]\nzzzzzzzz = 1", "asset"),
    ("[value]\nzzzzzzzz = 1", "value"),
    ("[[test]]\nzzzzzzzz = 1", "test"),
    ("[[invariant]]\nzzzzzzzz = 1", "invariant"),
    ("[[invariant]]\nnever = { op = \"*\", zzzzzzzz = 1 }", "invariant/properties/never"),
    ("[[invariant]]\nalways = { op = \"*\", zzzzzzzz = 1 }", "invariant/properties/always"),
    ("[[rule]]\nwhen = { op = \"*\", zzzzzzzz = 1 }", "rule/properties/when"),
    ("[[rule]]\nwhen = { op = \"*\", source.zzzzzzzz = 1 }", "rule/properties/when/properties/source"),
    ("[[rule]]\nwhen = { op = \"*\", destination.zzzzzzzz = 1 }", "rule/properties/when/properties/destination"),
    (
        "[[rule]]\nwhen = { op = \"*\", body = { \"/x\" = { zzzzzzzz = 1 } } }",
        "rule/properties/when/properties/body/additionalProperties/anyOf/1",
    ),
    ("[[limit]]\nwhen = { zzzzzzzz = 1 }", "limit/properties/when"),
    ("[[test]]\ngiven = { op = \"createSwap\", zzzzzzzz = 1 }", "test/properties/given"),
    ("[[test]]\ngiven = { op = \"createSwap\", source.zzzzzzzz = 1 }", "test/properties/given/properties/source"),
    (
        "[[test]]\ngiven = { op = \"createSwap\", destination.zzzzzzzz = 1 }",
        "test/properties/given/properties/destination",
    ),
];

#[test]
fn parser_and_schema_know_the_same_fields() {
    let schema = schema(catalog());
    for (text, place) in PLACES {
        let findings = all(&[text, WORDS]).unwrap_err();
        let unknown = findings.iter().find(|finding| finding.text == "there is no field `zzzzzzzz`");
        let listed = unknown.and_then(|finding| finding.remedy.as_deref()).unwrap();
        let parsed: BTreeSet<&str> = listed.strip_prefix("the fields here are: ").unwrap().split(", ").collect();
        let properties = schema.pointer(&format!("/definitions/{place}/properties")).and_then(Value::as_object);
        let described: BTreeSet<&str> = properties.unwrap().keys().map(String::as_str).collect();
        assert_eq!(parsed, described, "{place}");
    }
    let kinds = schema.pointer("/properties").and_then(Value::as_object).unwrap();
    for kind in value_kind::ValueKind::ALL {
        assert!(kinds.contains_key(kind.as_str()), "{kind}");
        assert!(PLACES.iter().any(|(_, place)| *place == kind.as_str()), "{kind}");
    }
}

fn valid(text: &str) -> Vec<String> {
    static VALIDATOR: LazyLock<jsonschema::Validator> =
        LazyLock::new(|| jsonschema::validator_for(&schema(catalog())).unwrap());
    let value = serde_json::to_value(text.parse::<toml::Table>().unwrap()).unwrap();
    VALIDATOR.iter_errors(&value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// Every set that ships, and all that the tests of the language read without a fault.
#[test]
fn what_the_parser_takes_the_schema_takes() {
    let mut folders = vec![std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("policies")];
    let mut count = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "toml") {
                let text = std::fs::read_to_string(&path).unwrap();
                assert_eq!(valid(&text), Vec::<String>::new(), "{}", path.display());
                count += 1;
            }
        }
    }
    assert!(count >= 10, "{count}");
    for text in [language::DESIGN, language::EVERYTHING, WORDS] {
        assert_eq!(valid(text), Vec::<String>::new(), "{text}");
    }
}

/// A document that an editor underlines while it is being written.
#[test]
fn slips_of_the_pen_are_seen_in_the_editor() {
    let rule = |when: &str| format!("[[rule]]\nid = \"r\"\neffect = \"deny\"\nwhen = {{ {when} }}\n");
    assert_eq!(valid(&rule("op = \"createSwap\"")), Vec::<String>::new());
    for wrong in [
        rule("op = \"createSwop\""),
        rule("op = []"),
        rule("ops = \"createSwap\""),
        rule("op = \"createSwap\", amount = \"5 USD\""),
        rule("op = \"createSwap\", amount = \"(0, 5]\""),
        rule("op = \"createSwap\", destination = { acount = \"@x\" }"),
        rule("op = \"createSwap\", destination = { account = \"x\" }"),
        rule("op = \"createSwap\", weekday = \"monday\""),
        rule("op = \"createSwap\", body = { limitPrice = \"present\" }"),
        rule("op = \"createSwap\", body = { \"/x\" = \"there\" }"),
        rule("op = \"createSwap\"").replace("deny", "denny"),
        rule("op = \"createSwap\"").replace("\"r\"", "\"R 1\""),
        rule("op = \"createSwap\"").replace("[[rule]]", "[[rules]]"),
        rule("op = \"createSwap\"").replace("[[rule]]", "[rule]"),
        "[[rate]]\nid = \"r\"\nops = [\"*\"]\n".to_owned(),
        "[[rate]]\nid = \"r\"\nops = [\"*\"]\nquota = \"100/sec\"\n".to_owned(),
        "[approval.x]\nof = \"ops\"\nn = 1\n".to_owned(),
        "[approval.x]\nof = \"ops\"\nany = []\nexpires = \"8h\"\n".to_owned(),
        "[approval.x]\nall = [{ of = \"ops\" }]\nexpires = \"8h\"\n".to_owned(),
        "[group.x]\nmembers = [\"anna\"]\n".to_owned(),
        "[[test]]\ngiven = { op = \"@money\" }\nexpect = \"deny\"\n".to_owned(),
    ] {
        assert!(!valid(&wrong).is_empty(), "{wrong}");
        assert!(all(&[&wrong, WORDS]).is_err(), "{wrong}");
    }
}
