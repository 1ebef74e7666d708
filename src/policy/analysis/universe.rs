//! The variables of a request, each cut into the cells that a collection of conditions distinguishes.
//!
//! Each value of a request lies in exactly one cell, and every condition of the collection holds for all values of a
//! cell or for none.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use jiff::civil::Weekday;
use jiff::tz::TimeZone;

use super::cells::{CellLiteral, CellSlot, Cells, Clause, Domain};
use super::gathered::Gathered;
use crate::base::ids::Environment;
use crate::base::money::{MAX_MICRO_USD, Worth};
use crate::base::pointer::Pointer;
use crate::policy::KnownNames;
use crate::policy::acquaintance::Acquaintance;
use crate::policy::condition::Condition;
use crate::policy::interval::Interval;
use crate::policy::literal::Literal as Written;
use crate::policy::request::{Field, Valuation};

/// One value of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variable {
    /// The one name in a field, or none.
    Name(Field),
    /// Whether a name of the class is among those in a field.
    Among(Field, String),
    /// Whether a destination named by this field was paid before; for the wallets that take fees, whether all were.
    Paid(Field),
    Value,
    Price,
    Body(Pointer),
    /// Whether a value of the kind is among those at a pointer.
    BodyAmong(Pointer, Cell),
    Weekday(String),
    Hour(String),
    /// The days since 1970-01-01 in a zone in which rules name dates.
    Date(String),
    /// Whether a window of the limit is full.
    Full(String),
}

/// A part of a variable's values, represented by one of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Cell {
    Absent,
    Name(String),
    Written(Written),
    /// Anything that no condition names.
    Thing,
    Numbers(u128, u128),
    /// A missing fact.
    Untold,
    No,
    Yes,
    /// How long destinations are known: the newest of them, and the oldest.
    Known(Acquaintance, Acquaintance),
    Day(Weekday),
}

/// The fields that name a destination that may have been paid before.
pub(super) const DESTINATIONS: [Field; 5] = [
    Field::DestinationUser,
    Field::DestinationWallet,
    Field::DestinationExternal,
    Field::DestinationAccount,
    Field::FeeWallet,
];

/// Among takers of fees: the destination's own wallet, where only one rule knows it.
pub(super) const OWN_WALLET: &str = "the destination's own";

#[derive(Debug)]
pub(super) struct Universe {
    pub variables: Vec<(Variable, Vec<Cell>)>,
    pub slots: Vec<CellSlot>,
    whole: Domain,
    places: HashMap<Variable, usize>,
    /// The cell of a name, in a variable that is one name.
    named: HashMap<Field, HashMap<String, usize>>,
    /// The variables of a field or pointer that may have several values, with the class of each.
    pub several: HashMap<Field, Vec<(usize, String)>>,
    pub several_in_body: HashMap<Pointer, Vec<(usize, Cell)>>,
    /// Wallets that are only known as the destination of a rule.
    pub own_wallets: HashSet<String>,
    pub zones: BTreeMap<String, TimeZone>,
    /// The seconds from which and to which the values of the currencies of all maxima hold.
    pub valued: (i64, i64),
    /// The times in microseconds from which assets have another value.
    pub valued_at: BTreeSet<i64>,
    /// A time of each combination of dates, weekdays and hours, once they are asked for.
    pub moments: OnceCell<Vec<CellMoment>>,
}

/// A time, and the cells of its dates, weekdays and hours.
#[derive(Debug)]
pub(super) struct CellMoment {
    pub now: i64,
    /// The number of the period in which the values of assets stay the same.
    pub period: usize,
    pub cells: Vec<(CellSlot, usize)>,
}

/// The names that a universe has besides those in conditions.
#[derive(Clone, Copy, Debug)]
pub(super) struct UniverseNames<'n> {
    /// The limits whose windows may be full.
    pub limits: &'n [&'n str],
    /// Names of rules that are left out, each with the name that stands for it.
    pub left_out: &'n HashMap<&'n str, &'n str>,
    /// Wallets that are only known as the destination of a rule.
    pub own_wallets: &'n HashSet<&'n str>,
    /// The seconds from which and to which the values of the currencies of all maxima hold.
    pub valued: (i64, i64),
}

