//! The newest payments in memory: one row for each money call, made of its entries in any order.
//!
//! Entries come newest first while the journal is read backwards, and oldest first while it grows; a row is the same
//! either way. The book is bounded: it drops the oldest payments and says since when it is complete.
//!
//! A page and its sums cost what they show, not what the book has: payments are found by their time, and summed in groups.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::sync::Arc;

use super::fact::{DecidedCall, FactKind, PaymentFact, PaymentStatus};
use super::groups::{MoneySum, PaymentDay, PaymentGroup, PaymentGroups, PaymentTerms};
use super::paid_parties::PaidParties;
use super::row::{EntrySpan, PaymentRow, PaymentVote};
use super::stage::ForeignFact;
use crate::base::ids::Environment;
use crate::ledger::StoreTime;

/// The name of a payment: its environment and the record name of its claim.
pub(in crate::console) type PaymentKey = (Environment, Arc<str>);

/// The payments.
#[derive(Debug)]
pub(in crate::console) struct PaymentBook {
    most: usize,
    /// A row stands in its own place: a table that grows has room for more rows than it has.
    rows: HashMap<PaymentKey, Box<PaymentRow>>,
    groups: PaymentGroups,
    /// The names of the claims, by time, number and environment.
    by_time: BTreeMap<(StoreTime, u64, Environment), Arc<str>>,
    terms: HashSet<Arc<PaymentTerms>>,
    names: HashSet<Arc<str>>,
    /// The ends of payments.
    parties: HashSet<Arc<str>>,
    /// Those of them that were paid.
    pub paid: PaidParties,
    /// Records that no claim explains, by environment and number of their entry.
    foreign: BTreeMap<(Environment, u64), ForeignFact>,
    /// Payments before this time were dropped.
    pub dropped_before: Option<StoreTime>,
}

impl PaymentBook {
    pub fn new(most: usize) -> PaymentBook {
        PaymentBook {
            most,
            rows: HashMap::new(),
            groups: PaymentGroups::default(),
            by_time: BTreeMap::new(),
            terms: HashSet::new(),
            names: HashSet::new(),
            parties: HashSet::new(),
            paid: PaidParties::default(),
            foreign: BTreeMap::new(),
            dropped_before: None,
        }
    }

    /// Returns every payment whose call is known.
    pub fn rows(&self) -> impl Iterator<Item = (&PaymentKey, &PaymentRow)> {
        self.rows.iter().map(|(key, row)| (key, &**row)).filter(|(_, row)| row.number > 0)
    }

    pub fn row(&self, key: &PaymentKey) -> Option<&PaymentRow> {
        self.rows.get(key).map(|row| &**row).filter(|row| row.number > 0)
    }

    /// Returns what payments have in common: each payment has one of these.
    pub fn terms(&self) -> impl Iterator<Item = &PaymentTerms> {
        self.terms.iter().map(|terms| &**terms)
    }

    /// Returns the ends of payments: each end that a payment has is one of these.
    pub fn parties(&self) -> impl Iterator<Item = &Arc<str>> {
        self.parties.iter()
    }

    /// Returns where those entries of a payment are that were read.
    pub fn span_of(&self, key: &PaymentKey) -> Option<EntrySpan> {
        self.rows.get(key).map(|row| row.span())
    }

    /// Returns the groups of payments whose call is known, and their sums.
    pub fn groups(&self) -> impl Iterator<Item = (&PaymentGroup, &MoneySum)> {
        self.groups.all()
    }

    /// Returns the payments of a day, the latest first: those before this time and number.
    pub fn payments_of_day(
        &self,
        day: PaymentDay,
        before: Option<(StoreTime, u64)>,
    ) -> impl Iterator<Item = (&PaymentKey, &PaymentRow)> {
        // The first environment, so that a bound comes before each payment that has its time and number.
        let bound = |at, number| (at, number, Environment::Production);
        let end = before.map_or(bound(day.end(), 0), |(at, number)| bound(at, number)).min(bound(day.end(), 0));
        let begin = bound(day.begin(), 0).min(end);
        let found = self.by_time.range(begin..end).rev();
        found.filter_map(|((_, _, environment), claim)| {
            let (key, row) = self.rows.get_key_value(&(*environment, claim.clone()))?;
            Some((key, &**row))
        })
    }

    pub fn is_full(&self) -> bool {
        self.rows.len() >= self.most
    }

    /// Notes that payments before this time are left out.
    pub fn drop_before(&mut self, at: Option<StoreTime>) {
        self.dropped_before = self.dropped_before.max(at);
    }

    /// Takes a record that no claim explains.
    pub fn add_foreign(&mut self, fact: ForeignFact) {
        if self.dropped_before.is_none_or(|before| fact.at >= before) && self.foreign.len() < self.most {
            self.foreign.insert((fact.environment, fact.number), fact);
        }
    }

    pub fn foreign(&self) -> impl Iterator<Item = &ForeignFact> {
        self.foreign.values()
    }

