//! Stores the outcomes of attempts: soon, late, after a restart, and against what was said of them meanwhile.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Node;
use super::retry::Retry;
use crate::base::ids::Environment;
use crate::ledger::{Commit, Content, Number, Receipt, Record, RecordKey, Step, StoreFault, StoreTime, Versioned};
use crate::stations::claim::{
    self, AttemptEnd, Claim, ClaimEvent, ClaimState, Executions, KeyNaming, NextState, Settled, Settlement,
    SettlementPlace, StoredAnswer, Superseded,
};
use crate::stations::hold;

/// How long the caller waits for its outcome to be stored; after that it hears the outcome all the same.
const SETTLE_PATIENCE: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// After so many refusals in a row, the store will not take an outcome from this process.
const MAX_REFUSALS: u32 = 5;

/// The record of a claim.
enum StoredClaim {
    Nothing,
    Spent,
    Whole(Record, Box<Claim>),
}

impl Node {
    /// Stores the outcome of an attempt. An outcome that cannot be stored soon is kept on this node's disk, and stored
    /// as soon as possible. One that the store refuses stays there for the next start.
    pub async fn settle(self: &Arc<Self>, settlement: &Settlement, event: ClaimEvent) {
        let open = self.open.open(settlement.environment(), settlement.attempt);
        let settling = self.try_to_settle(settlement, &event);
        let refused = match tokio::time::timeout(SETTLE_PATIENCE, settling).await {
            Ok(Ok(())) => return,
            Ok(Err(refused)) => Some(refused),
            Err(_) => None,
        };
        let kept = self.keep_for_later(settlement, &event).await;
        self.metrics.unsettled(1);
        if let Some(refused) = refused {
            return self.leave_unsettled(settlement, &event, &refused);
        }
        let (node, settlement) = (self.clone(), settlement.clone());
        self.settling.spawn(async move {
            match node.try_to_settle(&settlement, &event).await {
                Ok(()) => {
                    node.metrics.unsettled(-1);
                    if let (Some(unsettled), Some(kept)) = (&node.unsettled, kept) {
                        unsettled.forget(kept).await;
                    }
                }
                Err(refused) => node.leave_unsettled(&settlement, &event, &refused),
            }
            drop(open);
        });
    }

    /// Gives up an outcome that the store refuses. Its file stays, and the next start of this gate tries again.
    fn leave_unsettled(&self, settlement: &Settlement, event: &ClaimEvent, refused: &StoreFault) {
        let (environment, attempt) = (settlement.environment(), settlement.attempt);
        if event.end() == Some(AttemptEnd::Executed) {
            // Until it is stored, people must not say that the call was not executed.
            self.open.keep_open(environment, attempt);
        }
        tracing::error!(
            %environment,
            attempt = attempt.as_u64(),
            event = event.as_str(),
            fault = %refused,
            "the store refuses the outcome of a call; what is kept of it stays in the folder `unsettled`: find out why, then \
             start this gate again"
        );
    }

    async fn keep_for_later(&self, settlement: &Settlement, event: &ClaimEvent) -> Option<PathBuf> {
        let Settlement { attempt, place } = settlement;
        let (Some(unsettled), SettlementPlace::Claim { key, claim, at }) = (&self.unsettled, place) else {
            return None;
        };
        unsettled.keep(key, (*attempt, claim, *at), event).await.unwrap_or_else(|error| {
            tracing::error!(%error, "an outcome can be stored neither in the store nor on this node's disk; its caller still gets it");
            None
        })
    }

