//! What a commit means, written once: its guards, and the changes that it makes where all of them hold.
//!
//! Nothing is written here. A store looks at a commit, gets either all that stood in its way or the whole list of
//! changes, and makes them at one stroke.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use super::layout::{self, FOREVER, Item, Slot, Spent, Stored};
use super::look::{self, View, senseless};
use crate::base::ids::Environment;
use crate::commit::{
    Commit, CommitError, Committed, Content, Found, Index, Keep, MAX_UNITS, Number, Obstacle, Outstanding, RecordKey,
    Span, Step, StoreFault, StoreTime, WindowKey,
};

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Put(Vec<u8>, Vec<u8>),
    Remove(Vec<u8>),
}

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub committed: Committed,
    pub changes: Vec<Change>,
}

/// What a step comes to.
enum Come {
    Stood(Found),
    Changes(Vec<Change>),
}

impl Come {
    /// A guard alone.
    fn guard(found: Option<Found>) -> Come {
        found.map_or(Come::Changes(Vec::new()), Come::Stood)
    }
}

/// A commit seen from a time.
struct Moment<'v, V> {
    view: &'v V,
    environment: Environment,
    now: StoreTime,
    /// The number that this commit takes.
    number: Number,
}

pub(super) fn plan(view: &impl View, clock: StoreTime, commit: &Commit) -> Result<Plan, CommitError> {
    sensible(commit).map_err(CommitError::Fault)?;
    let planned = steps(view, clock, commit).map_err(CommitError::Fault)?;
    planned.map_err(|(at, obstacles)| CommitError::Stood { at, obstacles })
}

type Obstacles = (StoreTime, Vec<Obstacle>);

fn steps(view: &impl View, clock: StoreTime, commit: &Commit) -> Result<Result<Plan, Obstacles>, StoreFault> {
    let environment = commit.environment;
    let now = clock.max(look::time(view)?);
    let above = commit.steps.iter().filter_map(|step| match step {
        Step::Above(number) => Some(number.as_u64()),
        _ => None,
    });
    let last = above.fold(look::last(view, environment)?, u64::max);
    let number = last.checked_add(1).map(Number::new);
    let number = number.ok_or_else(|| senseless("a number beyond all numbers"))?;
    let moment = Moment { view, environment, now, number };
    let mut obstacles = Vec::new();
    let mut changes = Vec::new();
    for (step, asked) in commit.steps.iter().enumerate() {
        match moment.step(asked)? {
            Come::Stood(found) => obstacles.push(Obstacle { step, found }),
            Come::Changes(more) => changes.extend(more),
        }
    }
    if !obstacles.is_empty() {
        return Ok(Err((now, obstacles)));
    }
    let entry = Outstanding { environment, number, at: now, node: commit.node.clone(), entry: commit.entry.clone() };
    for item in [Item::Last(environment, number), Item::Time(now), Item::Outstanding(entry)] {
        changes.extend(puts(&item));
    }
    Ok(Ok(Plan { committed: Committed { number, at: now }, changes }))
}