    /// Takes an entry into its row.
    pub fn add(&mut self, fact: PaymentFact) {
        if self.dropped_before.is_some_and(|before| fact.at < before) {
            return;
        }
        let PaymentFact { environment, number, at, .. } = fact;
        let name: Arc<str> = Arc::from(fact.claim.as_str());
        let key = (environment, name.clone());
        let (issuer, subject) = (fact.issuer.clone(), fact.subject.clone());
        let terms = PaymentTerms { operation: fact.operation.clone(), issuer, subject, ..PaymentTerms::default() };
        let row = self.rows.entry(key).or_insert_with(|| {
            let terms = shared(&mut self.terms, Arc::new(terms.clone()));
            Box::new(PaymentRow::empty(&name, terms, at, fact.place))
        });
        row.widen_span(fact.place, fact.end);
        let (name, unknown) = if row.number > 0 {
            let known = self.by_time.remove(&(row.at, row.number, environment));
            (known.unwrap_or(name), self.groups.remove(row.group(environment), row.sum()))
        } else {
            (name, None)
        };
        if let Some(hold) = &fact.hold {
            row.take_hold(hold);
        }
        row.is_repeated |= fact.is_repeated;
        if fact.status.is_some_and(|status| row.take_status(number, at, status, fact.event)) {
            row.answered = fact.answered.and_then(|status| u16::try_from(status).ok());
        }
        if let Some(state) = fact.state {
            row.take_state(number, shared(&mut self.names, Arc::from(state)));
        }
        if let Some(stage) = fact.stage {
            row.take_stage(number, at, stage);
        }
        if fact.problem.is_some() {
            row.take_problem(number, at);
        }
        match fact.kind {
            FactKind::Decided(call) if number > row.number => {
                row.take_money(&call);
                let DecidedCall { requester, rules, currency, chain, other_currency, from, to, .. } = *call;
                let terms = PaymentTerms { requester, rules, currency, chain, other_currency, ..terms };
                row.terms = shared(&mut self.terms, Arc::new(terms));
                row.from = from.map(|name| shared(&mut self.parties, Arc::from(name)));
                row.to = to.map(|name| shared(&mut self.parties, Arc::from(name)));
                (row.at, row.number, row.place) = (at, number, fact.place);
            }
            FactKind::Voted { issuer, subject, is_withdrawn } => {
                let vote = PaymentVote {
                    issuer: shared(&mut self.names, Arc::from(issuer)),
                    subject: shared(&mut self.names, Arc::from(subject)),
                    number,
                    is_withdrawn,
                };
                row.take_vote(vote);
            }
            FactKind::Decided(_) | FactKind::Other => {}
        }
        if row.number > 0 {
            use PaymentStatus::{Failed, Paid, Returned};
            if let (Paid | Failed | Returned, Some(to)) = (row.status, &row.to) {
                self.paid.note((environment, to.clone()), row.number, &name);
            }
            self.by_time.insert((row.at, row.number, environment), name);
            self.groups.add(row.group(environment), row.sum());
        }
        if let Some(group) = unknown {
            self.sum_again(group);
        }
        self.drop_oldest();
    }

    /// Sums the payments of a group one by one.
    fn sum_again(&mut self, group: PaymentGroup) {
        let members =
            self.payments_of_day(group.day, None).filter(|((environment, _), row)| row.is_in(&group, *environment));
        if let Some(sum) = members.map(|(_, row)| row.sum()).reduce(MoneySum::plus) {
            self.groups.put(group, sum);
        }
    }

    /// Drops a tenth of the payments, the oldest, where there are too many.
    fn drop_oldest(&mut self) {
        let spare = self.most.div_euclid(10).max(1);
        if self.rows.len() < self.most.saturating_add(spare) {
            return;
        }
        let mut times: Vec<StoreTime> = self.rows.values().map(|row| row.at).collect();
        let (_, bound, _) = times.select_nth_unstable(spare);
        let bound = *bound;
        self.rows.retain(|_, row| row.at >= bound);
        self.foreign.retain(|_, fact| fact.at >= bound);
        self.dropped_before = self.dropped_before.max(Some(bound));
        self.by_time.retain(|(at, _, _), _| *at >= bound);
        self.groups = PaymentGroups::default();
        for ((environment, _), row) in self.rows.iter().filter(|(_, row)| row.number > 0) {
            self.groups.add(row.group(*environment), row.sum());
        }
        self.terms.retain(|terms| Arc::strong_count(terms) > 1);
        self.names.retain(|name| Arc::strong_count(name) > 1);
        let rows = &self.rows;
        self.paid.retain(|key| rows.contains_key(key));
        self.parties.retain(|name| Arc::strong_count(name) > 1);
    }
}

/// Returns the one copy of a value.
fn shared<T: ?Sized + Eq + Hash>(all: &mut HashSet<Arc<T>>, value: Arc<T>) -> Arc<T> {
    if let Some(known) = all.get(&value) {
        return known.clone();
    }
    all.insert(value.clone());
    value
}

#[cfg(test)]
mod tests;
