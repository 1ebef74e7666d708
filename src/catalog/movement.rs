//! The money of a body, read by the pointers of the contract.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::contract::Violation;
use super::operation::{ChargePointers, Fees, Operation, Side};
use crate::base::money::Decimal;
use crate::base::normal::{self, AddressKind};
use crate::base::pointer::Pointer;
use crate::base::word_enum::word_enum;

/// The movement that a body states: identifiers in their normal form, amounts as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Movement {
    pub source: Party,
    pub destination: Party,
    pub fee_wallets: Vec<String>,
    /// The chain of the wallets that take fees.
    pub fee_chain: Option<String>,
    /// The fees that count in the value.
    pub charges: Vec<Charge>,
    /// The limit price: units of the destination's currency for one of the source's.
    pub price: Option<String>,
}

/// One fee, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Charge {
    /// `None` if the contract knows no such form.
    pub form: Option<ChargeForm>,
    pub value: Option<String>,
    /// The wallet that takes it.
    pub wallet: Option<String>,
    /// Whether the amount of the payment contains it.
    pub is_included: bool,
}

word_enum! {
    /// The form of a fee's value.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ChargeForm {
        Flat = "flat",
        /// A fraction of the payment: 0.0005 is 0.05%.
        Percentage = "percentage",
    }
}

/// One end of a movement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
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
            fee_chain: money.fees.chain.as_ref().and_then(|p| p.get(body)).and_then(as_written),
            charges: money.fees.charges.iter().flat_map(|pointers| charges(pointers, &money.fees, body)).collect(),
            price: money.price.as_ref().and_then(|p| p.get(body)).and_then(as_written),
        })
    }

    /// Returns the identifiers of the money that are in no known form. Each destination has one form, so that another
    /// spelling passes no list and no limit: an address is of its chain's kind, or of any known kind if the chain is
    /// not stated; users, accounts and external wallets are UUIDs.
    pub fn identifier_violations(&self, body: &Value) -> Vec<Violation> {
        let Some(money) = &self.money else { return Vec::new() };
        let mut violations = Vec::new();
        for side in [&money.source, &money.destination] {
            violations.extend(misspelt(side.wallet.iter(), chain_kind(side.chain.as_ref(), body), body));
            let references = [&side.party, &side.external_wallet, &side.account].into_iter().flatten();
            violations.extend(not_uuids(references, body));
        }
        violations.extend(misspelt(money.fees.wallets.iter(), chain_kind(money.fees.chain.as_ref(), body), body));
        violations
    }

    /// Returns whether its bodies can state an amount.
    pub fn has_amount(&self) -> bool {
        self.money.as_ref().is_some_and(|m| m.source.amount.is_some() || m.destination.amount.is_some())
    }
}

impl Charge {
    /// Whether it takes nothing, whatever the amount of the payment.
    pub fn is_zero(&self) -> bool {
        self.value.as_deref().is_some_and(|value| Decimal::parse(value).is_ok_and(Decimal::is_zero))
    }
}

impl Movement {
    /// Returns the side whose amount counts: the one that leaves; where only the one that arrives is stated, that one.
    pub fn main_side(&self) -> &Party {
        if self.source.amount.is_some() { &self.source } else { &self.destination }
    }

    /// Returns the sides that have a wallet without a known chain: one address exists on many chains, and each of them
    /// is another destination.
    pub fn wallets_without_chain(&self) -> impl Iterator<Item = &'static str> {
        let Movement { source, destination, fee_wallets, fee_chain, .. } = self;
        let sides = [
            ("source", source.wallet.is_some(), &source.chain),
            ("destination", destination.wallet.is_some(), &destination.chain),
            ("fee", !fee_wallets.is_empty(), fee_chain),
        ];
        let is_known = |chain: &Option<String>| chain.as_deref().is_some_and(|c| AddressKind::of_chain(c).is_some());
        sides.into_iter().filter(move |(_, has_wallet, chain)| *has_wallet && !is_known(chain)).map(|(side, ..)| side)
    }
}

fn misspelt<'p>(wallets: impl Iterator<Item = &'p Pointer>, kind: Option<AddressKind>, body: &Value) -> Vec<Violation> {
    let is_known = |text: &str| normal::known_wallet(kind, text).is_some();
    let expected = kind.map_or(normal::KNOWN_ADDRESSES, AddressKind::expected);
    unfit(wallets, body, is_known, expected)
}

fn not_uuids<'p>(references: impl Iterator<Item = &'p Pointer>, body: &Value) -> Vec<Violation> {
    unfit(references, body, normal::is_uuid, "a UUID")
}

fn unfit<'p>(
    pointers: impl Iterator<Item = &'p Pointer>,
    body: &Value,
    fits: impl Fn(&str) -> bool,
    expected: &str,
) -> Vec<Violation> {
    let is_wrong = |value: &Value| !value.is_null() && !value.as_str().is_some_and(&fits);
    // Few bodies have such a value, and only its place is told.
    let wrong = pointers.filter(|pointer| pointer.any(body, is_wrong));
    let wrong = wrong.flat_map(|pointer| pointer.all(body)).filter(|(_, value)| is_wrong(value));
    wrong.map(|(place, _)| Violation::new(place, "format", expected)).collect()
}

/// The address format of the chain that a body names.
fn chain_kind(chain: Option<&Pointer>, body: &Value) -> Option<AddressKind> {
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

/// Returns each fee of a body. Fees that are not where the contract says are one without a form, which has no value.
fn charges(pointers: &ChargePointers, fees: &Fees, body: &Value) -> Vec<Charge> {
    let is_included = pointers.is_included;
    let list = pointers.list().and_then(|list| list.get(body)).filter(|list| !list.is_null());
    if list.is_some_and(|list| !list.is_array()) {
        return vec![Charge { is_included, ..Charge::default() }];
    }
    let wallets: Vec<(String, &Value)> = fees.wallets.iter().flat_map(|p| p.all(body)).collect();
    let kind_of_wallet = chain_kind(fees.chain.as_ref(), body);
    let charge = |(place, fee): (String, &Value)| {
        let word = pointers.kind.get(fee).and_then(Value::as_str).unwrap_or("");
        let is_among = |words: &[String]| words.iter().any(|known| known == word);
        let form = match (is_among(&pointers.flat), is_among(&pointers.percentage)) {
            (true, false) => Some(ChargeForm::Flat),
            (false, true) => Some(ChargeForm::Percentage),
            _ => None,
        };
        let is_inside = |at: &str| at.strip_prefix(&place).is_some_and(|rest| rest.starts_with('/'));
        let wallet = wallets.iter().find(|(at, _)| is_inside(at)).and_then(|(_, wallet)| as_written(wallet));
        Charge {
            form,
            value: pointers.value.get(fee).and_then(as_written),
            wallet: wallet.map(|text| normal::wallet(kind_of_wallet, text)),
            is_included,
        }
    };
    pointers.each.all(body).into_iter().filter(|(_, fee)| !fee.is_null()).map(charge).collect()
}

fn as_written(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
