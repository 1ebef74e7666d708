//! Finding out what became of a call in doubt, by the read that the catalogue names.
//!
//! It shows that a call was executed, and nothing else: that no record is found proves nothing. Everything else is for
//! people to say.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use jiff::Timestamp;
use serde_json::Value;

use super::{Books, InForce, Road};
use crate::adapters::random::trace_id;
use crate::catalog::{Catalog, Operation, Reconcile};
use crate::commit::{Index, Kind, Record, RecordKey, StoreFault, StoreTime};
use crate::stations::admit::Admitted;
use crate::stations::check::check;
use crate::stations::claim::{self, Claim, Event, Looked, SentForm, Standpoint, State};
use crate::stations::forward::{AnswerBody, Sent, clear_own_read};

const EVERY: Duration = Duration::from_secs(1);
const HANDFUL: usize = 32;
/// What no read can find is not looked for again.
const NEVER: Duration = Duration::from_hours(24 * 365 * 100);
/// How far upstream's clock may be from the store's.
const CLOCKS_APART: Duration = Duration::from_secs(900);
/// How long after it was sent a record may still be made.
const LATEST_RECORD: Duration = Duration::from_hours(24);
/// Records may be made in the same moment: a page begins a little inside the one before.
const OVERLAP: Duration = Duration::from_millis(1);
const PAGE: usize = 100;
const MOST_PAGES: usize = 100;

/// From one look to the next: so long, then ever twice as long.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    pub first: Duration,
    pub longest: Duration,
}

impl Pauses {
    fn after(self, looks: u32) -> Duration {
        self.first.saturating_mul(1_u32.checked_shl(looks).unwrap_or(u32::MAX)).min(self.longest)
    }
}

/// Looks, as long as the process lives, for what became of the calls of an environment that are in doubt.
pub async fn reconcile(books: Arc<Books>, road: Road, in_force: Arc<InForce>, pauses: Pauses) {
    loop {
        if let Err(fault) = look_at_all(&books, &road, &in_force.now().catalog, pauses).await {
            books.told_of(&fault);
        }
        tokio::time::sleep(EVERY.min(pauses.first)).await;
    }
}

