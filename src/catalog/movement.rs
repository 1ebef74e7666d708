//! The money of a body, read by the pointers of the contract.

use serde_json::Value;

use super::operation::{Fees, Operation, Side};
use crate::base::normal::{self, AddressKind};
use crate::base::pointer::Pointer;

/// The movement that a body states: identifiers in their normal form, amounts as written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Movement {
    pub source: Party,
    pub destination: Party,
    pub fee_wallets: Vec<String>,
    /// The limit price: units of the destination's currency for one of the source's.
    pub price: Option<String>,
}

/// One end of a movement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Party {
    pub amount: Option<String>,
    pub currency: Option<String>,
    pub chain: Option<String>,
    pub user: Option<String>,
    pub wallet: Option<String>,
    pub external_wallet: Option<String>,
    pub account: Option<String>,
}

impl Operation {
    /// The movement of a body; `None` if the operation moves nothing.
    pub fn movement(&self, body: &Value) -> Option<Movement> {
        let money = self.money.as_ref()?;
        Some(Movement {
            source: party(&money.source, body),
            destination: party(&money.destination, body),
            fee_wallets: fee_wallets(&money.fees, body),
            price: money.price.as_ref().and_then(|p| p.get(body)).and_then(as_written),
        })
    }

    /// Returns whether its bodies can state an amount.
    pub fn has_amount(&self) -> bool {
        self.money.as_ref().is_some_and(|m| m.source.amount.is_some() || m.destination.amount.is_some())
    }
}

/// The address format of the chain that a body names.
pub fn chain_kind(chain: Option<&Pointer>, body: &Value) -> Option<AddressKind> {
    AddressKind::of_chain(chain?.get(body)?.as_str()?)
}

fn party(side: &Side, body: &Value) -> Party {
    let text = |pointer: &Option<Pointer>| pointer.as_ref().and_then(|p| p.get(body)).and_then(as_written);
    let kind = chain_kind(side.chain.as_ref(), body);
    Party {
        amount: text(&side.amount),
        currency: text(&side.currency),
        chain: text(&side.chain),
        user: text(&side.party).map(|t| normal::uuid(&t)),
        wallet: text(&side.wallet).map(|t| normal::wallet(kind, t)),
        external_wallet: text(&side.external_wallet).map(|t| normal::uuid(&t)),
        account: text(&side.account).map(|t| normal::uuid(&t)),
    }
}

fn fee_wallets(fees: &Fees, body: &Value) -> Vec<String> {
    let kind = chain_kind(fees.chain.as_ref(), body);
    let written = fees.wallets.iter().flat_map(|p| p.all(body)).filter_map(|(_, value)| as_written(value));
    written.map(|text| normal::wallet(kind, text)).collect()
}

fn as_written(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
