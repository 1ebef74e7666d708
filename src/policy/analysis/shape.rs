//! The conditions of rules and limits, as clauses over the variables of a universe.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::cells::{CellLiteral, Cells, Clause};
use super::gathered::zone_name;
use super::universe::{Cell, DESTINATIONS, Universe, Variable, is_many};
use crate::base::ids::OperationId;
use crate::base::pointer::Pointer;
use crate::policy::acquaintance::Acquaintance;
use crate::policy::condition::{Condition, Sense, SoughtValue, Ways};
use crate::policy::limit::{Limit, Max};
use crate::policy::literal::Literal as Written;
use crate::policy::rate::Mode;
use crate::policy::request::Field;
use crate::policy::rule::{Effect, Rule};

/// One way in which a rule or a limit applies: it applies if every clause holds.
#[derive(Clone, Debug)]
pub(super) struct PaymentShape {
    pub cause: ShapeCause,
    pub effect: Effect,
    pub approval: Option<Arc<str>>,
    /// The fields of the body that the rule names.
    pub names: BTreeSet<Pointer>,
    pub operations: Arc<BTreeSet<OperationId>>,
    pub clauses: Vec<Clause>,
    /// The sides whose set has it, one bit for each.
    pub sides: u8,
    /// Whether the rule itself applies, as opposed to a missing fact or a reached limit.
    pub is_own: bool,
    /// A field that is denied unless a matched rule names it; the effect of every other shape is certain.
    pub unless_named: Option<Pointer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum ShapeCause {
    Rule(usize),
    Limit(usize),
    /// A field of the body that no value covers.
    Field(usize),
}

impl ShapeCause {
    pub(super) fn is_rule(self) -> bool {
        matches!(self, ShapeCause::Rule(_))
    }
}

/// The part that wallets that take fees have in a condition that excludes names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FeeWallets {
    /// Each is a name, and one is enough.
    AreNames,
    /// None may be excluded, but none stands for the destination.
    AreBesides,
}

/// The clauses of one condition.
struct Asks {
    holds: Vec<Clause>,
    /// A fact is missing; `None` if it never is.
    untold: Option<Clause>,
    /// The condition holds, or a fact is missing.
    holds_or_untold: Vec<Clause>,
}

impl Asks {
    fn known(holds: Vec<Clause>) -> Asks {
        Asks { holds_or_untold: holds.clone(), holds, untold: None }
    }
}

pub(super) fn sense_of(effect: Effect) -> Sense {
    match effect {
        Effect::Allow => Sense::Permits,
        Effect::Hold | Effect::Deny => Sense::Restricts,
    }
}

impl Universe {
    /// Returns each way in which a rule applies; none in shadow mode.
    pub(super) fn rule(&self, at: usize, rule: &Rule) -> Vec<PaymentShape> {
        if rule.mode == Mode::Shadow {
            return Vec::new();
        }
        let named = rule.when.conditions.iter().filter_map(|condition| match condition {
            Condition::Body(pointer, _) => Some(pointer.clone()),
            _ => None,
        });
        let names: BTreeSet<Pointer> = named.collect();
        let operations = Arc::new(rule.when.operations.clone());
        let shape = |(effect, is_own, clauses)| PaymentShape {
            cause: ShapeCause::Rule(at),
            effect,
            approval: rule.approval.clone().filter(|_| effect == Effect::Hold),
            names: names.clone(),
            operations: operations.clone(),
            clauses,
            sides: 1,
            is_own,
            unless_named: None,
        };
        let ways = self.ways(&rule.when.conditions, sense_of(rule.effect));
        let (first, untold) = ways.split_first().map_or((Vec::new(), &[][..]), |(first, rest)| (first.clone(), rest));
        let own = (rule.effect, true, first);
        [own].into_iter().chain(untold.iter().map(|way| (Effect::Deny, false, way.clone()))).map(shape).collect()
    }

    /// Returns the shape of a field that is denied unless a matched rule names it.
    pub(super) fn field_to_name(&self, at: usize, operation: &OperationId, pointer: &Pointer) -> PaymentShape {
        PaymentShape {
            cause: ShapeCause::Field(at),
            effect: Effect::Deny,
            approval: None,
            names: BTreeSet::new(),
            operations: Arc::new([operation.clone()].into()),
            clauses: self.body(pointer, &SoughtValue::Present, Sense::Restricts),
            sides: 1,
            is_own: false,
            unless_named: Some(pointer.clone()),
        }
    }

