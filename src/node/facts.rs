//! The facts of a decision.
//!
//! A caller's write waits for nothing but its commit: what this node does not know, its decision assumes. The commit guards
//! each stored fact that a decision assumed. Where a fact is otherwise, the store answers with it, and the call is decided on
//! again.
//!
//! Every other decision, on a call that waits or for people to see, asks the store for each of them.

use std::collections::BTreeMap;

use super::Node;
use crate::base::ids::Environment;
use crate::ledger::{Index, StoreFault, StoreTime};
use crate::policy::{Facts, Policies, fact_parts};
use crate::stations::check::Intent;
use crate::stations::claim::FactCorrection;
use crate::stations::decide::{paid_facts, paid_name};

impl Node {
    /// Returns the facts for a caller's write before its decision: a destination that this node does not know to be paid
    /// is assumed to be new. Only a commit that guards the facts may act on such a decision.
    pub fn assumed_facts(&self, intent: &Intent, policies: &Policies) -> Facts {
        let environment = intent.environment();
        let paid = paid_facts(intent, policies).into_iter().map(|fact| {
            let was_paid = self.heard.was_paid(environment, paid_name(&fact));
            (fact, was_paid)
        });
        Facts { now: self.about_now(), paid: paid.collect(), ..Facts::default() }
    }

    /// Returns the facts for a decision at this time, as the store has them.
    pub async fn stored_facts(
        &self,
        intent: &Intent,
        policies: &Policies,
        now: StoreTime,
    ) -> Result<Facts, StoreFault> {
        let paid = self.stored_paid(intent.environment(), paid_facts(intent, policies), now).await?;
        Ok(Facts { now, paid, ..Facts::default() })
    }

    /// Returns these facts about destinations at a time, as the store has them.
    pub(super) async fn stored_paid(
        &self,
        environment: Environment,
        names: Vec<String>,
        now: StoreTime,
    ) -> Result<BTreeMap<String, bool>, StoreFault> {
        let mut facts = BTreeMap::new();
        for fact in names {
            let (destination, cooldown) = fact_parts(&fact);
            let index = if cooldown.is_zero() { Index::Paid } else { Index::Known };
            let time = self.store.member(environment, index, &paid_name(destination)).await?;
            let is_known = time.is_some_and(|time| cooldown.is_zero() || time <= now.minus(cooldown));
            facts.insert(fact, is_known);
        }
        Ok(facts)
    }

    /// Returns the facts for a read, which is decided without the store.
    pub fn facts_of_read(&self) -> Facts {
        Facts { now: self.about_now(), ..Facts::default() }
    }

    /// Returns the store's time as carried by this node's clock, or this node's own time.
    pub(super) fn about_now(&self) -> StoreTime {
        let told = self.heard.now(self.clock.elapsed());
        told.unwrap_or_else(|| StoreTime::of_micros(self.clock.now().as_microsecond()))
    }

    /// Asks for the store's time, and keeps it.
    pub async fn time(&self) -> Result<StoreTime, StoreFault> {
        let now = self.store.time().await?;
        self.heard.time(now, self.clock.elapsed());
        Ok(now)
    }

    /// Puts the store's corrections into the facts.
    pub fn learn(&self, environment: Environment, facts: &mut Facts, learnt: Vec<FactCorrection>) {
        // The guards were made for the time that was assumed until now.
        let assumed_now = facts.now;
        for one in learnt {
            match one {
                FactCorrection::Time(at) => {
                    self.heard.time(at, self.clock.elapsed());
                    facts.now = at;
                }
                FactCorrection::Full(window, used) => {
                    facts.exceeded.insert((window.limit, window.key), used);
                }
                FactCorrection::Known(name, at, is_known) => {
                    for (fact, assumed) in &mut facts.paid {
                        let (destination, cooldown) = fact_parts(fact);
                        let is_it = !cooldown.is_zero() && assumed_now.minus(cooldown) == at;
                        if is_it && paid_name(destination) == name {
                            *assumed = is_known;
                            self.heard.is_paid(environment, &paid_name(fact), is_known);
                        }
                    }
                }
                FactCorrection::Paid(name, is_paid) => {
                    for (destination, assumed) in &mut facts.paid {
                        if paid_name(destination) == name {
                            *assumed = is_paid;
                        }
                    }
                    self.heard.is_paid(environment, &name, is_paid);
                }
            }
        }
    }
}
