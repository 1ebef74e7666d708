//! Sessions of people at the console: every node knows them, and they end on every node at once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::Node;
use super::retry::Retry;
use crate::adapters::random::session_id;
use crate::base::ids::Environment;
use crate::ledger::{Index, Number, Record, RecordKey, StoreFault, StoreTime};
use crate::people::session;
use crate::people::session::{
    EarlierSessions, MAX_SESSIONS, Session, SessionId, SessionTerms, ShownSessions, StandingSession,
};
use crate::stations::claim::Owner;

/// The person of a session to begin, and the token that proved it.
#[derive(Clone, Debug)]
pub struct NewSession {
    pub who: Owner,
    pub roles: BTreeSet<String>,
    /// How long the token is still valid.
    pub token_for: Duration,
    /// The way of signing in.
    pub way: &'static str,
    /// Whether the page signs in again at the provider when it ends.
    pub renews: bool,
}

/// The most ended sessions that one sign-in takes off the count.
const MAX_LAPSED: usize = 64;
/// In how many tries the records of a person's sessions are removed as well when all of them are ended.
const CLEARED_WITHIN: usize = 3;

/// The reasons why a session does not begin.
#[derive(Debug)]
pub enum SessionRefusal {
    /// As many sessions are open as may be.
    Full,
    Store(StoreFault),
}

impl From<StoreFault> for SessionRefusal {
    fn from(fault: StoreFault) -> SessionRefusal {
        SessionRefusal::Store(fault)
    }
}

/// Begins a session under a new random id.
pub async fn begin(
    node: &Node,
    environment: Environment,
    newcomer: &NewSession,
    terms: SessionTerms,
) -> Result<(SessionId, StandingSession), SessionRefusal> {
    let id = session_id().ok_or_else(|| StoreFault::Away("the operating system gives no random bytes".to_owned()))?;
    let mut retry = Retry::default();
    loop {
        let (end, _) = node.store.read(&session::end_of_all_key(environment, &newcomer.who)).await?;
        let end = end.map(|record| record.version);
        let list = session::list_key(environment, &newcomer.who);
        let (list, now) = node.store.read(&list).await?;
        let most = terms.most.saturating_add(MAX_LAPSED);
        let counted = node.store.due(environment, Index::Session, None, most).await?;
        let (lapsed, open): (Vec<_>, Vec<_>) = counted.into_iter().partition(|(end, _)| *end <= now);
        let lapsed = lapsed.into_iter().take(MAX_LAPSED).map(|(_, name)| name).collect();
        let before = EarlierSessions {
            end,
            list: list.as_ref().map(|record| record.version),
            names: session::of_person(list.as_ref()),
            ending: Vec::new(),
            lapsed,
        };
        let before = make_room(node, environment, before).await?;
        if open.len().saturating_sub(before.ending.len()) >= terms.most {
            return Err(SessionRefusal::Full);
        }
        let until = now.plus(terms.longest.min(newcomer.token_for));
        let (who, roles) = (newcomer.who.clone(), newcomer.roles.clone());
        let session = Session { who, roles, until, renews: newcomer.renews, after_end: end.unwrap_or_default() };
        let here = (environment, &node.id);
        let commit = session::begin(&id, &session, before, newcomer.way, now, terms, here);
        if let Some(committed) = node.commit(commit).await? {
            return Ok((id, StandingSession { session, at: committed.at(), version: committed.number() }));
        }
        retry.conflict().await?;
    }
}

/// Returns the session of a cookie, if there is one. `is_use` extends it.
pub async fn find(
    node: &Node,
    environment: Environment,
    id: &SessionId,
    terms: SessionTerms,
    is_use: bool,
) -> Result<Option<StandingSession>, StoreFault> {
    let key = id.key(environment);
    let Some((mut standing, now)) = standing(node, &key, terms).await? else { return Ok(None) };
    if is_use && standing.is_due(now, terms) {
        // A failed extension does no harm: somebody else wrote the session, or the next use extends it.
        match node.commit(session::stay(&key, &standing, now, terms, &node.id)).await {
            Ok(Some(committed)) => (standing.at, standing.version) = (committed.at(), committed.number()),
            Ok(None) => {}
            Err(fault) => node.told_of(&fault),
        }
    }
    Ok(Some(standing))
}

/// How a session was found that somebody ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionFound {
    /// It was open, and is ended.
    Open,
    /// It had been ended.
    Ended,
    /// The store does not show it, which proves nothing: it was never there or ran out, or somebody took it away.
    Unseen,
}

/// Ends a session that the store shows.
pub async fn end(
    node: &Node,
    environment: Environment,
    id: &SessionId,
    terms: SessionTerms,
) -> Result<SessionFound, StoreFault> {
    let key = id.key(environment);
    let mut retry = Retry::default();
    loop {
        if has_ended(node, environment, session::name_of(&key)).await? {
            return Ok(SessionFound::Ended);
        }
        let Some((standing, _)) = standing(node, &key, terms).await? else { return Ok(SessionFound::Unseen) };
        if node.commit(session::end(&key, &standing, terms, &node.id)).await?.is_some() {
            return Ok(SessionFound::Open);
        }
        retry.conflict().await?;
    }
}

