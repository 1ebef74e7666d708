//! Sums of payments that have their terms, their status and their day in common. There are few such groups and many
//! payments: sums of what a person asks for are made of groups.

use std::collections::HashMap;
use std::sync::Arc;

use super::fact::PaymentStatus;
use crate::base::ids::Environment;
use crate::base::money::Decimal;
use crate::ledger::StoreTime;

const DAY_MICROS: i64 = 86_400_000_000;

/// A day in UTC, counted from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::console) struct PaymentDay(i64);

impl PaymentDay {
    pub fn of(at: StoreTime) -> PaymentDay {
        PaymentDay(at.as_micros().div_euclid(DAY_MICROS))
    }

    pub fn begin(self) -> StoreTime {
        StoreTime::of_micros(self.0.saturating_mul(DAY_MICROS))
    }

    /// The first time of the next day.
    pub fn end(self) -> StoreTime {
        StoreTime::of_micros(self.0.saturating_add(1).saturating_mul(DAY_MICROS))
    }
}

/// What many payments have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::console) struct PaymentTerms {
    pub operation: String,
    pub issuer: String,
    pub subject: String,
    pub requester: Option<String>,
    pub rules: Vec<String>,
    pub currency: Option<String>,
    pub chain: Option<String>,
    pub other_currency: Option<String>,
}

/// The payments of one day that have their terms and their status in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::console) struct PaymentGroup {
    pub environment: Environment,
    pub status: PaymentStatus,
    pub day: PaymentDay,
    pub terms: Arc<PaymentTerms>,
}

/// The number and the sum of some payments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::console) struct MoneySum {
    pub count: u64,
    /// The sum of the stated amounts; `None` where it has too many digits.
    stated: Option<Decimal>,
    /// Payments that state no amount.
    unstated: u64,
    /// In micro-USD, of those payments that have a value.
    pub value: u128,
    /// Payments without a value in USD.
    pub unvalued: u64,
}

impl MoneySum {
    /// Returns the sum of one payment with this amount and this value in micro-USD.
    pub fn of_one(amount: Option<Decimal>, value: Option<u64>) -> MoneySum {
        MoneySum {
            count: 1,
            stated: amount.or(Some(Decimal::ZERO)),
            unstated: u64::from(amount.is_none()),
            value: u128::from(value.unwrap_or(0)),
            unvalued: u64::from(value.is_none()),
        }
    }

    pub fn plus(self, other: MoneySum) -> MoneySum {
        MoneySum {
            count: self.count.saturating_add(other.count),
            stated: self.stated.zip(other.stated).and_then(|(sum, amount)| sum.plus(amount)),
            unstated: self.unstated.saturating_add(other.unstated),
            value: self.value.saturating_add(other.value),
            unvalued: self.unvalued.saturating_add(other.unvalued),
        }
    }

    fn minus(self, other: MoneySum) -> MoneySum {
        MoneySum {
            count: self.count.saturating_sub(other.count),
            stated: self.stated.zip(other.stated).and_then(|(sum, amount)| sum.minus(amount)),
            unstated: self.unstated.saturating_sub(other.unstated),
            value: self.value.saturating_sub(other.value),
            unvalued: self.unvalued.saturating_sub(other.unvalued),
        }
    }

    /// Returns the exact sum; `None` where a payment states no amount, or the sum has too many digits.
    pub fn amount(&self) -> Option<Decimal> {
        self.stated.filter(|_| self.unstated == 0)
    }
}

/// The sums of all groups.
#[derive(Debug, Default)]
pub(super) struct PaymentGroups(HashMap<PaymentGroup, MoneySum>);

impl PaymentGroups {
    pub fn all(&self) -> impl Iterator<Item = (&PaymentGroup, &MoneySum)> {
        self.0.iter()
    }

    /// Takes a payment into its group.
    pub fn add(&mut self, group: PaymentGroup, one: MoneySum) {
        self.0.entry(group).and_modify(|sum| *sum = sum.plus(one)).or_insert(one);
    }

    /// Takes a payment out. Returns its group where the sum of the others is not known any more: what has too many
    /// digits cannot be taken from.
    #[must_use]
    pub fn remove(&mut self, group: PaymentGroup, one: MoneySum) -> Option<PaymentGroup> {
        let sum = self.0.get_mut(&group)?;
        *sum = sum.minus(one);
        if sum.count == 0 {
            self.0.remove(&group);
            return None;
        }
        sum.stated.is_none().then_some(group)
    }

    pub fn put(&mut self, group: PaymentGroup, sum: MoneySum) {
        self.0.insert(group, sum);
    }
}
