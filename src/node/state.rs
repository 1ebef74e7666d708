//! The parts of one node: the store that all nodes share, and the audit log that is this node's own.
//!
//! Every change of a claim passes here: one commit in the store, and its audit entry on disk.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify, watch};
use tokio_util::task::TaskTracker;

use super::Exchange;
use super::activations::Activations;
use super::clock_watch::ClockWatch;
use super::contradictions::Contradictions;
use super::entry_room::JournalRoom;
use super::fact_cache::FactCache;
use super::fresh_outcomes::FreshOutcomes;
use super::gates::OtherGates;
use super::hold_changes::HoldChanges;
use super::losses::StoreLosses;
use super::not_begun::{NotBegun, Withdrawn, not_begun};
use super::open_attempts::{OpenAttempt, OpenAttempts};
use super::outlets::Outlets;
use super::store_watch::StoreWatch;
use crate::adapters::clock::Stopwatch;
use crate::adapters::random::nonce;
use crate::adapters::redis::Fence;
use crate::adapters::unsettled_outcomes::Unsettled;
use crate::audit::OnDisk;
use crate::base::ids::Environment;
use crate::base::keyed::OperandKey;
use crate::ledger::{
    Commit, CommitError, Content, JournalId, NodeId, Outstanding, Receipt, Record, RecordKey, Step, StoreFault,
    StoreTime,
};
use crate::people::joint_act::waiting_people;
use crate::ports::{AuditFault, AuditSink, Clock, Store};
use crate::stations::check::{CallName, Intent, RequestIdPrefixes};
use crate::stations::claim::{
    self, AttemptSource, BeginConflict, Claim, ClaimEvent, ClaimStatus, DoubtfulCommit, Freeze, Lease, Owner, Proposer,
    Recorded, Settlement, Terms, gone_key,
};
use crate::stations::decide::Allowed;
use crate::stations::hold::{HoldRoom, Owners};
use crate::telemetry::{Metrics, Station};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// One node, as the journeys and the console use it.
#[derive(Clone, Debug)]
pub struct Node {
    pub store: Arc<dyn Store>,
    pub audit: Arc<dyn AuditSink>,
    pub clock: Arc<dyn Clock>,
    pub id: NodeId,
    /// The identity of this node's journal: its audit log, and the outcomes that wait on its disk.
    pub journal: JournalId,
    /// The attempts that this process still works on.
    pub open: OpenAttempts,
    /// The other gates, as this one last heard them.
    pub others: Arc<OtherGates>,
    pub terms: Terms,
    /// The room for the open holds of an environment.
    pub hold_room: HoldRoom,
    /// The room for audit entries.
    pub entries: Arc<JournalRoom>,
    /// Beginnings of requestIds that belong to one caller.
    pub prefixes: Arc<RequestIdPrefixes>,
    /// The files of outcomes that could not be written to the store.
    pub unsettled: Option<Unsettled>,
    pub metrics: Metrics,
    /// The last finding of the watch of the store.
    pub watched: Arc<StoreWatch>,
    /// Facts from the store.
    pub heard: Arc<FactCache>,
    /// The key for personal operands of decisions.
    pub operand_key: OperandKey,
    /// Tasks that still store outcomes after their callers were answered; an orderly end waits for them.
    pub settling: TaskTracker,
    /// Becomes true when this node is to end, so that nobody waits longer than needed.
    pub stopping: watch::Receiver<bool>,
    /// Wakes those that wait for a change of a hold.
    pub changes: HoldChanges,
    /// The configured owners of services, who must not vote on their requests.
    pub owners: Arc<Owners>,
    /// The outlets for notices.
    pub outlets: Arc<Outlets>,
    /// Outcomes that are not on disk yet.
    pub fresh: Arc<FreshOutcomes>,
    /// The commits of the store that contradict the journal.
    pub contradictions: Arc<Contradictions>,
    /// The fence against a split of the Redis.
    pub fence: Arc<Fence>,
    /// The node's knowledge of clocks.
    pub clocks: Arc<ClockWatch>,
    /// The losses of the store's memory.
    pub losses: Arc<StoreLosses>,
    /// Wakes the worker that brings entries to disk.
    pub news: Arc<Notify>,
    /// The sets in force, as the store names them.
    pub activations: Arc<Activations>,
    /// Held while frozen callers are counted and one more is frozen.
    pub freezing: Arc<Mutex<()>>,
}

