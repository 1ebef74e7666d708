//! Votes and remarks of people on holds: one function, whichever way they come.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Node;
use super::retry::Retry;
use crate::base::ids::{Environment, HoldId};
use crate::catalog::Catalog;
use crate::ledger::{Record, RecordKey, StoreFault, StoreTime, Versioned};
use crate::policy::{Policies, Progress};
use crate::stations::check::Intent;
use crate::stations::claim::{Decline, Declined, Owner};
use crate::stations::decide::{evaluate, progress};
use crate::stations::hold::{
    self, Hold, HoldNote, SeenHold, StandIns, Vote, VoteAction, VoteContext, VoteRefusal, may_say, read_again,
};
use crate::stations::reply::{HeldCall, Reply, held};

/// A person's action on a hold, and what the person saw of it.
#[derive(Clone, Copy, Debug)]
pub struct VoteRequest<'s> {
    pub say: VoteAction,
    pub person: &'s Owner,
    pub seen: SeenHold,
    /// A comment, or the reason of a rejection.
    pub text: Option<&'s str>,
}

/// The reasons why an action has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoteError {
    NoSuchHold,
    Refused(VoteRefusal),
    Store(StoreFault),
}

impl From<StoreFault> for VoteError {
    fn from(fault: StoreFault) -> VoteError {
        VoteError::Store(fault)
    }
}

/// Does the action. Returns `false` where the hold was already so.
pub async fn vote(
    node: &Arc<Node>,
    catalog: &Catalog,
    policies: &Policies,
    key: &RecordKey,
    said: VoteRequest<'_>,
) -> Result<bool, VoteError> {
    let mut retry = Retry::default();
    loop {
        let guard = node.lasting(key.environment).await?;
        let (stand_ins, now) = node.stand_ins(key.environment).await?;
        let Some((record, hold)) = node.find_hold(key).await? else { return Err(VoteError::NoSuchHold) };
        let here = Versioned { key, version: record.version, at: record.at, value: &hold };
        let intent = read_again(catalog, key.environment, &hold);
        let asked = asked_now(node, policies, &hold, intent.as_ref());
        let hearing = node.hearing(policies, &stand_ins, now);
        may_say((&hold, record.at), said.say, said.person, said.seen, &asked, &hearing).map_err(VoteError::Refused)?;
        let has_agreed = hold.votes.iter().any(|vote| vote.person.is_same_person(said.person));
        let text = said.text.map(str::to_owned);
        let is_done = match said.say {
            VoteAction::Approve => {
                let causes = hold.causes.digest();
                let vote = Vote { person: said.person.clone(), causes, comment: text, at: now };
                match approve(node, policies, here, vote, asked, &hearing).await? {
                    Some(is_done) => is_done,
                    None => return Ok(false),
                }
            }
            VoteAction::Withdraw if !has_agreed => return Ok(false),
            VoteAction::Withdraw => match hold::withdraw(here, said.person, &node.id) {
                Some(commit) => node.commit_lasting(commit).await?.is_some(),
                None => return Err(VoteError::Refused(VoteRefusal::Over(hold.state.as_str()))),
            },
            VoteAction::Comment => {
                let note = HoldNote { person: said.person.clone(), text: text.unwrap_or_default(), at: now };
                node.commit_lasting(hold::note(here, note, &node.id)).await?.is_some()
            }
            VoteAction::Reject => {
                let note = HoldNote { person: said.person.clone(), text: text.clone().unwrap_or_default(), at: now };
                let declined = Declined { how: Decline::Rejected, reason: text };
                node.decline(here, declined, Some(note), Some(guard)).await?
            }
        };
        if is_done {
            if said.say != VoteAction::Reject {
                node.metrics.hold(key.environment.as_str(), word(said.say));
            }
            node.changes.happened();
            return Ok(true);
        }
        retry.conflict().await?;
    }
}

