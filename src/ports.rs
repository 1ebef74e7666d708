//! Traits through which the pure modules and the journeys reach the outside world; `adapters` implements them.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use thiserror::Error;

use crate::audit::OnDisk;
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::ledger::{
    Commit, CommitError, Index, IndexPart, Number, Outstanding, Query, QueryAnswer, Receipt, Record, RecordKey, Sender,
    StoreFault, StoreTime, TimeBounds, WindowKey, WindowSpan, WriteRefusal,
};
use crate::policy::{Mark, Quota, Rate};
use crate::stations::forward::{Outgoing, Sent};

/// Tells the time of day, and a monotonic time.
pub trait Clock: fmt::Debug + Send + Sync {
    fn now(&self) -> Timestamp;

    /// Returns the monotonic time since some moment before this process began; it does not follow the time of day.
    fn elapsed(&self) -> Duration;

    /// Returns how long the machine has been paused since it was started.
    fn paused(&self) -> Duration {
        Duration::ZERO
    }
}

/// The shared, durable state of the gates: see [`crate::ledger`].
///
/// A store implements the first four methods. The others are `query` with typed answers. Every call ends by a deadline
/// of its own.
#[async_trait]
pub trait Store: fmt::Debug + Send + Sync {
    /// Makes the whole commit or nothing of it.
    async fn commit(&self, commit: Commit) -> Result<Receipt, CommitError>;

    /// Makes a commit whose entry the caller brings to the journal's disk before anything is done or said because of it, so
    /// that the store need not bring it to its own disk first.
    async fn commit_for_journal(&self, commit: Commit) -> Result<Receipt, CommitError> {
        self.commit(commit).await
    }

    /// Whether what is committed for the journal is on no disk but the journal's.
    fn leans_on_journal(&self) -> bool {
        false
    }

    /// Whether the journal of this gate has a record of this key, which the store may have lost; expired ones included.
    fn journal_has(&self, _key: &RecordKey) -> Result<bool, StoreFault> {
        Ok(false)
    }

    /// Returns the times between which the store makes a commit of this gate that is sent now; `None` where nobody else could
    /// write another time into its entry, or nothing is known of its time.
    fn time_bounds(&self, _environment: Environment) -> Option<TimeBounds> {
        None
    }

    /// Brings to the store's disk what was committed for the journal.
    async fn flush(&self) -> Result<(), StoreFault> {
        Ok(())
    }

    async fn query(&self, query: Query) -> Result<QueryAnswer, StoreFault>;

    /// Tells that a journal has every entry up to this number on its disk. Entries that every journal has leave the
    /// outbox.
    async fn kept(&self, environment: Environment, by: &Sender, up_to: Number) -> Result<(), StoreFault>;

    /// Removes a bounded number of expired records, and returns how many it removed.
    async fn sweep(&self) -> Result<usize, StoreFault>;

    /// Returns the record as it is now, and the store's time.
    async fn read(&self, key: &RecordKey) -> Result<(Option<Record>, StoreTime), StoreFault> {
        match self.query(Query::Record(key.clone())).await? {
            QueryAnswer::Record(record, now) => Ok((record, now)),
            other => Err(other.unexpected()),
        }
    }

    /// Returns the members of an index that are due before `until`, the earliest first; for `None`, all members.
    async fn due(
        &self,
        environment: Environment,
        index: Index,
        until: Option<StoreTime>,
        count: usize,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        match self.query(Query::Due { environment, index, until, count }).await? {
            QueryAnswer::Members(members) => Ok(members),
            other => Err(other.unexpected()),
        }
    }

    /// Returns a part of an index in the order of `due`, or backwards.
    async fn part(
        &self,
        environment: Environment,
        index: Index,
        part: IndexPart,
    ) -> Result<Vec<(StoreTime, String)>, StoreFault> {
        match self.query(Query::Part { environment, index, part }).await? {
            QueryAnswer::Members(members) => Ok(members),
            other => Err(other.unexpected()),
        }
    }

    /// Returns when the store learned last that a payment to a destination was executed; `None` if it knows no such payment.
    async fn last_paid(&self, environment: Environment) -> Result<Option<StoreTime>, StoreFault> {
        let latest = IndexPart { backwards: true, behind: None, count: 1 };
        Ok(self.part(environment, Index::Paid, latest).await?.first().map(|(at, _)| *at))
    }

