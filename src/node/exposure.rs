//! The amounts that windows hold for calls without a known end, and that held calls would add.
//!
//! It reads a bounded number of calls, each from its stored bytes, and values them as of now. Where there are more, the
//! amounts are the least.

use std::collections::{BTreeMap, BTreeSet};

use super::Node;
use super::holds::key;
use super::limit_usage::{FullestWindows, LimitUsage, used_in};
use crate::base::ids::{Environment, HoldId};
use crate::catalog::Catalog;
use crate::ledger::{Index, IndexPart, Kind, RecordKey, StoreFault, WindowKey};
use crate::policy::{Limit, Policies};
use crate::stations::claim::{Claim, ClaimState};
use crate::stations::decide::evaluate;
use crate::stations::hold::read_again;

/// How many names of calls are read at a time.
const PAGE: usize = 200;
/// The most calls of a kind that are read in an environment.
const MAX_CALLS: usize = 1_000;

/// The unsettled amounts of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exposure {
    /// Calls that are being sent or whose outcome is unknown: the window holds them already.
    pub in_flight: u64,
    /// Held calls: the window does not hold them.
    pub pending: u64,
}

/// The use of limits with the exposure of each window.
#[derive(Debug)]
pub struct ExposedUsage<'p> {
    /// The fullest first.
    pub windows: Vec<(LimitUsage<'p>, Exposure)>,
    /// Whether windows are in use that are not listed.
    pub has_more: bool,
    /// Whether there are windows that were not read, which may be fuller.
    pub has_unread_windows: bool,
    /// Whether there are calls that were not read: exposures are at least what they say.
    pub has_unread_calls: bool,
}

/// The exposure of the windows of an environment.
#[derive(Debug, Default)]
struct Promised {
    windows: BTreeMap<WindowKey, Exposure>,
    has_unread: bool,
}

/// Adds the exposure to the use of limits, with windows that are not listed but a held call would count in.
pub async fn with_promised<'p>(
    node: &Node,
    catalog: &Catalog,
    policies: &'p Policies,
    environments: &[Environment],
    limit: Option<&str>,
    usage: FullestWindows<'p>,
) -> Result<ExposedUsage<'p>, StoreFault> {
    let (mut all, mut has_unread_calls) = (BTreeMap::new(), false);
    for environment in environments.iter().copied() {
        let promised = promised(node, catalog, policies, environment).await?;
        has_unread_calls |= promised.has_unread;
        let wanted = promised.windows.into_iter().filter(|(window, _)| limit.is_none_or(|limit| window.limit == limit));
        all.extend(wanted.map(|(window, promised)| ((environment, window), promised)));
    }
    let mut windows: Vec<(LimitUsage<'p>, Exposure)> = Vec::new();
    for one in usage.windows {
        let window = WindowKey { limit: one.limit.id.to_string(), key: one.key.clone() };
        let promised = all.remove(&(one.environment, window)).unwrap_or_default();
        windows.push((one, promised));
    }
    let mut unlisted = usage.unlisted;
    for ((environment, window), promised) in all {
        let is_of = |limit: &&Limit| *limit.id == *window.limit && limit.has_window(&window.key);
        let limit = policies.rules.limits.iter().find(is_of);
        if let (Some(limit), true) = (limit, promised.pending > 0) {
            let used = used_in(node, environment, limit, &window.key).await?;
            unlisted = unlisted.saturating_sub(usize::from(used > 0));
            windows.push((LimitUsage { environment, limit, key: window.key, used }, promised));
        }
    }
    windows.sort_by(|(one, _), (other, _)| one.fuller_first(other));
    let has_more = unlisted > 0 || usage.has_unread;
    Ok(ExposedUsage { windows, has_more, has_unread_windows: usage.has_unread, has_unread_calls })
}

async fn promised(
    node: &Node,
    catalog: &Catalog,
    policies: &Policies,
    environment: Environment,
) -> Result<Promised, StoreFault> {
    let (mut all, mut known) = (Promised::default(), BTreeSet::new());
    let now = node.time().await?;
    for index in [Index::Sending, Index::Unknown] {
        for name in all.names(node, environment, index).await? {
            let key = RecordKey { environment, kind: Kind::Claim, name: name.clone() };
            let Some((_, claim)) = readable(node, node.find(&key).await)? else { continue };
            // A call may have moved from one index to the other.
            if !known.insert(name) {
                continue;
            }
            for (window, units) in in_flight(&claim) {
                let promised = all.windows.entry(window).or_default();
                promised.in_flight = promised.in_flight.saturating_add(units);
            }
        }
    }
    for name in all.names(node, environment, Index::Held).await? {
        let Some(id) = HoldId::parse(&name) else { continue };
        let Some((_, hold)) = readable(node, node.find_hold(&key(environment, &id)).await)? else { continue };
        // Reading a long body takes a while, in which calls go on.
        tokio::task::yield_now().await;
        let Some(intent) = read_again(catalog, environment, &hold) else { continue };
        let decision = evaluate(&intent, policies, &node.stored_facts(&intent, policies, now).await?);
        for reservation in &decision.verdict.reservations {
            let promised = all.windows.entry(reservation.window.clone()).or_default();
            promised.pending = promised.pending.saturating_add(reservation.units);
        }
    }
    Ok(all)
}

impl Promised {
    /// Returns the names of calls in an index, and notes where there are more.
    async fn names(&mut self, node: &Node, environment: Environment, index: Index) -> Result<Vec<String>, StoreFault> {
        let (mut names, mut behind) = (Vec::new(), None);
        loop {
            let page = IndexPart { backwards: false, behind, count: PAGE };
            let members = node.store.part(environment, index, page).await?;
            let is_last = members.len() < PAGE;
            behind = members.last().cloned();
            names.extend(members.into_iter().map(|(_, name)| name));
            if names.len() > MAX_CALLS {
                names.truncate(MAX_CALLS);
                self.has_unread = true;
                return Ok(names);
            }
            if is_last {
                return Ok(names);
            }
        }
    }
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
