//! Acts of operators: freezing and unfreezing, and resolving calls with an unknown outcome.
//!
//! One function for each act, whichever way it comes. Each act is one commit with its audit entry.

use serde_json::Value;

use super::Node;
use super::retry::Retry;
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::ledger::{Content, Index, Kind, Record, RecordKey, Step, StoreFault, StoreTime, Versioned};
use crate::people::joint_act::{JointAct, JointStep, first_person};
use crate::stations::claim::{
    self, Claim, ClaimState, Forgotten, Freeze, Frozen, JointWord, OpenedBeginning, Owner, RecordMismatch,
    ResolveRefusal, SentRequest, StoredAnswer, is_record_of,
};

/// The most freezes in a list.
pub(super) const MAX_FROZEN: usize = 1_000;
/// The most claims of a state that are sorted for a list.
const MAX_CLAIMS: usize = 10_000;

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

/// Returns the freezes of an environment, the earliest first.
pub async fn frozen(node: &Node, environment: Environment) -> Result<Vec<StandingFreeze>, StoreFault> {
    let mut all = Vec::new();
    for (_, name) in node.store.due(environment, Index::Frozen, None, MAX_FROZEN).await? {
        let Some(freeze) = Freeze::parse(&name) else { continue };
        all.extend(standing(node, environment, freeze).await?);
    }
    Ok(all)
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
    let said_unfrozen = node.store.read(act.key()).await?.0.as_ref().and_then(first_person);
    Ok(Some(StandingFreeze { environment, freeze, at: record.at, told, said_unfrozen }))
}

/// Returns the first of two people who showed that a call was executed.
pub async fn said_executed(node: &Node, key: &RecordKey, claim: &Claim) -> Result<Option<Owner>, StoreFault> {
    let Some(past) = claim.in_doubt() else { return Ok(None) };
    let (first, _) = node.store.read(&JointAct::shown_key(key, past.number)).await?;
    Ok(first.as_ref().and_then(first_person))
}

/// Whether an act takes two people there. The sandbox holds nothing of value.
fn takes_two(environment: Environment) -> bool {
    environment == Environment::Production
}

/// Freezes. Returns `false` where it was frozen already; that freeze stays as it was.
pub async fn freeze(
    node: &Node,
    environment: Environment,
    what: &Freeze,
    person: &Owner,
    reason: &str,
) -> Result<bool, StoreFault> {
    let commit = claim::freeze(what, environment, person, reason, &node.id);
    node.commit(commit).await.map(|committed| committed.is_some())
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
}

/// Unfreezes; in production two people must say so.
pub async fn unfreeze(
    node: &Node,
    environment: Environment,
    what: &Freeze,
    person: &Owner,
    reason: &str,
) -> Result<LiftSaid, StoreFault> {
    let mut retry = Retry::default();
    loop {
        let key = what.key(environment);
        let (Some(record), _) = node.store.read(&key).await? else { return Ok(LiftSaid::NotFrozen) };
        let version = record.version;
        let guard = node.lasting_lift(environment, what, version).await?;
        let (mut first, mut confirmed) = (None, Vec::new());
        if takes_two(environment) {
            let act = JointAct::lift(environment, what, version);
            let (before, _) = node.store.read(act.key()).await?;
            let guards = [Step::Version { key, version }].into_iter().chain(guard.clone()).collect();
            match act.say(before.as_ref(), (person, reason), guards, &node.id) {
                JointStep::SaidAlready => return Ok(LiftSaid::SaidAlready),
                JointStep::First(commit) => {
                    if node.commit(commit).await?.is_some() {
                        return Ok(LiftSaid::Once);
                    }
                    retry.conflict().await?;
                    continue;
                }
                JointStep::Second { first: one, steps } => (first, confirmed) = (Some(one), steps),
            }
        }
        if let (Freeze::Restored, Content::Whole(freeze)) = (what, &record.content)
            && Forgotten::read(freeze).may_lack_newer()
        {
            node.forget_holds(environment).await?;
        }
        let mut commit = claim::unfreeze(what, environment, version, (first.as_ref(), person), reason, &node.id);
        commit.steps.extend(confirmed.into_iter().chain(guard));
        if let (Freeze::Restored, Content::Whole(freeze)) = (what, &record.content) {
            let (opened, _) = node.store.read(&OpenedBeginning::key(environment)).await?;
            let before = opened.map(|opened| opened.version);
            commit.steps.extend(OpenedBeginning::by_person(environment, freeze, before));
        }
        if node.commit(commit).await?.is_some() {
            return Ok(LiftSaid::Lifted);
        }
        retry.conflict().await?;
    }
}

/// Returns the claims of an index that follow a name, in the order of their names, at most `count`, and whether there
/// are more.
pub async fn claims(
    node: &Node,
    environment: Environment,
    index: Index,
    after: Option<&str>,
    count: usize,
) -> Result<(Vec<(RecordKey, Record, Claim)>, bool), StoreFault> {
    let due = node.store.due(environment, index, None, MAX_CLAIMS).await?;
    let mut names: Vec<String> = due.into_iter().map(|(_, name)| name).collect();
    names.sort_unstable();
    let mut left = names.into_iter().filter(|name| after.is_none_or(|after| name.as_str() > after));
    let mut found = Vec::new();
    for name in left.by_ref().take(count) {
        let key = RecordKey { environment, kind: Kind::Claim, name };
        match node.find(&key).await {
            Ok(claim) => found.extend(claim.map(|(record, claim)| (key, record, claim))),
            // A record that this version cannot read does not hide the others.
            Err(fault @ StoreFault::Broken(_)) => node.told_of(&fault),
            Err(fault) => return Err(fault),
        }
    }
    Ok((found, left.next().is_some()))
}

