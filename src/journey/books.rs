//! The books of one node: the store that all nodes share, and the audit chain that is this node's own.
//!
//! What happens to a claim goes through here: told to the store in one commit, and its Entry brought to disk.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{mpsc, watch};
use tokio_util::task::TaskTracker;

use super::Exchange;
use super::facts::Heard;
use super::holds::Changes;
use super::outlets::Outlets;
use crate::adapters::clock::Stopwatch;
use crate::adapters::random::nonce;
use crate::adapters::unsettled::Unsettled;
use crate::base::ids::{Environment, TraceId};
use crate::base::keyed::OperandKey;
use crate::commit::{
    Commit, CommitError, Committed, Content, NodeId, Number, Outstanding, Record, RecordKey, StoreFault, StoreTime,
};
use crate::ports::{AuditFault, AuditSink, Clock, Lease, Store};
use crate::stations::check::{Intent, Named};
use crate::stations::claim::{
    self, Beginner, Beginning, Begun, Booked, Claim, Event, Freeze, From, Learnt, Moved, Naming, Next, Owner, Said,
    Standing, Standpoint, Terms,
};
use crate::stations::decide::{Allowed, Grounds};
use crate::stations::hold::Owners;
use crate::stations::record::Entry;
use crate::stations::reply::Earlier;
use crate::telemetry::{Metrics, Station};

/// How often a commit is made again because the record had changed meanwhile.
pub(super) const TRIES: usize = 5;
/// How long an outcome is tried to be stored before its caller hears it all the same.
const SETTLE_PATIENCE: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Clone, Debug)]
pub struct Books {
    pub store: Arc<dyn Store>,
    pub audit: Arc<dyn AuditSink>,
    pub clock: Arc<dyn Clock>,
    pub node: NodeId,
    pub terms: Terms,
    /// Where outcomes lie that the store could not be told.
    pub unsettled: Option<Unsettled>,
    pub metrics: Metrics,
    /// What the store told, for decisions.
    pub heard: Arc<Heard>,
    /// What personal operands of decisions are kept under.
    pub operand_key: OperandKey,
    /// What still writes down outcomes when their callers were answered; an end waits for it.
    pub settling: TaskTracker,
    /// Becomes true when this node is to end: nobody waits here any longer than needed.
    pub stopping: watch::Receiver<bool>,
    /// What happens to holds here.
    pub changes: Changes,
    /// Who does not judge what their services ask for.
    pub owners: Arc<Owners>,
    /// Who is told what happens.
    pub outlets: Arc<Outlets>,
    /// To whom entries go that are not waited for.
    pub drain: mpsc::Sender<Drained>,
}

/// An Entry on its way out of the store's outbox.
#[derive(Debug)]
pub enum Drained {
    /// To be brought to disk.
    Waiting(Outstanding),
    /// It is on disk.
    OnDisk(Environment, Number),
}

/// An attempt that the store and the audit chain know of, and that may be sent.
#[derive(Debug)]
pub struct Attempt {
    pub begun: Begun,
    pub lease: Lease,
    pub place: Place,
}

/// Where the outcome of an attempt is written.
#[derive(Clone, Debug)]
pub enum Place {
    Claim {
        key: RecordKey,
        claim: Box<Claim>,
        at: StoreTime,
    },
    /// The call cannot be claimed; its entries, and what it booked, are all that there is.
    Unclaimed {
        environment: Environment,
        entry: Entry,
        booked: Booked,
    },
}

/// Why an attempt is not begun.
#[derive(Debug)]
pub enum NotBegun {
    Claimed(Record, StoreTime),
    /// What the decision assumed is otherwise: it is made again.
    Otherwise(Vec<Learnt>),
    /// The claim that is to be sent, or its hold, is another by now.
    Moved,
    Frozen,
    /// It is frozen because the store may have forgotten claims.
    Forgotten,
    StoreAway,
    AuditAway,
}

