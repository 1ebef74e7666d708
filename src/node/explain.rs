//! Explains what would become of a request, without doing anything.

use std::collections::BTreeMap;

use super::Node;
use crate::catalog::Catalog;
use crate::ledger::{Index, StoreFault, StoreTime, WindowKey};
use crate::policy::{Facts, NearMiss, Policies, Reservation, TestRequest, Verdict};
use crate::stations::check::Intent;
use crate::stations::decide::{destinations, evaluate, paid_name};

/// The decision on a request as if it were made now.
#[derive(Debug)]
pub struct ExplainedCall {
    pub verdict: Verdict,
    pub near: Vec<NearMiss>,
    /// The reservations that it would make.
    pub counts: Vec<Reservation>,
    /// The amounts that these windows hold already, where the store was asked.
    pub used: BTreeMap<WindowKey, u64>,
}

/// Decides on a request by its own facts, or by the store's. Returns `None` where there is no such operation.
pub async fn explain(
    node: &Node,
    policies: &Policies,
    catalog: &Catalog,
    given: &TestRequest,
    by_store: bool,
) -> Result<Option<ExplainedCall>, StoreFault> {
    let rules = &policies.rules;
    let Some(destinations) = given.destinations(rules, catalog) else { return Ok(None) };
    let mut facts = Facts { now: given.now, ..Facts::default() };
    facts.paid = match by_store {
        true => node.stored_paid(given.environment, rules.facts_about(&destinations), given.now).await?,
        false => rules.facts_of(&destinations, given.known),
    };
    let decide = |facts: &Facts| given.decide(rules, catalog, facts);
    let Some((verdict, near)) = decide(&facts) else { return Ok(None) };
    let mut used = BTreeMap::new();
    if by_store {
        for reservation in &verdict.reservations {
            let held = node.store.used(given.environment, &reservation.window, reservation.span).await?;
            if held.saturating_add(reservation.units) > reservation.max {
                let window = (reservation.window.limit.clone(), reservation.window.key.clone());
                facts.exceeded.insert(window, held);
            }
            used.insert(reservation.window.clone(), held);
        }
    }
    let counts = verdict.reservations.clone();
    let again = if facts.exceeded.is_empty() { None } else { decide(&facts) };
    let (verdict, near) = again.unwrap_or((verdict, near));
    Ok(Some(ExplainedCall { verdict, near, counts, used }))
}

/// Facts about a held call besides its own content.
#[derive(Debug)]
pub struct Forecast {
    /// Each form of its destination, and when that was last paid. The store keeps no more of earlier payments.
    pub paid: Vec<(String, Option<StoreTime>)>,
    /// The reservations that it would make now, and the amount that each window holds already; empty if it is denied
    /// now.
    pub counts: Vec<(Reservation, u64)>,
}

/// Returns each form of a call's destination, and when that was last paid.
pub async fn last_paid(
    node: &Node,
    policies: &Policies,
    intent: &Intent,
) -> Result<Vec<(String, Option<StoreTime>)>, StoreFault> {
    let mut paid = Vec::new();
    for name in destinations(intent, policies) {
        let last = node.store.member(intent.environment(), Index::Paid, &paid_name(&name)).await?;
        paid.push((name, last));
    }
    Ok(paid)
}

pub async fn outlook(node: &Node, policies: &Policies, intent: &Intent) -> Result<Forecast, StoreFault> {
    let environment = intent.environment();
    let paid = last_paid(node, policies, intent).await?;
    let facts = node.stored_facts(intent, policies, node.time().await?).await?;
    let mut counts = Vec::new();
    for reservation in &evaluate(intent, policies, &facts).verdict.reservations {
        let used = node.store.used(environment, &reservation.window, reservation.span).await?;
        counts.push((reservation.clone(), used));
    }
    Ok(Forecast { paid, counts })
}
