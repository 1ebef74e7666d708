//! Finds the rules that could match a request, by the names and amounts that they ask for.

use std::collections::{BTreeSet, HashMap};

use super::condition::Condition;
use super::interval::Interval;
use super::limit::Limit;
use super::request::{Field, View};
use super::rule::Rule;
use crate::base::ids::OperationId;
use crate::base::pointer::Pointer;

/// The fields that rules are indexed by.
const FOUND_BY: [Field; 11] = [
    Field::Caller,
    Field::Requester,
    Field::Role,
    Field::User,
    Field::SourceUser,
    Field::DestinationUser,
    Field::DestinationWallet,
    Field::DestinationExternal,
    Field::DestinationAccount,
    Field::SourceWallet,
    Field::SourceAccount,
];

/// The rules and limits of one operation, by index.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleIndex {
    always: Vec<usize>,
    by_amount: AmountIndex,
    by_name: HashMap<Field, HashMap<String, Vec<usize>>>,
    limits: Vec<usize>,
    /// The fields of bodies that they name.
    places: Vec<Pointer>,
}

/// How many rules name each name: a name that most of them share is a poor index.
#[derive(Debug, Default)]
struct Common(HashMap<(Field, String), usize>);

impl Common {
    fn of(rules: &[Rule]) -> Common {
        let mut common = Common::default();
        let conditions = rules.iter().flat_map(|rule| &rule.when.conditions);
        for (field, set) in conditions.filter_map(sought_names).flatten() {
            for name in set {
                let count = common.0.entry((field, name.clone())).or_default();
                *count = count.saturating_add(1);
            }
        }
        common
    }

    fn rules_with(&self, names: &[(Field, &BTreeSet<String>)]) -> usize {
        let each = names.iter().flat_map(|(field, set)| set.iter().map(|name| (*field, name.clone())));
        each.map(|name| self.0.get(&name).copied().unwrap_or(0)).fold(0, usize::saturating_add)
    }
}

impl RuleIndex {
    /// Returns the index of each operation.
    pub(super) fn by_operation(rules: &[Rule], limits: &[Limit]) -> HashMap<OperationId, RuleIndex> {
        let common = Common::of(rules);
        let mut index: HashMap<OperationId, RuleIndex> = HashMap::new();
        for (at, rule) in rules.iter().enumerate() {
            for operation in &rule.when.operations {
                let found = index.entry(operation.clone()).or_default();
                found.add(at, &rule.when.conditions, &common);
                found.name(&rule.when.conditions);
            }
        }
        for (at, limit) in limits.iter().enumerate() {
            for operation in &limit.operations {
                let found = index.entry(operation.clone()).or_default();
                found.limits.push(at);
                found.name(&limit.conditions);
            }
        }
        index.values_mut().for_each(|found| found.by_amount.sort());
        index
    }

    pub(super) fn limits(&self) -> &[usize] {
        &self.limits
    }

    /// Returns the fields of bodies that rules and limits name.
    pub(super) fn places(&self) -> &[Pointer] {
        &self.places
    }

    /// Indexes a rule by its rarest names: it cannot match a request without one of them.
    fn add(&mut self, at: usize, conditions: &[Condition], common: &Common) {
        let names = conditions.iter().filter_map(sought_names);
        let Some(rarest) = names.min_by_key(|names| common.rules_with(names)) else {
            match amounts_of(conditions) {
                Some(within) => self.by_amount.add(at, within),
                None => self.always.push(at),
            }
            return;
        };
        for (field, set) in rarest {
            let by_name = self.by_name.entry(field).or_default();
            for name in set {
                by_name.entry(name.clone()).or_default().push(at);
            }
        }
    }

    fn name(&mut self, conditions: &[Condition]) {
        for condition in conditions {
            if let Condition::Body(place, _) = condition
                && !self.places.contains(place)
            {
                self.places.push(place.clone());
            }
        }
    }