    /// Returns the due time of a member, if the index contains it.
    async fn member(
        &self,
        environment: Environment,
        index: Index,
        member: &str,
    ) -> Result<Option<StoreTime>, StoreFault> {
        match self.query(Query::Member { environment, index, member: member.to_owned() }).await? {
            QueryAnswer::Due(due) => Ok(due),
            other => Err(other.unexpected()),
        }
    }

    /// Returns the units that a window holds now.
    async fn used(&self, environment: Environment, window: &WindowKey, span: WindowSpan) -> Result<u64, StoreFault> {
        Ok(self.used_of(environment, vec![window.clone()], span).await?.into_iter().sum())
    }

    /// Returns the units that each of these windows holds now, in their order.
    async fn used_of(
        &self,
        environment: Environment,
        windows: Vec<WindowKey>,
        span: WindowSpan,
    ) -> Result<Vec<u64>, StoreFault> {
        let asked = windows.len();
        match self.query(Query::Used { environment, windows, span }).await? {
            QueryAnswer::Units(units) if units.len() == asked => Ok(units),
            other => Err(other.unexpected()),
        }
    }

    /// Returns the windows, of one limit or of all, with reservations that may still count, in an order of the store's own.
    async fn windows(
        &self,
        environment: Environment,
        limit: Option<&str>,
        count: usize,
    ) -> Result<Vec<WindowKey>, StoreFault> {
        self.windows_behind(environment, limit, None, count).await
    }

    /// Returns those windows behind one of them in that order. The window itself may be gone.
    async fn windows_behind(
        &self,
        environment: Environment,
        limit: Option<&str>,
        behind: Option<WindowKey>,
        count: usize,
    ) -> Result<Vec<WindowKey>, StoreFault> {
        match self.query(Query::Windows { environment, limit: limit.map(str::to_owned), behind, count }).await? {
            QueryAnswer::Windows(windows) => Ok(windows),
            other => Err(other.unexpected()),
        }
    }

    /// Returns the entries of all nodes behind a number that not every journal has yet, in the order of their numbers.
    async fn outbox(
        &self,
        environment: Environment,
        after: Number,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        match self.query(Query::Outbox { environment, after, count, for_journal: false }).await? {
            QueryAnswer::Entries(entries) => Ok(entries),
            other => Err(other.unexpected()),
        }
    }

    /// Returns entries of the outbox for a journal, which must have none that a failover of the store could undo.
    async fn outbox_for_journal(
        &self,
        environment: Environment,
        after: Number,
        count: usize,
    ) -> Result<Vec<Outstanding>, StoreFault> {
        match self.query(Query::Outbox { environment, after, count, for_journal: true }).await? {
            QueryAnswer::Entries(entries) => Ok(entries),
            other => Err(other.unexpected()),
        }
    }

    /// Waits until all that the store has is as durable as a commit: what was read before cannot be undone any more.
    async fn is_durable(&self, environment: Environment) -> Result<(), StoreFault> {
        match self.query(Query::DurableLast(environment)).await? {
            QueryAnswer::Number(_) => Ok(()),
            other => Err(other.unexpected()),
        }
    }

    /// Returns the number of the latest commit; 0 before the first.
    async fn last(&self, environment: Environment) -> Result<Number, StoreFault> {
        match self.query(Query::Last(environment)).await? {
            QueryAnswer::Number(number) => Ok(number),
            other => Err(other.unexpected()),
        }
    }

    /// Returns why the store refuses writes, if it does; queries may be answered all the same.
    async fn refusal(&self) -> Result<Option<WriteRefusal>, StoreFault> {
        match self.query(Query::Refusal).await? {
            QueryAnswer::Refusal(refusal) => Ok(refusal),
            other => Err(other.unexpected()),
        }
    }

    /// Returns the store's time.
    async fn time(&self) -> Result<StoreTime, StoreFault> {
        match self.query(Query::Time).await? {
            QueryAnswer::Time(time) => Ok(time),
            other => Err(other.unexpected()),
        }
    }
}

/// The audit log of this node: its journal of the commits of all nodes, in the order of their numbers.
#[async_trait]
pub trait AuditSink: fmt::Debug + Send + Sync {
    /// Appends entries; they are on disk when this returns, and so is every entry before them. An entry that the log
    /// already has is not written again.
    async fn append(&self, entries: Vec<Outstanding>) -> Result<OnDisk, AuditFault>;

