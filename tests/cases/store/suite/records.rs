//! Records and their guards.

use bytes::Bytes;
use sluice::base::ids::Environment;
use sluice::ledger::{
    Commit, CommitError, ConflictCause, Content, Index, Keep, Kind, Number, RecordKey, Step, StoreFault,
};

use super::super::Subject;
use super::super::asked::*;

pub async fn create_read_replace_delete(subject: &Subject) {
    let store = &*subject.store;
    assert_eq!(store.read(&claim("a")).await.unwrap().0, None);
    let created = does(store, vec![create("a", "one")]).await;
    let (record, now) = store.read(&claim("a")).await.unwrap();
    let record = record.unwrap();
    assert_eq!((record.version, record.at, now), (created.number(), created.at(), created.at()));
    assert_eq!(record.content, Content::Whole(bytes("one")));

    subject.clock.advance(secs(1));
    let replaced = does(store, vec![replace("a", created.number(), "two")]).await;
    let record = store.read(&claim("a")).await.unwrap().0.unwrap();
    assert_eq!((record.version, record.at), (replaced.number(), replaced.at()));
    assert_eq!(replaced.at().since(created.at()), secs(1));
    assert_eq!(whole(record).unwrap(), "two");

    does(store, vec![delete("a", replaced.number())]).await;
    assert_eq!(store.read(&claim("a")).await.unwrap().0, None);
    does(store, vec![create("a", "again")]).await;
    assert_eq!(value(store, "a").await.unwrap(), "again");
}

pub async fn absent_and_version(subject: &Subject) {
    let store = &*subject.store;
    let version = |name: &str, version| Step::Version { key: claim(name), version };
    let absent = |name: &str| Step::Absent(claim(name));
    let first = does(store, vec![absent("a"), create("a", "one")]).await.number();
    let record = store.read(&claim("a")).await.unwrap().0.unwrap();
    let found = || vec![(0, ConflictCause::Record(record.clone()))];
    let nothing = || vec![(0, ConflictCause::Nothing)];
    let other = Number::new(first.as_u64() + 1);

    does(store, vec![version("a", first), absent("b")]).await;
    assert_eq!(stands(store, vec![absent("a")]).await, found());
    assert_eq!(stands(store, vec![create("a", "two")]).await, found());
    assert_eq!(stands(store, vec![version("a", other)]).await, found());
    assert_eq!(stands(store, vec![replace("a", other, "two")]).await, found());
    assert_eq!(stands(store, vec![delete("a", other)]).await, found());
    assert_eq!(stands(store, vec![version("b", first)]).await, nothing());
    assert_eq!(stands(store, vec![replace("b", first, "two")]).await, nothing());
    assert_eq!(stands(store, vec![delete("b", first)]).await, nothing());
}

pub async fn nothing_is_written_where_a_guard_fails(subject: &Subject) {
    let store = &*subject.store;
    let span = rolling(secs(60), 1);
    let first = does(store, vec![create("a", "one"), create("old", "one")]).await.number();
    let steps = vec![
        create("b", "one"),
        delete("old", first),
        add(Index::Sending, "b", secs(1)),
        reserve(span, "b", 5, 10),
        Step::Absent(claim("a")),
    ];
    assert_eq!(stands(store, steps).await.iter().map(|(step, _)| *step).collect::<Vec<_>>(), [4]);
    assert_eq!(value(store, "b").await, None);
    assert_eq!(value(store, "old").await.unwrap(), "one");
    assert_eq!(store.due(ENVIRONMENT, Index::Sending, None, 9).await.unwrap(), []);
    assert_eq!(used(store, span).await, 0);
    assert_eq!(outbox(store).await.len(), 1);
    // No number was taken either.
    assert_eq!(does(store, vec![]).await.number().as_u64(), first.as_u64() + 1);
}

