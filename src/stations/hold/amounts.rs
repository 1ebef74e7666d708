//! The amounts of a call that a signature names, as the call states them.

use serde::{Deserialize, Serialize};

use crate::catalog::{Charge, ChargeForm, Movement, Party};

/// What a call moves, without the names of people and accounts. An audit entry keeps the same, so that an auditor compares
/// both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignedAmounts {
    pub source: SignedSide,
    pub destination: SignedSide,
    charges: Vec<SignedCharge>,
    price: Option<String>,
}

/// One end of a movement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SignedSide {
    amount: Option<String>,
    currency: Option<String>,
    chain: Option<String>,
}

/// One fee.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SignedCharge {
    form: Option<ChargeForm>,
    value: Option<String>,
    is_included: bool,
}

impl SignedAmounts {
    /// Takes them from a movement; a call without one moves nothing.
    pub fn stated_by(movement: Option<&Movement>) -> SignedAmounts {
        let Some(Movement { source, destination, charges, price, .. }) = movement else {
            return SignedAmounts::default();
        };
        let (source, destination) = (SignedSide::stated_by(source), SignedSide::stated_by(destination));
        let charge = |Charge { form, value, is_included, .. }: &Charge| SignedCharge {
            form: *form,
            value: value.clone(),
            is_included: *is_included,
        };
        SignedAmounts { source, destination, charges: charges.iter().map(charge).collect(), price: price.clone() }
    }

    /// Returns the ends in words: `500 usdt on POLYGON`.
    pub fn in_words(&self) -> String {
        let sides = [&self.source, &self.destination].map(SignedSide::in_words);
        sides.into_iter().filter(|side| !side.is_empty()).collect::<Vec<_>>().join(" to ")
    }
}

impl SignedSide {
    fn stated_by(Party { amount, currency, chain, .. }: &Party) -> SignedSide {
        SignedSide { amount: amount.clone(), currency: currency.clone(), chain: chain.clone() }
    }

    fn in_words(&self) -> String {
        let money = [&self.amount, &self.currency].into_iter().flatten().cloned().collect::<Vec<_>>().join(" ");
        match &self.chain {
            Some(chain) => format!("{money} on {chain}").trim_start().to_owned(),
            None => money,
        }
    }
}
