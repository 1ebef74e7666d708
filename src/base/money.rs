//! Exact money: decimals as written, units of assets, and micro-USD.
//!
//! Only a value in micro-USD is rounded, and always up. A text without an exact meaning is refused with the reason:
//! there is no float, no guess and no default.

mod exact;
mod packed;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

pub use packed::PackedDecimal;

/// The largest amount in micro-USD: every store counts up to it exactly.
pub const MAX_MICRO_USD: u64 = (1 << 53) - 1;
/// The most decimals that an asset may have.
pub const MAX_DECIMALS: u32 = 18;
/// The most decimals that the value of an asset may have. With 18 decimals of the asset, every value below
/// [`MAX_MICRO_USD`] is still computed in 128 bits.
const MAX_VALUE_DECIMALS: u32 = 8;
const LONGEST_TEXT: usize = 64;
const MICRO: u32 = 6;
const SHIPPED: [(&str, u32); 4] = [("usdc", 6), ("usdt", 6), ("usdcx", 6), ("usd", 2)];

/// Why a text is not an amount, or an amount has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MoneyFault {
    #[error("it is empty")]
    Empty,
    #[error("it has a sign")]
    Sign,
    #[error("it has an exponent")]
    Exponent,
    #[error("it is not made of the digits 0 to 9 and one point between them")]
    NotDigits,
    #[error("it has a leading zero")]
    LeadingZero,
    #[error("it has more than {most} decimals")]
    TooManyDecimals { most: u32 },
    #[error("it is too large")]
    TooLarge,
    #[error("it is zero")]
    Zero,
    #[error("its asset is not known")]
    UnknownAsset,
    #[error("it names no asset, as `5 usdc` does")]
    NoAsset,
    #[error("its asset has no value in USD")]
    NotValued,
    #[error("the value of its asset is too old")]
    StaleValue,
}

/// A decimal as it was written: `digits` divided by ten to the power of `scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    digits: u128,
    scale: u32,
}

impl Decimal {
    pub const ZERO: Decimal = Decimal { digits: 0, scale: 0 };

    /// Parses ASCII digits with at most one point between them. No sign, no exponent, no blank, no zero before the first digit.
    ///
    /// ```
    /// use sluice::base::money::Decimal;
    ///
    /// assert_eq!(Decimal::parse("12.5").unwrap().units(6), Ok(12_500_000));
    /// assert!(Decimal::parse("1e6").is_err() && Decimal::parse("-1").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Decimal, MoneyFault> {
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (text, None),
        };
        shape(text, whole, fraction)?;
        let fraction = fraction.unwrap_or("");
        let scale = u32::try_from(fraction.len()).map_err(|_| MoneyFault::TooLarge)?;
        let digits = whole
            .bytes()
            .chain(fraction.bytes())
            .try_fold(0_u128, |sum, byte| sum.checked_mul(10)?.checked_add(u128::from(byte.checked_sub(b'0')?)));
        Ok(Decimal { digits: digits.ok_or(MoneyFault::TooLarge)?, scale })
    }

    pub fn is_zero(self) -> bool {
        self.digits == 0
    }

    /// The amount in units, where one asset has ten to the power of `scale` of them. Nothing is rounded.
    pub fn units(self, scale: u32) -> Result<u128, MoneyFault> {
        let missing = scale.checked_sub(self.scale).ok_or(MoneyFault::TooManyDecimals { most: scale })?;
        power(missing).and_then(|p| self.digits.checked_mul(p)).ok_or(MoneyFault::TooLarge)
    }
}

impl Decimal {
    /// The amount in units, rounded up.
    fn units_up(self, scale: u32) -> Result<u128, MoneyFault> {
        match self.scale.checked_sub(scale) {
            Some(more) if more > 0 => Ok(self.digits.div_ceil(power(more).ok_or(MoneyFault::TooLarge)?)),
            _ => self.units(scale),
        }
    }
}

fn shape(text: &str, whole: &str, fraction: Option<&str>) -> Result<(), MoneyFault> {
    if text.is_empty() {
        return Err(MoneyFault::Empty);
    }
    if text.len() > LONGEST_TEXT {
        return Err(MoneyFault::TooLarge);
    }
    if text.starts_with(['+', '-']) {
        return Err(MoneyFault::Sign);
    }
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !is_digits(whole) || fraction.is_some_and(|fraction| !is_digits(fraction)) {
        let has_exponent = text.starts_with(|c: char| c.is_ascii_digit()) && text.contains(['e', 'E']);
        return Err(if has_exponent { MoneyFault::Exponent } else { MoneyFault::NotDigits });
    }
    if whole.len() > 1 && whole.starts_with('0') {
        return Err(MoneyFault::LeadingZero);
    }
    Ok(())
}

