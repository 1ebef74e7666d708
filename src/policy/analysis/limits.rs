//! Limits of two sets, by their names: which leave more room, and which less.

use std::sync::Arc;

use super::approvals::Sides;
use super::model::{FIRST, SECOND};
use crate::policy::limit::{Limit, Max, Window};
use crate::policy::rate::Mode;

/// A limit that binds otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitChange {
    pub id: Arc<str>,
    pub kind: LimitChangeKind,
    /// What of it is otherwise, in words.
    pub what: Vec<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitChangeKind {
    Added,
    Removed,
    Loosened,
    Tightened,
    /// Neither leaves less room in every case.
    Changed,
}

impl LimitChangeKind {
    /// Whether it may leave more room.
    pub fn loosens(self) -> bool {
        match self {
            LimitChangeKind::Removed | LimitChangeKind::Loosened | LimitChangeKind::Changed => true,
            LimitChangeKind::Added | LimitChangeKind::Tightened => false,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            LimitChangeKind::Added => "added",
            LimitChangeKind::Removed => "removed",
            LimitChangeKind::Loosened => "loosened",
            LimitChangeKind::Tightened => "tightened",
            LimitChangeKind::Changed => "changed",
        }
    }
}

fn in_force(limits: &[Limit]) -> impl Iterator<Item = &Limit> {
    limits.iter().filter(|limit| limit.mode == Mode::Enforce)
}

/// Every limit in force, with the sides that have it.
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
        let has = |way: Way| aspects.iter().any(|(_, other)| *other == way);
        let kind = match (has(Way::Looser), has(Way::Tighter), has(Way::Neither)) {
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
enum Way {
    Looser,
    Tighter,
    Neither,
}

/// All that is otherwise.
fn aspects(sides: Sides<'_>, old: &Limit, new: &Limit) -> Vec<(&'static str, Way)> {
    let mut found = Vec::new();
    let mut tell = |what: &'static str, way: Option<Way>| found.extend(way.map(|way| (what, way)));
    tell(
        "the most that it lets pass",
        match (old.max, new.max) {
            (Max::MicroUsd(old), Max::MicroUsd(new)) | (Max::Calls(old), Max::Calls(new)) => compared(old, new),
            _ => Some(Way::Neither),
        },
    );
    tell(
        "its window",
        match (&old.window, &new.window) {
            (old, new) if old == new => None,
            (Window::Rolling(old), Window::Rolling(new)) => compared(*new, *old),
            _ => Some(Way::Neither),
        },
    );
    // Other keys count from nothing.
    tell("what counts together", (old.per != new.per).then_some(Way::Neither));
    let (more, fewer) = (old.operations.is_subset(&new.operations), new.operations.is_subset(&old.operations));
    tell("its operations", contained(more, fewer));
    let within = |some: &Limit, all: &Limit| some.conditions.iter().all(|condition| all.conditions.contains(condition));
    tell("what it is about", contained(within(new, old), within(old, new)));
    tell(
        "what it does with operations that have no amount",
        match (old.denies_without, new.denies_without) {
            (true, false) => Some(Way::Looser),
            (false, true) => Some(Way::Tighter),
            _ => None,
        },
    );
    tell(
        "who may exceed it",
        match (&old.over, &new.over) {
            (None, Some(_)) => Some(Way::Looser),
            (Some(_), None) => Some(Way::Tighter),
            (Some(old), Some(new)) if old == new && sides.is_same(old) => None,
            (Some(old), Some(new)) => Some(if sides.is_as_strict(new, old) { Way::Tighter } else { Way::Looser }),
            (None, None) => None,
        },
    );
    found
}

/// More of it leaves more room.
fn compared<T: Ord>(old: T, new: T) -> Option<Way> {
    match new.cmp(&old) {
        std::cmp::Ordering::Less => Some(Way::Tighter),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(Way::Looser),
    }
}

fn contained(binds_more: bool, binds_less: bool) -> Option<Way> {
    match (binds_more, binds_less) {
        (true, true) => None,
        (true, false) => Some(Way::Tighter),
        (false, true) => Some(Way::Looser),
        (false, false) => Some(Way::Neither),
    }
}
