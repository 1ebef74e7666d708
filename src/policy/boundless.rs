//! Finds a set that bounds no payment of an environment: nothing but a role or a token would stand before all money.

use super::Policies;
use super::condition::Condition;
use super::quorum::is_in;
use super::rate::Mode;
use super::request::Field;
use super::rule::{Effect, Rule};
use crate::base::finding::Finding;
use crate::base::ids::{Environment, OperationId};
use crate::catalog::{Catalog, Class};

impl Policies {
    /// Returns a finding where every operation that moves money is allowed in an environment to whoever may call, to any
    /// destination and in any amount, and no rule or limit in force stops one of them.
    pub fn boundless(&self, catalog: &Catalog, environment: Environment) -> Option<Finding> {
        let mut paying = catalog.operations().iter().filter(|one| one.enabled && one.class == Class::Money).peekable();
        let first = self.allowing(&paying.peek()?.id, environment)?;
        let is_free = |id: &OperationId| self.allowing(id, environment).is_some() && !self.stops(id, environment);
        let (line, column) = first.place;
        let text = format!(
            "rule `{}` and others like it allow every operation that moves money in {environment}, to anybody and in any amount, \
             and no limit counts it: one stolen token can pay out everything",
            first.id
        );
        let finding = Finding::insecure(self.file_of(&first.id), text).at(format!("{line}:{column}"));
        let remedy = "add a `[[limit]]` for each window that you would survive, or conditions such as `amount` and `destination`; \
                      `policies/examples` has sets to begin with";
        paying.all(|operation| is_free(&operation.id)).then(|| finding.remedy(remedy))
    }

    /// Returns a rule in force that allows an operation without any other condition.
    fn allowing(&self, operation: &OperationId, environment: Environment) -> Option<&Rule> {
        self.rules.rules.iter().find(|rule| {
            let is_bare = rule.when.conditions.iter().all(is_of_environments);
            let is_there = is_bare && is_in(environment, &rule.when.conditions);
            rule.effect == Effect::Allow
                && rule.mode == Mode::Enforce
                && is_there
                && rule.when.operations.contains(operation)
        })
    }

    /// Whether a rule or limit in force may stop an operation.
    fn stops(&self, operation: &OperationId, environment: Environment) -> bool {
        let by_rule = self.rules.rules.iter().any(|rule| {
            let is_in_force = rule.effect != Effect::Allow && rule.mode == Mode::Enforce;
            is_in_force && rule.when.operations.contains(operation) && is_in(environment, &rule.when.conditions)
        });
        let by_limit = self.rules.limits.iter().any(|limit| {
            let is_in_force = limit.mode == Mode::Enforce && limit.operations.contains(operation);
            is_in_force && is_in(environment, &limit.conditions)
        });
        by_rule || by_limit
    }
}

fn is_of_environments(condition: &Condition) -> bool {
    matches!(condition, Condition::Names(Field::Environment, _) | Condition::NotNames(Field::Environment, _))
}
