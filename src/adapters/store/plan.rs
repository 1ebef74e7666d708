//! The meaning of a commit, written once: its guards, and the changes that it makes if all of them hold.
//!
//! This module writes nothing. A store plans a commit, gets either every conflict or the whole list of changes, and
//! applies the changes atomically.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use super::layout::{self, FOREVER, Item, Spent, Stored, WindowSlot};
use super::queries;
use super::queries::StoreView;
use super::slots::{self, senseless};
use crate::base::ids::Environment;
use crate::ledger::{
    Commit, CommitError, Conflict, ConflictCause, Content, Index, Keep, MAX_UNITS, Number, Outstanding, Receipt,
    RecordKey, Sender, Step, StoreFault, StoreTime, WindowKey, WindowSpan,
};

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PlannedChange {
    Put(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
}

#[derive(Debug)]
pub(super) struct Plan {
    pub committed: Receipt,
    pub changes: Vec<PlannedChange>,
}

/// The result of planning one step.
enum Come {
    Stood(ConflictCause),
    Changes(Vec<PlannedChange>),
}

impl Come {
    /// Returns the result of a step that only checks.
    fn guard(found: Option<ConflictCause>) -> Come {
        found.map_or(Come::Changes(Vec::new()), Come::Stood)
    }
}

/// The state, the time and the number with which a commit is planned.
struct Moment<'v, V> {
    view: &'v V,
    environment: Environment,
    now: StoreTime,
    /// The number that this commit takes.
    number: Number,
    /// Whether what is not here does not exist. A replica that begins in the middle does not know.
    knows_all: bool,
}

pub(super) fn plan(view: &impl StoreView, clock: StoreTime, commit: &Commit) -> Result<Plan, CommitError> {
    sensible(commit).map_err(CommitError::Fault)?;
    let planned = steps(view, clock, commit).map_err(CommitError::Fault)?;
    planned.map_err(|(at, conflicts)| CommitError::Rejected { at, conflicts })
}

type Obstacles = (StoreTime, Vec<Conflict>);

fn steps(view: &impl StoreView, clock: StoreTime, commit: &Commit) -> Result<Result<Plan, Obstacles>, StoreFault> {
    let environment = commit.environment;
    let now = clock.max(queries::time(view)?);
    let above = commit.steps.iter().filter_map(|step| match step {
        Step::Above(number) => Some(number.as_u64()),
        _ => None,
    });
    let last = above.fold(queries::last(view, environment)?, u64::max);
    let number = last.checked_add(1).map(Number::new);
    let number = number.ok_or_else(|| senseless("a number beyond the largest"))?;
    let moment = Moment { view, environment, now, number, knows_all: true };
    let mut changes = match moment.steps(&commit.steps)? {
        Ok(changes) => changes,
        Err(conflicts) => return Ok(Err((now, conflicts))),
    };
    let entry = Outstanding { environment, number, at: now, node: commit.node.clone(), entry: commit.entry.clone() };
    for item in [Item::Last(environment, number), Item::Time(now), Item::Outstanding(entry)] {
        changes.extend(puts(&item));
    }
    Ok(Ok(Plan { committed: Receipt::new(number, now, commit.entry.clone()), changes }))
}

/// Plans a commit that another store made: in its time and under its number. Returns the conflicts where this state
/// does not allow it. The entry of the commit is on disk already.
pub(super) fn replay(
    view: &impl StoreView,
    entry: &Outstanding,
    steps: &[Step],
) -> Result<Result<Vec<PlannedChange>, Vec<Conflict>>, StoreFault> {
    let Outstanding { environment, number, at: now, .. } = *entry;
    let knows_all = queries::begin(view, environment)?.as_u64() == 0;
    let moment = Moment { view, environment, now, number, knows_all };
    let time = now.max(queries::time(view)?);
    Ok(moment.steps(steps)?.map(|mut changes| {
        let committed = Item::Committed(environment, entry.node.clone(), number);
        for item in [Item::Last(environment, number), Item::Time(time), committed] {
            changes.extend(puts(&item));
        }
        changes
    }))
}