impl Books {
    /// Store first, then the disk; only then may anything be sent.
    pub async fn begin(
        self: &Arc<Self>,
        intent: &Intent,
        allowed: &Allowed,
        exchange: &Exchange,
        from: From<'_>,
    ) -> Result<Attempt, NotBegun> {
        if !self.audit.is_well() {
            return Err(self.claimed_already(&intent.name()).await.unwrap_or(NotBegun::AuditAway));
        }
        let lease = Lease::starting(self.clock.clone(), self.terms.begin_within);
        let nonce = nonce();
        let trace = &exchange.id;
        let by =
            Beginner { node: &self.node, nonce: &nonce, trace, terms: &self.terms, operand_key: &self.operand_key };
        let beginning = claim::begin(intent, allowed, by, from);
        let commit = beginning.commit.clone();
        let committing = exchange.spans.enter(Station::Commit);
        let committed = self.to_store(commit).await;
        drop(committing);
        let committed = match committed {
            Ok(committed) => committed,
            Err(CommitError::Stood { at, obstacles }) => {
                return Err(stood(claim::standing(&beginning.commit, at, obstacles), at));
            }
            Err(CommitError::Fault(fault)) => {
                self.told_of(&fault);
                if matches!(fault, StoreFault::InDoubt(_)) {
                    self.abandon(&beginning, nonce);
                    return Err(NotBegun::StoreAway);
                }
                // What cannot be written to, for its disk is full, may be read.
                return Err(self.claimed_already(&intent.name()).await.unwrap_or(NotBegun::StoreAway));
            }
        };
        self.heard.time(committed.at, self.clock.elapsed());
        let begun = claim::begun(&committed);
        let entry = beginning.commit.entry.clone();
        let place = place(beginning, committed.at);
        let recording = exchange.spans.enter(Station::Record);
        let recorded = self.record(committed, place.environment(), entry).await;
        drop(recording);
        if let Err(fault) = recorded {
            tracing::error!(%fault, "nothing was sent: its Entry is not on disk");
            self.settle(&place, begun.attempt(), Event::Undone).await;
            return Err(NotBegun::AuditAway);
        }
        Ok(Attempt { begun, lease, place })
    }

    /// Writes down that a call goes no further, unless it is claimed already. Where the store may have forgotten claims, that
    /// is said, and it is written down all the same.
    pub async fn refuse(&self, intent: &Intent, grounds: &Grounds, trace: &TraceId) -> Result<Earlier, NotBegun> {
        let mut earlier = Earlier::None;
        loop {
            let may_be_forgotten = earlier == Earlier::Forgotten;
            let commit = claim::refuse(intent, grounds, (&self.node, &self.operand_key), trace, may_be_forgotten);
            match self.try_commit(commit.clone()).await {
                Ok(_) => return Ok(earlier),
                Err(CommitError::Stood { at, obstacles }) => match stood(claim::standing(&commit, at, obstacles), at) {
                    NotBegun::Forgotten if !may_be_forgotten => earlier = Earlier::Forgotten,
                    why => return Err(why),
                },
                Err(CommitError::Fault(fault)) => {
                    self.told_of(&fault);
                    return Err(NotBegun::StoreAway);
                }
            }
        }
    }

    /// What the claim of this name says to its asker; `None` if there is none.
    pub async fn said(&self, named: &Named, asker: &Owner) -> Result<Option<Said>, StoreFault> {
        let (record, now) = self.store.read(&named.key).await.inspect_err(|fault| self.told_of(fault))?;
        record.map(|record| self.said_by(&record, named, asker, now)).transpose()
    }

    /// The same, of a record that is at hand.
    pub fn said_by(&self, record: &Record, named: &Named, asker: &Owner, now: StoreTime) -> Result<Said, StoreFault> {
        claim::said(record, asker, named.fingerprint, now).map_err(|unreadable| {
            let fault = self.unreadable(&unreadable);
            self.told_of(&fault);
            fault
        })
    }

    /// Writes down what became of an attempt. Where that cannot be done soon, it is kept on this node's disk, and done
    /// as soon as it can be.
    pub async fn settle(self: &Arc<Self>, place: &Place, attempt: Number, event: Event) {
        let settling = self.try_to_settle(place, attempt, &event);
        if let Ok(()) = tokio::time::timeout(SETTLE_PATIENCE, settling).await {
            return;
        }
        let kept = self.keep_for_later(place, attempt, &event).await;
        self.metrics.unsettled(1);
        let (books, place) = (self.clone(), place.clone());
        self.settling.spawn(async move {
            books.try_to_settle(&place, attempt, &event).await;
            books.metrics.unsettled(-1);
            if let (Some(unsettled), Some(kept)) = (&books.unsettled, kept) {
                unsettled.forget(kept).await;
            }
        });
    }

