//! Settlement rule sets: stored as given, with defaults for missing fields.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::call::SimulatedCall;
use super::records::SimulatorRecord;

#[derive(Clone, Debug)]
pub(super) struct RuleSet {
    id: String,
    request_id: String,
    created_at: Timestamp,
    pub(super) body: Value,
}

impl RuleSet {
    /// Builds a rule set from a call, with its identifier and time.
    pub(super) fn of(call: &SimulatedCall, id: String, created_at: Timestamp) -> RuleSet {
        let wanted = call.body.pointer("/rules").and_then(Value::as_array);
        let rules: Vec<Value> = wanted.into_iter().flatten().map(rule).collect();
        let body = json!({
            "id": id,
            "chain": call.text("/chain"),
            "includeServiceFee": call.body.pointer("/includeServiceFee").cloned().unwrap_or(Value::Bool(false)),
            "rules": rules,
        });
        RuleSet { id, request_id: call.text("/requestId").unwrap_or_default().to_owned(), created_at, body }
    }
}

impl SimulatorRecord for RuleSet {
    fn id(&self) -> &str {
        &self.id
    }

    fn created_at(&self) -> Timestamp {
        self.created_at
    }

    fn request_id(&self) -> Option<&str> {
        Some(&self.request_id)
    }

    fn concerns(&self, _user: &str) -> bool {
        false
    }
}

fn rule(wanted: &Value) -> Value {
    let given = |name: &str| wanted.get(name).cloned().unwrap_or(Value::Null);
    let tiers = wanted.get("tiers").and_then(Value::as_array);
    json!({
        "type": given("type"),
        "calculationModel": given("calculationModel"),
        "walletAddress": given("walletAddress"),
        "value": given("value"),
        "tiers": tiers.map(|tiers| tiers.iter().map(tier).collect::<Vec<_>>()),
    })
}

fn tier(wanted: &Value) -> Value {
    let bound = |name: &str| wanted.get(name).and_then(Value::as_str).unwrap_or_default();
    json!({"min": bound("min"), "max": bound("max"), "value": wanted.get("value")})
}
