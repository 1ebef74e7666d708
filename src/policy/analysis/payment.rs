//! An example request: written from its cells, decided by the rules, and printed as in a `[[test]]`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::ground::{Ground, pointer};
use super::search::Point;
use super::universe::{Cell, DESTINATIONS, OWN_WALLET, Universe, Variable, is_many};
use super::written::{address, amount_worth, text_of_units, value_of};
use crate::base::ids::Environment;
use crate::base::ids::OperationId;
use crate::base::pointer::Pointer;
use crate::catalog::{Catalog, ChargePointers, Money, Movement, Operation};
use crate::ledger::StoreTime;
use crate::policy::acquaintance::Acquaintance;
use crate::policy::body_facts::Stated;
use crate::policy::condition::PRICE_DECIMALS;
use crate::policy::request::{Facts, Field, PolicyRequest, Valuation, View};
use crate::policy::rules::{Rules, Verdict};

/// A payment, or another request, as an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payment {
    pub(super) operation: OperationId,
    pub(super) environment: Environment,
    pub(super) issuer: String,
    pub(super) subject: String,
    pub(super) requester: Option<String>,
    pub(super) roles: BTreeSet<String>,
    pub(super) path_parameters: Vec<(String, String)>,
    pub(super) now: StoreTime,
    /// How long the destination is known, by the field that names it; a missing field means that it is not known.
    pub(super) paid: BTreeMap<Field, Acquaintance>,
    /// The limits whose windows are full.
    pub(super) full: BTreeSet<String>,
    /// The fields of both sides, by the words of `[[test]]`.
    pub(super) sides: [Vec<(&'static str, String)>; 2],
    pub(super) price: Option<String>,
    /// Other fields of the body.
    pub(super) places: BTreeMap<String, Value>,
    pub(super) body: Value,
}

/// The fields of either side, with the word that tests use for each.
const SIDES: [[(&str, Field); 6]; 2] = [
    [
        ("user", Field::SourceUser),
        ("chain", Field::SourceChain),
        ("currency", Field::SourceCurrency),
        ("wallet", Field::SourceWallet),
        ("account", Field::SourceAccount),
        ("", Field::Environment),
    ],
    [
        ("user", Field::DestinationUser),
        ("chain", Field::DestinationChain),
        ("currency", Field::DestinationCurrency),
        ("wallet", Field::DestinationWallet),
        ("account", Field::DestinationAccount),
        ("external_wallet", Field::DestinationExternal),
    ],
];
/// The chain of fees that no condition names.
const USUAL_CHAIN: &str = "POLYGON";

impl Payment {
    /// Writes a request in these cells; `None` if none can be written.
    pub(super) fn of(
        universe: &Universe,
        ground: &Ground<'_>,
        point: &Point<'_>,
        valuation: &Valuation,
    ) -> Option<Payment> {
        PaymentDraft { universe, ground, point, valuation }.payment()
    }

    /// Decides it by the rules.
    pub fn decide(&self, rules: &Rules, catalog: &Catalog) -> Option<Verdict> {
        let operation = catalog.operation(&self.operation)?;
        let movement = operation.movement(&self.body);
        let asked = PolicyRequest {
            environment: self.environment,
            operation,
            issuer: &self.issuer,
            subject: &self.subject,
            requester: self.requester.as_deref(),
            roles: &self.roles,
            path: &operation.template.fill(&self.path_parameters),
            path_parameters: &self.path_parameters,
            body: Stated::Whole(&self.body),
            movement: movement.as_ref(),
        };
        let mut facts = Facts { now: self.now, ..Facts::default() };
        let view = View::of(&asked, &rules.valuation, &facts);
        for (field, paid) in &self.paid {
            facts.paid.extend(rules.facts_of(&view.known_as(*field), *paid));
        }
        for limit in rules.limits.iter().filter(|limit| self.full.contains(&*limit.id)) {
            let windows = limit.reservations(&view, &facts).unwrap_or_default().into_iter();
            facts.exceeded.extend(windows.map(|one| ((one.window.limit, one.window.key), one.max)));
        }
        Some(rules.decide(&asked, &facts))
    }

    /// Returns the same payment with another source amount: one of that value in micro-USD.
    pub(super) fn worth(&self, micros: u128, valuation: &Valuation, operation: &Operation) -> Option<Payment> {
        let mut payment = self.clone();
        let [source, _] = &mut payment.sides;
        let currency = source.iter().find(|(word, _)| *word == "currency").map(|(_, name)| name.clone())?;
        let now_secs = self.now.as_micros().div_euclid(1_000_000);
        let fees = operation.movement(&self.body).unwrap_or_default();
        let amount = amount_worth(valuation, &currency, (micros, micros), &fees, now_secs)?;
        source.iter_mut().find(|(word, _)| *word == "amount")?.1 = amount;
        payment.fill(operation.money.as_ref()?);
        Some(payment)
    }

    pub fn operation(&self) -> &OperationId {
        &self.operation
    }
}

struct PaymentDraft<'d> {
    universe: &'d Universe,
    ground: &'d Ground<'d>,
    point: &'d Point<'d>,
    valuation: &'d Valuation,
}