impl Universe {
    /// `maxes` are what values are compared with besides.
    pub(super) fn of<'c>(
        conditions: impl Iterator<Item = &'c Condition>,
        maxes: &[u64],
        names: UniverseNames<'c>,
        valuation: &Valuation,
        known: &'c KnownNames<'_>,
    ) -> Universe {
        let own_wallets = names.own_wallets;
        let mut gathered = Gathered::without(own_wallets.clone());
        conditions.for_each(|condition| gathered.condition(condition));
        for pointer in known.catalog.operations().iter().flat_map(|operation| operation.fields_to_name()) {
            gathered.bodies.entry(pointer).or_default();
        }
        gathered.cuts.extend(maxes.iter().map(|max| u128::from(*max).saturating_add(1)));
        let mut made = Making { left_out: names.left_out.keys().copied().collect(), ..Making::default() };
        made.callers(&gathered, known);
        for field in Field::ALL.into_iter().filter(|field| field.parts() == [*field]) {
            match field {
                Field::Environment | Field::Issuer | Field::Caller => {}
                Field::Role | Field::FeeWallet => made.several(field, &gathered),
                _ => made.single(field, &gathered, valuation),
            }
        }
        for field in DESTINATIONS {
            made.add(Variable::Paid(field), acquaintances(&gathered.cooldowns, field == Field::FeeWallet));
        }
        let mut values = numbers(&gathered.cuts, 1, u128::from(MAX_MICRO_USD));
        values.push(Cell::Absent);
        made.add(Variable::Value, values);
        let mut prices = vec![Cell::Absent];
        prices.extend(numbers(&gathered.price_cuts, 0, u128::MAX));
        prices.push(Cell::Untold);
        made.add(Variable::Price, prices);
        made.bodies(&gathered);
        for name in gathered.zones.keys() {
            let days = [3, 1, 2, 4, 5, 6, 7].map(|day| Weekday::from_monday_one_offset(day).map(Cell::Day));
            made.add(Variable::Weekday(name.clone()), days.into_iter().flatten().collect());
            let hours = (12..24).chain(0..12).map(|hour| Cell::Numbers(hour, hour));
            made.add(Variable::Hour(name.clone()), hours.collect());
            if let Some(cuts) = gathered.date_cuts.get(name) {
                made.add(Variable::Date(name.clone()), numbers(cuts, 0, u128::MAX));
            }
        }
        for limit in names.limits {
            made.add(Variable::Full((*limit).to_owned()), vec![Cell::No, Cell::Yes]);
        }
        let mut universe = made.finish(gathered.zones);
        universe.valued = names.valued;
        universe.valued_at = times_of(valuation, names.valued);
        universe.own_wallets = own_wallets.iter().map(|name| (*name).to_owned()).collect();
        for cells in universe.named.values_mut() {
            let standing = |(name, stands): (&&str, &&str)| Some(((*name).to_owned(), *cells.get(*stands)?));
            let left_out: Vec<(String, usize)> = names.left_out.iter().filter_map(standing).collect();
            cells.extend(left_out);
        }
        universe
    }

    pub(super) fn whole(&self) -> Domain {
        self.whole.clone()
    }

    pub(super) fn place(&self, variable: &Variable) -> Option<usize> {
        self.places.get(variable).copied()
    }

    pub(super) fn cells(&self, var: usize) -> &[Cell] {
        self.variables.get(var).map_or(&[], |(_, cells)| cells)
    }

    pub(super) fn slot(&self, var: usize) -> Option<CellSlot> {
        self.slots.get(var).copied()
    }

    /// Returns the literal for the cells that fit; `None` if there is no such variable.
    pub(super) fn literal(&self, variable: &Variable, fits: impl Fn(&Cell) -> bool) -> Option<CellLiteral> {
        let var = self.place(variable)?;
        let cells = self.cells(var);
        Some(CellLiteral { var, cells: Cells::that(cells.len(), |at| cells.get(at).is_some_and(&fits)) })
    }

    /// Returns the literal for: the value is in an interval or, if `without`, there is none. The cells of values are in
    /// ascending order, and there may be as many as rules: they are found by halving.
    pub(super) fn valued(&self, within: Interval, without: bool) -> Option<CellLiteral> {
        let var = self.place(&Variable::Value)?;
        let cells = self.cells(var);
        let first = cells.partition_point(|cell| matches!(cell, Cell::Numbers(least, _) if *least < within.least));
        let end = cells.partition_point(|cell| matches!(cell, Cell::Numbers(_, most) if *most <= within.most));
        let absent = cells.iter().rposition(|cell| *cell == Cell::Absent).filter(|_| without);
        let span = Cells::span(cells.len(), first, end);
        Some(CellLiteral { var, cells: absent.map_or(span.clone(), |cell| span.clone().and(cell)) })
    }

    /// Returns the literal for: the name in a field is in a set.
    pub(super) fn is_named(&self, field: Field, set: &BTreeSet<String>) -> Option<CellLiteral> {
        let var = self.place(&Variable::Name(field))?;
        let mut cells = Cells::none(self.cells(var).len());
        let named = self.named.get(&field)?;
        set.iter().filter_map(|name| named.get(name)).for_each(|cell| cells.add(*cell));
        Some(CellLiteral { var, cells })
    }

    /// Returns the literal for: the value at a pointer is one of these. There may be as many values as rules.
    pub(super) fn is_written(&self, pointer: &Pointer, set: &BTreeSet<Written>) -> Option<CellLiteral> {
        let var = self.place(&Variable::Body(pointer.clone()))?;
        let cells = self.cells(var);
        // The values are in ascending order, behind `Absent` and `Thing`.
        let find = |wanted: &Written| {
            cells
                .get(2..)?
                .binary_search_by(|cell| match cell {
                    Cell::Written(written) => written.cmp(wanted),
                    _ => std::cmp::Ordering::Less,
                })
                .ok()
        };
        let mut found = Cells::none(cells.len());
        set.iter().filter_map(find).for_each(|at| found.add(at.saturating_add(2)));
        Some(CellLiteral { var, cells: found })
    }

    /// Returns the cell of each name that conditions mention.
    pub(super) fn named(&self, field: Field) -> Option<&HashMap<String, usize>> {
        self.named.get(&field)
    }

    /// Whether a taker of fees is in a set; of the destination's own wallet, whether it is in that of the rule that
    /// asks for this destination.
    pub(super) fn is_taker(&self, name: &str, set: &BTreeSet<String>) -> bool {
        let own = || set.len() == 1 && set.first().is_some_and(|name| self.own_wallets.contains(name));
        if name == OWN_WALLET { own() } else { set.contains(name) }
    }

    pub(super) fn says(&self, var: usize, yes: bool) -> CellLiteral {
        let cells = self.cells(var);
        let wanted = if yes { Cell::Yes } else { Cell::No };
        CellLiteral { var, cells: Cells::that(cells.len(), |at| cells.get(at) == Some(&wanted)) }
    }

    pub(super) fn only(&self, variable: &Variable, fits: impl Fn(&Cell) -> bool) -> Option<Clause> {
        Some(Clause(vec![self.literal(variable, fits)?]))
    }
}

