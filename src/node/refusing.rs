//! Calls that are refused: nobody is told that one was not executed whose claim this gate's journal has.
//!
//! A store that lost or hides a claim lets a refusal pass, or a new hold. So the journal is asked as well.

use super::Node;
use super::not_begun::{NotBegun, not_begun};
use crate::base::ids::TraceId;
use crate::ledger::{CommitError, Versioned};
use crate::stations::check::{CallName, Intent};
use crate::stations::claim::{self, Claim, Earlier};
use crate::stations::decide::Grounds;

impl Node {
    /// Records that a call is refused, unless it is claimed already. Where the store may have forgotten claims, the
    /// refusal says so and is recorded all the same.
    pub async fn refuse(
        &self,
        intent: &Intent,
        grounds: &Grounds,
        trace: &TraceId,
        again: Option<Versioned<'_, Claim>>,
    ) -> Result<Earlier, NotBegun> {
        if let Some(why) = self.entries.refusal_stop(intent, self.clock.elapsed()) {
            return Err(self.claimed_already(&intent.name(), again.is_none()).await.unwrap_or(why));
        }
        if let Some(claimed) = self.claimed_in_journal(&intent.name(), again.is_none()).await {
            return Err(claimed);
        }
        let mut earlier = again.map_or(Earlier::None, |here| here.value.earlier());
        loop {
            let may_be_forgotten = earlier == Earlier::Forgotten;
            let by = (&self.id, &self.operand_key);
            let commit = claim::refuse(intent, grounds, by, trace, may_be_forgotten, again);
            match self.try_commit(commit.clone()).await {
                Ok(_) => return Ok(earlier),
                Err(CommitError::Rejected { at, conflicts }) => {
                    match not_begun(claim::standing(&commit, at, conflicts), at) {
                        NotBegun::Forgotten if !may_be_forgotten => earlier = Earlier::Forgotten,
                        why => return Err(why),
                    }
                }
                Err(CommitError::Fault(fault)) => {
                    self.told_of(&fault);
                    return Err(NotBegun::StoreAway);
                }
            }
        }
    }

    /// Returns the conflict to tell first where this gate's journal has a claim of this name: by the store's word alone there
    /// could be none.
    pub(super) async fn claimed_in_journal(&self, named: &CallName, may_be_claimed: bool) -> Option<NotBegun> {
        match self.store.journal_has(&named.key) {
            Ok(has) => self.claimed_already(named, may_be_claimed && has).await,
            Err(fault) => {
                self.told_of(&fault);
                Some(NotBegun::StoreAway)
            }
        }
    }

    /// Returns the reason to tell a caller for a call that did not begin: an existing claim is told before any other one that
    /// says of earlier attempts that there was none.
    pub async fn told_first(&self, named: &CallName, (why, earlier): (NotBegun, Earlier)) -> NotBegun {
        let says_none = match why {
            NotBegun::OtherSet
            | NotBegun::Frozen
            | NotBegun::ClockDoubted
            | NotBegun::AuditAway
            | NotBegun::NoRoomForRefusal
            | NotBegun::NoPlaceForHold(_) => earlier == Earlier::None,
            NotBegun::Claimed(..)
            | NotBegun::StaleFacts(_)
            | NotBegun::Raced
            | NotBegun::SaidExecuted
            | NotBegun::Forgotten
            | NotBegun::StoreAway => false,
        };
        self.claimed_in_journal(named, says_none).await.unwrap_or(why)
    }
}
