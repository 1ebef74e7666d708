//! The order of open holds by value, caller or destination. The store has them in the order of their expiry, so each of
//! them is read once; what orders it cannot change while the policies stay.

use std::cmp::Reverse;

use serde_json::Value;

use super::rank_memory::{MAX_RANKED, RankFacts};
use super::state::ConsoleState;
use super::view::HoldViewer;
use crate::base::ids::{Environment, HoldId};
use crate::ledger::{Index, IndexPart, Record, RecordKey, StoreFault, StoreTime};
use crate::node::holds::key;
use crate::stations::hold::Hold;

/// How many names are fetched at once.
const BATCH: usize = 1_024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HoldOrder {
    /// The most valuable first; those without a value last.
    Value,
    Caller,
    Destination,
}

/// The open holds of an environment in an order, or too many of them.
pub(super) enum Ranked {
    Holds(Vec<String>),
    TooMany,
}

/// Returns the open holds of an environment in an order.
pub(super) async fn ranked(
    (inside, viewer): (&ConsoleState, &HoldViewer<'_>),
    environment: Environment,
    index: Index,
    order: HoldOrder,
) -> Result<Ranked, StoreFault> {
    let Some(names) = names(inside, environment, index).await? else { return Ok(Ranked::TooMany) };
    let version = viewer.policies_version();
    let mut all = Vec::with_capacity(names.len());
    for (due, name) in names {
        let facts = match inside.ranks.known(version, &name) {
            Some(facts) => facts,
            None => match facts(inside, viewer, environment, &name).await? {
                Some(facts) => inside.ranks.keep(version, &name, facts),
                None => continue,
            },
        };
        all.push((due, name, facts));
    }
    match order {
        HoldOrder::Value => all.sort_by_key(|(due, _, facts)| (Reverse(facts.value), *due)),
        HoldOrder::Caller => all.sort_by(|a, b| (&a.2.caller, a.0).cmp(&(&b.2.caller, b.0))),
        HoldOrder::Destination => all.sort_by(|a, b| (&a.2.destination, a.0).cmp(&(&b.2.destination, b.0))),
    }
    Ok(Ranked::Holds(all.into_iter().map(|(_, name, _)| name).collect()))
}

/// Returns the names of all holds in an index, and when they expire; `None` where they are too many.
async fn names(
    inside: &ConsoleState,
    environment: Environment,
    index: Index,
) -> Result<Option<Vec<(StoreTime, String)>>, StoreFault> {
    let mut names: Vec<(StoreTime, String)> = Vec::new();
    loop {
        let part = IndexPart { backwards: false, behind: names.last().cloned(), count: BATCH };
        let part = inside.node.store.part(environment, index, part).await?;
        let is_last = part.len() < BATCH;
        names.extend(part);
        if names.len() > MAX_RANKED {
            return Ok(None);
        }
        if is_last {
            return Ok(Some(names));
        }
    }
}

/// Reads a hold of a list; `None` where it is gone, or cannot be read: it does not hide the others.
pub(super) async fn read_hold(
    inside: &ConsoleState,
    environment: Environment,
    name: &str,
) -> Result<Option<(RecordKey, Record, Hold)>, StoreFault> {
    let Some(id) = HoldId::parse(name) else { return Ok(None) };
    let key = key(environment, &id);
    // Each hold's body is read again, and a long one takes a while, in which calls go on.
    tokio::task::yield_now().await;
    match inside.node.find_hold(&key).await {
        Ok(found) => Ok(found.map(|(record, hold)| (key, record, hold))),
        Err(fault @ StoreFault::Broken(_)) => {
            inside.node.told_of(&fault);
            Ok(None)
        }
        Err(fault) => Err(fault),
    }
}

/// Reads what orders a hold; `None` where it cannot be read.
async fn facts(
    inside: &ConsoleState,
    viewer: &HoldViewer<'_>,
    environment: Environment,
    name: &str,
) -> Result<Option<RankFacts>, StoreFault> {
    let Some((_, _, hold)) = read_hold(inside, environment, name).await? else { return Ok(None) };
    let (value, known) = viewer.value_and_destination(environment, &hold);
    let known = known.unwrap_or_default();
    let lists = known.get("lists").and_then(Value::as_array).into_iter().flatten();
    let words = lists.chain(known.get("name")).filter_map(Value::as_str).collect::<Vec<_>>();
    Ok(Some(RankFacts {
        value,
        caller: hold.by.requester.as_deref().unwrap_or(&hold.by.subject).to_owned(),
        destination: words.join(" "),
    }))
}
