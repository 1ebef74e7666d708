//! The possible requests of one operation: the fields that its bodies have, and the combinations that can occur.
//!
//! The set may include impossible requests; it never excludes a possible one.

use super::cells::{Clause, Domain};
use super::universe::{Cell, OWN_WALLET, Universe, Variable, is_valued, issuer_of};
use crate::base::normal::AddressKind;
use crate::base::pointer::Pointer;
use crate::catalog::{Money, Operation};
use crate::policy::KnownNames;
use crate::policy::acquaintance::Acquaintance;
use crate::policy::request::{Field, Valuation};

#[derive(Debug)]
pub(super) struct Ground<'k> {
    pub operation: &'k Operation,
    pub start: Domain,
    pub axioms: Vec<Clause>,
    /// The variables that axioms constrain.
    pub bound: Vec<usize>,
}

/// Whether windows of limits are assumed to be full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Windows {
    NotFull,
    AnyFull,
}

impl Universe {
    /// Returns `None` if no request of the operation can be described.
    pub(super) fn ground<'k>(
        &self,
        operation: &'k Operation,
        valuations: &[&Valuation],
        windows: Windows,
        known: &KnownNames<'_>,
    ) -> Option<Ground<'k>> {
        let money = operation.money.clone().unwrap_or_default();
        let mut clauses = Vec::new();
        for (at, (variable, _)) in self.variables.iter().enumerate() {
            let only = |fits: &dyn Fn(&Cell) -> bool| self.only(variable, |cell| fits(cell));
            match variable {
                Variable::Name(Field::PathUser) => {
                    let is_named = operation.template.parameters().any(|name| name == "userId");
                    clauses.extend(only(&|cell| (*cell != Cell::Absent) == is_named));
                }
                Variable::Name(field) if pointer(&money, *field) == Some(None) => {
                    clauses.extend(only(&|cell| *cell == Cell::Absent));
                }
                Variable::Paid(field) => clauses.extend(self.paid(*field)),
                Variable::Among(Field::FeeWallet, _) if money.fees.wallets.is_empty() => {
                    clauses.push(Clause(vec![self.says(at, false)]));
                }
                Variable::Value => {
                    clauses.extend(only(&|cell| (*cell == Cell::Absent) != operation.has_amount()));
                }
                Variable::Price if money.price.is_none() => clauses.extend(only(&|cell| *cell == Cell::Absent)),
                Variable::Full(_) if windows == Windows::NotFull => clauses.extend(only(&|cell| *cell == Cell::No)),
                Variable::Body(pointer) => clauses.extend(self.inside(pointer, &money)),
                Variable::Name(_) | Variable::Among(..) | Variable::Price | Variable::Full(_) => {}
                Variable::BodyAmong(..) | Variable::Weekday(_) | Variable::Hour(_) | Variable::Date(_) => {}
            }
        }
        clauses.extend(self.callers(known));
        clauses.extend(self.currencies(operation, &money, valuations));
        clauses.extend(self.wallets(&money));
        clauses.extend(self.own_wallet());
        clauses.extend(self.weekdays_of_dates());
        let mut start = self.whole();
        let (fixed, axioms): (Vec<Clause>, Vec<Clause>) = clauses.into_iter().partition(|clause| clause.0.len() == 1);
        for literal in fixed.iter().flat_map(|clause| &clause.0) {
            if !start.keep(self.slot(literal.var)?, &literal.cells, true) {
                return None;
            }
        }
        let mut bound: Vec<usize> = axioms.iter().flat_map(|clause| &clause.0).map(|literal| literal.var).collect();
        bound.sort_unstable();
        bound.dedup();
        Some(Ground { operation, start, axioms, bound })
    }

    /// Returns the longest acquaintance that conditions distinguish.
    pub(super) fn longest_acquaintance(&self, field: Field) -> Acquaintance {
        let cells = self.place(&Variable::Paid(field)).map(|var| self.cells(var)).unwrap_or_default();
        let known = cells.iter().filter_map(|cell| match cell {
            Cell::Known(_, oldest) => Some(*oldest),
            _ => None,
        });
        known.max().flatten()
    }

    /// States that a named destination was paid before or not, and that one without a name was neither.
    fn paid(&self, field: Field) -> Vec<Clause> {
        let name = |absent: bool| self.literal(&Variable::Name(field), |cell| (*cell == Cell::Absent) == absent);
        let paid = |absent: bool| self.literal(&Variable::Paid(field), |cell| (*cell == Cell::Absent) == absent);
        let either = |a, b| Some(Clause(vec![a?, b?]));
        if field == Field::FeeWallet {
            let wallets = self.several.get(&field).map_or(&[][..], Vec::as_slice);
            let any = wallets.iter().map(|(wallet, _)| self.says(*wallet, true)).chain(paid(true)).collect();
            let none = wallets.iter().filter_map(|(wallet, _)| either(Some(self.says(*wallet, false)), paid(false)));
            return none.chain([Clause(any)]).collect();
        }
        [either(name(true), paid(false)), either(name(false), paid(true))].into_iter().flatten().collect()
    }

    /// States that a caller belongs to its issuer.
    fn callers(&self, known: &KnownNames<'_>) -> Vec<Clause> {
        let of = |issuer: &&str| {
            let caller = self.literal(
                &Variable::Name(Field::Caller),
                |cell| !matches!(cell, Cell::Name(name) if issuer_of(name) == *issuer),
            );
            let own =
                self.literal(&Variable::Name(Field::Issuer), |cell| matches!(cell, Cell::Name(name) if name == issuer));
            Some(Clause(vec![caller?, own?]))
        };
        known.issuers.iter().filter_map(of).collect()
    }

    /// States that a value needs assets that have one: the source's, and the destination's if the source has no amount.
    fn currencies(&self, operation: &Operation, money: &Money, valuations: &[&Valuation]) -> Vec<Clause> {
        if !operation.has_amount() {
            return Vec::new();
        }
        let valued = |field| {
            self.only(&Variable::Name(field), |cell| {
                matches!(cell, Cell::Name(name) if valuations.iter().all(|valuation| is_valued(valuation, name)))
            })
        };
        let destination = money.source.amount.is_none().then(|| valued(Field::DestinationCurrency)).flatten();
        valued(Field::SourceCurrency).into_iter().chain(destination).collect()
    }

    /// States that the chain of a wallet is known: Sluice itself denies the others.
    fn wallets(&self, money: &Money) -> Vec<Clause> {
        let on_known_chain = |field| {
            let is_known = |name: &String| AddressKind::of_chain(name).is_some();
            self.literal(&Variable::Name(field), |cell| matches!(cell, Cell::Name(name) if is_known(name)))
        };
        let side = |(wallet, chain): (Field, Field)| {
            let absent = self.literal(&Variable::Name(wallet), |cell| *cell == Cell::Absent);
            Some(Clause(vec![absent?, on_known_chain(chain)?]))
        };
        let sides = [(Field::SourceWallet, Field::SourceChain), (Field::DestinationWallet, Field::DestinationChain)];
        let mut clauses: Vec<Clause> = sides.into_iter().filter_map(side).collect();
        // The fees' chain is the source's, or a field that no condition names.
        let of_fees = money.fees.chain.is_none() || money.fees.chain == money.source.chain;
        let chain = money.fees.chain.as_ref().and_then(|_| on_known_chain(Field::SourceChain));
        for (wallet, _) in self.several.get(&Field::FeeWallet).into_iter().flatten().filter(|_| of_fees) {
            clauses.push(Clause([self.says(*wallet, false)].into_iter().chain(chain.clone()).collect()));
        }
        clauses
    }

    /// States that the destination's own wallet takes fees only if the destination is such a wallet.
    fn own_wallet(&self) -> Option<Clause> {
        let (var, _) = self.several.get(&Field::FeeWallet)?.iter().find(|(_, name)| name == OWN_WALLET)?;
        let is_own = |cell: &Cell| matches!(cell, Cell::Name(name) if self.own_wallets.contains(name));
        let destination = self.literal(&Variable::Name(Field::DestinationWallet), is_own)?;
        Some(Clause(vec![self.says(*var, false), destination]))
    }

    /// States that a value at a pointer implies values at the pointers around it.
    fn inside(&self, outer: &Pointer, money: &Money) -> Vec<Clause> {
        let is_inner = |inner: &Pointer| {
            inner.as_str().strip_prefix(outer.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let there = |is_same: bool| {
            self.literal(&Variable::Body(outer.clone()), |cell| match is_same {
                true => *cell != Cell::Absent,
                false => *cell == Cell::Thing,
            })
        };
        let mut clauses = Vec::new();
        for (at, (variable, _)) in self.variables.iter().enumerate() {
            let inner = match variable {
                Variable::Body(inner) if inner != outer => inner,
                Variable::BodyAmong(inner, _) => inner,
                Variable::Name(field) => match self::pointer(money, *field).flatten() {
                    Some(inner) => &inner.clone(),
                    None => continue,
                },
                Variable::Price => match &money.price {
                    Some(inner) => inner,
                    None => continue,
                },
                _ => continue,
            };
            if !is_inner(inner) {
                continue;
            }
            let is_absent = match variable {
                Variable::BodyAmong(..) => Some(self.says(at, false)),
                _ => self.literal(variable, |cell| *cell == Cell::Absent),
            };
            clauses.extend(is_absent.zip(there(inner == outer)).map(|(absent, there)| Clause(vec![absent, there])));
        }
        clauses
    }
}

/// Returns where an operation's bodies have a field; `None` if they never have it.
pub(super) fn pointer(money: &Money, field: Field) -> Option<Option<Pointer>> {
    let (source, destination) = (&money.source, &money.destination);
    let pointer = match field {
        Field::SourceUser => &source.party,
        Field::SourceChain => &source.chain,
        Field::SourceCurrency => &source.currency,
        Field::SourceWallet => &source.wallet,
        Field::SourceAccount => &source.account,
        Field::DestinationUser => &destination.party,
        Field::DestinationChain => &destination.chain,
        Field::DestinationCurrency => &destination.currency,
        Field::DestinationWallet => &destination.wallet,
        Field::DestinationExternal => &destination.external_wallet,
        Field::DestinationAccount => &destination.account,
        _ => return None,
    };
    Some(pointer.clone())
}
