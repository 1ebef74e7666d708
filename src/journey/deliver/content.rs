//! What is looked up when a message is told: how many people are missing by the rules of now, and, for a webhook that
//! asks for details, what moves.

use super::Delivering;
use crate::adapters::webhook::Webhook;
use crate::base::ids::Environment;
use crate::journey::holds;
use crate::policy::Progress;
use crate::stations::decide::{Consent, progress};
use crate::stations::hold::read_again;
use crate::stations::tell::{self, Details, Message, Telling};

pub(super) async fn body(with: &Delivering, webhook: &Webhook, environment: Environment, message: &Message) -> String {
    let details = if webhook.details { details(with, environment, message).await } else { None };
    let telling = Telling {
        message,
        environment,
        written: message.happened.unwrap_or_default(),
        progress: &progress_of(with, message),
        console: with.console.as_deref(),
        details: details.as_ref(),
    };
    tell::body(webhook.format, telling)
}

fn progress_of(with: &Delivering, message: &Message) -> Vec<Progress> {
    let Some(waited) = &message.waited else { return Vec::new() };
    let agreed = waited.agreed.clone();
    let consent = Consent { fingerprint: agreed.fingerprint, asked: agreed.asked, people: agreed.people };
    progress(consent.fingerprint, &waited.agreed.asked, &with.in_force.now().policies, &consent)
}

/// What cannot be looked up is not told; that it happened is.
async fn details(with: &Delivering, environment: Environment, message: &Message) -> Option<Details> {
    let key = holds::key(environment, message.hold.as_ref()?);
    let (_, hold) = with.books.find_hold(&key).await.inspect_err(|fault| with.books.told_of(fault)).ok()??;
    let movement =
        read_again(&with.in_force.now().catalog, environment, &hold).and_then(|intent| intent.movement().cloned());
    let requester = hold.by.requester.unwrap_or(hold.by.subject);
    Some(Details { requester: Some(requester), movement })
}
