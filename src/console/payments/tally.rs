//! Exact sums of payments: of those that a filter shows, and day by day.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use jiff::civil::Date;
use jiff::tz::TimeZone;
use serde_json::{Value, json};

use crate::base::ids::Environment;
use crate::console::payment_index::{MoneySum, PaymentDay, PaymentGroup, PaymentKey, PaymentStatus, PaymentTerms};
use crate::ledger::StoreTime;

/// The order of a list: the amount by which it is sorted, the time, and the number.
pub(super) type SortKey = (u64, i64, u64);

/// Sums by status and one more key. There are few of them, and many payments: no key is copied to find its sum.
#[derive(Debug)]
struct SumsBy<K>(Vec<(PaymentStatus, K, MoneySum)>);

impl<K> Default for SumsBy<K> {
    fn default() -> SumsBy<K> {
        SumsBy(Vec::new())
    }
}

impl<K: Ord + Clone> SumsBy<K> {
    fn add(&mut self, status: PaymentStatus, key: &K, one: MoneySum) {
        match self.0.iter_mut().find(|(known, by, _)| *known == status && by == key) {
            Some((_, _, sum)) => *sum = sum.plus(one),
            None => self.0.push((status, key.clone(), one)),
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
    sums: BTreeMap<Environment, SumsBy<Option<String>>>,
    pub count: u64,
    /// The first of the order behind `after`, one more than the page has.
    page: BinaryHeap<Reverse<(SortKey, PaymentKey)>>,
    room: usize,
    after: Option<SortKey>,
}

impl PaymentTally {
    pub fn new(limit: usize, after: Option<SortKey>) -> PaymentTally {
        let room = limit.saturating_add(1);
        PaymentTally { sums: BTreeMap::new(), count: 0, page: BinaryHeap::new(), room, after }
    }

    /// Counts payments that have their status and their terms in common.
    pub fn add(&mut self, environment: Environment, status: PaymentStatus, terms: &PaymentTerms, sum: MoneySum) {
        self.count = self.count.saturating_add(sum.count);
        self.sums.entry(environment).or_default().add(status, &terms.currency, sum);
    }

    /// Whether the page wants a payment at this place of the order.
    pub fn wants(&self, sort: SortKey) -> bool {
        self.after.is_none_or(|after| sort < after)
            && (self.page.len() < self.room || self.page.peek().is_none_or(|Reverse((least, _))| sort > *least))
    }

    /// Puts a payment that the page wants into it.
    pub fn put(&mut self, key: &PaymentKey, sort: SortKey) {
        self.page.push(Reverse((sort, key.clone())));
        if self.page.len() > self.room {
            self.page.pop();
        }
    }

    /// Whether the page has all its payments, if those that come first in the order came first.
    pub fn is_full(&self) -> bool {
        self.page.len() >= self.room
    }

    /// Returns the sums by environment, status and currency.
    #[cfg(test)]
    pub fn sums(&self) -> BTreeMap<(Environment, PaymentStatus, Option<String>), MoneySum> {
        let each = self.sums.iter().flat_map(|(environment, sums)| {
            sums.sorted().into_iter().map(|(status, currency, sum)| ((*environment, status, currency), sum))
        });
        each.collect()
    }

    /// Returns the JSON of the sums.
    pub fn sums_json(&self) -> Vec<Value> {
        let sum = |environment: Environment, (status, currency, sum): &(PaymentStatus, Option<String>, MoneySum)| {
            json!({
                "environment": environment.as_str(),
                "status": status.as_str(),
                "currency": currency,
                "count": sum.count,
                "amount": sum.amount().map(|amount| amount.to_string()),
                "value": sum.value.to_string(),
                "unvalued": sum.unvalued,
            })
        };
        let each = self.sums.iter().map(|(environment, sums)| (*environment, sums.sorted()));
        each.flat_map(|(environment, sums)| sums.iter().map(|one| sum(environment, one)).collect::<Vec<_>>()).collect()
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

/// The paid, waiting and refused money of each day, by environment and operation.
#[derive(Debug, Default)]
pub(super) struct DailyMoney(BTreeMap<PaymentDay, BTreeMap<Environment, SumsBy<String>>>);

impl DailyMoney {
    pub fn add(&mut self, group: &PaymentGroup, sum: MoneySum) {
        let sums = self.0.entry(group.day).or_default().entry(group.environment).or_default();
        sums.add(group.status, &group.terms.operation, sum);
    }

    /// Returns each of these days in UTC, the earliest first.
    pub fn to_json(&self, days: &[Date]) -> Vec<Value> {
        let one = |environment: Environment, (status, operation, sum): &(PaymentStatus, String, MoneySum)| {
            json!({
                "environment": environment.as_str(),
                "status": status.as_str(),
                "operation": operation,
                "count": sum.count,
                "value": sum.value.to_string(),
                "unvalued": sum.unvalued,
            })
        };
        let day = |day: &Date| {
            let begin =
                day.to_zoned(TimeZone::UTC).map(|begin| StoreTime::of_micros(begin.timestamp().as_microsecond()));
            let sums = begin.ok().and_then(|begin| self.0.get(&PaymentDay::of(begin)));
            let each = sums.into_iter().flatten().map(|(environment, sums)| (*environment, sums.sorted()));
            let sums: Vec<Value> = each
                .flat_map(|(environment, sums)| sums.iter().map(|sum| one(environment, sum)).collect::<Vec<_>>())
                .collect();
            json!({ "day": day.to_string(), "sums": sums })
        };
        days.iter().map(day).collect()
    }
}