    async fn keep_for_later(&self, place: &Place, attempt: Number, event: &Event) -> Option<PathBuf> {
        let (Some(unsettled), Place::Claim { key, .. }) = (&self.unsettled, place) else { return None };
        unsettled.keep(key, attempt, event).await.unwrap_or_else(|error| {
            tracing::error!(%error, "an outcome can neither be stored nor kept on this node's disk; its caller hears it");
            None
        })
    }

    /// Until it is done.
    pub async fn try_to_settle(&self, place: &Place, attempt: Number, event: &Event) {
        let mut pause = FIRST_PAUSE;
        while let Err(fault) = self.settle_once(place, attempt, event).await {
            self.told_of(&fault);
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    async fn settle_once(&self, place: &Place, attempt: Number, event: &Event) -> Result<(), StoreFault> {
        let (key, mut claim, mut version, mut at) = match place {
            Place::Claim { key, claim, at } => (key, claim.as_ref().clone(), attempt, *at),
            Place::Unclaimed { environment, entry, booked } => {
                let commit = claim::settle_unclaimed(*environment, entry.clone(), attempt, booked, event, &self.node);
                return self.commit(commit).await.map(|_| ());
            }
        };
        for _ in 0..TRIES {
            let by_path = Naming::of(key) == Naming::Path && claim.hold.is_none();
            let here = Standpoint { key, version, at, claim: &claim };
            let commit = match claim::settle(here, attempt, event.clone(), &self.node, &self.terms) {
                Ok((mut commit, Next::Held)) => {
                    let Some(steps) = self.approved_again(key.environment, &claim).await? else {
                        // Nothing is left of what it waited under: it is as if it never had.
                        claim.hold = None;
                        continue;
                    };
                    commit.steps.extend(steps);
                    commit
                }
                Ok((commit, _)) => commit,
                Err(Moved) => return self.late(key, attempt, event).await,
            };
            match self.commit(commit).await? {
                Some(_) => {
                    self.metrics.claim_settled(key.environment.as_str(), event.as_str());
                    return Ok(());
                }
                None => match self.find(key).await? {
                    found if claim::is_settled(as_found(found.as_ref()), attempt, event, by_path) => return Ok(()),
                    Some((record, found)) => (claim, version, at) = (found, record.version, record.at),
                    None => return self.late(key, attempt, event).await,
                },
            }
        }
        Err(StoreFault::Away("the record changed again and again".to_owned()))
    }

    /// A claim and its record; `None` if there is none, or nothing of it is kept.
    pub async fn find(&self, key: &RecordKey) -> Result<Option<(Record, Claim)>, StoreFault> {
        let (record, _) = self.store.read(key).await?;
        let Some(record) = record else { return Ok(None) };
        let Content::Whole(bytes) = &record.content else { return Ok(None) };
        let claim = claim::read(bytes).map_err(|unreadable| self.unreadable(&unreadable))?;
        Ok(Some((record, claim)))
    }

    /// Commits, and sends the Entry on its way to the disk. `None`: a guard did not hold.
    pub async fn commit(&self, commit: Commit) -> Result<Option<Committed>, StoreFault> {
        match self.try_commit(commit).await {
            Ok(committed) => Ok(Some(committed)),
            Err(CommitError::Stood { .. }) => Ok(None),
            Err(CommitError::Fault(fault)) => Err(fault),
        }
    }

    /// The same, and says what stood in the way.
    pub(super) async fn try_commit(&self, commit: Commit) -> Result<Committed, CommitError> {
        let (environment, entry) = (commit.environment, commit.entry.clone());
        let committed = self.to_store(commit).await?;
        self.heard.time(committed.at, self.clock.elapsed());
        let outstanding = self.outstanding(committed, environment, entry);
        // What finds no room stays in the outbox, where it is found again.
        self.drain.try_send(Drained::Waiting(outstanding)).ok();
        Ok(committed)
    }

    /// Whatever happens goes to the store through here, with what is told of it behind its own steps.
    async fn to_store(&self, mut commit: Commit) -> Result<Committed, CommitError> {
        let told = self.outlets.filed(&commit, &self.metrics);
        let has_news = !told.is_empty();
        commit.steps.extend(told);
        let committed = self.store.commit(commit).await?;
        if has_news {
            self.outlets.has_news();
        }
        Ok(committed)
    }

    pub fn told_of(&self, fault: &StoreFault) {
        tracing::warn!(%fault, "the store failed");
    }

    /// A record that this version cannot read.
    pub(super) fn unreadable(&self, why: &impl std::fmt::Display) -> StoreFault {
        self.metrics.record_unreadable();
        StoreFault::Broken(why.to_string())
    }

    /// Brings the Entry of a commit to disk.
    async fn record(&self, committed: Committed, environment: Environment, entry: Bytes) -> Result<(), AuditFault> {
        let since = Stopwatch::start();
        self.audit.append(vec![self.outstanding(committed, environment, entry)]).await?;
        self.metrics.recorded(since.elapsed());
        self.drain.try_send(Drained::OnDisk(environment, committed.number)).ok();
        Ok(())
    }

    fn outstanding(&self, committed: Committed, environment: Environment, entry: Bytes) -> Outstanding {
        let Committed { number, at } = committed;
        Outstanding { environment, number, at, node: self.node.clone(), entry }
    }

    /// Where nothing can be begun: what is said before that.
    async fn claimed_already(&self, named: &Named) -> Option<NotBegun> {
        let key = &named.key;
        match self.store.read(key).await {
            Ok((Some(record), now)) => return Some(NotBegun::Claimed(record, now)),
            Ok((None, _)) => {}
            Err(_) => return Some(NotBegun::StoreAway),
        }
        // What the store does not know, it may have forgotten.
        match self.store.read(&Freeze::Restored.key(key.environment)).await {
            Ok((restored, _)) => restored.map(|_| NotBegun::Forgotten),
            Err(_) => Some(NotBegun::StoreAway),
        }
    }

    /// An answer for an attempt whose claim has moved on changes nothing, and is told.
    pub async fn late(&self, key: &RecordKey, attempt: Number, event: &Event) -> Result<(), StoreFault> {
        tracing::error!(
            attempt = attempt.as_u64(),
            event = event.as_str(),
            "an answer came for a claim that has moved on"
        );
        self.commit(claim::late(key, attempt, event, &self.node)).await?;
        self.metrics.claim_settled(key.environment.as_str(), "late");
        Ok(())
    }

    /// The store did not say whether it made the claim, and nothing will be sent: if it did, it is undone.
    fn abandon(self: &Arc<Self>, beginning: &Beginning, nonce: claim::Nonce) {
        let Some((key, claim)) = beginning.claim.clone() else { return };
        let books = self.clone();
        self.settling.spawn(async move {
            let until = books.clock.elapsed().saturating_add(books.terms.lease);
            let mut pause = FIRST_PAUSE;
            while books.clock.elapsed() < until {
                if let Ok(Some((record, found))) = books.find(&key).await {
                    if let Some(begun) = claim::begun_after_all(&record, &found, &nonce) {
                        let place = Place::Claim { key, claim: Box::new(claim), at: record.at };
                        books.settle(&place, begun.attempt(), Event::Undone).await;
                    }
                    return;
                }
                // The next start takes up what is left.
                if *books.stopping.borrow() {
                    return;
                }
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = books.stopped() => {}
                }
                pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            }
        });
    }

    /// When this node is to end.
    pub async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        if stopping.wait_for(|stopping| *stopping).await.is_err() {
            std::future::pending().await
        }
    }
}

impl Place {
    pub fn environment(&self) -> Environment {
        match self {
            Place::Claim { key, .. } => key.environment,
            Place::Unclaimed { environment, .. } => *environment,
        }
    }
}

pub(super) fn stood(standing: Standing, at: StoreTime) -> NotBegun {
    match standing {
        Standing::Claimed(record) => NotBegun::Claimed(record, at),
        Standing::Frozen => NotBegun::Frozen,
        Standing::Forgotten => NotBegun::Forgotten,
        Standing::Otherwise(learnt) => NotBegun::Otherwise(learnt),
        Standing::Moved => NotBegun::Moved,
        Standing::Puzzling => {
            tracing::error!("the store refused, and did not say why");
            NotBegun::StoreAway
        }
    }
}

fn as_found(found: Option<&(Record, Claim)>) -> Option<(Number, &Claim)> {
    found.map(|(record, claim)| (record.version, claim))
}

fn place(beginning: Beginning, at: StoreTime) -> Place {
    let environment = beginning.commit.environment;
    match beginning.claim {
        Some((key, claim)) => Place::Claim { key, claim: Box::new(claim), at },
        None => Place::Unclaimed { environment, entry: beginning.entry, booked: beginning.booked },
    }
}
