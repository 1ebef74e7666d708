//! Reminding people of what expires soon: once for each hold, by one of all nodes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Books;
use super::holds::key;
use crate::base::ids::{Environment, HoldId};
use crate::commit::{Index, StoreFault, StoreTime};
use crate::stations::hold::{self, Here};
use crate::stations::tell::Event;

const EVERY: Duration = Duration::from_secs(1);
/// How many are counted.
const MOST: usize = 4_096;
/// How many are looked at in one go.
const HANDFUL: usize = 64;

/// Looks, as long as the process lives, for what expires within this time.
pub async fn remind(books: Arc<Books>, environment: Environment, before: Duration) {
    let mut known = HashMap::new();
    loop {
        if let Err(fault) = look(&books, environment, before, &mut known).await {
            books.told_of(&fault);
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// `known`: when those are to be reminded of that were looked at; never again those that were.
async fn look(
    books: &Books,
    environment: Environment,
    before: Duration,
    known: &mut HashMap<HoldId, Option<StoreTime>>,
) -> Result<(), StoreFault> {
    let now = books.time().await?;
    let due = books.store.due(environment, Index::Held, Some(now.plus(before)), MOST).await?;
    let soon: Vec<HoldId> = due.into_iter().filter_map(|(_, name)| HoldId::parse(&name)).collect();
    books.metrics.holds_expiring(environment.as_str(), soon.len());
    if !books.outlets.takes(Event::Reminder, environment) {
        return Ok(());
    }
    let at_hand: HashMap<HoldId, Option<StoreTime>> = soon.iter().filter_map(|id| known.remove_entry(id)).collect();
    *known = at_hand;
    let is_due = |id: &&HoldId| known.get(*id).is_none_or(|at| at.is_some_and(|at| at <= now));
    let due: Vec<HoldId> = soon.iter().filter(is_due).take(HANDFUL).cloned().collect();
    for id in due {
        let again = one(books, environment, before, now, &id).await?;
        known.insert(id, again);
    }
    Ok(())
}

/// Reminds of it, if it is time; or says when it is.
async fn one(
    books: &Books,
    environment: Environment,
    before: Duration,
    now: StoreTime,
    id: &HoldId,
) -> Result<Option<StoreTime>, StoreFault> {
    let key = key(environment, id);
    let (record, hold) = match books.find_hold(&key).await {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(None),
        // One that cannot be read does not stand in the way of the others.
        Err(fault @ StoreFault::Broken(_)) => {
            books.told_of(&fault);
            return Ok(None);
        }
        Err(fault) => return Err(fault),
    };
    let here = Here { key: &key, version: record.version, at: record.at, hold: &hold };
    // Where people have less time than twice that, half of it is theirs before they are reminded.
    let at = here.deadline().minus(before.min(hold.lasts / 2));
    if at > now {
        return Ok(Some(at));
    }
    match hold::remind(here, &books.node) {
        // What changed meanwhile is looked at anew.
        Some(commit) => Ok(books.commit(commit).await?.is_none().then_some(now)),
        None => Ok(None),
    }
}
