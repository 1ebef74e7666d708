//! The metric templates, as in part 4.14 of the interface.

use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Value, json};

use super::super::records::SimulatorRecord;
use super::super::state::SimulatorState;

const EARLIEST: &str = "2024-07-01";
const STATUSES: [&str; 16] = [
    "AWAITING_FUNDS",
    "COMPLETED",
    "CRYPTO_FAILED",
    "CRYPTO_INITIATED",
    "CRYPTO_PENDING",
    "FAILED",
    "FIAT_FAILED",
    "FIAT_INITIATED",
    "FIAT_PENDING",
    "FIAT_PROCESSED",
    "FIAT_RETURNED",
    "INITIATED",
    "NOT_INITIATED",
    "PENDING",
    "QUOTE_FAILED",
    "REJECTED",
];

pub(super) fn templates(state: &SimulatorState, now: Timestamp) -> Value {
    let today = now.to_zoned(TimeZone::UTC).date().to_string();
    let breakdowns = ["transactionType", "transactionStatus", "userId"];
    let users: Vec<&str> = state.users.iter().map(SimulatorRecord::id).collect();
    let volume = json!({
        "template": "GROSS_VOLUME",
        "displayName": "Gross volume",
        "description": "Total USD-equivalent value of completed onramp and offramp transactions",
        "supportedParams": parameters(&today, &[types(), user_ids(&users), breakdown(&breakdowns)]),
        "rules": ["createdBefore must be after createdAfter", "at most 2 breakdowns"],
        "breakdownOptions": breakdowns,
    });
    let count = json!({
        "template": "TRANSACTION_COUNT",
        "displayName": "Transaction count",
        "description": "Count of transactions grouped by status and type over time",
        "supportedParams": parameters(&today, &[types(), statuses(), user_ids(&users), breakdown(&breakdowns)]),
        "rules": ["createdBefore must be after createdAfter", "at most 2 breakdowns"],
        "breakdownOptions": breakdowns,
    });
    let new_users = json!({
        "template": "NEW_USERS",
        "displayName": "New users",
        "description": "Count of new unique end users onboarded in the period",
        "supportedParams": parameters(&today, &[]),
        "rules": ["createdBefore must be after createdAfter"],
        "breakdownOptions": null,
    });
    json!({"status": "success", "data": [volume, count, new_users], "metadata": {"count": 3}})
}

fn parameters(today: &str, own: &[Value]) -> Vec<Value> {
    let first = json!({"minDate": EARLIEST, "maxDate": today});
    let last = json!({"maxDate": today, "after": "createdAfter"});
    let shared = [
        json!({"name": "createdAfter", "type": "date", "required": true, "multiple": false, "constraints": first}),
        json!({"name": "createdBefore", "type": "date", "required": true, "multiple": false, "constraints": last}),
        options("calculationInterval", true, false, &["day", "week", "month"]),
    ];
    let bounds = json!({"min": 1, "max": 10000});
    let limit = json!({"name": "limit", "type": "number", "required": false, "multiple": false, "constraints": bounds});
    shared.into_iter().chain(own.iter().cloned()).chain([limit]).collect()
}

fn types() -> Value {
    options("transactionTypes", false, true, &["onramp", "offramp", "transfer"])
}

fn statuses() -> Value {
    options("transactionStatuses", false, true, &STATUSES)
}

fn options(name: &str, required: bool, multiple: bool, options: &[&str]) -> Value {
    json!({"name": name, "type": "enum", "required": required, "multiple": multiple, "options": options})
}

fn breakdown(of: &[&str]) -> Value {
    let constraints = json!({"maxItems": 2});
    json!({"name": "breakdowns", "type": "enum", "required": false, "multiple": true, "options": of, "constraints": constraints})
}

fn user_ids(users: &[&str]) -> Value {
    json!({
        "name": "userIds",
        "type": "uuid",
        "required": false,
        "multiple": true,
        "options": users,
        "optionsCount": users.len(),
        "optionsTruncated": false,
        "optionsEndpoint": "/reporting/params/userIds/options",
    })
}
