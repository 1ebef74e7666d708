//! `[[test]]`: a request in a few words, and what must become of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::Known;
use super::asked::{Asked, Facts, View};
use super::condition::Condition;
use super::document::{Place, Raw, Table};
use super::kept::Stated;
use super::rate;
use super::rule::{EFFECTS, Effect, Rule};
use super::rules::{Rules, Verdict};
use crate::base::finding::Finding;
use crate::base::ids::{Environment, OperationId};
use crate::base::pointer::Pointer;
use crate::base::spanned::Found;
use crate::catalog::{Catalog, Operation, Side};
use crate::commit::StoreTime;

/// A Wednesday, noon in UTC: a test that does not speak of time should not depend on when it is run.
pub(super) const USUAL_TIME: i64 = 1_767_787_200_000_000;

/// A test, as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    pub file: String,
    /// The line and the column that it stands in.
    pub place: (usize, usize),
    pub expect: Effect,
    /// The rules and limits that must have made it; none: any.
    pub by: BTreeSet<String>,
    /// How many people it must take, at the least, to release what is held.
    pub people: Option<u64>,
    given: Given,
}

/// A request that nobody made.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    pub operation: OperationId,
    pub environment: Environment,
    pub issuer: String,
    pub subject: String,
    pub requester: Option<String>,
    pub roles: BTreeSet<String>,
    pub body: Value,
    pub path_parameters: Vec<(String, String)>,
    pub now: StoreTime,
    /// Whether the destination was paid before.
    pub is_paid: bool,
    /// Limits whose windows are full.
    pub exceeded: BTreeSet<String>,
}

/// How a test ended.
#[derive(Clone, Debug)]
pub struct Tried<'t> {
    pub trial: &'t Trial,
    pub verdict: Verdict,
    pub near: Vec<NearMiss>,
    pub is_passed: bool,
}

/// A rule that one condition alone kept from being about the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    pub rule: Arc<str>,
    pub effect: Effect,
    /// What it asks and the request is not.
    pub missing: String,
}

impl Trial {
    /// Puts the request to the rules.
    pub fn run<'t>(&'t self, rules: &Rules, catalog: &Catalog) -> Option<Tried<'t>> {
        let (verdict, near) = self.given.ask(rules, catalog)?;
        let causes: BTreeSet<&str> = verdict.reasons.iter().filter_map(|reason| reason.cause.name()).collect();
        let needs = verdict.approvals.iter().filter_map(|name| rules.approvals.get(name));
        let people = needs.map(|approval| approval.need.fewest()).max().unwrap_or(0);
        let is_passed = verdict.effect == self.expect
            && self.by.iter().all(|id| causes.contains(id.as_str()))
            && self.people.is_none_or(|expected| expected == people);
        Some(Tried { trial: self, verdict, near, is_passed })
    }

    /// Looks at its request as policies do.
    pub(super) fn look<T>(
        &self,
        rules: &Rules,
        catalog: &Catalog,
        look: impl FnOnce(&View<'_>, &Facts) -> T,
    ) -> Option<T> {
        let paid = self.given.destinations(rules, catalog)?.into_iter().map(|name| (name, self.given.is_paid));
        let facts = Facts { now: self.given.now, paid: paid.collect(), ..Facts::default() };
        self.given.seen(catalog, |asked| look(&View::of(asked, &rules.valuation, &facts), &facts))
    }

    /// Whether windows of a limit are full.
    pub(super) fn fills(&self, limit: &str) -> bool {
        self.given.exceeded.contains(limit)
    }
}

impl Tried<'_> {
    /// What is wrong, if it failed.
    pub(super) fn failure(&self) -> Option<Finding> {
        let Trial { file, place: (line, column), expect, by, .. } = self.trial;
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
        let reasons: Vec<String> =
            self.verdict.reasons.iter().map(|reason| format!("{}: {}", reason.cause, reason.text)).collect();
        let (expected, found) = (expect.as_str(), self.verdict.effect.as_str());
        let text = format!("`{expected}` is expected{by}, and it is `{found}` ({})", reasons.join("; "));
        let finding = Finding::error(file, text).at(format!("{line}:{column}"));
        (!self.is_passed).then(|| finding.remedy("mend the rules, or the test"))
    }
}

impl Given {
    fn ask(&self, rules: &Rules, catalog: &Catalog) -> Option<(Verdict, Vec<NearMiss>)> {
        let paid = self.destinations(rules, catalog)?.into_iter().map(|name| (name, self.is_paid));
        let mut facts = Facts { now: self.now, paid: paid.collect(), ..Facts::default() };
        let (verdict, near) = self.decide(rules, catalog, &facts)?;
        let windows = verdict.reservations.iter().map(|reservation| &reservation.window);
        let full = windows.filter(|window| self.exceeded.contains(&window.limit));
        facts.exceeded = full.map(|window| (window.limit.clone(), window.key.clone())).collect();
        if facts.exceeded.is_empty() { Some((verdict, near)) } else { self.decide(rules, catalog, &facts) }
    }

