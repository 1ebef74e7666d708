//! The acts on calls that are being sent and on calls with an unknown outcome.

use serde_json::{Value, json};

use super::named_call::{claim_key, unrecorded};
use super::page::PageParameters;
use super::person::{Person, Role};
use super::render;
use super::render::{name_of, shown_as};
use super::request::{ActRequest, store_failed, violated};
use super::signature::{bad_signature, sent_signature, unsigned};
use super::state::ConsoleState;
use super::view::sent_in_words;
use crate::base::ids::Environment;
use crate::catalog::Violation;
use crate::ledger::{Content, Index, Record, RecordKey, StoreFault};
use crate::node::operate;
use crate::node::operate::{Resolution, Resolved, Unresolved};
use crate::node::sign_act::SaidWord;
use crate::people::signed_act::PersonAct;
use crate::stations::claim::{Claim, ClaimState, JointWord, Owner, RecordMismatch, ResolveRefusal};
use crate::stations::reply::{Code, Reply, error_json, ok_json};

pub(super) async fn list(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let page = match PageParameters::of(inside, &asked.query, &STATES, Index::Unknown, name_of, |_, _| Ok(false)) {
        Ok(page) => page,
        Err(violation) => return violated(vec![violation]),
    };
    match page.read(inside, &asked.person).await {
        Ok((requests, next)) => ok_json(200, &json!({ "requests": requests, "next": next })),
        Err(fault) => store_failed(inside, &fault),
    }
}

pub(super) async fn show(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let Some(key) = claim_key(inside, asked) else { return unrecorded(inside, asked).await };
    let node = &inside.node;
    match node.find(&key).await {
        Ok(Some((_, claim)))
            if !inside.shows_call(&asked.person, key.environment, &claim.owner.issuer, &claim.owner.subject) =>
        {
            unrecorded(inside, asked).await
        }
        Ok(Some((record, claim))) => {
            let mut request = match rendered(inside, &key, &record, &claim).await {
                Ok(request) => request,
                Err(fault) => return store_failed(inside, &fault),
            };
            if let (Some(members), true) = (request.as_object_mut(), asked.person.has(Role::Operator)) {
                members.extend(render::sent(&claim).map(|sent| ("sent".to_owned(), sent)));
            }
            ok_json(200, &request)
        }
        Ok(None) => match node.store.read(&key).await {
            Ok((Some(record), _)) if record.content == Content::Spent => ok_json(200, &render::spent(&key)),
            Ok(_) => unrecorded(inside, asked).await,
            Err(fault) => store_failed(inside, &fault),
        },
        Err(fault) => store_failed(inside, &fault),
    }
}

/// Returns the JSON of a call; where its outcome is unknown, with the read that may find it.
async fn rendered(inside: &ConsoleState, key: &RecordKey, record: &Record, claim: &Claim) -> Result<Value, StoreFault> {
    let mut request = render::request(key, record, claim);
    if let Some(members) = request.as_object_mut() {
        members.extend(sent_in_words(&inside.in_force.now(), key.environment, claim));
        let said = inside.node.said_executed(key).await?.first().map(Owner::to_string);
        if said.is_some() || matches!(claim.state, ClaimState::Unknown { .. }) {
            members.insert("saidExecuted".to_owned(), json!(said));
        }
    }
    if let (Some(members), ClaimState::Unknown { said_absent, said_abandoned, .. }) =
        (request.as_object_mut(), &claim.state)
    {
        let catalog = inside.catalog();
        let reconcile = catalog.operation(&claim.operation).and_then(|operation| operation.reconcile.as_ref());
        let is_found_by =
            reconcile.filter(|_| claim.request_id.is_some()).map(|reconcile| reconcile.operation.as_str());
        members.insert("lookup".to_owned(), json!(is_found_by));
        for (name, said) in [("saidAbsent", said_absent), ("saidAbandoned", said_abandoned)] {
            let standing = match said {
                Some(said) if said.stands(inside.node.time().await?) => Some(said.by.to_string()),
                _ => None,
            };
            members.insert(name.to_owned(), json!(standing));
        }
    }
    Ok(request)
}