    /// Tries until the outcome is stored, or the store refuses it: this gate is gone, or the claim cannot be read.
    pub(super) async fn try_to_settle(&self, settlement: &Settlement, event: &ClaimEvent) -> Result<(), StoreFault> {
        let (mut pause, mut refusals) = (FIRST_PAUSE, 0_u32);
        while let Err(fault) = self.settle_once(settlement, event).await {
            refusals = if matches!(fault, StoreFault::Broken(_)) { refusals.saturating_add(1) } else { 0 };
            if refusals >= MAX_REFUSALS {
                return Err(fault);
            }
            self.told_of(&fault);
            tokio::time::sleep(pause).await;
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
        Ok(())
    }

    /// Stores the outcome, or fails with the store.
    pub(super) async fn settle_once(&self, settlement: &Settlement, event: &ClaimEvent) -> Result<(), StoreFault> {
        let attempt = settlement.attempt;
        let (key, sent, sent_at) = match &settlement.place {
            SettlementPlace::Claim { key, claim, at } => (key, claim.as_ref(), *at),
            SettlementPlace::Unclaimed { environment, entry, booked } => {
                let commit = claim::settle_unclaimed(*environment, entry.clone(), attempt, booked, event, &self.id);
                return self.commit_event(commit, event).await.map(|_| ());
            }
        };
        let (mut claim, mut version, mut at) = (Cow::Borrowed(sent), attempt, sent_at);
        let by_path = KeyNaming::of(key) == KeyNaming::Path && claim.hold.is_none();
        let mut retry = Retry::default();
        loop {
            let here = Versioned { key, version, at, value: &*claim };
            let (commit, settled) = match claim::settle(here, attempt, event.clone(), &self.id, &self.terms) {
                Ok((mut commit, settled)) => {
                    match (&settled, &claim.state) {
                        (Settled::Moved(NextState::Held), _) => {
                            let Some(steps) = self.approved_again(key.environment, &claim).await? else {
                                // The hold was removed: the claim goes on as if it never had one.
                                claim.to_mut().hold = None;
                                retry.conflict().await?;
                                continue;
                            };
                            commit.steps.extend(steps);
                        }
                        (Settled::ProvedLate(_), ClaimState::Held) => {
                            commit.steps.extend(self.overtaken(key.environment, &claim).await?);
                        }
                        _ => {}
                    }
                    (commit, settled)
                }
                Err(Superseded) => match self.unlisted(here, (attempt, sent, sent_at), event) {
                    Some(proved) => proved,
                    None => return self.late(key, attempt, event).await,
                },
            };
            if let Some(receipt) = self.commit_event(commit, event).await? {
                self.fresh.add(key.environment, receipt.number(), settlement, event);
                self.tell_settled(key.environment, attempt, event, &settled);
                return Ok(());
            }
            match self.stored_claim(key).await? {
                StoredClaim::Whole(record, found) => {
                    if claim::is_settled(Some((record.version, &found)), attempt, event, by_path) {
                        // An earlier try stored it, perhaps in a Redis whose replicas lack it.
                        self.outlives_store(key.environment).await?;
                        self.fresh.add(key.environment, record.version, settlement, event);
                        return Ok(());
                    }
                    (claim, version, at) = (Cow::Owned(*found), record.version, record.at);
                }
                StoredClaim::Nothing if claim::is_settled(None, attempt, event, by_path) => {
                    return self.outlives_store(key.environment).await;
                }
                StoredClaim::Nothing => match event {
                    ClaimEvent::Executed(answer) | ClaimEvent::Found(answer) => {
                        if self.restore(key, (attempt, sent, sent_at), answer).await? {
                            return Ok(());
                        }
                    }
                    _ => return self.late(key, attempt, event).await,
                },
                StoredClaim::Spent => return self.late(key, attempt, event).await,
            }
            retry.conflict().await?;
        }
    }

    /// Settles an earlier attempt of a claim, of which a proof was found, together with these steps. Returns `false` where the
    /// claim has changed meanwhile.
    pub async fn prove_with(
        &self,
        key: &RecordKey,
        attempt: Number,
        (record, claim): (&Record, Claim),
        answer: StoredAnswer,
        steps: Vec<Step>,
    ) -> Result<bool, StoreFault> {
        let event = ClaimEvent::Found(answer);
        let here = Versioned { key, version: record.version, at: record.at, value: &claim };
        let Ok((mut commit, settled)) = claim::settle(here, attempt, event.clone(), &self.id, &self.terms) else {
            return Ok(false);
        };
        commit.steps.extend(steps);
        let Some(receipt) = self.commit_event(commit, &event).await? else { return Ok(false) };
        let settlement = Settlement::of_claim(key.clone(), attempt, record, claim);
        self.fresh.add(key.environment, receipt.number(), &settlement, &event);
        self.tell_settled(key.environment, attempt, &event, &settled);
        Ok(true)
    }

    /// Waits until what the store has cannot be undone by its crash or a failover.
    async fn outlives_store(&self, environment: Environment) -> Result<(), StoreFault> {
        if self.store.leans_on_journal() { self.store.flush().await } else { self.store.is_durable(environment).await }
    }

    /// Returns the commit for a proof of an attempt that the claim does not list.
    fn unlisted(
        &self,
        here: Versioned<'_, Claim>,
        sent: (Number, &Claim, StoreTime),
        event: &ClaimEvent,
    ) -> Option<(Commit, Settled)> {
        let (ClaimEvent::Executed(answer) | ClaimEvent::Found(answer)) = event else { return None };
        let proved = claim::prove_unlisted(here, sent, answer.clone(), &self.id, &self.terms);
        proved.map(|(commit, executions)| (commit, Settled::ProvedLate(executions)))
    }

    /// Makes a claim again that the store lost, from the proof that it was executed. Returns `false` where there is a
    /// claim after all.
    async fn restore(
        &self,
        key: &RecordKey,
        sent: (Number, &Claim, StoreTime),
        answer: &StoredAnswer,
    ) -> Result<bool, StoreFault> {
        let event = ClaimEvent::Executed(answer.clone());
        let commit = claim::restore_executed(key, sent, answer.clone(), &self.id, &self.terms);
        let is_done = self.commit_event(commit, &event).await?.is_some();
        if is_done {
            tracing::error!(
                attempt = sent.0.as_u64(),
                "the store had lost the claim of an executed call; it has the claim again: find out what else the store lost"
            );
            self.metrics.claim_settled(key.environment.as_str(), "restored");
        }
        Ok(is_done)
    }

    fn tell_settled(&self, environment: Environment, attempt: Number, event: &ClaimEvent, settled: &Settled) {
        let attempt = attempt.as_u64();
        match settled {
            Settled::Moved(_) => self.metrics.claim_settled(environment.as_str(), event.as_str()),
            Settled::Ended => self.metrics.claim_settled(environment.as_str(), "late"),
            Settled::ProvedLate(executions) => {
                self.metrics.claim_settled(environment.as_str(), "proved-late");
                match executions {
                    Executions::AtMostOnce => tracing::error!(
                        attempt,
                        "a call was executed of which people or an answer had said otherwise: its claim is executed, and its \
                         amount counts in its limits"
                    ),
                    Executions::PerhapsTwice | Executions::Twice => {
                        self.metrics.paid_twice(environment.as_str(), executions.as_str());
                        tracing::error!(
                            attempt,
                            executions = executions.as_str(),
                            "a call was executed, and so was a later attempt of it, or may have been: look up both in upstream's \
                             records and call one back"
                        );
                    }
                }
            }
        }
    }

    /// Returns the steps that end a hold whose call turns out to be executed by an earlier attempt.
    pub(super) async fn overtaken(&self, environment: Environment, claim: &Claim) -> Result<Vec<Step>, StoreFault> {
        let Some(id) = &claim.hold else { return Ok(Vec::new()) };
        let key = super::holds::key(environment, id);
        let Some((record, hold)) = self.find_hold(&key).await? else { return Ok(Vec::new()) };
        let here = Versioned { key: &key, version: record.version, at: record.at, value: &hold };
        Ok(hold::overtaken(here, &self.terms))
    }

    async fn stored_claim(&self, key: &RecordKey) -> Result<StoredClaim, StoreFault> {
        let (record, _) = self.store.read(key).await?;
        let Some(record) = record else { return Ok(StoredClaim::Nothing) };
        let Content::Whole(bytes) = &record.content else { return Ok(StoredClaim::Spent) };
        let claim = claim::decode_claim(bytes).map_err(|unreadable| self.unreadable(&unreadable))?;
        Ok(StoredClaim::Whole(record, Box::new(claim)))
    }

    /// Commits what an event does. The store takes a proof of execution even from a gate that was declared gone.
    async fn commit_event(&self, commit: Commit, event: &ClaimEvent) -> Result<Option<Receipt>, StoreFault> {
        match event {
            ClaimEvent::Executed(_) | ClaimEvent::Found(_) => self.commit_proof(commit).await,
            ClaimEvent::Refused(_)
            | ClaimEvent::Undone { .. }
            | ClaimEvent::Doubted(_)
            | ClaimEvent::ShownAbsent { .. }
            | ClaimEvent::Abandoned { .. } => self.commit(commit).await,
        }
    }

    /// Records an answer for an attempt whose claim has moved on; the claim stays as it is.
    pub async fn late(&self, key: &RecordKey, attempt: Number, event: &ClaimEvent) -> Result<(), StoreFault> {
        tracing::error!(
            attempt = attempt.as_u64(),
            event = event.as_str(),
            "a late answer came for a claim that has moved on"
        );
        self.commit_event(claim::late(key, attempt, event, &self.id), event).await?;
        self.metrics.claim_settled(key.environment.as_str(), "late");
        Ok(())
    }
}
