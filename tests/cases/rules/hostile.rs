//! Bodies that want to be taken for something else: none gets past a rule that it should meet.

use serde_json::{Value, json};

use super::{WALLET, gate, ruled};
use crate::support::{Upstream, post};

const ACCOUNT: &str = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11";

/// Up to 100 USD to one wallet; nothing on Tron, nothing in usdcx.
fn policies() -> String {
    format!(
        r#"
[list.ours]
wallet = ["{WALLET}"]

[[rule]]
id = "small"
effect = "allow"
when = {{ op = "createSwap", amount = "(0, 100] USD", destination.wallet = "@ours", source.chain = ["POLYGON", "SOLANA"] }}

[[rule]]
id = "small-offramps"
effect = "allow"
when = {{ op = "createOfframp", amount = "(0, 100] USD", body = {{ "/developerFee" = "absent" }} }}

[[rule]]
id = "no-usdcx"
effect = "deny"
when = {{ op = ["createSwap", "createOfframp"], currency = ["usdcx"] }}
"#
    )
}

fn body() -> Value {
    json!({
        "requestId": "r-1",
        "source": {"chain": "POLYGON", "currency": "usdt", "amount": "10"},
        "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": WALLET},
    })
}

fn with(pointer: &str, value: Value) -> String {
    let mut body = body();
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    body.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(name.to_owned(), value);
    body.to_string()
}

#[test]
fn no_writing_of_a_payment_gets_past_its_rules() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, &policies());
    let amount = |text: &str| with("/source/amount", json!(text));
    let other = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
    let rows: Vec<(&str, String)> = vec![
        ("an exponent", amount("1e9")),
        ("a small exponent", amount("1000e-1")),
        ("a sign", amount("+1000")),
        ("a minus", amount("-1")),
        ("too many decimals", amount("1.0000001")),
        ("huge", amount(&"9".repeat(60))),
        ("over u64", amount("18446744073709551617")),
        ("zero", amount("0")),
        ("zero in decimals", amount("0.000000")),
        ("unicode digits", amount("\u{661}\u{660}")),
        ("wide digits", amount("\u{ff11}\u{ff10}")),
        ("a comma", amount("1,000")),
        ("a space", amount("10 ")),
        ("hexadecimal", amount("0x10")),
        ("empty", amount("")),
        ("a point alone", amount(".5")),
        ("a trailing point", amount("5.")),
        ("two amounts that disagree", with("/destination/amount", json!("100000"))),
        ("no amount at all", with("/source", json!({"chain": "POLYGON", "currency": "usdt"}))),
        ("an unknown asset", with("/source/currency", json!("doge"))),
        ("an asset that is denied, in other letters", with("/source/currency", json!("USDCX"))),
        ("the same, on the other side", with("/destination/currency", json!("UsdcX"))),
        ("a chain that is not allowed, in other letters", with("/source/chain", json!("tron"))),
        ("a wallet of somebody else", with("/destination/walletAddress", json!(other))),
        ("the wallet with a wrong checksum", with("/destination/walletAddress", json!(WALLET.replace("5aA", "5AA")))),
        ("a wallet without its chain", with("/destination", json!({"currency": "usdc", "walletAddress": WALLET}))),
        ("a wallet on an unknown chain", with("/destination/chain", json!("MOONBEAM"))),
        ("the wallet and a blank", with("/destination/walletAddress", json!(format!("{WALLET} ")))),
        ("the wallet and a line feed", with("/destination/walletAddress", json!(format!("{WALLET}\n")))),
        ("the wallet and a hidden character", with("/destination/walletAddress", json!(format!("{WALLET}\u{200b}")))),
        (
            "the wallet as an account of CAIP-10",
            with("/destination/walletAddress", json!(format!("eip155:137:{WALLET}"))),
        ),
        ("a domain name", with("/destination/walletAddress", json!("vitalik.eth"))),
        ("the wallet without 0x", with("/destination/walletAddress", json!(WALLET.trim_start_matches("0x")))),
        ("the wallet with 0X", with("/destination/walletAddress", json!(WALLET.replacen("0x", "0X", 1)))),
        ("the wallet with more zeros", with("/destination/walletAddress", json!(WALLET.replacen("0x", "0x00", 1)))),
        ("the wallet behind a byte order mark", with("/destination/walletAddress", json!(format!("\u{feff}{WALLET}")))),
        (
            "the wallet in digits of another script",
            with("/destination/walletAddress", json!(WALLET.replace('5', "\u{ff15}"))),
        ),
        ("the wallet as a list", with("/destination/walletAddress", json!([WALLET]))),
        ("a user in digits of another script", with("/destination/userId", json!(ACCOUNT.replace('9', "\u{669}")))),
        ("a user and a blank", with("/destination/userId", json!(format!("{ACCOUNT} ")))),
        ("a user in braces", with("/destination/userId", json!(format!("{{{ACCOUNT}}}")))),
        ("a user without hyphens", with("/destination/userId", json!(ACCOUNT.replace('-', "")))),
        (
            "a reference in digits of another script",
            with("/destination/externalWalletId", json!(ACCOUNT.replace('9', "\u{ff19}"))),
        ),
        ("a second destination", with("/destination/externalWalletId", json!("9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11"))),
        ("a place that nobody knows", with("/memo", json!("x"))),
        ("another place in a side", with("/source/bonus", json!("1000"))),
        (
            "a second requestId",
            body().to_string().replacen("\"requestId\":\"r-1\"", "\"requestId\":\"r-1\",\"requestId\":\"r-2\"", 1),
        ),
        (
            "a second amount",
            body().to_string().replacen("\"amount\":\"10\"", "\"amount\":\"10\",\"amount\":\"5000\"", 1),
        ),
        ("a price that is much", with("/limitPrice", json!("1e4"))),
    ];
    for (name, body) in rows {
        let answer = post("/v2/wallets/swaps").json(&body).send(gate.production());
        let told = (answer.status, answer.code());
        assert!(matches!(told.0, 400 | 403), "{name}: {answer}");
        assert!(upstream.seen().is_empty(), "{name} was sent");
    }
    for (name, pointer, value) in [
        ("more than is allowed, as a number", "/source/amount", json!(100.01)),
        ("a fee", "/developerFee", json!({"fees": []})),
        ("an asset that is denied", "/source/currency", json!("USDCX")),
        ("the account in digits of another script", "/destination/accountId", json!(ACCOUNT.replace('9', "\u{669}"))),
        ("the account and a hidden character", "/destination/accountId", json!(format!("{ACCOUNT}\u{200d}"))),
        ("the account without hyphens", "/destination/accountId", json!(ACCOUNT.replace('-', ""))),
        ("the account as a URN", "/destination/accountId", json!(format!("urn:uuid:{ACCOUNT}"))),
    ] {
        let mut body = offramp();
        let (parent, member) = pointer.rsplit_once('/').unwrap();
        body.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(member.to_owned(), value);
        let answer = post("/v2/offramps").json(body.to_string()).send(gate.production());
        assert!(matches!(answer.status, 400 | 403), "{name}: {answer}");
        assert!(upstream.seen().is_empty(), "{name} was sent");
    }
    // What is only written in another way is the same payment, and passes.
    for (name, body) in [
        ("as it is", body().to_string()),
        ("the wallet in small letters", with("/destination/walletAddress", json!(WALLET.to_lowercase()))),
        ("the chain in small letters", with("/source/chain", json!("polygon"))),
    ] {
        let body = body.replace("r-1", &format!("r-{}", name.len()));
        let answer = post("/v2/wallets/swaps").json(&body).send(gate.production());
        assert!(answer.status == 200 || answer.status == 400, "{name}: {answer}");
    }
    assert!(!upstream.seen().is_empty());
    assert_eq!(post("/v2/offramps").json(offramp().to_string()).send(gate.production()).status, 200);
}

