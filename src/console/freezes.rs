//! The acts that list, set and lift freezes.

use serde_json::{Value, json};

use super::payments::known_callers;
use super::render;
use super::request::{ActRequest, done_unread, environment as served, store_failed, violated};
use super::server::ConsoleServer;
use super::signature::{bad_signature, sent_signature, unsigned};
use super::state::ConsoleState;
use crate::base::finding::nearest_few;
use crate::base::folded::folded;
use crate::base::ids::Environment;
use crate::catalog::Violation;
use crate::ledger::StoreFault;
use crate::node::freezes;
use crate::node::freezes::{FreezeList, FreezeSaid, LiftSaid, StandingFreeze};
use crate::node::frozen_index::MAX_FROZEN_CALLERS;
use crate::node::sign_act::SaidWord;
use crate::people::signed_act::PersonAct;
use crate::stations::claim::{Freeze, Owner};
use crate::stations::reply::{Code, Reply, error_json, ok_json};

/// How many known callers are named beside one that is not known.
const MAX_NEAREST: usize = 3;
/// The most other spellings of a caller's name that are told.
const MAX_SPELLINGS: usize = 20;

pub(super) async fn list(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    if let Some((name, _)) = asked.query.first() {
        return violated(vec![render::unknown_parameter(name)]);
    }
    match all(inside).await {
        Ok(FreezeList { freezes: all, has_more }) => {
            let roles: Vec<&str> = asked.person.roles().collect();
            let is_shown = |one: &&StandingFreeze| inside.shows_freeze(&roles, one.environment, &one.freeze);
            let mut shown = Vec::new();
            for one in all.iter().filter(is_shown) {
                match with_last_paid(inside, one).await {
                    Ok(freeze) => shown.push(freeze),
                    Err(fault) => return store_failed(inside, &fault),
                }
            }
            ok_json(200, &json!({ "freezes": shown, "more": has_more }))
        }
        Err(fault) => store_failed(inside, &fault),
    }
}

/// Returns the JSON of a freeze; where the store may have lost payments, with the time of the last one that it knows.
async fn with_last_paid(inside: &ConsoleState, standing: &StandingFreeze) -> Result<Value, StoreFault> {
    let mut freeze = render::freeze(standing);
    if let (Freeze::Restored, Some(members)) = (&standing.freeze, freeze.as_object_mut()) {
        let last = inside.node.store.last_paid(standing.environment).await?;
        members.insert("lastPaid".to_owned(), last.map_or(Value::Null, render::moment));
    }
    Ok(freeze)
}

/// Says whether money can move at this gate, and if not why. This needs no store.
pub(super) async fn money(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    if let Some((name, _)) = asked.query.first() {
        return violated(vec![render::unknown_parameter(name)]);
    }
    ok_json(200, &json!(inside.readiness.money()))
}

pub(super) async fn freeze(server: &ConsoleServer, asked: &ActRequest) -> Reply {
    let inside = &server.inside;
    let (environment, what, reason) = match parse_freeze(inside, &asked.body) {
        Ok(wanted) => wanted,
        Err(violation) => return violated(vec![violation]),
    };
    // An unknown name would freeze nothing, although the operator believes that it does.
    if let Some(violation) = unknown_scope(inside, &what) {
        return violated(vec![violation]);
    }
    let node = &inside.node;
    let changed = match freezes::freeze(node, environment, &what, &asked.person.who, reason).await {
        Ok(FreezeSaid::Frozen) => true,
        Ok(FreezeSaid::FrozenAlready) => false,
        Ok(FreezeSaid::TooMany) => return too_many(environment),
        Err(fault) => return store_failed(inside, &fault),
    };
    match freezes::standing(node, environment, what.clone()).await {
        Ok(standing) => {
            let freeze = standing.as_ref().map(render::freeze);
            let caller = acquaintance(server, asked, environment, &what).await;
            ok_json(if changed { 201 } else { 200 }, &json!({ "changed": changed, "freeze": freeze, "caller": caller }))
        }
        Err(fault) if changed => done_unread(inside, &fault),
        Err(fault) => store_failed(inside, &fault),
    }
}

/// Answers that there is no room for the freeze of another caller.
fn too_many(environment: Environment) -> Reply {
    let message = format!(
        "{MAX_FROZEN_CALLERS} freezes of callers and of their reads stand in {environment}, the most there may be: lift those that are \
         needed no more, freeze an operation or all money, or take the caller's credentials away. Nothing was changed."
    );
    error_json(Code::TooManyFreezes, &message, Some(json!({ "most": MAX_FROZEN_CALLERS })))
}

