//! The names that the lists of a set give to destinations: people read a list's name sooner than an address.

use std::collections::{BTreeMap, BTreeSet};

use super::expiry::NameSet;
use super::field_form::Sort;
use crate::base::normal::seen_ends;

/// The lists that contain a user, a wallet or an account, by its normal form.
#[derive(Clone, Debug, Default)]
pub struct ListNames(BTreeMap<String, BTreeSet<String>>);

impl ListNames {
    pub(super) fn of(lists: &BTreeMap<String, BTreeMap<Sort, NameSet>>) -> ListNames {
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (list, sorts) in lists {
            let of_money =
                |sort: &Sort| matches!(sort, Sort::User | Sort::Wallet | Sort::ExternalWallet | Sort::Account);
            for member in sorts.iter().filter(|(sort, _)| of_money(sort)).flat_map(|(_, members)| &members.all) {
                names.entry(member.clone()).or_default().insert(list.clone());
            }
        }
        ListNames(names)
    }

    /// Returns the lists that contain a name in its normal form.
    pub fn lists_of(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.get(name).into_iter().flatten().map(String::as_str)
    }

    /// Returns a listed address that a person could take this one for: another one that begins and ends like it.
    pub fn look_alike(&self, name: &str) -> Option<&str> {
        if self.0.contains_key(name) {
            return None;
        }
        let own = seen_ends(name)?;
        self.0.keys().map(String::as_str).find(|known| seen_ends(known).as_ref() == Some(&own))
    }

    /// Returns every listed name with its lists.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.0.iter().map(|(name, lists)| (name.as_str(), lists))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_begins_and_ends_like_a_known_one_is_told_with_it() {
        let known = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed";
        let mut members = NameSet::default();
        members.add(known.to_owned(), None);
        let wallets = BTreeMap::from([(Sort::Wallet, members)]);
        let names = ListNames::of(&BTreeMap::from([("payouts".to_owned(), wallets)]));
        assert_eq!(names.lists_of(known).collect::<Vec<_>>(), ["payouts"]);
        assert_eq!(names.look_alike("0x5aa0000000000000000000000000000000000aed"), Some(known));
        for other in [
            known,
            "0x5ab0000000000000000000000000000000000aed",
            "0x5aa0000000000000000000000000000000000aec",
            "5aa",
            "",
        ] {
            assert_eq!(names.look_alike(other), None, "{other}");
        }
    }
}
