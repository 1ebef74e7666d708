//! Holds: how a call begins to wait for people, how it ends, and the answer to its caller.

use std::sync::Arc;

use http::HeaderMap;

use super::Node;
use super::not_begun::{NotBegun, not_begun};
use super::retry::Retry;
use crate::adapters::random::hold_id;
use crate::base::ids::{Environment, HoldId, TraceId};
use crate::ledger::{CommitError, Content, Index, Kind, Record, RecordKey, Step, StoreFault, Versioned};
use crate::policy::Policies;
use crate::stations::claim::{self, BeginConflict, Claim, ClaimState, Decline, Declined, Owner};
use crate::stations::decide::Held;
use crate::stations::forward::passed_on;
use crate::stations::hold::{self, Hold, HoldNote, HoldUse, NoPlace, PlaceConflict};

/// How often the place of a hold is taken anew while other holds are made.
const PLACES: usize = 16;

/// The record key of a hold.
pub fn key(environment: Environment, id: &HoldId) -> RecordKey {
    RecordKey { environment, kind: Kind::Hold, name: id.to_string() }
}

impl Node {
    /// Makes a hold for a call.
    pub async fn hold(
        &self,
        held: &Held,
        policies: &Policies,
        headers: &HeaderMap,
        trace: &TraceId,
        again: Option<Versioned<'_, Claim>>,
    ) -> Result<HoldId, NotBegun> {
        let (id, headers, environment) = (hold_id(), passed_on(headers), held.intent().environment());
        if let Some(why) = self.journal_stop(environment) {
            return Err(self.claimed_already(&held.intent().name(), again.is_none()).await.unwrap_or(why));
        }
        if let Some(claimed) = self.claimed_in_journal(&held.intent().name(), again.is_none()).await {
            return Err(claimed);
        }
        let by = (&self.id, &self.operand_key);
        // The store corrects it.
        let mut used = HoldUse::default();
        for _ in 0..PLACES {
            let room = (self.hold_room, used);
            let commit = hold::hold(held, &policies.rules, &id, &headers, by, trace, again, room);
            let share = match self.entries.share_of_hold(held.intent(), &commit, self.clock.elapsed()) {
                Ok(share) => share,
                Err(why) => {
                    self.metrics.hold(environment.as_str(), "no-room");
                    // An existing claim is told first.
                    let found = self.claimed_already(&held.intent().name(), again.is_none()).await;
                    return Err(found.unwrap_or(why));
                }
            };
            match self.try_commit(commit.clone()).await {
                Ok(_) => {
                    self.entries.keeps(held.intent(), share);
                    self.changes.happened();
                    return Ok(id);
                }
                Err(CommitError::Rejected { at, conflicts }) => {
                    let place = self.hold_room.conflict(&commit, &conflicts, used);
                    match (claim::standing(&commit, at, conflicts), place) {
                        // Whatever else is in the way comes first.
                        (BeginConflict::Inconsistent, Some(PlaceConflict::Stale(now))) => used = now,
                        (BeginConflict::Inconsistent, Some(PlaceConflict::Full(full))) => {
                            return Err(self.no_place(environment, full));
                        }
                        (standing, _) => return Err(not_begun(standing, at)),
                    }
                }
                Err(CommitError::Fault(fault)) => return Err(self.store_away(&fault)),
            }
        }
        Err(self.store_away(&StoreFault::Away("other holds were made again and again meanwhile".to_owned())))
    }

    fn store_away(&self, fault: &StoreFault) -> NotBegun {
        self.told_of(fault);
        NotBegun::StoreAway
    }

    fn no_place(&self, environment: Environment, full: NoPlace) -> NotBegun {
        self.metrics.hold(environment.as_str(), "no-room");
        NotBegun::NoPlaceForHold(full)
    }