/// Ends a session that the store does not show: it is over also where its record comes back.
pub async fn end_unseen(
    node: &Node,
    environment: Environment,
    id: &SessionId,
    terms: SessionTerms,
) -> Result<(), StoreFault> {
    let key = id.key(environment);
    // Another one may have ended it meanwhile.
    let is_made = node.commit(session::end_unseen(&key, terms, &node.id)).await?.is_some();
    if is_made || has_ended(node, environment, session::name_of(&key)).await? {
        return Ok(());
    }
    Err(StoreFault::Away("another node changed the same record meanwhile".to_owned()))
}

/// Ends all sessions of a person on every node, and returns how many of them the store showed.
pub async fn end_all(
    node: &Node,
    environment: Environment,
    who: &Owner,
    why: (&Owner, &str),
    terms: SessionTerms,
) -> Result<usize, StoreFault> {
    node.takes_acts(environment)?;
    let (mut retry, mut tries) = (Retry::default(), 0_usize);
    loop {
        // A sign-in after the reading meets the end, or changes the list.
        let (end, _) = node.store.read(&session::end_of_all_key(environment, who)).await?;
        // The end alone ends them. So somebody who changes their records again and again does not hinder it.
        let shown =
            if tries < CLEARED_WITHIN { shown(node, environment, who).await? } else { ShownSessions::default() };
        let end = end.map(|record| record.version);
        let commit = session::end_all(who, end, &shown, why, terms, (environment, &node.id));
        if node.commit(commit).await?.is_some() {
            node.changes.happened();
            return Ok(shown.open.len());
        }
        tries = tries.saturating_add(1);
        retry.conflict().await?;
    }
}

/// Returns the sessions of a person that the store shows. One that nobody can read is none.
async fn shown(node: &Node, environment: Environment, who: &Owner) -> Result<ShownSessions, StoreFault> {
    let list = readable(node.store.read(&session::list_key(environment, who)).await)?;
    let open = open(node, environment, session::of_person(list.as_ref())).await?;
    Ok(ShownSessions { list: list.map(|record| record.version), open })
}

fn readable(read: Result<(Option<Record>, StoreTime), StoreFault>) -> Result<Option<Record>, StoreFault> {
    match read {
        Ok((record, _)) => Ok(record),
        Err(StoreFault::Broken(_)) => Ok(None),
        Err(fault) => Err(fault),
    }
}

/// Returns a session that has not ended, and the store's time.
async fn standing(
    node: &Node,
    key: &RecordKey,
    terms: SessionTerms,
) -> Result<Option<(StandingSession, StoreTime)>, StoreFault> {
    let (record, now) = node.store.read(key).await?;
    let standing = record.as_ref().and_then(|record| session::standing(record, now, terms));
    // Somebody who writes the store could put the record of an ended one back.
    match standing {
        Some(standing) if !is_over(node, key, &standing.session).await? => Ok(Some((standing, now))),
        _ => Ok(None),
    }
}

/// Whether a session was ended, or all sessions of its person since it began.
async fn is_over(node: &Node, key: &RecordKey, session: &Session) -> Result<bool, StoreFault> {
    let of_all = session::end_of_all_key(key.environment, &session.who);
    let name = session::name_of(key);
    let (has_ended, (end, _)) = tokio::try_join!(has_ended(node, key.environment, name), node.store.read(&of_all))?;
    Ok(has_ended || end.is_some_and(|end| end.version > session.after_end))
}

async fn has_ended(node: &Node, environment: Environment, name: &str) -> Result<bool, StoreFault> {
    Ok(node.store.read(&session::end_key(environment, name)).await?.0.is_some())
}

/// Returns those of these sessions that the store still holds, and that have not ended.
async fn open(node: &Node, environment: Environment, names: Vec<String>) -> Result<Vec<(String, Number)>, StoreFault> {
    let mut open = Vec::new();
    for name in names {
        let record = readable(node.store.read(&session::key_of(environment, &name)).await)?;
        if let Some(record) = record
            && !has_ended(node, environment, &name).await?
        {
            open.push((name, record.version));
        }
    }
    Ok(open)
}

/// Forgets ended sessions, then ends the oldest until there is room for one more.
async fn make_room(
    node: &Node,
    environment: Environment,
    mut before: EarlierSessions,
) -> Result<EarlierSessions, StoreFault> {
    if before.names.len() < MAX_SESSIONS {
        return Ok(before);
    }
    let mut standing = open(node, environment, std::mem::take(&mut before.names)).await?;
    let too_many = standing.len().saturating_sub(MAX_SESSIONS.saturating_sub(1));
    let stay = standing.split_off(too_many);
    (before.ending, before.names) = (standing, stay.into_iter().map(|(name, _)| name).collect());
    Ok(before)
}