pub(super) async fn resolve(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let Some(key) = claim_key(inside, asked) else { return unrecorded(inside, asked).await };
    if let Some(record) = asked.body.get("record")
        && let Some(violations) = not_in_form(inside, &key, record).await
    {
        return violated(violations);
    }
    let word = resolution(&asked.body);
    if let Ok(Some((_, claim))) = inside.node.find(&key).await
        && !inside.shows_call(&asked.person, key.environment, &claim.owner.issuer, &claim.owner.subject)
    {
        return unrecorded(inside, asked).await;
    }
    let signature = match sent_signature(asked) {
        Ok(signature) => signature,
        Err(why) => return bad_signature(&why),
    };
    let reason = asked.body.get("reason").and_then(Value::as_str).unwrap_or_default();
    let said = SaidWord { person: &asked.person.who, reason, signature: signature.as_ref() };
    let now = inside.in_force.now();
    match operate::resolve(&inside.node, (&now.catalog, &now.policies), &key, said, word).await {
        Ok(Resolved::Executed) => ok_json(200, &json!({ "state": "executed", "missing": 0 })),
        Ok(Resolved::Absent) => ok_json(200, &json!({ "state": "absent", "missing": 0 })),
        Ok(Resolved::Abandoned) => ok_json(200, &json!({ "state": "abandoned", "missing": 0 })),
        Ok(Resolved::SaidOnce(state)) => ok_json(202, &json!({ "state": state, "missing": 1 })),
        Err(why) => not_resolved(inside, asked, &why).await,
    }
}

/// Returns the act of a person's word on a call as it stands; `None` where it is not known, or not shown to the person.
pub(super) async fn resolving(inside: &ConsoleState, asked: &ActRequest) -> Result<(Environment, PersonAct), Reply> {
    let Some(key) = claim_key(inside, asked) else { return Err(unrecorded(inside, asked).await) };
    match inside.node.find(&key).await {
        Ok(Some((_, claim)))
            if inside.shows_call(&asked.person, key.environment, &claim.owner.issuer, &claim.owner.subject) => {}
        Ok(_) => return Err(unrecorded(inside, asked).await),
        Err(fault) => return Err(store_failed(inside, &fault)),
    }
    match operate::resolving(&inside.node, &inside.catalog(), &key, resolution(&asked.body)).await {
        Ok(act) => Ok((key.environment, act)),
        Err(why) => Err(not_resolved(inside, asked, &why).await),
    }
}

/// Returns what a body says of a call.
fn resolution(body: &Value) -> Resolution<'_> {
    match (body.get("record"), body.get("outcome").and_then(Value::as_str)) {
        (Some(record), _) => Resolution::Executed(record),
        (None, Some("abandoned")) => Resolution::Joint(JointWord::Abandoned),
        (None, _) => Resolution::Joint(JointWord::Absent),
    }
}

