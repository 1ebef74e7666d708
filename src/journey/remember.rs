//! What a store forgot is told to it again, out of the audit chain of this node.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::Books;
use super::books::{Drained, TRIES};
use super::upkeep::{RecoverError, flush};
use crate::adapters::audit::entries_above;
use crate::base::ids::Environment;
use crate::commit::{Commit, CommitError, Content, Obstacle, Outstanding, StoreFault};
use crate::stations::claim::{self, Forgotten, Freeze, Tale, Told};

/// So many claims at one stroke.
const BATCH: usize = 64;
const WHY: (&str, &str) = ("sluice serve", "the store has forgotten what nodes know of it");

/// Why it could not be told.
#[derive(Debug)]
pub enum NotRemembered {
    Store(StoreFault),
    Files(std::io::Error),
}

impl From<StoreFault> for NotRemembered {
    fn from(fault: StoreFault) -> NotRemembered {
        NotRemembered::Store(fault)
    }
}

/// All claims above a number; how many the store did not know. Then this node is not waited for any more.
pub async fn remember(
    books: &Arc<Books>,
    environment: Environment,
    from: u64,
    folder: &Path,
) -> Result<usize, NotRemembered> {
    // What lies in the outbox belongs to the files.
    flush(books, environment).await.map_err(|error| match error {
        RecoverError::Store(fault) => NotRemembered::Store(fault),
        RecoverError::Audit(fault) => NotRemembered::Files(std::io::Error::other(fault)),
        RecoverError::Unsettled(error) => NotRemembered::Files(error),
    })?;
    let (folder, node) = (folder.to_owned(), books.node.clone());
    let reading = tokio::task::spawn_blocking(move || {
        let mut tale = Tale::default();
        entries_above(&folder, &node, environment, from, &mut |entry| tale.add(&entry)).map(|()| tale)
    });
    let tale = reading.await.map_err(|error| NotRemembered::Files(std::io::Error::other(error)))?;
    let tale = tale.map_err(NotRemembered::Files)?;
    let now = books.store.time().await?;
    let mut claims: Vec<(String, Told)> =
        tale.into_claims().filter(|(_, told)| !told.is_past(now, &books.terms)).collect();
    let mut count = 0_usize;
    while !claims.is_empty() {
        let rest = claims.split_off(claims.len().min(BATCH));
        let batch = std::mem::replace(&mut claims, rest);
        count = count.saturating_add(tell(books, environment, batch.into_iter().collect()).await?);
    }
    told_all(books, environment).await?;
    Ok(count)
}

/// A batch: what the store knows already is left out, or made as ended as the chain knows it.
async fn tell(books: &Books, environment: Environment, mut batch: BTreeMap<String, Told>) -> Result<usize, StoreFault> {
    let mut over = 0_usize;
    while !batch.is_empty() {
        let names: Vec<&str> = batch.keys().map(String::as_str).collect();
        let steps = batch.iter().flat_map(|(name, told)| told.steps(environment, name, &books.terms)).collect();
        let commit = claim::remember(environment, &names, steps, &books.node);
        let obstacles = match commit_or_stand(books, commit.clone()).await? {
            None => return Ok(batch.len().saturating_add(over)),
            Some(obstacles) => obstacles,
        };
        let known = claim::in_the_way(&commit, obstacles);
        if known.is_empty() {
            return Err(StoreFault::Away("something else than claims stands in the way".to_owned()));
        }
        for (key, record) in known {
            let Some(told) = batch.remove(&key.name) else { continue };
            let steps = claim::whole(&record).and_then(|claim| told.over(&key, &record, &claim, &books.terms));
            let Some(steps) = steps else { continue };
            let commit = claim::remember(environment, &[key.name.as_str()], steps, &books.node);
            // Whoever changed it meanwhile knows it as well as the chain does.
            if commit_or_stand(books, commit).await?.is_none() {
                over = over.saturating_add(1);
            }
        }
    }
    Ok(over)
}

async fn told_all(books: &Books, environment: Environment) -> Result<(), StoreFault> {
    for _ in 0..TRIES {
        let (record, _) = books.store.read(&Freeze::Restored.key(environment)).await?;
        let Some(record) = record else { return Ok(()) };
        let Content::Whole(bytes) = &record.content else { return Ok(()) };
        let forgotten = Forgotten::read(bytes);
        if !forgotten.nodes.contains_key(&books.node) {
            return Ok(());
        }
        if forgotten.nodes.len() == 1 && !forgotten.by_person {
            // This opens money again, and every node has told what it sent.
            books.forget_holds(environment).await?;
        }
        let commit = claim::remembered(environment, record.version, forgotten, WHY, &books.node);
        if books.commit(commit).await?.is_some() {
            return Ok(());
        }
    }
    Err(StoreFault::Away("its freeze changed again and again".to_owned()))
}

/// What stood in its way.
async fn commit_or_stand(books: &Books, commit: Commit) -> Result<Option<Vec<Obstacle>>, StoreFault> {
    let (environment, node, entry) = (commit.environment, commit.node.clone(), commit.entry.clone());
    match books.store.commit(commit).await {
        Ok(committed) => {
            let outstanding = Outstanding { environment, number: committed.number, at: committed.at, node, entry };
            books.drain.try_send(Drained::Waiting(outstanding)).ok();
            Ok(None)
        }
        Err(CommitError::Stood { obstacles, .. }) => Ok(Some(obstacles)),
        Err(CommitError::Fault(fault)) => Err(fault),
    }
}