pub async fn every_obstacle_is_told_in_order(subject: &Subject) {
    let store = &*subject.store;
    let span = rolling(secs(60), 1);
    does(store, vec![create("a", "one"), force(span, "first", 7), add(Index::Frozen, "all", secs(0))]).await;
    let now = store.time().await.unwrap();
    let record = store.read(&claim("a")).await.unwrap().0.unwrap();
    let steps = vec![
        Step::Before(now),
        create("a", "two"),
        create("fine", "two"),
        Step::NotMember { index: Index::Frozen, member: "all".to_owned() },
        reserve(span, "second", 4, 10),
        replace("none", Number::new(1), "two"),
        Step::After(now.plus(micros(1))),
        Step::Member { index: Index::Sending, member: "all".to_owned() },
    ];
    let Err(CommitError::Rejected { at, conflicts }) = store.commit(commit(steps)).await else { panic!("it was done") };
    assert_eq!(at, now);
    let expected = [
        (0, ConflictCause::Time),
        (1, ConflictCause::Record(record)),
        (3, ConflictCause::Membership),
        (4, ConflictCause::Used(7)),
        (5, ConflictCause::Nothing),
        (6, ConflictCause::Time),
        (7, ConflictCause::Membership),
    ];
    let conflicts: Vec<_> = conflicts.into_iter().map(|conflict| (conflict.step, conflict.found)).collect();
    assert_eq!(conflicts, expected);
}

pub async fn environments_and_kinds_are_apart(subject: &Subject) {
    let store = &*subject.store;
    let everywhere = Environment::ALL
        .into_iter()
        .flat_map(|environment| Kind::ALL.map(|kind| RecordKey { environment, kind, name: "same".to_owned() }));
    for (at, key) in everywhere.clone().enumerate() {
        let step = Step::Create { key: key.clone(), value: bytes(&at.to_string()), keep: Keep::Forever };
        store.commit(Commit { environment: key.environment, ..commit(vec![step]) }).await.unwrap();
    }
    for (at, key) in everywhere.enumerate() {
        assert_eq!(whole(store.read(&key).await.unwrap().0.unwrap()).unwrap(), at.to_string());
    }
    // Each environment counts for itself.
    let kinds = Kind::ALL.len() as u64;
    for environment in Environment::ALL {
        let committed = store.commit(Commit { environment, ..commit(vec![]) }).await.unwrap();
        assert_eq!(committed.number().as_u64(), kinds + 1);
    }
}

pub async fn two_writes_in_one_place_are_refused(subject: &Subject) {
    let store = &*subject.store;
    let span = rolling(secs(60), 1);
    let first = does(store, vec![create("a", "one"), reserve(span, "h", 1, 9)]).await.number();
    let twice = [
        vec![create("b", "one"), create("b", "two")],
        vec![replace("a", first, "two"), delete("a", first)],
        vec![add(Index::Sending, "m", secs(1)), add(Index::Sending, "m", secs(2))],
        vec![settle("h"), give_back("h")],
        vec![reserve(span, "x", 5, 9), reserve(span, "y", 5, 9)],
    ];
    for steps in twice {
        let refused = store.commit(commit(steps)).await;
        assert!(matches!(refused, Err(CommitError::Fault(StoreFault::Broken(_)))), "{refused:?}");
    }
    assert_eq!(does(store, vec![]).await.number().as_u64(), first.as_u64() + 1);
    // A guard beside a write of the same record is none.
    does(store, vec![Step::Absent(claim("b")), create("b", "one")]).await;
}

pub async fn another_environments_record_is_refused(subject: &Subject) {
    let store = &*subject.store;
    let key = RecordKey { environment: Environment::Production, ..claim("a") };
    let steps = [
        Step::Absent(key.clone()),
        Step::Create { key: key.clone(), value: bytes("one"), keep: Keep::Forever },
        Step::Delete { key, version: Number::new(1) },
    ];
    for step in steps {
        let refused = store.commit(commit(vec![step])).await;
        assert!(matches!(refused, Err(CommitError::Fault(StoreFault::Broken(_)))), "{refused:?}");
    }
}

pub async fn any_name_and_any_value_is_kept(subject: &Subject) {
    let store = &*subject.store;
    let names = ["", "\0", "\0\0", "a", "a\0", "a\0b", "ä", "\u{10ffff}", &"x".repeat(5_000)];
    let values: [&[u8]; 5] = [b"", b"\0", b"\xff\xfe", &[7; 100_000], b"{}"];
    let all: Vec<(&str, &[u8])> = names.iter().flat_map(|name| values.map(|value| (*name, value))).collect();
    let mut versions = std::collections::BTreeMap::new();
    for (name, value) in &all {
        let (key, value, keep) = (claim(name), Bytes::copy_from_slice(value), Keep::Forever);
        let step = match versions.get(name) {
            None => Step::Create { key, value, keep },
            Some(version) => Step::Replace { key, version: *version, value, keep },
        };
        versions.insert(*name, does(store, vec![step]).await.number());
    }
    for name in names {
        assert_eq!(value(store, name).await.unwrap(), "{}");
    }
}
