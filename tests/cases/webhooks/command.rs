//! `sluice webhook test`: what its user hears.

use super::{SECRET, TOKEN, hooked, is_signed};
use crate::support::gate::sluice;
use crate::support::{Act, Setup, Upstream};

fn run(setup: &Setup, name: &str) -> (i32, String) {
    let config = setup.write();
    let output = sluice(&["webhook", "test", name, "--config", config.to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(!text.contains(TOKEN) && !text.contains(SECRET), "{text}");
    (output.status.code().unwrap(), text)
}

#[test]
fn a_trial_is_signed_and_says_what_came_back() {
    let (upstream, hooks) = (Upstream::start(), Upstream::start());
    let setup = hooked(&upstream, &hooks);
    hooks.next(Act::json(200, "{}")).next(Act::json(500, "{}")).next(Act::json(302, "{}"));
    let (code, text) = run(&setup, "approvals");
    assert!(code == 0 && text.starts_with("approvals at 127.0.0.1: it accepted the message (200)"), "{text}");
    let seen = hooks.wait_for(0);
    assert!(is_signed(&seen, SECRET) && seen.text().contains(r#""type":"ping""#), "{}", seen.text());
    for (code, said) in [(4, "it answered 500"), (4, "redirects are not followed")] {
        let (found, text) = run(&setup, "approvals");
        assert!(found == code && text.contains(said), "{text}");
    }
    let (code, text) = run(&setup, "aprovals");
    assert!(
        code == 1 && text.contains("the configuration has no `[webhook.aprovals]`") && text.contains(": approvals"),
        "{text}"
    );
    let (code, text) = run(&Setup::of(&upstream), "approvals");
    assert!(code == 1 && text.contains("no `[webhook.approvals]`; it has no webhook"), "{text}");
    let (code, text) = run(&setup.set_raw("webhook.approvals", "timeout_ms", "0"), "approvals");
    assert!(code == 1 && text.contains("out of range"), "{text}");
}
