//! Sealed values: keys, their change, and what is not theirs.

use std::sync::Arc;

use sluice::adapters::store::memory::MemoryStore;
use sluice::adapters::store::sealed::{Sealed, SealingKey, SealingKeyError, Seals};
use sluice::base::secret::Secret;
use sluice::ledger::{CommitError, Content, Keep, Kind, RecordKey, Step, StoreFault};
use sluice::ports::Store;

use super::asked::*;
use super::{BEGIN, Hand, key};

fn inner() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new(Hand::at(BEGIN)))
}

fn broken(read: Result<impl std::fmt::Debug, StoreFault>) -> String {
    match read {
        Err(StoreFault::Broken(why)) => why,
        other => panic!("it is not broken: {other:?}"),
    }
}

#[tokio::test]
async fn the_store_sees_nothing_of_a_value() {
    let inner = inner();
    let sealed = Sealed::new(inner.clone(), Seals::new(vec![key("k1", 1)]));
    does(&sealed, vec![create("a", "IBAN DE89 3704"), create("b", "IBAN DE89 3704")]).await;
    let mut seen = Vec::new();
    for name in ["a", "b"] {
        let Content::Whole(value) = inner.read(&claim(name)).await.unwrap().0.unwrap().content else { panic!() };
        assert!(!value.windows(4).any(|part| part == b"IBAN"));
        seen.push(value);
    }
    assert_ne!(seen[0], seen[1]);
    assert_eq!(value(&sealed, "a").await.unwrap(), "IBAN DE89 3704");
}

#[tokio::test]
async fn keys_change_without_a_stop() {
    let inner = inner();
    let plain = Sealed::new(inner.clone(), Seals::new(vec![]));
    let old = Sealed::new(inner.clone(), Seals::new(vec![key("k1", 1)]));
    let new = Seals::new(vec![key("k2", 2), key("k1", 1)]).accepting_plain(true);
    let new = Sealed::new(inner.clone(), new);
    let only_new = Sealed::new(inner.clone(), Seals::new(vec![key("k2", 2)]));
    does(&plain, vec![create("plain", "zero")]).await;
    let version = does(&old, vec![create("old", "one")]).await.number();
    does(&new, vec![create("new", "two")]).await;
    for (name, content) in [("plain", "zero"), ("old", "one"), ("new", "two")] {
        assert_eq!(value(&new, name).await.unwrap(), content);
    }
    assert!(broken(only_new.read(&claim("old")).await).contains("key `k1`"));
    does(&new, vec![replace("old", version, "one again")]).await;
    assert_eq!(value(&only_new, "old").await.unwrap(), "one again");
    assert!(broken(old.read(&claim("new")).await).contains("key `k2`"));
    // Without any key, too, it is an error, and never taken for the value.
    let why = broken(plain.read(&claim("new")).await);
    assert!(why.contains("key `k2`") && why.contains("claim") && why.contains("sandbox"), "{why}");
    assert!(!why.contains("new"), "{why}");
    // What stands in the way of a commit is opened as well, or it is an error.
    let refused = plain.commit(commit(vec![create("new", "x")])).await.unwrap_err();
    assert!(matches!(refused, CommitError::Fault(StoreFault::Broken(_))), "{refused:?}");
}

/// Whoever writes the store has no key.
#[tokio::test]
async fn with_a_key_a_record_in_plain_text_is_refused_but_for_a_freeze() {
    let inner = inner();
    let sealed = Sealed::new(inner.clone(), Seals::new(vec![key("k1", 1)]));
    let of = |kind: Kind| RecordKey { kind, ..claim("planted") };
    let refusal = "in plain text, although `store.seal_key` is set";
    for kind in Kind::ALL {
        let planted = Step::Create { key: of(kind), value: "{}".into(), keep: Keep::Forever };
        does(&*inner, vec![planted.clone()]).await;
        match sealed.read(&of(kind)).await {
            Ok((Some(_), _)) => assert_eq!(kind, Kind::Freeze),
            Ok((None, _)) => assert_eq!(kind, Kind::Session),
            read => assert!(broken(read).contains(refusal), "{kind:?}"),
        }
        // A commit that meets it hears no content either.
        match sealed.commit(commit(vec![planted])).await {
            Err(CommitError::Rejected { .. }) => assert_eq!(kind, Kind::Freeze),
            Err(CommitError::Fault(fault)) => assert!(broken(Err::<(), _>(fault)).contains(refusal), "{kind:?}"),
            Ok(receipt) => panic!("{kind:?} is there already: {receipt:?}"),
        }
    }
    let accepting = Sealed::new(inner, Seals::new(vec![key("k1", 1)]).accepting_plain(true));
    assert!(accepting.read(&of(Kind::Hold)).await.unwrap().0.is_some());
}

