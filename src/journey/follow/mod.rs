//! Follows payments in upstream's list to their end, and finds those that no gate sent.
//!
//! One gate at a time reads, under a lease in the store. Each reading begins with the latest records, and overlaps what
//! was read before; what is left of its pages goes on, from where the last one ended, with older records, whose states
//! change late. So the work of each reading is bounded, however long the list is. Nothing here moves or stops money, and
//! a failure only leaves states and limits as they were.

mod false_times;
mod record;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use self::false_times::FalseTimes;
use self::record::RecordBook;
use super::Egress;
use super::foreign_payment::MAX_LISTED;
use super::own_read::own_read;
use crate::base::digest::Fingerprint;
use crate::base::ids::OperationId;
use crate::catalog::{Catalog, Follow, Operation};
use crate::ledger::{Content, Index, Number, StoreFault, StoreTime};
use crate::node::{InForce, Node, Snapshot};
use crate::stations::claim::{CLOCKS_APART, Freeze};
use crate::stations::follow::{
    Baseline, FollowProgress, ListedPage, ListedRecord, RecordProblem, decode_progress, lease_for, listed_page,
    progress_key, take_over,
};

/// The most records that one page may have, and the number that is asked for.
const PAGE: usize = 100;
/// Records may share one moment, so each page overlaps the one before.
const OVERLAP_MICROS: i64 = 1_000;
/// The most records that are remembered as they were last seen.
const MAX_REMEMBERED: usize = 65_536;
/// How long a foreign record stays in the list for people, and how many leave it at once.
const LISTED_FOR: Duration = Duration::from_hours(24 * 35);
const MAX_FORGOTTEN: usize = 100;

/// When lists are read, and how far.
#[derive(Clone, Copy, Debug)]
pub struct FollowPace {
    /// The pause between two readings.
    pub interval: Duration,
    /// The longest pause while readings fail.
    pub longest_pause: Duration,
    /// How far each reading goes back behind the latest record of the one before.
    pub overlap: Duration,
    /// How old a record may be whose state still changes.
    pub reach: Duration,
    /// The most pages of one reading.
    pub pages: usize,
    /// How long the record of a payment is kept.
    pub keep: Duration,
}

/// The result of one reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadingResult {
    Read,
    /// Upstream gave no page, or one that is none.
    Failed,
    /// Another gate has the lease.
    NotMine,
    /// The store may have lost claims: nothing can be judged by it.
    Closed,
}

/// One environment whose lists are followed.
#[derive(Debug)]
pub struct PaymentFollower {
    node: Arc<Node>,
    egress: Egress,
    in_force: Arc<InForce>,
    pace: FollowPace,
    lists: BTreeMap<OperationId, ListState>,
}

/// The memory of this gate of one list.
#[derive(Debug, Default)]
struct ListState {
    /// The records as they were last seen, where nothing is left to do for them.
    remembered: HashMap<String, Fingerprint>,
    false_times: FalseTimes,
    /// The losses of the store up to which they count.
    losses: u64,
    /// The progress as this gate read on since it stored it, and the version that it stored.
    progress: Option<(Number, FollowProgress)>,
    failures: u32,
    due: Duration,
}

/// Follows the lists of an environment as long as the process lives.
pub async fn follow(mut follower: PaymentFollower) {
    loop {
        tokio::time::sleep(follower.pace.interval).await;
        if !follower.egress.credential.is_injected() {
            // The gate's own read needs its own credential. One may be configured later.
            continue;
        }
        follower.read_all().await;
    }
}

impl PaymentFollower {
    pub fn new(node: Arc<Node>, egress: Egress, in_force: Arc<InForce>, pace: FollowPace) -> PaymentFollower {
        PaymentFollower { node, egress, in_force, pace, lists: BTreeMap::new() }
    }

    /// Reads each list that is due once.
    pub async fn read_all(&mut self) {
        let snapshot = self.in_force.now();
        let followed = |operation: &&Arc<Operation>| operation.enabled && operation.follow.is_some();
        for operation in snapshot.catalog.operations().iter().filter(followed) {
            let mut list = self.lists.remove(&operation.id).unwrap_or_default();
            let now = self.node.clock.elapsed();
            if now >= list.due {
                let result = self.read(&snapshot, operation, &mut list).await.unwrap_or_else(|fault| {
                    self.node.told_of(&fault);
                    ReadingResult::Failed
                });
                self.note(operation, &mut list, result, now);
            }
            self.lists.insert(operation.id.clone(), list);
        }
        if let Err(fault) = self.count_foreign().await {
            self.node.told_of(&fault);
        }
    }

