//! Tells people of a call that upstream executed otherwise than it was sent.
//!
//! The call counts as executed, whatever the answer says. People hear of it as of a payment in upstream's list that is not
//! as it was sent: by an error, by the metric, by a notice, and in the list of such payments.

use std::time::Duration;

use tokio::time::timeout;

use super::Egress;
use crate::base::ids::Environment;
use crate::ledger::{Index, Keep, Number, StoreFault};
use crate::node::Node;
use crate::stations::follow::{ForeignRecord, foreign, foreign_key, foreign_name};

/// The most members of the list of such payments.
pub(super) const MAX_LISTED: usize = 4_096;
/// How long the outcome of the call waits until the payment is listed.
const PATIENCE: Duration = Duration::from_secs(1);

/// Tells people of the payment in an answer, and lists it.
pub(super) async fn tell_of_answer(egress: &Egress, node: &Node, attempt: Number, found: &ForeignRecord) {
    node.metrics.foreign(egress.environment.as_str(), found.operation.as_str(), found.problem.as_str());
    tracing::error!(
        environment = egress.environment.as_str(),
        operation = found.operation.as_str(),
        attempt = attempt.as_u64(),
        record = found.id,
        problem = found.problem.as_str(),
        "upstream executed a call otherwise than it was sent: {}; find out what was paid",
        found.problem.in_words()
    );
    if let Ok(Err(fault)) = timeout(PATIENCE, list(node, egress.environment, found)).await {
        node.told_of(&fault);
    }
}

/// Tells people of a listed record that is none of its call, once, and lists it. The readings of the list tell of it, too, where
/// they have not seen it before the call.
pub(super) async fn tell_of_record(egress: &Egress, node: &Node, found: &ForeignRecord) -> Result<(), StoreFault> {
    let name = foreign_name(&found.operation, &found.id, found.problem);
    if node.store.read(&foreign_key(egress.environment, &name)).await?.0.is_some() {
        return Ok(());
    }
    node.metrics.foreign(egress.environment.as_str(), found.operation.as_str(), found.problem.as_str());
    list(node, egress.environment, found).await
}

async fn list(node: &Node, environment: Environment, found: &ForeignRecord) -> Result<(), StoreFault> {
    let name = foreign_name(&found.operation, &found.id, found.problem);
    if node.store.read(&foreign_key(environment, &name)).await?.0.is_some() {
        return Ok(());
    }
    if room_in_list(node, environment).await? == 0 {
        log_full_list(environment, &found.id);
        return Ok(());
    }
    let keep = match node.terms.keep {
        Keep::For { whole, spent } => Keep::For { whole: whole.saturating_add(spent), spent: Duration::ZERO },
        Keep::Forever => Keep::Forever,
    };
    node.commit(foreign(environment, found, keep, &node.id)).await.map(|_| ())
}

/// Returns how many more payments the list takes.
pub(super) async fn room_in_list(node: &Node, environment: Environment) -> Result<usize, StoreFault> {
    let listed = node.store.due(environment, Index::Foreign, None, MAX_LISTED).await?.len();
    Ok(MAX_LISTED.saturating_sub(listed))
}

pub(super) fn log_full_list(environment: Environment, record: &str) {
    tracing::error!(%environment, record, "too many foreign payments are listed already: this one is only logged");
}