/// A millionth of a USD, at most [`MAX_MICRO_USD`] of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MicroUsd(u64);

impl MicroUsd {
    pub const MAX: MicroUsd = MicroUsd(MAX_MICRO_USD);

    pub fn new(micros: u64) -> Result<MicroUsd, MoneyFault> {
        if micros > MAX_MICRO_USD { Err(MoneyFault::TooLarge) } else { Ok(MicroUsd(micros)) }
    }

    pub fn of(decimal: Decimal) -> Result<MicroUsd, MoneyFault> {
        MicroUsd::new(u64::try_from(decimal.units(MICRO)?).map_err(|_| MoneyFault::TooLarge)?)
    }

    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Returns a fraction of it, rounded up.
    pub fn fraction(self, fraction: Decimal) -> Result<MicroUsd, MoneyFault> {
        let product = u128::from(self.0).checked_mul(fraction.digits).ok_or(MoneyFault::TooLarge)?;
        let part = product.div_ceil(power(fraction.scale).ok_or(MoneyFault::TooLarge)?);
        MicroUsd::new(u64::try_from(part).map_err(|_| MoneyFault::TooLarge)?)
    }

    pub fn plus(self, other: MicroUsd) -> Result<MicroUsd, MoneyFault> {
        MicroUsd::new(self.0.checked_add(other.0).ok_or(MoneyFault::TooLarge)?)
    }

    /// Adds this many millionths, rounded up.
    pub fn and_millionths(self, millionths: u64) -> Result<MicroUsd, MoneyFault> {
        let more = u128::from(self.0).checked_mul(u128::from(millionths)).ok_or(MoneyFault::TooLarge)?;
        let sum = more.div_ceil(1_000_000).checked_add(u128::from(self.0)).ok_or(MoneyFault::TooLarge)?;
        MicroUsd::new(u64::try_from(sum).map_err(|_| MoneyFault::TooLarge)?)
    }
}

impl fmt::Display for MicroUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 1_000_000, self.0 % 1_000_000);
        if fraction == 0 {
            return write!(f, "{whole} USD");
        }
        let fraction = format!("{fraction:06}");
        write!(f, "{whole}.{} USD", fraction.trim_end_matches('0'))
    }
}

/// The value of one asset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worth {
    /// One USD.
    Par,
    /// A rate in USD, valid from one time to another, both in seconds since 1970.
    Rate {
        usd: Decimal,
        from_secs: i64,
        to_secs: i64,
    },
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asset {
    pub decimals: u32,
    pub worth: Worth,
}

/// The assets that amounts may be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assets(BTreeMap<String, Asset>);

impl Default for Assets {
    /// The assets of the interface, at par.
    fn default() -> Assets {
        let asset = |(name, decimals): (&str, u32)| (name.to_owned(), Asset { decimals, worth: Worth::Par });
        Assets(SHIPPED.into_iter().map(asset).collect())
    }
}

/// The normal form of an asset's name.
pub fn asset_name(name: &str) -> Cow<'_, str> {
    if name.bytes().any(|b| b.is_ascii_uppercase()) { name.to_ascii_lowercase().into() } else { name.into() }
}

/// Returns whether a text can be the value of an asset.
pub fn is_exact_value(usd: Decimal) -> bool {
    !usd.is_zero() && usd.scale <= MAX_VALUE_DECIMALS
}

