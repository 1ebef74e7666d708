//! `[[test]]`: a request in a few words, and its expected effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::acquaintance::Acquaintance;
use super::body_facts::Stated;
use super::condition::Condition;
use super::document::{DocumentTable, PolicyPlace, RawItem};
use super::rate;
use super::request::{Facts, PolicyRequest, View};
use super::rule::{Effect, Rule};
use super::rules::{Rules, Verdict};
use super::{KnownNames, durations};
use crate::base::finding::Finding;
use crate::base::ids::{Environment, OperationId};
use crate::base::pointer::Pointer;
use crate::base::spanned::SpannedValue;
use crate::catalog::{Catalog, Operation, Side};
use crate::ledger::StoreTime;

/// A Wednesday, noon in UTC: a test without a time must not depend on when it is run.
pub(super) const USUAL_TIME: i64 = 1_767_787_200_000_000;

/// A test, as written.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    pub file: String,
    /// The line and the column of the table.
    pub place: (usize, usize),
    pub expect: Effect,
    /// The rules and limits that must be its reasons; empty: any.
    pub by: BTreeSet<String>,
    /// The fewest people who must approve before it is released.
    pub people: Option<u64>,
    /// Whether the request names its time.
    has_time: bool,
    given: TestRequest,
}

/// The request of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct TestRequest {
    pub operation: OperationId,
    pub environment: Environment,
    pub issuer: String,
    pub subject: String,
    pub requester: Option<String>,
    pub roles: BTreeSet<String>,
    pub body: Value,
    pub path_parameters: Vec<(String, String)>,
    pub now: StoreTime,
    /// How long the destination is known.
    pub known: Acquaintance,
    /// The limits whose windows are full.
    pub exceeded: BTreeSet<String>,
}

/// The result of a test.
#[derive(Clone, Debug)]
pub struct Tried<'t> {
    pub trial: &'t Trial,
    pub verdict: Verdict,
    pub near: Vec<NearMiss>,
    pub is_passed: bool,
}

/// A rule that failed to match by one condition only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    pub rule: Arc<str>,
    pub effect: Effect,
    /// The condition that the request does not meet.
    pub missing: String,
}

impl Trial {
    /// Returns the request at this time, unless it names its own.
    pub fn at_unless_timed(&self, now: StoreTime) -> Trial {
        let time = if self.has_time { self.given.now } else { now };
        Trial { given: TestRequest { now: time, ..self.given.clone() }, ..self.clone() }
    }

    /// Decides the request by the rules.
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

    /// Evaluates the request's view.
    pub(super) fn evaluate<T>(
        &self,
        rules: &Rules,
        catalog: &Catalog,
        look: impl FnOnce(&View<'_>, &Facts) -> T,
    ) -> Option<T> {
        let paid = rules.facts_of(&self.given.destinations(rules, catalog)?, self.given.known);
        let facts = Facts { now: self.given.now, paid, ..Facts::default() };
        self.given.with_request(catalog, |asked| look(&View::of(asked, &rules.valuation, &facts), &facts))
    }

    /// Whether windows of a limit are full.
    pub(super) fn fills(&self, limit: &str) -> bool {
        self.given.exceeded.contains(limit)
    }
}

impl Tried<'_> {
    /// Returns the failure, if the test failed.
    pub(super) fn failure(&self) -> Option<Finding> {
        let Trial { file, place: (line, column), expect, by, .. } = self.trial;
        let by: Vec<&str> = by.iter().map(String::as_str).collect();
        let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
        let reasons: Vec<String> =
            self.verdict.reasons.iter().map(|reason| format!("{}: {}", reason.cause, reason.text)).collect();
        let (expected, found) = (expect.as_str(), self.verdict.effect.as_str());
        let text = format!("`{expected}` is expected{by}, and it is `{found}` ({})", reasons.join("; "));
        let finding = Finding::error(file, text).at(format!("{line}:{column}"));
        (!self.is_passed).then(|| finding.remedy("correct the rules, or the test"))
    }
}

