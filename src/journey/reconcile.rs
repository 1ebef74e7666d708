//! Finds out what became of calls with an unknown outcome, by the read that the catalogue names.
//!
//! A record found proves that the call was executed. A record not found proves nothing; the rest is for people to
//! resolve.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::Egress;
use super::foreign_payment::tell_of_record;
use super::own_read::own_read;
use crate::catalog::{Catalog, Operation, Reconcile};
use crate::ledger::{Index, Kind, Record, RecordKey, StoreFault, StoreTime, Versioned};
use crate::node::{InForce, Node};
use crate::stations::claim::{self, CLOCKS_APART, Claim, ClaimEvent, ClaimState, LookupResult, SentRequest};
use crate::stations::follow::{RecordProblem, listed_record};

const POLL_INTERVAL: Duration = Duration::from_secs(1);
const BATCH: usize = 32;
/// The pause for calls that no read can find.
const NEVER: Duration = Duration::from_hours(24 * 365 * 100);
/// How long after the send upstream may still make the record.
const LATEST_RECORD: Duration = Duration::from_hours(24);
/// Records may share one moment, so each page overlaps the one before.
const OVERLAP: Duration = Duration::from_millis(1);
const PAGE: usize = 100;
const MAX_PAGES: usize = 100;

/// The pauses between lookups; each is twice the one before, up to the longest.
#[derive(Clone, Copy, Debug)]
pub struct LookupPauses {
    pub first: Duration,
    pub longest: Duration,
}

impl LookupPauses {
    fn after(self, looks: u32) -> Duration {
        self.first.saturating_mul(1_u32.checked_shl(looks).unwrap_or(u32::MAX)).min(self.longest)
    }
}

/// Reconciles the unknown outcomes of an environment as long as the process lives.
pub async fn reconcile(node: Arc<Node>, egress: Egress, in_force: Arc<InForce>, pauses: LookupPauses) {
    loop {
        if let Err(fault) = look_at_all(&node, &egress, &in_force.now().catalog, pauses).await {
            node.told_of(&fault);
        }
        tokio::time::sleep(POLL_INTERVAL.min(pauses.first)).await;
    }
}

