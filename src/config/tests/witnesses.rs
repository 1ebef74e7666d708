//! Witnesses: the settings, and their faults.

use super::*;
use crate::base::ed25519;
use crate::config::UnwitnessedMode;

const FIRST: &str = "[witness.first]\nurl = \"https://w.example.com/\"\n\
                     key = \"witness.example.com+13a8191b+BC8ilSsqIoAizrqszJFX8Q3ZcM6mwDqXiohf+O+/cux9\"\n";
const SAME: &str = "[witness.same]\nurl = \"https://v.example.com\"\n\
                    key = \"witness.example.com+13a8191b+BC8ilSsqIoAizrqszJFX8Q3ZcM6mwDqXiohf+O+/cux9\"\n";

fn read_audit(audit: &str, witnesses: &str) -> Result<ConfigReading, Vec<Finding>> {
    let text = format!("{MINIMAL}{ISSUER}[audit]\n{audit}{witnesses}");
    read_in(&text, &[("key.pem", ed25519::to_pem(&[7; 32]).reveal())], &[])
}

#[test]
fn a_small_section_means_that_all_must_sign() {
    let reading = read_audit("checkpoint_key = { file = \"key.pem\" }\n", FIRST).unwrap();
    let witnessing = reading.config.audit.witnessing;
    assert_eq!((witnessing.needed, witnessing.within.as_secs()), (1, 900));
    assert_eq!(witnessing.unwitnessed, UnwitnessedMode::Alert);
    let [witness] = witnessing.witnesses.as_slice() else { panic!("one witness") };
    assert_eq!((witness.name.as_str(), witness.url.as_str()), ("first", "https://w.example.com"));
}

#[test]
fn what_would_never_be_witnessed_is_told() {
    const KEY: &str = "checkpoint_key = { file = \"key.pem\" }\n";
    let with_key = |more: &str| format!("{KEY}{more}");
    for (audit, witnesses, told) in [
        (String::new(), FIRST.to_owned(), "witnesses have nothing to sign"),
        (
            with_key("witnesses_needed = 2\n"),
            FIRST.to_owned(),
            "`audit.witnesses_needed` is 2, but there are 1 witnesses",
        ),
        (with_key("unwitnessed = \"close\"\n"), String::new(), "money would never be closed"),
        (with_key(""), format!("{FIRST}{SAME}"), "are one witness"),
        (with_key(""), FIRST.replace("13a8191b", "13a8191c"), "the key is not one of a witness"),
        (with_key(""), FIRST.replace("https://", "ftp://"), "neither `https://` nor"),
        (with_key(""), FIRST.replace("com/", "com/?a=b"), "the URL has a query"),
        (with_key("unwitnessed_seconds = 0\n"), FIRST.to_owned(), "out of range"),
        (with_key("unwitnessed_seconds = 119\n"), FIRST.to_owned(), "lines would often wait for longer"),
        (with_key("checkpoint_seconds = 841\n"), FIRST.to_owned(), "lines would often wait for longer"),
    ] {
        let findings = read_audit(&audit, &witnesses).unwrap_err();
        assert!(findings.iter().any(|finding| finding.text.contains(told)), "{told}: {findings:?}");
    }
}