impl TestRequest {
    fn ask(&self, rules: &Rules, catalog: &Catalog) -> Option<(Verdict, Vec<NearMiss>)> {
        let paid = rules.facts_of(&self.destinations(rules, catalog)?, self.known);
        let mut facts = Facts { now: self.now, paid, ..Facts::default() };
        let (verdict, near) = self.decide(rules, catalog, &facts)?;
        let full = verdict.reservations.iter().filter(|one| self.exceeded.contains(&one.window.limit));
        facts.exceeded = full.map(|one| ((one.window.limit.clone(), one.window.key.clone()), one.max)).collect();
        if facts.exceeded.is_empty() { Some((verdict, near)) } else { self.decide(rules, catalog, &facts) }
    }

    /// Returns each name of its destination.
    pub fn destinations(&self, rules: &Rules, catalog: &Catalog) -> Option<Vec<String>> {
        let facts = Facts { now: self.now, ..Facts::default() };
        self.with_request(catalog, |asked| View::of(asked, &rules.valuation, &facts).acquaintances())
    }

    /// Decides the request; also returns the rules that nearly matched.
    pub fn decide(&self, rules: &Rules, catalog: &Catalog, facts: &Facts) -> Option<(Verdict, Vec<NearMiss>)> {
        let missed = |(rule, condition): (&Rule, &Condition)| NearMiss {
            rule: rule.id.clone(),
            effect: rule.effect,
            missing: condition.to_string(),
        };
        self.with_request(catalog, |asked| {
            (rules.decide(asked, facts), rules.near(asked, facts).into_iter().map(missed).collect())
        })
    }

