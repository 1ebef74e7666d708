//! Certificates that are not good any more: in new handshakes, in those that would be resumed, and over open connections.

use super::{Connected, NO_MORE, Parties, VERSIONS, refused, replace, wait_until};
use crate::support::tls::{INTERMEDIATE, Leaf};
use crate::support::token::token;
use crate::support::{Gate, Upstream};

const KEPT: &str =
    "the lists of revoked certificates cannot be used; the last good ones stay in use: correct the files";

/// Until the gate has said that it keeps its lists, and why.
fn wait_kept(gate: &Gate, why: &str) {
    gate.log.wait(&format!("the gate to say that it keeps its lists: {why}"), |lines| {
        let told = |line: &&serde_json::Value| {
            line["message"] == KEPT && line["why"].as_str().is_some_and(|told| told.contains(why))
        };
        lines.iter().find(told).map(drop)
    });
}

#[test]
fn who_is_on_a_list_does_not_get_in() {
    let (upstream, parties) = (Upstream::start(), Parties::new());
    let below = parties.callers.below("callers of a department");
    let leaf = |serial| Leaf::new("payroll").serial(serial);
    let [direct, under] = [parties.callers.issue(leaf(7)), below.issue(leaf(7)).vouched_for_by(&below)];
    for (what, revoked, of_direct, of_under) in [
        ("nobody", [parties.callers.revoked(&[]), below.revoked(&[])].concat(), None, None),
        ("somebody else", [parties.callers.revoked(&[8]), below.revoked(&[8])].concat(), None, None),
        (
            "the same number of another authority",
            [parties.callers.revoked(&[]), below.revoked(&[7])].concat(),
            None,
            Some("certificate_revoked"),
        ),
        ("the one", [parties.callers.revoked(&[6, 7]), below.revoked(&[])].concat(), Some("certificate_revoked"), None),
        (
            "the authority between",
            [parties.callers.revoked(&[INTERMEDIATE]), below.revoked(&[])].concat(),
            None,
            Some("certificate_revoked"),
        ),
        ("no list of the one between", parties.callers.revoked(&[]), None, Some("revocations_lacking")),
        (
            "an expired list",
            [parties.callers.revoked_in(&[], (2001, 2002)), below.revoked(&[])].concat(),
            Some("revocations_expired"),
            Some("revocations_expired"),
        ),
    ] {
        let gate = parties.setup_with(&upstream, &revoked).start();
        for version in VERSIONS {
            for (shown, reason) in [(&direct, of_direct), (&under, of_under)] {
                let counted = reason.map_or(0, |reason| refused(&gate, reason));
                let read = parties.read(&gate, Some(shown), version);
                assert_eq!(read, if reason.is_none() { Ok(200) } else { Err(()) }, "{what}");
                if let Some(reason) = reason {
                    wait_until(&format!("{what} to be counted"), || refused(&gate, reason) == counted + 1);
                }
            }
        }
    }
}

/// A list that nobody signed who may is no list: neither for those who are not on it.
#[test]
fn a_forged_list_lets_nobody_in() {
    let (upstream, parties) = (Upstream::start(), Parties::new());
    let namesake = crate::support::tls::Authority::called("callers");
    let gate = parties.setup_with(&upstream, &namesake.revoked(&[])).start();
    assert_eq!(parties.read(&gate, Some(&parties.good()), VERSIONS[0]), Err(()));
    assert!(upstream.seen().is_empty());
}

#[test]
fn a_list_that_is_replaced_counts_at_once_for_open_connections_too() {
    let (upstream, parties) = (Upstream::start(), Parties::new());
    let gate = parties.setup_with(&upstream, &parties.callers.revoked(&[])).start();
    let (good, other) = (parties.good(), parties.callers.issue(Leaf::new("billing").serial(8)));
    let open = VERSIONS.map(|version| parties.connected(&gate, Some(&good), version));
    let others = VERSIONS.map(|version| parties.connected(&gate, Some(&other), version));
    let all_read = |all: &[Connected]| -> Vec<_> { all.iter().map(|one| one.read(token())).collect() };
    assert_eq!([all_read(&open), all_read(&others)].concat(), [Ok(200); 4]);

    replace(&gate.path("revoked.pem"), parties.callers.revoked_in(&[7], (2025, 4000)));
    wait_until("the certificate to be revoked", || open[0].read(token()) != Ok(200));
    let seen = upstream.seen().len();
    // These are answers over the connections of before: a new one with this certificate gets none.
    assert_eq!(all_read(&open), [NO_MORE; 2]);
    for version in VERSIONS {
        assert_eq!(parties.read(&gate, Some(&good), version), Err(()));
    }
    assert_eq!(upstream.seen().len(), seen);
    assert_eq!(all_read(&others), [Ok(200); 2]);

    // Whatever stands there that cannot be used, the last good lists stay.
    let path = gate.path("revoked.pem");
    let lists = parties.callers.revoked_in(&[], (2026, 4000));
    for (content, why) in [
        (lists.get(..lists.len() / 2).unwrap().to_owned(), "cut off"),
        (String::new(), "no revocation list"),
        (parties.server.revoked(&[]), "no list of an authority"),
        (parties.callers.revoked_in(&[], (2024, 4000)), "older"),
        (parties.callers.revoked_in(&[], (2025, 2026)), "expired"),
    ] {
        replace(&path, content);
        wait_kept(&gate, why);
        assert_eq!(open[1].read(token()), NO_MORE, "{why}");
        assert_eq!(others[1].read(token()), Ok(200), "{why}");
    }
    std::fs::remove_file(&path).unwrap();
    wait_kept(&gate, "No such file");
    assert_eq!((open[0].read(token()), others[0].read(token())), (NO_MORE, Ok(200)));

    replace(&path, lists);
    wait_until("the certificate to be good again", || open[0].read(token()) == Ok(200));
}

/// Who shook hands once gets no ticket that would spare it the look at its certificate.
#[test]
fn no_handshake_is_spared() {
    let (upstream, parties) = (Upstream::start(), Parties::new());
    let gate = parties.setup_with(&upstream, &parties.callers.revoked(&[])).start();
    let config = std::sync::Arc::new(parties.server.client_with(&[b"http/1.1"], Some(&parties.good())));
    let shake = || {
        let name = rustls::pki_types::ServerName::try_from("127.0.0.1").unwrap();
        let client = rustls::ClientConnection::new(config.clone(), name).unwrap();
        let tcp = std::net::TcpStream::connect(gate.production()).unwrap();
        tcp.set_read_timeout(Some(crate::support::clock::PATIENCE)).unwrap();
        let mut stream = rustls::StreamOwned::new(client, tcp);
        let call = crate::support::get("/v2/users").header("Connection", "close").bytes();
        let mut answer = Vec::new();
        let sent = std::io::Write::write_all(&mut stream, &call);
        let read = sent.and_then(|()| std::io::Read::read_to_end(&mut stream, &mut answer));
        (read.is_ok() && answer.starts_with(b"HTTP/1.1 200"), stream.conn.handshake_kind())
    };
    for _ in 0..3 {
        assert_eq!(shake(), (true, Some(rustls::HandshakeKind::Full)));
    }
    replace(&gate.path("revoked.pem"), parties.callers.revoked_in(&[7], (2025, 4000)));
    wait_until("the certificate to be refused in a handshake", || {
        shake();
        refused(&gate, "certificate_revoked") > 0
    });
    assert!(!shake().0);
}
