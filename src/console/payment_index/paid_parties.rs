//! The destinations that were paid, by those letters of their addresses that people compare.

use std::collections::HashMap;
use std::sync::Arc;

use crate::base::ids::Environment;

/// A destination, as payments name it.
type PaidParty = (Environment, Arc<str>);
/// A payment, by the name of its claim.
type PaidClaim = (Environment, Arc<str>);

/// The latest payment to a destination.
#[derive(Debug)]
struct LatestPaid {
    number: u64,
    claim: Arc<str>,
}

/// The destinations that were paid.
#[derive(Debug, Default)]
pub(in crate::console) struct PaidParties {
    payments: HashMap<PaidParty, LatestPaid>,
    /// Those whose address is still to be read.
    unread: Vec<PaidParty>,
    by_ends: HashMap<(Environment, Box<str>), Vec<PaidParty>>,
}

impl PaidParties {
    /// Notes a payment to a destination.
    pub(super) fn note(&mut self, party: PaidParty, number: u64, claim: &Arc<str>) {
        match self.payments.get_mut(&party) {
            Some(latest) if latest.number >= number => {}
            Some(latest) => *latest = LatestPaid { number, claim: claim.clone() },
            None => {
                self.unread.push(party.clone());
                self.payments.insert(party, LatestPaid { number, claim: claim.clone() });
            }
        }
    }

    /// Forgets the destinations whose latest payment is not kept.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&PaidClaim) -> bool) {
        let PaidParties { payments, unread, by_ends } = self;
        payments.retain(|(environment, _), latest| is_kept(&(*environment, latest.claim.clone())));
        unread.retain(|party| payments.contains_key(party));
        by_ends.retain(|_, parties| {
            parties.retain(|party| payments.contains_key(party));
            !parties.is_empty()
        });
    }

    /// Whether addresses are still to be read.
    pub fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Has the address of one destination read from a payment to it, which returns the letters that people compare.
    pub fn read_one(&mut self, ends: impl FnOnce(&PaidClaim) -> Option<String>) {
        let Some(party) = self.unread.pop() else { return };
        let Some(latest) = self.payments.get(&party) else { return };
        if let Some(ends) = ends(&(party.0, latest.claim.clone())) {
            self.by_ends.entry((party.0, ends.into())).or_default().push(party);
        }
    }

    /// Returns the latest payment to each destination whose address has these letters.
    pub fn with_ends(&self, environment: Environment, ends: &str) -> impl Iterator<Item = PaidClaim> {
        let parties = self.by_ends.get(&(environment, ends.into())).into_iter().flatten();
        parties.filter_map(|party| Some((party.0, self.payments.get(party)?.claim.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: Environment = Environment::Production;

    fn party(environment: Environment, name: &str) -> PaidParty {
        (environment, name.into())
    }

    fn claims(parties: &PaidParties, environment: Environment) -> Vec<String> {
        parties.with_ends(environment, "5aaaed").map(|(_, claim)| claim.to_string()).collect()
    }

    #[test]
    fn the_latest_payment_to_each_destination_is_found_by_its_letters_in_its_environment() {
        let mut parties = PaidParties::default();
        for (number, claim) in [(7, "new"), (3, "old"), (9, "newest")] {
            parties.note(party(PLACE, "wallet #1"), number, &claim.into());
        }
        parties.note(party(Environment::Sandbox, "wallet #1"), 8, &"trial".into());
        parties.note(party(PLACE, "user #2"), 4, &"other".into());
        let mut asked = 0;
        while parties.has_unread() {
            asked += 1;
            parties.read_one(|(_, claim)| (&**claim != "other").then(|| "5aaaed".to_owned()));
        }
        assert_eq!(asked, 3);
        assert_eq!(
            (claims(&parties, PLACE), claims(&parties, Environment::Sandbox)),
            (vec!["newest".to_owned()], vec!["trial".to_owned()])
        );
        parties.retain(|(environment, _)| *environment == Environment::Sandbox);
        assert!(claims(&parties, PLACE).is_empty() && claims(&parties, Environment::Sandbox).len() == 1);
    }
}
