//! What operators watch and only the store knows: looked up now and then, and told.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::explain;
use super::{Books, InForce};
use crate::base::ids::{Environment, HoldId};
use crate::commit::{Index, Kind, RecordKey, StoreFault, StoreTime};
use crate::stations::claim::State;

/// How long after a look the next one is made, at least; where looks take long, so many times that.
const EVERY: Duration = Duration::from_secs(5);
const TIMES: u32 = 20;
/// So many holds, and calls in doubt, are looked at.
const MOST: usize = 1_024;

/// Since when each of those waits that were looked at: a record is read once.
#[derive(Debug, Default)]
struct Since(HashMap<(Environment, String), Option<StoreTime>>);

/// As long as the process lives.
pub async fn look_out(books: Arc<Books>, in_force: Arc<InForce>, environments: Vec<Environment>) {
    let (mut held, mut doubted) = (Since::default(), Since::default());
    loop {
        let began = books.clock.elapsed();
        for environment in &environments {
            if let Err(fault) = look(&books, *environment, &mut held, &mut doubted).await {
                books.told_of(&fault);
            }
        }
        if let Err(fault) = limits(&books, &in_force, &environments).await {
            books.told_of(&fault);
        }
        let took = books.clock.elapsed().saturating_sub(began);
        tokio::time::sleep(EVERY.max(took.saturating_mul(TIMES))).await;
    }
}

async fn look(
    books: &Books,
    environment: Environment,
    held: &mut Since,
    doubted: &mut Since,
) -> Result<(), StoreFault> {
    let oldest = held.oldest(books, environment, Index::Held).await?;
    books.metrics.holds_open_since(environment.as_str(), oldest.map(seconds));
    let oldest = doubted.oldest(books, environment, Index::Unknown).await?;
    books.metrics.in_doubt_since(environment.as_str(), oldest.map(seconds));
    Ok(())
}

impl Since {
    /// The earliest of an index; those that are gone are forgotten.
    async fn oldest(
        &mut self,
        books: &Books,
        environment: Environment,
        index: Index,
    ) -> Result<Option<StoreTime>, StoreFault> {
        let mut known = HashMap::new();
        for (_, name) in books.store.due(environment, index, None, MOST).await? {
            let key = (environment, name);
            let at = match self.0.get(&key) {
                Some(at) => *at,
                // One that cannot be read is told by those that look after it.
                None => match since(books, environment, index, &key.1).await {
                    Err(StoreFault::Broken(_)) => None,
                    at => at?,
                },
            };
            known.insert(key, at);
        }
        let oldest = known.values().flatten().min().copied();
        self.0.retain(|(of, _), _| *of != environment);
        self.0.extend(known);
        Ok(oldest)
    }
}

async fn since(
    books: &Books,
    environment: Environment,
    index: Index,
    name: &str,
) -> Result<Option<StoreTime>, StoreFault> {
    match index {
        Index::Held => hold_since(books, environment, name).await,
        _ => doubt_since(books, environment, name).await,
    }
}

async fn hold_since(books: &Books, environment: Environment, name: &str) -> Result<Option<StoreTime>, StoreFault> {
    let Some(id) = HoldId::parse(name) else { return Ok(None) };
    let found = books.find_hold(&super::holds::key(environment, &id)).await?;
    Ok(found.map(|(record, hold)| hold.created(record.at)))
}

async fn doubt_since(books: &Books, environment: Environment, name: &str) -> Result<Option<StoreTime>, StoreFault> {
    let key = RecordKey { environment, kind: Kind::Claim, name: name.to_owned() };
    let found = books.find(&key).await?;
    Ok(found.and_then(|(record, claim)| match claim.state {
        State::Unknown { doubted, .. } => Some(doubted.unwrap_or(record.at)),
        _ => None,
    }))
}

/// What each limit has used in its fullest window.
async fn limits(books: &Arc<Books>, in_force: &InForce, environments: &[Environment]) -> Result<(), StoreFault> {
    let policies = in_force.now().policies.clone();
    for limit in &policies.rules.limits {
        for environment in environments {
            let fullest = explain::fullest(books, *environment, limit).await?;
            books.metrics.limit_used(environment.as_str(), &limit.id, limit.mode, limit.max, fullest);
        }
    }
    Ok(())
}

fn seconds(at: StoreTime) -> i64 {
    at.as_micros() / 1_000_000
}
