//! The amounts that windows hold for calls without a known end, and that held calls would add.
//!
//! It reads a bounded number of calls, each from its stored bytes, and values them as of now.

use std::collections::BTreeMap;

use super::Node;
use super::explain::LimitUsage;
use super::holds::key;
use crate::base::ids::{Environment, HoldId};
use crate::catalog::Catalog;
use crate::ledger::{Index, Kind, RecordKey, StoreFault, WindowKey};
use crate::policy::{Limit, Policies};
use crate::stations::claim::{Claim, ClaimState};
use crate::stations::decide::evaluate;
use crate::stations::hold::read_again;

/// The most calls of a kind that are read.
const MAX_CALLS: usize = 200;

/// The unsettled amounts of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exposure {
    /// Calls that are being sent or whose outcome is unknown: the window holds them already.
    pub in_flight: u64,
    /// Held calls: the window does not hold them.
    pub pending: u64,
}

/// Adds the exposure to the use of limits, with windows that nothing uses yet but a held call would.
pub async fn with_promised<'p>(
    node: &Node,
    catalog: &Catalog,
    policies: &'p Policies,
    environments: &[Environment],
    limit: Option<&str>,
    usage: Vec<LimitUsage<'p>>,
) -> Result<Vec<(LimitUsage<'p>, Exposure)>, StoreFault> {
    let mut all = Vec::new();
    for environment in environments.iter().copied() {
        let promised = promised(node, catalog, policies, environment).await?;
        let wanted = promised.into_iter().filter(|(window, _)| limit.is_none_or(|limit| window.limit == limit));
        all.extend(wanted.map(|(window, promised)| (environment, window, promised)));
    }
    let mut told: Vec<(LimitUsage<'p>, Exposure)> = Vec::new();
    for one in usage {
        let of_it = |(environment, window, _): &(Environment, WindowKey, Exposure)| {
            *environment == one.environment && *window.limit == *one.limit.id && window.key == one.key
        };
        let promised = all.iter().position(of_it).map(|at| all.swap_remove(at).2);
        told.push((one, promised.unwrap_or_default()));
    }
    for (environment, window, promised) in all {
        let is_of = |limit: &&Limit| *limit.id == *window.limit && limit.has_window(&window.key);
        let limit = policies.rules.limits.iter().find(is_of);
        if let (Some(limit), true) = (limit, promised.pending > 0) {
            told.push((LimitUsage { environment, limit, key: window.key, used: 0 }, promised));
        }
    }
    Ok(told)
}

async fn promised(
    node: &Node,
    catalog: &Catalog,
    policies: &Policies,
    environment: Environment,
) -> Result<BTreeMap<WindowKey, Exposure>, StoreFault> {
    let mut all = BTreeMap::<WindowKey, Exposure>::new();
    let now = node.time().await?;
    for index in [Index::Sending, Index::Unknown] {
        for (_, name) in node.store.due(environment, index, None, MAX_CALLS).await? {
            let key = RecordKey { environment, kind: Kind::Claim, name };
            let Some((_, claim)) = readable(node, node.find(&key).await)? else { continue };
            for (window, units) in in_flight(&claim) {
                let promised = all.entry(window).or_default();
                promised.in_flight = promised.in_flight.saturating_add(units);
            }
        }
    }
    for (_, name) in node.store.due(environment, Index::Held, None, MAX_CALLS).await? {
        let Some(id) = HoldId::parse(&name) else { continue };
        let Some((_, hold)) = readable(node, node.find_hold(&key(environment, &id)).await)? else { continue };
        // Reading a long body takes a while, in which calls go on.
        tokio::task::yield_now().await;
        let Some(intent) = read_again(catalog, environment, &hold) else { continue };
        let decision = evaluate(&intent, policies, &node.stored_facts(&intent, policies, now).await?);
        for reservation in &decision.verdict.reservations {
            let promised = all.entry(reservation.window.clone()).or_default();
            promised.pending = promised.pending.saturating_add(reservation.units);
        }
    }
    Ok(all)
}

/// Returns the amounts that a claim has reserved in its windows.
fn in_flight(claim: &Claim) -> Vec<(WindowKey, u64)> {
    let booked = match &claim.state {
        ClaimState::Sending { booked, .. } => Some(booked),
        ClaimState::Unknown { .. } => claim.in_doubt().map(|past| &past.booked),
        _ => None,
    };
    booked.iter().flat_map(|booked| &booked.windows).map(|booked| (booked.window.clone(), booked.units)).collect()
}

/// A record that this version cannot read does not hide the others.
fn readable<T>(node: &Node, found: Result<Option<T>, StoreFault>) -> Result<Option<T>, StoreFault> {
    match found {
        Err(fault @ StoreFault::Broken(_)) => {
            node.told_of(&fault);
            Ok(None)
        }
        found => found,
    }
}
