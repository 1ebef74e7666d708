//! Rules that are alike but for a name of their own, such as a rule for each account of a payroll.
//!
//! Two names that no other rule, limit or question mentions, in rules that are otherwise the same, can be exchanged in
//! every request without changing an outcome. So whatever holds for one of the rules holds for the others, and a few of
//! them stand for all: the analysis of ten thousand such rules is that of three. The same is true of rules that are
//! repeated word for word.
//!
//! A payment that shows a claim is still decided by the whole set.

use std::collections::{HashMap, HashSet};

use crate::policy::condition::{Condition, SoughtValue, Ways};
use crate::policy::literal::Literal;
use crate::policy::request::Field;
use crate::policy::rule::{Effect, Rule};

/// How many of rules that are alike are kept. A request names a destination, a user on either side, or takers of fees:
/// they may be one name of a kind, or different ones.
const KEPT: usize = 3;

/// How many wallets are told apart as takers of fees.
const MAX_TAKERS: usize = 16;

/// The fields whose names can be exchanged: nothing is known of a name but that it is another one.
const EXCHANGEABLE: [Field; 8] = [
    Field::Caller,
    Field::Requester,
    Field::SourceUser,
    Field::DestinationUser,
    Field::SourceWallet,
    Field::SourceAccount,
    Field::DestinationAccount,
    Field::DestinationExternal,
];

/// A rule, and the sides whose set has it.
type SidedRule<'t> = (&'t Rule, u8);

/// The rules that are left out of an analysis, and those that stand for them.
#[derive(Debug, Default)]
pub(super) struct Twins<'t> {
    /// The positions of rules that are left out.
    left_out: HashSet<usize>,
    /// The names of those rules, each with the name that stands for it.
    pub names: HashMap<&'t str, &'t str>,
    /// Wallets that only a rule that allows knows, as its destination. As takers of fees in other payments they are like
    /// any wallet that nobody knows. Empty if there are few.
    pub own_wallets: HashSet<&'t str>,
    /// For how many rules that are left out a rule stands, by its position.
    alike: HashMap<usize, usize>,
}

