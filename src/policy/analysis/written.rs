//! Writes amounts, addresses and values of bodies as text.

use serde_json::{Value, json};

use super::universe::{Cell, is_valued};
use crate::base::money::{MAX_MICRO_USD, MoneyFault};
use crate::base::normal::{self, AddressKind};
use crate::catalog::Movement;
use crate::policy::literal::Literal as Written;
use crate::policy::request::{Valuation, ValueFault};

/// More units than any amount that has a value.
const MAX_UNITS: u128 = 1 << 110;

/// Returns an amount of an asset whose value in micro-USD, with these fees, lies in a closed interval.
pub(super) fn amount_worth(
    valuation: &Valuation,
    asset: &str,
    (least, most): (u128, u128),
    fees: &Movement,
    now_secs: i64,
) -> Option<String> {
    if !is_valued(valuation, asset) {
        return None;
    }
    let all = u128::from(MAX_MICRO_USD);
    // Values at the edges show most; without edges, a hundred will do.
    let wanted = match (least, most) {
        (1, most) if most == all => [100_000_000, 1],
        (1, most) => [most, 1],
        (least, most) => [least, most],
    };
    wanted.into_iter().find_map(|wanted| {
        let units = units_worth(valuation, asset, wanted, fees, now_secs)?;
        let alone = valuation.assets.value_of_units(units, asset, now_secs).ok()?;
        let value = u128::from(valuation.with_fees(alone, fees, now_secs).ok()?.as_u64());
        let decimals = valuation.assets.asset(asset)?.decimals;
        (least..=most).contains(&value).then(|| text_of_units(units, decimals)).flatten()
    })
}

/// Returns the fewest units that are worth at least that much.
fn units_worth(valuation: &Valuation, asset: &str, wanted: u128, fees: &Movement, now_secs: i64) -> Option<u128> {
    let (mut low, mut high) = (1, MAX_UNITS);
    while low < high {
        let middle = low.checked_add(high.checked_sub(low)? / 2)?;
        let is_enough = match valuation.assets.value_of_units(middle, asset, now_secs) {
            Ok(value) => match valuation.with_fees(value, fees, now_secs) {
                Ok(value) => u128::from(value.as_u64()) >= wanted,
                Err(ValueFault::Fee(MoneyFault::TooLarge)) => true,
                Err(_) => return None,
            },
            Err(MoneyFault::TooLarge) => true,
            Err(_) => return None,
        };
        if is_enough { high = middle } else { low = middle.checked_add(1)? }
    }
    Some(low)
}

pub(super) fn text_of_units(units: u128, decimals: u32) -> Option<String> {
    let one = 10_u128.checked_pow(decimals)?;
    let (whole, rest) = (units.checked_div(one)?, units.checked_rem(one)?);
    if rest == 0 {
        return Some(whole.to_string());
    }
    let width = usize::try_from(decimals).ok()?;
    Some(format!("{whole}.{}", format!("{rest:0>width$}").trim_end_matches('0')))
}

/// Returns an address as it is written on a chain; if it cannot exist there, its normal form.
pub(super) fn address(name: &str, chain: Option<&str>) -> String {
    let bytes = |hex: &str| -> Option<Vec<u8>> {
        let digits: Vec<u32> = hex.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
        digits.chunks(2).map(|pair| u8::try_from(pair.iter().fold(0, |sum, digit| sum * 16 + digit)).ok()).collect()
    };
    let written = match name.split_once(':') {
        Some(("solana", hex)) => bytes(hex).map(|bytes| bs58::encode(bytes).into_string()),
        Some(("tron", hex)) => bytes(hex).map(|bytes| bs58::encode(bytes).with_check().into_string()),
        _ => None,
    };
    let kind = chain.and_then(AddressKind::of_chain);
    written.filter(|text| normal::wallet(kind, text.clone()) == name).unwrap_or_else(|| name.to_owned())
}

/// Returns the value of a body that lies in a cell.
pub(super) fn value_of(cell: &Cell) -> Option<Value> {
    match cell {
        Cell::Thing => Some(json!({})),
        Cell::Written(Written::Text(text)) => Some(Value::from(text.as_str())),
        Cell::Written(Written::Number(number)) => Some(Value::from(*number)),
        Cell::Written(Written::Truth(truth)) => Some(Value::from(*truth)),
        _ => None,
    }
}

/// Formats a value as inline TOML.
pub(super) fn toml(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(toml).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| format!("{} = {}", Value::from(name.as_str()), toml(value));
            format!("{{ {} }}", members.iter().map(member).collect::<Vec<_>>().join(", ")).replace("{  }", "{}")
        }
        other => other.to_string(),
    }
}