    /// Returns each way in which a limit stops a request: by its own amount, by a full window, by a missing fact.
    pub(super) fn limit(&self, at: usize, limit: &Limit) -> Vec<PaymentShape> {
        if limit.mode == Mode::Shadow {
            return Vec::new();
        }
        let over = if limit.over.is_some() { Effect::Hold } else { Effect::Deny };
        let operations = Arc::new(limit.operations.clone());
        let shape = |effect: Effect, clauses: Vec<Clause>| PaymentShape {
            cause: ShapeCause::Limit(at),
            effect,
            approval: limit.over.clone().filter(|_| effect == Effect::Hold),
            names: BTreeSet::new(),
            operations: operations.clone(),
            clauses,
            sides: 1,
            is_own: false,
            unless_named: None,
        };
        let mut ways = self.ways(&limit.conditions, Sense::Restricts).into_iter();
        let applies = ways.next().unwrap_or_default();
        let with = |more: Vec<Option<Clause>>| applies.iter().cloned().chain(more.into_iter().flatten()).collect();
        let mut shapes: Vec<PaymentShape> = ways.map(|way| shape(Effect::Deny, way)).collect();
        let full = self.only(&Variable::Full(limit.id.to_string()), |cell| *cell == Cell::Yes);
        match limit.max {
            Max::MicroUsd(max) => {
                let above = self
                    .only(&Variable::Value, |cell| matches!(cell, Cell::Numbers(least, _) if *least > u128::from(max)));
                shapes.push(shape(over, with(vec![above])));
                if full.is_some() {
                    let has_value = self.only(&Variable::Value, |cell| *cell != Cell::Absent);
                    shapes.push(shape(over, with(vec![full, has_value])));
                }
                if limit.denies_without {
                    let without = self.only(&Variable::Value, |cell| *cell == Cell::Absent);
                    shapes.push(shape(Effect::Deny, with(vec![without])));
                }
            }
            Max::Calls(_) if full.is_some() => shapes.push(shape(over, with(vec![full]))),
            Max::Calls(_) => {}
        }
        shapes
    }

    /// Returns the clauses under which all conditions hold; then, for each that may lack a fact, those under which it
    /// does and no other fails.
    pub(super) fn ways(&self, conditions: &[Condition], sense: Sense) -> Vec<Vec<Clause>> {
        let asked: Vec<Asks> = conditions.iter().map(|condition| self.asks(condition, sense)).collect();
        let mut ways = vec![asked.iter().flat_map(|asks| asks.holds.clone()).collect::<Vec<_>>()];
        for (at, asks) in asked.iter().enumerate() {
            if let Some(untold) = &asks.untold {
                let others = asked.iter().enumerate().filter(|(other, _)| *other != at);
                let mut clauses = vec![untold.clone()];
                clauses.extend(others.flat_map(|(_, asks)| asks.holds_or_untold.clone()));
                ways.push(clauses);
            }
        }
        ways
    }

