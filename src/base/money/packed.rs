//! Decimals in little room, where many are kept.

use super::Decimal;

/// A decimal: most have so few digits that they need no room of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackedDecimal(Packed);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Packed {
    Small { digits: u64, scale: u32 },
    Large(Box<Decimal>),
}

impl From<Decimal> for PackedDecimal {
    fn from(decimal: Decimal) -> PackedDecimal {
        PackedDecimal(match u64::try_from(decimal.digits) {
            Ok(digits) => Packed::Small { digits, scale: decimal.scale },
            Err(_) => Packed::Large(Box::new(decimal)),
        })
    }
}

impl From<&PackedDecimal> for Decimal {
    fn from(PackedDecimal(packed): &PackedDecimal) -> Decimal {
        match packed {
            Packed::Small { digits, scale } => Decimal { digits: u128::from(*digits), scale: *scale },
            Packed::Large(decimal) => **decimal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packed_decimal_is_as_it_was_written() {
        let (fits, beyond, most) =
            (u64::MAX.to_string(), (u128::from(u64::MAX) + 1).to_string(), u128::MAX.to_string());
        for text in ["0", "0.00", "12.50", "0.000000000000000001", &fits, &beyond, &most] {
            let decimal = Decimal::parse(text).unwrap();
            assert_eq!(Decimal::from(&PackedDecimal::from(decimal)), decimal, "{text}");
        }
        assert_eq!(size_of::<Option<PackedDecimal>>(), 16);
    }
}
