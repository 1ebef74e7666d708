//! The acts on stand-ins: list, name and revoke people who vote in a member's place.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::person::Role;
use super::render;
use super::request::{ActRequest, environment as served, store_failed, violated};
use super::state::ConsoleState;
use crate::base::ids::Environment;
use crate::catalog::Violation;
use crate::ledger::{StoreFault, StoreTime};
use crate::node::stand_ins;
use crate::node::stand_ins::{StandInActError, StandInPeriod};
use crate::stations::hold::{StandIn, StandInError};
use crate::stations::reply::{Code, Reply, error_json, ok_json};

pub(super) async fn list(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    if let Some((name, _)) = asked.query.first() {
        return violated(vec![render::unknown_parameter(name)]);
    }
    match all(inside).await {
        Ok(all) => ok_json(200, &json!({ "standIns": all })),
        Err(fault) => store_failed(inside, &fault),
    }
}

async fn all(inside: &ConsoleState) -> Result<Vec<Value>, StoreFault> {
    let mut all = Vec::new();
    for environment in &inside.environments {
        let (standing, now) = inside.node.stand_ins(*environment).await?;
        all.extend(standing.standing(now).into_iter().map(|one| stand_in_json(*environment, one)));
    }
    Ok(all)
}

/// Names a stand-in for the person who sends the request: only the member can give away their seat.
pub(super) async fn name(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let text = |name: &str| asked.body.get(name).and_then(Value::as_str);
    let Some(environment) = text("environment").and_then(|name| served(inside, name)) else {
        return violated(vec![render::not_served()]);
    };
    let period = match (moment(&asked.body, "from"), moment(&asked.body, "until")) {
        (Ok(from), Ok(Some(until))) => StandInPeriod { from, until },
        (Err(violation), _) | (_, Err(violation)) => return violated(vec![violation]),
        (_, Ok(None)) => return violated(vec![Violation::new("/until", "required", "a time with its time zone")]),
    };
    let (member, policies) = (&asked.person.who, &inside.in_force.now().policies);
    let person = member.beside(text("person").unwrap_or_default());
    let reason = text("reason").unwrap_or_default();
    let pair = (member, &person);
    match stand_ins::name(&inside.node, policies, environment, pair, period, reason).await {
        Ok(named) => ok_json(201, &json!({ "standIn": stand_in_json(environment, &named) })),
        Err(StandInActError::Store(fault)) => store_failed(inside, &fault),
        Err(StandInActError::NoMember) => {
            let message = "you are not a member of any group, so that you have no seat that a stand-in could fill. Nothing was changed.";
            error_json(Code::Forbidden, message, None)
        }
        Err(StandInActError::Invalid(why)) => violated(vec![stand_in_violation(why)]),
    }
}

fn stand_in_violation(why: StandInError) -> Violation {
    let (place, keyword, expected) = match why {
        StandInError::Oneself => ("/person", "not", "a person other than you"),
        StandInError::Over => ("/until", "minimum", "a time in the future and after `from`"),
        StandInError::TooLong => ("/until", "maximum", "at most 31 days, beginning within 31 days"),
        StandInError::TooMany => ("/person", "maxItems", "fewer stand-ins at one time: revoke some first"),
    };
    Violation::new(place, keyword, expected)
}

/// Revokes a stand-in, for the member, the stand-in, an operator or a policy administrator.
pub(super) async fn revoke(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let text = |name: &str| asked.body.get(name).and_then(Value::as_str);
    let Some(environment) = text("environment").and_then(|name| served(inside, name)) else {
        return violated(vec![render::not_served()]);
    };
    let who = &asked.person.who;
    let member = text("for").map_or_else(|| who.clone(), |subject| who.beside(subject));
    let person = who.beside(text("person").unwrap_or_default());
    let is_theirs = *who == member || *who == person;
    if !is_theirs && !asked.person.has(Role::Operator) && !asked.person.has(Role::PolicyAdmin) {
        let message = "only the member, the stand-in, an `operator` or a `policy-admin` can revoke a stand-in.";
        return error_json(Code::Forbidden, message, None);
    }
    let why = (who, text("reason").unwrap_or_default());
    match stand_ins::revoke(&inside.node, environment, (&member, &person), why).await {
        Ok(changed) => ok_json(200, &json!({ "changed": changed })),
        Err(fault) => store_failed(inside, &fault),
    }
}

fn moment(body: &Value, name: &str) -> Result<Option<StoreTime>, Violation> {
    let Some(text) = body.get(name).and_then(Value::as_str) else { return Ok(None) };
    let time = text.parse::<Timestamp>();
    let time = time.map_err(|_| Violation::new(format!("/{name}"), "format", "a time with its time zone"))?;
    Ok(Some(StoreTime::of_micros(time.as_microsecond())))
}

fn stand_in_json(environment: Environment, one: &StandIn) -> Value {
    json!({
        "environment": environment.as_str(),
        "for": one.member.subject,
        "person": one.person.subject,
        "from": render::moment(one.from),
        "until": render::moment(one.until),
        "reason": one.reason,
    })
}
