//! The facts that a notice looks up when it is sent: how many approvals are missing by today's rules, and, for a
//! webhook that asks for details, the money that moves.

use super::Delivering;
use crate::adapters::webhook::Webhook;
use crate::base::ids::Environment;
use crate::ledger::StoreFault;
use crate::node::approve::progress_of;
use crate::node::holds;
use crate::notify;
use crate::notify::{Details, Message, Telling};
use crate::policy::Progress;
use crate::stations::hold::{Hold, member_of, read_again};

/// Writes the body of a notice. Details that cannot be looked up are left out; the event itself is always sent.
pub(super) async fn body(with: &Delivering, webhook: &Webhook, environment: Environment, message: &Message) -> String {
    let told_of = |fault: &StoreFault| with.node.told_of(fault);
    let hold = hold(with, environment, message).await.inspect_err(told_of).unwrap_or_default();
    let progress = match &hold {
        Some(hold) => progress(with, environment, message, hold).await.inspect_err(told_of).unwrap_or_default(),
        None => Vec::new(),
    };
    let details = hold.filter(|_| webhook.details).map(|hold| details(with, environment, hold));
    let telling = Telling {
        message,
        environment,
        written: message.happened.unwrap_or_default(),
        progress: &progress,
        console: with.console.as_deref(),
        details: details.as_ref(),
    };
    notify::body(webhook.format, telling)
}

async fn hold(with: &Delivering, environment: Environment, message: &Message) -> Result<Option<Hold>, StoreFault> {
    let Some(id) = &message.hold else { return Ok(None) };
    Ok(with.node.find_hold(&holds::key(environment, id)).await?.map(|(_, hold)| hold))
}

/// Counts approvals with the votes of the moment of the event.
async fn progress(
    with: &Delivering,
    environment: Environment,
    message: &Message,
    hold: &Hold,
) -> Result<Vec<Progress>, StoreFault> {
    let Some(waited) = &message.waited else { return Ok(Vec::new()) };
    let mut then = Hold { asked: waited.asked.clone(), ..hold.clone() };
    then.votes.retain(|vote| waited.voters.contains(&member_of(&vote.person)));
    progress_of(&with.node, environment, &then, &with.in_force.now().policies).await
}

fn details(with: &Delivering, environment: Environment, hold: Hold) -> Details {
    let intent = read_again(&with.in_force.now().catalog, environment, &hold);
    let movement = intent.and_then(|intent| intent.movement().cloned());
    Details { requester: Some(hold.by.requester.unwrap_or(hold.by.subject)), movement }
}