async fn not_resolved(inside: &ConsoleState, asked: &ActRequest, why: &Unresolved) -> Reply {
    let not_in_doubt = |state: &str| {
        let message = format!("the outcome of this call is not unknown: it is `{state}`. Nothing was changed.");
        error_json(Code::NotInDoubt, &message, Some(json!({ "state": state })))
    };
    match why {
        Unresolved::NoSuchClaim => unrecorded(inside, asked).await,
        Unresolved::NotInDoubt(state) => not_in_doubt(state),
        Unresolved::Refused(ResolveRefusal::NotInDoubt) => not_in_doubt("changing"),
        Unresolved::Refused(ResolveRefusal::TooEarly(from)) => {
            let from = render::moment(*from);
            let time = from.as_str().unwrap_or("a later time");
            let message = format!("too early: upstream may still execute this call; retry at {time}.");
            error_json(Code::TooEarly, &message, Some(json!({ "from": from })))
        }
        Unresolved::Refused(ResolveRefusal::SenderAway(sender)) => {
            let environment = claim_key(inside, asked).map_or(Environment::Production, |key| key.environment);
            let message = format!(
                "the gate `{}` sent this call and has not been heard since, so that it may hold the proof that it was \
                 executed: start that gate again with its `audit.folder`, or have two operators declare it gone, each with \
                 `sluice nodes gone {sender} --environment {environment} --reason TEXT`.",
                sender.node
            );
            let details = json!({ "node": sender.node.as_str(), "journal": sender.journal.as_str() });
            error_json(Code::SenderAway, &message, Some(details))
        }
        Unresolved::Refused(ResolveRefusal::Owner) => {
            let message = "you requested this call, so that others must confirm its outcome.";
            error_json(Code::Forbidden, message, None)
        }
        Unresolved::Refused(ResolveRefusal::SaidAlready) => {
            let message = "you have already confirmed this; one more person must confirm it.";
            error_json(Code::TwoPeopleNeeded, message, Some(json!({ "missing": 1 })))
        }
        Unresolved::Refused(ResolveRefusal::SaidExecuted(person)) => {
            let message = format!(
                "{person} showed upstream's record that this call was executed, and that stands for a day: show the same \
                 record, or ask {person}, whose word is the latest that they say."
            );
            error_json(Code::SaidExecuted, &message, Some(json!({ "by": person.to_string() })))
        }
        Unresolved::NotItsRecord(RecordMismatch::RequestId) => {
            violated(vec![Violation::new("/record", "const", "a record with this requestId")])
        }
        Unresolved::NotItsRecord(RecordMismatch::Money) => {
            let expected = "the record of this call, with the same amount, source and destination";
            violated(vec![Violation::new("/record", "const", expected)])
        }
        Unresolved::NotItsRecord(RecordMismatch::Older) => {
            let expected = "a record that was made after the call was sent, with which it is compared to 15 minutes";
            violated(vec![Violation::new("/record", "const", expected)])
        }
        Unresolved::NotItsRecord(RecordMismatch::Time) => {
            violated(vec![Violation::new("/record", "const", "a record that says when it was made (`createdAt`)")])
        }
        Unresolved::Unsigned(why) => unsigned(inside, why),
    }
}

/// Returns the violations of a record against the contract of the operation's answers.
async fn not_in_form(inside: &ConsoleState, key: &RecordKey, record: &Value) -> Option<Vec<Violation>> {
    let (_, claim) = inside.node.find(key).await.ok()??;
    let catalog = inside.catalog();
    let operation = catalog.operation(&claim.operation)?;
    let violations = operation.success()?.contract.violations(record);
    let inside = |violation: Violation| Violation { pointer: format!("/record{}", violation.pointer), ..violation };
    (!violations.is_empty()).then(|| violations.into_iter().map(inside).collect())
}

const STATES: [(&str, Index); 2] = [("unknown", Index::Unknown), ("sending", Index::Sending)];

impl PageParameters<Index, String> {
    async fn read(&self, inside: &ConsoleState, person: &Person) -> Result<(Vec<Value>, Option<String>), StoreFault> {
        let mut requests = Vec::new();
        let mut last = None;
        for environment in &self.environments {
            let after = match &self.after {
                Some((at, _)) if environment < at => continue,
                Some((at, name)) if environment == at => Some(name.as_str()),
                _ => None,
            };
            let room = self.limit.saturating_sub(requests.len());
            let (found, more) = operate::claims(&inside.node, *environment, self.state, after, room).await?;
            for (key, record, claim) in &found {
                if inside.shows_call(person, key.environment, &claim.owner.issuer, &claim.owner.subject) {
                    requests.push(rendered(inside, key, record, claim).await?);
                }
                last = Some(format!("{environment}:{}", shown_as(&key.name)));
            }
            if more {
                return Ok((requests, last));
            }
        }
        Ok((requests, None))
    }
}
