//! The last good keys on disk: for a start while the issuer is away, for a day, for the URL that they came from.

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
