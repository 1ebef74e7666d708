//! A right to send that lapses while a connection is made.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::Method;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap};
use jiff::Timestamp;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use super::*;
use crate::audit::OnDisk;
use crate::base::ids::TraceId;
use crate::base::keyed::OperandKey;
use crate::catalog::{Catalog, SchemaFiles};
use crate::ledger::{JournalId, Keep, NodeId, Number, Outstanding, Receipt, Sender, StoreTime};
use crate::policy::{Facts, Policies};
use crate::stations::admit::{self, RequestHead, VerifiedToken};
use crate::stations::check::check;
use crate::stations::claim::{AttemptSource, Lease, Nonce, Proposer, Terms, propose};
use crate::stations::decide::{Allowed, Decision, decide};
use crate::stations::forward::{clear, outgoing};

const SWAP: &[u8] = include_bytes!("../../../schemas/examples/createSwap/good-both-amounts.json");

/// A clock that a test moves.
#[derive(Debug, Default)]
struct MovedClock(AtomicU64);

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

fn allowed() -> Allowed {
    let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
    let (method, mut headers) = (Method::POST, HeaderMap::new());
    headers.insert(AUTHORIZATION, "Bearer a.b.c".parse().unwrap());
    headers.insert(CONTENT_TYPE, "application/json".parse().unwrap());
    let head = RequestHead { method: &method, target: "/v2/wallets/swaps", headers: &headers };
    let (found, token) = (admit::find(&catalog, head).unwrap(), admit::bearer(&headers).unwrap());
    let anyone = VerifiedToken::of_anyone();
    let admitted = admit::admit(Environment::Sandbox, found, head, token, &anyone, None).unwrap();
    let intent = check(admitted, &headers, SWAP).unwrap();
    match decide(intent, &Policies::of_everything(&catalog), &Facts::default()) {
        Decision::Allowed(allowed) => allowed,
        other => panic!("{other:?}"),
    }
}

/// A request whose first byte may leave until the lease is over.
fn leased(lease: Lease, origin: &UpstreamOrigin) -> Outgoing {
    let span = Duration::from_secs(60);
    let terms = Terms { begin_within: span, lease: span, first_look: span, quiet: span, keep: Keep::Forever };
    let (node, number) = (NodeId::parse("gate").unwrap(), Number::new(1));
    let sender = Sender { node: node.clone(), journal: JournalId::parse(&"a1".repeat(16)).unwrap() };
    let (nonce, trace) = (Nonce("n".to_owned()), TraceId::parse("t-1").unwrap());
    let operand_key = OperandKey::of(&[7; 32]).unwrap();
    let by = Proposer { sender: &sender, nonce: &nonce, trace: &trace, terms: &terms, operand_key: &operand_key };
    let proposal = propose(allowed(), &by, lease, AttemptSource::Nothing);
    let (environment, at, entry) = (Environment::Sandbox, StoreTime::of_micros(1), Bytes::from_static(b"{}"));
    let (committed, _) = proposal.committed(&Receipt::new(number, at, entry.clone()));
    let on_disk = OnDisk::new(&[Outstanding { environment, number, at, node, entry }]);
    let cleared = clear(committed.recorded(&on_disk).unwrap());
    outgoing(cleared, origin, None, &HeaderMap::new(), &trace).unwrap()
}

/// Its first connection takes long, by the clock: then a claim's lease may have lapsed, and others wait for the gate no more.
#[tokio::test]
async fn nothing_is_written_once_the_lease_has_lapsed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (port, second) = (listener.local_addr().unwrap().port(), Duration::from_secs(1));
    let config =
        UpstreamConfig { tls: false, host: "127.0.0.1".to_owned(), port, base_path: String::new(), ca_pem: None };
    let timeouts = TimeoutsConfig {
        head: second,
        body: second,
        drain: second,
        client_handshake: second,
        connect: second,
        tls_handshake: second,
        write: second,
        commit: second,
        answer: second,
        upstream_max: second,
        client_write: second,
        keepalive: second,
        upstream_idle: second,
        notice: second,
        grace: second,
    };
    let clock = Arc::new(MovedClock::default());
    let metrics = (Environment::Sandbox, Metrics::new().unwrap());
    let room = (1 << 20, 1 << 20);
    let upstream = PinnedUpstream::new(config, timeouts, room, clock.clone(), metrics, WireEnd::default()).unwrap();
    let lease = Lease::starting(Duration::ZERO, second);
    for (now, is_sent) in [(999, true), (1_000, false)] {
        clock.0.store(now, Ordering::SeqCst);
        let outgoing = leased(lease, upstream.origin());
        let accepted = async {
            let (mut line, _) = listener.accept().await.unwrap();
            let mut came = Vec::new();
            // The gate resets the connection at its end.
            line.read_to_end(&mut came).await.ok();
            came
        };
        let (SendResult { sent, late }, came) = tokio::join!(
            async {
                let mut result = upstream.send(outgoing).await;
                result.late = None;
                result
            },
            accepted
        );
        assert!(late.is_none());
        assert_eq!(matches!(sent, Sent::TooLate), !is_sent, "{sent:?}");
        assert_eq!(came.starts_with(b"POST /v2/wallets/swaps "), is_sent, "{}", String::from_utf8_lossy(&came));
        assert_eq!(came.is_empty(), !is_sent);
    }
}
