//! Offramps: created with a quote and a deposit instruction; each pace moves them one status further.

mod status;

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::naming::NameSource;
use super::outcome::ScriptedOutcome;
use super::quote::Quote;
use super::records::SimulatorRecord;
use status::{OfframpStatus, Reached};

/// The name of the account that collects the deposits of offramps.
const COLLECTOR: &str = "collector";

#[derive(Clone, Debug)]
pub(super) struct Offramp {
    pub(super) id: String,
    pub(super) request_id: String,
    pub(super) orchestration_address_id: Option<String>,
    pub(super) created_at: Timestamp,
    pub(super) pace: Duration,
    pub(super) naming: NameSource,
    pub(super) supporting_information: Option<Value>,
    pub(super) source: Value,
    pub(super) destination: Value,
    pub(super) fees: Option<Vec<Value>>,
    pub(super) quote: Quote,
    pub(super) outcome: ScriptedOutcome,
}

impl Offramp {
    /// Returns the status at this time, and its beginning.
    fn status(&self, now: Timestamp) -> (OfframpStatus, Timestamp) {
        let path = OfframpStatus::path(self.outcome);
        let last = path.len().saturating_sub(1);
        let elapsed = now.duration_since(self.created_at).as_micros().max(0);
        let pace = i128::try_from(self.pace.as_micros()).unwrap_or(i128::MAX);
        let step = elapsed.checked_div(pace).and_then(|n| usize::try_from(n).ok()).unwrap_or(last).min(last);
        let since = u32::try_from(step)
            .ok()
            .and_then(|n| SignedDuration::try_from(self.pace).ok()?.checked_mul(i32::try_from(n).ok()?));
        let since = since.and_then(|d| self.created_at.checked_add(d).ok()).unwrap_or(self.created_at);
        (path.get(step).copied().unwrap_or(OfframpStatus::Completed), since)
    }

    pub(super) fn to_json(&self, now: Timestamp) -> Value {
        let (status, since) = self.status(now);
        let failure = if status.is_failure() { self.outcome.failure() } else { None };
        let returned =
            (status == OfframpStatus::FiatReturned).then_some("the bank returned the payment: account closed");
        let mut details = json!({
            "id": self.id,
            "requestId": self.request_id,
            "orchestrationAddressId": self.orchestration_address_id,
            "createdAt": self.created_at.to_string(),
            "updatedAt": since.to_string(),
            "status": status.as_str(),
            "failedReason": failure.map(|f| f.details).or(returned),
            "source": self.source,
            "destination": self.destination,
            "receipt": self.receipt(status),
            "quoteInformation": self.quote.to_json(),
            "depositInformation": [self.deposit(status)],
        });
        if let Some(members) = details.as_object_mut() {
            if let Some(failure) = failure {
                members.insert("error".to_owned(), json!(failure.code));
                members.insert("errorDetails".to_owned(), json!(failure.details));
            }
            if let Some(information) = &self.supporting_information {
                members.insert("supportingInformation".to_owned(), information.clone());
            }
            if let Some(fees) = &self.fees {
                members.insert("developerFee".to_owned(), self.developer_fee(fees, status));
            }
        }
        json!({"transferType": "OFFRAMP", "transferDetails": details})
    }

    fn receipt(&self, status: OfframpStatus) -> Value {
        let hash = self.transaction_hash(status);
        if status.reached() < Reached::Bank {
            return json!({"transactionHash": hash});
        }
        let same_day = self.destination.get("sameDayAch") == Some(&Value::Bool(true));
        let tracking = if same_day || self.destination.get("wireMessage").is_none() {
            json!({"traceNumber": self.naming.digits(&self.id, 15), "paymentRail": "ach"})
        } else {
            json!({
                "fedBatchId": self.naming.digits(&self.id, 12),
                "imad": format!("IMAD{}", self.naming.digits(&self.id, 16)),
                "omad": format!("OMAD{}", self.naming.digits(&self.id, 16)),
                "paymentRail": "wire",
            })
        };
        json!({"transactionHash": hash, "paymentTracking": tracking})
    }

    fn developer_fee(&self, fees: &[Value], status: OfframpStatus) -> Value {
        let hash = self.transaction_hash(status).map(|_| self.naming.transaction_hash(&format!("fee/{}", self.id)));
        json!({"id": self.naming.uuid(&format!("fee/{}", self.id)), "transactionHash": hash, "fees": fees})
    }

    fn deposit(&self, status: OfframpStatus) -> Value {
        let chain = self.source.get("chain").and_then(Value::as_str).unwrap_or("POLYGON");
        json!({
            "id": self.naming.uuid(&format!("deposit/{}", self.id)),
            "fromAddress": self.source.get("walletAddress"),
            "toAddress": self.naming.evm_address(COLLECTOR),
            "currency": self.source.get("currency"),
            "contractAddress": self.naming.evm_address("token"),
            "rawAmount": self.quote.send_gross.millionths().to_string(),
            "amount": self.source.get("amount"),
            "chain": if chain == "POLYGON" { "POLYGON_MAINNET" } else { chain },
            "collected": status.reached() >= Reached::Chain,
            "collectable": status.reached() == Reached::Deposit,
            "expiresAt": self.quote.to_json().get("expiresAt"),
            "transactionHash": self.transaction_hash(status),
        })
    }

    fn transaction_hash(&self, status: OfframpStatus) -> Option<String> {
        (status.reached() >= Reached::Chain).then(|| self.naming.transaction_hash(&self.id))
    }
}

impl SimulatorRecord for Offramp {
    fn id(&self) -> &str {
        &self.id
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }

    fn request_id(&self) -> Option<&str> {
        Some(&self.request_id)
    }

    fn concerns(&self, user: &str) -> bool {
        let is =
            |side: &Value| side.get("userId").and_then(Value::as_str).is_some_and(|u| u.eq_ignore_ascii_case(user));
        is(&self.source) || is(&self.destination)
    }
}
