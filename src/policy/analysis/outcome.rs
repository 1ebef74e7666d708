//! The possible outcomes of the requests in a part of the universe, under one set or two.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::search::{Judged, SearchState};
use super::shape::PaymentShape;
use crate::base::pointer::Pointer;
use crate::policy::rule::Effect;

/// The first side, and the second.
pub(super) const FIRST: u8 = 1;
pub(super) const SECOND: u8 = 2;

/// A set of effects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Effects(u8);

impl Effects {
    pub(super) fn of(effects: &[Effect]) -> Effects {
        effects.iter().fold(Effects::default(), |set, effect| set.and(*effect))
    }

    pub(super) fn and(self, effect: Effect) -> Effects {
        Effects(self.0 | bit(effect))
    }

    pub(super) fn has(self, effect: Effect) -> bool {
        self.0 & bit(effect) != 0
    }

    pub(super) fn others(self) -> Effects {
        Effects(0b111 & !self.0)
    }

    fn is_one(self) -> bool {
        self.0.count_ones() == 1
    }

    pub(super) fn each(self) -> impl Iterator<Item = Effect> {
        Effect::ALL.into_iter().filter(move |effect| self.has(*effect))
    }
}

fn bit(effect: Effect) -> u8 {
    match effect {
        Effect::Allow => 1,
        Effect::Hold => 2,
        Effect::Deny => 4,
    }
}

impl<'s> SearchState<'s> {
    fn on(&self, list: &'s [usize], side: u8) -> impl Iterator<Item = (usize, &'s PaymentShape)> + use<'s> {
        let SearchState { shapes, without, .. } = *self;
        let shape = move |at: &usize| Some((*at, shapes.get(*at)?));
        let is_left_out = move |shape: &PaymentShape| side == SECOND && without == Some(shape.cause);
        list.iter().filter_map(shape).filter(move |(_, shape)| shape.sides & side != 0 && !is_left_out(shape))
    }

    pub(super) fn had_on(&self, side: u8) -> impl Iterator<Item = &'s PaymentShape> + use<'s> {
        self.on(self.had, side).map(|(_, shape)| shape).filter(|shape| shape.unless_named.is_none())
    }

    /// Returns the undecided shapes whose effects are certain.
    fn open_on(&self, side: u8) -> impl Iterator<Item = (usize, &'s PaymentShape)> + use<'s> {
        self.on(self.open, side).filter(|(_, shape)| shape.unless_named.is_none())
    }

    /// Returns whether a field is denied for certain because no matched rule names it; otherwise an undecided shape
    /// on which it depends, if any.
    fn unnamed(&self, side: u8) -> (bool, Option<usize>) {
        let names = |shape: &PaymentShape, field: &Pointer| shape.names.iter().any(|name| name.covers(field));
        let mut depends_on = None;
        let fields =
            |list: &'s [usize]| self.on(list, side).filter_map(|(at, shape)| Some((at, shape.unless_named.as_ref()?)));
        for (_, field) in fields(self.had).filter(|(_, field)| !self.had_on(side).any(|shape| names(shape, field))) {
            match self.open_on(side).find(|(_, shape)| names(shape, field)) {
                Some((at, _)) => depends_on = Some(at),
                None => return (true, None),
            }
        }
        let is_open = |(_, field): &(usize, &Pointer)| !self.had_on(side).any(|shape| names(shape, field));
        (false, depends_on.or_else(|| fields(self.open).find(is_open).map(|(at, _)| at)))
    }

    /// Returns the possible effects on a side.
    pub(super) fn effects(&self, side: u8) -> Effects {
        let strongest = self.had_on(side).map(|shape| shape.effect).max();
        let is_named = self.had_on(side).any(|shape| shape.cause.is_rule());
        let open = || self.open_on(side).map(|(_, shape)| shape);
        let (is_unnamed, may_be_unnamed) = self.unnamed(side);
        if is_unnamed {
            return Effects::of(&[Effect::Deny]);
        }
        let least = strongest.unwrap_or(Effect::Allow);
        let mut effects = if is_named { Effects::of(&[least]) } else { Effects::of(&[Effect::Deny]) };
        let may_be_named = is_named || open().any(|shape| shape.cause.is_rule());
        if may_be_named {
            if !is_named {
                effects = open()
                    .filter(|shape| shape.cause.is_rule())
                    .fold(effects, |set, shape| set.and(shape.effect.max(least)));
            }
            effects = open().filter(|shape| shape.effect > least).fold(effects, |set, shape| set.and(shape.effect));
        }
        if may_be_unnamed.is_some() { effects.and(Effect::Deny) } else { effects }
    }

    /// Returns the undecided shape that determines most of a side's effect.
    fn telling(&self, side: u8) -> Option<usize> {
        let strongest = self.had_on(side).map(|shape| shape.effect).max();
        let is_named = self.had_on(side).any(|shape| shape.cause.is_rule());
        let open = || self.open_on(side);
        let stronger = open().filter(|(_, shape)| strongest.is_none_or(|effect| shape.effect > effect));
        let first = stronger.max_by_key(|(_, shape)| shape.effect);
        let naming = || open().find(|(_, shape)| shape.cause.is_rule());
        let first = first.or_else(|| if is_named { None } else { naming() }).map(|(at, _)| at);
        first.or_else(|| self.unnamed(side).1)
    }

    pub(super) fn approvals(&self, side: u8) -> BTreeSet<Arc<str>> {
        self.had_on(side).filter_map(|shape| shape.approval.clone()).collect()
    }

    pub(super) fn names(&self, side: u8) -> BTreeSet<&'s Pointer> {
        self.had_on(side).flat_map(|shape| &shape.names).collect()
    }

    pub(super) fn open_naming(&self, side: u8, pointer: &Pointer) -> Option<usize> {
        self.on(self.open, side).find(|(_, shape)| shape.names.contains(pointer)).map(|(at, _)| at)
    }

    /// Returns an undecided shape that may add an approval or a named field.
    pub(super) fn adding(&self, side: u8) -> Option<usize> {
        let adds = |shape: &PaymentShape| shape.approval.is_some() || !shape.names.is_empty();
        self.on(self.open, side).find(|(_, shape)| adds(shape)).map(|(at, _)| at)
    }
}