impl<'t> Twins<'t> {
    /// `others` are the conditions of limits and of questions: the names in them are no rule's own.
    pub(super) fn of(rules: &[SidedRule<'t>], others: impl Iterator<Item = &'t Condition>) -> Twins<'t> {
        let mut twins = Twins::default();
        #[cfg(test)]
        if super::slow_way::is_chosen() {
            return twins;
        }
        if rules.len() <= KEPT {
            return twins;
        }
        let own = OwnNames::of(rules, others);
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        let mut repeated: HashMap<(u8, String), Vec<usize>> = HashMap::new();
        for (at, (rule, sides)) in rules.iter().enumerate() {
            match own.chosen.get(at).copied().flatten() {
                Some(name) => by_name.entry(name).or_default().push(at),
                None => repeated.entry((*sides, signature(rule, None))).or_default().push(at),
            }
        }
        for places in repeated.into_values() {
            let last = places.get(KEPT.saturating_sub(1)).copied();
            twins.leave_out(places.iter().copied().skip(KEPT), last);
        }
        let mut alike: HashMap<NameProfile, Vec<(&'t str, Vec<usize>)>> = HashMap::new();
        for (name, places) in by_name {
            let mut profile: Vec<(u8, String, usize)> = places
                .iter()
                .filter_map(|at| rules.get(*at).map(|(rule, sides)| (*sides, signature(rule, Some(name)), *at)))
                .collect();
            profile.sort_unstable();
            let places = profile.iter().map(|(_, _, at)| *at).collect();
            let profile = profile.into_iter().map(|(sides, text, _)| (sides, text)).collect();
            // An issuer, or the kind of an address.
            let kind = name.split_once(':').map_or("", |(kind, _)| kind).to_owned();
            alike.entry((kind, profile)).or_default().push((name, places));
        }
        for mut names in alike.into_values().filter(|names| names.len() > KEPT) {
            names.sort_unstable_by(|(_, a), (_, b)| a.cmp(b));
            let Some((stands, last)) = names.get(KEPT.saturating_sub(1)).cloned() else { continue };
            for (name, places) in names.into_iter().skip(KEPT) {
                twins.names.insert(name, stands);
                for (place, last) in places.into_iter().zip(&last) {
                    twins.leave_out([place].into_iter(), Some(*last));
                }
            }
        }
        let of_kept = own.wallets(rules).into_iter().filter(|name| !twins.names.contains_key(name));
        twins.own_wallets = of_kept.collect();
        if twins.own_wallets.len() <= MAX_TAKERS {
            twins.own_wallets.clear();
        }
        twins
    }

    fn leave_out(&mut self, places: impl Iterator<Item = usize>, stands: Option<usize>) {
        for place in places {
            self.left_out.insert(place);
            if let Some(stands) = stands {
                let count = self.alike.entry(stands).or_default();
                *count = count.saturating_add(1);
            }
        }
    }

    /// Returns the rules that are kept, each with the number of rules that it stands for besides itself.
    pub(super) fn kept(&self, rules: Vec<SidedRule<'t>>) -> (Vec<SidedRule<'t>>, Vec<usize>) {
        let is_kept = |(at, _): &(usize, SidedRule<'t>)| !self.left_out.contains(at);
        let with_count = |(at, rule)| (rule, self.alike.get(&at).copied().unwrap_or(0));
        rules.into_iter().enumerate().filter(is_kept).map(with_count).unzip()
    }
}

/// The kind of a name, and what its rules say but for the name.
type NameProfile = (String, Vec<(u8, String)>);

/// The names that are alone in every condition that mentions them.
struct OwnNames<'t> {
    /// The rules of each.
    places: HashMap<&'t str, Vec<usize>>,
    /// The name of each rule that can be exchanged, if it has one.
    chosen: Vec<Option<&'t str>>,
}

impl<'t> OwnNames<'t> {
    fn of(rules: &[SidedRule<'t>], others: impl Iterator<Item = &'t Condition>) -> OwnNames<'t> {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
        let singles: Vec<Vec<&str>> = rules.iter().map(|(rule, _)| singles(rule)).collect();
        for (at, names) in singles.iter().enumerate() {
            names.iter().for_each(|name| places.entry(name).or_default().push(at));
        }
        if places.is_empty() {
            return OwnNames { places, chosen: vec![None; rules.len()] };
        }
        let of_rules = rules.iter().flat_map(|(rule, _)| &rule.when.conditions).filter(|one| single(one).is_none());
        for condition in of_rules.chain(others) {
            each_name(condition, &mut |name| {
                places.remove(name);
            });
        }
        // The fees of a rule may only go to its own destination, or to nobody.
        for (rule, _) in rules {
            let own = rule.when.conditions.iter().find_map(|condition| match condition {
                Condition::Destination(_) => single(condition),
                _ => None,
            });
            for condition in &rule.when.conditions {
                if let Condition::FeesOnlyTo(set) = condition {
                    set.iter().filter(|name| own != Some(name.as_str())).for_each(|name| {
                        places.remove(name.as_str());
                    });
                }
            }
        }
        // Of two names of its own, a rule has one exchanged; the other one is exchanged nowhere.
        let first = |names: &Vec<&'t str>| names.iter().copied().find(|name| places.contains_key(name));
        let mut chosen: Vec<Option<&str>> = singles.iter().map(first).collect();
        let is_everywhere = |name: &str| {
            let all = places.get(name).into_iter().flatten();
            all.copied().all(|at| chosen.get(at).copied().flatten() == Some(name))
        };
        let good: HashSet<&str> = chosen.iter().flatten().copied().filter(|name| is_everywhere(name)).collect();
        chosen.iter_mut().for_each(|name| *name = name.filter(|name| good.contains(name)));
        OwnNames { places, chosen }
    }

