//! Exact sums of payments: of those that a filter shows, and day by day.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::base::money::Decimal;
use crate::console::payment_index::{PaymentKey, PaymentRow, PaymentStatus};

const DAY_MICROS: i64 = 86_400_000_000;

/// The order of a list: the amount by which it is sorted, the time, and the number.
pub(super) type SortKey = (u64, i64, u64);

/// The number and the sum of some payments.
#[derive(Clone, Copy, Debug)]
struct MoneySum {
    count: u64,
    /// `None` where no amount is stated, or the sum has too many digits.
    amount: Option<Decimal>,
    /// In micro-USD, of those payments that have a value.
    value: u128,
    /// Payments without a value in USD.
    unvalued: u64,
}

impl MoneySum {
    fn with(sum: Option<MoneySum>, row: &PaymentRow) -> MoneySum {
        let one = MoneySum {
            count: 1,
            amount: row.amount,
            value: u128::from(row.value.unwrap_or(0)),
            unvalued: u64::from(row.value.is_none()),
        };
        let Some(sum) = sum else { return one };
        MoneySum {
            count: sum.count.saturating_add(1),
            amount: sum.amount.zip(one.amount).and_then(|(sum, amount)| sum.plus(amount)),
            value: sum.value.saturating_add(one.value),
            unvalued: sum.unvalued.saturating_add(one.unvalued),
        }
    }
}

/// Sums by status and one more key. There are few of them, and many payments: none is copied to find its sum.
#[derive(Debug)]
struct SumsBy<K>(Vec<(PaymentStatus, K, MoneySum)>);

impl<K> Default for SumsBy<K> {
    fn default() -> SumsBy<K> {
        SumsBy(Vec::new())
    }
}

impl<K: Ord + Clone> SumsBy<K> {
    fn add(&mut self, row: &PaymentRow, key: &K) {
        match self.0.iter_mut().find(|(status, known, _)| *status == row.status && known == key) {
            Some((_, _, sum)) => *sum = MoneySum::with(Some(*sum), row),
            None => self.0.push((row.status, key.clone(), MoneySum::with(None, row))),
        }
    }

    fn sorted(&self) -> Vec<(PaymentStatus, K, MoneySum)> {
        let mut sorted = self.0.clone();
        sorted.sort_by(|(a, x, _), (b, y, _)| (a, x).cmp(&(b, y)));
        sorted
    }
}

/// The payments that a filter shows: their sums, and the rows of one page.
#[derive(Debug)]
pub(super) struct PaymentTally {
    sums: SumsBy<Option<String>>,
    pub count: u64,
    /// The first of the order behind `after`, one more than the page has.
    page: BinaryHeap<Reverse<(SortKey, PaymentKey)>>,
    room: usize,
    after: Option<SortKey>,
}

impl PaymentTally {
    pub fn new(limit: usize, after: Option<SortKey>) -> PaymentTally {
        let room = limit.saturating_add(1);
        PaymentTally { sums: SumsBy::default(), count: 0, page: BinaryHeap::new(), room, after }
    }

    pub fn add(&mut self, key: &PaymentKey, row: &PaymentRow, sort: SortKey) {
        self.count = self.count.saturating_add(1);
        self.sums.add(row, &row.terms.currency);
        let is_behind = self.after.is_none_or(|after| sort < after);
        let is_among = self.page.len() < self.room || self.page.peek().is_none_or(|Reverse((least, _))| sort > *least);
        if is_behind && is_among {
            self.page.push(Reverse((sort, key.clone())));
            if self.page.len() > self.room {
                self.page.pop();
            }
        }
    }

    /// Returns the sums by status and currency.
    pub fn sums_json(&self) -> Vec<Value> {
        let sum = |(status, currency, sum): &(PaymentStatus, Option<String>, MoneySum)| {
            json!({
                "status": status.as_str(),
                "currency": currency,
                "count": sum.count,
                "amount": sum.amount.map(|amount| amount.to_string()),
                "value": sum.value.to_string(),
                "unvalued": sum.unvalued,
            })
        };
        self.sums.sorted().iter().map(sum).collect()
    }

    /// Returns the payments of the page in their order, and the position of the next page.
    pub fn page(self) -> (Vec<PaymentKey>, Option<SortKey>) {
        let limit = self.room.saturating_sub(1);
        let sorted: Vec<(SortKey, PaymentKey)> =
            self.page.into_sorted_vec().into_iter().map(|Reverse(one)| one).collect();
        let next = if sorted.len() > limit { sorted.get(limit.saturating_sub(1)).map(|(sort, _)| *sort) } else { None };
        (sorted.into_iter().take(limit).map(|(_, key)| key).collect(), next)
    }
}

/// The paid, waiting and refused money of each day, by operation.
#[derive(Debug, Default)]
pub(super) struct DailyMoney(BTreeMap<i64, SumsBy<String>>);

impl DailyMoney {
    pub fn add(&mut self, row: &PaymentRow) {
        let day = row.at.as_micros().div_euclid(DAY_MICROS);
        self.0.entry(day).or_default().add(row, &row.terms.operation);
    }

    /// Returns each of these days in UTC, the earliest first.
    pub fn to_json(&self, days: &[Date]) -> Vec<Value> {
        let one = |(status, operation, sum): &(PaymentStatus, String, MoneySum)| {
            json!({
                "status": status.as_str(),
                "operation": operation,
                "count": sum.count,
                "value": sum.value.to_string(),
                "unvalued": sum.unvalued,
            })
        };
        let day = |day: &Date| {
            let begin = day.to_zoned(TimeZone::UTC).map(|begin| begin.timestamp().as_microsecond());
            let sums = begin.ok().and_then(|begin| self.0.get(&begin.div_euclid(DAY_MICROS)));
            let sums: Vec<Value> = sums.map(SumsBy::sorted).unwrap_or_default().iter().map(one).collect();
            json!({ "day": day.to_string(), "sums": sums })
        };
        days.iter().map(day).collect()
    }
}