impl<V: StoreView> Moment<'_, V> {
    fn steps(&self, steps: &[Step]) -> Result<Result<Vec<PlannedChange>, Vec<Conflict>>, StoreFault> {
        let mut conflicts = Vec::new();
        let mut changes = Vec::new();
        for (step, asked) in steps.iter().enumerate() {
            match self.step(asked)? {
                Come::Stood(found) => conflicts.push(Conflict { step, found }),
                Come::Changes(more) => changes.extend(more),
            }
        }
        Ok(if conflicts.is_empty() { Ok(changes) } else { Err(conflicts) })
    }

    fn step(&self, step: &Step) -> Result<Come, StoreFault> {
        match step {
            Step::Absent(key) => Ok(Come::guard(self.record(key)?)),
            Step::Version { key, version } => Ok(Come::guard(self.not_of_version(key, *version)?)),
            Step::Before(time) => Ok(Come::guard((self.now >= *time).then_some(ConflictCause::Time))),
            Step::After(time) => Ok(Come::guard((self.now < *time).then_some(ConflictCause::Time))),
            Step::Above(_) | Step::KeepPace | Step::CorrectClock { .. } | Step::FollowClock => Ok(Come::guard(None)),
            Step::Member { index, member } => {
                let is = self.member(*index, member)?.is_some() || !self.knows_all;
                Ok(Come::guard((!is).then_some(ConflictCause::Membership)))
            }
            Step::NotMember { index, member } => {
                let is = self.member(*index, member)?.is_some();
                Ok(Come::guard(is.then_some(ConflictCause::Membership)))
            }
            Step::Since { index, member, at } => {
                let time = self.member(*index, member)?;
                let is = time.map_or(!self.knows_all, |time| time <= *at || !self.knows_all);
                Ok(Come::guard((!is).then_some(ConflictCause::Membership)))
            }
            Step::NotSince { index, member, at } => {
                let is = self.member(*index, member)?.is_some_and(|time| time <= *at);
                Ok(Come::guard(is.then_some(ConflictCause::Membership)))
            }
            Step::Create { key, value, keep } => match self.record(key)? {
                Some(found) => Ok(Come::Stood(found)),
                None => self.write(key, value, *keep),
            },
            Step::Replace { key, version, value, keep } => match self.not_of_version(key, *version)? {
                Some(found) => Ok(Come::Stood(found)),
                None => self.write(key, value, *keep),
            },
            Step::Delete { key, version } => match self.not_of_version(key, *version)? {
                Some(found) => Ok(Come::Stood(found)),
                None => self.unwrite(key).map(Come::Changes),
            },
            Step::IndexAdd { index, member, due } => self.index_add(*index, member, *due),
            Step::IndexEarliest { index, member, ago } => self.index_earliest(*index, member, *ago),
            Step::IndexRemove { index, member } => self.index_remove(*index, member).map(Come::Changes),
            Step::Reserve { window, span, holder, units, max } => {
                self.reserve(window, *span, holder, *units, (*max).min(MAX_UNITS))
            }
            Step::Force { window, span, holder, units } => self.reserve(window, *span, holder, *units, MAX_UNITS),
            Step::Book { window, span, units, at } => self.book(window, *span, *units, *at),
            Step::Unbook { window, span, units, at } => self.unbook(window, *span, *units, *at),
            Step::Settle { window, holder } => self.settle(window, holder),
            Step::GiveBack { window, holder } => self.give_back(window, holder),
        }
    }

    fn record(&self, key: &RecordKey) -> Result<Option<ConflictCause>, StoreFault> {
        Ok(queries::record(self.view, key, self.now)?.map(ConflictCause::Record))
    }

    fn not_of_version(&self, key: &RecordKey, version: Number) -> Result<Option<ConflictCause>, StoreFault> {
        Ok(match queries::record(self.view, key, self.now)? {
            None => self.knows_all.then_some(ConflictCause::Nothing),
            Some(record) if record.version == version && record.content != Content::Spent => None,
            Some(record) => Some(ConflictCause::Record(record)),
        })
    }

    fn write(&self, key: &RecordKey, value: &Bytes, keep: Keep) -> Result<Come, StoreFault> {
        let (whole_until, gone_at) = match keep {
            Keep::Forever => (FOREVER, FOREVER),
            Keep::For { whole, spent } => (self.now.plus(whole), self.now.plus(whole).plus(spent)),
        };
        let content = Content::Whole(value.clone());
        let stored = Stored { version: self.number, at: self.now, whole_until, gone_at, content };
        let mut changes = self.unwrite(key)?;
        changes.extend(puts(&Item::Record(key.clone(), stored)));
        Ok(Come::Changes(changes))
    }

    /// Returns the changes that remove a record, even an expired one.
    fn unwrite(&self, key: &RecordKey) -> Result<Vec<PlannedChange>, StoreFault> {
        let stored = queries::stored(self.view, key)?;
        Ok(stored.map_or_else(Vec::new, |stored| removes(&Item::Record(key.clone(), stored))))
    }

    fn member(&self, index: Index, member: &str) -> Result<Option<StoreTime>, StoreFault> {
        queries::member(self.view, self.environment, index, member)
    }

    fn index_add(&self, index: Index, member: &str, due: Duration) -> Result<Come, StoreFault> {
        self.index_put(index, member, self.now.plus(due))
    }

    fn index_earliest(&self, index: Index, member: &str, ago: Duration) -> Result<Come, StoreFault> {
        let at = self.now.minus(ago).max(StoreTime::default());
        match self.member(index, member)? {
            Some(before) if before <= at => Ok(Come::Changes(Vec::new())),
            _ => self.index_put(index, member, at),
        }
    }

    fn index_put(&self, index: Index, member: &str, due: StoreTime) -> Result<Come, StoreFault> {
        let mut changes = self.index_remove(index, member)?;
        let environment = self.environment;
        changes.extend(puts(&Item::Member { environment, index, member: member.to_owned(), due }));
        Ok(Come::Changes(changes))
    }

    fn index_remove(&self, index: Index, member: &str) -> Result<Vec<PlannedChange>, StoreFault> {
        let environment = self.environment;
        Ok(self
            .member(index, member)?
            .map_or_else(Vec::new, |due| removes(&Item::Member { environment, index, member: member.to_owned(), due })))
    }

    fn reserve(
        &self,
        window: &WindowKey,
        span: WindowSpan,
        holder: &str,
        units: u64,
        max: u64,
    ) -> Result<Come, StoreFault> {
        let Some((slot, until)) = slots::slot_of(span, self.now)? else {
            return Ok(Come::Stood(ConflictCause::Time));
        };
        if queries::holder(self.view, self.environment, window, holder)?.is_some() {
            return Ok(Come::Stood(ConflictCause::Reserved));
        }
        let used = queries::used(self.view, self.environment, window, span, self.now)?;
        if used.checked_add(units).is_none_or(|sum| sum > max) {
            return Ok(Come::Stood(ConflictCause::Used(used)));
        }
        let mut changes = self.add_to_slot(window, slot, units, until)?;
        let (environment, window, holder) = (self.environment, window.clone(), holder.to_owned());
        changes.extend(puts(&Item::Holder { environment, window, holder, slot, units }));
        Ok(Come::Changes(changes))
    }

    fn book(&self, window: &WindowKey, span: WindowSpan, units: u64, at: StoreTime) -> Result<Come, StoreFault> {
        match slots::slot_of(span, at)? {
            Some((slot, until)) if until > self.now => {
                Ok(Come::Changes(self.add_to_slot(window, slot, units.min(MAX_UNITS), until)?))
            }
            Some(_) | None => Ok(Come::Changes(Vec::new())),
        }
    }

    fn add_to_slot(
        &self,
        window: &WindowKey,
        slot: WindowSlot,
        units: u64,
        until: StoreTime,
    ) -> Result<Vec<PlannedChange>, StoreFault> {
        let before = queries::spent(self.view, self.environment, window, slot)?;
        let units = before.map_or(0, |spent| spent.units).saturating_add(units).min(MAX_UNITS);
        let until = before.map_or(until, |spent| spent.until.max(until));
        Ok(self.replace_slot(window, slot, before, Some(Spent { units, until })))
    }

    fn settle(&self, window: &WindowKey, holder: &str) -> Result<Come, StoreFault> {
        let held = queries::holder(self.view, self.environment, window, holder)?;
        let key = || layout::holder(self.environment, window, holder);
        Ok(Come::Changes(held.map(|_| PlannedChange::Remove(key())).into_iter().collect()))
    }

    fn give_back(&self, window: &WindowKey, holder: &str) -> Result<Come, StoreFault> {
        let Some((slot, units)) = queries::holder(self.view, self.environment, window, holder)? else {
            return Ok(Come::Changes(Vec::new()));
        };
        let mut changes = vec![PlannedChange::Remove(layout::holder(self.environment, window, holder))];
        changes.extend(self.take_from_slot(window, slot, units)?);
        Ok(Come::Changes(changes))
    }

    fn unbook(&self, window: &WindowKey, span: WindowSpan, units: u64, at: StoreTime) -> Result<Come, StoreFault> {
        match slots::slot_of(span, at)? {
            Some((slot, until)) if until > self.now => Ok(Come::Changes(self.take_from_slot(window, slot, units)?)),
            Some(_) | None => Ok(Come::Changes(Vec::new())),
        }
    }

    fn take_from_slot(
        &self,
        window: &WindowKey,
        slot: WindowSlot,
        units: u64,
    ) -> Result<Vec<PlannedChange>, StoreFault> {
        // A slot that no window reaches any more may be removed already.
        let Some(before) = queries::spent(self.view, self.environment, window, slot)? else { return Ok(Vec::new()) };
        let left = before.units.saturating_sub(units);
        let after = (left > 0).then_some(Spent { units: left, until: before.until });
        Ok(self.replace_slot(window, slot, Some(before), after))
    }

    fn replace_slot(
        &self,
        window: &WindowKey,
        slot: WindowSlot,
        before: Option<Spent>,
        after: Option<Spent>,
    ) -> Vec<PlannedChange> {
        let item = |spent| Item::Slot { environment: self.environment, window: window.clone(), slot, spent };
        let [before, after] = [before, after].map(|spent| spent.map_or_else(Vec::new, |spent| item(spent).pairs()));
        // The time until which it counts stays as it is, most often.
        let gone = before.iter().filter(|(key, _)| after.iter().all(|(other, _)| key != other));
        let mut changes: Vec<PlannedChange> = gone.map(|(key, _)| PlannedChange::Remove(key.clone())).collect();
        let new = after.into_iter().filter(|pair| !before.contains(pair));
        changes.extend(new.map(|(key, value)| PlannedChange::Put(key, value)));
        changes
    }
}

