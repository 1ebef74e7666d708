//! Transfers before the start, and open offers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::decimal::SimulatorDecimal;
use super::super::offers::{Offer, OfferEnd};
use super::super::offramps::Offramp;
use super::super::outcome::ScriptedOutcome;
use super::super::quote::{Quote, market_rate};
use super::super::records::{RecordDocument, SimulatorRecord};
use super::super::state::SimulatorState;
use super::super::users::User;
use super::ago;

const OFFRAMPS: i64 = 25;
const TRANSFERS: i64 = 14;
const BATCHES: i64 = 12;
/// The failed offramps of the seed, one of each kind: hours before the start, and the amount.
const UNLUCKY: [(i64, i128); 4] = [(5, 13_130_000), (9, 14_140_000), (13, 15_150_000), (17, 16_160_000)];

pub(super) fn offramps(state: &mut SimulatorState, now: Timestamp) {
    let users = user_ids(state);
    for (index, user) in (0..OFFRAMPS).zip(users.iter().cycle()) {
        let lucky =
            SimulatorDecimal::from_millionths(i128::from(index).saturating_mul(125_250_000).saturating_add(50_000_000));
        let unlucky = UNLUCKY.into_iter().find(|(at, _)| *at == index);
        let sent = unlucky.map_or(lucky, |(_, millionths)| SimulatorDecimal::from_millionths(millionths));
        let created_at = ago(now, OFFRAMPS.saturating_sub(index).saturating_mul(6));
        let quote = Quote::of_sent(sent, "usdc", "usd", market_rate("usdc", "usd"), created_at);
        let Some(quote) = quote else { continue };
        let naming = state.naming();
        let produced = index % 8 == 3;
        state.offramps.push(Offramp {
            id: naming.uuid(&format!("offramp/seed/{index}")),
            request_id: naming.uuid(&format!("request/offramp/{index}")),
            orchestration_address_id: produced.then(|| naming.uuid(&format!("orchestration-address/{user}/1"))),
            created_at,
            pace: state.pace(),
            naming,
            supporting_information: (index % 3 == 0).then(|| json!({"detailedPurposeOfPayment": "Payroll"})),
            source: json!({
                "userId": user,
                "chain": "POLYGON",
                "currency": "usdc",
                "amount": sent.to_number(),
                "walletAddress": state.wallet_of(user),
                "user": state.person(user),
            }),
            destination: json!({
                "userId": user,
                "amount": quote.receive_net.to_number(),
                "currency": "usd",
                "user": state.person(user),
                "accountId": naming.uuid(&format!("account/{user}")),
                "sameDayAch": index % 2 == 0,
                "achReference": format!("PAY{index:03}"),
            }),
            fees: None,
            quote,
            outcome: ScriptedOutcome::of(sent),
        });
    }
}

pub(super) fn transfers(state: &mut SimulatorState, now: Timestamp) {
    let users = user_ids(state);
    let receivers = users.iter().cycle().skip(1);
    for ((index, from), to) in (0..TRANSFERS).zip(users.iter().cycle()).zip(receivers) {
        let naming = state.naming();
        let key = format!("transfer/{index}");
        let created_at = ago(now, TRANSFERS.saturating_sub(index).saturating_mul(10));
        let amount =
            SimulatorDecimal::from_millionths(i128::from(index).saturating_mul(10_500_000).saturating_add(1_000_000));
        let fee = SimulatorDecimal::from_millionths(100_000);
        let side = |user: &str| {
            json!({
                "userId": user,
                "walletAddress": state.wallet_of(user),
                "walletType": "INDIVIDUAL",
                "user": state.person(user),
            })
        };
        let id = naming.uuid(&key);
        let body = json!({
            "id": id,
            "requestId": naming.uuid(&format!("request/{key}")),
            "createdAt": created_at.to_string(),
            "updatedAt": created_at.to_string(),
            "chain": "POLYGON_MAINNET",
            "currency": "usdc",
            "contractAddress": naming.evm_address("token"),
            "status": if index == TRANSFERS.saturating_sub(1) { "CREATED" } else { "COMPLETED" },
            "failedReason": "",
            "source": side(from),
            "destination": side(to),
            "amount": amount.to_number(),
            "amountIncludeDeveloperFee": amount.plus(fee).to_number(),
            "receipt": receipt(state, &key),
            "developerFee": {
                "feeId": naming.uuid(&format!("fee/{key}")),
                "feeType": "FIX",
                "feeAmount": fee.to_number(),
                "feePercent": 0,
                "status": "CREATED",
                "transactionHash": null,
                "failedReason": null,
            },
        });
        let body = json!({"transferType": "WALLET.TRANSFER", "transferDetails": body});
        state.transfers.push(RecordDocument { id, users: vec![from.clone(), to.clone()], created_at, body });
    }
}

