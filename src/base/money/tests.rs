use proptest::prelude::*;

use super::*;

/// A number as its decimal digits, the last first: slow, of any length, and obviously right.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Big(Vec<u8>);

impl Big {
    fn parse(text: &str) -> Big {
        Big(text.bytes().rev().map(|b| b - b'0').collect()).trimmed()
    }

    fn trimmed(mut self) -> Big {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
        self
    }

    fn times(&self, other: &Big) -> Big {
        let mut digits = vec![0_u32; self.0.len() + other.0.len() + 1];
        for (i, a) in self.0.iter().enumerate() {
            for (j, b) in other.0.iter().enumerate() {
                digits[i + j] += u32::from(*a) * u32::from(*b);
            }
        }
        let mut carry = 0;
        let carried = digits.into_iter().map(|digit| {
            let sum = digit + carry;
            carry = sum / 10;
            u8::try_from(sum % 10).unwrap()
        });
        Big(carried.collect()).trimmed()
    }

    /// Divided by ten to this power, rounded up.
    fn shifted(&self, power: usize) -> Big {
        let has_rest = self.0.iter().take(power).any(|digit| *digit != 0);
        let mut digits: Vec<u8> = self.0.iter().skip(power).copied().collect();
        if has_rest {
            let mut at = 0;
            loop {
                if at == digits.len() {
                    digits.push(1);
                    break;
                }
                digits[at] += 1;
                if digits[at] < 10 {
                    break;
                }
                digits[at] = 0;
                at += 1;
            }
        }
        Big(digits).trimmed()
    }

    fn grown(&self, power: usize) -> Big {
        Big([vec![0; power], self.0.clone()].concat()).trimmed()
    }

    fn text(&self) -> String {
        if self.0.is_empty() { "0".into() } else { self.0.iter().rev().map(|d| char::from(b'0' + d)).collect() }
    }
}

fn assets(decimals: u32, usd: &str) -> Assets {
    let mut assets = Assets::default();
    let worth = Worth::Rate { usd: Decimal::parse(usd).unwrap(), from_secs: 0, to_secs: 100 };
    assets.insert("coin", Asset { decimals, worth });
    assets
}

proptest! {
    #[test]
    fn units_agree_with_long_hand(whole in "(0|[1-9][0-9]{0,40})", fraction in "[0-9]{0,24}", decimals in 0_u32..=18) {
        let text = if fraction.is_empty() { whole.clone() } else { format!("{whole}.{fraction}") };
        let found = assets(decimals, "1").units(&text, "coin");
        let missing = (decimals as usize).checked_sub(fraction.len());
        let meant = missing.map(|missing| Big::parse(&format!("{whole}{fraction}")).grown(missing).text());
        match meant {
            _ if Decimal::parse(&text).is_err() => prop_assert_eq!(found, Err(MoneyFault::TooLarge)),
            None => prop_assert_eq!(found, Err(MoneyFault::TooManyDecimals { most: decimals })),
            Some(zero) if zero == "0" => prop_assert_eq!(found, Err(MoneyFault::Zero)),
            Some(meant) if meant.parse::<u128>().is_err() => prop_assert_eq!(found, Err(MoneyFault::TooLarge)),
            Some(meant) => prop_assert_eq!(found.unwrap().to_string(), meant),
        }
    }

    #[test]
    fn values_agree_with_long_hand(units in 1_u128..=u128::MAX / 4, down in 0_u32..38, decimals in 0_u32..=18,
                                   whole in 0_u32..100_000, fraction in "[0-9]{1,8}") {
        let units = (units / 10_u128.pow(down)).max(1);
        let digits = format!("{whole}{fraction}");
        prop_assume!(Big::parse(&digits).text() != "0");
        let found = assets(decimals, &format!("{whole}.{fraction}")).value_of_units(units, "coin", 5);
        let scale = decimals as usize + fraction.len();
        let product = Big::parse(&units.to_string()).times(&Big::parse(&digits)).grown(6);
        let meant = product.shifted(scale).text();
        match meant.parse::<u64>() {
            Ok(micros) if micros <= MAX_MICRO_USD => prop_assert_eq!(found.map(MicroUsd::as_u64), Ok(micros)),
            _ => prop_assert_eq!(found, Err(MoneyFault::TooLarge)),
        }
    }

    #[test]
    fn nothing_but_plain_digits_is_an_amount(text in "\\PC{0,12}") {
        let is_plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        if Decimal::parse(&text).is_ok() {
            prop_assert!(text.split('.').count() <= 2 && text.split('.').all(is_plain));
        }
    }
}

