//! Webhooks: the settings, and their faults.

use super::*;
use crate::notify::{NoticeEvent, PayloadFormat};

const URL: &str = "url = \"https://hooks.example.com/in\"\n";
const SECRETS: &str = "secrets = [{ file = \"w.secret\" }]\n";
const SECRET: &str = "whsec_c2x1aWNlLXRlc3Qtc2VjcmV0LW51bWJlci1vbmU=\n";
const CONSOLE: &str =
    "[console]\nlisten = \"127.0.0.1:8083\"\nissuer = \"main\"\npublic_url = \"https://c.example/\"\n";

fn text(webhook: &str) -> String {
    let issuer = ISSUER.replace("algorithms", "roles = \"roles\"\nalgorithms");
    format!("{MINIMAL}{CONSOLE}{issuer}[webhook.a]\n{webhook}")
}

fn read_webhook(webhook: &str) -> Result<ConfigReading, Vec<Finding>> {
    read_in(
        &text(webhook),
        &[("w.secret", SECRET), ("bad.secret", "whsec_short"), ("url", "https://h.example/T0")],
        &[],
    )
}

#[test]
fn a_small_section_means_the_defaults() {
    let reading = read_webhook(&format!("{URL}{SECRETS}")).unwrap();
    assert!(reading.warnings.is_empty(), "{:?}", reading.warnings);
    let [webhook] = reading.config.webhooks.as_slice() else { panic!("one webhook") };
    assert_eq!((webhook.name.as_str(), webhook.url.reveal()), ("a", "https://hooks.example.com/in"));
    assert_eq!((webhook.events.len(), webhook.environments.len()), (NoticeEvent::ALL.len(), 2));
    assert_eq!((webhook.format, webhook.details, webhook.allow_private), (PayloadFormat::Standard, false, false));
    assert_eq!((webhook.timeout.as_secs(), webhook.keep.as_secs()), (10, 3 * 86_400));
    assert_eq!(webhook.secrets[0].reveal(), SECRET.trim());
    let console = reading.config.console.unwrap();
    assert_eq!(console.origin.as_deref(), Some("https://c.example"));
    assert_eq!(console.remind_before.as_secs(), 3_600);
    let chat = read_webhook("url = { file = \"url\" }\nformat = \"chat\"\nevents = [\"hold.held\"]\n").unwrap();
    let [webhook] = chat.config.webhooks.as_slice() else { panic!("one webhook") };
    assert!(webhook.secrets.is_empty() && webhook.events.contains(&NoticeEvent::Held) && webhook.events.len() == 1);
    assert!(!format!("{:?}", chat.config).contains("T0"), "a URL may hold a secret");
}

#[test]
fn details_by_plain_http_to_another_machine_are_told() {
    for (url, details, is_told) in [
        ("http://10.0.0.1/x", true, true),
        ("http://10.0.0.1/x", false, false),
        ("http://127.0.0.1:9/x", true, false),
        ("https://10.0.0.1/x", true, false),
    ] {
        let webhook = format!("url = \"{url}\"\n{SECRETS}allow_private = true\ndetails = {details}\n");
        let warnings = read_webhook(&webhook).unwrap().warnings;
        let told =
            warnings.iter().filter(|one| one.severity == Severity::Insecure && one.text.contains("`details` is true"));
        assert_eq!(told.count(), usize::from(is_told), "{url} {details} {warnings:?}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_a_remedy() {
    let line = text("").lines().count();
    for (written, told, remedy) in [
        (SECRETS.to_owned(), "`webhook.a.url` is missing", "url ="),
        (URL.to_owned(), "`webhook.a` has no `secrets`", "whsec_$(openssl"),
        (format!("{SECRETS}url = \"http://hooks.example.com/in\"\n"), "`webhook.a.url` is plain HTTP", "allow_private"),
        (format!("{SECRETS}url = \"https://me:pw@hooks.example.com/\"\n"), "the URL has a user", "https://"),
        (format!("{SECRETS}url = \"ftp://hooks.example.com/\"\n"), "neither `https://` nor", "https://"),
        (format!("{URL}secrets = []\n"), "the list is empty", "at least one"),
        (format!("{URL}secrets = [{{ file = \"bad.secret\" }}]\n"), "a webhook secret must be `whsec_`", "openssl"),
        (format!("{URL}{SECRETS}events = [\"hold.holded\"]\n"), "`hold.holded` is not a valid choice", "`hold.held`"),
        (format!("{URL}{SECRETS}events = [\"request.indoubt\"]\n"), "not a valid choice", "`request.in-doubt`"),
        (format!("{URL}{SECRETS}events = []\n"), "the list is empty", "at least one"),
        (format!("{URL}{SECRETS}environments = []\n"), "the list is empty", "remove the setting"),
        (format!("{URL}{SECRETS}format = \"slack\"\n"), "not a valid choice", "`chat`"),
        (format!("{URL}{SECRETS}keep_days = 31\n"), "out of range", ""),
        (format!("{URL}{SECRETS}sercets = []\n"), "there is no setting `webhook.a.sercets`", "`secrets`"),
    ] {
        let findings = read_webhook(&written).unwrap_err();
        let found = findings.iter().find(|finding| finding.text.contains(told));
        let found = found.unwrap_or_else(|| panic!("{written}: {findings:?}"));
        let at: usize = found.place.as_deref().and_then(|at| at.split(':').next()?.parse().ok()).unwrap();
        assert!(at >= line && found.remedy.as_deref().unwrap_or_default().contains(remedy), "{written}: {found:?}");
        assert!(!format!("{findings:?}").contains("pw@"), "{findings:?}");
    }
}

#[test]
fn what_is_odd_is_warned_of() {
    let warned = |text: &str| -> Vec<String> {
        let files = [("w.secret", SECRET)];
        read_in(text, &files, &[]).unwrap().warnings.iter().map(|finding| finding.text.clone()).collect()
    };
    let whole = text(&format!("{URL}{SECRETS}"));
    let without = whole.replace("public_url = \"https://c.example/\"\n", "");
    assert_eq!(warned(&without), ["`console.public_url` is not set: notices to webhooks contain no links"]);
    let elsewhere = format!("{whole}environments = [\"production\", \"sandbox\"]\n");
    assert_eq!(warned(&elsewhere), ["`webhook.a.environments`: `sandbox` is not configured"]);
    let plain = whole.replace("{ file = \"w.secret\" }", &format!("{:?}", SECRET.trim()));
    assert_eq!(warned(&plain), ["`webhook.a.secrets` is a secret in plain text in this file"]);
    let several = whole.replace(SECRETS, "secrets = [{ env = \"SLUICE_HOOK\" }, { file = \"w.secret\" }]\n");
    let read = read_in(&several, &[("w.secret", SECRET)], &[("SLUICE_HOOK", SECRET.trim())]).unwrap();
    assert_eq!((read.config.webhooks[0].secrets.len(), read.warnings.len()), (2, 0), "{:?}", read.warnings);
    for url in ["c.example", "https://c.example/?q=1", "https://me@c.example", "ftp://c.example", "https://c.example/a"]
    {
        let text = whole.replace("https://c.example/", url);
        let findings = read_in(&text, &[("w.secret", SECRET)], &[]).unwrap_err();
        assert!(findings[0].text.starts_with("`console.public_url`"), "{url}: {findings:?}");
    }
}