/// A fee is money that leaves, and its wallet a place that money goes to.
#[test]
fn a_fee_counts_as_much_as_an_amount() {
    let account = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11";
    let rules = format!(
        r#"
[[rule]]
id = "listed"
effect = "allow"
when = {{ op = "createOfframp", amount = "(0, 5000] USD", destination.account = "{account}", fee_wallet = "{WALLET}" }}

[[limit]]
id = "day"
ops = "createOfframp"
window = "rolling 24h"
max = "6000 USD"
over = "deny"

[[invariant]]
id = "nothing-large"
never = {{ effect = "allow", op = "createOfframp", amount = "(5000, inf) USD" }}
"#
    );
    let upstream = Upstream::start();
    let gate = gate(&upstream, &rules);
    let pay = |id: &str, kind: &str, value: &str, wallet: &str| {
        let body = json!({
            "requestId": id,
            "source": {"chain": "POLYGON", "currency": "usdc", "amount": "10"},
            "destination": {"accountId": account},
            "developerFee": {"fees": [{"type": kind, "value": value, "walletAddress": wallet}]},
        });
        post("/v2/offramps").json(body.to_string()).send(gate.production())
    };
    let other = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359";
    for (id, kind, value, wallet) in [
        ("r-1", "FLAT", "4000000", WALLET),
        ("r-2", "FLAT", "4990.000001", WALLET),
        ("r-3", "PERCENTAGE", "500", WALLET),
        ("r-4", "FLAT", "1", other),
    ] {
        let answer = pay(id, kind, value, wallet);
        assert_eq!((answer.status, answer.code()), (403, "POLICY_DENIED".to_owned()), "{value} to {wallet}: {answer}");
    }
    assert!(upstream.seen().is_empty());
    let paid = pay("r-5", "FLAT", "4990", WALLET);
    assert_eq!(paid.status, 200, "{paid}");
    let over = pay("r-6", "FLAT", "1000", WALLET);
    assert_eq!((over.status, over.code()), (403, "LIMIT_EXCEEDED".to_owned()), "the limit counts fees: {over}");
}

#[test]
fn a_place_that_the_contract_does_not_know_passes_where_it_is_listed_and_a_rule_names_it() {
    let upstream = Upstream::start();
    let rules = "[[rule]]\nid = \"noted\"\neffect = \"allow\"\n\
                 when = { op = \"createOfframp\", body = { \"/memo\" = { in = [\"rent\", \"salary\"] } } }\n\
                 [[rule]]\nid = \"plain\"\neffect = \"allow\"\nwhen = { op = \"createOfframp\" }\n";
    let gate = ruled(&upstream, rules).set_raw("catalog", "further", r#"["createOfframp:/memo"]"#).start();
    let noted = |id: &str, memo: &str| {
        let mut body = offramp();
        body["requestId"] = json!(id);
        body["memo"] = json!(memo);
        post("/v2/offramps").json(body.to_string()).send(gate.production())
    };
    assert_eq!(noted("o-2", "rent").status, 200);
    assert!(upstream.wait_for(0).text().contains(r#""memo":"rent""#));
    let denied = noted("o-3", "a gift");
    assert_eq!((denied.status, denied.code().as_str()), (403, "POLICY_DENIED"), "{denied}");
    assert!(denied.text().contains("`/memo` is stated"), "{denied}");
    assert_eq!(upstream.seen().len(), 1);
}

fn offramp() -> Value {
    let user = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
    json!({
        "requestId": "o-1",
        "source": {"userId": user, "chain": "POLYGON", "currency": "usdc", "amount": "10"},
        "destination": {"userId": user, "currency": "usd", "accountId": "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11"},
    })
}