/// Whether a wanted effect occurs on a side.
pub(super) fn comes_out(seen: SearchState<'_>, side: u8, wanted: Effects) -> Judged {
    let possible = seen.effects(side);
    if !Effect::ALL.into_iter().any(|effect| possible.has(effect) && wanted.has(effect)) {
        return Judged::No;
    }
    if !possible.each().any(|effect| !wanted.has(effect)) {
        return Judged::Yes;
    }
    seen.telling(side).map_or(Judged::No, Judged::Ask)
}

/// Whether no rule matches on a side.
pub(super) fn is_unnamed(seen: SearchState<'_>, side: u8) -> Judged {
    if seen.had_on(side).any(|shape| shape.cause.is_rule()) {
        return Judged::No;
    }
    match seen.on(seen.open, side).find(|(_, shape)| shape.cause.is_rule()) {
        Some((at, _)) => Judged::Ask(at),
        None => Judged::Yes,
    }
}

/// Whether two requests with the same effect, allow or hold, differ otherwise.
pub(super) type Finer<'f> = &'f dyn Fn(SearchState<'_>, Effect) -> bool;

/// Whether the effects on the first and the second side are a wanted pair; for equal effects of allow or hold, `finer`
/// decides.
pub(super) fn pair(seen: SearchState<'_>, wanted: &dyn Fn(Effect, Effect) -> bool, finer: Option<Finer<'_>>) -> Judged {
    let (first, second) = (seen.effects(FIRST), seen.effects(SECOND));
    let pairs: Vec<_> = first.each().flat_map(|a| second.each().map(move |b| (a, b))).collect();
    let is_fine = |a: Effect, b: Effect| finer.is_some() && a == b && a != Effect::Deny;
    if !pairs.iter().any(|(a, b)| wanted(*a, *b) || is_fine(*a, *b)) {
        return Judged::No;
    }
    if pairs.iter().all(|(a, b)| wanted(*a, *b)) {
        return Judged::Yes;
    }
    let telling = |side: u8, effects: Effects| if effects.is_one() { None } else { seen.telling(side) };
    if let Some(at) = telling(FIRST, first).or_else(|| telling(SECOND, second)) {
        return Judged::Ask(at);
    }
    let effect = first.each().next().unwrap_or(Effect::Deny);
    match (finer, seen.adding(FIRST).or_else(|| seen.adding(SECOND))) {
        (Some(_), Some(at)) => Judged::Ask(at),
        (Some(finer), None) if finer(seen, effect) => Judged::Yes,
        _ => Judged::No,
    }
}
