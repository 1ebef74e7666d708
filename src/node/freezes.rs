//! Freezing, lifting and listing freezes.
//!
//! One function for each act, whichever way it comes. Each act is one commit with its audit entry.
use bytes::Bytes;

use super::Node;
use super::frozen_index::{FrozenIndex, MAX_FROZEN_CALLERS};
use super::operate::{takes_two, with_signatures};
use super::retry::Retry;
use super::sign_act;
use super::sign_act::{SaidWord, UnsignedAct};
use super::store_time::correction_of;
use crate::base::ids::Environment;
use crate::ledger::{Content, Index, Keep, Kind, Record, RecordKey, Step, StoreFault, StoreTime};
use crate::people::joint_act::{JointAct, JointStep, PersonWord, waiting_people};
use crate::people::signed_act::{ActTerms, PersonAct};
use crate::policy::Policies;
use crate::stations::claim::{self, ClockCorrection, Forgotten, Freeze, Frozen, OpenedBeginning, Owner};

/// The record by which gates that freeze the last callers for which there is room know of each other.
const LAST_CALLERS: &str = "frozen-callers";
/// Gates that freeze callers at one moment: beyond this room they do not guard against each other.
const MAX_GATES: usize = 16;

/// A freeze: since when, by whom and why.
#[derive(Clone, Debug)]
pub struct StandingFreeze {
    pub environment: Environment,
    pub freeze: Freeze,
    pub at: StoreTime,
    pub told: Frozen,
    /// The first of two people who lift it.
    pub said_unfrozen: Option<Owner>,
}

/// The freezes of an environment.
#[derive(Clone, Debug)]
pub struct FreezeList {
    /// The freezes; those of callers come last, each kind by time.
    pub freezes: Vec<StandingFreeze>,
    /// Whether there are more, of callers.
    pub has_more: bool,
}

/// Returns the freezes of an environment, with a bounded number of those of callers.
pub async fn frozen(node: &Node, environment: Environment) -> Result<FreezeList, StoreFault> {
    let FrozenIndex { freezes, mut has_more } = FrozenIndex::read(&*node.store, environment, Some(&node.id)).await?;
    let (mut all, mut callers) = (Vec::new(), 0_usize);
    for (_, freeze) in freezes {
        callers = callers.saturating_add(usize::from(freeze.is_of_caller()));
        if callers > MAX_FROZEN_CALLERS {
            has_more = true;
            break;
        }
        let name = freeze.name();
        match standing(node, environment, freeze.clone()).await? {
            Some(standing) => all.push(standing),
            None if node.store.member(environment, Index::Frozen, &name).await?.is_none() => {}
            // The freeze may have been lifted and made again meanwhile; else the list would lack a freeze.
            None => all.push(standing(node, environment, freeze).await?.ok_or_else(|| {
                StoreFault::Broken("the index of freezes has one whose record is not there".to_owned())
            })?),
        }
    }
    Ok(FreezeList { freezes: all, has_more })
}

/// Returns a freeze, if it is in force.
pub async fn standing(
    node: &Node,
    environment: Environment,
    freeze: Freeze,
) -> Result<Option<StandingFreeze>, StoreFault> {
    let (record, _) = node.store.read(&freeze.key(environment)).await?;
    let Some(record) = record else { return Ok(None) };
    let told = match &record.content {
        Content::Whole(bytes) => claim::frozen(bytes),
        Content::Spent => Frozen::default(),
    };
    let act = JointAct::lift(environment, &freeze, record.version);
    let (words, now) = node.store.read(act.key()).await?;
    let people = waiting_people(words.as_ref(), now);
    let said_unfrozen = people.into_iter().find(|person| !is_of(node, &freeze, person));
    Ok(Some(StandingFreeze { environment, freeze, at: record.at, told, said_unfrozen }))
}

/// The result of a person's freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreezeSaid {
    Frozen,
    /// This person froze it already for this reason.
    FrozenAlready,
    /// No room for another caller: so many are frozen.
    TooMany,
}

