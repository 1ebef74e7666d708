//! People sign in at the console, stay, and sign out: known to every node, and ended on every node at once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Books;
use super::books::TRIES;
use super::operate::changing;
use crate::adapters::random::session_id;
use crate::base::ids::Environment;
use crate::commit::{Number, StoreFault};
use crate::stations::claim::Owner;
use crate::stations::session::{self, Before, MOST, Session, SessionId, SessionTerms, Standing};

/// Whose session is to begin, and by which token.
#[derive(Clone, Debug)]
pub struct Newcomer {
    pub who: Owner,
    pub roles: BTreeSet<String>,
    /// How long the token is still good.
    pub token_for: Duration,
    /// How they came.
    pub way: &'static str,
}

/// A session that none of before is like.
pub async fn begin(
    books: &Books,
    environment: Environment,
    newcomer: &Newcomer,
    terms: SessionTerms,
) -> Result<(SessionId, Standing), StoreFault> {
    let id = session_id().ok_or_else(|| StoreFault::Away("the machine has no randomness".to_owned()))?;
    for _ in 0..TRIES {
        let list = session::list_key(environment, &newcomer.who);
        let (list, now) = books.store.read(&list).await?;
        let before = make_room(
            books,
            environment,
            Before {
                list: list.as_ref().map(|record| record.version),
                names: session::of_person(list.as_ref()),
                ending: Vec::new(),
            },
        );
        let until = now.plus(terms.longest.min(newcomer.token_for));
        let session = Session { who: newcomer.who.clone(), roles: newcomer.roles.clone(), until };
        let here = (environment, &books.node);
        let commit = session::begin(&id, &session, before.await?, newcomer.way, now, terms, here);
        if let Some(committed) = books.commit(commit).await? {
            return Ok((id, Standing { session, at: committed.at, version: committed.number }));
        }
    }
    Err(changing())
}

/// What stands behind a cookie, if anything. `is_use`: it goes on for it.
pub async fn find(
    books: &Books,
    environment: Environment,
    id: &SessionId,
    terms: SessionTerms,
    is_use: bool,
) -> Result<Option<Standing>, StoreFault> {
    let key = id.key(environment);
    let (record, now) = books.store.read(&key).await?;
    let standing = record.as_ref().and_then(|record| session::standing(record, now, terms));
    let Some(mut standing) = standing else { return Ok(None) };
    if is_use && standing.is_due(now, terms) {
        // Where this does not succeed, somebody else wrote it, or it is written the next time.
        match books.commit(session::stay(&key, &standing, now, terms, &books.node)).await {
            Ok(Some(committed)) => (standing.at, standing.version) = (committed.at, committed.number),
            Ok(None) => {}
            Err(fault) => books.told_of(&fault),
        }
    }
    Ok(Some(standing))
}

/// `false`: it was over already.
pub async fn end(
    books: &Books,
    environment: Environment,
    id: &SessionId,
    terms: SessionTerms,
) -> Result<bool, StoreFault> {
    let key = id.key(environment);
    for _ in 0..TRIES {
        let (record, now) = books.store.read(&key).await?;
        let standing = record.as_ref().and_then(|record| session::standing(record, now, terms));
        let Some(standing) = standing else { return Ok(false) };
        if books.commit(session::end(&key, &standing, &books.node)).await?.is_some() {
            return Ok(true);
        }
    }
    Err(changing())
}

/// Ends all that a person has open, on every node; how many they were.
pub async fn end_all(
    books: &Books,
    environment: Environment,
    who: &Owner,
    why: (&Owner, &str),
) -> Result<usize, StoreFault> {
    for _ in 0..TRIES {
        // The list is read first: whoever signs in after it was read changes it.
        let (list, _) = books.store.read(&session::list_key(environment, who)).await?;
        let Some(version) = list.as_ref().map(|record| record.version) else { return Ok(0) };
        let open = open(books, environment, session::of_person(list.as_ref())).await?;
        let count = open.len();
        let commit = session::end_all(who, version, open, why, (environment, &books.node));
        if books.commit(commit).await?.is_some() {
            books.changes.happened();
            return Ok(count);
        }
    }
    Err(changing())
}

/// Those of these that the store still holds.
async fn open(
    books: &Books,
    environment: Environment,
    names: Vec<String>,
) -> Result<Vec<(String, Number)>, StoreFault> {
    let mut open = Vec::new();
    for name in names {
        if let (Some(record), _) = books.store.read(&session::key_of(environment, &name)).await? {
            open.push((name, record.version));
        }
    }
    Ok(open)
}

/// Those that are over are forgotten; then the oldest end until there is room for one more.
async fn make_room(books: &Books, environment: Environment, mut before: Before) -> Result<Before, StoreFault> {
    if before.names.len() < MOST {
        return Ok(before);
    }
    let mut standing = open(books, environment, std::mem::take(&mut before.names)).await?;
    let too_many = standing.len().saturating_sub(MOST.saturating_sub(1));
    let stay = standing.split_off(too_many);
    (before.ending, before.names) = (standing, stay.into_iter().map(|(name, _)| name).collect());
    Ok(before)
}
