//! Who votes in another's place: named by the member, for a time, and taken back.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::asked::{Asked, environment as served, store_failed, violated};
use super::person::Role;
use super::told;
use crate::base::ids::Environment;
use crate::catalog::Violation;
use crate::commit::{StoreFault, StoreTime};
use crate::gateway::Inside;
use crate::journey::stand_ins::{self, Period, Unnamed};
use crate::stations::hold::{NotNamed, StandIn};
use crate::stations::reply::{Code, Reply, said, unsaid};

pub(super) async fn list(inside: &Inside, asked: &Asked) -> Reply {
    if let Some((name, _)) = asked.query.first() {
        return violated(vec![told::unknown_parameter(name)]);
    }
    match all(inside).await {
        Ok(all) => said(200, &json!({ "standIns": all })),
        Err(fault) => store_failed(inside, &fault),
    }
}

async fn all(inside: &Inside) -> Result<Vec<Value>, StoreFault> {
    let mut all = Vec::new();
    for environment in &inside.environments {
        let (standing, now) = inside.books.stand_ins(*environment).await?;
        all.extend(standing.standing(now).into_iter().map(|one| shown(*environment, one)));
    }
    Ok(all)
}

/// For whoever asks, and nobody else: a seat is given away by the member alone.
pub(super) async fn name(inside: &Inside, asked: &Asked) -> Reply {
    let text = |name: &str| asked.body.get(name).and_then(Value::as_str);
    let Some(environment) = text("environment").and_then(|name| served(inside, name)) else {
        return violated(vec![told::not_served()]);
    };
    let period = match (moment(&asked.body, "from"), moment(&asked.body, "until")) {
        (Ok(from), Ok(Some(until))) => Period { from, until },
        (Err(violation), _) | (_, Err(violation)) => return violated(vec![violation]),
        (_, Ok(None)) => return violated(vec![Violation::new("/until", "required", "a time with its zone")]),
    };
    let (member, policies) = (&asked.person.who, &inside.in_force.now().policies);
    let person = member.beside(text("person").unwrap_or_default());
    let reason = text("reason").unwrap_or_default();
    let pair = (member, &person);
    match stand_ins::name(&inside.books, policies, environment, pair, period, reason).await {
        Ok(named) => said(201, &json!({ "standIn": shown(environment, &named) })),
        Err(Unnamed::Store(fault)) => store_failed(inside, &fault),
        Err(Unnamed::NoMember) => {
            let message = "you are in no group: there is no seat that anybody could fill. Nothing was changed.";
            unsaid(Code::Forbidden, message, None)
        }
        Err(Unnamed::NotNamed(why)) => violated(vec![not_named(why)]),
    }
}

fn not_named(why: NotNamed) -> Violation {
    let (place, keyword, expected) = match why {
        NotNamed::Oneself => ("/person", "not", "another person than you"),
        NotNamed::Over => ("/until", "minimum", "a time that is to come, and later than `from`"),
        NotNamed::TooLong => ("/until", "maximum", "at most 31 days, beginning within 31 days"),
        NotNamed::TooMany => ("/person", "maxItems", "fewer that stand at one time: revoke some first"),
    };
    Violation::new(place, keyword, expected)
}

/// The member, the stand-in, and whoever runs the gate or its policies.
pub(super) async fn revoke(inside: &Inside, asked: &Asked) -> Reply {
    let text = |name: &str| asked.body.get(name).and_then(Value::as_str);
    let Some(environment) = text("environment").and_then(|name| served(inside, name)) else {
        return violated(vec![told::not_served()]);
    };
    let who = &asked.person.who;
    let member = text("for").map_or_else(|| who.clone(), |subject| who.beside(subject));
    let person = who.beside(text("person").unwrap_or_default());
    let is_theirs = *who == member || *who == person;
    if !is_theirs && !asked.person.has(Role::Operator) && !asked.person.has(Role::PolicyAdmin) {
        let message = "it is the member, the stand-in, an `operator` or a `policy-admin` who revokes one.";
        return unsaid(Code::Forbidden, message, None);
    }
    let why = (who, text("reason").unwrap_or_default());
    match stand_ins::revoke(&inside.books, environment, (&member, &person), why).await {
        Ok(changed) => said(200, &json!({ "changed": changed })),
        Err(fault) => store_failed(inside, &fault),
    }
}

fn moment(body: &Value, name: &str) -> Result<Option<StoreTime>, Violation> {
    let Some(text) = body.get(name).and_then(Value::as_str) else { return Ok(None) };
    let time = text.parse::<Timestamp>();
    let time = time.map_err(|_| Violation::new(format!("/{name}"), "format", "a time with its zone"))?;
    Ok(Some(StoreTime::of_micros(time.as_microsecond())))
}

fn shown(environment: Environment, one: &StandIn) -> Value {
    json!({
        "environment": environment.as_str(),
        "for": one.member.subject,
        "person": one.person.subject,
        "from": told::moment(one.from),
        "until": told::moment(one.until),
        "reason": one.reason,
    })
}