/// An attempt that may be sent, and the place where its outcome is written.
#[derive(Debug)]
pub struct Attempt {
    pub recorded: Recorded,
    pub settlement: Settlement,
    /// To be held until no answer can come any more.
    pub open: OpenAttempt,
}

impl Node {
    /// Commits an attempt to the store, then brings its entry to disk; only then may anything be sent.
    pub async fn begin(
        self: &Arc<Self>,
        allowed: Allowed,
        exchange: &Exchange,
        from: AttemptSource<'_>,
    ) -> Result<Attempt, Withdrawn> {
        // Of any other source, the claim is known.
        let may_be_claimed = matches!(from, AttemptSource::Nothing);
        if let Some(why) = self.journal_stop(allowed.intent().environment()) {
            return Err(self.withdrawn(allowed.into_intent(), may_be_claimed, why).await);
        }
        if let Some(why) = self.stop_by_clocks(allowed.intent()).await {
            return Err(self.withdrawn(allowed.into_intent(), may_be_claimed, why).await);
        }
        let open_for = match self.fence.open_at(allowed.intent().environment(), self.clock.elapsed()) {
            Ok(open_for) => open_for,
            Err(stop) => {
                self.told_of(&StoreFault::Away(stop.text().to_owned()));
                let claimed = self.claimed_already(&allowed.intent().name(), may_be_claimed).await;
                let why = claimed.unwrap_or(NotBegun::StoreAway);
                return Err(Withdrawn { why, intent: Some(allowed.into_intent()) });
            }
        };
        let environment = allowed.intent().environment();
        let Some(guard) = self.activations.guard(environment, &allowed.grounds().policy) else {
            return Err(self.withdrawn(allowed.into_intent(), may_be_claimed, NotBegun::OtherSet).await);
        };
        let version = allowed.grounds().policy.clone();
        let lease = Lease::starting(self.clock.elapsed(), self.terms.begin_within.min(open_for));
        let nonce = nonce();
        let trace = &exchange.id;
        let (sender, terms) = (self.sender(), &self.terms);
        let by = Proposer { sender: &sender, nonce: &nonce, trace, terms, operand_key: &self.operand_key };
        let proposal = claim::propose(allowed, &by, lease, from);
        let mut commit = proposal.commit().clone();
        // The guard stands behind the call's own steps: an existing claim is told first.
        let own = commit.steps.len();
        let (guarded, is_first) = (own..own.saturating_add(guard.steps.len()), guard.is_first);
        commit.steps.extend(guard.steps);
        let committing = exchange.spans.enter(Station::Commit);
        let losses = self.losses.count(commit.environment);
        let guard = Step::Absent(gone_key(commit.environment, &sender));
        let committed = self.to_store(commit, &[guard]).await;
        drop(committing);
        let receipt = match committed {
            Ok(receipt) => receipt,
            Err(CommitError::Rejected { at, conflicts }) => {
                let is_other_set = conflicts.iter().any(|conflict| guarded.contains(&conflict.step));
                let why = match claim::standing(proposal.commit(), at, conflicts) {
                    BeginConflict::StaleFacts(_) | BeginConflict::Inconsistent if is_other_set => NotBegun::OtherSet,
                    standing => not_begun(standing, at),
                };
                return Err(Withdrawn { why, intent: Some(proposal.refused()) });
            }
            Err(CommitError::Fault(fault)) => {
                self.told_of(&fault);
                if matches!(fault, StoreFault::InDoubt(_)) {
                    if let Some(doubtful) = proposal.in_doubt() {
                        self.abandon(doubtful);
                    }
                    return Err(Withdrawn { why: NotBegun::StoreAway, intent: None });
                }
                // A store whose disk is full cannot be written, but can be read.
                let claimed = self.claimed_already(&proposal.intent().name(), may_be_claimed).await;
                let why = claimed.unwrap_or(NotBegun::StoreAway);
                return Err(Withdrawn { why, intent: Some(proposal.refused()) });
            }
        };
        if is_first {
            self.activations.began(environment, &version, receipt.number());
        }
        self.heard.time(receipt.at(), self.clock.elapsed());
        let (committed, settlement) = proposal.committed(&receipt);
        let open = self.open.open(settlement.environment(), settlement.attempt);
        let recording = exchange.spans.enter(Station::Record);
        let on_disk = self.record(&receipt, settlement.environment(), losses).await;
        drop(recording);
        let fault = match on_disk {
            Ok(_) if self.losses.count(settlement.environment()) != losses => lost_meanwhile(),
            Ok(_) if self.is_doubted(settlement.environment()) => lost_meanwhile(),
            Ok(on_disk) => match committed.recorded(&on_disk) {
                Some(recorded) => return Ok(Attempt { recorded, settlement, open }),
                None => AuditFault::Refused("the audit log answered for another entry".to_owned()),
            },
            Err(fault) => fault,
        };
        let why = match &fault {
            AuditFault::Contradicted { number, why } => {
                self.contradicted(settlement.environment(), Some(*number), why);
                NotBegun::StoreAway
            }
            AuditFault::Store(_) => NotBegun::StoreAway,
            // A number that the journal has already: the store was set back.
            AuditFault::Refused(why) => {
                self.contradicted(settlement.environment(), Some(settlement.attempt), why);
                NotBegun::AuditAway
            }
            AuditFault::Disk(_) => NotBegun::AuditAway,
        };
        tracing::error!(%fault, "nothing was sent: its audit entry is not on disk, or contradicts the journal");
        self.settle(&settlement, ClaimEvent::Undone { status: None }).await;
        Err(Withdrawn { why, intent: None })
    }