impl<V: View> Moment<'_, V> {
    fn step(&self, step: &Step) -> Result<Come, StoreFault> {
        match step {
            Step::Absent(key) => Ok(Come::guard(self.record(key)?)),
            Step::Version { key, version } => Ok(Come::guard(self.not_of_version(key, *version)?)),
            Step::Before(time) => Ok(Come::guard((self.now >= *time).then_some(Found::Time))),
            Step::After(time) => Ok(Come::guard((self.now < *time).then_some(Found::Time))),
            Step::Above(_) => Ok(Come::guard(None)),
            Step::Member { index, member } => {
                let is = self.member(*index, member)?.is_some();
                Ok(Come::guard((!is).then_some(Found::Membership)))
            }
            Step::NotMember { index, member } => {
                let is = self.member(*index, member)?.is_some();
                Ok(Come::guard(is.then_some(Found::Membership)))
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
            Step::IndexRemove { index, member } => self.index_remove(*index, member).map(Come::Changes),
            Step::Reserve { window, span, holder, units, max } => {
                self.reserve(window, *span, holder, *units, (*max).min(MAX_UNITS))
            }
            Step::Force { window, span, holder, units } => self.reserve(window, *span, holder, *units, MAX_UNITS),
            Step::Settle { window, holder } => self.settle(window, holder),
            Step::GiveBack { window, holder } => self.give_back(window, holder),
        }
    }

    fn record(&self, key: &RecordKey) -> Result<Option<Found>, StoreFault> {
        Ok(look::record(self.view, key, self.now)?.map(Found::Record))
    }

    fn not_of_version(&self, key: &RecordKey, version: Number) -> Result<Option<Found>, StoreFault> {
        Ok(match look::record(self.view, key, self.now)? {
            None => Some(Found::Nothing),
            Some(record) if record.version == version && record.content != Content::Spent => None,
            Some(record) => Some(Found::Record(record)),
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

    /// Takes out what lies there, even if it is past its time.
    fn unwrite(&self, key: &RecordKey) -> Result<Vec<Change>, StoreFault> {
        let stored = look::stored(self.view, key)?;
        Ok(stored.map_or_else(Vec::new, |stored| removes(&Item::Record(key.clone(), stored))))
    }

    fn member(&self, index: Index, member: &str) -> Result<Option<StoreTime>, StoreFault> {
        look::member(self.view, self.environment, index, member)
    }

    fn index_add(&self, index: Index, member: &str, due: Duration) -> Result<Come, StoreFault> {
        let mut changes = self.index_remove(index, member)?;
        let (environment, due) = (self.environment, self.now.plus(due));
        changes.extend(puts(&Item::Member { environment, index, member: member.to_owned(), due }));
        Ok(Come::Changes(changes))
    }

    fn index_remove(&self, index: Index, member: &str) -> Result<Vec<Change>, StoreFault> {
        let environment = self.environment;
        Ok(self
            .member(index, member)?
            .map_or_else(Vec::new, |due| removes(&Item::Member { environment, index, member: member.to_owned(), due })))
    }

    fn reserve(&self, window: &WindowKey, span: Span, holder: &str, units: u64, max: u64) -> Result<Come, StoreFault> {
        let Some((slot, until)) = look::slot_of(span, self.now)? else { return Ok(Come::Stood(Found::Time)) };
        if look::holder(self.view, self.environment, window, holder)?.is_some() {
            return Ok(Come::Stood(Found::Reserved));
        }
        let used = look::used(self.view, self.environment, window, span, self.now)?;
        if used.checked_add(units).is_none_or(|sum| sum > max) {
            return Ok(Come::Stood(Found::Used(used)));
        }
        let before = look::spent(self.view, self.environment, window, slot)?;
        let sum = before.map_or(0, |spent| spent.units).saturating_add(units);
        let until = before.map_or(until, |spent| spent.until.max(until));
        let mut changes = self.replace_slot(window, slot, before, Some(Spent { units: sum, until }));
        let (environment, window, holder) = (self.environment, window.clone(), holder.to_owned());
        changes.extend(puts(&Item::Holder { environment, window, holder, slot, units }));
        Ok(Come::Changes(changes))
    }

    fn settle(&self, window: &WindowKey, holder: &str) -> Result<Come, StoreFault> {
        let held = look::holder(self.view, self.environment, window, holder)?;
        let key = || layout::holder(self.environment, window, holder);
        Ok(Come::Changes(held.map(|_| Change::Remove(key())).into_iter().collect()))
    }

    fn give_back(&self, window: &WindowKey, holder: &str) -> Result<Come, StoreFault> {
        let Some((slot, units)) = look::holder(self.view, self.environment, window, holder)? else {
            return Ok(Come::Changes(Vec::new()));
        };
        let mut changes = vec![Change::Remove(layout::holder(self.environment, window, holder))];
        // A slot that no window reaches any more may be gone already.
        if let Some(before) = look::spent(self.view, self.environment, window, slot)? {
            let left = before.units.saturating_sub(units);
            let after = (left > 0).then_some(Spent { units: left, until: before.until });
            changes.extend(self.replace_slot(window, slot, Some(before), after));
        }
        Ok(Come::Changes(changes))
    }

    fn replace_slot(&self, window: &WindowKey, slot: Slot, before: Option<Spent>, after: Option<Spent>) -> Vec<Change> {
        let item = |spent| Item::Slot { environment: self.environment, window: window.clone(), slot, spent };
        let mut changes = before.map_or_else(Vec::new, |spent| removes(&item(spent)));
        changes.extend(after.into_iter().flat_map(|spent| puts(&item(spent))));
        changes
    }
}

/// Takes Entries out of the outbox.
pub(super) fn drain(environment: Environment, numbers: &[Number]) -> Vec<Change> {
    numbers.iter().map(|number| Change::Remove(layout::outstanding(environment, *number))).collect()
}

/// What its age has changed by now, of at most `count` records and slots.
pub(super) fn sweep(view: &impl View, now: StoreTime, count: usize) -> Result<(usize, Vec<Change>), StoreFault> {
    let all = layout::expiries();
    // A record turns in the very moment that its key names.
    let end = layout::with_time(&all, StoreTime::of_micros(now.as_micros().saturating_add(1)));
    let turned = view.range(&all, &end, count)?;
    let mut changes = Vec::new();
    let mut left = 0_usize;
    for environment in Environment::ALL {
        let room = count.saturating_sub(turned.len()).saturating_sub(left);
        let ended = look::due(view, environment, Index::Ended, Some(now), room)?;
        left = left.saturating_add(ended.len());
        let gone = |(due, member)| removes(&Item::Member { environment, index: Index::Ended, member, due });
        changes.extend(ended.into_iter().flat_map(gone));
    }
    for (expiry, _) in &turned {
        let (_, key) = layout::read_expiry(expiry)?;
        changes.push(Change::Remove(expiry.clone()));
        match view.item(&key)? {
            Some(Item::Record(name, stored)) => {
                changes.push(Change::Remove(key));
                let aged = look::aged(stored, now);
                changes.extend(aged.into_iter().flat_map(|stored| puts(&Item::Record(name.clone(), stored))));
            }
            Some(_) => changes.push(Change::Remove(key)),
            None => {}
        }
    }
    Ok((turned.len().saturating_add(left), changes))
}

pub(super) fn puts(item: &Item) -> Vec<Change> {
    item.pairs().into_iter().map(|(key, value)| Change::Put(key, value)).collect()
}

fn removes(item: &Item) -> Vec<Change> {
    item.pairs().into_iter().map(|(key, _)| Change::Remove(key)).collect()
}

/// What one step writes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Written<'c> {
    Record(&'c RecordKey),
    Member(Index, &'c str),
    Window(&'c WindowKey),
}

/// INVARIANT: as no two steps write the same, none needs to see what an earlier one of its commit would write.
pub(super) fn sensible(commit: &Commit) -> Result<(), StoreFault> {
    let mut written = BTreeSet::new();
    for step in &commit.steps {
        let (key, writes) = match step {
            Step::Absent(key) | Step::Version { key, .. } => (Some(key), None),
            Step::Create { key, .. } | Step::Replace { key, .. } | Step::Delete { key, .. } => {
                (Some(key), Some(Written::Record(key)))
            }
            Step::Before(_) | Step::After(_) | Step::Above(_) | Step::Member { .. } | Step::NotMember { .. } => {
                (None, None)
            }
            Step::IndexAdd { index, member, .. } | Step::IndexRemove { index, member } => {
                (None, Some(Written::Member(*index, member)))
            }
            Step::Reserve { window, .. }
            | Step::Force { window, .. }
            | Step::Settle { window, .. }
            | Step::GiveBack { window, .. } => (None, Some(Written::Window(window))),
        };
        if key.is_some_and(|key| key.environment != commit.environment) {
            return Err(senseless("a record of another environment"));
        }
        if writes.is_some_and(|writes| !written.insert(writes)) {
            return Err(senseless("two writes in one place"));
        }
    }
    Ok(())
}