    fn note(&self, operation: &Operation, list: &mut ListState, result: ReadingResult, now: Duration) {
        let (environment, id) = (self.egress.environment.as_str(), operation.id.as_str());
        match result {
            ReadingResult::Read => {
                self.node.metrics.list_read(environment, id, "read");
                (list.failures, list.due) = (0, Duration::ZERO);
            }
            ReadingResult::Failed => {
                self.node.metrics.list_read(environment, id, "failed");
                let factor = 2_u32.saturating_pow(list.failures.min(16));
                list.failures = list.failures.saturating_add(1);
                list.due = now.saturating_add(self.pace.interval.saturating_mul(factor).min(self.pace.longest_pause));
                tracing::warn!(
                    environment,
                    operation = id,
                    failures = list.failures,
                    "the list of payments cannot be read: their states and limits stay as they are until it can"
                );
            }
            ReadingResult::NotMine | ReadingResult::Closed => list.due = Duration::ZERO,
        }
    }

    /// Reads a list once, if this gate has or gets its lease.
    async fn read(
        &self,
        snapshot: &Snapshot,
        operation: &Operation,
        list: &mut ListState,
    ) -> Result<ReadingResult, StoreFault> {
        let Some(follow) = &operation.follow else { return Ok(ReadingResult::NotMine) };
        let (node, environment) = (&self.node, self.egress.environment);
        let (closed, _) = node.store.read(&Freeze::Restored.key(environment)).await?;
        if closed.is_some() {
            return Ok(ReadingResult::Closed);
        }
        let (gate, lease) = (node.sender(), lease_for(self.pace.interval));
        let (record, now) = node.store.read(&progress_key(environment, &operation.id)).await?;
        let stored = match record.map(|record| (record.version, record.content)) {
            Some((version, Content::Whole(bytes))) => {
                let progress = decode_progress(&bytes).map_err(|why| StoreFault::Broken(why.to_string()))?;
                Some((version, progress))
            }
            Some((_, Content::Spent)) | None => None,
        };
        let until = now.plus(lease);
        let (before, mut progress) = match stored {
            Some((version, stored)) if stored.is_free_for(&gate, now) => {
                let own = list.progress.take().filter(|(own, _)| *own == version);
                (Some(version), own.map_or(stored, |(_, own)| own))
            }
            Some(_) => return Ok(ReadingResult::NotMine),
            None => {
                let Some(page) = self.page(&snapshot.catalog, operation, follow, None).await else {
                    return Ok(ReadingResult::Failed);
                };
                let records = page.records.iter().map(|record| (record.id.as_str(), record.created));
                let baseline = Baseline::of(records, self.latest());
                tracing::info!(
                    %environment,
                    operation = operation.id.as_str(),
                    before = %moment(baseline.latest),
                    "payments are followed from now on; what upstream has listed so far raises no alert"
                );
                let head = baseline.latest;
                (None, FollowProgress { gate: gate.clone(), until: StoreTime::default(), baseline, head, cursor: None })
            }
        };
        let mut version = before.unwrap_or_default();
        if progress.gate != gate || progress.until.since(now) < lease.checked_div(2).unwrap_or_default() {
            (progress.gate, progress.until) = (gate, until);
            let forgotten = self.forgotten(now).await?;
            let commit = take_over(environment, &operation.id, before, &progress, &forgotten, &node.id);
            match node.commit(commit).await? {
                Some(receipt) => version = receipt.number(),
                None => return Ok(ReadingResult::NotMine),
            }
        }
        let losses = node.losses.count(environment);
        if losses != list.losses || list.remembered.len() >= MAX_REMEMBERED {
            // Records that were stored for them may be lost.
            list.remembered.clear();
            list.false_times.forget();
            list.losses = losses;
        }
        let left = self.pace.pages;
        let (listed, seen) = (Vec::new(), HashSet::new());
        let mut reading = Reading { with: self, snapshot, operation, follow, list, left, listed, seen };
        let is_read = reading.read_pages(&mut progress).await?;
        let Reading { listed, list, .. } = reading;
        list.false_times.note(&listed);
        list.progress = Some((version, progress));
        Ok(if is_read { ReadingResult::Read } else { ReadingResult::Failed })
    }