/// Says whether any call of a frozen caller is known, and the nearest names that are: a caller may be new, or its name a
/// mistake. Other spellings of the name are told in any case: the freeze is not of them. `None` where the freeze is of no
/// caller, or nobody knows now.
async fn acquaintance(
    server: &ConsoleServer,
    asked: &ActRequest,
    environment: Environment,
    what: &Freeze,
) -> Option<Value> {
    let (Freeze::Caller(owner) | Freeze::Reads(owner)) = what else { return None };
    let known = known_callers(server, &asked.person, environment).await?;
    let name = owner.to_string();
    let is_known = known.names.contains(&name);
    let names = || known.names.iter().map(String::as_str);
    let spellings = other_spellings(owner, names());
    let others = names().filter(|name| !spellings.contains(name));
    let nearest = if is_known { Vec::new() } else { nearest_few(&name, others, MAX_NEAREST) };
    let since = known.since.map(render::moment);
    Some(json!({ "known": is_known, "since": since, "nearest": nearest, "spellings": spellings }))
}

/// Returns the known callers of the issuer whose names differ only in case, width or blanks.
fn other_spellings<'n>(owner: &Owner, known: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let wanted = folded(&owner.subject);
    let is_other_spelling = |name: &&str| {
        let parts =
            name.split_once('/').filter(|(issuer, subject)| *issuer == owner.issuer && *subject != owner.subject);
        parts.is_some_and(|(_, subject)| folded(subject) == wanted)
    };
    known.filter(is_other_spelling).take(MAX_SPELLINGS).collect()
}

pub(super) async fn lift(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let (environment, what, reason) = match parse_freeze(inside, &asked.body) {
        Ok(wanted) => wanted,
        Err(violation) => return violated(vec![violation]),
    };
    let signature = match sent_signature(asked) {
        Ok(signature) => signature,
        Err(why) => return bad_signature(&why),
    };
    let said = SaidWord { person: &asked.person.who, reason, signature: signature.as_ref() };
    match freezes::unfreeze(&inside.node, &inside.in_force.now().policies, environment, &what, said).await {
        Ok(LiftSaid::Lifted) => ok_json(200, &json!({ "changed": true, "missing": 0 })),
        Ok(LiftSaid::NotFrozen) => ok_json(200, &json!({ "changed": false, "missing": 0 })),
        Ok(LiftSaid::Once) => ok_json(202, &json!({ "changed": false, "missing": 1 })),
        Ok(LiftSaid::SaidAlready) => {
            let message = "you have already confirmed this; one more person must confirm it.";
            error_json(Code::TwoPeopleNeeded, message, Some(json!({ "missing": 1 })))
        }
        Ok(LiftSaid::OwnFreeze) => {
            let message = "this freeze is of you, or of a service that you own, so that others must lift it; nothing was changed.";
            error_json(Code::Forbidden, message, None)
        }
        Err(why) => unsigned(inside, &why),
    }
}

/// Returns the act of lifting a freeze as it stands; the outer error is a mistake of the body.
pub(super) async fn lifting(
    inside: &ConsoleState,
    body: &Value,
) -> Result<Result<Option<(Environment, PersonAct)>, StoreFault>, Violation> {
    let (environment, what) = parse_scope(inside, body)?;
    let act = freezes::lifting(&inside.node, environment, &what).await;
    Ok(act.map(|act| act.map(|act| (environment, act))))
}

async fn all(inside: &ConsoleState) -> Result<FreezeList, StoreFault> {
    let mut all = FreezeList { freezes: Vec::new(), has_more: false };
    for environment in &inside.environments {
        let found = freezes::frozen(&inside.node, *environment).await?;
        all.freezes.extend(found.freezes);
        all.has_more |= found.has_more;
    }
    Ok(all)
}

/// Returns the environment, the scope and the reason of a valid body.
fn parse_freeze<'b>(inside: &ConsoleState, body: &'b Value) -> Result<(Environment, Freeze, &'b str), Violation> {
    let (environment, what) = parse_scope(inside, body)?;
    Ok((environment, what, body.get("reason").and_then(Value::as_str).unwrap_or_default()))
}

fn parse_scope(inside: &ConsoleState, body: &Value) -> Result<(Environment, Freeze), Violation> {
    let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str);
    let environment = text("/environment").and_then(|name| served(inside, name)).ok_or_else(render::not_served)?;
    let what = body.get("scope").and_then(Freeze::of_scope);
    let what = what.ok_or_else(|| Violation::new("/scope", "oneOf", "one of the scopes of the document"))?;
    Ok((environment, what))
}

fn unknown_scope(inside: &ConsoleState, what: &Freeze) -> Option<Violation> {
    match what {
        Freeze::All | Freeze::Restored | Freeze::Clock | Freeze::GateClock(_) => None,
        Freeze::Operation(id) => {
            let known = inside.catalog().operation(id).is_some_and(|operation| operation.is_write());
            let expected = "the id of a write operation, as listed by `sluice operations`";
            (!known).then(|| Violation::new("/scope/operation", "enum", expected))
        }
        Freeze::Caller(owner) | Freeze::Reads(owner) => {
            let expected = format!("the name of an issuer: {}", inside.issuers.join(", "));
            let known = inside.issuers.contains(&owner.issuer);
            (!known).then(|| Violation::new("/scope/caller/issuer", "enum", expected))
        }
    }
}
