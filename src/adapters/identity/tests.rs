use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use ring::hmac;

use super::*;
use crate::base::ids::Environment;
use crate::config::{HoldsMode, IssuerConfig, KeySource, SubjectForm};
use crate::stations::admit::{Algorithm, FieldPath, KeySet};
use crate::telemetry::Metrics;

const NOW: i64 = 1_800_000_000;
const SECRET: &str = "a secret of the issuer, long enough to be one";

/// A clock whose second look at the time is when the issuer's key changes: in the midst of believing.
#[derive(Debug)]
struct Rotating {
    keyring: Arc<Keyring>,
    looks: AtomicUsize,
}

impl Clock for Rotating {
    fn now(&self) -> Timestamp {
        if self.looks.fetch_add(1, Ordering::SeqCst) == 1 {
            self.keyring.put(0, Some(KeySet::shared(&Secret::new("the next secret of the issuer".into()))));
        }
        Timestamp::from_second(NOW).unwrap()
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

fn issuer(keys: KeySource) -> IssuerConfig {
    IssuerConfig {
        name: "main".into(),
        issuer: "https://issuer.example".into(),
        audiences: vec!["sluice".into()],
        people_audiences: Vec::new(),
        environments: vec![Environment::Sandbox],
        algorithms: vec![Algorithm::Hs256],
        keys,
        longest_stale: Duration::from_secs(86_400),
        leeway: Duration::ZERO,
        longest_lifetime: Duration::from_secs(3600),
        required: Vec::new(),
        roles: None,
        requester: FieldPath::parse("act.sub").unwrap(),
        holds: HoldsMode::Wait,
        subjects: SubjectForm::Folded,
    }
}

fn token() -> Secret {
    let claims = format!(r#"{{"iss":"https://issuer.example","aud":"sluice","sub":"s","exp":{}}}"#, NOW + 60);
    let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#), URL_SAFE_NO_PAD.encode(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), signed.as_bytes());
    Secret::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

#[tokio::test]
async fn a_key_that_changes_while_a_token_is_believed_leaves_nothing_remembered() {
    let shared = issuer(KeySource::Shared(Secret::new(SECRET.into())));
    let keyring = Arc::new(Keyring::new(&[shared], Metrics::new().unwrap()).unwrap());
    let clock = Arc::new(Rotating { keyring: keyring.clone(), looks: AtomicUsize::new(0) });
    let identity = Identity::new(keyring.clone(), clock);
    assert!(identity.believe(&token()).await.is_ok());
    assert_eq!(keyring.generation(), 1);
    assert_eq!(identity.believe(&token()).await.err(), Some(TokenFault::Signature { issuer: 0, is_key_named: false }));
}

#[tokio::test]
async fn who_leaves_does_not_take_the_look_at_the_keys_along() {
    let set =
        |id: &str| format!(r#"{{"keys":[{{"kty":"OKP","crv":"Ed25519","kid":"{id}","x":"{}"}}]}}"#, "A".repeat(43));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jwks.json");
    std::fs::write(&path, set("k-1")).unwrap();
    let keyring = Arc::new(Keyring::new(&[issuer(KeySource::File(path.clone()))], Metrics::new().unwrap()).unwrap());
    std::fs::write(&path, set("k-2")).unwrap();
    // It begins, and whoever asked is gone before it ends.
    tokio::select! {
        biased;
        _ = keyring.look_again(0) => panic!("nothing was left to do"),
        () = std::future::ready(()) => {}
    }
    let changed = async {
        while keyring.generation() == 0 {
            tokio::task::yield_now().await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(5), changed).await.is_ok(), "the keys are not looked at");
}
