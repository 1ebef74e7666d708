//! The values that a collection of conditions mentions.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use jiff::tz::TimeZone;

use crate::base::pointer::Pointer;
use crate::policy::condition::{Condition, SoughtValue};
use crate::policy::literal::Literal as Written;
use crate::policy::request::Field;

/// The values that conditions mention.
#[derive(Default)]
pub(super) struct Gathered<'c> {
    sets: HashMap<&'c BTreeSet<String>, usize>,
    by_field: BTreeMap<Field, HashMap<&'c str, BTreeSet<usize>>>,
    seen: HashSet<(Field, usize)>,
    pub cuts: BTreeSet<u128>,
    pub price_cuts: BTreeSet<u128>,
    pub bodies: BTreeMap<&'c Pointer, BTreeSet<&'c Written>>,
    pub zones: BTreeMap<String, TimeZone>,
    /// The first days of ranges of dates, and the first days after them, by zone.
    pub date_cuts: BTreeMap<String, BTreeSet<u128>>,
    pub cooldowns: BTreeSet<Duration>,
    /// Wallets that are only known as the destination of a rule: among takers of fees they are no names.
    own_wallets: HashSet<&'c str>,
}

impl<'c> Gathered<'c> {
    /// Wallets in `own_wallets` are no names among takers of fees.
    pub(super) fn without(own_wallets: HashSet<&'c str>) -> Gathered<'c> {
        Gathered { own_wallets, ..Gathered::default() }
    }

    /// Whether there are wallets that are no names among takers of fees.
    pub(super) fn has_own_wallets(&self) -> bool {
        !self.own_wallets.is_empty()
    }

    pub(super) fn condition(&mut self, condition: &'c Condition) {
        match condition {
            Condition::Names(field, set) | Condition::NotNames(field, set) => {
                field.parts().iter().for_each(|part| self.set(*part, set))
            }
            Condition::Destination(ways) | Condition::NotDestination(ways) => {
                self.set(Field::DestinationUser, &ways.user);
                self.set(Field::DestinationWallet, &ways.wallet);
                self.set(Field::FeeWallet, &ways.wallet);
                self.set(Field::DestinationExternal, &ways.external_wallet);
            }
            Condition::FeesOnlyTo(set) => self.set(Field::FeeWallet, set),
            Condition::Amount { within, .. } => {
                self.cuts.extend([within.least, within.most.saturating_add(1)]);
            }
            Condition::Price(within) => {
                self.price_cuts.extend([within.least, within.most.saturating_add(1)]);
            }
            Condition::Body(pointer, sought) => {
                let asked = self.bodies.entry(pointer).or_default();
                if let SoughtValue::Among(set) | SoughtValue::NotAmong(set) = sought {
                    asked.extend(set);
                }
            }
            Condition::Weekday(_, zone) | Condition::Hour(_, zone) => {
                self.zones.insert(zone_name(zone), zone.clone());
            }
            Condition::Date(ranges, zone) => {
                self.zones.insert(zone_name(zone), zone.clone());
                let cuts = self.date_cuts.entry(zone_name(zone)).or_default();
                cuts.extend(ranges.iter().map(|range| range.least));
                cuts.extend(ranges.iter().filter_map(|range| range.most.checked_add(1)));
            }
            Condition::During(range, zone, inner) => {
                self.zones.insert(zone_name(zone), zone.clone());
                let cuts = self.date_cuts.entry(zone_name(zone)).or_default();
                cuts.extend([range.least, range.most.saturating_add(1)]);
                self.condition(inner);
            }
            Condition::NewDestination { cooldown, .. } => {
                self.cooldowns.insert(*cooldown);
            }
        }
    }

    /// Adds a set: names are distinguished by the sets that contain them.
    fn set(&mut self, field: Field, set: &'c BTreeSet<String>) {
        let next = self.sets.len();
        let at = *self.sets.entry(set).or_insert(next);
        if self.seen.insert((field, at)) {
            let names = self.by_field.entry(field).or_default();
            let is_named = |name: &&String| field != Field::FeeWallet || !self.own_wallets.contains(name.as_str());
            set.iter().filter(is_named).for_each(|name| {
                names.entry(name).or_default().insert(at);
            });
        }
    }

    /// Returns the names of a field in classes that no set distinguishes; `kind` separates them further.
    pub(super) fn classes<K: Ord>(&self, field: Field, kind: impl Fn(&str) -> K) -> Vec<Vec<&'c str>> {
        let mut classes: BTreeMap<(K, &BTreeSet<usize>), Vec<&'c str>> = BTreeMap::new();
        for (name, sets) in self.by_field.get(&field).into_iter().flatten() {
            classes.entry((kind(name), sets)).or_default().push(name);
        }
        let mut classes: Vec<_> = classes.into_values().collect();
        classes.iter_mut().for_each(|names| names.sort_unstable());
        classes.sort_unstable();
        classes
    }
}

pub(super) fn zone_name(zone: &TimeZone) -> String {
    zone.iana_name().unwrap_or("UTC").to_owned()
}