    /// Builds the request for policies; `None` if there is no such operation.
    fn with_request<T>(&self, catalog: &Catalog, look: impl FnOnce(&PolicyRequest<'_>) -> T) -> Option<T> {
        let operation = catalog.operation(&self.operation)?;
        let movement = operation.movement(&self.body);
        Some(look(&PolicyRequest {
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

/// Reads a test; errors go to the findings.
pub(super) fn read_test(
    file: &str,
    mut table: DocumentTable<'_>,
    known: &KnownNames<'_>,
    ids: &BTreeSet<String>,
    findings: &mut Vec<Finding>,
) -> Option<Trial> {
    let place = table.place;
    let expect = table.required("expect", |table, name| table.choice(name, &Effect::WORDS));
    let by = ids_of(&mut table, "by", ids);
    let people = table.number("people");
    let mut has_time = false;
    let given = table.required("given", DocumentTable::nested).and_then(|mut nested| {
        let given = read_given(&mut nested, known, ids);
        table.include(nested);
        let (given, is_timed) = given?;
        has_time = is_timed;
        Some(given)
    });
    let is_good = table.end(findings);
    let read = Trial { file: file.to_owned(), place, expect: expect?, by, people, has_time, given: given? };
    is_good.then_some(read)
}

fn ids_of(table: &mut DocumentTable<'_>, name: &'static str, ids: &BTreeSet<String>) -> BTreeSet<String> {
    let texts = table.one_or_more(name).unwrap_or_default();
    for (place, text) in &texts {
        if !ids.contains(text) {
            table.unknown_name(*place, "a rule or limit", text, ids.iter().map(String::as_str));
        }
    }
    texts.into_iter().map(|(_, text)| text).collect()
}

/// Reads the request, and whether it names its time.
fn read_given(
    table: &mut DocumentTable<'_>,
    known: &KnownNames<'_>,
    ids: &BTreeSet<String>,
) -> Option<(TestRequest, bool)> {
    let Some((place, name)) = table.required("op", DocumentTable::text) else {
        table.forget_known();
        return None;
    };
    let operations = known.catalog.operations();
    let Some(operation) = operations.iter().find(|operation| operation.id.as_str() == name) else {
        table.forget_known();
        table.unknown_name(place, "an operation", &name, operations.iter().map(|operation| operation.id.as_str()));
        return None;
    };
    let environment = table.choice("environment", &Environment::WORDS).unwrap_or(Environment::Production);
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
    let acquaintance = acquaintance(table);
    let exceeded = ids_of(table, "full", ids);
    let path_parameters = operation.template.parameters().map(|name| (name.to_owned(), "x".to_owned())).collect();
    let mut given = TestRequest {
        operation: operation.id.clone(),
        environment,
        issuer: issuer.to_owned(),
        subject: subject.to_owned(),
        requester,
        roles,
        body: json!({}),
        path_parameters,
        now: now.unwrap_or(StoreTime::of_micros(USUAL_TIME)),
        known: acquaintance,
        exceeded,
    };
    path(table, &mut given);
    body(table, operation, &mut given.body);
    Some((given, now.is_some()))
}

/// Reads how long the destination is known: for good, unless the test says otherwise.
fn acquaintance(table: &mut DocumentTable<'_>) -> Acquaintance {
    let (place, is_paid) = (table.place, table.truth("paid_before"));
    let first = table.text("first_paid");
    if first.is_some() && is_paid == Some(false) {
        table.fault(place, "`first_paid` contradicts `paid_before = false`", "remove one of them");
    }
    let Some((place, text)) = first else { return is_paid.unwrap_or(true).then_some(Duration::MAX) };
    let is_now = matches!(text.as_str(), "0m" | "0h" | "0d");
    let ago = if is_now { Some(Duration::ZERO) } else { durations::span(&text) };
    if ago.is_none() {
        let fault = format!("`first_paid` cannot be `{}`", text.escape_debug());
        table.fault(place, fault, "write a number of `m`, `h` or `d`, as `23h`; at most 366 days");
    }
    ago
}

fn time(table: &mut DocumentTable<'_>, place: PolicyPlace, text: &str) -> Option<StoreTime> {
    let time = text.parse::<Timestamp>().ok().map(|time| StoreTime::of_micros(time.as_microsecond()));
    if time.is_none() {
        let fault = format!("`time` cannot be `{}`", text.escape_debug());
        table.fault(place, fault, "write a time with its zone: `2026-11-20T09:00:00Z`");
    }
    time
}

fn path(table: &mut DocumentTable<'_>, given: &mut TestRequest) {
    let Some(mut path) = table.nested("path") else { return };
    for (name, found) in path.rest() {
        let place = found.place;
        let known = given.path_parameters.iter_mut().find(|(parameter, _)| *parameter == name);
        match (known, found.raw) {
            (Some((_, value)), RawItem::Text(text)) => *value = text,
            (Some(_), _) => path.fault(place, format!("`{name}` is not a text"), "write a text"),
            (None, _) => path.fault(place, format!("the path has no `{name}`"), "remove it"),
        }
    }
    table.include(path);
}

/// Reads the body: `amount`, `price`, sides in words, and the values in `body` by their pointers.
fn body(table: &mut DocumentTable<'_>, operation: &Operation, body: &mut Value) {
    let money = operation.money.clone().unwrap_or_default();
    let mut puts: Vec<(PolicyPlace, &'static str, Option<Pointer>, Value)> = Vec::new();
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
            None => table.fault(place, format!("`{}` has no `{field}` there", operation.id), "remove it"),
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
    table: &mut DocumentTable<'_>,
    field: &'static str,
    place: PolicyPlace,
    text: &str,
    side: &Side,
    puts: &mut Vec<(PolicyPlace, &'static str, Option<Pointer>, Value)>,
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

fn value_of(found: &SpannedValue<PolicyPlace>) -> Option<Value> {
    Some(match &found.raw {
        RawItem::Text(text) => Value::from(text.as_str()),
        RawItem::Number(number) => Value::from((*number)?),
        RawItem::Truth(truth) => Value::from(*truth),
        RawItem::List(items) => Value::Array(items.iter().map(value_of).collect::<Option<_>>()?),
        RawItem::Table(members) => {
            let member = |(name, found): (&String, &SpannedValue<PolicyPlace>)| Some((name.clone(), value_of(found)?));
            Value::Object(members.iter().map(member).collect::<Option<BTreeMap<_, _>>>()?.into_iter().collect())
        }
        RawItem::Other(_) => return None,
    })
}
