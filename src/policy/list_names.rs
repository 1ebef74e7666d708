//! The names that the lists of a set give to destinations: people read a list's name sooner than an address.

use std::collections::{BTreeMap, BTreeSet};

use super::field_form::Sort;

/// The lists that contain a user, a wallet or an account, by its normal form.
#[derive(Clone, Debug, Default)]
pub struct ListNames(BTreeMap<String, BTreeSet<String>>);

impl ListNames {
    pub(super) fn of(lists: &BTreeMap<String, BTreeMap<Sort, BTreeSet<String>>>) -> ListNames {
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (list, sorts) in lists {
            let of_money =
                |sort: &Sort| matches!(sort, Sort::User | Sort::Wallet | Sort::ExternalWallet | Sort::Account);
            for member in sorts.iter().filter(|(sort, _)| of_money(sort)).flat_map(|(_, members)| members) {
                names.entry(member.clone()).or_default().insert(list.clone());
            }
        }
        ListNames(names)
    }

    /// Returns every listed name with its lists.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.0.iter().map(|(name, lists)| (name.as_str(), lists))
    }
}
