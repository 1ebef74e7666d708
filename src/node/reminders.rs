//! Reminds people of holds that expire soon: once for each hold, by one node.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Node;
use super::holds::key;
use crate::base::ids::{Environment, HoldId};
use crate::ledger::{Index, StoreFault, StoreTime, Versioned};
use crate::notify::NoticeEvent;
use crate::stations::hold::{self};

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The most holds that are watched.
const MAX_HOLDS: usize = 4_096;
/// The most holds that one pass reads.
const BATCH: usize = 64;

/// Reminds, as long as the process lives, of holds that expire within this time.
pub async fn remind(node: Arc<Node>, environment: Environment, before: Duration) {
    let mut known = HashMap::new();
    loop {
        if let Err(fault) = remind_due(&node, environment, before, &mut known).await {
            node.told_of(&fault);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Makes one pass. `known` has the time to remind of each hold that was read; a hold is reminded of once.
async fn remind_due(
    node: &Node,
    environment: Environment,
    before: Duration,
    known: &mut HashMap<HoldId, Option<StoreTime>>,
) -> Result<(), StoreFault> {
    let now = node.time().await?;
    let due = node.store.due(environment, Index::Held, Some(now.plus(before)), MAX_HOLDS).await?;
    let soon: Vec<HoldId> = due.into_iter().filter_map(|(_, name)| HoldId::parse(&name)).collect();
    node.metrics.holds_expiring(environment.as_str(), soon.len());
    if !node.outlets.takes(NoticeEvent::Reminder, environment) {
        return Ok(());
    }
    let at_hand: HashMap<HoldId, Option<StoreTime>> = soon.iter().filter_map(|id| known.remove_entry(id)).collect();
    *known = at_hand;
    let is_due = |id: &&HoldId| known.get(*id).is_none_or(|at| at.is_some_and(|at| at <= now));
    let due: Vec<HoldId> = soon.iter().filter(is_due).take(BATCH).cloned().collect();
    for id in due {
        let again = remind_one(node, environment, before, now, &id).await?;
        known.insert(id, again);
    }
    Ok(())
}

/// Reminds of one hold if it is time, or returns when it is.
async fn remind_one(
    node: &Node,
    environment: Environment,
    before: Duration,
    now: StoreTime,
    id: &HoldId,
) -> Result<Option<StoreTime>, StoreFault> {
    let key = key(environment, id);
    let (record, hold) = match node.find_hold(&key).await {
        Ok(Some(found)) => found,
        Ok(None) => return Ok(None),
        // A record that cannot be read does not stop the others.
        Err(fault @ StoreFault::Broken(_)) => {
            node.told_of(&fault);
            return Ok(None);
        }
        Err(fault) => return Err(fault),
    };
    let here = Versioned { key: &key, version: record.version, at: record.at, value: &hold };
    // Where people have less time than twice that, they get half of it before they are reminded.
    let at = here.deadline().minus(before.min(hold.lasts / 2));
    if at > now {
        return Ok(Some(at));
    }
    match hold::remind(here, &node.id) {
        // A hold that changed meanwhile is read again.
        Some(commit) => Ok(node.commit(commit).await?.is_none().then_some(now)),
        None => Ok(None),
    }
}