    /// Gives a decision up for a reason other than its claim. An existing claim is told first.
    pub async fn withdrawn(&self, intent: Intent, may_be_claimed: bool, otherwise: NotBegun) -> Withdrawn {
        let claimed = self.claimed_already(&intent.name(), may_be_claimed).await;
        Withdrawn { why: claimed.unwrap_or(otherwise), intent: Some(intent) }
    }

    /// Returns the status of the claim of this name for its asker; `None` where there is no claim.
    pub async fn claim_status(&self, named: &CallName, asker: &Owner) -> Result<Option<ClaimStatus>, StoreFault> {
        let (record, now) = self.store.read(&named.key).await.inspect_err(|fault| self.told_of(fault))?;
        let Some(record) = record else { return Ok(None) };
        self.claim_status_of(&record, named, asker, now).await.map(Some)
    }

    /// Returns the status by a record at hand, once that outlives a crash: nobody is told what might be forgotten again.
    pub async fn claim_status_of(
        &self,
        record: &Record,
        named: &CallName,
        asker: &Owner,
        now: StoreTime,
    ) -> Result<ClaimStatus, StoreFault> {
        if self.store.leans_on_journal() && self.audit.highest(named.key.environment) < record.version {
            self.store.flush().await.inspect_err(|fault| self.told_of(fault))?;
        }
        let status = claim::status_for(record, asker, named.fingerprint, now).map_err(|unreadable| {
            let fault = self.unreadable(&unreadable);
            self.told_of(&fault);
            fault
        })?;
        Ok(match status {
            // Somebody has shown that it was executed after all.
            ClaimStatus::Absent(_) if !self.said_executed(&named.key).await?.is_empty() => ClaimStatus::InDoubt,
            status => status,
        })
    }

