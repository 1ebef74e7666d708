//! Acts of operators: freezing and unfreezing, and resolving calls with an unknown outcome.
//!
//! One function for each act, whichever way it comes. Each act is one commit with its audit entry.

use serde_json::Value;

use super::Node;
use super::retry::Retry;
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::ledger::{Content, Index, Kind, Record, RecordKey, StoreFault, StoreTime, Versioned};
use crate::stations::claim::{
    self, Claim, ClaimState, Freeze, Frozen, JointWord, Owner, RecordMismatch, ResolveRefusal, SentRequest,
    StoredAnswer, is_record_of,
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
    Ok(record.map(|record| {
        let told = match &record.content {
            Content::Whole(bytes) => claim::frozen(bytes),
            Content::Spent => Frozen::default(),
        };
        StandingFreeze { environment, freeze, at: record.at, told }
    }))
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

/// Unfreezes. Returns `false` where it was not frozen.
pub async fn unfreeze(
    node: &Node,
    environment: Environment,
    what: &Freeze,
    person: &Owner,
    reason: &str,
) -> Result<bool, StoreFault> {
    if *what == Freeze::Restored && standing(node, environment, Freeze::Restored).await?.is_some() {
        node.forget_holds(environment).await?;
    }
    let mut retry = Retry::default();
    loop {
        let (Some(record), _) = node.store.read(&what.key(environment)).await? else { return Ok(false) };
        let commit = claim::unfreeze(what, environment, record.version, person, reason, &node.id);
        if node.commit(commit).await?.is_some() {
            return Ok(true);
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
    /// Executed, with the record of upstream that shows it.
    Executed(&'w Value),
    /// What takes two people.
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
                let said = claim::say_executed(here, person, reason, answer, &node.id, &node.terms);
                let said = said.map_err(|refusal| match refusal {
                    ResolveRefusal::NotInDoubt => not_in_doubt,
                    refusal => Unresolved::Refused(refusal),
                });
                let mut commit = said?;
                if claim.state == ClaimState::Held {
                    commit.steps.extend(node.overtaken(key.environment, &claim).await?);
                }
                (commit, Resolved::Executed)
            }
        };
        if node.commit(commit).await?.is_some() {
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
