//! Indexes that are ordered by time.

use std::time::Duration;

use sluice::base::ids::Environment;
use sluice::ledger::{Commit, ConflictCause, Index, IndexPart, Step};

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
    let found = || vec![(0, ConflictCause::Membership)];
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

pub async fn a_member_keeps_its_earliest_time(subject: &Subject) {
    let store = &*subject.store;
    let earliest =
        |member: &str, ago: Duration| Step::IndexEarliest { index: Index::Known, member: member.to_owned(), ago };
    let since =
        |member: &str, after: i64| Step::Since { index: Index::Known, member: member.to_owned(), at: at(after) };
    let not_since =
        |member: &str, after: i64| Step::NotSince { index: Index::Known, member: member.to_owned(), at: at(after) };
    let found = || vec![(0, ConflictCause::Membership)];
    assert_eq!(stands(store, vec![since("a", BEGIN)]).await, found());
    does(store, vec![not_since("a", BEGIN), earliest("a", Duration::ZERO)]).await;
    let first = subject.store.member(ENVIRONMENT, Index::Known, "a").await.unwrap().unwrap();
    // A later payment changes nothing; one that counts as older does, and nothing moves it again.
    subject.clock.advance(micros(10));
    does(store, vec![earliest("a", Duration::ZERO)]).await;
    does(store, vec![earliest("a", micros(9))]).await;
    assert_eq!(subject.store.member(ENVIRONMENT, Index::Known, "a").await, Ok(Some(first)));
    let micros_of = first.as_micros();
    does(store, vec![since("a", micros_of), since("a", micros_of + 5), not_since("a", micros_of - 1)]).await;
    assert_eq!(stands(store, vec![since("a", micros_of - 1)]).await, found());
    assert_eq!(stands(store, vec![not_since("a", micros_of)]).await, found());
    does(store, vec![earliest("a", micros(12))]).await;
    does(store, vec![since("a", micros_of - 1), earliest("a", Duration::ZERO)]).await;
    // No time is before all times.
    does(store, vec![earliest("b", Duration::from_secs(400 * 86_400 * 100))]).await;
    assert_eq!(subject.store.member(ENVIRONMENT, Index::Known, "b").await, Ok(Some(at(0))));
}

pub async fn a_part_of_an_index(subject: &Subject) {
    let store = &*subject.store;
    for (member, after) in [("c", 3), ("a", 1), ("d", 3), ("b", 2), ("", 3), ("e", 4)] {
        does(store, vec![add(Index::Sending, member, micros(after))]).await;
    }
    does(store, vec![add(Index::Unknown, "other", micros(2))]).await;
    let forward = [(1, "a"), (2, "b"), (3, ""), (3, "c"), (3, "d"), (4, "e")];
    let mut back = forward;
    back.reverse();
    for (backwards, all) in [(false, forward), (true, back)] {
        let part = async |behind: Option<(i64, &str)>, count: usize| {
            let behind = behind.map(|(after, member)| (at(BEGIN + after), member.to_owned()));
            let found = store.part(ENVIRONMENT, Index::Sending, IndexPart { backwards, behind, count }).await.unwrap();
            found.into_iter().map(|(due, member)| (due.as_micros() - BEGIN, member)).collect::<Vec<_>>()
        };
        let told = |part: &[(i64, &str)]| part.iter().map(|(at, name)| (*at, (*name).to_owned())).collect::<Vec<_>>();
        assert_eq!(part(None, 9).await, told(&all));
        assert_eq!(part(None, 2).await, told(&all[..2]));
        assert_eq!(part(None, 0).await, []);
        for place in 0..all.len() {
            for count in 1..4 {
                let end = (place + 1 + count).min(all.len());
                assert_eq!(
                    part(Some(all[place]), count).await,
                    told(&all[place + 1..end]),
                    "{backwards} {place} {count}"
                );
            }
        }
        // The member of the place may be gone meanwhile.
        let [gone, next] = if backwards { [(3, "cc"), (3, "c")] } else { [(3, "cc"), (3, "d")] };
        assert_eq!(part(Some(gone), 1).await, told(&[next]));
    }
}

pub async fn what_has_ended_leaves_its_index(subject: &Subject) {
    let store = &*subject.store;
    does(store, vec![add(Index::Ended, "a", micros(5))]).await;
    does(store, vec![add(Index::Ended, "b", secs(9))]).await;
    does(store, vec![add(Index::Held, "a", micros(5))]).await;
    subject.clock.advance(micros(100));
    assert_eq!(store.sweep().await, Ok(1));
    let left = async |index| store.due(ENVIRONMENT, index, None, 9).await.unwrap().len();
    assert_eq!((left(Index::Ended).await, left(Index::Held).await), (1, 1));
    assert_eq!(store.member(ENVIRONMENT, Index::Ended, "a").await, Ok(None));
    assert_eq!(store.sweep().await, Ok(0));
}