/// One look at all that are due.
pub async fn look_at_all(books: &Arc<Books>, road: &Road, catalog: &Catalog, pauses: Pauses) -> Result<(), StoreFault> {
    let now = books.store.time().await?;
    for (_, name) in books.store.due(road.environment, Index::Unknown, Some(now), HANDFUL).await? {
        let key = RecordKey { environment: road.environment, kind: Kind::Claim, name };
        match books.find(&key).await {
            Ok(Some((record, claim))) => look_at(books, road, catalog, &key, &record, &claim, pauses).await?,
            Ok(None) => {}
            // One that cannot be read does not stand in the way of the others.
            Err(fault @ StoreFault::Broken(_)) => books.told_of(&fault),
            Err(fault) => return Err(fault),
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
    pauses: Pauses,
) -> Result<(), StoreFault> {
    let State::Unknown { looks, attempt, since, sent, .. } = &claim.state else { return Ok(()) };
    let here = Standpoint { key, version: record.version, at: record.at, claim };
    let environment = road.environment.as_str();
    let operation = catalog.operation(&claim.operation);
    let way = operation.and_then(|operation| Some((operation, operation.reconcile.as_ref()?)));
    let (Some((operation, reconcile)), Some(request_id)) = (way, &claim.request_id) else {
        return commit(books, claim::look_again(here, NEVER, &books.node)).await.map(|_| ());
    };
    // A read of our own needs a credential of our own. One may be configured later.
    if !road.credential.is_injected() {
        return commit(books, claim::look_again(here, pauses.longest, &books.node)).await.map(|_| ());
    }
    let looked = Search { road, catalog, operation, reconcile, request_id: request_id.as_str(), sent };
    let looked = looked.around(*since, books.clock.now()).await;
    books.metrics.reconciled(environment, word(&looked));
    match looked {
        Looked::Found(answer) => {
            let settled = claim::settle(here, *attempt, Event::Found(answer), &books.node, &books.terms);
            if commit(books, settled.ok().map(|(commit, _)| commit)).await? {
                tracing::info!(attempt = attempt.as_u64(), "a call in doubt was executed: its record was found");
                books.metrics.claim_settled(environment, "found");
            }
            Ok(())
        }
        looked => {
            if let Looked::Alarming(why) = looked {
                tracing::error!(attempt = attempt.as_u64(), why, "a call in doubt needs people to look");
            }
            commit(books, claim::look_again(here, pauses.after(*looks), &books.node)).await.map(|_| ())
        }
    }
}

/// What is looked for, and where.
struct Search<'s> {
    road: &'s Road,
    catalog: &'s Catalog,
    operation: &'s Operation,
    reconcile: &'s Reconcile,
    request_id: &'s str,
    sent: &'s SentForm,
}

impl Search<'_> {
    /// Reads the records of the time of an attempt, from the latest on, page by page: all of them, for there may be two.
    ///
    /// Upstream documents the earlier end of a list as a date and the later one as a moment too, so that only that one is
    /// asked for, and the pages are read until they are early enough.
    async fn around(&self, since: StoreTime, now: Timestamp) -> Looked {
        let (Some(earliest), Some(latest)) = (
            moment(since).and_then(|since| since.checked_sub(CLOCKS_APART).ok()),
            moment(since).and_then(|since| since.checked_add(LATEST_RECORD).ok()),
        ) else {
            return Looked::Unreadable;
        };
        let mut before = (latest < now).then_some(latest);
        let mut bearing = Vec::new();
        for _ in 0..MOST_PAGES {
            let Some(page) = self.read(before).await else { return Looked::Unreadable };
            let Some(page) = claim::page_of(self.reconcile, self.request_id, &page) else { return Looked::Unreadable };
            bearing.extend(page.records);
            if page.count < PAGE {
                return self.judged(bearing);
            }
            let Some(oldest) = page.oldest.and_then(|oldest| oldest.parse::<Timestamp>().ok()) else {
                return Looked::Unreadable;
            };
            if oldest < earliest {
                return self.judged(bearing);
            }
            let next = oldest.checked_add(OVERLAP).ok().filter(|next| before.is_none_or(|before| *next < before));
            before = match (next, before) {
                (Some(next), _) => Some(next),
                // A whole page of one moment: what more it holds cannot be read.
                (None, Some(before)) if oldest >= before => return Looked::Unreadable,
                (None, _) => Some(oldest),
            };
        }
        // Pages that were not read may hold another one.
        Looked::Unreadable
    }

    fn judged(&self, bearing: Vec<Value>) -> Looked {
        claim::judge(self.operation, self.reconcile, self.request_id, self.sent, bearing)
    }

    async fn read(&self, before: Option<Timestamp>) -> Option<bytes::Bytes> {
        let operation = self.catalog.operation(&self.reconcile.operation)?;
        let before = before.map_or_else(String::new, |before| format!("&createdBefore={before}"));
        let query = format!("limit={PAGE}{before}");
        let admitted = Admitted::of_the_gate(self.road.environment, operation.clone(), query)?;
        let headers = HeaderMap::new();
        let cleared = clear_own_read(check(admitted, &headers, b"").ok()?)?;
        match self.road.send(cleared, None, &headers, &trace_id(None)).await {
            Sent::Answered { status: 200, body: AnswerBody::Complete(body), .. } => Some(body),
            Sent::Answered { .. } | Sent::Lost(_) | Sent::NotWritten => None,
        }
    }
}

fn moment(time: StoreTime) -> Option<Timestamp> {
    Timestamp::from_microsecond(time.as_micros()).ok()
}

fn word(looked: &Looked) -> &'static str {
    match looked {
        Looked::Found(_) => "found",
        Looked::Nothing => "nothing",
        Looked::Alarming(_) => "alarming",
        Looked::Unreadable => "unreadable",
    }
}

/// Whether it was done. Where a guard does not hold, something else has happened to the claim.
async fn commit(books: &Books, commit: Option<crate::commit::Commit>) -> Result<bool, StoreFault> {
    match commit {
        Some(commit) => books.commit(commit).await.map(|committed| committed.is_some()),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses = Pauses { first: Duration::from_secs(15), longest: Duration::from_secs(3600) };
        let secs = [0, 1, 2, 7, 8, 31, 32, u32::MAX].map(|looks| pauses.after(looks).as_secs());
        assert_eq!(secs, [15, 30, 60, 1920, 3600, 3600, 3600, 3600]);
    }
}