#[test]
fn what_has_two_readings_is_refused() {
    for (text, fault) in [
        ("", MoneyFault::Empty),
        ("+1", MoneyFault::Sign),
        ("-1", MoneyFault::Sign),
        ("1e3", MoneyFault::Exponent),
        ("1.5E3", MoneyFault::Exponent),
        ("0x10", MoneyFault::NotDigits),
        (" 1", MoneyFault::NotDigits),
        ("1 ", MoneyFault::NotDigits),
        ("1,000", MoneyFault::NotDigits),
        ("1_000", MoneyFault::NotDigits),
        ("1.2.3", MoneyFault::NotDigits),
        (".5", MoneyFault::NotDigits),
        ("5.", MoneyFault::NotDigits),
        ("٣", MoneyFault::NotDigits),
        ("1٣", MoneyFault::NotDigits),
        ("１", MoneyFault::NotDigits),
        ("NaN", MoneyFault::NotDigits),
        ("inf", MoneyFault::NotDigits),
        ("007", MoneyFault::LeadingZero),
        ("00.5", MoneyFault::LeadingZero),
        ("0", MoneyFault::Zero),
        ("0.000000", MoneyFault::Zero),
        ("1.0000000", MoneyFault::TooManyDecimals { most: 6 }),
        ("340282366920938463463374607431768211456", MoneyFault::TooLarge),
        ("340282366920938463463374607431768211455", MoneyFault::TooLarge),
    ] {
        assert_eq!(Assets::default().units(text, "usdc"), Err(fault), "{text:?}");
    }
}

#[test]
fn names_of_assets_are_one_in_any_case() {
    let assets = Assets::default();
    for name in ["usdc", "USDC", "UsDc"] {
        assert_eq!(assets.units("1.5", name), Ok(1_500_000));
    }
    for name in ["usdc ", "uſdc", "eurc"] {
        assert_eq!(assets.units("1.5", name), Err(MoneyFault::UnknownAsset), "{name:?}");
    }
    assert_eq!(assets.units("1.5", ""), Err(MoneyFault::NoAsset));
    assert_eq!(assets.units("1.234", "usd"), Err(MoneyFault::TooManyDecimals { most: 2 }));
}

#[test]
fn a_rate_has_its_time() {
    let assets = assets(18, "2500.25");
    assert_eq!(assets.value("2", "COIN", 0).unwrap().to_string(), "5000.5 USD");
    assert_eq!(assets.value("0.000000000000000001", "coin", 99).map(MicroUsd::as_u64), Ok(1));
    for now in [-1, 100, i64::MAX] {
        assert_eq!(assets.value("2", "coin", now), Err(MoneyFault::StaleValue));
    }
}

#[test]
fn what_a_price_lets_be_spent_is_rounded_up() {
    let assets = Assets::default();
    let spent = |bought, price| assets.spent(bought, "usdc", Decimal::parse(price).unwrap(), "usdt");
    assert_eq!(spent("100", "1"), Ok(100_000_000));
    assert_eq!(spent("100", "0.5"), Ok(200_000_000));
    assert_eq!(spent("100", "0.3"), Ok(333_333_334));
    assert_eq!(spent("100", "0.0001"), Ok(1_000_000_000_000));
    assert_eq!(spent("100", "0"), Err(MoneyFault::Zero));
}

#[test]
fn a_share_more_is_rounded_up() {
    let value = |micros| MicroUsd::new(micros).unwrap();
    assert_eq!(value(1).and_millionths(1), Ok(value(2)));
    assert_eq!(value(100_000_000).and_millionths(10_000), Ok(value(101_000_000)));
    assert_eq!(MicroUsd::MAX.and_millionths(1), Err(MoneyFault::TooLarge));
}
