//! The acts on policies: show those in force and those that wait for two approvals, and approve the latter.

use std::sync::Arc;

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::render;
use super::request::{ActRequest, ending, store_failed, violated};
use super::signature::{bad_signature, sent_signature, unsigned};
use super::state::ConsoleState;
use crate::base::ids::Environment;
use crate::catalog::{BodyFields, BodyPlace, FormField, Operation, Violation};
use crate::ledger::{StoreFault, StoreTime};
use crate::node::activate;
use crate::node::activate::{ActivationError, RecoveryRefusal};
use crate::node::sign_act::SaidWord;
use crate::node::{Candidate, Snapshot};
use crate::people::agreement::{PEOPLE, Succession};
use crate::people::key_recovery::SignedRecovery;
use crate::people::signed_act::PersonAct;
use crate::policy::{DecisionHistory, Difference, SignableAct};
use crate::stations::claim::Owner;
use crate::stations::reply::{Code, Reply, error_json, ok_json};

pub(super) async fn show(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    if let Some((name, _)) = asked.query.first() {
        return violated(vec![render::unknown_parameter(name)]);
    }
    let now = inside.in_force.now();
    let candidate = match &now.candidate {
        None => Value::Null,
        Some(candidate) => match candidate_json(inside, &now, candidate).await {
            Ok(json) => json,
            Err(fault) => return store_failed(inside, &fault),
        },
    };
    let catalog = inside.catalog();
    let operations: Vec<Value> = catalog.operations().iter().filter(|one| one.enabled).map(operation_json).collect();
    let mut set = json!({
        "version": now.policies.version(),
        "loosening": inside.loosening.as_str(),
        "candidate": candidate,
        "operations": operations,
        "issuers": inside.issuers,
    });
    if let Some(members) = set.as_object_mut() {
        members.extend(now.policies.rules.recited().map(|(name, words)| (name.to_owned(), words)));
    }
    ok_json(200, &set)
}

/// Shows the largest amounts that the policies in force let pass.
pub(super) async fn show_table(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    if let Some((name, _)) = asked.query.first() {
        return violated(vec![render::unknown_parameter(name)]);
    }
    let now = inside.in_force.now();
    let table = inside.analyses.table_of(&now.policies, &now.catalog, &inside.issuers);
    match inside.unless_ending(table).await {
        Some(table) => ok_json(200, table.as_ref()),
        None => ending(),
    }
}

fn operation_json(operation: &Arc<Operation>) -> Value {
    let Operation { id, class, summary, .. } = &**operation;
    let form = operation.body_fields.iter().filter(|_| operation.is_write()).flat_map(BodyFields::form);
    let fields = form.map(
        |FormField { pointer, kind, choices }| json!({ "pointer": pointer, "kind": kind.as_str(), "choices": choices }),
    );
    let path: Vec<&str> = operation.template.parameters().collect();
    json!({
        "operation": id.as_str(),
        "class": class.as_str(),
        "summary": summary,
        "path": path,
        "fields": fields.collect::<Vec<_>>(),
    })
}

pub(super) async fn agree(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let now = inside.in_force.now();
    let wanted = asked.path.first().map(String::as_str).unwrap_or_default();
    let candidate = match waiting(&now, wanted) {
        Ok(candidate) => candidate,
        Err(violation) => return violated(vec![violation]),
    };
    let signature = match sent_signature(asked) {
        Ok(signature) => signature,
        Err(why) => return bad_signature(&why),
    };
    let succession = succession(inside, &now, candidate);
    let reason = asked.body.get("reason").and_then(Value::as_str).unwrap_or_default();
    let said = SaidWord { person: &asked.person.who, reason, signature: signature.as_ref() };
    match activate::agree(&inside.node, &now.policies, succession, said).await {
        Ok(people) => {
            let missing = PEOPLE.saturating_sub(people.len());
            let status = if missing == 0 { 200 } else { 202 };
            ok_json(status, &json!({ "version": wanted, "agreed": names(&people), "missing": missing }))
        }
        Err(ActivationError::AgreedAlready) => {
            let message = "you have already approved this version; one more person must approve it.";
            error_json(Code::TwoPeopleNeeded, message, Some(json!({ "missing": 1 })))
        }
        Err(ActivationError::Unsigned(why)) => unsigned(inside, &why),
    }
}