impl Assets {
    /// Adds an asset, or replaces it.
    pub fn insert(&mut self, name: &str, asset: Asset) {
        self.0.insert(asset_name(name).into_owned(), asset);
    }

    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.keys().map(String::as_str)
    }

    /// The times at which rates begin, and those at which they end.
    pub fn rate_times(&self) -> impl Iterator<Item = i64> {
        let times = self.0.values().filter_map(|asset| match asset.worth {
            Worth::Rate { from_secs, to_secs, .. } => Some([from_secs, to_secs]),
            Worth::Par | Worth::Unknown => None,
        });
        times.flatten()
    }

    pub fn asset(&self, name: &str) -> Option<&Asset> {
        self.0.get(asset_name(name).as_ref())
    }

    fn known(&self, name: &str) -> Result<&Asset, MoneyFault> {
        let fault = if name.is_empty() { MoneyFault::NoAsset } else { MoneyFault::UnknownAsset };
        self.asset(name).ok_or(fault)
    }

    /// An amount in units of its asset.
    pub fn units(&self, amount: &str, asset: &str) -> Result<u128, MoneyFault> {
        let asset = self.known(asset)?;
        match Decimal::parse(amount)?.units(asset.decimals)? {
            0 => Err(MoneyFault::Zero),
            units => Ok(units),
        }
    }

    /// The value of an amount at a time, rounded up.
    pub fn value(&self, amount: &str, asset: &str, now_secs: i64) -> Result<MicroUsd, MoneyFault> {
        self.value_of_units(self.units(amount, asset)?, asset, now_secs)
    }

    /// The value of a fee at a time, rounded up. It may be zero, or have more decimals than its asset.
    pub fn value_of_fee(&self, fee: Decimal, asset: &str, now_secs: i64) -> Result<MicroUsd, MoneyFault> {
        let decimals = self.known(asset)?.decimals;
        self.value_of_units(fee.units_up(decimals)?, asset, now_secs)
    }

    /// Returns the value of a number of units, rounded up.
    pub fn value_of_units(&self, units: u128, asset: &str, now_secs: i64) -> Result<MicroUsd, MoneyFault> {
        let asset = self.known(asset)?;
        let usd = match asset.worth {
            Worth::Par => Decimal { digits: 1, scale: 0 },
            Worth::Rate { usd, from_secs, to_secs } if (from_secs..to_secs).contains(&now_secs) => usd,
            Worth::Rate { .. } => return Err(MoneyFault::StaleValue),
            Worth::Unknown => return Err(MoneyFault::NotValued),
        };
        let product = units.checked_mul(usd.digits).ok_or(MoneyFault::TooLarge)?;
        let scale = asset.decimals.saturating_add(usd.scale);
        let micros = match scale.checked_sub(MICRO) {
            Some(less) => product.div_ceil(power(less).ok_or(MoneyFault::TooLarge)?),
            None => power(MICRO.abs_diff(scale)).and_then(|p| product.checked_mul(p)).ok_or(MoneyFault::TooLarge)?,
        };
        MicroUsd::new(u64::try_from(micros).map_err(|_| MoneyFault::TooLarge)?)
    }

    /// Returns the most whole micro-USD that an amount is worth, and the seconds from which and to which that is so.
    pub fn most(&self, amount: Decimal, asset: &str) -> Result<(MicroUsd, i64, i64), MoneyFault> {
        let asset = self.known(asset)?;
        let (usd, from_secs, to_secs) = match asset.worth {
            Worth::Par => (Decimal { digits: 1, scale: 0 }, i64::MIN, i64::MAX),
            Worth::Rate { usd, from_secs, to_secs } => (usd, from_secs, to_secs),
            Worth::Unknown => return Err(MoneyFault::NotValued),
        };
        let product = amount.units(asset.decimals)?.checked_mul(usd.digits).ok_or(MoneyFault::TooLarge)?;
        let scale = asset.decimals.saturating_add(usd.scale);
        let factor = power(MICRO.abs_diff(scale)).ok_or(MoneyFault::TooLarge)?;
        let micros = if scale < MICRO { product.checked_mul(factor) } else { product.checked_div(factor) };
        let micros = micros.and_then(|micros| u64::try_from(micros).ok()).ok_or(MoneyFault::TooLarge)?;
        Ok((MicroUsd::new(micros)?, from_secs, to_secs))
    }

    /// The units of one asset that buy an amount of another at a price in the other for one, rounded up.
    pub fn spent(&self, bought: &str, asset: &str, price: Decimal, with: &str) -> Result<u128, MoneyFault> {
        let units = self.units(bought, asset)?;
        let (to, from) = (self.asset(asset), self.asset(with));
        let (to, from) = to.zip(from).ok_or(MoneyFault::UnknownAsset)?;
        if price.is_zero() {
            return Err(MoneyFault::Zero);
        }
        // bought / 10^to ÷ (digits / 10^scale) × 10^from
        let up = from.decimals.saturating_add(price.scale);
        let (up, down) = (up.saturating_sub(to.decimals), to.decimals.saturating_sub(up));
        let over = power(up).and_then(|p| units.checked_mul(p));
        let under = power(down).and_then(|p| price.digits.checked_mul(p));
        let (over, under) = over.zip(under).ok_or(MoneyFault::TooLarge)?;
        Ok(over.div_ceil(under))
    }
}

fn power(exponent: u32) -> Option<u128> {
    10_u128.checked_pow(exponent)
}

#[cfg(test)]
mod tests;
