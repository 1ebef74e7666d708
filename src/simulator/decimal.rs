//! Amounts in millionths, for quotes: exact, checked, rounded down.

use std::fmt;

use serde_json::{Number, Value};

const UNIT: i128 = 1_000_000;
const DECIMALS: usize = 6;

/// A decimal of six places, as stablecoins have. Further digits are cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SimulatorDecimal(i128);

impl SimulatorDecimal {
    pub(super) const ZERO: SimulatorDecimal = SimulatorDecimal(0);

    pub(super) const fn from_millionths(millionths: i128) -> SimulatorDecimal {
        SimulatorDecimal(millionths)
    }

    /// Parses plain digits with or without a fraction; `None` for anything else and for numbers that are too large.
    pub(super) fn parse(text: &str) -> Option<SimulatorDecimal> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let all_digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        if !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let kept: String = fraction.chars().chain(std::iter::repeat('0')).take(DECIMALS).collect();
        let whole: i128 = whole.parse().ok()?;
        whole.checked_mul(UNIT)?.checked_add(kept.parse().ok()?).map(SimulatorDecimal)
    }

    pub(super) fn minus(self, other: SimulatorDecimal) -> SimulatorDecimal {
        SimulatorDecimal(self.0.saturating_sub(other.0).max(0))
    }

    pub(super) fn plus(self, other: SimulatorDecimal) -> SimulatorDecimal {
        SimulatorDecimal(self.0.saturating_add(other.0))
    }

    pub(super) fn times(self, factor: SimulatorDecimal) -> Option<SimulatorDecimal> {
        scaled(self.0, factor.0, UNIT).map(SimulatorDecimal)
    }

    pub(super) fn divided_by(self, divisor: SimulatorDecimal) -> Option<SimulatorDecimal> {
        scaled(self.0, UNIT, divisor.0).map(SimulatorDecimal)
    }

    pub(super) fn to_number(self) -> Value {
        self.to_string().parse::<Number>().map_or(Value::Null, Value::Number)
    }

    /// Returns the number of the token's smallest units.
    pub(super) fn millionths(self) -> i128 {
        self.0
    }
}

impl fmt::Display for SimulatorDecimal {
    /// Formats at least two places, without further zeros at the end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / UNIT, format!("{:06}", self.0 % UNIT));
        let (cents, rest) = fraction.split_at(2);
        write!(f, "{whole}.{cents}{}", rest.trim_end_matches('0'))
    }
}

/// Returns the number that a text or a number of a body states, digit for digit.
pub(super) fn as_written(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => {
            let trimmed = text.trim_start_matches('0');
            let digits =
                if trimmed.is_empty() || trimmed.starts_with('.') { format!("0{trimmed}") } else { trimmed.to_owned() };
            digits.parse::<Number>().ok().map(Value::Number)
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Returns the amount that a text or a number of a body states.
pub(super) fn amount(value: &Value) -> Option<SimulatorDecimal> {
    match value {
        Value::Number(number) => SimulatorDecimal::parse(&number.to_string()),
        Value::String(text) => SimulatorDecimal::parse(text),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// `amount * by / of`, without the overflow that the whole product would have.
fn scaled(amount: i128, by: i128, of: i128) -> Option<i128> {
    let (times, rest) = (amount.checked_div(of)?, amount.checked_rem(of)?);
    times.checked_mul(by)?.checked_add(rest.checked_mul(by)?.checked_div(of)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decimal(text: &str) -> SimulatorDecimal {
        SimulatorDecimal::parse(text).unwrap()
    }

    #[test]
    fn amounts_are_exact() {
        for (text, shown) in [("1", "1.00"), ("0.1", "0.10"), ("007.1234567", "7.123456"), ("12.50", "12.50")] {
            assert_eq!(decimal(text).to_string(), shown);
        }
        for bad in ["", ".", "1.", ".5", "-1", "1e3", "1 ", &"9".repeat(40)] {
            assert_eq!(SimulatorDecimal::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn products_and_quotients_round_down_and_never_overflow() {
        assert_eq!(decimal("100").times(decimal("0.9998")), Some(decimal("99.98")));
        assert_eq!(decimal("0.000001").times(decimal("0.9998")), Some(SimulatorDecimal::ZERO));
        assert_eq!(decimal("99.98").divided_by(decimal("0.9998")), Some(decimal("100")));
        assert_eq!(decimal("1").divided_by(SimulatorDecimal::ZERO), None);
        let longest = decimal(&"9".repeat(30));
        assert!(longest.times(decimal("0.9998")).is_some());
        assert_eq!(longest.times(longest), None);
    }

    #[test]
    fn digits_stay_as_written() {
        for (written, kept) in [(json!("1500.00"), "1500.00"), (json!("007.10"), "7.10"), (json!("0.5"), "0.5")] {
            assert_eq!(as_written(&written).unwrap().to_string(), kept);
        }
    }
}