impl PaymentDraft<'_> {
    fn cell(&self, variable: &Variable) -> Option<&Cell> {
        let var = self.universe.place(variable)?;
        self.universe.cells(var).get(self.point.cells.first(self.universe.slot(var)?)?)
    }

    fn name(&self, field: Field) -> Option<String> {
        match self.cell(&Variable::Name(field))? {
            Cell::Name(name) => Some(name.clone()),
            _ => None,
        }
    }

    fn are_there(&self, field: Field) -> Vec<String> {
        let several = self.universe.several.get(&field).into_iter().flatten();
        let is_there = |(var, _): &&(usize, String)| {
            let first = self.universe.slot(*var).and_then(|slot| self.point.cells.first(slot));
            first.and_then(|cell| self.universe.cells(*var).get(cell)) == Some(&Cell::Yes)
        };
        let named = |(_, name): &(usize, String)| match name == OWN_WALLET {
            true => self.name(Field::DestinationWallet),
            false => Some(name.clone()),
        };
        several.filter(is_there).filter_map(named).collect()
    }

    fn payment(&self) -> Option<Payment> {
        let operation = self.ground.operation;
        let environment = self.name(Field::Environment)?;
        let caller = self.name(Field::Caller)?;
        let (issuer, subject) = caller.split_once(':')?;
        let user = self.name(Field::PathUser).unwrap_or_else(|| "x".to_owned());
        let value = |name: &str| if name == "userId" { user.clone() } else { "x".to_owned() };
        if let Some(Cell::Known(newest, oldest)) = self.cell(&Variable::Paid(Field::FeeWallet))
            && newest != oldest
        {
            return None;
        }
        let paid = DESTINATIONS.into_iter().filter_map(|field| match self.cell(&Variable::Paid(field))? {
            // The longest that rules distinguish is for good.
            Cell::Known(known, _) if *known == self.universe.longest_acquaintance(field) => {
                Some((field, Some(Duration::MAX)))
            }
            Cell::Known(known, _) => Some((field, *known)),
            _ => None,
        });
        let full = self.universe.variables.iter().filter_map(|(variable, _)| match variable {
            Variable::Full(limit) if self.cell(variable) == Some(&Cell::Yes) => Some(limit.clone()),
            _ => None,
        });
        let mut payment = Payment {
            operation: operation.id.clone(),
            environment: Environment::parse(&environment)?,
            issuer: issuer.to_owned(),
            subject: subject.to_owned(),
            requester: self.name(Field::Requester),
            roles: self.are_there(Field::Role).into_iter().collect(),
            path_parameters: operation.template.parameters().map(|name| (name.to_owned(), value(name))).collect(),
            now: StoreTime::default(),
            paid: paid.collect(),
            full: full.collect(),
            sides: self.sides([None, None]),
            price: self.price()?,
            places: BTreeMap::new(),
            body: json!({}),
        };
        self.body(&mut payment);
        // The fees are known now: the amounts have the value together with them.
        let movement = operation.movement(&payment.body).unwrap_or_default();
        let (now, amounts) = self.moment(&movement)?;
        payment = Payment { now, sides: self.sides(amounts), places: BTreeMap::new(), body: json!({}), ..payment };
        self.body(&mut payment);
        Some(payment)
    }

    /// Returns a time that fits, and the amounts that have the value then, together with the fees. Within a period, an
    /// amount has one value.
    fn moment(&self, fees: &Movement) -> Option<(StoreTime, [Option<String>; 2])> {
        let (from, to) = self.universe.valued;
        let mut tried = BTreeSet::new();
        self.universe.moments().iter().filter(|moment| moment.is_in(self.point.region)).find_map(|moment| {
            let secs = moment.now.div_euclid(1_000_000);
            let is_valued = (from..to).contains(&secs) && tried.insert(moment.period);
            let amounts = if is_valued { self.amounts(fees, secs) } else { None };
            Some((StoreTime::of_micros(moment.now), amounts?))
        })
    }

    fn amounts(&self, fees: &Movement, now_secs: i64) -> Option<[Option<String>; 2]> {
        let Some(Cell::Numbers(least, most)) = self.cell(&Variable::Value) else { return Some([None, None]) };
        let money = self.ground.operation.money.as_ref()?;
        let worth_of = |field, within| amount_worth(self.valuation, &self.name(field)?, within, fees, now_secs);
        let worth = |field| worth_of(field, (*least, *most));
        money.source.amount.as_ref()?;
        if let Some(amount) = worth(Field::SourceCurrency) {
            return Some([Some(amount), None]);
        }
        // If the source's asset cannot express the value exactly, the destination's may: the greater side counts.
        money.destination.amount.as_ref()?;
        let source = worth_of(Field::SourceCurrency, (1, *most));
        Some([Some(source?), Some(worth(Field::DestinationCurrency)?)])
    }

    fn sides(&self, amounts: [Option<String>; 2]) -> [Vec<(&'static str, String)>; 2] {
        let mut sides = [Vec::new(), Vec::new()];
        for ((side, fields), amount) in sides.iter_mut().zip(SIDES).zip(amounts) {
            side.extend(amount.map(|amount| ("amount", amount)));
            let chain = fields.iter().find(|(word, _)| *word == "chain").and_then(|(_, field)| self.name(*field));
            for (word, field) in fields.into_iter().filter(|(word, _)| !word.is_empty()) {
                let written = |name: String| if word == "wallet" { address(&name, chain.as_deref()) } else { name };
                side.extend(self.name(field).map(|name| (word, written(name))));
            }
        }
        sides
    }

    /// Returns `None` if the price cannot be written.
    fn price(&self) -> Option<Option<String>> {
        match self.cell(&Variable::Price)? {
            Cell::Untold => Some(Some("?".to_owned())),
            Cell::Numbers(0, most) if *most != u128::MAX => Some(Some(text_of_units(*most, PRICE_DECIMALS)?)),
            Cell::Numbers(least, most) => {
                let whole = 10_u128.pow(PRICE_DECIMALS);
                let usual = if (*least..=*most).contains(&whole) { whole } else { *least };
                Some(Some(text_of_units(usual, PRICE_DECIMALS)?))
            }
            _ => Some(None),
        }
    }

    fn body(&self, payment: &mut Payment) {
        let Some(money) = self.ground.operation.money.as_ref() else { return self.places(payment, &[]) };
        payment.fill(money);
        let wallets = self.are_there(Field::FeeWallet);
        if let (Some(chain), false) = (&money.fees.chain, wallets.is_empty())
            && chain.get(&payment.body).is_none()
        {
            payment.put_several(chain, vec![Value::from(USUAL_CHAIN)]);
        }
        let chain = money.fees.chain.as_ref().and_then(|chain| chain.get(&payment.body)?.as_str().map(str::to_owned));
        if let Some(place) = money.fees.wallets.first() {
            let wallets = wallets.iter().map(|name| Value::from(address(name, chain.as_deref()))).collect();
            payment.put_several(place, wallets);
        }
        self.places(payment, &money.fees.charges);
        payment.complete(&money.fees.charges);
    }

    fn places(&self, payment: &mut Payment, charges: &[ChargePointers]) {
        let mut places: Vec<(&Pointer, Vec<Value>)> = Vec::new();
        for (variable, _) in &self.universe.variables {
            match (variable, self.cell(variable)) {
                (Variable::Body(pointer), Some(cell)) => places.push((pointer, value_of(cell).into_iter().collect())),
                (Variable::BodyAmong(pointer, kind), Some(Cell::Yes)) => {
                    places.push((pointer, value_of(kind).into_iter().collect()));
                }
                _ => {}
            }
        }
        places.sort_by_key(|(pointer, _)| pointer.as_str());
        let mut merged: Vec<(&Pointer, Vec<Value>)> = Vec::new();
        for (pointer, values) in places {
            match merged.last_mut().filter(|(last, _)| *last == pointer) {
                Some((_, all)) => all.extend(values),
                None => merged.push((pointer, values)),
            }
        }
        for (pointer, values) in merged {
            let is_there = !pointer.all(&payment.body).is_empty();
            let is_list = charges.iter().any(|charge| charge.list().as_ref() == Some(pointer));
            let values = if is_list { vec![json!([])] } else { values };
            if !is_there || !is_list && values.iter().any(|value| !value.is_object()) {
                payment.put_several(pointer, values);
            }
        }
    }
}

