//! Finding out what became of a call in doubt, by the read that the catalogue names.
//!
//! It shows that a call was executed, and nothing else: that no record is found proves nothing. Everything else is for
//! people to say.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;

use super::{Books, Road};
use crate::adapters::random::trace_id;
use crate::catalog::{Catalog, Operation, Reconcile};
use crate::commit::{Index, Kind, Record, RecordKey, StoreFault, StoreTime};
use crate::stations::admit::Admitted;
use crate::stations::check::check;
use crate::stations::claim::{self, Claim, Event, Looked, Standpoint, State, look};
use crate::stations::forward::{AnswerBody, Sent, clear_read};

const EVERY: Duration = Duration::from_secs(1);
const HANDFUL: usize = 32;
/// From one look to the next: this long, then ever twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(15);
const LONGEST_PAUSE: Duration = Duration::from_secs(3600);
/// What no read can find is not looked for again.
const NEVER: Duration = Duration::from_hours(24 * 365 * 100);
/// How far upstream's clock may be from the store's.
const CLOCKS_APART: Duration = Duration::from_secs(900);
const PAGE: usize = 100;
const MOST_PAGES: usize = 20;

/// Looks, as long as the process lives, for what became of the calls of an environment that are in doubt.
pub async fn reconcile(books: Arc<Books>, road: Road, catalog: Arc<Catalog>) {
    loop {
        if let Err(fault) = look_at_all(&books, &road, &catalog).await {
            books.told_of(&fault);
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// One look at all that are due.
pub async fn look_at_all(books: &Arc<Books>, road: &Road, catalog: &Catalog) -> Result<(), StoreFault> {
    let now = books.store.time().await?;
    for (_, name) in books.store.due(road.environment, Index::Unknown, Some(now), HANDFUL).await? {
        let key = RecordKey { environment: road.environment, kind: Kind::Claim, name };
        if let Some((record, claim)) = books.find(&key).await? {
            look_at(books, road, catalog, &key, &record, &claim).await?;
        }
    }
    Ok(())
}

async fn look_at(
    books: &Arc<Books>,
    road: &Road,
    catalog: &Catalog,
    key: &RecordKey,
    record: &Record,
    claim: &Claim,
) -> Result<(), StoreFault> {
    let State::Unknown { looks, attempt, .. } = &claim.state else { return Ok(()) };
    let here = Standpoint { key, version: record.version, at: record.at, claim };
    let environment = road.environment.as_str();
    let operation = catalog.operation(&claim.operation);
    let way = operation.and_then(|operation| Some((operation, operation.reconcile.as_ref()?)));
    // A read of our own needs a credential of our own.
    let Some((operation, reconcile)) = way.filter(|_| road.credential.is_injected()) else {
        return commit(books, claim::look_again(here, NEVER, &books.node)).await;
    };
    let looked = search(road, catalog, operation, reconcile, claim).await;
    books.metrics.reconciled(environment, word(&looked));
    match looked {
        Looked::Found(answer) => {
            let settled = claim::settle(here, *attempt, Event::Found(answer), &books.node, &books.terms);
            commit(books, settled.ok().map(|(commit, _)| commit)).await
        }
        looked => {
            if let Looked::Alarming(why) = looked {
                tracing::error!(attempt = attempt.as_u64(), why, "a call in doubt needs people to look");
            }
            let pause = FIRST_PAUSE.saturating_mul(1_u32.checked_shl(*looks).unwrap_or(u32::MAX)).min(LONGEST_PAUSE);
            commit(books, claim::look_again(here, pause, &books.node)).await
        }
    }
}

/// Reads the records of the time of the attempt, page by page.
async fn search(road: &Road, catalog: &Catalog, operation: &Operation, reconcile: &Reconcile, claim: &Claim) -> Looked {
    let State::Unknown { since, sent, .. } = &claim.state else { return Looked::Unreadable };
    let Some(request_id) = &claim.request_id else { return Looked::Unreadable };
    let Some(after) = instant(StoreTime::of_micros(since.as_micros()), CLOCKS_APART) else { return Looked::Unreadable };
    let mut before: Option<String> = None;
    for _ in 0..MOST_PAGES {
        let mut query = format!("limit={PAGE}&createdAfter={after}");
        if let Some(before) = &before {
            query.push_str(&format!("&createdBefore={before}"));
        }
        let Some(page) = read(road, catalog, reconcile, query).await else { return Looked::Unreadable };
        match look(operation, reconcile, request_id.as_str(), sent, &page) {
            Looked::Nothing => {}
            other => return other,
        }
        match claim::oldest(reconcile, &page) {
            Some((count, oldest)) if count >= PAGE && before.as_ref() != Some(&oldest) => before = Some(oldest),
            _ => return Looked::Nothing,
        }
    }
    Looked::Nothing
}

async fn read(road: &Road, catalog: &Catalog, reconcile: &Reconcile, query: String) -> Option<bytes::Bytes> {
    let operation = catalog.operation(&reconcile.operation)?;
    let admitted = Admitted::of_the_gate(road.environment, operation.clone(), query)?;
    let headers = HeaderMap::new();
    let cleared = clear_read(check(admitted, &headers, b"").ok()?)?;
    match road.send(cleared, None, &headers, &trace_id(None)).await {
        Sent::Answered { status: 200, body: AnswerBody::Complete(body), .. } => Some(body),
        Sent::Answered { .. } | Sent::Lost(_) | Sent::NotWritten => None,
    }
}

fn instant(time: StoreTime, before: Duration) -> Option<String> {
    let micros = time.as_micros().checked_sub(i64::try_from(before.as_micros()).ok()?)?;
    let second = jiff::Timestamp::from_second(micros.checked_div(1_000_000)?).ok()?;
    Some(second.to_string())
}

fn word(looked: &Looked) -> &'static str {
    match looked {
        Looked::Found(_) => "found",
        Looked::Nothing => "nothing",
        Looked::Alarming(_) => "alarming",
        Looked::Unreadable => "unreadable",
    }
}

async fn commit(books: &Books, commit: Option<crate::commit::Commit>) -> Result<(), StoreFault> {
    // Where a guard does not hold, something else has happened to the claim.
    match commit {
        Some(commit) => books.commit(commit).await.map(|_| ()),
        None => Ok(()),
    }
}