    /// Returns how many open holds an environment has, and their bytes.
    pub(super) async fn holds_used(&self, environment: Environment) -> Result<HoldUse, StoreFault> {
        let [(holds, holds_span), (bytes, bytes_span)] = hold::windows_of_environment();
        Ok(HoldUse {
            holds: self.store.used(environment, &holds, holds_span).await?,
            bytes: self.store.used(environment, &bytes, bytes_span).await?,
        })
    }

    /// Reads a hold and its record; `None` where there is none, or only its tombstone.
    pub async fn find_hold(&self, key: &RecordKey) -> Result<Option<(Record, Hold)>, StoreFault> {
        let (record, _) = self.store.read(key).await?;
        let Some(record) = record else { return Ok(None) };
        let Content::Whole(bytes) = &record.content else { return Ok(None) };
        let hold = hold::decode_hold(bytes).map_err(|unreadable| self.unreadable(&unreadable))?;
        if hold.id.as_str() != key.name {
            return Err(self.unreadable(&hold::UnreadableHold("the record belongs to another hold".to_owned())));
        }
        Ok(Some((record, hold)))
    }

    /// Reads the claim of a hold, as long as the claim is held.
    pub async fn claim_of(
        &self,
        environment: Environment,
        hold: &Hold,
    ) -> Result<Option<(RecordKey, Record, Claim)>, StoreFault> {
        let key = RecordKey { environment, kind: Kind::Claim, name: hold.claim.clone() };
        let found = self.find(&key).await?;
        let waits = |claim: &Claim| claim.state == ClaimState::Held && claim.hold.as_ref() == Some(&hold.id);
        Ok(found.filter(|(_, claim)| waits(claim)).map(|(record, claim)| (key, record, claim)))
    }

    /// Returns the steps that approve a hold again whose call was certainly not sent; `None` if the hold was removed.
    pub(super) async fn approved_again(
        &self,
        environment: Environment,
        claim: &Claim,
    ) -> Result<Option<Vec<Step>>, StoreFault> {
        let Some(id) = &claim.hold else { return Ok(None) };
        let (key, now) = (key(environment, id), self.store.time().await?);
        let Some((record, hold)) = self.find_hold(&key).await? else { return Ok(None) };
        let here = Versioned { key: &key, version: record.version, at: record.at, value: &hold };
        Ok(hold::approve_again(here, now).ok())
    }

    /// Ends a hold for this reason. The guards are of what somebody asked for, or of what a decision assumed. Returns `false` where something else happened to it
    /// meanwhile.
    pub async fn decline(
        &self,
        here: Versioned<'_, Hold>,
        declined: Declined,
        said: Option<HoldNote>,
        guards: Vec<Step>,
    ) -> Result<bool, StoreFault> {
        let Some((key, record, claim)) = self.claim_of(here.key.environment, here.value).await? else {
            self.end_orphan(here).await?;
            return Ok(false);
        };
        let of_claim = Versioned { key: &key, version: record.version, at: record.at, value: &claim };
        let how = declined.how;
        let commit = hold::decline(here, of_claim, declined, said, &self.id, &self.terms);
        let is_done = match commit {
            Some(mut commit) => {
                commit.steps.extend(guards);
                self.commit(commit).await?.is_some()
            }
            None => false,
        };
        if is_done {
            self.hold_ended(here, how.as_str());
            self.changes.happened();
        }
        Ok(is_done)
    }

