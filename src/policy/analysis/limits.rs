//! Compares the limits of two sets by id: which leave more room, and which less.

use std::sync::Arc;

use super::approvals::Sides;
use super::outcome::{FIRST, SECOND};
use crate::base::word_enum::word_enum;
use crate::policy::limit::{Limit, Max};
use crate::policy::rate::Mode;

/// A limit with another meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitChange {
    pub id: Arc<str>,
    pub kind: LimitChangeKind,
    /// The changed properties, in words.
    pub what: Vec<&'static str>,
}

word_enum! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum LimitChangeKind {
        Added = "added",
        Removed = "removed",
        Loosened = "loosened",
        Tightened = "tightened",
        /// Neither limit leaves less room in every case.
        Changed = "changed",
    }
}

impl LimitChangeKind {
    /// Returns the words that follow the name of the limit.
    pub(super) fn in_words(self) -> &'static str {
        match self {
            LimitChangeKind::Added => "is added",
            LimitChangeKind::Removed => "is removed",
            LimitChangeKind::Loosened => "allows more",
            LimitChangeKind::Tightened => "allows less",
            LimitChangeKind::Changed => "is changed",
        }
    }

    /// Whether it may leave more room.
    pub fn loosens(self) -> bool {
        match self {
            LimitChangeKind::Removed | LimitChangeKind::Loosened | LimitChangeKind::Changed => true,
            LimitChangeKind::Added | LimitChangeKind::Tightened => false,
        }
    }
}

fn in_force(limits: &[Limit]) -> impl Iterator<Item = &Limit> {
    limits.iter().filter(|limit| limit.mode == Mode::Enforce)
}

/// Returns every limit in force, with the sides that have it.
pub(super) fn side_by_side(sides: Sides<'_>) -> Vec<(&Limit, u8)> {
    let (olds, news) = (&sides.old.rules.limits, &sides.new.rules.limits);
    let twin = |limit: &Limit, among: &[Limit]| {
        in_force(among).any(|other| other.id == limit.id && aspects(sides, limit, other).is_empty())
    };
    let old = in_force(olds).map(|limit| (limit, if twin(limit, news) { FIRST | SECOND } else { FIRST }));
    let new =
        in_force(news).filter(|new| !in_force(olds).any(|old| old.id == new.id && aspects(sides, old, new).is_empty()));
    old.chain(new.map(|limit| (limit, SECOND))).collect()
}

pub(super) fn changes(sides: Sides<'_>) -> Vec<LimitChange> {
    let (olds, news) = (&sides.old.rules.limits, &sides.new.rules.limits);
    let mut changes = Vec::new();
    for old in in_force(olds) {
        let Some(new) = in_force(news).find(|new| new.id == old.id) else {
            changes.push(LimitChange { id: old.id.clone(), kind: LimitChangeKind::Removed, what: Vec::new() });
            continue;
        };
        let aspects = aspects(sides, old, new);
        let has = |way: LimitWay| aspects.iter().any(|(_, other)| *other == way);
        let kind = match (has(LimitWay::Looser), has(LimitWay::Tighter), has(LimitWay::Neither)) {
            (false, false, false) => continue,
            (true, false, false) => LimitChangeKind::Loosened,
            (false, true, false) => LimitChangeKind::Tightened,
            _ => LimitChangeKind::Changed,
        };
        let what = aspects.iter().map(|(what, _)| *what).collect();
        changes.push(LimitChange { id: old.id.clone(), kind, what });
    }
    let added = in_force(news).filter(|new| !in_force(olds).any(|old| old.id == new.id));
    let added = added.map(|new| LimitChange { id: new.id.clone(), kind: LimitChangeKind::Added, what: Vec::new() });
    changes.extend(added);
    changes
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LimitWay {
    Looser,
    Tighter,
    Neither,
}

/// Returns all changed properties.
fn aspects(sides: Sides<'_>, old: &Limit, new: &Limit) -> Vec<(&'static str, LimitWay)> {
    let mut found = Vec::new();
    let mut tell = |what: &'static str, way: Option<LimitWay>| found.extend(way.map(|way| (what, way)));
    match (old.max, new.max) {
        (Max::MicroUsd(old), Max::MicroUsd(new)) | (Max::Calls(old), Max::Calls(new)) => {
            tell("its maximum", compared(old, new));
        }
        _ => tell("the unit of its maximum (its windows start empty)", Some(LimitWay::Neither)),
    }
    let currency = |limit: &Limit| limit.max_in.as_ref().map(|one| (one.asset.clone(), one.from_secs, one.to_secs));
    tell("the currency of its maximum", (currency(old) != currency(new)).then_some(LimitWay::Neither));
    tell(
        "its window (what was paid before counts only in part)",
        (old.window != new.window).then_some(LimitWay::Neither),
    );
    tell("its keys (its windows start empty)", (old.per != new.per).then_some(LimitWay::Neither));
    let (more, fewer) = (old.operations.is_subset(&new.operations), new.operations.is_subset(&old.operations));
    tell("its operations", contained(more, fewer));
    let within = |some: &Limit, all: &Limit| some.conditions.iter().all(|condition| all.conditions.contains(condition));
    tell("its operations and conditions", contained(within(new, old), within(old, new)));
    tell(
        "its treatment of operations without an amount",
        match (old.denies_without, new.denies_without) {
            (true, false) => Some(LimitWay::Looser),
            (false, true) => Some(LimitWay::Tighter),
            _ => None,
        },
    );
    let hear_more = new.alert.is_superset(&old.alert);
    let alert = if hear_more { LimitWay::Tighter } else { LimitWay::Looser };
    tell("who hears of payments that fail or come back", (old.alert != new.alert).then_some(alert));
    tell(
        "who may exceed it",
        match (&old.over, &new.over) {
            (None, Some(_)) => Some(LimitWay::Looser),
            (Some(_), None) => Some(LimitWay::Tighter),
            (Some(old), Some(new)) if old == new && sides.is_same(old) => None,
            (Some(old), Some(new)) => {
                Some(if sides.is_as_strict(new, old) { LimitWay::Tighter } else { LimitWay::Looser })
            }
            (None, None) => None,
        },
    );
    found
}

/// Compares a property of which more leaves more room.
fn compared<T: Ord>(old: T, new: T) -> Option<LimitWay> {
    match new.cmp(&old) {
        std::cmp::Ordering::Less => Some(LimitWay::Tighter),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(LimitWay::Looser),
    }
}

fn contained(binds_more: bool, binds_less: bool) -> Option<LimitWay> {
    match (binds_more, binds_less) {
        (true, true) => None,
        (true, false) => Some(LimitWay::Tighter),
        (false, true) => Some(LimitWay::Looser),
        (false, false) => Some(LimitWay::Neither),
    }
}
