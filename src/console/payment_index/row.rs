//! One payment of the book. There may be a million of them: what few payments have is kept apart.

use std::sync::Arc;

use super::fact::{DecidedCall, PaymentStatus};
use super::groups::{MoneySum, PaymentDay, PaymentGroup, PaymentTerms};
use super::stage::{PaymentStage, StageMark};
use super::text_mark::TextMark;
use crate::adapters::audit::FilePosition;
use crate::base::ids::Environment;
use crate::base::money::{Decimal, PackedDecimal};
use crate::console::render::shown_as;
use crate::ledger::StoreTime;

/// A person's vote; the latest of each person counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::console) struct PaymentVote {
    pub issuer: Arc<str>,
    pub subject: Arc<str>,
    pub(super) number: u64,
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
    amount: Option<PackedDecimal>,
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
    /// Where the first of its entries begins that was read.
    begin: FilePosition,
    /// Behind the last of them.
    end: FilePosition,
    /// The status after its newest entry.
    told: PaymentStatus,
    pub status: PaymentStatus,
    pub answered: Option<u16>,
    pub event: &'static str,
    pub changed_at: StoreTime,
    /// The number of the entry that made the status.
    pub changed: u64,
    /// Its stages after its send, in the order of their entries.
    pub stages: Vec<StageMark>,
    rare: Option<Box<RareFacts>>,
}

/// The facts that few payments have.
#[derive(Clone, Debug, Default)]
struct RareFacts {
    hold: Option<Box<str>>,
    votes: Vec<PaymentVote>,
    /// The state that upstream's list shows, and the number of the entry that has it.
    state: Option<(u64, Arc<str>)>,
    /// When upstream's list showed something wrong with it, and the number of the entry that says so.
    problem: Option<(u64, StoreTime)>,
    /// The number of the first entry by which two people said that an attempt was not executed.
    said_absent: Option<u64>,
}

impl PaymentRow {
    /// Returns a row whose entries are still to be read.
    pub(super) fn empty(claim: &str, terms: Arc<PaymentTerms>, at: StoreTime, place: FilePosition) -> PaymentRow {
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
            begin: place,
            end: place,
            told: PaymentStatus::Sending,
            status: PaymentStatus::Sending,
            answered: None,
            event: "",
            changed_at: at,
            changed: 0,
            stages: Vec::new(),
            rare: None,
        }
    }

    /// Takes the status after an entry, in any order of the entries.
    pub(super) fn take_status(
        &mut self,
        number: u64,
        at: StoreTime,
        status: PaymentStatus,
        event: &'static str,
    ) -> bool {
        let is_newest = number > self.changed;
        if is_newest {
            (self.told, self.event) = (status, event);
            (self.changed, self.changed_at) = (number, at);
        }
        if status == PaymentStatus::Absent {
            let said = &mut self.rare.get_or_insert_default().said_absent;
            *said = Some(said.map_or(number, |first| first.min(number)));
        }
        self.status = if self.rests_on_word() { PaymentStatus::Absent } else { self.told };
        is_newest
    }

    /// Whether nothing but people's word says that its first attempts were not executed.
    fn rests_on_word(&self) -> bool {
        use PaymentStatus::{Absent, Cancelled, Expired, NotSent, Refused};
        let said = self.rare.as_ref().and_then(|rare| rare.said_absent);
        said.is_some_and(|number| number <= self.changed)
            && matches!(self.told, Absent | Cancelled | Expired | NotSent | Refused)
    }

    /// Returns what happened last, in words.
    pub fn event_in_words(&self) -> String {
        match self.status == self.told {
            true => self.event.to_owned(),
            false => format!("{}; before, two people said that an attempt was not executed", self.event),
        }
    }

    pub fn amount(&self) -> Option<Decimal> {
        self.amount.as_ref().map(Decimal::from)
    }

    pub fn hold(&self) -> Option<&str> {
        self.rare.as_ref()?.hold.as_deref()
    }

    /// Returns the state that upstream's list shows.
    pub fn state(&self) -> Option<&str> {
        self.rare.as_ref()?.state.as_ref().map(|(_, state)| &**state)
    }

    /// Returns when upstream's list showed something wrong with it.
    pub fn problem(&self) -> Option<StoreTime> {
        self.rare.as_ref()?.problem.map(|(_, at)| at)
    }

    /// Returns the people whose approval stands, the first to approve first.
    pub fn approvers(&self) -> impl Iterator<Item = &PaymentVote> {
        self.rare.iter().flat_map(|rare| &rare.votes).filter(|vote| !vote.is_withdrawn)
    }

    pub(super) fn span(&self) -> EntrySpan {
        EntrySpan { begin: Some(self.begin), end: self.end }
    }

    /// Returns its own amount and value as a sum.
    pub fn sum(&self) -> MoneySum {
        MoneySum::of_one(self.amount(), self.value)
    }

    pub fn group(&self, environment: Environment) -> PaymentGroup {
        PaymentGroup { environment, status: self.status, day: PaymentDay::of(self.at), terms: self.terms.clone() }
    }

    pub(super) fn is_in(&self, group: &PaymentGroup, environment: Environment) -> bool {
        environment == group.environment && self.status == group.status && self.terms == group.terms
    }

    pub(super) fn widen_span(&mut self, begin: FilePosition, end: FilePosition) {
        self.begin = self.begin.min(begin);
        self.end = self.end.max(end);
    }

    /// Takes what a decision says of the money.
    pub(super) fn take_money(&mut self, call: &DecidedCall) {
        (self.amount, self.value, self.is_first) = (call.amount.map(PackedDecimal::from), call.value, call.is_first);
    }

    pub(super) fn take_stage(&mut self, number: u64, at: StoreTime, stage: PaymentStage) {
        if let Err(place) = self.stages.binary_search_by_key(&number, |mark| mark.number) {
            // Most payments have two: room for more would stay empty.
            self.stages.reserve_exact(1);
            self.stages.insert(place, StageMark { number, at, stage });
        }
    }

    pub(super) fn take_hold(&mut self, hold: &str) {
        if self.hold().is_none() {
            self.rare_facts().hold = Some(hold.into());
        }
    }

    pub(super) fn take_state(&mut self, number: u64, state: Arc<str>) {
        let known = &mut self.rare_facts().state;
        if known.as_ref().is_none_or(|(known, _)| number > *known) {
            *known = Some((number, state));
        }
    }

    pub(super) fn take_problem(&mut self, number: u64, at: StoreTime) {
        let known = &mut self.rare_facts().problem;
        if known.is_none_or(|(first, _)| number < first) {
            *known = Some((number, at));
        }
    }

    pub(super) fn take_vote(&mut self, vote: PaymentVote) {
        let votes = &mut self.rare_facts().votes;
        match votes.iter_mut().find(|one| (&one.issuer, &one.subject) == (&vote.issuer, &vote.subject)) {
            Some(earlier) if earlier.number < vote.number => *earlier = vote,
            Some(_) => {}
            None => votes.push(vote),
        }
        votes.sort_by_key(|vote| vote.number);
    }

    fn rare_facts(&mut self) -> &mut RareFacts {
        self.rare.get_or_insert_default()
    }
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
        let empty = PaymentRow::empty("request/r-1", terms, at, place);
        PaymentRow { amount: Some(amount.into()), number: 1, stages, ..empty }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_takes_little_room() {
        // The documentation says what a payment takes in all: measure it again where this grows.
        assert!(size_of::<PaymentRow>() <= 224, "{}", size_of::<PaymentRow>());
    }
}