/// Freezes, or freezes again for another reason. Only the number of frozen callers is bounded.
pub async fn freeze(
    node: &Node,
    environment: Environment,
    what: &Freeze,
    person: &Owner,
    reason: &str,
) -> Result<FreezeSaid, StoreFault> {
    if !what.is_of_caller() {
        return freeze_or_add(node, environment, what, (person, reason), true).await;
    }
    // Two people who count at one moment would both find room.
    let _turn = node.freezing.lock().await;
    freeze_or_add(node, environment, what, (person, reason), true).await
}

/// Returns the steps that guard a freeze of a caller against those that other gates make at the same moment; `None` where there
/// is no room for it.
async fn room_for_caller(node: &Node, environment: Environment) -> Result<Option<Vec<Step>>, StoreFault> {
    let key = RecordKey { environment, kind: Kind::Counter, name: LAST_CALLERS.to_owned() };
    let before = match node.store.read(&key).await {
        // A record that cannot be read prevents no freeze.
        Err(StoreFault::Broken(_)) => None,
        read => Some(read?.0),
    };
    let index = FrozenIndex::read(&*node.store, environment, None).await?;
    let (value, keep) = (Bytes::from_static(b"{}"), Keep::Forever);
    Ok(match (index.room_for_callers(), before) {
        (0, _) => None,
        // Each gate freezes one caller at a time.
        (room, _) if room > MAX_GATES => Some(Vec::new()),
        (_, None) => Some(Vec::new()),
        (_, Some(None)) => Some(vec![Step::Create { key, value, keep }]),
        (_, Some(Some(Record { version, .. }))) => Some(vec![Step::Replace { key, version, value, keep }]),
    })
}

/// Freezes, or freezes again for another reason, however much is frozen and whatever the person did before. Returns `false`
/// where this person froze it already for this reason.
pub(super) async fn freeze_anyway(
    node: &Node,
    environment: Environment,
    what: &Freeze,
    person: &Owner,
    reason: &str,
) -> Result<bool, StoreFault> {
    Ok(freeze_or_add(node, environment, what, (person, reason), false).await? == FreezeSaid::Frozen)
}

/// With `is_bounded`, only so many callers are frozen, and a further reason for what is frozen already takes from the person's
/// room for entries. Any other freeze is always made.
async fn freeze_or_add(
    node: &Node,
    environment: Environment,
    what: &Freeze,
    (person, reason): (&Owner, &str),
    is_bounded: bool,
) -> Result<FreezeSaid, StoreFault> {
    node.takes_acts(environment)?;
    let mut retry = Retry::default();
    loop {
        let (standing, _) = match node.store.read(&what.key(environment)).await {
            // A freeze that cannot be read stands all the same.
            Err(StoreFault::Broken(_)) => return Ok(FreezeSaid::FrozenAlready),
            read => read?,
        };
        let commit = match &standing {
            None => {
                let mut commit = claim::freeze(what, environment, person, reason, &node.id);
                if is_bounded && what.is_of_caller() {
                    let Some(guard) = room_for_caller(node, environment).await? else { return Ok(FreezeSaid::TooMany) };
                    commit.steps.extend(guard);
                }
                Some(commit)
            }
            Some(record) => {
                let said: &[u8] = match &record.content {
                    Content::Whole(bytes) => bytes,
                    Content::Spent => &[],
                };
                claim::freeze_again(what, environment, (record.version, said), (person, reason), &node.id)
            }
        };
        let Some(commit) = commit else { return Ok(FreezeSaid::FrozenAlready) };
        let committed = match &standing {
            Some(_) if is_bounded => node.commit_act(person, commit).await?,
            _ => node.commit(commit).await?,
        };
        if committed.is_some() {
            return Ok(FreezeSaid::Frozen);
        }
        retry.conflict().await?;
    }
}

/// The result of a person's word that a freeze is to be lifted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiftSaid {
    Lifted,
    NotFrozen,
    /// A second person must confirm it.
    Once,
    /// The same person said so before.
    SaidAlready,
    /// Others must lift the freeze of a person, or of a service that the person owns.
    OwnFreeze,
}

/// Whether a freeze is of this person, or of a service that the person owns. People are compared as for votes.
fn is_of(node: &Node, freeze: &Freeze, person: &Owner) -> bool {
    let (Freeze::Caller(caller) | Freeze::Reads(caller)) = freeze else { return false };
    let caller = node.owners.person(&caller.issuer, &caller.subject);
    caller.is_same_person(person) || node.owners.owns(&caller, person)
}

