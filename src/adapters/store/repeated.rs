//! Makes the commit of an entry again: in its order, in its time, with all its guards.

use super::gathered::StoreMap;
use super::journalled_steps::JournalledSteps;
use super::layout::{self, Item};
use super::sealed::Seals;
use super::{SWEEP, SWEEP_AFTER, plan, queries};
use crate::base::ids::Environment;
use crate::ledger::{Conflict, Number, Outstanding, Step, StoreFault};
use crate::stations::claim;

/// How many items are removed at a time.
const FORGOTTEN_AT_ONCE: usize = 10_000;
/// How many sweeps follow each other.
const MAX_SWEEPS: usize = 40;

/// Why an entry was left out whose time somebody changed.
pub const MISTIMED: &str = "it has another time than the gate that made it had it made at: somebody changed it";

/// Why an entry was left out whose steps were made before.
pub const COPIED: &str = "it has the steps of an earlier entry: somebody put a copy of that one in its place";

/// What became of one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepeatedCommit {
    /// Its commit was made here as well.
    Made {
        /// The numbers before it that are missing here, and that it does not declare unused.
        missing: Option<(Number, Number)>,
    },
    /// The replica has this number, or a later one, already.
    Known,
    /// The state does not allow the commit; it was left out.
    Contradicts(Vec<Conflict>),
    /// It has a time at which its gate did not have it made; it was left out.
    Mistimed,
    /// It has the steps of an earlier entry; it was left out.
    Copied,
    /// It keeps no steps, or steps that cannot be read; it was left out.
    Unreadable(String),
}

impl RepeatedCommit {
    /// Returns why the entry contradicts those before it, if it does.
    pub fn contradiction(self) -> Option<String> {
        match self {
            RepeatedCommit::Made { missing: None } | RepeatedCommit::Known => None,
            RepeatedCommit::Made { missing: Some((first, last)) } => {
                Some(format!("numbers {first} to {last} are missing"))
            }
            RepeatedCommit::Contradicts(_) => Some("what was before does not allow it".to_owned()),
            RepeatedCommit::Mistimed => Some(MISTIMED.to_owned()),
            RepeatedCommit::Copied => Some(COPIED.to_owned()),
            RepeatedCommit::Unreadable(why) => Some(why),
        }
    }
}

/// The steps of an entry, or why they are not made.
#[derive(Debug)]
pub(super) struct ReadEntry(Result<JournalledSteps, RepeatedCommit>);

impl ReadEntry {
    pub fn of(entry: &Outstanding, seals: &Seals) -> ReadEntry {
        ReadEntry(match seals.steps(entry) {
            Ok(Some(steps)) => Ok(steps),
            Ok(None) => Err(RepeatedCommit::Unreadable("it keeps no steps".to_owned())),
            Err(fault) => Err(RepeatedCommit::Unreadable(fault.to_string())),
        })
    }

    /// The same of an entry whose steps were made before.
    pub fn of_a_copy(self) -> ReadEntry {
        ReadEntry(self.0.and(Err(RepeatedCommit::Copied)))
    }
}