    fn asks(&self, condition: &Condition, sense: Sense) -> Asks {
        match condition {
            Condition::Names(field, set) => {
                let sense = if field.is_of_caller() { Sense::Restricts } else { sense };
                let (many, single): (Vec<Field>, Vec<Field>) =
                    field.parts().iter().partition(|part| matches!(part, Field::Role | Field::FeeWallet));
                let single = single.into_iter().filter_map(|part| self.is_named(part, set)).collect();
                Asks::known(self.name_clauses(single, many.first().copied(), set, sense))
            }
            Condition::Destination(Ways { user, wallet, external_wallet }) => {
                let ways = [
                    (Field::DestinationUser, user),
                    (Field::DestinationWallet, wallet),
                    (Field::DestinationExternal, external_wallet),
                ];
                let named = ways.into_iter().filter_map(|(field, set)| self.is_named(field, set));
                let fees = (sense == Sense::Restricts).then_some(Field::FeeWallet);
                Asks::known(self.name_clauses(named.collect(), fees, wallet, sense))
            }
            Condition::NotNames(Field::Role, set) => {
                let roles = self.several.get(&Field::Role).into_iter().flatten();
                let excluded = roles.filter(|(_, name)| set.contains(name));
                Asks::known(excluded.map(|(var, _)| Clause(vec![self.says(*var, false)])).collect())
            }
            Condition::NotNames(field, set) => {
                let (many, single): (Vec<Field>, Vec<Field>) =
                    field.parts().iter().partition(|part| **part == Field::FeeWallet);
                let single = single.into_iter().filter_map(|part| self.is_named(part, set)).collect();
                let fees = many.first().map(|_| FeeWallets::AreNames);
                Asks::known(self.not_named(single, fees, set, sense))
            }
            Condition::NotDestination(Ways { user, wallet, external_wallet }) => {
                let ways = [
                    (Field::DestinationUser, user),
                    (Field::DestinationWallet, wallet),
                    (Field::DestinationExternal, external_wallet),
                ];
                let named = ways.into_iter().filter_map(|(field, set)| self.is_named(field, set));
                Asks::known(self.not_named(named.collect(), Some(FeeWallets::AreBesides), wallet, sense))
            }
            Condition::FeesOnlyTo(_) if sense == Sense::Restricts => Asks::known(Vec::new()),
            Condition::FeesOnlyTo(set) => {
                let others = self.several.get(&Field::FeeWallet).into_iter().flatten();
                let others = others.filter(|(_, name)| !self.is_taker(name, set));
                Asks::known(others.map(|(var, _)| Clause(vec![self.says(*var, false)])).collect())
            }
            Condition::NewDestination { new, cooldown } => self.destination(*new, *cooldown, sense),
            Condition::Amount { within, without } => Asks::known(clauses(self.valued(*within, *without))),
            Condition::Price(within) => {
                let is_in =
                    |cell: &Cell| matches!(cell, Cell::Numbers(a, b) if within.contains(*a) && within.contains(*b));
                let price = |fits: &dyn Fn(&Cell) -> bool| clauses(self.literal(&Variable::Price, fits));
                Asks {
                    holds: price(&is_in),
                    untold: price(&|cell| *cell == Cell::Untold).pop(),
                    holds_or_untold: price(&|cell| *cell == Cell::Untold || is_in(cell)),
                }
            }
            Condition::Body(pointer, sought) => Asks::known(self.body(pointer, sought, sense)),
            Condition::Weekday(days, zone) => Asks::known(clauses(self.literal(
                &Variable::Weekday(zone_name(zone)),
                |cell| matches!(cell, Cell::Day(day) if days.contains(day)),
            ))),
            Condition::Hour(within, zone) => Asks::known(clauses(self.literal(
                &Variable::Hour(zone_name(zone)),
                |cell| matches!(cell, Cell::Numbers(hour, _) if within.contains(*hour)),
            ))),
            Condition::Date(ranges, zone) => Asks::known(clauses(self.literal(
                &Variable::Date(zone_name(zone)),
                |cell| matches!(cell, Cell::Numbers(day, _) if ranges.iter().any(|range| range.contains(*day))),
            ))),
            Condition::During(range, zone, inner) => {
                let other_days = self.literal(
                    &Variable::Date(zone_name(zone)),
                    |cell| !matches!(cell, Cell::Numbers(day, _) if range.contains(*day)),
                );
                // No name is a fact that may be missing.
                let Asks { holds, .. } = self.asks(inner, sense);
                let or = |Clause(literals): Clause| Clause(literals.into_iter().chain(other_days.clone()).collect());
                Asks::known(holds.into_iter().map(or).collect())
            }
        }
    }