/// Returns the act of lifting a freeze as it stands; `None` where it is not frozen.
pub async fn lifting(node: &Node, environment: Environment, what: &Freeze) -> Result<Option<PersonAct>, StoreFault> {
    let (record, _) = node.store.read(&what.key(environment)).await?;
    Ok(record.map(|record| JointAct::lift(environment, what, record.version).act))
}

/// Unfreezes; in production two people must say so.
pub async fn unfreeze(
    node: &Node,
    policies: &Policies,
    environment: Environment,
    what: &Freeze,
    said: SaidWord<'_>,
) -> Result<LiftSaid, UnsignedAct> {
    let SaidWord { person, reason, .. } = said;
    let is_own = is_of(node, what, person);
    let mut retry = Retry::default();
    loop {
        let key = what.key(environment);
        let (Some(record), _) = node.store.read(&key).await? else { return Ok(LiftSaid::NotFrozen) };
        if is_own {
            return Ok(LiftSaid::OwnFreeze);
        }
        let version = record.version;
        let guard = node.lasting_lift(environment, what, version).await?;
        let (mut first, mut both, mut confirmed) = (None, None, Vec::new());
        if takes_two(environment) {
            let joint = JointAct::lift(environment, what, version);
            let (act, signing) = (joint.act.clone(), policies.rules.signing.as_ref());
            let terms = ActTerms { environment, act: &act, signing };
            let (signed, used) = sign_act::take(node, terms, policies.version(), said).await?;
            let (before, now) = node.store.read(joint.key()).await?;
            let before = (before.as_ref(), now);
            let guards = [Step::Version { key, version }].into_iter().chain(guard.clone()).chain(used.clone());
            let word = PersonWord { person, reason, signed };
            // A gate with another configuration may have taken it.
            let people = waiting_people(before.0, now);
            let own_words = people.into_iter().filter(|person| is_of(node, what, person)).collect();
            match joint.not_counting(own_words).say(before, word, terms, guards.collect(), &node.id) {
                JointStep::SaidAlready => return Ok(LiftSaid::SaidAlready),
                JointStep::First(commit) => {
                    if node.commit_act(person, commit).await?.is_some() {
                        return Ok(LiftSaid::Once);
                    }
                    retry.conflict().await?;
                    continue;
                }
                JointStep::Second { first: one, signed, steps } => {
                    (first, both) = (Some(one), signed);
                    confirmed = steps.into_iter().chain(used).collect();
                }
            }
        }
        if let (Freeze::Restored, Content::Whole(freeze)) = (what, &record.content)
            && Forgotten::read(freeze).may_lack_newer()
        {
            node.forget_holds(environment).await.map_err(done_in_part)?;
        }
        let mut commit = claim::unfreeze(what, environment, version, (first.as_ref(), person), reason, &node.id);
        commit.steps.extend(confirmed.into_iter().chain(guard));
        commit.entry = with_signatures(&commit, both.as_ref());
        if let (Freeze::Restored, Content::Whole(freeze)) = (what, &record.content) {
            let (opened, _) = node.store.read(&OpenedBeginning::key(environment)).await.map_err(done_in_part)?;
            let before = opened.map(|opened| opened.version);
            commit.steps.extend(OpenedBeginning::by_person(environment, freeze, before));
        }
        if *what == Freeze::Clock {
            let (record, _) = node.store.read(&ClockCorrection::key(environment)).await?;
            let before =
                record.map(|record| correction_of(&record).map(|micros| (record.version, micros))).transpose()?;
            commit.steps.extend(ClockCorrection::followed(environment, before));
        }
        let lifted = match what {
            // Holds may have ended already: it is not refused for want of room.
            Freeze::Restored => node.commit(commit).await.map_err(done_in_part),
            _ => node.commit_act(person, commit).await,
        };
        if lifted?.is_some() {
            return Ok(LiftSaid::Lifted);
        }
        retry.conflict().await?;
    }
}

/// Holds may have ended already, so that nobody is told that nothing was done.
fn done_in_part(fault: StoreFault) -> StoreFault {
    match fault {
        StoreFault::Away(why) => StoreFault::InDoubt(why),
        fault => fault,
    }
}