/// Returns the changes for a journal that has every entry up to a number: entries that every journal has leave the
/// outbox. A map has one node.
pub(super) fn kept(
    view: &impl StoreView,
    environment: Environment,
    by: &Sender,
    up_to: Number,
) -> Result<Vec<PlannedChange>, StoreFault> {
    let mut changes = puts(&Item::Kept(environment, by.clone(), up_to));
    let until = layout::outstanding(environment, Number::new(up_to.as_u64().saturating_add(1)));
    for (key, _) in view.range(&layout::outbox(environment), &until, usize::MAX)? {
        changes.push(PlannedChange::Remove(key));
    }
    Ok(changes)
}

/// Returns the changes that remove what has expired, at most `count` records and slots.
pub(super) fn sweep(
    view: &impl StoreView,
    now: StoreTime,
    count: usize,
) -> Result<(usize, Vec<PlannedChange>), StoreFault> {
    let all = layout::expiries();
    // A record expires in the very microsecond that its key names.
    let end = layout::with_time(&all, StoreTime::of_micros(now.as_micros().saturating_add(1)));
    let turned = view.range(&all, &end, count)?;
    let mut changes = Vec::new();
    let mut left = 0_usize;
    for environment in Environment::ALL {
        let room = count.saturating_sub(turned.len()).saturating_sub(left);
        let ended = queries::due(view, environment, Index::Ended, Some(now), room)?;
        left = left.saturating_add(ended.len());
        let gone = |(due, member)| removes(&Item::Member { environment, index: Index::Ended, member, due });
        changes.extend(ended.into_iter().flat_map(gone));
    }
    for (expiry, _) in &turned {
        let (_, key) = layout::read_expiry(expiry)?;
        changes.push(PlannedChange::Remove(expiry.clone()));
        match view.item(&key)? {
            Some(Item::Record(name, stored)) => {
                changes.push(PlannedChange::Remove(key));
                let aged = queries::aged(stored, now);
                changes.extend(aged.into_iter().flat_map(|stored| puts(&Item::Record(name.clone(), stored))));
            }
            Some(_) => changes.push(PlannedChange::Remove(key)),
            None => {}
        }
    }
    Ok((turned.len().saturating_add(left), changes))
}

