//! Votes and remarks of people on holds: one function, whichever way they come.

use std::sync::Arc;

use super::retry::Retry;
use super::{Node, Snapshot};
use crate::adapters::random::bytes;
use crate::base::ids::{Environment, HoldId};
use crate::base::json::written_as::base64url;
use crate::catalog::Catalog;
use crate::ledger::{Record, RecordKey, Step, StoreFault, StoreTime, Versioned};
use crate::policy::{Policies, Progress};
use crate::stations::check::Intent;
use crate::stations::claim::{Decline, Declined, Owner};
use crate::stations::decide::{Grounds, evaluate, needed_anew, progress};
use crate::stations::hold::{
    self, Hold, HoldNote, HoldState, NONCE_BYTES, NeededApprovals, SeenHold, SentSignature, SignedVote, StandIns, Vote,
    VoteAction, VoteChallenge, VoteContext, VoteRefusal, challenge_key, counter_key, may_say, member_of, read_again,
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
    /// The signature of an approval.
    pub signature: Option<&'s SentSignature>,
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
        if is_repeated_note(&hold, said) {
            return Ok(false);
        }
        let here = Versioned { key, version: record.version, at: record.at, value: &hold };
        let intent = read_again(catalog, key.environment, &hold);
        let today = decided_now(node, policies, intent.as_ref(), now).await?;
        let needed = NeededApprovals::of(&hold, &policies.rules, today.as_ref());
        let asked = &needed.names;
        let hearing = node.hearing(key.environment, (catalog, policies), &stand_ins, now);
        may_say((&hold, record.at), said.say, said.person, said.seen, asked, &hearing).map_err(VoteError::Refused)?;
        if is_its_vote(&hold, said) {
            // The same signature was taken before.
            return Ok(false);
        }
        if said.say == VoteAction::Approve {
            all_causes_shown(node, policies, here, intent.as_ref().zip(today), &hearing).await?;
        }
        let has_agreed = hold.votes.iter().any(|vote| vote.person.is_same_person(said.person));
        let text = said.text.map(str::to_owned);
        // A hold that expired meanwhile would still be open by a time that was not compared.
        if said.say == VoteAction::Approve && !node.clocks.compares_in_time(key.environment).await {
            let why = "its time is not compared with a date of others yet: try again in a moment";
            return Err(VoteError::Store(StoreFault::Away(why.to_owned())));
        }
        let is_done = match said.say {
            VoteAction::Approve => {
                let causes = hold.causes.digest();
                let must_sign = hearing.must_sign(said.person, asked);
                let (signed, steps) = signature(node, &hearing, policies.version(), here, said, must_sign).await?;
                let vote = Vote { person: said.person.clone(), causes, comment: text, at: now, signed };
                match approve(node, policies, here, (vote, steps), needed, &hearing).await? {
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
                node.commit_lasting_act(said.person, hold::note(here, note, &node.id)).await?.is_some()
            }
            VoteAction::Reject => {
                let note = HoldNote { person: said.person.clone(), text: text.clone().unwrap_or_default(), at: now };
                let declined = Declined { how: Decline::Rejected, reason: text };
                node.decline(here, declined, Some(note), vec![guard]).await?
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

/// Refuses a vote where today's policies hold the call for causes that its voters were not shown: its release would not
/// count the vote. The hold tells these causes from then on.
async fn all_causes_shown(
    node: &Node,
    policies: &Policies,
    here: Versioned<'_, Hold>,
    today: Option<(&Intent, Grounds)>,
    hearing: &VoteContext<'_>,
) -> Result<(), VoteError> {
    let environment = here.key.environment;
    let is_in_force = node.activations.is_in_force(environment, policies.version());
    let Some((intent, grounds)) = today.filter(|_| is_in_force && here.value.state == HoldState::Pending) else {
        return Ok(());
    };
    let Some(unreached) = needed_anew(intent, grounds, policies, &here.value.consent(hearing)) else { return Ok(()) };
    if let Some(commit) = hold::reopen(here, unreached, &policies.rules, &node.id)
        && node.commit_lasting(commit).await?.is_some()
    {
        node.metrics.hold(environment.as_str(), "reopened");
        node.changes.happened();
    }
    Err(VoteError::Refused(VoteRefusal::OtherCauses))
}

/// Records an approval. Returns `None` where the person had approved before and the vote changes nothing; a person who
/// has become a member again may complete the quorum by approving again.
async fn approve(
    node: &Node,
    policies: &Policies,
    here: Versioned<'_, Hold>,
    (vote, steps): (Vote, Vec<Step>),
    needed: NeededApprovals,
    hearing: &VoteContext<'_>,
) -> Result<Option<bool>, StoreFault> {
    let mut with = here.value.clone();
    with.votes.retain(|before| !before.person.is_same_person(&vote.person));
    let has_agreed = with.votes.len() < here.value.votes.len();
    with.votes.push(vote.clone());
    let progress_of = |hold: &Hold| progress(here.value.fingerprint, &needed.names, policies, &hold.consent(hearing));
    let (before, then) = (progress_of(here.value), progress_of(&with));
    let complete = then.iter().all(Progress::is_reached) && here.value.state == HoldState::Pending;
    // A signature makes a vote count that did not.
    let gains = before.iter().zip(&then).any(|(before, then)| then.given > before.given);
    if has_agreed && !complete && !gains {
        return Ok(None);
    }
    let voters = with.votes.iter().map(|vote| &vote.person);
    let guards = hearing.stand_ins.guards(here.key.environment, voters, hearing.now);
    let voice = hearing.voice(here.value, &vote.person);
    let person = vote.person.clone();
    let mut commit = hold::vote(here, vote, voice, complete, needed, &policies.rules, &node.id);
    commit.steps.extend(guards);
    commit.steps.extend(steps);
    Ok(Some(node.commit_lasting_act(&person, commit).await?.is_some()))
}

/// Returns whether an open hold has this remark as the person's last one: its answer was lost, and the page or a program sends it
/// again.
fn is_repeated_note(hold: &Hold, said: VoteRequest<'_>) -> bool {
    let text = said.text.unwrap_or_default();
    said.say == VoteAction::Comment && hold.state.is_open() && hold.has_said_last(said.person, text)
}

/// Returns whether a hold has the vote of exactly this signature.
fn is_its_vote(hold: &Hold, said: VoteRequest<'_>) -> bool {
    let Some(sent) = said.signature else { return false };
    let is_it = |signed: &SignedVote| signed.challenge.nonce == sent.nonce && signed.assertion == sent.assertion;
    hold.votes.iter().any(|vote| vote.person == *said.person && vote.signed.as_ref().is_some_and(is_it))
}

/// Verifies the signature of an approval, if there is one. Returns it, with the steps that use up what it answers.
async fn signature(
    node: &Node,
    hearing: &VoteContext<'_>,
    policy: &str,
    here: Versioned<'_, Hold>,
    said: VoteRequest<'_>,
    must_sign: bool,
) -> Result<(Option<SignedVote>, Vec<Step>), VoteError> {
    let Some(sent) = said.signature else {
        let is_enrolled = hearing.rules.is_enrolled(&member_of(said.person));
        return match (must_sign, is_enrolled) {
            (false, _) => Ok((None, Vec::new())),
            (true, true) => Err(VoteError::Refused(VoteRefusal::NotSigned)),
            (true, false) => Err(VoteError::Refused(VoteRefusal::NotEnrolled)),
        };
    };
    let signing = hearing.rules.signing.as_ref().ok_or(VoteError::Refused(VoteRefusal::NotEnrolled))?;
    let environment = here.key.environment;
    let (challenge, _) = node.store.read(&challenge_key(environment, &sent.nonce)).await?;
    let (counter, _) = node.store.read(&counter_key(environment, &sent.credential)).await?;
    let amounts = here.value.stated_amounts(hearing.catalog, environment);
    let call = (environment, here.value.voted_call(&amounts));
    match sent.verify(call, said.person, (signing, policy), (challenge.as_ref(), counter.as_ref())) {
        Ok((signed, steps)) => Ok((Some(signed), steps)),
        Err(refused) => {
            node.metrics.signature_refused(environment.as_str(), refused.as_str());
            tracing::warn!(hold = %here.value.id, reason = %refused, "the signature of a vote is refused");
            Err(VoteError::Refused(VoteRefusal::BadSignature(refused)))
        }
    }
}

/// What a person is to sign, and the passkeys that may.
#[derive(Debug)]
pub struct AskedSignature {
    pub nonce: String,
    pub statement: String,
    pub rp_id: String,
    pub credentials: Vec<String>,
}

/// Asks a person to sign an approval of what the person saw.
pub async fn ask_for_signature(
    node: &Arc<Node>,
    catalog: &Catalog,
    policies: &Policies,
    key: &RecordKey,
    (person, seen): (&Owner, SeenHold),
) -> Result<AskedSignature, VoteError> {
    let random = bytes::<NONCE_BYTES>();
    let nonce = random.ok_or_else(|| StoreFault::Away("the operating system gives no random bytes".to_owned()))?;
    let nonce = base64url::encoded(&nonce);
    let (stand_ins, now) = node.stand_ins(key.environment).await?;
    let Some((record, hold)) = node.find_hold(key).await? else { return Err(VoteError::NoSuchHold) };
    let here = Versioned { key, version: record.version, at: record.at, value: &hold };
    let intent = read_again(catalog, key.environment, &hold);
    let today = decided_now(node, policies, intent.as_ref(), now).await?;
    let NeededApprovals { names: approvals, guards } = NeededApprovals::of(&hold, &policies.rules, today.as_ref());
    let amounts = hold.stated_amounts(catalog, key.environment);
    let hearing = node.hearing(key.environment, (catalog, policies), &stand_ins, now);
    may_say((&hold, record.at), VoteAction::Approve, person, seen, &approvals, &hearing).map_err(VoteError::Refused)?;
    all_causes_shown(node, policies, here, intent.as_ref().zip(today), &hearing).await?;
    let not_enrolled = || VoteError::Refused(VoteRefusal::NotEnrolled);
    let signing = policies.rules.signing.as_ref().ok_or_else(not_enrolled)?;
    let credentials: Vec<String> = signing.of(&member_of(person)).map(|(id, _)| id.to_owned()).collect();
    if credentials.is_empty() {
        return Err(not_enrolled());
    }
    let policy = policies.version().to_owned();
    let challenge = VoteChallenge { nonce, version: record.version, approvals, amounts, policy };
    let statement = challenge.statement(hold.voted_call(&challenge.amounts), person, (key.environment, signing));
    let mut commit = challenge.record(here, person, &node.id);
    commit.steps.extend(guards);
    let recorded = node.commit_lasting_act(person, commit).await?;
    if recorded.is_none() {
        return Err(VoteError::Store(StoreFault::Away("the challenge was not recorded".to_owned())));
    }
    Ok(AskedSignature { nonce: challenge.nonce, statement, rp_id: signing.rp_id.clone(), credentials })
}

/// Returns the approvals that the hold needs now, by the facts that the store has.
pub async fn needed_now(
    node: &Node,
    policies: &Policies,
    hold: &Hold,
    intent: Option<&Intent>,
    now: StoreTime,
) -> Result<NeededApprovals, StoreFault> {
    let today = decided_now(node, policies, intent, now).await?;
    Ok(NeededApprovals::of(hold, &policies.rules, today.as_ref()))
}

/// Returns what the policies decide on a held call now; `None` where today's contract has no such call.
async fn decided_now(
    node: &Node,
    policies: &Policies,
    intent: Option<&Intent>,
    now: StoreTime,
) -> Result<Option<Grounds>, StoreFault> {
    let Some(intent) = intent else { return Ok(None) };
    Ok(Some(evaluate(intent, policies, &node.stored_facts(intent, policies, now).await?)))
}

/// Returns how many people have approved, for each approval of the hold.
pub async fn progress_of(
    node: &Node,
    environment: Environment,
    hold: &Hold,
    (catalog, policies): (&Catalog, &Policies),
) -> Result<Vec<Progress>, StoreFault> {
    let (stand_ins, now) = node.stand_ins(environment).await?;
    let consent = hold.consent(&node.hearing(environment, (catalog, policies), &stand_ins, now));
    Ok(progress(hold.fingerprint, &hold.asked, policies, &consent))
}

impl Node {
    /// Returns the answer to the caller of a held call; `None` if there is no such hold.
    pub async fn waiting(&self, key: &RecordKey, by: &Snapshot, as_refusal: bool) -> Result<Option<Reply>, StoreFault> {
        let Some((record, hold)) = self.find_hold(key).await? else { return Ok(None) };
        let progress = progress_of(self, key.environment, &hold, (&by.catalog, &by.policies)).await?;
        Ok(Some(held(HeldCall { hold: &hold, at: record.at, progress: &progress }, as_refusal)))
    }

    /// Returns the stand-ins of an environment, and the store's time of the answer.
    pub async fn stand_ins(&self, environment: Environment) -> Result<(StandIns, StoreTime), StoreFault> {
        let (record, now) = self.store.read(&StandIns::key(environment)).await?;
        self.heard.time(now, self.clock.elapsed());
        let stand_ins = StandIns::read(record.as_ref());
        Ok((stand_ins.map_err(|unreadable| self.unreadable(&unreadable))?, now))
    }

    pub fn hearing<'h>(
        &'h self,
        environment: Environment,
        (catalog, policies): (&'h Catalog, &'h Policies),
        stand_ins: &'h StandIns,
        now: StoreTime,
    ) -> VoteContext<'h> {
        VoteContext { catalog, rules: &policies.rules, owners: &self.owners, stand_ins, environment, now }
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