    /// Returns who showed that a call was executed, while a second person must show the same.
    pub async fn said_executed(&self, key: &RecordKey) -> Result<Vec<Owner>, StoreFault> {
        let (words, now) = self.store.read(&claim::executed_key(key)).await?;
        Ok(waiting_people(words.as_ref(), now))
    }

    /// Reads a claim and its record; `None` where there is none, or only its tombstone.
    pub async fn find(&self, key: &RecordKey) -> Result<Option<(Record, Claim)>, StoreFault> {
        let (record, _) = self.store.read(key).await?;
        let Some(record) = record else { return Ok(None) };
        let Content::Whole(bytes) = &record.content else { return Ok(None) };
        let claim = claim::decode_claim(bytes).map_err(|unreadable| self.unreadable(&unreadable))?;
        Ok(Some((record, claim)))
    }

    /// Commits, and sends the entry on its way to disk. Returns `None` where a guard did not hold.
    pub async fn commit(&self, commit: Commit) -> Result<Option<Receipt>, StoreFault> {
        match self.try_commit(commit).await {
            Ok(committed) => Ok(Some(committed)),
            Err(CommitError::Rejected { .. }) => Ok(None),
            Err(CommitError::Fault(fault)) => Err(fault),
        }
    }

    /// Commits a proof that a call was executed: no gate is too late for that.
    pub(super) async fn commit_proof(&self, commit: Commit) -> Result<Option<Receipt>, StoreFault> {
        match self.commit_noticed(commit, &[]).await {
            Ok(committed) => Ok(Some(committed)),
            Err(CommitError::Rejected { .. }) => Ok(None),
            Err(CommitError::Fault(fault)) => Err(fault),
        }
    }

    /// Commits, and returns the conflicts where a guard did not hold.
    pub(super) async fn try_commit(&self, commit: Commit) -> Result<Receipt, CommitError> {
        let here = gone_key(commit.environment, &self.sender());
        self.commit_noticed(commit, &[Step::Absent(here)]).await
    }

    async fn commit_noticed(&self, commit: Commit, guards: &[Step]) -> Result<Receipt, CommitError> {
        let environment = commit.environment;
        let losses = self.losses.count(environment);
        let committed = self.to_store(commit, guards).await?;
        self.heard.time(committed.at(), self.clock.elapsed());
        let (node, outstanding, number) = (self.clone(), self.outstanding(&committed, environment), committed.number());
        // A store that loses its memory soon loses what is on no disk.
        let bringing = tokio::spawn(async move {
            if node.losses.count(environment) != losses {
                return false;
            }
            let appended = node.audit.append(vec![outstanding]).await;
            match &appended {
                Ok(_on_disk) => {}
                Err(AuditFault::Contradicted { number, why }) => node.contradicted(environment, Some(*number), why),
                Err(AuditFault::Refused(why)) => node.contradicted(environment, Some(number), why),
                Err(fault) => tracing::debug!(%fault, "an entry comes to disk later"),
            }
            node.news.notify_one();
            appended.is_ok()
        });
        // Nobody waits for it, unless the store does not keep what it confirmed by itself.
        if self.store.leans_on_journal() && !bringing.await.unwrap_or(false) {
            let flushed = self.store.flush().await;
            flushed.map_err(|fault| CommitError::Fault(StoreFault::InDoubt(fault.to_string())))?;
        }
        Ok(committed)
    }

    /// Sends every commit to the store, with the notices of its event and the guards of this gate behind its own steps.
    async fn to_store(&self, mut commit: Commit, guards: &[Step]) -> Result<Receipt, CommitError> {
        let told = self.outlets.filed(&commit, &self.metrics);
        let has_news = !told.is_empty();
        commit.steps.extend(told);
        let own = commit.steps.len();
        commit.steps.extend_from_slice(guards);
        let committed = self.store.commit_for_journal(commit).await.map_err(|error| match error {
            CommitError::Rejected { conflicts, .. } if conflicts.iter().any(|conflict| conflict.step >= own) => {
                CommitError::Fault(StoreFault::Broken(
                    "two people declared this gate and its journal gone: stop it, and start it with a new `audit.folder`"
                        .to_owned(),
                ))
            }
            error => error,
        })?;
        if has_news {
            self.outlets.has_news();
        }
        Ok(committed)
    }