    async fn page(
        &self,
        catalog: &Catalog,
        operation: &Operation,
        follow: &Follow,
        before: Option<i64>,
    ) -> Option<ListedPage> {
        let before = match before {
            Some(micros) => Some(Timestamp::from_microsecond(micros).ok()?),
            None => None,
        };
        let page = own_read(&self.egress, catalog, &follow.operation, PAGE, before).await?;
        let page = listed_page(operation, follow, &page, PAGE)?;
        let unreadable = u64::try_from(page.unreadable).unwrap_or(u64::MAX);
        self.node.metrics.listed_unreadable(self.egress.environment.as_str(), operation.id.as_str(), unreadable);
        Some(page)
    }

    /// The latest time that a record can have, in microseconds.
    fn latest(&self) -> i64 {
        let now = self.node.clock.now();
        now.checked_add(CLOCKS_APART).unwrap_or(now).as_microsecond()
    }

    /// Returns members of the list of foreign records that are too old for it.
    async fn forgotten(&self, now: StoreTime) -> Result<Vec<String>, StoreFault> {
        let until = Some(now.minus(LISTED_FOR));
        let old = self.node.store.due(self.egress.environment, Index::Foreign, until, MAX_FORGOTTEN).await?;
        Ok(old.into_iter().map(|(_, member)| member).collect())
    }

    async fn count_foreign(&self) -> Result<(), StoreFault> {
        let environment = self.egress.environment;
        let listed = self.node.store.due(environment, Index::Foreign, None, MAX_LISTED).await?;
        self.node.metrics.foreign_listed(environment.as_str(), listed.len());
        Ok(())
    }
}

/// One reading of one list.
struct Reading<'f> {
    with: &'f PaymentFollower,
    snapshot: &'f Snapshot,
    operation: &'f Operation,
    follow: &'f Follow,
    list: &'f mut ListState,
    /// The pages that it may still read.
    left: usize,
    /// The names and times of the records so far, in the order of the list.
    listed: Vec<(String, i64)>,
    /// Their names.
    seen: HashSet<String>,
}

/// How reading goes on behind a page.
enum PageEnd {
    /// No page follows.
    Last,
    /// The next page is of records before this time; this one ends at `last`.
    More { next: i64, last: i64 },
    /// Upstream gave no page, or the same one again.
    Broken,
}