/// No journal has sessions, so nothing else tells a session that somebody wrote into the store.
#[tokio::test]
async fn with_a_key_a_session_in_plain_text_is_none() {
    let inner = inner();
    let sealed = Sealed::new(inner.clone(), Seals::new(vec![key("k1", 1)]));
    let session = |name: &str| RecordKey { kind: Kind::Session, ..claim(name) };
    let create = |name: &str| Step::Create { key: session(name), value: "ops-1".into(), keep: Keep::Forever };
    does(&*inner, vec![create("planted")]).await;
    does(&sealed, vec![create("own")]).await;
    assert_eq!(sealed.read(&session("planted")).await.unwrap().0, None);
    let own = sealed.read(&session("own")).await.unwrap().0.unwrap();
    assert_eq!(own.content, Content::Whole("ops-1".into()));
}

#[tokio::test]
async fn a_value_opens_in_its_own_place_alone_and_unchanged() {
    let inner = inner();
    let sealed = Sealed::new(inner.clone(), Seals::new(vec![key("k1", 1)]));
    let version = does(&sealed, vec![create("a", "one")]).await.number();
    let Content::Whole(value) = inner.read(&claim("a")).await.unwrap().0.unwrap().content else { panic!() };
    let raw = |name: &str, value: Vec<u8>| Step::Create { key: claim(name), value: value.into(), keep: Keep::Forever };
    does(&*inner, vec![raw("moved", value.to_vec())]).await;
    broken(sealed.read(&claim("moved")).await);

    let mut version = version;
    for at in 8..value.len() {
        let mut changed = value.to_vec();
        changed[at] ^= 1;
        let step = Step::Replace { key: claim("a"), version, value: changed.into(), keep: Keep::Forever };
        version = does(&*inner, vec![step]).await.number();
        broken(sealed.read(&claim("a")).await);
    }
    for length in 8..value.len() {
        let step = Step::Replace { key: claim("a"), version, value: value.slice(..length), keep: Keep::Forever };
        version = does(&*inner, vec![step]).await.number();
        broken(sealed.read(&claim("a")).await);
    }
    let other = Sealed::new(inner.clone(), Seals::new(vec![key("k1", 9)]));
    let step = Step::Replace { key: claim("a"), version, value, keep: Keep::Forever };
    does(&*inner, vec![step]).await;
    assert!(broken(other.read(&claim("a")).await).contains("key `k1`"));
    assert_eq!(super::asked::value(&sealed, "a").await.unwrap(), "one");
}

#[tokio::test]
async fn without_keys_nothing_that_looks_sealed_is_written() {
    let inner = inner();
    let sealed = Sealed::new(inner.clone(), Seals::new(vec![key("k1", 1)]));
    does(&sealed, vec![create("a", "one")]).await;
    let Content::Whole(value) = inner.read(&claim("a")).await.unwrap().0.unwrap().content else { panic!() };
    let step = Step::Create { key: claim("b"), value, keep: Keep::Forever };
    let refused = Sealed::new(inner, Seals::new(vec![])).commit(commit(vec![step])).await;
    assert!(matches!(refused, Err(CommitError::Fault(StoreFault::Broken(_)))));
}

#[test]
fn keys_are_32_bytes_in_either_form() {
    let new = |id: &str, secret: &str| SealingKey::new(id, &Secret::new(secret.to_owned())).map(|_| ());
    let base64 = "AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA=";
    assert_eq!(new("k1", base64), Ok(()));
    assert_eq!(new("k1", &format!("{}\n", base64.trim_end_matches('='))), Ok(()));
    assert_eq!(new("2026-01.a_b", &"0f".repeat(32)), Ok(()));
    for secret in ["", "short", &"0f".repeat(31), &"0f".repeat(33), &"0g".repeat(32), &base64[1..]] {
        assert_eq!(new("k1", secret), Err(SealingKeyError::Secret), "{secret}");
    }
    for id in ["", "a b", "a/b", &"x".repeat(65)] {
        assert_eq!(new(id, base64), Err(SealingKeyError::Id), "{id}");
    }
    assert!(!format!("{:?}", key("k1", 1)).contains("01"));
}
