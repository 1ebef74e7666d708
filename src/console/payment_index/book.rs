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
use super::stage::{ForeignFact, StageMark};
use super::text_mark::TextMark;
use crate::adapters::audit::FilePosition;
use crate::base::ids::Environment;
use crate::base::money::Decimal;
use crate::console::render::shown_as;
use crate::ledger::StoreTime;

/// The name of a payment: its environment and the record name of its claim.
pub(in crate::console) type PaymentKey = (Environment, Arc<str>);

/// A person's vote; the latest of each person counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::console) struct PaymentVote {
    pub issuer: Arc<str>,
    pub subject: Arc<str>,
    number: u64,
    pub is_withdrawn: bool,
}

/// The part of the journal in which all entries of a payment are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::console) struct EntrySpan {
    /// The first entry; `None` where it is not known.
    pub begin: Option<FilePosition>,
    /// Behind the last entry.
    pub end: FilePosition,
}

/// One payment.
#[derive(Clone, Debug)]
pub(in crate::console) struct PaymentRow {
    pub terms: Arc<PaymentTerms>,
    /// Of the name that people see, in lower case.
    pub mark: TextMark,
    pub amount: Option<Decimal>,
    /// In micro-USD.
    pub value: Option<u64>,
    pub from: Option<Arc<str>>,
    pub to: Option<Arc<str>>,
    pub is_first: bool,
    pub is_repeated: bool,
    /// When it was last decided: held, sent or refused.
    pub at: StoreTime,
    /// The number of that entry; 0 until it is read.
    pub number: u64,
    pub place: FilePosition,
    span: EntrySpan,
    pub status: PaymentStatus,
    pub event: &'static str,
    pub changed_at: StoreTime,
    /// The number of the entry that made the status.
    pub changed: u64,
    pub answered: Option<u16>,
    /// The state that upstream's list shows, and the number of the entry that has it.
    pub state: Option<(u64, Arc<str>)>,
    pub hold: Option<Arc<str>>,
    /// Its stages after its send, in the order of their entries.
    pub stages: Vec<StageMark>,
    /// When upstream's list showed something wrong with it, and the number of the entry that says so.
    pub problem: Option<(u64, StoreTime)>,
    votes: Vec<PaymentVote>,
}