/// Records an approval. Returns `None` where the person had approved before and the vote changes nothing; a person who
/// has become a member again may complete the quorum by approving again.
async fn approve(
    node: &Node,
    policies: &Policies,
    here: Versioned<'_, Hold>,
    vote: Vote,
    asked: BTreeSet<Arc<str>>,
    hearing: &VoteContext<'_>,
) -> Result<Option<bool>, StoreFault> {
    let mut with = here.value.clone();
    with.votes.retain(|before| !before.person.is_same_person(&vote.person));
    let has_agreed = with.votes.len() < here.value.votes.len();
    with.votes.push(vote.clone());
    let progress = progress(here.value.fingerprint, &asked, policies, &with.consent(hearing));
    let complete = progress.iter().all(Progress::is_reached) && here.value.state == hold::HoldState::Pending;
    if has_agreed && !complete {
        return Ok(None);
    }
    let voters = with.votes.iter().map(|vote| &vote.person);
    let guards = hearing.stand_ins.guards(here.key.environment, voters, hearing.now);
    let voice = hearing.voice(here.value, &vote.person);
    let mut commit = hold::vote(here, vote, voice, complete, asked, &node.id);
    commit.steps.extend(guards);
    Ok(Some(node.commit_lasting(commit).await?.is_some()))
}

/// Returns the approvals that the hold needs now: those that were asked for before, as far as the policies still define
/// them, and those that today's rules ask for.
pub fn asked_now(node: &Node, policies: &Policies, hold: &Hold, intent: Option<&Intent>) -> BTreeSet<Arc<str>> {
    let today = intent.map(|intent| {
        let decision = evaluate(intent, policies, &node.facts(intent, policies));
        decision.verdict.approvals.clone()
    });
    let before = hold.asked.iter().filter(|name| policies.rules.approvals.contains_key(*name)).cloned();
    before.chain(today.unwrap_or_default()).collect()
}

/// Returns how many people have approved, for each approval of the hold.
pub async fn progress_of(
    node: &Node,
    environment: Environment,
    hold: &Hold,
    policies: &Policies,
) -> Result<Vec<Progress>, StoreFault> {
    let (stand_ins, now) = node.stand_ins(environment).await?;
    let consent = hold.consent(&node.hearing(policies, &stand_ins, now));
    Ok(progress(hold.fingerprint, &hold.asked, policies, &consent))
}

impl Node {
    /// Returns the answer to the caller of a held call; `None` if there is no such hold.
    pub async fn waiting(
        &self,
        key: &RecordKey,
        policies: &Policies,
        as_refusal: bool,
    ) -> Result<Option<Reply>, StoreFault> {
        let Some((record, hold)) = self.find_hold(key).await? else { return Ok(None) };
        let progress = progress_of(self, key.environment, &hold, policies).await?;
        Ok(Some(held(HeldCall { hold: &hold, at: record.at, progress: &progress }, as_refusal)))
    }

    /// Returns the stand-ins of an environment, and the store's time of the answer.
    pub async fn stand_ins(&self, environment: Environment) -> Result<(StandIns, StoreTime), StoreFault> {
        let (record, now) = self.store.read(&StandIns::key(environment)).await?;
        self.heard.time(now, self.clock.elapsed());
        let stand_ins = StandIns::read(record.as_ref());
        Ok((stand_ins.map_err(|unreadable| self.unreadable(&unreadable))?, now))
    }

    pub fn hearing<'h>(&'h self, policies: &'h Policies, stand_ins: &'h StandIns, now: StoreTime) -> VoteContext<'h> {
        VoteContext { rules: &policies.rules, owners: &self.owners, stand_ins, now }
    }
}

/// Finds the hold of this id in one of these environments.
pub async fn find(
    node: &Node,
    environments: &[Environment],
    id: &HoldId,
) -> Result<Option<(RecordKey, Record, Hold)>, StoreFault> {
    for environment in environments {
        let key = super::holds::key(*environment, id);
        if let Some((record, hold)) = node.find_hold(&key).await? {
            return Ok(Some((key, record, hold)));
        }
    }
    Ok(None)
}

fn word(say: VoteAction) -> &'static str {
    match say {
        VoteAction::Approve => "voted",
        VoteAction::Withdraw => "withdrawn",
        VoteAction::Reject => "rejected",
        VoteAction::Comment => "noted",
    }
}
