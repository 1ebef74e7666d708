//! The acts that explain how a request would be decided and show the usage of limits. They change nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::render;
use super::request::{ActRequest, environment as served, store_failed, violated};
use super::state::ConsoleState;
use crate::base::ids::{Environment, OperationId};
use crate::catalog::{BodyPlace, Operation, Violation};
use crate::ledger::StoreTime;
use crate::node::explain;
use crate::node::explain::ExplainedCall;
use crate::node::exposure::{ExposedUsage, Exposure, with_promised};
use crate::node::limit_usage;
use crate::node::limit_usage::LimitUsage;
use crate::policy::{Explanation, Limit, Rate, TestRequest, key_as_json, key_in_words};
use crate::stations::reply::{Code, Reply, error_json, ok_json};
use crate::telemetry::RateCounters;

pub(super) async fn explain(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let snapshot = inside.in_force.now();
    let policies = &*snapshot.policies;
    let now = match inside.node.time().await {
        Ok(now) => now,
        Err(fault) => return store_failed(inside, &fault),
    };
    let given = match test_request(inside, &asked.body, now) {
        Ok(given) => given,
        Err(violations) => return violated(violations),
    };
    let by_store = asked.body.get("byStore").and_then(Value::as_bool).unwrap_or(false);
    let roles: Vec<&str> = asked.person.roles().collect();
    // The store's facts are those of all callers.
    if by_store && !inside.visibility.shows_all(&roles, given.environment) {
        let message = "your roles do not show all calls of this environment: explain the request without `byStore`.";
        return error_json(Code::Forbidden, message, None);
    }
    match explain::explain(&inside.node, policies, &inside.catalog(), &given, by_store).await {
        Ok(Some(ExplainedCall { verdict, near, counts, used })) => {
            let (rules, verdict) = (&policies.rules, &verdict);
            let explanation = Explanation { rules, verdict, near: &near, counts: &counts, used: &used };
            let mut body = explanation.as_json();
            if let Some(members) = body.as_object_mut() {
                members.insert("version".to_owned(), policies.version().into());
                members.insert("words".to_owned(), explanation.to_string().into());
            }
            ok_json(200, &body)
        }
        Ok(None) => violated(vec![no_such_operation()]),
        Err(fault) => store_failed(inside, &fault),
    }
}

pub(super) async fn usage(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let snapshot = inside.in_force.now();
    let policies = &*snapshot.policies;
    let (mut environments, mut limit) = (inside.environments.clone(), None);
    for (name, value) in &asked.query {
        let wrong = |expected: &str| violated(vec![Violation::new(name, "enum", expected).inside(BodyPlace::Query)]);
        match name.as_str() {
            "environment" => match served(inside, value) {
                Some(environment) => environments = vec![environment],
                None => return wrong("an environment that this gate serves"),
            },
            "limit" => match policies.rules.limits.iter().find(|limit| *limit.id == **value) {
                Some(_) => limit = Some(value.as_str()),
                None => return wrong("the id of a limit in force"),
            },
            other => return violated(vec![render::unknown_parameter(other)]),
        }
    }
    let roles: Vec<&str> = asked.person.roles().collect();
    let all = environments.len();
    environments.retain(|environment| inside.visibility.shows(&roles, *environment, None));
    if environments.is_empty() {
        return shows_none();
    }
    // Of what is hidden nobody says that it is not used.
    let is_hidden = environments.len() < all;
    let catalog = inside.catalog();
    let usage = match limit_usage::usage(&inside.node, policies, &environments, limit).await {
        Ok(usage) => with_promised(&inside.node, &catalog, policies, &environments, limit, usage).await,
        Err(fault) => Err(fault),
    };
    match usage {
        Ok(ExposedUsage { windows: usage, has_more, has_unread_windows, has_unread_calls }) => {
            let is_asked = |one: &&Limit| limit.is_none_or(|id| *one.id == *id);
            let is_unused = |one: &&Limit| {
                !has_unread_windows && !is_hidden && usage.iter().all(|(used, _)| used.limit.id != one.id)
            };
            let unused = policies.rules.limits.iter().filter(is_asked).filter(is_unused).map(unused_json);
            let unused: Vec<Value> = unused.collect();
            // The key of a window may name a caller, or whom others pay.
            let is_shown = |one: &&(LimitUsage<'_>, Exposure)| {
                !one.0.limit.names_people() || inside.visibility.shows_all(&roles, one.0.environment)
            };
            let usage: Vec<Value> = usage.iter().filter(is_shown).map(usage_json).collect();
            let rates: Vec<Value> = snapshot.rates.counted().map(rate_json).collect();
            let version = policies.version();
            let told = json!({
                "version": version,
                "usage": usage,
                "unused": unused,
                "more": has_more,
                "unreadWindows": has_unread_windows,
                "unreadCalls": has_unread_calls,
                "rates": rates,
            });
            ok_json(200, &told)
        }
        Err(fault) => store_failed(inside, &fault),
    }
}

/// The refusal to tell of environments of which a person sees no calls.
pub(super) fn shows_none() -> Reply {
    error_json(Code::Forbidden, "your roles show no calls of this environment.", None)
}