    /// Returns the rules that could match a request, each once.
    pub(super) fn candidates(&self, view: &View<'_>) -> Vec<usize> {
        let mut found = self.always.clone();
        let value = view.value.and_then(Result::ok).map(|value| u128::from(value.as_u64()));
        found.extend(self.by_amount.containing(value));
        for (field, by_name) in &self.by_name {
            found.extend(view.names(*field).filter_map(|name| by_name.get(name)).flatten());
            // A wallet that takes fees is found as a destination.
            if *field == Field::DestinationWallet {
                found.extend(view.names(Field::FeeWallet).filter_map(|name| by_name.get(name)).flatten());
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Returns the names of which a request must have one for the condition to hold, if rules are indexed by them.
fn sought_names(condition: &Condition) -> Option<Vec<(Field, &BTreeSet<String>)>> {
    match condition {
        Condition::Names(field, set) if FOUND_BY.contains(field) => Some(vec![(*field, set)]),
        Condition::Destination(ways) => Some(vec![
            (Field::DestinationUser, &ways.user),
            (Field::DestinationWallet, &ways.wallet),
            (Field::DestinationExternal, &ways.external_wallet),
        ]),
        _ => None,
    }
}

/// Rules by the amounts that they ask for, in ascending order.
#[derive(Clone, Debug, Default)]
struct AmountIndex {
    /// The least and the largest amount, and the rule.
    ranges: Vec<(u128, u128, usize)>,
    /// The largest amount of all ranges up to each.
    highest: Vec<u128>,
}

impl AmountIndex {
    fn add(&mut self, at: usize, within: Interval) {
        self.ranges.push((within.least, within.most, at));
    }

    fn sort(&mut self) {
        self.ranges.sort_unstable();
        let mut highest = 0;
        let mut up_to = |most: u128| {
            highest = most.max(highest);
            highest
        };
        self.highest = self.ranges.iter().map(|(_, most, _)| up_to(*most)).collect();
    }

    /// Returns the rules whose amounts contain the value; all of them if a request has none.
    fn containing(&self, value: Option<u128>) -> impl Iterator<Item = usize> {
        let end = value.map_or(self.ranges.len(), |value| self.ranges.partition_point(|(least, ..)| *least <= value));
        let is_near = move |highest: &u128| value.is_none_or(|value| *highest >= value);
        let near = self.highest.iter().take(end).rev().take_while(move |highest| is_near(highest)).count();
        let ranges = self.ranges.iter().take(end).skip(end.saturating_sub(near));
        ranges.filter(move |(_, most, _)| value.is_none_or(|value| *most >= value)).map(|(.., at)| *at)
    }
}

fn amounts_of(conditions: &[Condition]) -> Option<Interval> {
    conditions.iter().find_map(|condition| match condition {
        Condition::Amount { within, .. } => Some(*within),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::policy::rate::Mode;
    use crate::policy::request::Valuation;
    use crate::policy::rule::Effect;
    use crate::policy::rules::Rules;
    use crate::policy::when::When;
    use crate::policy::words::Groups;

    /// However many rules there are for others, a request is compared only with its own.
    #[test]
    fn rules_are_found_by_the_names_that_they_ask_for() {
        let operation = OperationId::new("createOfframp");
        let rule = |at: usize| Rule {
            id: format!("r{at}").into(),
            place: (1, 1),
            effect: Effect::Allow,
            approval: None,
            mode: Mode::Enforce,
            when: When {
                operations: [operation.clone()].into(),
                conditions: vec![
                    Condition::Names(Field::Environment, ["production".to_owned()].into()),
                    // A name that all rules share distinguishes none.
                    Condition::Names(Field::Role, ["payroll".to_owned()].into()),
                    Condition::Names(Field::DestinationAccount, [format!("account-{}", at / 2)].into()),
                ],
            },
        };
        let rules = Rules::new(
            (0..10_000).map(rule).collect(),
            Vec::new(),
            BTreeMap::new(),
            Groups::new(),
            Valuation::default(),
        );
        let found = rules.index.get(&operation).unwrap();
        assert!(found.always.is_empty());
        let by_account = found.by_name.get(&Field::DestinationAccount).unwrap();
        assert_eq!(by_account.get("account-77"), Some(&vec![154, 155]));
    }

    /// Bands of amounts, some inside of others: only those that contain the value are compared.
    #[test]
    fn rules_are_found_by_the_amounts_that_they_ask_for() {
        let mut index = AmountIndex::default();
        let bands = (0..100).map(|at| (at * 10 + 1, at * 10 + 10)).chain([(1, 1_000), (500, 520), (900, 2_000)]);
        let bands: Vec<(u128, u128)> = bands.collect();
        for (at, (least, most)) in bands.iter().enumerate() {
            index.add(at, Interval { least: *least, most: *most });
        }
        index.sort();
        for value in [0, 1, 10, 11, 505, 1_000, 1_001, 2_000, 2_001] {
            let mut found: Vec<usize> = index.containing(Some(value)).collect();
            found.sort_unstable();
            let all = bands.iter().enumerate().filter(|(_, (least, most))| (*least..=*most).contains(&value));
            assert_eq!(found, all.map(|(at, _)| at).collect::<Vec<_>>(), "{value}");
        }
        assert_eq!(index.containing(None).count(), bands.len());
    }
}
