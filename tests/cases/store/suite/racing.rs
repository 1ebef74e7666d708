//! Many at once.

use std::collections::BTreeSet;
use std::sync::Arc;

use sluice::ledger::{CommitError, Receipt, Step};
use tokio::task::JoinSet;

use super::super::Subject;
use super::super::asked::*;

/// What became of commits that were all asked for at once.
async fn race(subject: &Subject, commits: Vec<Vec<Step>>) -> Vec<Result<Receipt, CommitError>> {
    let mut tasks = JoinSet::new();
    for steps in commits {
        let store = Arc::clone(&subject.store);
        tasks.spawn(async move { store.commit(commit(steps)).await });
    }
    tasks.join_all().await
}

pub async fn one_creator_wins(subject: &Subject) {
    for round in 0..20 {
        let name = format!("claim-{round}");
        let commits = (0..8).map(|who| vec![create(&name, &who.to_string())]).collect();
        let outcomes = race(subject, commits).await;
        let winners: Vec<_> = outcomes.iter().filter_map(|outcome| outcome.as_ref().ok()).collect();
        assert_eq!(winners.len(), 1, "{outcomes:?}");
        let record = subject.store.read(&claim(&name)).await.unwrap().0.unwrap();
        assert_eq!(record.version, winners[0].number());
        for outcome in &outcomes {
            if let Err(error) = outcome {
                let CommitError::Rejected { conflicts, .. } = error else { panic!("{error:?}") };
                assert_eq!(conflicts[0].found, sluice::ledger::ConflictCause::Record(record.clone()));
            }
        }
    }
}

pub async fn one_replacer_wins(subject: &Subject) {
    let version = does(&*subject.store, vec![create("a", "one")]).await.number();
    let commits = (0..16).map(|who| vec![replace("a", version, &who.to_string())]).collect();
    assert_eq!(race(subject, commits).await.iter().filter(|outcome| outcome.is_ok()).count(), 1);
}

pub async fn numbers_have_no_gap(subject: &Subject) {
    does(&*subject.store, vec![create("taken", "one")]).await;
    // Every third of them is refused.
    let of = |at: u32| if at.is_multiple_of(3) { "taken".to_owned() } else { format!("free-{at}") };
    let outcomes = race(subject, (0..300).map(|at| vec![create(&of(at), "one")]).collect()).await;
    let done: Vec<Receipt> = outcomes.into_iter().filter_map(Result::ok).collect();
    assert_eq!(done.len(), 200);
    let numbers: BTreeSet<u64> = done.iter().map(|one| one.number().as_u64()).collect();
    assert_eq!(numbers, (2..=201).collect());
    let entries = outbox(&*subject.store).await;
    let kept: Vec<u64> = entries.iter().map(|entry| entry.number.as_u64()).collect();
    assert_eq!(kept, (1..=201).collect::<Vec<_>>());
}

pub async fn windows_hold_under_crowds(subject: &Subject) {
    let span = rolling(secs(3600), 24);
    let commits = (0..100).map(|who| vec![reserve(span, &who.to_string(), 7, 100)]).collect();
    let outcomes = race(subject, commits).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 14);
    assert_eq!(used(&*subject.store, span).await, 98);
}
