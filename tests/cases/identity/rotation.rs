//! Keys that change: a new one is taken at its first use, one that is gone believes nothing any more.

use serde_json::json;

use super::signer::Signer;
use super::watched::Watched;
use super::{claims_of_second, fetched_from, jwks, second, shows, wait_until};
use crate::support::clock::Watch;
use crate::support::shared::Signal;
use crate::support::token::token;
use crate::support::{Act, Answer, Caller, Setup, Upstream, get};

/// How often an unknown key may cause a fetch, as the gate has it.
const COOLDOWN_SECS: u64 = 10;

#[test]
fn a_new_key_is_taken_at_its_first_use() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let (old, new) = (Signer::ed("k-1"), Signer::ed("k-2"));
    keys.always(shows(&[&old]));
    let gate = Watched::start(fetched_from(Setup::of(&upstream), &keys));
    gate.assert_passes(&old.token(&claims_of_second()));
    keys.always(shows(&[&old, &new]));
    gate.assert_passes(&new.token(&claims_of_second()));
    gate.assert_passes(&old.token(&claims_of_second()));
    assert_eq!(keys.seen().len(), 2);
    assert_eq!(gate.metric(super::KEYS_OF_SECOND), 2);
    gate.assert_silent();
}

#[test]
fn tokens_of_a_key_that_is_gone_are_refused_though_they_were_believed() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let (old, new) = (Signer::ed("k-1"), Signer::ed("k-2"));
    keys.always(shows(&[&old]));
    let gate = Watched::start(fetched_from(Setup::of(&upstream), &keys));
    let remembered = old.token(&claims_of_second());
    gate.assert_passes(&remembered);
    gate.assert_passes(&remembered);
    keys.always(shows(&[&new]));
    gate.assert_passes(&new.token(&claims_of_second()));
    // The issuer was asked just now, and nobody knows whether it has the key again.
    assert_unavailable(&gate.read(&remembered));
    gate.assert_passes(token());
    assert_eq!((keys.seen().len(), gate.refused("no_keys")), (2, 1));
    gate.assert_silent();
}

#[test]
fn a_key_of_the_same_name_is_another_key() {
    let upstream = Upstream::start();
    let (old, new) = (Signer::ed("k-1"), Signer::ed("k-1"));
    let setup = second(Setup::of(&upstream), "EdDSA").file("jwks.json", &jwks(&[&old]));
    let gate = Watched::start(setup.set("issuer.second", "jwks_file", "jwks.json"));
    let remembered = old.token(&claims_of_second());
    gate.assert_passes(&remembered);
    std::fs::write(gate.path("jwks.json"), jwks(&[&new])).unwrap();
    wait_until("the former key to be forgotten", || gate.read(&remembered).status == 401);
    gate.assert_passes(&new.token(&claims_of_second()));
    gate.assert_silent();
}

#[test]
fn a_file_is_looked_at_when_a_new_key_is_used_and_stays_in_force_when_it_breaks() {
    let upstream = Upstream::start();
    let (old, new) = (Signer::curve("k-1"), Signer::curve("k-2"));
    let setup = second(Setup::of(&upstream), "ES256").file("jwks.json", &jwks(&[&old]));
    let gate = Watched::start(setup.set("issuer.second", "jwks_file", "jwks.json"));
    std::fs::write(gate.path("jwks.json"), jwks(&[&old, &new])).unwrap();
    gate.assert_passes(&new.token(&claims_of_second()));
    std::fs::write(gate.path("jwks.json"), "{").unwrap();
    gate.log.wait("the broken file to be told of", |lines| {
        lines
            .iter()
            .find(|line| line["message"] == "the issuer's keys cannot be fetched; the last good ones stay in use")
            .map(drop)
    });
    gate.assert_passes(&old.token(&claims_of_second()));
    assert_eq!(gate.readiness().0, 200);
    gate.assert_silent();
}

#[test]
fn a_thousand_unknown_keys_cause_one_fetch_a_cooldown() {
    const CALLERS: usize = 8;
    const TOKENS: usize = 1_000;
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let signer = Signer::ed("k-1");
    keys.always(shows(&[&signer]));
    let gate = Watched::start(fetched_from(Setup::of(&upstream), &keys));
    gate.assert_passes(&signer.token(&claims_of_second()));
    let watch = Watch::start();
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let gate = &gate;
            scope.spawn(move || {
                for at in 0..TOKENS / CALLERS {
                    let answer = gate.read(&Signer::ed(&format!("u-{caller}-{at}")).token(&claims_of_second()));
                    assert!(answer.status == 401 || is_unavailable(&answer), "{answer}");
                }
            });
        }
    });
    assert_eq!(gate.refused("unknown_key") + gate.refused("no_keys"), TOKENS as u64);
    let most = 2 + watch.elapsed().as_secs() / COOLDOWN_SECS;
    assert!(keys.seen().len() as u64 <= most, "{} fetches in {:?}", keys.seen().len(), watch.elapsed());
    gate.assert_passes(&signer.token(&claims_of_second()));
}

