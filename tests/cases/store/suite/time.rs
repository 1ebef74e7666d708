//! The store's time.

use sluice::ledger::{ConflictCause, Step};

use super::super::asked::*;
use super::super::{BEGIN, Subject};

pub async fn never_runs_back(subject: &Subject) {
    let store = &*subject.store;
    let first = does(store, vec![]).await.at();
    assert_eq!(first, at(BEGIN));
    subject.clock.set(BEGIN - 3_600_000_000);
    assert_eq!(does(store, vec![]).await.at(), first);
    assert_eq!(store.time().await.unwrap(), first);
    assert_eq!(store.read(&claim("a")).await.unwrap().1, first);
    subject.clock.set(BEGIN + 1);
    assert_eq!(does(store, vec![]).await.at(), at(BEGIN + 1));
    // A time that was told holds for commits as well.
    subject.clock.set(BEGIN + 5);
    assert_eq!(store.time().await.unwrap(), at(BEGIN + 5));
    subject.clock.set(BEGIN + 2);
    assert_eq!(does(store, vec![]).await.at(), at(BEGIN + 5));
}

pub async fn before_and_after(subject: &Subject) {
    let store = &*subject.store;
    let time = || vec![(0, ConflictCause::Time)];
    does(store, vec![Step::Before(at(BEGIN + 1)), Step::After(at(BEGIN))]).await;
    assert_eq!(stands(store, vec![Step::Before(at(BEGIN))]).await, time());
    assert_eq!(stands(store, vec![Step::After(at(BEGIN + 1))]).await, time());
    subject.clock.advance(micros(1));
    does(store, vec![Step::After(at(BEGIN + 1))]).await;
    assert_eq!(stands(store, vec![Step::Before(at(BEGIN + 1))]).await, time());
}