impl Payment {
    /// Writes both sides and the price into the body.
    pub(super) fn fill(&mut self, money: &Money) {
        let body = &mut self.body;
        for ((side, fields), amount) in self.sides.iter().zip(SIDES).zip([&money.source, &money.destination]) {
            for (word, text) in side {
                let of_field = || fields.iter().find(|(known, _)| known == word).and_then(|(_, f)| pointer(money, *f)?);
                let place = if *word == "amount" { amount.amount.clone() } else { of_field() };
                place.iter().for_each(|place| put(body, place.as_str(), Value::from(text.as_str())));
            }
        }
        if let (Some(place), Some(price)) = (&money.price, &self.price) {
            put(body, place.as_str(), Value::from(price.as_str()));
        }
    }

    /// Writes an amount of zero into each fee that states none.
    fn complete(&mut self, charges: &[ChargePointers]) {
        for charge in charges {
            for (place, _) in charge.each.all(&self.body.clone()) {
                let Some(fee) = self.body.pointer_mut(&place) else { continue };
                for (field, value) in
                    [(&charge.value, Some("0")), (&charge.kind, charge.flat.first().map(String::as_str))]
                {
                    if let (None, Some(value)) = (field.get(fee), value) {
                        put(fee, field.as_str(), Value::from(value));
                    }
                }
            }
            if let Some((list, fees)) = charge.list().and_then(|list| Some((list.to_string(), list.get(&self.body)?))) {
                self.places.insert(list, fees.clone());
            }
        }
    }

