//! What windows hold for calls whose end is not known, and what calls that wait would add: for people, who ask seldom.
//!
//! A bounded number of calls is looked at, each read again from its bytes and valued as it would be now.

use std::collections::BTreeMap;

use super::Books;
use super::explain::Usage;
use super::holds::key;
use crate::base::ids::{Environment, HoldId};
use crate::catalog::Catalog;
use crate::commit::{Index, Kind, RecordKey, StoreFault, WindowKey};
use crate::policy::{Facts, Max, Policies};
use crate::stations::admit::Known;
use crate::stations::claim::{Claim, State};
use crate::stations::decide::{decide, destinations};
use crate::stations::hold::{read_again, read_bytes};

/// So many calls of a kind are looked at.
const MOST: usize = 200;

/// What is not settled in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promised {
    /// Of calls that are being sent, or in doubt: the window holds it already.
    pub in_flight: u64,
    /// Of calls that wait for people: the window does not hold it.
    pub pending: u64,
}

/// What limits have used, as it was told, with what is promised besides; where nothing is used yet, something may wait.
pub async fn with_promised<'p>(
    books: &Books,
    catalog: &Catalog,
    policies: &'p Policies,
    environments: &[Environment],
    limit: Option<&str>,
    usage: Vec<Usage<'p>>,
) -> Result<Vec<(Usage<'p>, Promised)>, StoreFault> {
    let mut all = Vec::new();
    for environment in environments.iter().copied() {
        let promised = promised(books, catalog, policies, environment).await?;
        let wanted = promised.into_iter().filter(|(window, _)| limit.is_none_or(|limit| window.limit == limit));
        all.extend(wanted.map(|(window, promised)| (environment, window, promised)));
    }
    let mut told: Vec<(Usage<'p>, Promised)> = Vec::new();
    for one in usage {
        let of_it = |(environment, window, _): &(Environment, WindowKey, Promised)| {
            *environment == one.environment && *window.limit == *one.limit.id && window.key == one.key
        };
        let promised = all.iter().position(of_it).map(|at| all.swap_remove(at).2);
        told.push((one, promised.unwrap_or_default()));
    }
    for (environment, window, promised) in all {
        let limit = policies.rules.limits.iter().find(|limit| *limit.id == *window.limit);
        if let (Some(limit), true) = (limit, promised.pending > 0) {
            told.push((Usage { environment, limit, key: window.key, used: 0 }, promised));
        }
    }
    Ok(told)
}

async fn promised(
    books: &Books,
    catalog: &Catalog,
    policies: &Policies,
    environment: Environment,
) -> Result<BTreeMap<WindowKey, Promised>, StoreFault> {
    let mut all = BTreeMap::<WindowKey, Promised>::new();
    let now = books.time().await?;
    for index in [Index::Sending, Index::Unknown] {
        for (_, name) in books.store.due(environment, index, None, MOST).await? {
            let key = RecordKey { environment, kind: Kind::Claim, name };
            let Some((_, claim)) = readable(books, books.find(&key).await)? else { continue };
            let facts = Facts { now, ..Facts::default() };
            for (window, units) in in_flight(catalog, policies, environment, &claim, &facts) {
                let promised = all.entry(window).or_default();
                promised.in_flight = promised.in_flight.saturating_add(units);
            }
        }
    }
    for (_, name) in books.store.due(environment, Index::Held, None, MOST).await? {
        let Some(id) = HoldId::parse(&name) else { continue };
        let Some((_, hold)) = readable(books, books.find_hold(&key(environment, &id)).await)? else { continue };
        let Some(intent) = read_again(catalog, environment, &hold) else { continue };
        // Whether they were paid before changes nothing of what is counted.
        let paid = destinations(&intent, policies).into_iter().map(|name| (name, true)).collect();
        let decision = decide(&intent, policies, &Facts { now, paid, ..Facts::default() });
        for reservation in &decision.grounds().verdict.reservations {
            let promised = all.entry(reservation.window.clone()).or_default();
            promised.pending = promised.pending.saturating_add(reservation.units);
        }
    }
    Ok(all)
}

/// What a claim holds in the windows that it is booked in. In which roles it was asked for is not kept, so that what
/// rules say of it now is of no interest; what it is worth is.
fn in_flight(
    catalog: &Catalog,
    policies: &Policies,
    environment: Environment,
    claim: &Claim,
    facts: &Facts,
) -> Vec<(WindowKey, u64)> {
    let (State::Sending { sent, .. } | State::Unknown { sent, .. }) = &claim.state else { return Vec::new() };
    let by = Known {
        issuer: claim.owner.issuer.clone(),
        subject: claim.owner.subject.clone(),
        requester: claim.requester.clone(),
        roles: Default::default(),
    };
    let operation = catalog.operation(&claim.operation);
    let intent = operation
        .and_then(|operation| read_bytes(catalog, environment, (&operation.method, &sent.target, &sent.body), by));
    let value = intent.and_then(|intent| decide(&intent, policies, facts).grounds().verdict.value);
    let units = |window: &WindowKey| {
        let limit = policies.rules.limits.iter().find(|limit| *limit.id == *window.limit)?;
        match limit.max {
            Max::Calls(_) => Some(1),
            Max::MicroUsd(_) => value.map(|value| value.as_u64()),
        }
    };
    claim.booked.windows.iter().filter_map(|window| Some((window.clone(), units(window)?))).collect()
}

/// One that cannot be read does not hide the others.
fn readable<T>(books: &Books, found: Result<Option<T>, StoreFault>) -> Result<Option<T>, StoreFault> {
    match found {
        Err(fault @ StoreFault::Broken(_)) => {
            books.told_of(&fault);
            Ok(None)
        }
        found => found,
    }
}
