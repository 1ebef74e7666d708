//! Who gets in, and who does not.

use super::{Parties, VERSIONS, refused, wait_until};
use crate::support::tls::{Authority, Leaf};
use crate::support::{Caller, Upstream, get};

#[test]
fn only_who_shows_a_good_certificate_gets_in() {
    let (upstream, parties) = (Upstream::start(), Parties::new());
    let gate = parties.setup(&upstream).start();
    let below = parties.callers.below("callers of a department");
    let leaf = || Leaf::new("payroll");
    let (stranger, namesake) = (Authority::called("strangers"), Authority::called("callers"));
    let caller = parties.callers.pretender("a caller");
    for (what, shown, reason) in [
        ("good", Some(parties.callers.issue(leaf())), None),
        ("good, below another authority", Some(below.issue(leaf()).vouched_for_by(&below)), None),
        ("none", None, Some("certificate_missing")),
        ("another authority's", Some(stranger.issue(leaf())), Some("certificate_foreign")),
        (
            "another authority's with its certificate",
            Some(stranger.issue(leaf()).vouched_for_by(&stranger)),
            Some("certificate_foreign"),
        ),
        ("an authority's of the same name", Some(namesake.issue(leaf())), Some("certificate_foreign")),
        ("the gate's own authority's", Some(parties.server.issue(leaf())), Some("certificate_foreign")),
        ("below an authority that is not shown", Some(below.issue(leaf())), Some("certificate_foreign")),
        ("expired", Some(parties.callers.issue(leaf().expired())), Some("certificate_expired")),
        ("not yet good", Some(parties.callers.issue(leaf().not_yet())), Some("certificate_not_yet")),
        ("for servers", Some(parties.callers.issue(leaf().for_servers())), Some("certificate_unfit")),
        ("self-signed", Some(leaf().self_signed()), Some("certificate_foreign")),
        ("self-signed in the authority's name", Some(Leaf::new("callers").self_signed()), Some("certificate_foreign")),
        ("signed by a caller", Some(caller.issue(leaf()).vouched_for_by(&caller)), Some("certificate_unfit")),
    ] {
        for version in VERSIONS {
            let (seen, counted) = (upstream.seen().len(), reason.map_or(0, |reason| refused(&gate, reason)));
            let read = parties.read(&gate, shown.as_ref(), version);
            match reason {
                None => assert_eq!((read, upstream.seen().len()), (Ok(200), seen + 1), "{what}"),
                Some(reason) => {
                    assert_eq!((read, upstream.seen().len()), (Err(()), seen), "{what}");
                    wait_until(&format!("{what} to be counted as {reason}"), || refused(&gate, reason) == counted + 1);
                }
            }
        }
    }
}

#[test]
fn a_good_certificate_is_no_token_and_headers_are_no_certificate() {
    let (upstream, parties) = (Upstream::start(), Parties::new());
    let sandbox = Upstream::start();
    let gate = parties.setup(&upstream).sandbox(&sandbox).start();
    let good = parties.good();
    assert_eq!(parties.connected(&gate, Some(&good), VERSIONS[0]).read("a.b.c"), Ok(401));
    let mut plain = Caller::connect(gate.production());
    let call = get("/v2/users").header("X-Client-Cert", "good").header("X-SSL-Client-Verify", "SUCCESS");
    drop(plain.try_send(call.bytes()));
    assert!(plain.try_answer().is_err());
    assert!(upstream.seen().is_empty());
    wait_until("plain text to be counted", || refused(&gate, "handshake") == 1);
    // The other environment asks for none.
    assert_eq!(call.send(gate.sandbox()).status, 200);
    assert!(sandbox.seen()[0].head.header("x-client-cert").is_none());
}
