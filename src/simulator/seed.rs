//! The simulator's initial records. Identifiers depend on the seed only, times on the clock at the start.

mod money;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::records::{RecordDocument, SimulatorRecord};
use super::state::{RAILS, SimulatorState};
use super::users::{PersonName, User, Wallet};

/// Fills an empty state.
pub(super) fn plant(state: &mut SimulatorState, now: Timestamp) {
    users(state, now);
    bank_accounts(state, now);
    virtual_accounts(state, now);
    orchestration_addresses(state, now);
    kyc(state);
    money::offramps(state, now);
    money::transfers(state, now);
    money::batches(state, now);
    money::offers(state, now);
}

/// Returns identifiers that a demo or a test needs.
pub(super) fn data(state: &SimulatorState, now: Timestamp) -> Value {
    let ids = |records: &mut dyn Iterator<Item = &RecordDocument>| -> Vec<Value> {
        records.map(|d| json!({"id": d.id, "userIds": d.users})).collect()
    };
    let users: Vec<Value> = state.users.iter().map(User::to_json).collect();
    let offers = state.offers.iter().map(|o| {
        json!({"id": o.id, "walletId": o.wallet_id, "userId": o.user_id, "status": o.status(now).as_str(), "amount": o.amount})
    });
    json!({
        "users": users,
        "accounts": ids(&mut state.accounts.iter()),
        "virtualAccounts": ids(&mut state.virtual_accounts.iter()),
        "orchestrationAddresses": ids(&mut state.orchestration_addresses.iter()),
        "transfers": ids(&mut state.transfers.iter()),
        "batchTransfers": ids(&mut state.batches.iter()),
        "offers": offers.collect::<Vec<_>>(),
        "offramps": state.offramps.len(),
        "unluckyAmounts": {
            "13.13": "QUOTE_FAILED",
            "14.14": "CRYPTO_FAILED",
            "15.15": "FIAT_FAILED",
            "16.16": "FIAT_RETURNED",
            "17.17": "refused: INSUFFICIENT_BALANCE",
            "18.18": "IN_REVIEW",
            "19.19": "CRYPTO_RETURNED",
            "20.20": "CANCELLED",
        },
    })
}

/// Returns a moment before the start.
fn ago(now: Timestamp, hours: i64) -> Timestamp {
    let whole = Timestamp::from_second(now.as_second()).unwrap_or(now);
    whole.checked_sub(SignedDuration::from_hours(hours)).unwrap_or(whole)
}

fn users(state: &mut SimulatorState, now: Timestamp) {
    let person = |first: &str, last: &str| PersonName::Individual { first: first.to_owned(), last: last.to_owned() };
    let business = |name: &str| PersonName::Business { name: name.to_owned() };
    let all = [
        ("ada", person("Ada", "Example"), "ada@example.com"),
        ("ben", person("Ben", "Sample"), "ben@example.com"),
        ("carla", person("Carla", "Specimen"), "carla@example.com"),
        ("harbour", business("Harbour & Finch Example Ltd"), "treasury@harbour-finch.example.com"),
        ("meadow", business("Meadow Example GmbH"), "finance@meadow.example.com"),
    ];
    let naming = state.naming();
    for (age, (key, name, email)) in (0..).zip(all) {
        let address = naming.evm_address(&format!("wallet/{key}"));
        let wallet =
            |chain| Wallet { id: naming.uuid(&format!("wallet/{key}/{chain}")), chain, address: address.clone() };
        state.users.push(User {
            id: naming.uuid(&format!("user/{key}")),
            created_at: ago(now, 2400_i64.saturating_sub(age)),
            name,
            email: email.to_owned(),
            wallets: vec![wallet("ETHEREUM"), wallet("POLYGON")],
        });
    }
}

fn bank_accounts(state: &mut SimulatorState, now: Timestamp) {
    for (index, (user, name)) in (0..).zip(owners(state)) {
        let created_at = ago(now, 2000_i64.saturating_sub(index));
        let nested = nested_account(state, &user, &name, created_at);
        state.accounts.push(nested);
        let flat = flat_account(state, &user, created_at);
        state.accounts.push(flat);
    }
}

fn owners(state: &SimulatorState) -> Vec<(String, String)> {
    let name = |user: &User| user.to_json().get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    state.users.iter().map(|user| (user.id().to_owned(), name(user))).collect()
}