pub(super) fn batches(state: &mut SimulatorState, now: Timestamp) {
    let users = user_ids(state);
    for (index, from) in (0..BATCHES).zip(users.iter().cycle()) {
        let naming = state.naming();
        let key = format!("batch/{index}");
        let created_at = ago(now, BATCHES.saturating_sub(index).saturating_mul(12));
        let receivers = users.iter().filter(|user| *user != from);
        let batch: Vec<Value> = receivers.map(|user| json!({"amount": "25.00", "userId": user})).collect();
        let id = naming.uuid(&key);
        let body = json!({
            "id": id,
            "requestId": naming.uuid(&format!("request/{key}")),
            "createdAt": created_at.to_string(),
            "updatedAt": created_at.to_string(),
            "chain": "POLYGON_MAINNET",
            "currency": "usdc",
            "contractAddress": naming.evm_address("token"),
            "status": "COMPLETED",
            "failedReason": null,
            "source": {"userId": from, "walletAddress": state.wallet_of(from), "walletType": "INDIVIDUAL"},
            "destination": {"batch": batch},
            "receipt": receipt(state, &key),
        });
        let body = json!({"transferType": "WALLET.TRANSFER.BATCH", "transferDetails": body});
        state.batches.push(RecordDocument { id, users: users.clone(), created_at, body });
    }
}

/// Creates an open offer for every user; the first user has a withdrawn and an expired one as well.
pub(super) fn offers(state: &mut SimulatorState, now: Timestamp) {
    let users = user_ids(state);
    for (index, user) in (0..).zip(&users) {
        push_offer(state, user, "waiting", ago(now, 20_i64.saturating_sub(index)), None, None);
    }
    if let Some(first) = users.first() {
        let withdrawn = Some(OfferEnd::Withdrawn { at: ago(now, 40) });
        push_offer(state, first, "withdrawn", ago(now, 60), None, withdrawn);
        push_offer(state, first, "expired", ago(now, 50), Some(ago(now, 2)), None);
    }
}

fn push_offer(
    state: &mut SimulatorState,
    user: &str,
    key: &str,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    end: Option<OfferEnd>,
) {
    let naming = state.naming();
    let wallet = state.users.find(user).and_then(|u| u.wallets.first()).map(|w| w.id.clone());
    state.offers.push(Offer {
        id: naming.uuid(&format!("offer/{user}/{key}")),
        user_id: user.to_owned(),
        wallet_id: wallet.unwrap_or_default(),
        amount: "125.50",
        party: format!("example-bank::{}", naming.digits("party/example-bank", 20)),
        own_party: format!("wallet::{}", naming.digits(&format!("party/{user}"), 20)),
        creation_hash: naming.transaction_hash(&format!("offer/{user}/{key}")),
        created_at,
        expires_at,
        end,
    });
}

fn receipt(state: &SimulatorState, key: &str) -> Value {
    let naming = state.naming();
    json!({
        "transactionHash": naming.transaction_hash(key),
        "userOpHash": naming.transaction_hash(&format!("user-operation/{key}")),
    })
}

fn user_ids(state: &SimulatorState) -> Vec<String> {
    state.users.iter().map(User::id).map(str::to_owned).collect()
}