    /// Each way in which its destination is named.
    pub fn destinations(&self, rules: &Rules, catalog: &Catalog) -> Option<Vec<String>> {
        let facts = Facts { now: self.now, ..Facts::default() };
        self.seen(catalog, |asked| View::of(asked, &rules.valuation, &facts).destinations())
    }

    /// What becomes of it, and which rules were nearly about it.
    pub fn decide(&self, rules: &Rules, catalog: &Catalog, facts: &Facts) -> Option<(Verdict, Vec<NearMiss>)> {
        let missed = |(rule, condition): (&Rule, &Condition)| NearMiss {
            rule: rule.id.clone(),
            effect: rule.effect,
            missing: condition.to_string(),
        };
        self.seen(catalog, |asked| {
            (rules.decide(asked, facts), rules.near(asked, facts).into_iter().map(missed).collect())
        })
    }

    /// As policies look at it; nothing if there is no such operation.
    fn seen<T>(&self, catalog: &Catalog, look: impl FnOnce(&Asked<'_>) -> T) -> Option<T> {
        let operation = catalog.operation(&self.operation)?;
        let movement = operation.movement(&self.body);
        Some(look(&Asked {
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
        }))
    }
}

/// Reads one; what is wrong goes to the findings.
pub(super) fn read(
    file: &str,
    mut table: Table<'_>,
    known: &Known<'_>,
    ids: &BTreeSet<String>,
    findings: &mut Vec<Finding>,
) -> Option<Trial> {
    let place = table.place;
    let remedy = "write `expect = \"allow\"`, `\"hold\"` or `\"deny\"`";
    let expect = table.required("expect", remedy, |table, name| table.choice(name, &EFFECTS));
    let by = ids_of(&mut table, "by", ids);
    let people = table.number("people", 1..=1_000);
    let remedy = "write for example `given = { op = \"createSwap\", amount = \"5 usdc\" }`";
    let given = table.required("given", remedy, Table::nested).and_then(|mut nested| {
        let given = given(&mut nested, known, ids);
        table.include(nested);
        given
    });
    let is_good = table.end(findings);
    let read = Trial { file: file.to_owned(), place, expect: expect?, by, people, given: given? };
    is_good.then_some(read)
}

fn ids_of(table: &mut Table<'_>, name: &'static str, ids: &BTreeSet<String>) -> BTreeSet<String> {
    let texts = table.one_or_more(name).unwrap_or_default();
    for (place, text) in &texts {
        if !ids.contains(text) {
            table.unknown_name(*place, "a rule or limit", text, ids.iter().map(String::as_str));
        }
    }
    texts.into_iter().map(|(_, text)| text).collect()
}

fn given(table: &mut Table<'_>, known: &Known<'_>, ids: &BTreeSet<String>) -> Option<Given> {
    let (place, name) = table.required("op", "write the id of an operation", Table::text)?;
    let operations = known.catalog.operations();
    let Some(operation) = operations.iter().find(|operation| operation.id.as_str() == name) else {
        table.unknown_name(place, "an operation", &name, operations.iter().map(|operation| operation.id.as_str()));
        return None;
    };
    let environments = Environment::ALL.map(|environment| (environment.as_str(), environment));
    let environment = table.choice("environment", &environments).unwrap_or(Environment::Production);
    let caller = table.text("caller");
    if let Some((place, caller)) = &caller {
        rate::callers(table, vec![(*place, caller.clone())], known);
    }
    let first = known.issuers.first().copied().unwrap_or("main");
    let caller = caller.map_or_else(|| format!("{first}:anybody"), |(_, caller)| caller);
    let (issuer, subject) = caller.split_once(':').unwrap_or((first, &caller));
    let requester = table.text("requester").map(|(_, requester)| requester);
    let roles = table.one_or_more("role").unwrap_or_default().into_iter().map(|(_, role)| role).collect();
    let now = table.text("time").and_then(|(place, text)| time(table, place, &text));
    let is_paid = table.truth("paid_before").unwrap_or(true);
    let exceeded = ids_of(table, "full", ids);
    let path_parameters = operation.template.parameters().map(|name| (name.to_owned(), "x".to_owned())).collect();
    let mut given = Given {
        operation: operation.id.clone(),
        environment,
        issuer: issuer.to_owned(),
        subject: subject.to_owned(),
        requester,
        roles,
        body: json!({}),
        path_parameters,
        now: now.unwrap_or(StoreTime::of_micros(USUAL_TIME)),
        is_paid,
        exceeded,
    };
    path(table, &mut given);
    body(table, operation, &mut given.body);
    Some(given)
}

fn time(table: &mut Table<'_>, place: Place, text: &str) -> Option<StoreTime> {
    let time = text.parse::<Timestamp>().ok().map(|time| StoreTime::of_micros(time.as_microsecond()));
    if time.is_none() {
        let fault = format!("`time` cannot be `{}`", text.escape_debug());
        table.fault(place, fault, "write a time with its zone: `2026-11-20T09:00:00Z`");
    }
    time
}

fn path(table: &mut Table<'_>, given: &mut Given) {
    let Some(mut path) = table.nested("path") else { return };
    for (name, found) in path.rest() {
        let place = found.place;
        let known = given.path_parameters.iter_mut().find(|(parameter, _)| *parameter == name);
        match (known, found.raw) {
            (Some((_, value)), Raw::Text(text)) => *value = text,
            (Some(_), _) => path.fault(place, format!("`{name}` is no text"), "write a text"),
            (None, _) => path.fault(place, format!("the path has no `{name}`"), "take it out"),
        }
    }
    table.include(path);
}

/// The body: `amount`, `price`, sides in words, and whatever stands in `body` by its pointer.
fn body(table: &mut Table<'_>, operation: &Operation, body: &mut Value) {
    let money = operation.money.clone().unwrap_or_default();
    let mut puts: Vec<(Place, &'static str, Option<Pointer>, Value)> = Vec::new();
    if let Some((place, text)) = table.text("amount") {
        amount(table, "amount", place, &text, &money.source, &mut puts);
    }
    for (name, side) in [("source", &money.source), ("destination", &money.destination)] {
        let Some(mut nested) = table.nested(name) else { continue };
        if let Some((place, text)) = nested.text("amount") {
            amount(&mut nested, "amount", place, &text, side, &mut puts);
        }
        let fields = [
            ("user", &side.party),
            ("chain", &side.chain),
            ("currency", &side.currency),
            ("wallet", &side.wallet),
            ("external_wallet", &side.external_wallet),
            ("account", &side.account),
        ];
        for (field, pointer) in fields {
            let text = nested.text(field);
            puts.extend(text.map(|(place, text)| (place, field, pointer.clone(), Value::String(text))));
        }
        table.include(nested);
    }
    let price = table.text("price");
    puts.extend(price.map(|(place, text)| (place, "price", money.price.clone(), Value::String(text))));
    for (place, field, pointer, value) in puts {
        match pointer {
            Some(pointer) => put(body, pointer.as_str(), value),
            None => table.fault(place, format!("`{}` has no `{field}` there", operation.id), "take it out"),
        }
    }
    let Some(mut places) = table.nested("body") else { return };
    for (pointer, found) in places.rest() {
        match (pointer.strip_prefix('/'), value_of(&found)) {
            (Some(_), Some(value)) => put(body, &pointer, value),
            _ => places.fault(
                found.place,
                format!("`{}` cannot be put into the body", pointer.escape_debug()),
                "write a JSON pointer and a value: `\"/developerFee\" = { fees = [] }`",
            ),
        }
    }
    table.include(places);
}

/// `5000.000001 usdc`, or an amount alone.
fn amount(
    table: &mut Table<'_>,
    field: &'static str,
    place: Place,
    text: &str,
    side: &Side,
    puts: &mut Vec<(Place, &'static str, Option<Pointer>, Value)>,
) {
    let mut words = text.split(' ');
    let (amount, currency) = (words.next().unwrap_or(""), words.next());
    if words.next().is_some() {
        table.fault(place, format!("`{field}` is more than an amount and a currency"), "write for example `5 usdc`");
    }
    puts.push((place, field, side.amount.clone(), Value::from(amount)));
    puts.extend(currency.map(|currency| (place, field, side.currency.clone(), Value::from(currency))));
}

fn put(body: &mut Value, pointer: &str, value: Value) {
    let steps: Vec<&str> = pointer.trim_start_matches('/').split('/').collect();
    let mut at = body;
    for step in steps {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Value::Object(members) = at else { return };
        at = members.entry(step.replace("~1", "/").replace("~0", "~")).or_insert(Value::Null);
    }
    *at = value;
}

fn value_of(found: &Found<Place>) -> Option<Value> {
    Some(match &found.raw {
        Raw::Text(text) => Value::from(text.as_str()),
        Raw::Number(number) => Value::from((*number)?),
        Raw::Truth(truth) => Value::from(*truth),
        Raw::List(items) => Value::Array(items.iter().map(value_of).collect::<Option<_>>()?),
        Raw::Table(members) => {
            let member = |(name, found): (&String, &Found<Place>)| Some((name.clone(), value_of(found)?));
            Value::Object(members.iter().map(member).collect::<Option<BTreeMap<_, _>>>()?.into_iter().collect())
        }
        Raw::Other(_) => return None,
    })
}
