//! Indexes that are ordered by time.

use sluice::base::ids::Environment;
use sluice::commit::{Commit, Found, Index, Step};

use super::super::asked::*;
use super::super::{BEGIN, Subject};

async fn due(subject: &Subject, until: Option<i64>, count: usize) -> Vec<(i64, String)> {
    let found = subject.store.due(ENVIRONMENT, Index::Sending, until.map(at), count).await.unwrap();
    found.into_iter().map(|(due, member)| (due.as_micros() - BEGIN, member)).collect()
}

pub async fn members_are_due_in_order(subject: &Subject) {
    let store = &*subject.store;
    for (member, after) in [("c", 3), ("a", 1), ("d", 3), ("b", 2), ("", 3)] {
        does(store, vec![add(Index::Sending, member, micros(after))]).await;
    }
    does(store, vec![add(Index::Unknown, "other", micros(1))]).await;
    let elsewhere = Commit { environment: Environment::Production, ..commit(vec![add(Index::Sending, "x", secs(0))]) };
    store.commit(elsewhere).await.unwrap();

    let all = [(1, "a"), (2, "b"), (3, ""), (3, "c"), (3, "d")].map(|(at, member)| (at, member.to_owned()));
    assert_eq!(due(subject, None, 9).await, all);
    assert_eq!(due(subject, None, 2).await, all[..2]);
    assert_eq!(due(subject, None, 0).await, []);
    assert_eq!(due(subject, Some(BEGIN + 3), 9).await, all[..2]);
    assert_eq!(due(subject, Some(BEGIN + 4), 9).await, all);
    assert_eq!(due(subject, Some(BEGIN + 4), 4).await, all[..4]);
    assert_eq!(due(subject, Some(BEGIN), 9).await, []);
}

pub async fn a_member_moves_and_goes(subject: &Subject) {
    let store = &*subject.store;
    does(store, vec![add(Index::Sending, "a", micros(5))]).await;
    subject.clock.advance(micros(10));
    does(store, vec![add(Index::Sending, "a", micros(1))]).await;
    assert_eq!(due(subject, None, 9).await, [(11, "a".to_owned())]);
    let remove = || Step::IndexRemove { index: Index::Sending, member: "a".to_owned() };
    does(store, vec![remove()]).await;
    assert_eq!(due(subject, None, 9).await, []);
    does(store, vec![remove()]).await;
}

pub async fn membership_guards(subject: &Subject) {
    let store = &*subject.store;
    let member = |name: &str| Step::Member { index: Index::Frozen, member: name.to_owned() };
    let not_member = |name: &str| Step::NotMember { index: Index::Frozen, member: name.to_owned() };
    let found = || vec![(0, Found::Membership)];
    does(store, vec![add(Index::Frozen, "all", secs(9)), not_member("all")]).await;
    let due = subject.store.due(ENVIRONMENT, Index::Frozen, None, 9).await.unwrap();
    for (environment, index, name, is_due) in [
        (ENVIRONMENT, Index::Frozen, "all", due.first().map(|(at, _)| *at)),
        (ENVIRONMENT, Index::Frozen, "al", None),
        (ENVIRONMENT, Index::Sending, "all", None),
        (Environment::Production, Index::Frozen, "all", None),
    ] {
        assert_eq!(store.member(environment, index, name).await, Ok(is_due), "{name}");
    }
    assert_eq!(due.len(), 1);
    does(store, vec![member("all"), not_member("al"), not_member("all\0")]).await;
    assert_eq!(stands(store, vec![not_member("all")]).await, found());
    assert_eq!(stands(store, vec![member("none")]).await, found());
    let other = Step::Member { index: Index::Sending, member: "all".to_owned() };
    assert_eq!(stands(store, vec![other]).await, found());
}