fn nested_account(state: &SimulatorState, user: &str, name: &str, created_at: Timestamp) -> RecordDocument {
    let naming = state.naming();
    let id = naming.uuid(&format!("account/{user}"));
    let address = json!({
        "addressLine1": "1 Example Street",
        "addressLine2": "",
        "city": "Springfield",
        "stateProvinceRegion": "IL",
        "postalCode": "62701",
        "country": "USA",
    });
    let body = json!({
        "id": id,
        "createdAt": created_at.to_string(),
        "updatedAt": created_at.to_string(),
        "accountHolder": {"type": "individual", "name": name, "address": address},
        "us": {
            "accountType": "checking",
            "accountNumber": naming.digits(&id, 10),
            "routingNumber": "021000021",
            "iban": null,
            "swiftCode": null,
            "bankName": "Example Bank",
            "bankCountry": "USA",
            "bankAddress": address,
            "currency": "usd",
        },
        "rail": {"currency": "usd", "railType": "offramp", "paymentRail": "ach"},
    });
    RecordDocument { id, users: vec![user.to_owned()], created_at, body }
}

fn flat_account(state: &SimulatorState, user: &str, created_at: Timestamp) -> RecordDocument {
    let naming = state.naming();
    let id = naming.uuid(&format!("account/{user}/flat"));
    let body = json!({
        "accountId": id,
        "userId": user,
        "createdAt": created_at.to_string(),
        "accountType": "savings",
        "accountNumber": naming.digits(&id, 10),
        "routingNumber": "021000021",
        "bankName": "Example Savings Bank",
        "isValid": true,
        "reason": "",
        "rail": {"currency": "usd", "railType": "offramp", "paymentRail": "wire"},
    });
    RecordDocument { id, users: vec![user.to_owned()], created_at, body }
}

fn virtual_accounts(state: &mut SimulatorState, now: Timestamp) {
    let naming = state.naming();
    for (index, (user, name)) in (0_i64..).zip(owners(state)) {
        let created_at = ago(now, 1500_i64.saturating_sub(index));
        let id = naming.uuid(&format!("virtual-account/{user}"));
        let bank = json!({"routingNumber": "026009593", "accountNumber": naming.digits(&id, 12)});
        let body = json!({
            "id": id,
            "createdAt": created_at.to_string(),
            "updatedAt": created_at.to_string(),
            "userId": user,
            "source": {"paymentRail": ["ach", "wire", "rtp"], "currency": "usd"},
            "destination": {
                "chain": "POLYGON",
                "currency": "usdc",
                "walletAddress": state.wallet_of(&user),
                "externalWalletId": null,
            },
            "status": if index == 4 { "deactivated" } else { "activated" },
            "depositInstructions": {
                "bankName": "Example Bank",
                "bankAddress": "1 Example Plaza, New York, NY 10001, USA",
                "beneficiary": {"name": name, "address": "1 Example Street, Springfield, IL 62701, USA"},
                "ach": bank,
                "wire": bank,
                "rtp": bank,
                "instruction": "Put the reference of the account into the memo.",
            },
            "settlementRuleId": null,
        });
        state.virtual_accounts.push(RecordDocument { id, users: vec![user], created_at, body });
    }
}

fn orchestration_addresses(state: &mut SimulatorState, now: Timestamp) {
    let naming = state.naming();
    for (index, (user, _)) in (0_i64..).zip(owners(state)) {
        for (turn, status) in (0_i64..).zip(["DEACTIVATED", "ACTIVE"]) {
            let created_at = ago(now, 1000_i64.saturating_sub(index.saturating_mul(2)).saturating_sub(turn));
            let id = naming.uuid(&format!("orchestration-address/{user}/{turn}"));
            let mut body = json!({
                "id": id,
                "userId": user,
                "address": naming.evm_address(&id),
                "source": {"currency": "usdc", "chain": "POLYGON"},
                "destination": {"currency": "usd", "accountId": naming.uuid(&format!("account/{user}"))},
                "mode": "PER_DEPOSIT",
                "schedule": {"interval": "HOURLY", "nextRunAt": ago(now, -1).to_string()},
                "thresholdAmount": "10.00",
                "status": status,
                "createdAt": created_at.to_string(),
                "updatedAt": created_at.to_string(),
                "balance": {"currency": "usdc", "amount": if turn == 0 { "0.00" } else { "42.50" }},
            });
            if let ("DEACTIVATED", Some(members)) = (status, body.as_object_mut()) {
                members.insert("deactivatedAt".to_owned(), json!(ago(now, 500).to_string()));
            }
            state.orchestration_addresses.push(RecordDocument { id, users: vec![user.clone()], created_at, body });
        }
    }
}

/// Gives the first user another status on every rail; the others are approved for USD.
fn kyc(state: &mut SimulatorState) {
    let ids: Vec<String> = state.users.iter().map(|u| u.id().to_owned()).collect();
    let statuses = ["ACTIVE", "PENDING", "RFI_PENDING", "INCOMPLETE", "REJECTED", "CREATED"];
    for (index, id) in ids.into_iter().enumerate() {
        let on_rails = RAILS.into_iter().zip(statuses);
        for (rail, status) in on_rails.take(if index == 0 { 6 } else { 1 }) {
            state.kyc.insert((id.clone(), rail), status);
        }
    }
}