#[derive(Default)]
struct Making<'n> {
    /// Names that no example may have: they belong to rules that are left out.
    left_out: HashSet<&'n str>,
    variables: Vec<(Variable, Vec<Cell>)>,
    named: HashMap<Field, HashMap<String, usize>>,
    several: HashMap<Field, Vec<(usize, String)>>,
    several_in_body: HashMap<Pointer, Vec<(usize, Cell)>>,
}

impl Making<'_> {
    fn add(&mut self, variable: Variable, cells: Vec<Cell>) -> usize {
        self.variables.push((variable, cells));
        self.variables.len().saturating_sub(1)
    }

    /// Adds a field with at most one name: none, a name in no set, or one of a class.
    fn names(&mut self, field: Field, others: Vec<Cell>, classes: Vec<Vec<&str>>) {
        let mut cells = others;
        let named = self.named.entry(field).or_default();
        for class in classes {
            named.extend(class.iter().map(|name| ((*name).to_owned(), cells.len())));
            cells.extend(class.first().map(|name| Cell::Name((*name).to_owned())));
        }
        self.add(Variable::Name(field), cells);
    }

    fn callers(&mut self, gathered: &Gathered<'_>, known: &KnownNames<'_>) {
        let environments = Environment::ALL.map(Environment::as_str);
        self.names(Field::Environment, Vec::new(), environments.iter().map(|name| vec![*name]).collect());
        self.names(Field::Issuer, Vec::new(), known.issuers.iter().map(|name| vec![*name]).collect());
        let classes = gathered.classes(Field::Caller, |name| issuer_of(name).to_owned());
        let is_free = |name: &String| self.is_free(name, &classes);
        let free = |issuer: &&str| fresh(|at| format!("{issuer}:anybody{at}"), is_free).map(Cell::Name);
        let others = known.issuers.iter().filter_map(free).collect();
        self.names(Field::Caller, others, classes);
    }

    fn single(&mut self, field: Field, gathered: &Gathered<'_>, valuation: &Valuation) {
        let is_currency = matches!(field, Field::SourceCurrency | Field::DestinationCurrency);
        let classes = gathered.classes(field, |name| is_currency && is_valued(valuation, name));
        let is_free = |name: &String| self.is_free(name, &classes);
        let mut others = vec![Cell::Absent];
        if is_currency {
            let mut assets = valuation.assets.names().filter(|name| is_valued(valuation, name)).map(str::to_owned);
            let mut usual = ["usdc", "usdt"].map(str::to_owned).into_iter();
            let usual = usual.find(|name| is_valued(valuation, name) && is_free(name));
            others.extend(usual.or_else(|| assets.find(is_free)).map(Cell::Name));
            let is_unvalued = |name: &String| is_free(name) && !is_valued(valuation, name);
            others.extend(fresh(|at| format!("unknown{at}"), is_unvalued).map(Cell::Name));
        } else {
            others.extend(other(field, is_free).map(Cell::Name));
        }
        self.names(field, others, classes);
    }

    /// Adds a field that may have any number of names.
    fn several(&mut self, field: Field, gathered: &Gathered<'_>) {
        let classes = gathered.classes(field, |_| ());
        let is_free = |name: &String| self.is_free(name, &classes);
        let other = other(field, is_free).filter(|_| field != Field::Role);
        let first = |class: &Vec<&str>| class.first().map(|name| (*name).to_owned());
        let own = (field == Field::FeeWallet && gathered.has_own_wallets()).then(|| OWN_WALLET.to_owned());
        let names: Vec<String> = classes.iter().filter_map(first).chain(other).chain(own).collect();
        for name in names {
            let var = self.add(Variable::Among(field, name.clone()), vec![Cell::No, Cell::Yes]);
            self.several.entry(field).or_default().push((var, name));
        }
    }

    fn bodies(&mut self, gathered: &Gathered<'_>) {
        for (pointer, asked) in &gathered.bodies {
            let written = asked.iter().map(|written| Cell::Written((*written).clone()));
            if !is_many(pointer) {
                let cells = [Cell::Absent, Cell::Thing].into_iter().chain(written).collect();
                self.add(Variable::Body((*pointer).clone()), cells);
                continue;
            }
            for kind in [Cell::Thing].into_iter().chain(written) {
                let variable = Variable::BodyAmong((*pointer).clone(), kind.clone());
                let var = self.add(variable, vec![Cell::No, Cell::Yes]);
                self.several_in_body.entry((*pointer).clone()).or_default().push((var, kind));
            }
        }
    }

    /// Whether no condition mentions a name.
    fn is_free(&self, name: &str, classes: &[Vec<&str>]) -> bool {
        !self.left_out.contains(name) && !classes.iter().flatten().any(|other| *other == name)
    }

    fn finish(self, zones: BTreeMap<String, TimeZone>) -> Universe {
        let Making { variables, named, several, several_in_body, left_out: _ } = self;
        let (whole, slots) = Domain::whole(variables.iter().map(|(_, cells)| cells.len()));
        let places = variables.iter().enumerate().map(|(at, (variable, _))| (variable.clone(), at)).collect();
        let (moments, own_wallets) = (OnceCell::new(), HashSet::new());
        let valued = (i64::MIN, i64::MAX);
        Universe {
            variables,
            slots,
            whole,
            places,
            named,
            several,
            several_in_body,
            own_wallets,
            zones,
            valued,
            valued_at: BTreeSet::new(),
            moments,
        }
    }
}