    /// Returns the wallets that are only known as the destination of rules that allow.
    fn wallets(&self, rules: &[SidedRule<'t>]) -> Vec<&'t str> {
        let is_destination = |rule: &Rule, name: &str| {
            let of_name = rule.when.conditions.iter().filter(|condition| single(condition) == Some(name));
            let mut are_wallets =
                of_name.map(|one| matches!(one, Condition::Destination(ways) if ways.wallet.len() == 1));
            rule.effect == Effect::Allow && are_wallets.all(|is_wallet| is_wallet)
        };
        let is_one = |(name, places): &(&&'t str, &Vec<usize>)| {
            places.iter().filter_map(|at| rules.get(*at)).all(|(rule, _)| is_destination(rule, name))
        };
        self.places.iter().filter(is_one).map(|(name, _)| *name).collect()
    }
}

/// Returns the names that are alone in a condition of a rule.
fn singles(rule: &Rule) -> Vec<&str> {
    let mut names: Vec<&str> = rule.when.conditions.iter().filter_map(single).collect();
    names.dedup();
    names
}

fn single(condition: &Condition) -> Option<&str> {
    let only = |set: &'_ std::collections::BTreeSet<String>| set.len() == 1;
    match condition {
        Condition::Names(field, set) if EXCHANGEABLE.contains(field) && only(set) => set.first().map(String::as_str),
        Condition::Destination(Ways { user, wallet, external_wallet }) => {
            let mut all = user.iter().chain(wallet).chain(external_wallet);
            all.next().filter(|_| all.next().is_none()).map(String::as_str)
        }
        _ => None,
    }
}

/// Calls `with` for each name in a condition; the names in a condition on fees belong to that on the destination.
fn each_name<'c>(condition: &'c Condition, with: &mut dyn FnMut(&'c str)) {
    match condition {
        Condition::Names(_, set) | Condition::NotNames(_, set) => set.iter().for_each(|name| with(name)),
        Condition::Destination(Ways { user, wallet, external_wallet })
        | Condition::NotDestination(Ways { user, wallet, external_wallet }) => {
            user.iter().chain(wallet).chain(external_wallet).for_each(|name| with(name));
        }
        Condition::Body(_, SoughtValue::Among(set) | SoughtValue::NotAmong(set)) => {
            for literal in set {
                if let Literal::Text(text) = literal {
                    with(text);
                }
            }
        }
        Condition::During(_, _, inner) => each_name(inner, with),
        Condition::FeesOnlyTo(_)
        | Condition::Body(_, SoughtValue::Present | SoughtValue::Absent)
        | Condition::NewDestination { .. }
        | Condition::Amount { .. }
        | Condition::Price(_)
        | Condition::Weekday(..)
        | Condition::Hour(..)
        | Condition::Date(..) => {}
    }
}

/// Returns what a rule says, but for its id and a name of its own.
pub(super) fn signature(rule: &Rule, own: Option<&str>) -> String {
    let Rule { effect, approval, mode, when, .. } = rule;
    let mut text = format!("{effect:?} {approval:?} {mode:?} {:?}", when.operations);
    for condition in &when.conditions {
        text.push('\n');
        match condition {
            Condition::Names(field, _) if own.is_some() && single(condition) == own => {
                text.push_str(&format!("{field:?} own"));
            }
            Condition::Destination(ways) if own.is_some() && single(condition) == own => {
                let Ways { user, wallet, external_wallet } = ways;
                let counts = (user.len(), wallet.len(), external_wallet.len());
                text.push_str(&format!("destination own {counts:?}"));
            }
            Condition::FeesOnlyTo(set) if own.is_some_and(|own| set.contains(own)) => text.push_str("fees own"),
            other => text.push_str(&format!("{other:?}")),
        }
    }
    text
}
