//! Freezing and lifting.

use serde_json::{Value, json};

use super::asked::{Asked, environment as served, store_failed, violated};
use super::told;
use crate::base::ids::{Environment, OperationId};
use crate::catalog::Violation;
use crate::commit::StoreFault;
use crate::gateway::Inside;
use crate::journey::operate::{self, Standing};
use crate::stations::claim::{Freeze, Owner};
use crate::stations::reply::{Reply, said};

pub(super) async fn list(inside: &Inside, asked: &Asked) -> Reply {
    if let Some((name, _)) = asked.query.first() {
        return violated(vec![told::unknown_parameter(name)]);
    }
    match all(inside).await {
        Ok(all) => said(200, &json!({ "freezes": all.iter().map(told::freeze).collect::<Vec<_>>() })),
        Err(fault) => store_failed(inside, &fault),
    }
}

pub(super) async fn freeze(inside: &Inside, asked: &Asked) -> Reply {
    let (environment, what, reason) = match wanted(inside, &asked.body) {
        Ok(wanted) => wanted,
        Err(violation) => return violated(vec![violation]),
    };
    // A name that nobody has would freeze nothing, and its freezer would believe otherwise.
    if let Some(violation) = of_nothing(inside, &what) {
        return violated(vec![violation]);
    }
    let books = &inside.books;
    let changed = match operate::freeze(books, environment, &what, &asked.person.who, reason).await {
        Ok(changed) => changed,
        Err(fault) => return store_failed(inside, &fault),
    };
    match operate::standing(books, environment, what).await {
        Ok(standing) => {
            let freeze = standing.as_ref().map(told::freeze);
            said(if changed { 201 } else { 200 }, &json!({ "changed": changed, "freeze": freeze }))
        }
        Err(fault) => store_failed(inside, &fault),
    }
}

pub(super) async fn lift(inside: &Inside, asked: &Asked) -> Reply {
    let (environment, what, reason) = match wanted(inside, &asked.body) {
        Ok(wanted) => wanted,
        Err(violation) => return violated(vec![violation]),
    };
    match operate::unfreeze(&inside.books, environment, &what, &asked.person.who, reason).await {
        Ok(changed) => said(200, &json!({ "changed": changed })),
        Err(fault) => store_failed(inside, &fault),
    }
}

async fn all(inside: &Inside) -> Result<Vec<Standing>, StoreFault> {
    let mut all = Vec::new();
    for environment in &inside.environments {
        all.extend(operate::frozen(&inside.books, *environment).await?);
    }
    Ok(all)
}

/// What a body wants that is as the document says.
fn wanted<'b>(inside: &Inside, body: &'b Value) -> Result<(Environment, Freeze, &'b str), Violation> {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
    let environment = text("/environment").and_then(|name| served(inside, name)).ok_or_else(told::not_served)?;
    let what = match (text("/scope"), text("/scope/operation")) {
        (Some("all"), _) => Some(Freeze::All),
        (Some("restored"), _) => Some(Freeze::Restored),
        (_, Some(operation)) => Some(Freeze::Operation(OperationId::new(operation))),
        _ => text("/scope/caller/issuer")
            .zip(text("/scope/caller/subject"))
            .map(|(issuer, subject)| Freeze::Caller(Owner { issuer: issuer.to_owned(), subject: subject.to_owned() })),
    };
    let what = what.ok_or_else(|| Violation::new("/scope", "oneOf", "one of the scopes of the document"))?;
    Ok((environment, what, text("/reason").unwrap_or_default()))
}

fn of_nothing(inside: &Inside, what: &Freeze) -> Option<Violation> {
    match what {
        Freeze::All | Freeze::Restored => None,
        Freeze::Operation(id) => {
            let known = inside.catalog().operation(id).is_some_and(|operation| operation.is_write());
            let expected = "the id of an operation that changes something, as `sluice operations` lists them";
            (!known).then(|| Violation::new("/scope/operation", "enum", expected))
        }
        Freeze::Caller(owner) => {
            let expected = format!("the name of an issuer: {}", inside.issuers.join(", "));
            let known = inside.issuers.contains(&owner.issuer);
            (!known).then(|| Violation::new("/scope/caller/issuer", "enum", expected))
        }
    }
}