pub(super) fn puts(item: &Item) -> Vec<PlannedChange> {
    item.pairs().into_iter().map(|(key, value)| PlannedChange::Put(key, value)).collect()
}

pub(super) fn removes(item: &Item) -> Vec<PlannedChange> {
    item.pairs().into_iter().map(|(key, _)| PlannedChange::Remove(key)).collect()
}

/// The write of one step.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum PlannedState<'c> {
    Record(&'c RecordKey),
    Member(Index, &'c str),
    Window(&'c WindowKey),
}

/// Checks that a commit is well formed. INVARIANT: no two steps write to the same key, so none needs to see the writes
/// of an earlier step of its commit.
pub(super) fn sensible(commit: &Commit) -> Result<(), StoreFault> {
    let mut written = BTreeSet::new();
    for step in &commit.steps {
        let writes = match step {
            Step::Create { key, .. } | Step::Replace { key, .. } | Step::Delete { key, .. } => {
                Some(PlannedState::Record(key))
            }
            Step::Absent(_)
            | Step::Version { .. }
            | Step::Before(_)
            | Step::After(_)
            | Step::Above(_)
            | Step::KeepPace
            | Step::CorrectClock { .. }
            | Step::FollowClock
            | Step::Member { .. }
            | Step::NotMember { .. }
            | Step::Since { .. }
            | Step::NotSince { .. } => None,
            Step::IndexAdd { index, member, .. }
            | Step::IndexEarliest { index, member, .. }
            | Step::IndexRemove { index, member } => Some(PlannedState::Member(*index, member)),
            Step::Reserve { window, .. }
            | Step::Force { window, .. }
            | Step::Book { window, .. }
            | Step::Unbook { window, .. }
            | Step::Settle { window, .. }
            | Step::GiveBack { window, .. } => Some(PlannedState::Window(window)),
        };
        if step.record().is_some_and(|key| key.environment != commit.environment) {
            return Err(senseless("a record of another environment"));
        }
        if writes.is_some_and(|writes| !written.insert(writes)) {
            return Err(senseless("two writes to one key"));
        }
    }
    Ok(())
}