/// Takes signatures of recovery keys for the set that waits.
pub(super) async fn recover_keys(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let now = inside.in_force.now();
    let wanted = asked.path.first().map(String::as_str).unwrap_or_default();
    let candidate = match waiting(&now, wanted) {
        Ok(candidate) => candidate,
        Err(violation) => return violated(vec![violation]),
    };
    let Ok(signed) = asked.body.get("recovery").map_or(Err(()), |sent| SignedRecovery::deserialize(sent).map_err(drop))
    else {
        return unrecovered("they are not of the form that `sluice recovery sign` writes");
    };
    let reason = asked.body.get("reason").and_then(Value::as_str).unwrap_or_default();
    let (sets, succession) = ((&*now.policies, &*candidate.policies), succession(inside, &now, candidate));
    match activate::hand_in(&inside.node, sets, succession, (&asked.person.who, reason, &signed)).await {
        Ok(()) => ok_json(200, &json!({ "version": wanted })),
        Err(RecoveryRefusal::Refused(why)) => unrecovered(&why.to_string()),
        Err(RecoveryRefusal::Store(fault)) => store_failed(inside, &fault),
    }
}

fn unrecovered(why: &str) -> Reply {
    let message = format!("the signatures of recovery keys do not count: {why}. Nothing was changed.");
    error_json(Code::SignatureRefused, &message, None)
}

/// Returns the act of agreeing to the set that waits.
pub(super) fn agreeing(inside: &ConsoleState, version: &str) -> Result<(Environment, PersonAct), Violation> {
    let now = inside.in_force.now();
    let succession = succession(inside, &now, waiting(&now, version)?);
    Ok((succession.environment, succession.act()))
}

/// Returns the set that waits, where it is this version.
fn waiting<'s>(now: &'s Snapshot, wanted: &str) -> Result<&'s Candidate, Violation> {
    let candidate = now.candidate.as_deref().filter(|candidate| candidate.policies.version() == wanted);
    candidate.ok_or_else(|| {
        let expected = match &now.candidate {
            Some(candidate) => {
                format!("the version that waits for approval on this node: {}", candidate.policies.version())
            }
            None => "a version that waits for approval; none waits on this node".to_owned(),
        };
        Violation::new("version", "const", expected).inside(BodyPlace::Path)
    })
}

async fn candidate_json(inside: &ConsoleState, now: &Snapshot, candidate: &Candidate) -> Result<Value, StoreFault> {
    let people = activate::agreed(&inside.node, &now.policies, succession(inside, now, candidate)).await?;
    let counted = candidate.counts();
    let counted =
        counted.iter().map(|(from, to, calls)| json!({"from": from.as_str(), "to": to.as_str(), "calls": calls}));
    Ok(json!({
        "version": candidate.policies.version(),
        "since": render::moment(StoreTime::of_micros(candidate.since.as_microsecond())),
        "agreed": names(&people),
        "missing": PEOPLE.saturating_sub(people.len()),
        "mustSign": now.policies.rules.must_sign(SignableAct::Activation),
        "words": changes_in_words(&candidate.rates, candidate.is_other_contract, &candidate.difference),
        "difference": candidate.difference.as_json(),
        "rates": candidate.rates,
        "decisions": counted.collect::<Vec<_>>(),
        "history": candidate.history().map(history_json),
    }))
}

/// Returns what a set would have changed in the last days.
pub(super) fn history_json(history: &DecisionHistory) -> Value {
    let mut json = history.as_json();
    if let Some(members) = json.as_object_mut() {
        members.insert("words".to_owned(), history.in_words().into());
    }
    json
}

/// Describes the change from the set in force to another one.
pub(super) fn changes_in_words(rates: &[String], is_other_contract: bool, difference: &Difference) -> String {
    let rates = rates.iter().map(|rate| format!("{rate} is removed or changed: more calls may be allowed\n"));
    let contract = match is_other_contract {
        true => {
            "the contract changes beyond descriptions and the answers to reads: other calls may be allowed, or mean something else\n"
        }
        false => "",
    };
    format!("{}{contract}{}", rates.collect::<String>(), difference)
}

fn names(people: &[Owner]) -> Vec<String> {
    people.iter().map(ToString::to_string).collect()
}

/// Returns the change of versions, in the environment whose store has the approvals: the same on all nodes that serve
/// the same environments.
fn succession<'s>(inside: &ConsoleState, now: &'s Snapshot, candidate: &'s Candidate) -> Succession<'s> {
    let environment = inside.environments.first().copied().unwrap_or(Environment::Production);
    let replaces = inside.node.activations.number(environment);
    Succession { environment, replaces, from: now.policies.version(), to: candidate.policies.version() }
}