fn is_unavailable(answer: &Answer) -> bool {
    (answer.status, answer.code().as_str()) == (503, "KEYS_UNAVAILABLE") && answer.header("retry-after").is_some()
}

fn assert_unavailable(answer: &Answer) {
    assert!(is_unavailable(answer), "{answer}");
}

/// Tokens without a key id, keys without one, and a new key under the old id.
#[test]
fn a_new_key_that_no_id_tells_is_taken_at_its_first_use() {
    let (old, new) = (Signer::ed("k-1"), Signer::ed("k-2"));
    let (same, claims) = (Signer::ed("k-1"), claims_of_second());
    let bare = |signer: &Signer| signer.token_with(&json!({"alg": "EdDSA"}), &claims);
    let nameless = |signer: &Signer| {
        let mut jwk = signer.jwk();
        jwk.as_object_mut().unwrap().remove("kid");
        Act::json(200, json!({ "keys": [jwk] }).to_string())
    };
    for (what, before, after, old_token, new_token) in [
        ("tokens without an id", shows(&[&old]), shows(&[&old, &new]), bare(&old), bare(&new)),
        ("keys without one", nameless(&old), nameless(&new), old.token(&claims), new.token(&claims)),
        ("the same id", shows(&[&old]), shows(&[&same]), old.token(&claims), same.token(&claims)),
    ] {
        let (upstream, keys) = (Upstream::start(), Upstream::start());
        keys.always(before);
        let gate = Watched::start(fetched_from(Setup::of(&upstream), &keys));
        gate.assert_passes(&old_token);
        keys.always(after);
        assert_eq!(gate.read(&new_token).status, 200, "{what}");
        assert_eq!(keys.seen().len(), 2, "{what}");
        // Whoever signs without a key hears 401 after a fetch, and causes no other one within the cooldown.
        for _ in 0..20 {
            let forged = gate.read(&Signer::ed("k-1").token(&claims));
            assert!(forged.status == 401 || is_unavailable(&forged), "{what}: {forged}");
        }
        gate.assert_passes(&new_token);
        assert_eq!(keys.seen().len(), 2, "{what}");
    }
}

/// A stranger's token used up the fetch of this cooldown; then the issuer rotates.
#[test]
fn a_token_that_comes_in_the_cooldown_is_unavailable_and_never_refused() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let (old, new) = (Signer::ed("k-1"), Signer::ed("k-2"));
    keys.always(shows(&[&old]));
    let gate = Watched::start(fetched_from(Setup::of(&upstream), &keys));
    gate.assert_passes(&old.token(&claims_of_second()));
    gate.assert_refused(&Signer::ed("nobody").token(&claims_of_second()));
    keys.always(shows(&[&old, &new]));
    assert_unavailable(&gate.read(&new.token(&claims_of_second())));
    // A wrong signature of a known key is none of a key that may come.
    gate.assert_refused(&Signer::ed("k-1").token(&claims_of_second()));
    gate.assert_passes(&old.token(&claims_of_second()));
    assert_eq!(keys.seen().len(), 2);
    wait_until("the cooldown to be over", || gate.read(&new.token(&claims_of_second())).status == 200);
    gate.assert_silent();
}

#[test]
fn all_who_need_a_new_key_wait_for_the_one_fetch_and_nobody_else_does() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let (old, new) = (Signer::ed("k-1"), Signer::ed("k-2"));
    keys.always(shows(&[&old]));
    let gate = Watched::start(fetched_from(Setup::of(&upstream), &keys));
    gate.assert_passes(&old.token(&claims_of_second()));
    let go = Signal::new();
    keys.next(shows(&[&old, &new]).after(&go));
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..16).map(|_| scope.spawn(|| gate.read(&new.token(&claims_of_second())))).collect();
        keys.wait_for(1);
        gate.assert_passes(&old.token(&claims_of_second()));
        gate.assert_passes(token());
        assert!(waiting.iter().all(|one| !one.is_finished()));
        go.give();
        for one in waiting {
            assert_eq!(one.join().unwrap().status, 200);
        }
    });
    assert_eq!(keys.seen().len(), 2);
    gate.assert_silent();
}

#[test]
fn who_leaves_does_not_take_the_fetch_along() {
    let (upstream, keys) = (Upstream::start(), Upstream::start());
    let (old, new) = (Signer::ed("k-1"), Signer::ed("k-2"));
    keys.always(shows(&[&old]));
    let gate = Watched::start(fetched_from(Setup::of(&upstream), &keys));
    gate.assert_passes(&old.token(&claims_of_second()));
    let go = Signal::new();
    keys.next(shows(&[&old, &new]).after(&go));
    let forged = Signer::ed("nobody").token(&claims_of_second());
    let call = get("/v2/users").without("Authorization").header("Authorization", format!("Bearer {forged}"));
    let mut caller = Caller::connect(gate.production());
    caller.send(call.bytes());
    keys.wait_for(1);
    caller.reset();
    go.give();
    gate.assert_passes(&new.token(&claims_of_second()));
    assert_eq!(keys.seen().len(), 2);
    gate.assert_silent();
}