    /// Returns clauses for at most one name on each side, and for any number of names in the field `many`: any of the
    /// names, or each of them and at least one.
    fn name_clauses(
        &self,
        parts: Vec<CellLiteral>,
        many: Option<Field>,
        set: &BTreeSet<String>,
        sense: Sense,
    ) -> Vec<Clause> {
        let mut clauses = Vec::new();
        let many = many.and_then(|field| self.several.get(&field)).map_or(&[][..], Vec::as_slice);
        let (inside, outside): (Vec<_>, Vec<_>) = many.iter().partition(|(_, name)| self.is_taker(name, set));
        if sense == Sense::Permits {
            clauses.extend(outside.iter().map(|(var, _)| Clause(vec![self.says(*var, false)])));
        }
        if sense == Sense::Permits && parts.len().saturating_add(many.len()) > 1 {
            clauses.extend(parts.iter().map(|literal| {
                let cells = self.absent(literal.var).into_iter().fold(literal.cells.clone(), Cells::and);
                Clause(vec![CellLiteral { var: literal.var, cells }])
            }));
        }
        let any = parts.into_iter().chain(inside.iter().map(|(var, _)| self.says(*var, true)));
        clauses.push(Clause(any.collect()));
        clauses
    }

    /// Returns clauses for names that are not in a set: to permit, none of them, and at least one; to stop, any of them,
    /// or none at all.
    fn not_named(
        &self,
        parts: Vec<CellLiteral>,
        fees: Option<FeeWallets>,
        set: &BTreeSet<String>,
        sense: Sense,
    ) -> Vec<Clause> {
        let wallets = self.several.get(&Field::FeeWallet).filter(|_| fees.is_some()).map_or(&[][..], Vec::as_slice);
        let (inside, outside): (Vec<_>, Vec<_>) = wallets.iter().partition(|(_, name)| self.is_taker(name, set));
        let say = |yes: bool| move |(var, _): &&(usize, String)| self.says(*var, yes);
        let absent = |literal: &CellLiteral| {
            let none = Cells::none(self.cells(literal.var).len());
            CellLiteral { var: literal.var, cells: self.absent(literal.var).into_iter().fold(none, Cells::and) }
        };
        let not_in = |literal: &CellLiteral| self.other_than(literal, false);
        let names = parts.iter().map(not_in);
        let others: Vec<CellLiteral> = outside.iter().map(say(true)).collect();
        let are_names = fees == Some(FeeWallets::AreNames);
        match sense {
            Sense::Permits => {
                let none = parts.iter().map(|part| self.other_than(part, true));
                let none = none.chain(inside.iter().map(say(false)));
                let mut clauses: Vec<Clause> = none.map(|literal| Clause(vec![literal])).collect();
                clauses.push(Clause(names.chain(others.into_iter().filter(|_| are_names)).collect()));
                clauses
            }
            Sense::Restricts => {
                let any: Vec<CellLiteral> = names.chain(others).collect();
                let none = parts.iter().map(absent).chain(inside.iter().filter(|_| are_names).map(say(false)));
                none.map(|literal| Clause(any.iter().cloned().chain([literal]).collect())).collect()
            }
        }
    }

    /// Returns the literal for the other cells of its variable, absence among them or not.
    fn other_than(&self, literal: &CellLiteral, or_absent: bool) -> CellLiteral {
        let count = self.cells(literal.var).len();
        let absent = self.absent(literal.var).filter(|_| !or_absent);
        let excluded = absent.into_iter().fold(literal.cells.clone(), Cells::and);
        CellLiteral { var: literal.var, cells: excluded.others(count) }
    }

    /// Returns the cell for: there is no value. It is the first, if a variable has it among names or values of a body.
    fn absent(&self, var: usize) -> Option<usize> {
        self.cells(var).iter().take(1).position(|cell| *cell == Cell::Absent)
    }

    fn several<T>(&self, several: &[(usize, T)], sense: Sense, is_in: impl Fn(&T) -> bool) -> Vec<Clause> {
        let (inside, outside): (Vec<_>, Vec<_>) = several.iter().partition(|(_, kind)| is_in(kind));
        let mut clauses = vec![Clause(inside.iter().map(|(var, _)| self.says(*var, true)).collect())];
        if sense == Sense::Permits {
            clauses.extend(outside.iter().map(|(var, _)| Clause(vec![self.says(*var, false)])));
        }
        clauses
    }

