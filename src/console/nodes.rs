//! The acts on gates: which ones share the store, and which ones people declare gone.

use serde_json::{Value, json};

use super::render;
use super::request::{ActRequest, environment as served, store_failed, violated};
use super::state::ConsoleState;
use crate::base::ids::Environment;
use crate::catalog::Violation;
use crate::ledger::{JournalId, NodeId, Sender, StoreFault};
use crate::node::{GoneSaid, NotGone};
use crate::stations::reply::{Code, Reply, error_json, ok_json};

pub(super) async fn list(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    if let Some((name, _)) = asked.query.first() {
        return violated(vec![render::unknown_parameter(name)]);
    }
    match all(inside).await {
        Ok(nodes) => ok_json(200, &json!({ "nodes": nodes })),
        Err(fault) => store_failed(inside, &fault),
    }
}

async fn all(inside: &ConsoleState) -> Result<Vec<Value>, StoreFault> {
    let mut all = Vec::new();
    for environment in &inside.environments {
        let gone = inside.node.gone(*environment).await?;
        let gates = inside.node.gates(*environment).await?;
        for gate in &gates {
            let mut told = sender_json(*environment, &gate.sender, gone.contains(&gate.sender));
            if let Some(members) = told.as_object_mut() {
                members.insert("at".to_owned(), render::moment(gate.at));
                members.insert("openFrom".to_owned(), json!(gate.open_from.map(|number| number.as_u64())));
            }
            all.push(told);
        }
        let lost = gone.iter().filter(|sender| !gates.iter().any(|gate| gate.sender == **sender));
        all.extend(lost.map(|sender| sender_json(*environment, sender, true)));
    }
    Ok(all)
}

fn sender_json(environment: Environment, sender: &Sender, is_gone: bool) -> Value {
    json!({
        "environment": environment.as_str(),
        "node": sender.node.as_str(),
        "journal": sender.journal.as_str(),
        "gone": is_gone,
    })
}

pub(super) async fn say_gone(inside: &ConsoleState, asked: &ActRequest) -> Reply {
    let text = |name: &str| asked.body.get(name).and_then(Value::as_str).unwrap_or_default();
    let Some(environment) = served(inside, text("environment")) else { return violated(vec![render::not_served()]) };
    let (Some(node), Some(journal)) = (NodeId::parse(text("node")), JournalId::parse(text("journal"))) else {
        let expected = "the name of a gate and the identity of its journal, as `sluice nodes list` shows them";
        return violated(vec![Violation::new("/journal", "pattern", expected)]);
    };
    let sender = Sender { node, journal };
    match inside.node.say_gone(environment, &sender, &asked.person.who, text("reason")).await {
        Ok(GoneSaid::Gone) => ok_json(200, &json!({ "gone": true, "missing": 0 })),
        Ok(GoneSaid::Once) => ok_json(202, &json!({ "gone": false, "missing": 1 })),
        Err(NotGone::Already) => ok_json(200, &json!({ "gone": true, "missing": 0 })),
        Err(NotGone::Heard(at)) => {
            let at = render::moment(at);
            let time = at.as_str().unwrap_or("a short time ago");
            let message =
                format!("this gate is not gone: it was heard at {time}. Stop it first if it must not return.");
            error_json(Code::GateHeard, &message, Some(json!({ "at": at })))
        }
        Err(NotGone::SaidAlready) => {
            let message = "you have already confirmed this; one more person must confirm it.";
            error_json(Code::TwoPeopleNeeded, message, Some(json!({ "missing": 1 })))
        }
        Err(NotGone::Store(fault)) => store_failed(inside, &fault),
    }
}