/// Makes the commit of an entry in a map, if the map allows it.
pub(super) fn repeat(
    map: &mut impl StoreMap,
    entry: &Outstanding,
    ReadEntry(steps): ReadEntry,
    is_sealing: bool,
) -> Result<RepeatedCommit, StoreFault> {
    let last = queries::last(map, entry.environment)?;
    let number = entry.number.as_u64();
    if number <= last {
        return Ok(RepeatedCommit::Known);
    }
    let (steps, unused) = match steps {
        Ok(kept) if !kept.are_made_at(entry.at) => return left_out(map, entry, RepeatedCommit::Mistimed),
        Ok(JournalledSteps { steps, is_sealed, unused, .. }) => {
            if is_sealing && is_plain_behind_sealed(map, entry, &steps, is_sealed)? {
                let why = "its steps are not sealed, although a seal key is configured and steps before it are";
                return left_out(map, entry, RepeatedCommit::Unreadable(why.to_owned()));
            }
            (steps, unused)
        }
        Err(why) => return left_out(map, entry, why),
    };
    if unused.is_some_and(|unused| unused.behind < last) {
        // The store was rebuilt from a journal that ends before this one: it has another history from there on.
        forget(map, entry.environment, Number::new(last))?;
    }
    match plan::replay(map, entry, &steps) {
        Ok(Ok(changes)) => map.make(changes)?,
        Ok(Err(conflicts)) => return left_out(map, entry, RepeatedCommit::Contradicts(conflicts)),
        Err(StoreFault::Broken(why)) => return left_out(map, entry, RepeatedCommit::Unreadable(why)),
        Err(fault) => return Err(fault),
    }
    let is_explained = unused.is_some_and(|unused| unused.explains_behind(last));
    let skips = number > last.saturating_add(1) && !is_explained;
    let missing = skips.then(|| (Number::new(last.saturating_add(1)), Number::new(number.saturating_sub(1))));
    Ok(RepeatedCommit::Made { missing })
}

/// Whether an entry is in plain, although entries before it are sealed; notes where the sealed ones begin.
fn is_plain_behind_sealed(
    map: &mut impl StoreMap,
    entry: &Outstanding,
    steps: &[Step],
    is_sealed: bool,
) -> Result<bool, StoreFault> {
    let found = map.get(&layout::sealed_from(entry.environment))?.is_some();
    if is_sealed && !found {
        map.make(plan::puts(&Item::SealedFrom(entry.environment, entry.number)))?;
    }
    Ok(!is_sealed && found && !claim::only_closes(steps))
}

/// Goes on behind a number, of which nothing is known.
pub(super) fn pass_over(map: &mut impl StoreMap, environment: Environment, up_to: Number) -> Result<(), StoreFault> {
    map.make(plan::puts(&Item::Last(environment, up_to)))?;
    map.make(plan::puts(&Item::Begin(environment, up_to)))
}

/// Removes the content of an environment, of which nothing is known any more up to a number.
pub(super) fn forget(map: &mut impl StoreMap, environment: Environment, up_to: Number) -> Result<(), StoreFault> {
    for part in layout::contents(environment) {
        loop {
            let some = map.range(&part, &layout::behind(&part), FORGOTTEN_AT_ONCE)?;
            if some.is_empty() {
                break;
            }
            for (key, value) in some {
                map.make(plan::removes(&Item::read(&key, &value)?))?;
            }
        }
    }
    nothing_is_left_out(map, environment)?;
    pass_over(map, environment, up_to)
}

/// Forgets that something was left out: the store has no more than the replica now.
pub(super) fn nothing_is_left_out(map: &mut impl StoreMap, environment: Environment) -> Result<(), StoreFault> {
    match map.get(&layout::left_out(environment))? {
        Some(value) => map.make(plan::removes(&Item::read(&layout::left_out(environment), &value)?)),
        None => Ok(()),
    }
}

/// Goes on behind an entry whose commit is not made here.
fn left_out(map: &mut impl StoreMap, entry: &Outstanding, why: RepeatedCommit) -> Result<RepeatedCommit, StoreFault> {
    map.make(plan::puts(&Item::Last(entry.environment, entry.number)))?;
    map.make(plan::puts(&Item::Committed(entry.environment, entry.node.clone(), entry.number)))?;
    if map.get(&layout::left_out(entry.environment))?.is_none() {
        map.make(plan::puts(&Item::LeftOut(entry.environment, entry.number)))?;
    }
    Ok(why)
}

/// Removes what expired long ago, a bounded part of it.
pub(super) fn sweep(map: &mut impl StoreMap) -> Result<(), StoreFault> {
    // The times of the environments differ: nothing is removed that one of them may still see.
    let now = queries::time(map)?.minus(SWEEP_AFTER);
    for _ in 0..MAX_SWEEPS {
        let (swept, changes) = plan::sweep(map, now, SWEEP)?;
        map.make(changes)?;
        if swept < SWEEP {
            break;
        }
    }
    Ok(())
}
