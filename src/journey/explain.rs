//! What would become of a request, and what limits have left: looked at, and nothing done.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Books;
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::commit::{Index, StoreFault, StoreTime, WindowKey};
use crate::policy::{Facts, Given, Limit, NearMiss, Policies, Reservation, Verdict};
use crate::stations::check::Intent;
use crate::stations::decide::{decide, destinations, paid_name};

/// So many windows are looked at, at most.
const MOST_WINDOWS: usize = 1_000;

/// A request, decided as if it were made.
#[derive(Debug)]
pub struct Explained {
    pub verdict: Verdict,
    pub near: Vec<NearMiss>,
    /// What it would count in, if it went on.
    pub counts: Vec<Reservation>,
    /// What these windows hold already, where the store was asked.
    pub used: BTreeMap<WindowKey, u64>,
}

/// Decides a request on what it says of the facts, or on what the store says; nothing if there is no such operation.
pub async fn explain(
    books: &Books,
    policies: &Policies,
    catalog: &Catalog,
    given: &Given,
    by_store: bool,
) -> Result<Option<Explained>, StoreFault> {
    let rules = &policies.rules;
    let Some(destinations) = given.destinations(rules, catalog) else { return Ok(None) };
    let mut facts = Facts { now: given.now, ..Facts::default() };
    for name in destinations {
        let is_paid = match by_store {
            true => books.store.member(given.environment, Index::Paid, &paid_name(&name)).await?.is_some(),
            false => given.is_paid,
        };
        facts.paid.insert(name, is_paid);
    }
    let decide = |facts: &Facts| given.decide(rules, catalog, facts);
    let Some((verdict, near)) = decide(&facts) else { return Ok(None) };
    let mut used = BTreeMap::new();
    if by_store {
        for reservation in &verdict.reservations {
            let held = books.store.used(given.environment, &reservation.window, reservation.span).await?;
            if held.saturating_add(reservation.units) > reservation.max {
                facts.exceeded.insert((reservation.window.limit.clone(), reservation.window.key.clone()));
            }
            used.insert(reservation.window.clone(), held);
        }
    }
    let counts = verdict.reservations.clone();
    let again = if facts.exceeded.is_empty() { None } else { decide(&facts) };
    let (verdict, near) = again.unwrap_or((verdict, near));
    Ok(Some(Explained { verdict, near, counts, used }))
}

/// What is known of a call that waits, beside what it says itself.
#[derive(Debug)]
pub struct Outlook {
    /// Each way in which its destination is named, and when that was last paid. More is not kept of earlier payments.
    pub paid: Vec<(String, Option<StoreTime>)>,
    /// What it would count in if it were sent now, and what stands there already; nothing if it is denied now.
    pub counts: Vec<(Reservation, u64)>,
}

pub async fn outlook(books: &Books, policies: &Policies, intent: &Intent) -> Result<Outlook, StoreFault> {
    let environment = intent.environment();
    let mut facts = Facts { now: books.time().await?, ..Facts::default() };
    let mut paid = Vec::new();
    for name in destinations(intent, policies) {
        let last = books.store.member(environment, Index::Paid, &paid_name(&name)).await?;
        facts.paid.insert(name.clone(), last.is_some());
        paid.push((name, last));
    }
    let mut counts = Vec::new();
    for reservation in &decide(intent, policies, &facts).grounds().verdict.reservations {
        let used = books.store.used(environment, &reservation.window, reservation.span).await?;
        counts.push((reservation.clone(), used));
    }
    Ok(Outlook { paid, counts })
}

/// What was spent under a limit for one value of its key.
#[derive(Debug)]
pub struct Usage<'p> {
    pub environment: Environment,
    pub limit: &'p Limit,
    pub key: String,
    pub used: u64,
}

/// What the fullest of a limit's windows holds now, of as many as are looked at.
pub async fn fullest(books: &Books, environment: Environment, limit: &Limit) -> Result<u64, StoreFault> {
    let Some(span) = limit.span(books.time().await?) else { return Ok(0) };
    let mut most = 0;
    for window in books.store.windows(environment, Some(&limit.id), MOST_WINDOWS).await? {
        most = most.max(books.store.used(environment, &window, span).await?);
    }
    Ok(most)
}

/// What limits in force have used now, the fullest first; and whether there is more than was looked at.
pub async fn usage<'p>(
    books: &Arc<Books>,
    policies: &'p Policies,
    environments: &[Environment],
    limit: Option<&str>,
) -> Result<(Vec<Usage<'p>>, bool), StoreFault> {
    let now = books.time().await?;
    let (mut all, mut is_more) = (Vec::new(), false);
    for environment in environments.iter().copied() {
        let mut windows = books.store.windows(environment, limit, MOST_WINDOWS.saturating_add(1)).await?;
        is_more |= windows.len() > MOST_WINDOWS;
        windows.truncate(MOST_WINDOWS);
        for window in windows {
            let Some(limit) = policies.rules.limits.iter().find(|limit| *limit.id == *window.limit) else { continue };
            let Some(span) = limit.span(now) else { continue };
            let used = books.store.used(environment, &window, span).await?;
            if used > 0 {
                all.push(Usage { environment, limit, key: window.key, used });
            }
        }
    }
    let part = |one: &Usage<'_>, other: &Usage<'_>| u128::from(one.used) * u128::from(other.limit.max.units());
    all.sort_by(|a, b| {
        let by_name = || (&a.limit.id, a.environment, &a.key).cmp(&(&b.limit.id, b.environment, &b.key));
        part(b, a).cmp(&part(a, b)).then_with(by_name)
    });
    Ok((all, is_more))
}
