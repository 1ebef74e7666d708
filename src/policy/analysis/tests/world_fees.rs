//! The wallets that take fees in small worlds, and other fields of settlement rules.

use serde_json::{Value, json};

use super::world::{Dimension, W1, W2, W3, change, lines};
use crate::base::pointer::Pointer;

pub fn fee_wallets() -> Dimension {
    let way = |wallets: &'static [&'static str]| {
        change(move |payment| {
            let wallets = wallets.iter().map(|wallet| Value::from(*wallet)).collect();
            payment.put_several(&Pointer::parse("/rules/*/walletAddress").unwrap(), wallets);
            payment.put_several(&Pointer::parse("/chain").unwrap(), vec![json!("POLYGON")]);
        })
    };
    Dimension {
        asked: vec![
            format!("fee_wallet = \"{W1}\""),
            format!("fee_wallet = {{ not_in = \"{W1}\" }}"),
            format!("fee_wallet = [\"{W1}\", \"{W2}\"]"),
        ],
        ways: vec![way(&[]), way(&[W1]), way(&[W2]), way(&[W3]), way(&[W1, W2]), way(&[W1, W3]), way(&[W2, W3])],
    }
}

/// Money that no value covers: a rule must name it.
pub fn uncovered() -> Dimension {
    let way = |places: &'static [&'static str]| {
        change(move |payment| {
            for place in places {
                payment.put_several(&Pointer::parse(place).unwrap(), vec![json!(5)]);
            }
        })
    };
    const VALUE: &str = "/rules/*/value";
    const TIERS: &str = "/rules/*/tiers/*/value";
    Dimension {
        asked: lines(&[
            "body = { \"/rules\" = \"present\" }",
            "body = { \"/rules/*/value\" = \"present\" }",
            "body = { \"/rules/*/tiers/*/value\" = \"present\" }",
            "body = { \"/rules/*/value\" = \"absent\" }",
            "body = { \"/rules/*/value\" = \"present\", \"/rules/*/tiers/*/value\" = \"absent\" }",
        ]),
        ways: vec![way(&[]), way(&[VALUE]), way(&[TIERS]), way(&[VALUE, TIERS])],
    }
}