/// The outcome of a call according to a person.
#[derive(Clone, Debug)]
pub enum Resolution<'w> {
    /// Executed, with the record of upstream that shows it; in production two people must show it.
    Executed(&'w Value),
    /// An act that takes two people.
    Joint(JointWord),
}

/// The result of a person's resolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    Executed,
    /// A second person must confirm it.
    SaidOnce,
    /// Two people have said so: the caller may send it again.
    Absent,
    /// Two people have said so: it is never sent again.
    Abandoned,
}

/// The reasons why a resolution has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    NoSuchClaim,
    /// The state that the claim has instead.
    NotInDoubt(&'static str),
    Refused(ResolveRefusal),
    NotItsRecord(RecordMismatch),
    Store(StoreFault),
}

impl From<StoreFault> for Unresolved {
    fn from(fault: StoreFault) -> Unresolved {
        Unresolved::Store(fault)
    }
}

pub async fn resolve(
    node: &Node,
    catalog: &Catalog,
    key: &RecordKey,
    person: &Owner,
    reason: &str,
    word: Resolution<'_>,
) -> Result<Resolved, Unresolved> {
    let mut retry = Retry::default();
    loop {
        let now = node.time().await?;
        let Some((record, claim)) = node.find(key).await? else { return Err(Unresolved::NoSuchClaim) };
        let not_in_doubt = Unresolved::NotInDoubt(claim.state.as_str());
        let here = Versioned { key, version: record.version, at: record.at, value: &claim };
        // An owner of a service asked for what it asked for.
        if claim.askers().any(|one| node.owners.owns(&one, person)) {
            return Err(Unresolved::Refused(ResolveRefusal::Owner));
        }
        let (commit, resolved) = match word {
            Resolution::Joint(word) => {
                let past = claim.in_doubt().ok_or(not_in_doubt)?;
                let news = node.sender_news(key.environment, &past.sender).await?;
                let said = claim::say_jointly(here, word, (person, reason), (now, &news), &node.id, &node.terms);
                let (commit, next) = said.map_err(Unresolved::Refused)?;
                let resolved = match (next, word) {
                    (None, _) => Resolved::SaidOnce,
                    (Some(_), JointWord::Absent) => Resolved::Absent,
                    (Some(_), JointWord::Abandoned) => Resolved::Abandoned,
                };
                (commit, resolved)
            }
            Resolution::Executed(shown) => {
                let forgotten = SentRequest::forgotten();
                let sent = match &claim.state {
                    ClaimState::Unknown { sent, .. } => sent,
                    _ => &forgotten,
                };
                if let (Some(operation), Some(id)) = (catalog.operation(&claim.operation), &claim.request_id) {
                    is_record_of(operation, id.as_str(), sent, shown).map_err(Unresolved::NotItsRecord)?;
                }
                let answer = StoredAnswer::of_record(shown);
                let refused = |refusal| match refusal {
                    ResolveRefusal::NotInDoubt => not_in_doubt.clone(),
                    refusal => Unresolved::Refused(refusal),
                };
                let (attempt, entry) = claim::shown_attempt(here, person).map_err(refused)?;
                let joint = if takes_two(key.environment) {
                    let act = JointAct::show(key, attempt, &answer.body, entry);
                    let (before, _) = node.store.read(act.key()).await?;
                    let guards = vec![Step::Version { key: key.clone(), version: record.version }];
                    act.say(before.as_ref(), (person, reason), guards, &node.id)
                } else {
                    JointStep::Second { first: person.clone(), steps: Vec::new() }
                };
                match joint {
                    JointStep::SaidAlready => return Err(Unresolved::Refused(ResolveRefusal::SaidAlready)),
                    JointStep::First(commit) => (commit, Resolved::SaidOnce),
                    JointStep::Second { first, steps } => {
                        let mut people = vec![first.to_string(), person.to_string()];
                        people.dedup();
                        let by = (people.as_slice(), reason);
                        let said = claim::say_executed(here, attempt, by, answer, &node.id, &node.terms);
                        let mut commit = said.map_err(refused)?;
                        commit.steps.extend(steps);
                        if claim.state == ClaimState::Held {
                            commit.steps.extend(node.overtaken(key.environment, &claim).await?);
                        }
                        (commit, Resolved::Executed)
                    }
                }
            }
        };
        if node.commit_lasting(commit).await?.is_some() {
            node.metrics.claim_settled(key.environment.as_str(), word_of(resolved));
            return Ok(resolved);
        }
        retry.conflict().await?;
    }
}

fn word_of(resolved: Resolved) -> &'static str {
    match resolved {
        Resolved::Executed => "said-executed",
        Resolved::SaidOnce => "said-once",
        Resolved::Absent => "shown-absent",
        Resolved::Abandoned => "abandoned",
    }
}
