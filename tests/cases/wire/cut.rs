//! An end that cuts calls off: what was certainly not sent is undone.

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::{swap, told};
use crate::support::{Caller, Setup};

const CALLS: usize = 10;

#[test]
fn an_end_at_once_leaves_no_doubt_about_what_was_not_sent() {
    // It accepts connections, and never answers the TLS handshake: calls stay between their commit and their first byte.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let certificate = crate::support::tls::Authority::new().pem();
    let gate = Setup::new()
        .environment("production", &url)
        .file("ca.pem", &certificate)
        .set("production", "upstream_ca", "ca.pem")
        .timeout_ms("tls_handshake_ms", 3_000)
        .timeout_ms("connect_ms", 3_000)
        .start();
    let id = |at: usize| format!("cut-{at}");
    let mut callers: Vec<Caller> = (0..CALLS).map(|_| Caller::connect(gate.production())).collect();
    for (at, caller) in callers.iter_mut().enumerate() {
        caller.send(swap(&id(at)).bytes());
    }
    // Each call opens one, and has another one opened ahead.
    let open: Vec<TcpStream> = (0..CALLS * 2).map(|_| listener.accept().unwrap().0).collect();
    gate.terminate();
    gate.log.wait("the gate to begin its end", |lines| {
        lines.iter().any(|l| l["message"].as_str().is_some_and(|m| m.starts_with("ending"))).then_some(())
    });
    gate.signal("INT");
    assert_eq!(gate.wait_end().code(), Some(6));
    drop((open, listener));

    let gate = gate.end().start();
    assert_eq!(gate.metric(r#"sluice_claims_in_doubt{environment="production"}"#), 0);
    for at in 0..CALLS {
        let again = swap(&id(at)).send(gate.production());
        assert_eq!(told(&again), (502, "UPSTREAM_UNAVAILABLE".into(), "not-executed".into()), "{again}");
        assert!(again.took < Duration::from_secs(3), "{again}");
    }
}