/// Returns the times in microseconds from which assets, and maxima in a currency, have another value.
fn times_of(valuation: &Valuation, (from, to): (i64, i64)) -> BTreeSet<i64> {
    valuation.assets.rate_times().chain([from, to]).filter_map(|secs| secs.checked_mul(1_000_000)).collect()
}

/// Returns the cells for how long destinations are known: first for good, then for less and less long, then never.
/// `are_many`: several destinations may be known differently long.
fn acquaintances(cooldowns: &BTreeSet<Duration>, are_many: bool) -> Vec<Cell> {
    let levels: BTreeSet<Acquaintance> =
        cooldowns.iter().copied().chain([Duration::ZERO]).map(Some).chain([None]).collect();
    let same = levels.iter().rev().map(|level| Cell::Known(*level, *level));
    let mut cells: Vec<Cell> = [Cell::Absent].into_iter().chain(same).chain([Cell::Untold]).collect();
    for newest in levels.iter().filter(|_| are_many) {
        let older = levels.iter().filter(|oldest| *oldest > newest);
        cells.extend(older.map(|oldest| Cell::Known(*newest, *oldest)));
    }
    cells
}

/// Whether a pointer may have several values.
pub(super) fn is_many(pointer: &Pointer) -> bool {
    pointer.as_str().split('/').any(|step| step == "*")
}

