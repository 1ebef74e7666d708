//! What people do to the books: freeze and lift, and say what became of calls in doubt.
//!
//! One function for each act, whoever asks for it and by whatever way. Each act is one commit with its Entry.

use serde_json::Value;

use super::Books;
use super::books::TRIES;
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::commit::{Content, Index, Kind, Record, RecordKey, StoreFault, StoreTime};
use crate::stations::claim::{
    self, Answer, Claim, Freeze, Frozen, NotTaken, Otherwise, Owner, Standpoint, State, is_record_of,
};

/// As many freezes are listed.
pub(super) const MOST_FROZEN: usize = 1_000;
/// As many claims of a state are put in order to be listed.
const MOST_CLAIMS: usize = 10_000;

/// What is frozen, since when, by whom and why.
#[derive(Clone, Debug)]
pub struct Standing {
    pub environment: Environment,
    pub freeze: Freeze,
    pub at: StoreTime,
    pub told: Frozen,
}

/// The freezes of an environment, the earliest first.
pub async fn frozen(books: &Books, environment: Environment) -> Result<Vec<Standing>, StoreFault> {
    let mut all = Vec::new();
    for (_, name) in books.store.due(environment, Index::Frozen, None, MOST_FROZEN).await? {
        let Some(freeze) = Freeze::parse(&name) else { continue };
        all.extend(standing(books, environment, freeze).await?);
    }
    Ok(all)
}

/// A freeze, if it stands.
pub async fn standing(books: &Books, environment: Environment, freeze: Freeze) -> Result<Option<Standing>, StoreFault> {
    let (record, _) = books.store.read(&freeze.key(environment)).await?;
    Ok(record.map(|record| {
        let told = match &record.content {
            Content::Whole(bytes) => claim::frozen(bytes),
            Content::Spent => Frozen::default(),
        };
        Standing { environment, freeze, at: record.at, told }
    }))
}

/// `false`: it was frozen already, and stays as it was.
pub async fn freeze(
    books: &Books,
    environment: Environment,
    what: &Freeze,
    person: &Owner,
    reason: &str,
) -> Result<bool, StoreFault> {
    let commit = claim::freeze(what, environment, person, reason, &books.node);
    books.commit(commit).await.map(|committed| committed.is_some())
}

/// `false`: it was not frozen.
pub async fn unfreeze(
    books: &Books,
    environment: Environment,
    what: &Freeze,
    person: &Owner,
    reason: &str,
) -> Result<bool, StoreFault> {
    if *what == Freeze::Restored && standing(books, environment, Freeze::Restored).await?.is_some() {
        books.forget_holds(environment).await?;
    }
    for _ in 0..TRIES {
        let (Some(record), _) = books.store.read(&what.key(environment)).await? else { return Ok(false) };
        let commit = claim::unfreeze(what, environment, record.version, person, reason, &books.node);
        if books.commit(commit).await?.is_some() {
            return Ok(true);
        }
    }
    Err(changing())
}

/// The claims of a state in an environment that stand after a name, in the order of their names, at most `count`; and
/// whether there are more.
pub async fn claims(
    books: &Books,
    environment: Environment,
    index: Index,
    after: Option<&str>,
    count: usize,
) -> Result<(Vec<(RecordKey, Record, Claim)>, bool), StoreFault> {
    let due = books.store.due(environment, index, None, MOST_CLAIMS).await?;
    let mut names: Vec<String> = due.into_iter().map(|(_, name)| name).collect();
    names.sort_unstable();
    let mut left = names.into_iter().filter(|name| after.is_none_or(|after| name.as_str() > after));
    let mut found = Vec::new();
    for name in left.by_ref().take(count) {
        let key = RecordKey { environment, kind: Kind::Claim, name };
        match books.find(&key).await {
            Ok(claim) => found.extend(claim.map(|(record, claim)| (key, record, claim))),
            // One that cannot be read does not hide the others.
            Err(fault @ StoreFault::Broken(_)) => books.told_of(&fault),
            Err(fault) => return Err(fault),
        }
    }
    Ok((found, left.next().is_some()))
}

/// What a person says became of a call in doubt.
#[derive(Clone, Debug)]
pub enum Word<'w> {
    /// With the record of upstream that shows it.
    Executed(&'w Value),
    Absent,
}

/// What came of a person's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    Executed,
    /// One more person has to say so.
    SaidOnce,
    /// Two have: it may be sent again.
    Absent,
}

/// Why nothing came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unresolved {
    NoSuchClaim,
    /// What it is instead.
    NotInDoubt(&'static str),
    NotTaken(NotTaken),
    NotItsRecord(Otherwise),
    Store(StoreFault),
}

impl From<StoreFault> for Unresolved {
    fn from(fault: StoreFault) -> Unresolved {
        Unresolved::Store(fault)
    }
}

pub async fn resolve(
    books: &Books,
    catalog: &Catalog,
    key: &RecordKey,
    person: &Owner,
    reason: &str,
    word: Word<'_>,
) -> Result<Resolved, Unresolved> {
    for _ in 0..TRIES {
        let now = books.store.time().await?;
        let Some((record, claim)) = books.find(key).await? else { return Err(Unresolved::NoSuchClaim) };
        let State::Unknown { sent, .. } = &claim.state else {
            return Err(Unresolved::NotInDoubt(claim.state.as_str()));
        };
        let here = Standpoint { key, version: record.version, at: record.at, claim: &claim };
        let (commit, resolved) = match word {
            Word::Absent => {
                let said = claim::say_absent(here, person, reason, now, &books.node, &books.terms);
                let (commit, next) = said.map_err(Unresolved::NotTaken)?;
                (commit, if next.is_some() { Resolved::Absent } else { Resolved::SaidOnce })
            }
            Word::Executed(shown) => {
                if let (Some(operation), Some(id)) = (catalog.operation(&claim.operation), &claim.request_id) {
                    is_record_of(operation, id.as_str(), sent, shown).map_err(Unresolved::NotItsRecord)?;
                }
                let answer = Answer::of_record(shown);
                let said = claim::say_executed(here, person, reason, answer, &books.node, &books.terms);
                (said.map_err(Unresolved::NotTaken)?, Resolved::Executed)
            }
        };
        if books.commit(commit).await?.is_some() {
            books.metrics.claim_settled(key.environment.as_str(), word_of(resolved));
            return Ok(resolved);
        }
    }
    Err(Unresolved::Store(changing()))
}

fn word_of(resolved: Resolved) -> &'static str {
    match resolved {
        Resolved::Executed => "said-executed",
        Resolved::SaidOnce => "said-absent",
        Resolved::Absent => "shown-absent",
    }
}

pub(super) fn changing() -> StoreFault {
    StoreFault::Away("the record changed again and again".to_owned())
}
