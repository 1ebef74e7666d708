//! What the pure parts and the journeys need of the world, as traits; `adapters` fulfil them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;

use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::commit::{
    Commit, CommitError, Committed, Index, NodeId, Number, Outstanding, Record, RecordKey, Span, StoreFault, StoreTime,
    WindowKey,
};
use crate::policy::{Mark, Quota, Rate};
use crate::stations::forward::{Outgoing, Sent};

/// The time of day, and a time that never runs back.
pub trait Clock: fmt::Debug + Send + Sync {
    fn now(&self) -> Timestamp;

    /// Since some moment before this process did anything; it does not follow the time of day.
    fn elapsed(&self) -> Duration;
}

/// How long a claim may still begin to be sent, by this node's own clock.
#[derive(Clone, Debug)]
pub struct Lease {
    clock: Arc<dyn Clock>,
    until: Duration,
}

impl Lease {
    /// From now on; asked for before the commit that makes the claim.
    pub fn starting(clock: Arc<dyn Clock>, length: Duration) -> Lease {
        let until = clock.elapsed().saturating_add(length);
        Lease { clock, until }
    }

    pub fn is_live(&self) -> bool {
        self.clock.elapsed() < self.until
    }
}

/// Which part of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// From its end, the latest first.
    pub backwards: bool,
    /// What stands behind this place, in that order; the member may be gone.
    pub behind: Option<(StoreTime, String)>,
    pub count: usize,
}

/// What was decided and done, kept and shared: see [`crate::commit`].
///
/// Every call ends by a deadline of its own.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync {
    /// All of it or nothing.
    async fn commit(&self, commit: Commit) -> Result<Committed, CommitError>;

    /// The record as it stands, and the store's time.
    async fn read(&self, key: &RecordKey) -> Result<(Option<Record>, StoreTime), StoreFault>;

    /// The members of an index that are due before `until`, the earliest first, at most `count`; all of them for `None`.
    async fn due(
        &self,
        environment: Environment,
        index: Index,
        until: Option<StoreTime>,
        count: usize,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault>;

    /// A part of an index in its order, which is that of `due`; or from its end, the latest first.
    async fn part(
        &self,
        environment: Environment,
        index: Index,
        part: Part,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault>;

    /// What a window holds now.
    async fn used(&self, environment: Environment, window: &WindowKey, span: Span) -> Result<u64, StoreFault>;

    /// When a member of an index is due, if the index has it.
    async fn member(
        &self,
        environment: Environment,
        index: Index,
        member: &str,
    ) -> Result<Option<StoreTime>, StoreFault>;

    /// The windows, of one limit or of all, in which something was reserved that may still count: in no order, at most
    /// `count`.
    async fn windows(
        &self,
        environment: Environment,
        limit: Option<&str>,
        count: usize,
    ) -> Result<Vec<WindowKey>, StoreFault>;

    /// The entries of a node that are not on its disk yet, in the order of their numbers, at most `count`.
    async fn outbox(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault>;

    /// Entries of nodes that are gone, at most `count`: from now on this node has them too, and brings them to its disk.
    async fn take_over(
        &self,
        environment: Environment,
        node: &NodeId,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault>;

    /// These entries are on disk.
    async fn drained(&self, environment: Environment, numbers: &[Number]) -> Result<(), StoreFault>;

    /// The number of the latest commit; 0 before the first.
    async fn last(&self, environment: Environment) -> Result<Number, StoreFault>;

    /// Removes what is past its time, a bounded part of it; says how many records went.
    async fn sweep(&self) -> Result<usize, StoreFault>;

    /// The store's time.
    async fn time(&self) -> Result<StoreTime, StoreFault>;
}

/// The audit chain of this node.
#[async_trait]
pub trait AuditSink: fmt::Debug + Send + Sync {
    /// On disk when it returns. An Entry that stands there already is not written again.
    async fn append(&self, entries: Vec<Outstanding>) -> Result<(), AuditFault>;

    /// Whether the last append went well: asked before anything is committed for money.
    fn is_well(&self) -> bool;
}

/// Why entries are not on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditFault {
    /// One of them can never stand there: it contradicts the chain, or has no form that fits.
    Refused(String),
    /// The disk, or what writes to it, does not work now.
    Disk(String),
}

impl fmt::Display for AuditFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuditFault::Refused(why) => write!(f, "the audit chain takes no such Entry: {why}"),
            AuditFault::Disk(why) => write!(f, "the audit chain cannot be written: {why}"),
        }
    }
}

impl std::error::Error for AuditFault {}

/// The API behind the gate, in one environment.
#[async_trait]
pub trait Upstream: fmt::Debug + Send + Sync {
    /// Sends once, never again, and says what is known afterwards. It ends by its own deadlines. Where there is a lease,
    /// it is looked at just before the first byte: what begins too late is not written.
    async fn send(&self, outgoing: Outgoing, lease: Option<Lease>) -> Sent;
}

/// What a call takes from one bucket of a rate.
#[derive(Clone, Copy, Debug)]
pub struct Take<'r> {
    pub rate: &'r Rate,
    /// The place of the rate among all.
    pub at: usize,
    pub quota: Quota,
    pub bucket: Fingerprint,
}

/// The buckets of all rates that have a quota.
#[async_trait]
pub trait RateLimiter: fmt::Debug + Send + Sync {
    /// Takes one call from every bucket that has room; but from none at all if an enforced one has none. What each
    /// says, in the order of the takes: nothing where it was not asked, because another had refused already.
    async fn take(&self, takes: &[Take<'_>]) -> Vec<Option<Mark>>;

    /// Buckets for other rates: each of them goes on with those of the rate that had this place before, if any.
    fn followed_by(&self, places: &[Option<usize>]) -> Arc<dyn RateLimiter>;
}
