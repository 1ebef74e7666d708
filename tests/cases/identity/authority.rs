//! Keys over TLS: they come from the host that was named, certified by whom was named, or not at all.

use super::signer::Signer;
use super::watched::Watched;
use super::{claims_of_second, fetched_from, shows};
use crate::support::tls::{Authority, Leaf};
use crate::support::upstream::answer;
use crate::support::{Act, Setup, Upstream};

fn gate(upstream: &Upstream, keys: &Upstream, authority: &Authority) -> Watched {
    let setup = fetched_from(Setup::of(upstream), keys).file("issuer-ca.pem", &authority.pem());
    Watched::start(setup.set("issuer.second", "jwks_ca", "issuer-ca.pem"))
}

/// The reason that the log gives for having no keys.
fn why(gate: &Watched) -> String {
    gate.log.wait("the log to tell why there are no keys", |lines| {
        let told = lines.iter().find(|line| {
            line["message"] == "the issuer's keys cannot be fetched, and none are known: its tokens are answered 503"
        })?;
        told["why"].as_str().map(str::to_owned)
    })
}

#[test]
fn keys_come_over_tls_from_who_is_certified() {
    let (upstream, authority, signer) = (Upstream::start(), Authority::new(), Signer::ed("k-1"));
    let keys = Upstream::start_tls(authority.certify(&["127.0.0.1"]).server());
    keys.always(shows(&[&signer]));
    let gate = gate(&upstream, &keys, &authority);
    gate.assert_passes(&signer.token(&claims_of_second()));
    assert_eq!(gate.fetches("good"), 1);
    gate.assert_silent();
}

#[test]
fn keys_of_somebody_else_are_not_taken_and_the_log_says_why() {
    let (authority, stranger, signer) = (Authority::new(), Authority::new(), Signer::ed("k-1"));
    let named = |name: &str| Leaf::new(name).named(name);
    for (what, keys, outcome, told) in [
        (
            "another authority",
            Upstream::start_tls(stranger.certify(&["127.0.0.1"]).server()),
            "untrusted",
            "its certificate was not issued by a trusted authority",
        ),
        (
            "another name",
            Upstream::start_tls(authority.certify(&["issuer.example", "127.0.0.2"]).server()),
            "untrusted",
            "its certificate is for another host",
        ),
        (
            "expired",
            Upstream::start_tls(authority.issue(named("127.0.0.1").expired()).server()),
            "untrusted",
            "its certificate has expired",
        ),
        ("no TLS", Upstream::start(), "untrusted", "it supports no TLS version or cipher that Sluice accepts"),
    ] {
        let upstream = Upstream::start();
        keys.always(shows(&[&signer]));
        for _ in 0..if what == "no TLS" { 50 } else { 0 } {
            keys.next(Act::bytes("HTTP/1.1 400 Bad\r\n\r\n").blind().hang());
        }
        let setup = fetched_from(Setup::of(&upstream), &keys).file("issuer-ca.pem", &authority.pem());
        let setup = setup.set("issuer.second", "jwks_url", &keys.url().replace("http:", "https:"));
        let gate = Watched::start(setup.set("issuer.second", "jwks_ca", "issuer-ca.pem"));
        let answer = gate.read(&signer.token(&claims_of_second()));
        assert_eq!((answer.status, answer.code().as_str()), (503, "KEYS_UNAVAILABLE"), "{what}: {answer}");
        assert_eq!(why(&gate), told, "{what}");
        assert!(gate.fetches(outcome) > 0, "{what}");
        assert!(keys.seen().is_empty() && upstream.seen().is_empty(), "{what}");
        gate.assert_silent();
    }
}

#[test]
fn without_an_authority_of_its_own_the_systems_are_asked() {
    let (upstream, authority, signer) = (Upstream::start(), Authority::new(), Signer::ed("k-1"));
    let keys = Upstream::start_tls(authority.certify(&["127.0.0.1"]).server());
    keys.always(shows(&[&signer]));
    let gate = Watched::start(fetched_from(Setup::of(&upstream), &keys));
    assert_eq!(gate.read(&signer.token(&claims_of_second())).status, 503);
    assert!(gate.fetches("untrusted") > 0);
    assert!(keys.seen().is_empty());
    gate.assert_silent();
}

#[test]
fn a_way_out_of_tls_is_not_taken() {
    let (upstream, elsewhere, authority) = (Upstream::start(), Upstream::start(), Authority::new());
    let signer = Signer::ed("k-1");
    elsewhere.always(shows(&[&signer]));
    let keys = Upstream::start_tls(authority.certify(&["127.0.0.1"]).server());
    keys.always(Act::bytes(answer(307, &[("Location", &format!("{}/keys", elsewhere.url()))], b"")));
    let gate = gate(&upstream, &keys, &authority);
    assert_eq!(gate.read(&signer.token(&claims_of_second())).status, 503);
    assert_eq!(why(&gate), "it answered 307; redirects are not followed");
    assert!(elsewhere.seen().is_empty());
    gate.assert_silent();
}