impl Reading<'_> {
    /// Reads the latest records, then older ones; returns `false` where a page could not be had.
    async fn read_pages(&mut self, progress: &mut FollowProgress) -> Result<bool, StoreFault> {
        let latest = self.with.latest();
        let floor = progress.head.saturating_sub(micros(self.with.pace.overlap));
        let (known, mut newest, mut before) = (progress.head, progress.head, None);
        let mut of_head = self.left.div_ceil(2);
        let mut book = RecordBook::new(self.with, self.snapshot, self.operation, self.follow, &progress.baseline);
        loop {
            let (end, seen) = self.read_page(&mut book, before).await?;
            newest = newest.max(seen.unwrap_or(newest));
            of_head = of_head.saturating_sub(1);
            match end {
                PageEnd::Broken => return Ok(false),
                PageEnd::Last => {
                    (progress.head, progress.cursor) = (newest, None);
                    return Ok(true);
                }
                PageEnd::More { next, last } => {
                    before = Some(next);
                    if last < floor {
                        break;
                    }
                    if of_head == 0 {
                        if last > known {
                            // Records between were never read: older records come after it.
                            progress.cursor = before;
                        }
                        break;
                    }
                }
            }
        }
        progress.head = newest;
        let reach = latest.saturating_sub(micros(self.with.pace.reach));
        let mut cursor = progress.cursor.or(before);
        while self.left > 0 {
            match self.read_page(&mut book, cursor).await? {
                (PageEnd::Broken, _) => {
                    progress.cursor = cursor;
                    return Ok(false);
                }
                (PageEnd::More { next, last }, _) if last >= reach => cursor = Some(next),
                (PageEnd::More { .. } | PageEnd::Last, _) => {
                    cursor = None;
                    break;
                }
            }
        }
        progress.cursor = cursor;
        Ok(true)
    }

    /// Reads a page and judges its records; returns also the time of the latest that is not of the future.
    async fn read_page(
        &mut self,
        book: &mut RecordBook<'_>,
        before: Option<i64>,
    ) -> Result<(PageEnd, Option<i64>), StoreFault> {
        self.left = self.left.saturating_sub(1);
        let Some(page) = self.with.page(&self.snapshot.catalog, self.operation, self.follow, before).await else {
            return Ok((PageEnd::Broken, None));
        };
        let latest = self.with.latest();
        // A record of the future is not the latest.
        let newest = page.records.iter().map(|record| record.created).filter(|created| *created <= latest).max();
        let mut is_new = false;
        // The first by its name.
        let mut one: Option<ListedRecord> = None;
        for mut record in page.records {
            // A change in the future does not make all later ones stale.
            record.updated = record.updated.filter(|updated| *updated <= latest);
            self.listed.push((record.id.clone(), record.created));
            is_new |= self.seen.insert(record.id.clone());
            // Upstream's own raise no alert.
            let is_told = self.list.false_times.is_due(&record.id) && !record.is_upstreams;
            if is_told && book.raise(RecordProblem::FalseTime, &record).await? {
                self.list.false_times.told(&record.id);
            }
            if self.list.remembered.get(&record.id) != Some(&record.digest) && book.judge(&record).await? {
                self.list.remembered.insert(record.id.clone(), record.digest);
            }
            if one.as_ref().is_none_or(|one| record.id < one.id) {
                one = Some(record);
            }
        }
        let is_full = page.count >= PAGE;
        let end = match page.next {
            None if is_full => PageEnd::Broken,
            None => PageEnd::Last,
            Some((last, earliest)) => {
                // Upstream may give fewer records than were asked for while it has more.
                let next = if is_full || is_new { next_before(last, before) } else { before_all(earliest, before) };
                let is_crowded = is_full && next == Some(earliest);
                if is_crowded && let Some(record) = &one {
                    tracing::error!(
                        environment = %self.with.egress.environment,
                        at = %moment(earliest),
                        "upstream lists a whole page of one moment; more of that moment cannot be read"
                    );
                    book.raise(RecordProblem::CrowdedTime, record).await?;
                }
                match next {
                    Some(next) => PageEnd::More { next, last },
                    None if is_full => PageEnd::Broken,
                    None => PageEnd::Last,
                }
            }
        };
        Ok((end, newest))
    }
}

/// Returns the time before which the next page begins; `None` where upstream repeats a page. The page overlaps the one
/// that ends at `last`, as far as it goes on.
fn next_before(last: i64, before: Option<i64>) -> Option<i64> {
    let overlaps = [OVERLAP_MICROS, 1, 0].map(|overlap| last.saturating_add(overlap));
    overlaps.into_iter().find(|next| before.is_none_or(|before| *next < before))
}

/// Returns the time of the earliest record of a page, behind which older ones follow without an overlap.
fn before_all(earliest: i64, before: Option<i64>) -> Option<i64> {
    before.is_none_or(|before| earliest < before).then_some(earliest)
}

fn micros(time: Duration) -> i64 {
    StoreTime::micros(time)
}

fn moment(micros: i64) -> String {
    Timestamp::from_microsecond(micros).map_or_else(|_| micros.to_string(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_overlaps_and_never_goes_back() {
        assert_eq!(next_before(5_000, None), Some(6_000));
        assert_eq!(next_before(5_000, Some(9_000)), Some(6_000));
        // A whole page of one millisecond, and of one microsecond.
        assert_eq!(next_before(5_000, Some(6_000)), Some(5_001));
        assert_eq!(next_before(5_000, Some(5_001)), Some(5_000));
        // A page that comes again.
        assert_eq!(next_before(5_000, Some(5_000)), None);
        assert_eq!(next_before(7_000, Some(5_000)), None);
    }
}
