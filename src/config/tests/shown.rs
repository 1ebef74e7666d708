//! What is shown of settings: the values in force with their origin, and the schema for editors.

use serde_json::Value;

use super::*;

#[test]
fn each_value_in_force_names_its_origin_and_no_secret_is_shown() {
    let text = "[production]\nlisten = \"127.0.0.1:8080\"\nupstream = \"https://api.example.com\"\n\
                credential = \"not-to-be-seen\"\n[timeouts]\nbody_ms = 5_000\n";
    let variables = [("SLUICE_TIMEOUTS_HEAD_MS", "7000"), ("SLUICE_REDIS_URL", "redis://:not-to-be-seen@127.0.0.1")];
    let read = read_in(text, &[], &variables).unwrap();
    let of = |path: &str| {
        let found = read.in_force.iter().find(|setting| setting.setting == path);
        found.map(|setting| (setting.value.as_str(), setting.from.as_str()))
    };
    assert_eq!(of("timeouts.body_ms"), Some(("5000", "etc/sluice.toml:6")));
    assert_eq!(of("timeouts.head_ms"), Some(("7000", "variable SLUICE_TIMEOUTS_HEAD_MS")));
    assert_eq!(of("timeouts.drain_ms"), Some(("2000", "default")));
    assert_eq!(of("production.credential"), Some(("(hidden)", "etc/sluice.toml:4")));
    assert_eq!(of("redis.url"), Some(("(hidden)", "variable SLUICE_REDIS_URL")));
    assert_eq!(of("store.seal_key").map(|(value, _)| value), Some(r#"{ file = "seal.key" }"#));
    assert_eq!(of("issuer.main.audience").map(|(value, _)| value), Some(r#"["sluice"]"#));
    assert_eq!(of("sandbox.listen"), None);
    assert!(!format!("{:?}", read.in_force).contains("not-to-be-seen"));
}

#[test]
fn the_schema_takes_the_files_of_init_and_refuses_what_the_reader_refuses() {
    let schema = jsonschema::draft7::new(&schema()).unwrap();
    let is_valid = |text: &str| {
        let table: toml::Table = text.parse().unwrap();
        schema.is_valid(&serde_json::to_value(table).unwrap())
    };
    assert!(is_valid(&first(&BTreeMap::new())));
    assert!(is_valid(&reference()));
    for wrong in [
        "timouts = 1",
        "[timeouts]\nbody_mss = 1",
        "[timeouts]\nbody_ms = 0",
        "[timeouts]\nbody_ms = \"1\"",
        "[issuer.Main]\nissuer = \"x\"",
        "[issuer.main]\nissuer = \"x\"",
        "[production]\ncredential = { path = \"x\" }",
        "[store]\nkind = \"sqlite\"",
    ] {
        assert!(!is_valid(wrong), "{wrong}");
    }
}

/// Every setting has a type, a description, and a default or an example in the schema.
#[test]
fn the_schema_explains_every_setting() {
    let all = schema();
    for section in SECTIONS {
        let place = match (section.name, section.presence) {
            ("", _) => "/properties".to_owned(),
            (name, Presence::Named { .. }) => {
                format!("/properties/{name}/patternProperties/^[a-z0-9-]{{1,32}}$/properties")
            }
            (name, _) => format!("/properties/{name}/properties"),
        };
        for setting in section.settings {
            let explained = all.pointer(&format!("{place}/{}", setting.name)).unwrap();
            assert_eq!(explained.get("description").and_then(Value::as_str), Some(setting.doc));
            assert!(explained.get("default").or(explained.get("examples")).is_some(), "{}", setting.name);
        }
    }
}