    /// Returns the number up to which the log has every entry on disk, apart from those that it was told to skip.
    fn highest(&self, environment: Environment) -> Number;

    /// Goes on behind this number: the entries up to it that the log does not have can be had no more.
    async fn skip(&self, environment: Environment, up_to: Number) -> Result<(), AuditFault>;

    /// Goes on behind this number with the history of a store that has other entries up to it than the log. Fails where the
    /// log has entries behind it.
    async fn begin_again(&self, environment: Environment, behind: Number) -> Result<(), AuditFault>;

    /// Refuses the entries of an environment, whose store lost its memory, until `resume`. When this returns, every entry
    /// whose append succeeded is counted in `highest`, and none is added to it.
    async fn suspend(&self, environment: Environment) -> Result<(), AuditFault>;

    /// Takes entries of the environment again.
    fn resume(&self, environment: Environment);

    /// Completes when an entry waits for one before it, which the log does not have.
    async fn gap(&self);

    /// Whether the last append succeeded; checked before each commit for money.
    fn is_well(&self) -> bool;

    /// Returns why the last append failed, in words for people; `None` where it succeeded, or nobody knows why.
    fn trouble(&self) -> Option<String> {
        None
    }

    /// Whether money waits until witnesses sign; checked before each commit for money.
    fn lacks_witnesses(&self) -> bool {
        false
    }
}

/// Why entries are not on disk.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AuditFault {
    /// The log can never take one of the entries: it contradicts the chain, or does not fit the format.
    #[error("the audit chain rejects an entry: {0}")]
    Refused(String),
    /// The entry is on disk, and its commit contradicts the journal: the store that made it forgot something, or was
    /// changed.
    #[error("the store contradicts the journal: {why}")]
    Contradicted { number: Number, why: String },
    /// The store no longer stands for the entry, or did not give the entries before it in time.
    #[error("the store does not stand for an entry: {0}")]
    Store(String),
    /// The disk, or the thread that writes to it, fails at present.
    #[error("the audit chain cannot be written: {0}")]
    Disk(String),
}

/// The API behind the gate, in one environment.
#[async_trait]
pub trait Upstream: fmt::Debug + Send + Sync {
    /// Sends a request once, without a retry, and returns what is known of its outcome. It ends by its own deadlines.
    /// Just before the first byte it checks the request's own deadline; a request that is too late is not written.
    async fn send(&self, outgoing: Outgoing) -> SendResult;
}

/// The knowledge about a send at its deadline, and the answer that may still come.
#[derive(Debug)]
pub struct SendResult {
    pub sent: Sent,
    /// Where the request was delivered whole, but its answer was not.
    pub late: Option<LateAnswer>,
}

impl SendResult {
    /// Nothing more will be heard.
    pub fn only(sent: Sent) -> SendResult {
        SendResult { sent, late: None }
    }
}

/// An answer that is still waited for, until upstream can act no more. Dropping it gives the request up for good.
pub struct LateAnswer(Pin<Box<dyn Future<Output = Sent> + Send>>);

impl LateAnswer {
    pub fn new(answer: impl Future<Output = Sent> + Send + 'static) -> LateAnswer {
        LateAnswer(Box::pin(answer))
    }

    /// Waits for the answer; [`Sent::Lost`] where none came.
    pub async fn heard(self) -> Sent {
        self.0.await
    }
}

impl fmt::Debug for LateAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LateAnswer")
    }
}

/// One call's demand on one bucket of a rate.
#[derive(Clone, Copy, Debug)]
pub struct Take<'r> {
    pub rate: &'r Rate,
    /// The index of the rate among all rates.
    pub at: usize,
    pub quota: Quota,
    pub bucket: Fingerprint,
}

/// The buckets of all rates that have a quota.
#[async_trait]
pub trait RateLimiter: fmt::Debug + Send + Sync {
    /// Takes one call from each bucket that has room, or from none if an enforced bucket is empty. Returns a mark for
    /// each take, in order; `None` where a bucket was not asked because another had already refused.
    async fn take(&self, takes: &[Take<'_>]) -> Vec<Option<Mark>>;

    /// Returns buckets for other rates; each continues with the buckets of the previous rate at its index in `places`,
    /// if any.
    fn followed_by(&self, places: &[Option<usize>]) -> Arc<dyn RateLimiter>;
}
