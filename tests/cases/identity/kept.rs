//! The last good keys, in the process and on disk: while the issuer is away, for a bounded time, for the URL that they
//! came from.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use super::signer::Signer;
use super::watched::Watched;
use super::{claims_of_second, fetched_from, shows, wait_until};
use crate::support::{Act, Setup, Upstream};

const AGE: &str = r#"sluice_keys_age_seconds{issuer="second"}"#;

#[test]
fn kept_keys_serve_while_the_issuer_is_away() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let (old, new) = (Signer::ed("k-1"), Signer::ed("k-2"));
    let token = old.token(&claims_of_second());
    keys.always(shows(&[&old]));
    let setup = fetched_from(Setup::of(&upstream), &keys).set("issuer.second", "jwks_keep", "kept.json");
    let gate = Watched::start(setup);
    gate.assert_passes(&token);
    let kept = gate.path("kept.json");
    assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!gate.path("kept.json.new").exists());

    let setup = gate.kill();
    keys.always(Act::json(500, "{}"));
    let file = std::fs::OpenOptions::new().write(true).open(&kept).unwrap();
    let written = file.metadata().unwrap().modified().unwrap();
    file.set_modified(written - Duration::from_secs(3600)).unwrap();
    let gate = Watched::start(setup);
    gate.assert_passes(&token);
    assert_eq!(gate.readiness().0, 200);
    assert!((3600..3700).contains(&gate.metric(AGE)), "{}", gate.metric(AGE));
    assert!(gate.fetches("status") > 0);

    // What the issuer says goes before what was kept, and is kept in its place.
    keys.always(shows(&[&new]));
    wait_until("the issuer to be asked again", || gate.read(&token).status == 401);
    gate.assert_passes(&new.token(&claims_of_second()));
    assert!(gate.metric(AGE) < 60);
    assert!(std::fs::read_to_string(&kept).unwrap().contains("k-2"));
    gate.assert_silent();
}

#[test]
fn kept_keys_that_are_old_foreign_or_broken_are_not_used() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let signer = Signer::ed("k-1");
    let token = signer.token(&claims_of_second());
    keys.always(shows(&[&signer]));
    let setup = fetched_from(Setup::of(&upstream), &keys).set("issuer.second", "jwks_keep", "kept.json");
    let gate = Watched::start(setup);
    gate.assert_passes(&token);
    let kept = gate.path("kept.json");
    let mut setup = gate.kill();
    keys.always(Act::json(500, "{}"));
    let elsewhere = Upstream::start();
    elsewhere.always(Act::json(500, "{}"));
    let good = std::fs::read(&kept).unwrap();
    for (what, url, content, age_hours) in [
        ("too old", &keys, good.as_slice(), 24),
        ("from another URL", &elsewhere, good.as_slice(), 0),
        ("cut", &keys, &good[..good.len() / 2], 0),
        ("empty", &keys, b"".as_slice(), 0),
    ] {
        std::fs::write(&kept, content).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&kept).unwrap();
        let now = file.metadata().unwrap().modified().unwrap();
        file.set_modified(now - Duration::from_secs(age_hours * 3600)).unwrap();
        let gate = Watched::start(setup.set("issuer.second", "jwks_url", &format!("{}/keys", url.url())));
        let answer = gate.read(&token);
        assert_eq!((answer.status, answer.code().as_str()), (503, "KEYS_UNAVAILABLE"), "{what}: {answer}");
        assert_eq!(gate.readiness().0, 503, "{what}");
        setup = gate.kill();
    }
    drop(setup);
}

#[test]
fn keys_that_are_too_old_believe_nothing_any_more() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let signer = Signer::ed("k-1");
    let token = signer.token(&claims_of_second());
    keys.always(shows(&[&signer]));
    let setup = fetched_from(Setup::of(&upstream), &keys).set_raw("issuer.second", "longest_stale_secs", "3");
    let gate = Watched::start(setup.set("issuer.second", "jwks_keep", "kept.json"));
    wait_until("the token to be remembered", || gate.read(&token).status == 200);
    keys.always(Act::json(500, "{}"));
    // A file that seems to come from tomorrow does not make them young again.
    let kept = std::fs::OpenOptions::new().write(true).open(gate.path("kept.json")).unwrap();
    kept.set_modified(kept.metadata().unwrap().modified().unwrap() + Duration::from_secs(24 * 3600)).unwrap();
    wait_until("the keys to be let go of", || gate.read(&token).status != 200);
    let answer = gate.read(&token);
    assert_eq!((answer.status, answer.code().as_str()), (503, "KEYS_UNAVAILABLE"), "{answer}");
    let (status, told) = gate.readiness();
    assert!(status == 503 && told.contains("second"), "{status} {told}");
    let failed = gate.fetches("status");
    wait_until("the issuer to be asked again", || gate.fetches("status") > failed);
    assert_eq!((gate.read(&token).status, gate.readiness().0), (503, 503));
    gate.assert_passes(crate::support::token::token());

    keys.always(shows(&[&signer]));
    wait_until("the issuer to be asked again", || gate.readiness().0 == 200);
    wait_until("the token to pass", || gate.read(&token).status == 200);
    gate.assert_silent();
}

#[test]
fn a_file_of_keys_that_is_gone_is_believed_for_as_long() {
    let upstream = Upstream::start();
    let signer = Signer::ed("k-1");
    let token = signer.token(&claims_of_second());
    let setup = super::second(Setup::of(&upstream), "EdDSA").file("jwks.json", &super::jwks(&[&signer]));
    let setup = setup.set("issuer.second", "jwks_file", "jwks.json");
    let gate = Watched::start(setup.set_raw("issuer.second", "longest_stale_secs", "3"));
    wait_until("the token to be remembered", || gate.read(&token).status == 200);
    std::fs::remove_file(gate.path("jwks.json")).unwrap();
    wait_until("the keys to be let go of", || gate.readiness().0 == 503);
    let answer = gate.read(&token);
    assert_eq!((answer.status, answer.code().as_str()), (503, "KEYS_UNAVAILABLE"), "{answer}");
    gate.assert_silent();
}