pub(super) fn is_valued(valuation: &Valuation, name: &str) -> bool {
    valuation.assets.asset(name).is_some_and(|asset| !matches!(asset.worth, Worth::Unknown))
}

pub(super) fn issuer_of(caller: &str) -> &str {
    caller.split_once(':').map_or("", |(issuer, _)| issuer)
}

/// Returns a name that is not used elsewhere.
fn fresh(name: impl Fn(&str) -> String, is_free: impl Fn(&String) -> bool) -> Option<String> {
    let numbered = (2..1_000_000).map(|at: u32| at.to_string());
    [String::new()].into_iter().chain(numbered).map(|at| name(&at)).find(is_free)
}

fn other(field: Field, is_free: impl Fn(&String) -> bool) -> Option<String> {
    match field {
        Field::SourceChain | Field::DestinationChain => {
            let chains = ["POLYGON", "ETHEREUM", "BASE", "SOLANA", "TRON"].map(str::to_owned);
            chains.into_iter().find(&is_free).or_else(|| fresh(|at| format!("OTHER{at}"), is_free))
        }
        Field::SourceWallet | Field::DestinationWallet | Field::FeeWallet => {
            fresh(|at| format!("0x{at:0>40}"), is_free)
        }
        Field::Requester | Field::Role => fresh(|at| format!("somebody{at}"), is_free),
        _ => fresh(|at| format!("00000000-0000-4000-8000-{at:0>12}"), is_free),
    }
}

/// Returns the numbers of a range, cut at the begins and after the ends of intervals.
fn numbers(cuts: &BTreeSet<u128>, least: u128, most: u128) -> Vec<Cell> {
    let mut cells = Vec::new();
    let mut from = least;
    for cut in cuts.iter().filter(|cut| **cut > least && **cut <= most) {
        cells.push(Cell::Numbers(from, cut.saturating_sub(1)));
        from = *cut;
    }
    cells.push(Cell::Numbers(from, most));
    cells
}