/// Makes one lookup for each call that is due.
pub async fn look_at_all(
    node: &Arc<Node>,
    egress: &Egress,
    catalog: &Catalog,
    pauses: LookupPauses,
) -> Result<(), StoreFault> {
    let now = node.store.time().await?;
    for (_, name) in node.store.due(egress.environment, Index::Unknown, Some(now), BATCH).await? {
        let key = RecordKey { environment: egress.environment, kind: Kind::Claim, name };
        match node.find(&key).await {
            Ok(Some((record, claim))) => look_at(node, egress, catalog, &key, &record, &claim, pauses).await?,
            Ok(None) => {}
            // A record that cannot be read does not stop the others.
            Err(fault @ StoreFault::Broken(_)) => node.told_of(&fault),
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

async fn look_at(
    node: &Arc<Node>,
    egress: &Egress,
    catalog: &Catalog,
    key: &RecordKey,
    record: &Record,
    claim: &Claim,
    pauses: LookupPauses,
) -> Result<(), StoreFault> {
    let (ClaimState::Unknown { looks, sent, .. }, Some(past)) = (&claim.state, claim.in_doubt()) else { return Ok(()) };
    let (attempt, since) = (past.number, past.since);
    let here = Versioned { key, version: record.version, at: record.at, value: claim };
    let environment = egress.environment.as_str();
    let operation = catalog.operation(&claim.operation);
    let way = operation.and_then(|operation| Some((operation, operation.reconcile.as_ref()?)));
    let (Some((operation, reconcile)), Some(request_id)) = (way, &claim.request_id) else {
        return commit(node, claim::look_again(here, NEVER, &node.id)).await.map(|_| ());
    };
    // The gate's own read needs its own credential. One may be configured later.
    if !egress.credential.is_injected() {
        return commit(node, claim::look_again(here, pauses.longest, &node.id)).await.map(|_| ());
    }
    let looked = RecordSearch { egress, catalog, operation, reconcile, request_id: request_id.as_str(), since, sent };
    let looked = looked.around(node.clock.now()).await;
    node.metrics.reconciled(environment, word(&looked));
    match looked {
        LookupResult::Found(answer) => {
            let settled = claim::settle(here, attempt, ClaimEvent::Found(answer), &node.id, &node.terms);
            if commit(node, settled.ok().map(|(commit, _)| commit)).await? {
                tracing::info!(
                    environment,
                    attempt = attempt.as_u64(),
                    "a call with an unknown outcome was executed: upstream has its record"
                );
                node.metrics.claim_settled(environment, "found");
            }
            Ok(())
        }
        looked => {
            if let LookupResult::Older(record) = &looked
                && let Some(found) = listed_record(operation, record)
            {
                let found = found.as_foreign(&operation.id, RecordProblem::OlderRecord);
                tell_of_record(egress, node, &found).await?;
            }
            if let Some(why) = alarm(&looked) {
                tracing::error!(
                    environment,
                    attempt = attempt.as_u64(),
                    why,
                    "a call with an unknown outcome needs a person to look"
                );
            }
            commit(node, claim::look_again(here, pauses.after(*looks), &node.id)).await.map(|_| ())
        }
    }
}

/// The lookup of one record.
struct RecordSearch<'s> {
    egress: &'s Egress,
    catalog: &'s Catalog,
    operation: &'s Operation,
    reconcile: &'s Reconcile,
    request_id: &'s str,
    /// When the attempt was made.
    since: StoreTime,
    sent: &'s SentRequest,
}

impl RecordSearch<'_> {
    /// Reads the records around the time of an attempt, the latest first, page by page. It reads all of them, for there
    /// may be two.
    ///
    /// Upstream documents the earlier bound of a list as a date, and the later bound as a moment too. So only the later
    /// bound is set, and pages are read until they are early enough.
    async fn around(&self, now: Timestamp) -> LookupResult {
        let (Some(earliest), Some(latest)) = (
            moment(self.since.minus(CLOCKS_APART)),
            moment(self.since).and_then(|since| since.checked_add(LATEST_RECORD).ok()),
        ) else {
            return LookupResult::Unreadable;
        };
        let mut before = (latest < now).then_some(latest);
        let mut bearing = Vec::new();
        for _ in 0..MAX_PAGES {
            let Some(page) = self.read(before).await else { return LookupResult::Unreadable };
            let Some(page) = claim::page_of(self.reconcile, self.request_id, &page) else {
                return LookupResult::Unreadable;
            };
            bearing.extend(page.records);
            // Upstream may give fewer records than were asked for while it has more.
            let is_full = page.count >= PAGE;
            let Some(oldest) = page.oldest.and_then(|oldest| oldest.parse::<Timestamp>().ok()) else {
                return if is_full { LookupResult::Unreadable } else { self.judged(bearing) };
            };
            if oldest < earliest {
                return self.judged(bearing);
            }
            let next = oldest.checked_add(OVERLAP).ok().filter(|next| before.is_none_or(|before| *next < before));
            before = match (next, before) {
                (Some(next), _) => Some(next),
                // A whole page of one moment: what more that moment holds cannot be read.
                (None, Some(before)) if oldest >= before && is_full => return LookupResult::Unreadable,
                // The same records again: no older ones.
                (None, Some(before)) if oldest >= before => return self.judged(bearing),
                (None, _) => Some(oldest),
            };
        }
        // Pages that were not read may hold a second record.
        LookupResult::Unreadable
    }

    fn judged(&self, bearing: Vec<Value>) -> LookupResult {
        claim::judge(self.operation, self.reconcile, self.request_id, (self.since, self.sent), bearing)
    }

    async fn read(&self, before: Option<Timestamp>) -> Option<bytes::Bytes> {
        own_read(self.egress, self.catalog, &self.reconcile.operation, PAGE, before).await
    }
}

fn moment(time: StoreTime) -> Option<Timestamp> {
    Timestamp::from_microsecond(time.as_micros()).ok()
}

/// Returns why a person must look.
fn alarm(looked: &LookupResult) -> Option<&'static str> {
    match looked {
        LookupResult::Older(_) => Some("the record with its requestId was made before the call was sent"),
        LookupResult::Alarming(why) => Some(why),
        LookupResult::Found(_) | LookupResult::Nothing | LookupResult::Unreadable => None,
    }
}

fn word(looked: &LookupResult) -> &'static str {
    match looked {
        LookupResult::Found(_) => "found",
        LookupResult::Nothing => "nothing",
        LookupResult::Older(_) | LookupResult::Alarming(_) => "alarming",
        LookupResult::Unreadable => "unreadable",
    }
}

/// Commits, and returns whether it was done; a guard that does not hold means that the claim changed meanwhile.
async fn commit(node: &Node, commit: Option<crate::ledger::Commit>) -> Result<bool, StoreFault> {
    match commit {
        Some(commit) => node.commit(commit).await.map(|committed| committed.is_some()),
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses = LookupPauses { first: Duration::from_secs(15), longest: Duration::from_secs(3600) };
        let secs = [0, 1, 2, 7, 8, 31, 32, u32::MAX].map(|looks| pauses.after(looks).as_secs());
        assert_eq!(secs, [15, 30, 60, 1920, 3600, 3600, 3600, 3600]);
    }
}