    /// Ends a hold whose claim waits for it no longer: nobody can decide on it any more, and its call is never sent.
    pub async fn end_orphan(&self, here: Versioned<'_, Hold>) -> Result<(), StoreFault> {
        let key = RecordKey { environment: here.key.environment, kind: Kind::Claim, name: here.value.claim.clone() };
        let (record, _) = self.store.read(&key).await?;
        let claim = match record.as_ref().map(|record| &record.content) {
            Some(Content::Whole(bytes)) => {
                Some(claim::decode_claim(bytes).map_err(|unreadable| self.unreadable(&unreadable))?)
            }
            Some(Content::Spent) | None => None,
        };
        let reason = match (&record, &claim) {
            (_, Some(Claim { state: ClaimState::Held, hold, .. })) if hold.as_ref() == Some(&here.value.id) => {
                // It is not an orphan after all.
                return Ok(());
            }
            (_, Some(Claim { state: ClaimState::Done { executed: true, .. }, .. })) => {
                "another attempt of this call was executed".to_owned()
            }
            (_, Some(claim)) => format!("its claim is {} and waits for it no longer", claim.state.as_str()),
            (Some(_), None) => "its claim is spent".to_owned(),
            (None, None) => "its claim was deleted".to_owned(),
        };
        let guard = match record {
            Some(Record { version, content: Content::Whole(_), .. }) => Some(Step::Version { key, version }),
            // A tombstone never waits for anything again.
            Some(_) => None,
            None => Some(Step::Absent(key)),
        };
        if let Some(commit) = hold::end_orphan(here, guard, &reason, &self.id, &self.terms)
            && self.commit(commit).await?.is_some()
        {
            tracing::warn!(hold = %here.value.id, reason, "a hold ended, because its claim waits for it no longer");
            self.hold_ended(here, Decline::Blocked.as_str());
            self.changes.happened();
        }
        Ok(())
    }

    /// Counts how long a hold waited, and its ending.
    pub fn hold_ended(&self, here: Versioned<'_, Hold>, ending: &str) {
        let environment = here.key.environment.as_str();
        let waited = self.about_now().since(here.value.created(here.at));
        self.metrics.hold(environment, ending);
        self.metrics.hold_ended(environment, ending, waited);
    }

    /// Ends all holds of an environment, because the store may have forgotten that one was rejected or sent.
    pub async fn forget_holds(&self, environment: Environment) -> Result<(), StoreFault> {
        for (_, name) in self.store.due(environment, Index::Held, None, usize::MAX).await? {
            let Some(id) = HoldId::parse(&name) else { continue };
            let key = key(environment, &id);
            let mut retry = Retry::default();
            loop {
                let Some((record, hold)) = self.find_hold(&key).await? else { break };
                let here = Versioned { key: &key, version: record.version, at: record.at, value: &hold };
                let claim = self.claim_of(environment, &hold).await?;
                let of_claim = claim.as_ref().map(|(key, record, claim)| Versioned {
                    key,
                    version: record.version,
                    at: record.at,
                    value: claim,
                });
                let Some(commit) = hold::forget(here, of_claim, &self.id, &self.terms) else { break };
                if self.commit(commit).await?.is_some() {
                    self.hold_ended(here, Decline::Forgotten.as_str());
                    break;
                }
                retry.conflict().await?;
            }
        }
        self.changes.happened();
        Ok(())
    }

    /// Cancels a hold for its own caller; `None` where the caller has no such hold.
    pub async fn cancel(self: &Arc<Self>, key: &RecordKey, asker: &Owner) -> Result<Option<Cancelled>, StoreFault> {
        let mut retry = Retry::default();
        loop {
            let now = self.store.time().await?;
            let Some((record, hold)) = self.find_hold(key).await? else { return Ok(None) };
            if hold.owner() != *asker {
                return Ok(None);
            }
            if !hold.state.is_open() || hold.deadline(record.at) <= now {
                return Ok(Some(Cancelled::TooLate));
            }
            let here = Versioned { key, version: record.version, at: record.at, value: &hold };
            let declined = Declined { how: Decline::Cancelled, reason: None };
            let guard = self.lasting(key.environment).await?;
            if self.decline(here, declined, None, vec![guard]).await? {
                return Ok(Some(Cancelled::Now));
            }
            retry.conflict().await?;
        }
    }
}

/// The result of a cancellation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    Now,
    /// The hold is decided, or has expired.
    TooLate,
}
