//! The list of payments that upstream shows and no gate sent, or that are not as they were sent.

use serde_json::{Value, json};

use super::render::{self, moment};
use super::request::{ActRequest, environment as served, store_failed, violated};
use super::state::ConsoleState;
use crate::base::ids::Environment;
use crate::catalog::{BodyPlace, Party, Violation};
use crate::ledger::{Content, Index, IndexPart, StoreFault, StoreTime};
use crate::stations::follow::{decode_foreign, decode_progress, foreign_key, progress_key};
use crate::stations::reply::{Reply, ok_json};

/// The most payments of an answer.
const MAX_SHOWN: usize = 100;

pub(super) async fn list(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let mut environments = inside.environments.clone();
    for (name, value) in &asked.query {
        match (name.as_str(), served(inside, value)) {
            ("environment", Some(environment)) => environments = vec![environment],
            ("environment", None) => {
                let wrong = Violation::new(name, "enum", "an environment that this gate serves");
                return violated(vec![wrong.inside(BodyPlace::Query)]);
            }
            (other, _) => return violated(vec![render::unknown_parameter(other)]),
        }
    }
    let roles: Vec<&str> = asked.person.roles().collect();
    environments.retain(|environment| inside.visibility.shows(&roles, *environment, None));
    let (mut payments, mut lists) = (Vec::new(), Vec::new());
    for environment in environments {
        let found = async { Ok((of_environment(inside, environment).await?, lists_of(inside, environment).await?)) };
        match found.await {
            Ok((found, of_environment)) => {
                payments.extend(found);
                lists.extend(of_environment);
            }
            Err(fault) => return store_failed(inside, &fault),
        }
    }
    ok_json(200, &json!({ "payments": payments, "lists": lists }))
}

/// Returns which of upstream's lists of payments a gate reads now: without that, nobody finds such payments.
async fn lists_of(inside: &ConsoleState, environment: Environment) -> Result<Vec<Value>, StoreFault> {
    let catalog = inside.catalog();
    let mut lists = Vec::new();
    for operation in catalog.operations().iter().filter(|one| one.enabled && one.follow.is_some()) {
        let (record, now) = inside.node.store.read(&progress_key(environment, &operation.id)).await?;
        let progress = match record.map(|record| record.content) {
            Some(Content::Whole(bytes)) => decode_progress(&bytes).ok(),
            _ => None,
        };
        lists.push(json!({
            "environment": environment.as_str(),
            "operation": operation.id.as_str(),
            "read": progress.as_ref().is_some_and(|progress| progress.until > now),
            "latest": progress.map(|progress| moment(StoreTime::of_micros(progress.head))),
        }));
    }
    Ok(lists)
}

/// Returns the payments that were found last, the latest first.
async fn of_environment(inside: &ConsoleState, environment: Environment) -> Result<Vec<Value>, StoreFault> {
    let part = IndexPart { backwards: true, behind: None, count: MAX_SHOWN };
    let members = inside.node.store.part(environment, Index::Foreign, part).await?;
    let mut payments = Vec::with_capacity(members.len());
    for (found, name) in members {
        let (record, _) = inside.node.store.read(&foreign_key(environment, &name)).await?;
        let Some(Content::Whole(bytes)) = record.map(|record| record.content) else { continue };
        match decode_foreign(&bytes) {
            Ok(payment) => payments.push(json!({
                "environment": environment.as_str(),
                "operation": payment.operation.as_str(),
                "record": payment.id,
                "requestId": payment.request_id,
                "problem": payment.problem.as_str(),
                "text": payment.problem.in_words(),
                "state": payment.state,
                "createdAt": moment(StoreTime::of_micros(payment.created)),
                "foundAt": moment(found),
                "source": party(&payment.moves.source),
                "destination": party(&payment.moves.destination),
            })),
            Err(why) => return Err(StoreFault::Broken(why.to_string())),
        }
    }
    Ok(payments)
}

fn party(party: &Party) -> Value {
    json!({
        "amount": party.amount,
        "currency": party.currency,
        "chain": party.chain,
        "user": party.user,
        "wallet": party.wallet,
        "account": party.account,
    })
}
