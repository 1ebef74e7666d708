//! Holds in the books: beginning to wait, and what its caller hears of it.

use std::sync::Arc;

use http::HeaderMap;
use tokio::sync::watch;

use super::Books;
use super::approve::progress_of;
use super::books::{NotBegun, TRIES};
use crate::adapters::random::hold_id;
use crate::base::ids::{Environment, HoldId, TraceId};
use crate::commit::{CommitError, Content, Index, Kind, Record, RecordKey, Step, StoreFault};
use crate::policy::Policies;
use crate::stations::check::Intent;
use crate::stations::claim::{self, Claim, Decline, Declined, Owner, Standpoint, State};
use crate::stations::decide::Held;
use crate::stations::forward::passed_on;
use crate::stations::hold::{self, Here, Hold, Note};
use crate::stations::reply::{Reply, Waiting, held};

/// Tells whoever waits for it that something happened to a hold on this node.
#[derive(Clone, Debug)]
pub struct Changes(Arc<watch::Sender<u64>>);

impl Default for Changes {
    fn default() -> Changes {
        Changes(Arc::new(watch::Sender::new(0)))
    }
}

impl Changes {
    pub fn happened(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub fn heard(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// Where a hold stands.
pub fn key(environment: Environment, id: &HoldId) -> RecordKey {
    RecordKey { environment, kind: Kind::Hold, name: id.to_string() }
}

impl Books {
    /// Lets a call wait for people.
    pub async fn hold(
        &self,
        intent: &Intent,
        held: &Held,
        policies: &Policies,
        headers: &HeaderMap,
        trace: &TraceId,
    ) -> Result<HoldId, NotBegun> {
        let id = hold_id();
        let by = (&self.node, &self.operand_key);
        let commit = hold::hold(intent, held, &policies.rules, &id, &passed_on(headers), by, trace);
        match self.try_commit(commit.clone()).await {
            Ok(_) => {
                self.changes.happened();
                Ok(id)
            }
            Err(CommitError::Stood { at, obstacles }) => {
                Err(super::books::stood(claim::standing(&commit, at, obstacles), at))
            }
            Err(CommitError::Fault(fault)) => {
                self.told_of(&fault);
                Err(NotBegun::StoreAway)
            }
        }
    }

    /// A hold and its record; `None` if there is none, or nothing of it is kept.
    pub async fn find_hold(&self, key: &RecordKey) -> Result<Option<(Record, Hold)>, StoreFault> {
        let (record, _) = self.store.read(key).await?;
        let Some(record) = record else { return Ok(None) };
        let Content::Whole(bytes) = &record.content else { return Ok(None) };
        let hold = hold::read(bytes).map_err(|unreadable| self.unreadable(&unreadable))?;
        if hold.id.as_str() != key.name {
            return Err(self.unreadable(&hold::UnreadableHold("it is the record of another")));
        }
        Ok(Some((record, hold)))
    }

    /// The claim that a hold is of, as long as it waits.
    pub async fn claim_of(
        &self,
        environment: Environment,
        hold: &Hold,
    ) -> Result<Option<(RecordKey, Record, Claim)>, StoreFault> {
        let key = RecordKey { environment, kind: Kind::Claim, name: hold.claim.clone() };
        let found = self.find(&key).await?;
        let waits = |claim: &Claim| claim.state == State::Held && claim.hold.as_ref() == Some(&hold.id);
        Ok(found.filter(|(_, claim)| waits(claim)).map(|(record, claim)| (key, record, claim)))
    }

    /// What is written of the hold of a call that certainly was not sent; `None` if it is not there any more.
    pub(super) async fn approved_again(
        &self,
        environment: Environment,
        claim: &Claim,
    ) -> Result<Option<Vec<Step>>, StoreFault> {
        let Some(id) = &claim.hold else { return Ok(None) };
        let (key, now) = (key(environment, id), self.store.time().await?);
        let Some((record, hold)) = self.find_hold(&key).await? else { return Ok(None) };
        let here = Here { key: &key, version: record.version, at: record.at, hold: &hold };
        Ok(hold::approve_again(here, now).ok())
    }

    /// It goes no further, for this reason. `false`: something else happened to it meanwhile.
    pub async fn decline(&self, here: Here<'_>, declined: Declined, said: Option<Note>) -> Result<bool, StoreFault> {
        let Some((key, record, claim)) = self.claim_of(here.key.environment, here.hold).await? else {
            return Ok(false);
        };
        let of_claim = Standpoint { key: &key, version: record.version, at: record.at, claim: &claim };
        let how = declined.how;
        let commit = hold::decline(here, of_claim, declined, said, &self.node, &self.terms);
        let is_done = match commit {
            Some(commit) => self.commit(commit).await?.is_some(),
            None => false,
        };
        if is_done {
            self.hold_ended(here, how.as_str());
            self.changes.happened();
        }
        Ok(is_done)
    }

    /// How long it waited is counted, and what ended that.
    pub(super) fn hold_ended(&self, here: Here<'_>, ending: &str) {
        let environment = here.key.environment.as_str();
        let waited = self.about_now().since(here.hold.created(here.at));
        self.metrics.hold(environment, ending);
        self.metrics.hold_ended(environment, ending, waited);
    }

    /// Nothing that waits in an environment goes further: the store may have forgotten that it was rejected, or sent.
    pub async fn forget_holds(&self, environment: Environment) -> Result<(), StoreFault> {
        for (_, name) in self.store.due(environment, Index::Held, None, usize::MAX).await? {
            let Some(id) = HoldId::parse(&name) else { continue };
            let key = key(environment, &id);
            for _ in 0..TRIES {
                let Some((record, hold)) = self.find_hold(&key).await? else { break };
                let here = Here { key: &key, version: record.version, at: record.at, hold: &hold };
                let claim = self.claim_of(environment, &hold).await?;
                let of_claim = claim.as_ref().map(|(key, record, claim)| Standpoint {
                    key,
                    version: record.version,
                    at: record.at,
                    claim,
                });
                let Some(commit) = hold::forget(here, of_claim, &self.node, &self.terms) else { break };
                if self.commit(commit).await?.is_some() {
                    self.hold_ended(here, Decline::Forgotten.as_str());
                    break;
                }
            }
        }
        self.changes.happened();
        Ok(())
    }

    /// What its caller is told of a call that waits; `None` if there is no such hold.
    pub async fn waiting(
        &self,
        key: &RecordKey,
        policies: &Policies,
        as_refusal: bool,
    ) -> Result<Option<Reply>, StoreFault> {
        let Some((record, hold)) = self.find_hold(key).await? else { return Ok(None) };
        let progress = progress_of(self, key.environment, &hold, policies).await?;
        Ok(Some(held(Waiting { hold: &hold, at: record.at, progress: &progress }, as_refusal)))
    }

    /// Its own caller does not want it any more. `None`: it has no such hold.
    pub async fn cancel(self: &Arc<Self>, key: &RecordKey, asker: &Owner) -> Result<Option<Cancelled>, StoreFault> {
        for _ in 0..TRIES {
            let now = self.store.time().await?;
            let Some((record, hold)) = self.find_hold(key).await? else { return Ok(None) };
            if hold.owner() != *asker {
                return Ok(None);
            }
            if !hold.state.is_open() || hold.deadline(record.at) <= now {
                return Ok(Some(Cancelled::TooLate));
            }
            let here = Here { key, version: record.version, at: record.at, hold: &hold };
            let declined = Declined { how: Decline::Cancelled, reason: None };
            if self.decline(here, declined, None).await? {
                return Ok(Some(Cancelled::Now));
            }
        }
        Err(super::operate::changing())
    }
}

/// What came of cancelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    Now,
    /// It is decided, or its time is over.
    TooLate,
}