    /// Returns clauses for values of which none is in a set, and at least one is there; to stop, any value that is not
    /// in the set, or none at all.
    fn not_several<T>(&self, several: &[(usize, T)], sense: Sense, is_in: impl Fn(&T) -> bool) -> Vec<Clause> {
        let (inside, outside): (Vec<_>, Vec<_>) = several.iter().partition(|(_, kind)| is_in(kind));
        let any: Vec<CellLiteral> = outside.iter().map(|(var, _)| self.says(*var, true)).collect();
        let none = inside.iter().map(|(var, _)| self.says(*var, false));
        match sense {
            Sense::Permits => none.map(|literal| Clause(vec![literal])).chain([Clause(any.clone())]).collect(),
            Sense::Restricts => none.map(|literal| Clause(any.iter().cloned().chain([literal]).collect())).collect(),
        }
    }

    fn destination(&self, new: bool, cooldown: Duration, sense: Sense) -> Asks {
        let is_new = |known: Acquaintance| known < Some(cooldown);
        let any = |cell: &Cell| match cell {
            Cell::Known(newest, oldest) => {
                if new {
                    is_new(*newest)
                } else {
                    !is_new(*oldest)
                }
            }
            _ => false,
        };
        let all = |cell: &Cell| match cell {
            Cell::Known(newest, oldest) => {
                if new {
                    is_new(*oldest)
                } else {
                    !is_new(*newest)
                }
            }
            _ => false,
        };
        let each = |fits: &dyn Fn(&Cell) -> bool| -> Vec<CellLiteral> {
            DESTINATIONS.iter().filter_map(|field| self.literal(&Variable::Paid(*field), fits)).collect()
        };
        let clauses = |literals: Vec<CellLiteral>| literals.into_iter().map(|literal| Clause(vec![literal]));
        let unknown = each(&|cell| *cell == Cell::Untold);
        let mut holds: Vec<Clause> = clauses(each(&|cell| *cell != Cell::Untold)).collect();
        let mut holds_or_untold = Vec::new();
        match sense {
            Sense::Restricts => {
                holds.push(Clause(each(&any)));
                holds_or_untold.push(Clause(each(&|cell| any(cell) || *cell == Cell::Untold)));
            }
            Sense::Permits => {
                holds.extend(clauses(each(&|cell| *cell == Cell::Absent || all(cell))));
                let fits = each(&|cell| matches!(cell, Cell::Absent | Cell::Untold) || all(cell));
                for literal in fits {
                    let others = unknown.iter().filter(|other| other.var != literal.var).cloned();
                    holds_or_untold.push(Clause(others.chain([literal.clone()]).collect()));
                }
                let some = Clause(each(&|cell| *cell != Cell::Absent));
                holds.push(some.clone());
                holds_or_untold.push(some);
            }
        }
        Asks { holds, untold: Some(Clause(unknown)), holds_or_untold }
    }

    fn body(&self, pointer: &Pointer, sought: &SoughtValue, sense: Sense) -> Vec<Clause> {
        if is_many(pointer) {
            let several = self.several_in_body.get(pointer).map_or(&[][..], Vec::as_slice);
            return match sought {
                SoughtValue::Present => self.several(several, Sense::Restricts, |_| true),
                SoughtValue::Absent => several.iter().map(|(var, _)| Clause(vec![self.says(*var, false)])).collect(),
                SoughtValue::Among(set) => self.several(several, sense, |cell| is_among(cell, set)),
                SoughtValue::NotAmong(set) => self.not_several(several, sense, |cell| is_among(cell, set)),
            };
        }
        if let SoughtValue::Among(set) | SoughtValue::NotAmong(set) = sought {
            return clauses(self.is_written(pointer, set).map(|literal| match sought {
                SoughtValue::NotAmong(_) => self.other_than(&literal, sense == Sense::Restricts),
                _ => literal,
            }));
        }
        clauses(self.literal(&Variable::Body(pointer.clone()), |cell| match sought {
            SoughtValue::Present => *cell != Cell::Absent,
            SoughtValue::Absent => *cell == Cell::Absent,
            SoughtValue::Among(_) | SoughtValue::NotAmong(_) => false,
        }))
    }
}

fn is_among(cell: &Cell, set: &BTreeSet<Written>) -> bool {
    matches!(cell, Cell::Written(written) if set.contains(written))
}

fn clauses(literal: Option<CellLiteral>) -> Vec<Clause> {
    vec![Clause(literal.into_iter().collect())]
}
