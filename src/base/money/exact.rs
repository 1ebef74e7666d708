//! Exact comparison and addition of decimals, and their one spelling.

use std::cmp::Ordering;
use std::fmt;

use super::{Decimal, power};

impl Decimal {
    /// The order of two amounts, however many zeros their fractions end with.
    pub fn compare(self, other: Decimal) -> Ordering {
        let lifted =
            |one: Decimal, to: u32| power(to.saturating_sub(one.scale)).and_then(|p| one.digits.checked_mul(p));
        match self.scale.cmp(&other.scale) {
            // A number that does not fit with the other's decimals is larger than every number that does.
            Ordering::Less => lifted(self, other.scale).map_or(Ordering::Greater, |units| units.cmp(&other.digits)),
            Ordering::Equal => self.digits.cmp(&other.digits),
            Ordering::Greater => lifted(other, self.scale).map_or(Ordering::Less, |units| self.digits.cmp(&units)),
        }
    }

    /// The exact sum; `None` where it has more digits than are counted.
    pub fn plus(self, other: Decimal) -> Option<Decimal> {
        let scale = self.scale.max(other.scale);
        let (one, two) = (self.units(scale).ok()?, other.units(scale).ok()?);
        Some(Decimal { digits: one.checked_add(two)?, scale })
    }

    /// The exact difference; `None` where it is below zero, or an amount has more digits than are counted.
    pub fn minus(self, other: Decimal) -> Option<Decimal> {
        let scale = self.scale.max(other.scale);
        let (one, two) = (self.units(scale).ok()?, other.units(scale).ok()?);
        Some(Decimal { digits: one.checked_sub(two)?, scale })
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = usize::try_from(self.scale).unwrap_or(usize::MAX).saturating_add(1);
        let digits = format!("{:0>width$}", self.digits);
        let (whole, fraction) = digits.split_at(digits.len().saturating_sub(width.saturating_sub(1)));
        if fraction.is_empty() { f.write_str(whole) } else { write!(f, "{whole}.{fraction}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn amounts_are_compared_and_added_without_loss() {
        let most = u128::MAX.to_string();
        for (one, other, order) in [
            ("1", "1.000", Ordering::Equal),
            ("0.1", "0.09", Ordering::Greater),
            ("9.99", "10", Ordering::Less),
            (&most, "0.000000000000000001", Ordering::Greater),
            ("0.000000000000000001", &most, Ordering::Less),
        ] {
            assert_eq!(decimal(one).compare(decimal(other)), order, "{one} {other}");
        }
        let sum = |one: &str, other: &str| decimal(one).plus(decimal(other)).map(|sum| sum.to_string());
        assert_eq!(sum("0.1", "0.2").as_deref(), Some("0.3"));
        assert_eq!(sum("9007199254740993", "0.000001").as_deref(), Some("9007199254740993.000001"));
        assert_eq!(sum("0.05", "0"), Some("0.05".to_owned()));
        assert_eq!(sum(&most, "1"), None);
    }
}