    /// Writes values at a pointer: one, or one in each item of its list.
    pub(super) fn put_several(&mut self, place: &Pointer, values: Vec<Value>) {
        let text = place.as_str();
        if values.is_empty() {
            return;
        }
        if !is_many(place) {
            for value in values {
                put(&mut self.body, text, value.clone());
                self.places.insert(text.to_owned(), value);
            }
            return;
        }
        let (list, rest) = text.split_once("/*").unwrap_or((text, ""));
        let list_of = Pointer::parse(list);
        let mut items = match list_of.as_ref().and_then(|list| list.get(&self.body)) {
            Some(Value::Array(items)) => items.clone(),
            _ => Vec::new(),
        };
        for (at, value) in values.into_iter().enumerate() {
            let mut item = items.get(at).cloned().unwrap_or_else(|| json!({}));
            if rest.is_empty() {
                item = value
            } else {
                put_first(&mut item, rest, value)
            }
            match items.get_mut(at) {
                Some(there) => *there = item,
                None => items.push(item),
            }
        }
        put(&mut self.body, list, Value::Array(items.clone()));
        self.places.insert(list.to_owned(), Value::Array(items));
    }
}

/// Writes a value at a pointer, into the first item of each list on its way.
fn put_first(item: &mut Value, pointer: &str, value: Value) {
    let Some((list, rest)) = pointer.split_once("/*") else { return put(item, pointer, value) };
    let mut first = json!({});
    if rest.is_empty() {
        first = value
    } else {
        put_first(&mut first, rest, value)
    }
    put(item, list, Value::Array(vec![first]));
}

fn put(body: &mut Value, pointer: &str, value: Value) {
    let mut at = body;
    for step in pointer.trim_start_matches('/').split('/') {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(members) = at else { return };
        at = members.entry(step.replace("~1", "/").replace("~0", "~")).or_insert(Value::Null);
    }
    *at = value;
}