/// The payments.
#[derive(Debug)]
pub(in crate::console) struct PaymentBook {
    most: usize,
    rows: HashMap<PaymentKey, PaymentRow>,
    groups: PaymentGroups,
    /// The names of the claims, by time, number and environment.
    by_time: BTreeMap<(StoreTime, u64, Environment), Arc<str>>,
    terms: HashSet<Arc<PaymentTerms>>,
    names: HashSet<Arc<str>>,
    /// The ends of payments.
    parties: HashSet<Arc<str>>,
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
            foreign: BTreeMap::new(),
            dropped_before: None,
        }
    }

    /// Returns every payment whose call is known.
    pub fn rows(&self) -> impl Iterator<Item = (&PaymentKey, &PaymentRow)> {
        self.rows.iter().filter(|(_, row)| row.number > 0)
    }

    pub fn row(&self, key: &PaymentKey) -> Option<&PaymentRow> {
        self.rows.get(key).filter(|row| row.number > 0)
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
        self.rows.get(key).map(|row| row.span)
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
        found.filter_map(|((_, _, environment), claim)| self.rows.get_key_value(&(*environment, claim.clone())))
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
        let hold = fact.hold.as_deref().map(|hold| shared(&mut self.names, Arc::from(hold)));
        let terms = PaymentTerms { operation: fact.operation.clone(), issuer, subject, ..PaymentTerms::default() };
        let row = self.rows.entry(key).or_insert_with(|| {
            PaymentRow::empty(&name, shared(&mut self.terms, Arc::new(terms.clone())), at, fact.place)
        });
        row.span.begin = row.span.begin.min(Some(fact.place));
        row.span.end = row.span.end.max(fact.end);
        let (name, unknown) = if row.number > 0 {
            let known = self.by_time.remove(&(row.at, row.number, environment));
            (known.unwrap_or(name), self.groups.remove(row.group(environment), row.sum()))
        } else {
            (name, None)
        };
        row.hold = row.hold.take().or(hold);
        row.is_repeated |= fact.is_repeated;
        if let Some(status) = fact.status.filter(|_| number > row.changed) {
            row.status = status;
            row.event = fact.event;
            (row.changed, row.changed_at) = (number, at);
            row.answered = fact.answered.and_then(|status| u16::try_from(status).ok());
        }
        if let Some(state) = fact.state.filter(|_| row.state.as_ref().is_none_or(|(known, _)| number > *known)) {
            row.state = Some((number, shared(&mut self.names, Arc::from(state))));
        }
        if let Some(stage) = fact.stage
            && let Err(place) = row.stages.binary_search_by_key(&number, |mark| mark.number)
        {
            row.stages.insert(place, StageMark { number, at, stage });
        }
        if fact.problem.is_some() && row.problem.is_none_or(|(first, _)| number < first) {
            row.problem = Some((number, at));
        }
        match fact.kind {
            FactKind::Decided(call) if number > row.number => {
                let DecidedCall {
                    requester,
                    rules,
                    amount,
                    currency,
                    chain,
                    other_currency,
                    value,
                    from,
                    to,
                    is_first,
                } = *call;
                let terms = PaymentTerms { requester, rules, currency, chain, other_currency, ..terms };
                row.terms = shared(&mut self.terms, Arc::new(terms));
                (row.amount, row.value, row.is_first) = (amount, value, is_first);
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
        self.parties.retain(|name| Arc::strong_count(name) > 1);
    }
}

impl PaymentRow {
    /// Returns a row whose entries are still to be read.
    fn empty(claim: &str, terms: Arc<PaymentTerms>, at: StoreTime, place: FilePosition) -> PaymentRow {
        PaymentRow {
            terms,
            mark: TextMark::of(&shown_as(claim).to_lowercase()),
            amount: None,
            value: None,
            from: None,
            to: None,
            is_first: false,
            is_repeated: false,
            at,
            number: 0,
            place,
            span: EntrySpan { begin: Some(place), end: place },
            status: PaymentStatus::Sending,
            event: "",
            changed_at: at,
            changed: 0,
            answered: None,
            state: None,
            hold: None,
            stages: Vec::new(),
            problem: None,
            votes: Vec::new(),
        }
    }

    /// Returns its own amount and value as a sum.
    pub fn sum(&self) -> MoneySum {
        MoneySum::of_one(self.amount, self.value)
    }

    pub fn group(&self, environment: Environment) -> PaymentGroup {
        PaymentGroup { environment, status: self.status, day: PaymentDay::of(self.at), terms: self.terms.clone() }
    }

    fn is_in(&self, group: &PaymentGroup, environment: Environment) -> bool {
        environment == group.environment && self.status == group.status && self.terms == group.terms
    }

    /// Returns the people whose approval stands, the first to approve first.
    pub fn approvers(&self) -> impl Iterator<Item = &PaymentVote> {
        self.votes.iter().filter(|vote| !vote.is_withdrawn)
    }

    fn take_vote(&mut self, vote: PaymentVote) {
        match self.votes.iter_mut().find(|one| (&one.issuer, &one.subject) == (&vote.issuer, &vote.subject)) {
            Some(earlier) if earlier.number < vote.number => *earlier = vote,
            Some(_) => {}
            None => self.votes.push(vote),
        }
        self.votes.sort_by_key(|vote| vote.number);
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
impl PaymentRow {
    /// Returns an offramp with these stages.
    pub fn of_stages(amount: Decimal, stages: Vec<StageMark>) -> PaymentRow {
        let at = StoreTime::of_micros(0);
        let text = |word: &str| Some(word.to_owned());
        let terms = PaymentTerms { currency: text("usdc"), chain: text("POLYGON"), ..PaymentTerms::default() };
        let terms = Arc::new(PaymentTerms { operation: "createOfframp".to_owned(), ..terms });
        let place = FilePosition { sequence: 1, offset: 0 };
        PaymentRow { amount: Some(amount), number: 1, stages, ..PaymentRow::empty("request/r-1", terms, at, place) }
    }
}

#[cfg(test)]
mod tests;
