//! Freezing and lifting.

use serde_json::{Value, json};

use super::desk::{Asked, Desk, violated};
use super::told;
use crate::base::ids::{Environment, OperationId};
use crate::catalog::Violation;
use crate::commit::StoreFault;
use crate::journey::operate::{self, Standing};
use crate::stations::claim::{Freeze, Owner};
use crate::stations::reply::{Reply, said};

pub(super) async fn list(desk: &Desk, asked: &Asked) -> Reply {
    if let Some((name, _)) = asked.query.first() {
        return violated(vec![told::unknown_parameter(name)]);
    }
    match all(desk).await {
        Ok(all) => said(200, &json!({ "freezes": all.iter().map(told::freeze).collect::<Vec<_>>() })),
        Err(fault) => desk.store_failed(&fault),
    }
}

pub(super) async fn freeze(desk: &Desk, asked: &Asked) -> Reply {
    let (environment, what, reason) = match wanted(desk, &asked.body) {
        Ok(wanted) => wanted,
        Err(violation) => return violated(vec![violation]),
    };
    // A name that nobody has would freeze nothing, and its freezer would believe otherwise.
    if let Some(violation) = of_nothing(desk, &what) {
        return violated(vec![violation]);
    }
    let books = &desk.inside.books;
    let changed = match operate::freeze(books, environment, &what, &asked.person.who, reason).await {
        Ok(changed) => changed,
        Err(fault) => return desk.store_failed(&fault),
    };
    match operate::standing(books, environment, what).await {
        Ok(standing) => {
            let freeze = standing.as_ref().map(told::freeze);
            said(if changed { 201 } else { 200 }, &json!({ "changed": changed, "freeze": freeze }))
        }
        Err(fault) => desk.store_failed(&fault),
    }
}

pub(super) async fn lift(desk: &Desk, asked: &Asked) -> Reply {
    let (environment, what, reason) = match wanted(desk, &asked.body) {
        Ok(wanted) => wanted,
        Err(violation) => return violated(vec![violation]),
    };
    match operate::unfreeze(&desk.inside.books, environment, &what, &asked.person.who, reason).await {
        Ok(changed) => said(200, &json!({ "changed": changed })),
        Err(fault) => desk.store_failed(&fault),
    }
}

async fn all(desk: &Desk) -> Result<Vec<Standing>, StoreFault> {
    let mut all = Vec::new();
    for environment in &desk.inside.environments {
        all.extend(operate::frozen(&desk.inside.books, *environment).await?);
    }
    Ok(all)
}

/// What a body wants that is as the document says.
fn wanted<'b>(desk: &Desk, body: &'b Value) -> Result<(Environment, Freeze, &'b str), Violation> {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
    let environment = text("/environment").and_then(|name| desk.environment(name)).ok_or_else(told::not_served)?;
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

fn of_nothing(desk: &Desk, what: &Freeze) -> Option<Violation> {
    match what {
        Freeze::All | Freeze::Restored => None,
        Freeze::Operation(id) => {
            let known = desk.inside.catalog.operation(id).is_some_and(|operation| operation.is_write());
            let expected = "the id of an operation that changes something, as `sluice operations` lists them";
            (!known).then(|| Violation::new("/scope/operation", "enum", expected))
        }
        Freeze::Caller(owner) => {
            let expected = format!("the name of an issuer: {}", desk.inside.issuers.join(", "));
            let known = desk.inside.issuers.contains(&owner.issuer);
            (!known).then(|| Violation::new("/scope/caller/issuer", "enum", expected))
        }
    }
}