    pub fn told_of(&self, fault: &StoreFault) {
        // This is a refusal, and no fault.
        if matches!(fault, StoreFault::NoRoomForEntry { .. }) {
            return;
        }
        // The watch of the store reports that it is away, once.
        let is_told = matches!(fault, StoreFault::Away(_)) && self.watched.is_away();
        if is_told || !self.watched.reports(fault, self.clock.elapsed()) {
            return tracing::debug!(%fault, "the store failed");
        }
        tracing::warn!(%fault, "the store failed");
    }

    /// Reports a record that this version cannot read.
    pub(super) fn unreadable(&self, why: &impl std::fmt::Display) -> StoreFault {
        self.metrics.record_unreadable();
        StoreFault::Broken(why.to_string())
    }

    /// Brings the entry of a commit to disk.
    async fn record(&self, receipt: &Receipt, environment: Environment, losses: u64) -> Result<OnDisk, AuditFault> {
        if self.losses.count(environment) != losses {
            return Err(lost_meanwhile());
        }
        let since = Stopwatch::start();
        let on_disk = self.audit.append(vec![self.outstanding(receipt, environment)]).await?;
        self.metrics.recorded(since.elapsed());
        self.news.notify_one();
        Ok(on_disk)
    }

    pub(super) fn outstanding(&self, receipt: &Receipt, environment: Environment) -> Outstanding {
        let (number, at, entry) = (receipt.number(), receipt.at(), receipt.entry().clone());
        Outstanding { environment, number, at, node: self.id.clone(), entry }
    }

    /// Returns the conflict to tell first where nothing can begin.
    pub(super) async fn claimed_already(&self, named: &CallName, may_be_claimed: bool) -> Option<NotBegun> {
        if !may_be_claimed {
            return None;
        }
        let key = &named.key;
        match self.store.read(key).await {
            Ok((Some(record), now)) => return Some(NotBegun::Claimed(record, now)),
            Ok((None, _)) => {}
            Err(_) => return Some(NotBegun::StoreAway),
        }
        // A claim that the store does not know may be one that it forgot.
        match self.store.read(&Freeze::Restored.key(key.environment)).await {
            Ok((restored, _)) => restored.map(|_| NotBegun::Forgotten),
            Err(_) => Some(NotBegun::StoreAway),
        }
    }

    /// Undoes a claim that the store may have made without saying so; nothing was sent for it. An orderly stop waits for
    /// it, so that it leaves no doubt.
    fn abandon(self: &Arc<Self>, doubtful: DoubtfulCommit) {
        let node = self.clone();
        self.settling.spawn(async move {
            let until = node.clock.elapsed().saturating_add(node.terms.lease);
            let mut pause = FIRST_PAUSE;
            while node.clock.elapsed() < until {
                if let Ok(Some((record, found))) = node.find(&doubtful.key).await {
                    if let Some(settlement) = doubtful.settlement(&record, &found) {
                        node.settle(&settlement, ClaimEvent::Undone { status: None }).await;
                    }
                    return;
                }
                tokio::time::sleep(pause).await;
                pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
            }
        });
    }

    /// Waits until this node is to end.
    pub async fn stopped(&self) {
        let mut stopping = self.stopping.clone();
        if stopping.wait_for(|stopping| *stopping).await.is_err() {
            std::future::pending().await
        }
    }
}

fn lost_meanwhile() -> AuditFault {
    AuditFault::Store("it lost its memory meanwhile, and may not know the call".to_owned())
}
