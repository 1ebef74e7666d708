//! The facts that a notice looks up when it is sent: how many approvals are missing by today's rules, and, for a
//! webhook that asks for details, the money that moves.

use serde_json::json;

use super::Delivering;
use crate::adapters::webhook::Webhook;
use crate::base::ids::Environment;
use crate::ledger::StoreFault;
use crate::node::approve::progress_of;
use crate::node::holds;
use crate::notify;
use crate::notify::{Details, Message, PolicyNews, Telling, WaitingPolicies};
use crate::policy::Progress;
use crate::stations::hold::{Hold, member_of, read_again};

/// How many changes a chat is told.
const MAX_LINES: usize = 10;

/// Writes the body of a notice. Details that cannot be looked up are left out; the event itself is always sent.
pub(super) async fn body(with: &Delivering, webhook: &Webhook, environment: Environment, message: &Message) -> String {
    let told_of = |fault: &StoreFault| with.node.told_of(fault);
    let hold = hold(with, environment, message).await.inspect_err(told_of).unwrap_or_default();
    let progress = match &hold {
        Some(hold) => progress(with, environment, message, hold).await.inspect_err(told_of).unwrap_or_default(),
        None => Vec::new(),
    };
    let policies = message.policies.as_ref().map(|waiting| policy_news(with, webhook, waiting));
    let details = hold.filter(|_| webhook.details).map(|hold| details(with, environment, hold));
    let telling = Telling {
        message,
        environment,
        written: message.happened.unwrap_or_default(),
        progress: &progress,
        console: with.console.as_deref(),
        details: details.as_ref(),
        policies: policies.as_ref(),
    };
    notify::body(webhook.format, telling)
}

/// Whether all that a notice looks up is known here by now: what policies that wait would have changed takes a while.
pub(super) fn is_ready(with: &Delivering, message: &Message) -> bool {
    let now = with.in_force.now();
    let waits_for = |waiting: &WaitingPolicies| {
        let candidate = now.candidate.as_ref().filter(|one| one.policies.version() == waiting.version);
        candidate.is_some_and(|candidate| candidate.history().is_none())
    };
    !message.policies.as_ref().is_some_and(waits_for)
}

/// Looks up what policies would change, as far as they wait still.
fn policy_news(with: &Delivering, webhook: &Webhook, waiting: &WaitingPolicies) -> PolicyNews {
    let now = with.in_force.now();
    let Some(candidate) = now.candidate.as_ref().filter(|one| one.policies.version() == waiting.version) else {
        return PolicyNews::default();
    };
    let changes = candidate.difference.news(webhook.details);
    let history = candidate.history();
    let mut lines: Vec<String> = changes.iter().take(MAX_LINES).cloned().collect();
    lines.extend(history.iter().flat_map(|history| history.news_in_words(webhook.details)));
    let facts = json!({
        "changes": changes,
        "limits": candidate.difference.limits.iter().filter(|limit| limit.kind.loosens()).map(|limit| &*limit.id).collect::<Vec<_>>(),
        "rates": candidate.rates,
        "history": history.map(|history| history.as_news(webhook.details)),
    });
    PolicyNews { facts: facts.as_object().cloned().unwrap_or_default(), lines }
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
    let by = with.in_force.now();
    progress_of(&with.node, environment, &then, (&by.catalog, &by.policies)).await
}

fn details(with: &Delivering, environment: Environment, hold: Hold) -> Details {
    let intent = read_again(&with.in_force.now().catalog, environment, &hold);
    let movement = intent.and_then(|intent| intent.movement().cloned());
    Details { requester: Some(hold.by.requester.unwrap_or(hold.by.subject)), movement }
}
