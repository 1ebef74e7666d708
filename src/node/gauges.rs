//! Gauges whose values only the store knows: read now and then, and set.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::limit_usage;
use super::{InForce, Node};
use crate::base::ids::{Environment, HoldId};
use crate::ledger::{Index, Kind, RecordKey, StoreFault, StoreTime};
use crate::stations::claim::ClaimState;

/// The shortest pause between two readings; a slow reading makes the pause longer.
const READ_INTERVAL: Duration = Duration::from_secs(5);
const TIMES: u32 = 20;
/// The most holds, and calls with an unknown outcome, that one reading covers.
const MAX_MEMBERS: usize = 1_024;

/// Since when each item waits; each record is read once.
#[derive(Debug, Default)]
struct Since(HashMap<(Environment, String), Option<StoreTime>>);

/// Sets the gauges as long as the process lives.
pub async fn look_out(node: Arc<Node>, in_force: Arc<InForce>, environments: Vec<Environment>) {
    let waiting = async {
        let (mut held, mut doubted) = (Since::default(), Since::default());
        loop {
            let began = node.clock.elapsed();
            for environment in &environments {
                if let Err(fault) = read_gauges(&node, *environment, &mut held, &mut doubted).await {
                    node.told_of(&fault);
                }
            }
            pause(&node, began).await;
        }
    };
    // Every window is read, which may take longer than what people wait for.
    let usage = async {
        loop {
            let began = node.clock.elapsed();
            if let Err(fault) = limits(&node, &in_force, &environments).await {
                node.told_of(&fault);
            }
            pause(&node, began).await;
        }
    };
    tokio::join!(waiting, usage);
}

async fn pause(node: &Node, began: Duration) {
    let took = node.clock.elapsed().saturating_sub(began);
    tokio::time::sleep(READ_INTERVAL.max(took.saturating_mul(TIMES))).await;
}

async fn read_gauges(
    node: &Node,
    environment: Environment,
    held: &mut Since,
    doubted: &mut Since,
) -> Result<(), StoreFault> {
    let oldest = held.oldest(node, environment, Index::Held).await?;
    node.metrics.holds_open_since(environment.as_str(), oldest.map(seconds));
    let used = node.holds_used(environment).await?;
    node.metrics.hold_room(environment.as_str(), "holds", used.holds, node.hold_room.holds);
    node.metrics.hold_room(environment.as_str(), "bytes", used.bytes, node.hold_room.bytes);
    let oldest = doubted.oldest(node, environment, Index::Unknown).await?;
    node.metrics.in_doubt_since(environment.as_str(), oldest.map(seconds));
    Ok(())
}

impl Since {
    /// Returns the earliest item of an index, and forgets those that are gone.
    async fn oldest(
        &mut self,
        node: &Node,
        environment: Environment,
        index: Index,
    ) -> Result<Option<StoreTime>, StoreFault> {
        let mut known = HashMap::new();
        for (_, name) in node.store.due(environment, index, None, MAX_MEMBERS).await? {
            let key = (environment, name);
            let at = match self.0.get(&key) {
                Some(at) => *at,
                // The workers that own such records report those that cannot be read.
                None => match since(node, environment, index, &key.1).await {
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
    node: &Node,
    environment: Environment,
    index: Index,
    name: &str,
) -> Result<Option<StoreTime>, StoreFault> {
    match index {
        Index::Held => hold_since(node, environment, name).await,
        _ => doubt_since(node, environment, name).await,
    }
}

async fn hold_since(node: &Node, environment: Environment, name: &str) -> Result<Option<StoreTime>, StoreFault> {
    let Some(id) = HoldId::parse(name) else { return Ok(None) };
    let found = node.find_hold(&super::holds::key(environment, &id)).await?;
    Ok(found.map(|(record, hold)| hold.created(record.at)))
}

async fn doubt_since(node: &Node, environment: Environment, name: &str) -> Result<Option<StoreTime>, StoreFault> {
    let key = RecordKey { environment, kind: Kind::Claim, name: name.to_owned() };
    let found = node.find(&key).await?;
    Ok(found.and_then(|(record, claim)| match claim.state {
        ClaimState::Unknown { doubted, .. } => Some(doubted.unwrap_or(record.at)),
        _ => None,
    }))
}

/// Sets the use of each limit's fullest window.
async fn limits(node: &Arc<Node>, in_force: &InForce, environments: &[Environment]) -> Result<(), StoreFault> {
    let policies = in_force.now().policies.clone();
    for limit in &policies.rules.limits {
        for environment in environments {
            let fullest = limit_usage::fullest(node, *environment, limit).await?;
            node.metrics.limit_used(environment.as_str(), &limit.id, limit.mode, limit.max, fullest);
        }
    }
    Ok(())
}

fn seconds(at: StoreTime) -> i64 {
    at.as_micros() / 1_000_000
}
