//! Judges the answer to a write: its outcome, and what operators should know of it.

use std::sync::Arc;

use super::foreign_payment::tell_of_answer;
use super::{Egress, SentCredential};
use crate::base::ids::RequestId;
use crate::base::json::{self, Limits};
use crate::catalog::{Listing, Movement, Operation};
use crate::ledger::StoreTime;
use crate::node::Node;
use crate::stations::claim::{Earlier, Settlement, SettlementPlace};
use crate::stations::follow::{AnsweredPayment, ForeignRecord};
use crate::stations::forward::Sent;
use crate::stations::refusal::code;
use crate::stations::reply::{Reply, settled};
use crate::stations::settle::{CallIds, Doubt, NotExecuted, Outcome, event, settle};

/// A call that was sent.
pub(super) struct SentCall {
    pub operation: Arc<Operation>,
    pub ids: CallIds,
    /// The money that it asked for.
    pub asked: Option<Movement>,
    /// Whether upstream itself proved for each earlier attempt that it was not executed.
    pub earlier_are_proven: bool,
    pub credential: SentCredential,
}

impl SentCall {
    /// Returns the outcome, and what the caller hears. An answer that repeats the gate's credential counts as it came,
    /// but without its body.
    pub fn outcome(&self, egress: &Egress, node: &Node, sent: Sent) -> (Outcome, Reply) {
        let is_revealing = self.credential.is_in_answer(&sent);
        let terms = egress.proof_terms(self.earlier_are_proven);
        let outcome = settle(&self.operation, &self.ids, terms, sent);
        let outcome = if is_revealing {
            outcome.withheld()
        } else {
            report(egress, node, &self.operation, &outcome);
            outcome
        };
        let earlier = Earlier::of(self.earlier_are_proven);
        let reply = settled(&outcome, &self.operation, self.ids.request_id.as_ref(), earlier);
        (outcome, reply)
    }

    /// Stores the outcome, and tells people where the answer says that other money moves. They are told first: then whoever
    /// follows the payment in upstream's list knows that they were.
    pub async fn settle(
        &self,
        egress: &Egress,
        node: &Arc<Node>,
        settlement: &Settlement,
        (outcome, reply): (&Outcome, &Reply),
    ) {
        if let Outcome::Executed { body: Some(body), .. } = outcome
            && let Some(found) = self.differing(node, settlement, body)
        {
            tell_of_answer(egress, node, settlement.attempt, &found).await;
        }
        node.settle(settlement, event(outcome, reply.kept())).await;
    }

    /// Returns the payment of an answer where it is not as it was sent.
    fn differing(&self, node: &Node, settlement: &Settlement, answer: &[u8]) -> Option<ForeignRecord> {
        let by_attempt = settlement.attempt.as_u64().to_string();
        let answered = AnsweredPayment {
            operation: &self.operation,
            asked: self.asked.as_ref()?,
            since: self.ids.request_id.as_ref().and_then(|_| first_attempt(settlement)),
            own_name: self.ids.request_id.as_ref().map_or(by_attempt.as_str(), RequestId::as_str),
            at: node.clock.now(),
        };
        answered.differing(answer)
    }
}

/// Returns when the first attempt of a call was made.
fn first_attempt(settlement: &Settlement) -> Option<StoreTime> {
    match &settlement.place {
        SettlementPlace::Claim { claim, at, .. } => {
            let earlier = claim.attempts.iter().map(|attempt| attempt.since);
            earlier.chain([*at]).min()
        }
        SettlementPlace::Unclaimed { .. } => None,
    }
}

fn report(egress: &Egress, node: &Node, operation: &Operation, outcome: &Outcome) {
    let environment = egress.environment.as_str();
    match outcome {
        Outcome::Unknown(Doubt::Unbelieved { status, violation }) => {
            node.metrics.drifted(environment, operation.id.as_str());
            tracing::warn!(
                environment,
                operation = operation.id.as_str(),
                http.response.status_code = status,
                pointer = violation.pointer,
                keyword = violation.keyword,
                expected = violation.expected,
                "upstream answered with a success that is not a valid answer to this call; its outcome is unknown"
            );
        }
        Outcome::NotExecuted(NotExecuted::Refused { status, body: Some(body), .. })
        | Outcome::Unknown(Doubt::Answered { status: status @ 400..500, body: Some(body), .. }) => {
            let Ok(body) = json::parse(body, Limits::UPSTREAM_TREE) else { return };
            let code = code(&body);
            if operation.refusals.listing(*status, code) == Listing::Unlisted {
                node.metrics.unlisted(environment, operation.id.as_str(), *status, code);
            }
        }
        Outcome::Executed { .. } | Outcome::NotExecuted(_) | Outcome::Unknown(_) => {}
    }
}