/// Returns the JSON of a rate with its counts since this gate runs.
fn rate_json((rate, counted): (&Rate, &RateCounters)) -> Value {
    let RateCounters { allowed, near, limited } = counted;
    json!({ "rate": &*rate.id, "allowed": allowed.get(), "near": near.get(), "limited": limited.get() })
}

fn usage_json((usage, promised): &(LimitUsage<'_>, Exposure)) -> Value {
    let LimitUsage { environment, limit, key, used } = usage;
    let (max, units) = (limit.max, limit.max.units());
    let mut members = window_json(limit, key, *used);
    let words = format!(
        "{}{}: {} of {} used, {} left",
        limit.id,
        key_in_words(limit, key),
        max.describe(*used),
        max.describe(units),
        max.describe(units.saturating_sub(*used))
    );
    members.insert("environment".to_owned(), environment.as_str().into());
    members.insert("inFlight".to_owned(), promised.in_flight.into());
    members.insert("pending".to_owned(), promised.pending.into());
    members.insert("words".to_owned(), words.into());
    Value::Object(members)
}

/// Returns the JSON of a limit that nothing counts in now.
fn unused_json(limit: &Limit) -> Value {
    let mut members = limit_json(limit);
    let words = format!("{}: all of {} left", limit.id, limit.max.describe(limit.max.units()));
    members.insert("words".to_owned(), words.into());
    Value::Object(members)
}

/// Returns the JSON of one window of a limit.
pub(super) fn window_json(limit: &Limit, key: &str, used: u64) -> Map<String, Value> {
    let mut members = limit_json(limit);
    members.insert("key".to_owned(), key_as_json(limit, key));
    members.insert("used".to_owned(), json!(used));
    members.insert("left".to_owned(), json!(limit.max.units().saturating_sub(used)));
    members
}

fn limit_json(limit: &Limit) -> Map<String, Value> {
    let members = [
        ("limit", json!(&*limit.id)),
        ("unit", json!(limit.max.unit())),
        ("max", json!(limit.max.units())),
        ("over", json!(limit.over.as_deref().map_or("deny", |_| "hold"))),
        ("mode", json!(limit.mode.as_str())),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Builds the request that a valid body describes.
fn test_request(inside: &ConsoleState, body: &Value, now: StoreTime) -> Result<TestRequest, Vec<Violation>> {
    let text = |name: &str| body.get(name).and_then(Value::as_str);
    let environment = text("environment").and_then(|name| served(inside, name));
    let environment: Environment = environment.ok_or_else(|| vec![render::not_served()])?;
    let catalog = inside.catalog();
    let operation = text("operation").map(OperationId::new).and_then(|id| catalog.operation(&id));
    let operation = operation.ok_or_else(|| vec![no_such_operation()])?;
    let of_caller = |name: &str| body.get("caller").and_then(|caller| caller.get(name));
    let issuer = of_caller("issuer").and_then(Value::as_str).unwrap_or_default();
    if !inside.issuers.iter().any(|known| known == issuer) {
        return Err(vec![Violation::new("/caller/issuer", "enum", "the name of a configured issuer")]);
    }
    let roles = of_caller("roles").and_then(Value::as_array).into_iter().flatten();
    let moment = match text("time") {
        None => now,
        Some(time) => match time.parse::<Timestamp>() {
            Ok(time) => StoreTime::of_micros(time.as_microsecond()),
            Err(_) => return Err(vec![Violation::new("/time", "format", "a time with its time zone")]),
        },
    };
    let sent = body.get("body").cloned().unwrap_or_else(|| json!({}));
    let violations = body_violations(operation, &sent);
    if !violations.is_empty() {
        return Err(violations);
    }
    Ok(TestRequest {
        operation: operation.id.clone(),
        environment,
        issuer: issuer.to_owned(),
        subject: of_caller("subject").and_then(Value::as_str).unwrap_or_default().to_owned(),
        requester: of_caller("requester").and_then(Value::as_str).map(str::to_owned),
        roles: roles.filter_map(Value::as_str).map(str::to_owned).collect::<BTreeSet<_>>(),
        path_parameters: path_parameters(operation, body),
        body: sent,
        now: moment,
        known: body.get("paidBefore").and_then(Value::as_bool).unwrap_or(true).then_some(Duration::MAX),
        exceeded: BTreeSet::new(),
    })
}

/// Returns the violations for which a gate refuses the request before it applies any rule.
fn body_violations(operation: &Operation, sent: &Value) -> Vec<Violation> {
    let violations = operation.body.as_ref().map(|contract| contract.violations(sent)).unwrap_or_default();
    let inside = |violation: Violation| Violation { pointer: format!("/body{}", violation.pointer), ..violation };
    violations.into_iter().map(inside).collect()
}

/// Returns the parameters of the operation's path; one that the body does not give is `x`.
fn path_parameters(operation: &Operation, body: &Value) -> Vec<(String, String)> {
    let given = |name: &str| body.get("path").and_then(|path| path.get(name)).and_then(Value::as_str);
    operation.template.parameters().map(|name| (name.to_owned(), given(name).unwrap_or("x").to_owned())).collect()
}

fn no_such_operation() -> Violation {
    Violation::new("/operation", "enum", "the id of an operation, as listed by `sluice operations`")
}
