//! Who is told what happens to calls that wait, and are in doubt: signed, once filed never lost, and led nowhere.

mod away;
mod command;
mod nodes;
mod places;
mod policies;
mod slow_names;
mod telling;

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::holds::{RULES, gate};
use crate::support::canary;
use crate::support::clock::wait_until;
use crate::support::upstream::Seen;
use crate::support::{Gate, Setup, Upstream};

const SECRET: &str = "whsec_c2x1aWNlLXRlc3Qtc2VjcmV0LW51bWJlci1vbmU=";
const OTHER_SECRET: &str = "whsec_c2x1aWNlLXRlc3Qtc2VjcmV0LW51bWJlci10d28=";
/// What stands in the URL, and nobody may tell.
const TOKEN: &str = "T0p-of-the-hook-1234567890";

/// A gate with holds whose webhook is `hooks`.
fn hooked(upstream: &Upstream, hooks: &Upstream) -> Setup {
    hook(gate(upstream, RULES), "approvals", hooks).set("console", "public_url", "https://console.test/")
}

/// Another webhook, on this machine.
fn hook(setup: Setup, name: &str, hooks: &Upstream) -> Setup {
    for secret in [SECRET, OTHER_SECRET, TOKEN] {
        canary::plant(secret);
    }
    let section = format!("webhook.{name}");
    setup
        .set(&section, "url", &format!("{}/in/{TOKEN}", hooks.url()))
        .set_raw(&section, "secrets", &format!("[{SECRET:?}]"))
        .set_raw(&section, "allow_private", "true")
}

/// A message as it arrived; its signature is right.
fn message(seen: &Seen) -> Value {
    assert!(seen.line().starts_with("POST /in/"), "{}", seen.line());
    let header = |name: &str| seen.head.header(name).unwrap_or_else(|| panic!("no `{name}`"));
    assert_eq!(header("content-type"), "application/json");
    assert!(is_signed(seen, SECRET), "{}", header("webhook-signature"));
    let mut message: Value = serde_json::from_slice(&seen.body).unwrap();
    message["id"] = header("webhook-id").into();
    message
}

/// By an implementation of HMAC that is not the gate's.
fn is_signed(seen: &Seen, secret: &str) -> bool {
    let header = |name: &str| seen.head.header(name).unwrap_or_default();
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let head = format!("{}.{}.", header("webhook-id"), header("webhook-timestamp"));
    let signed = [head.as_bytes(), &seen.body];
    let pad = |with: u8| -> Vec<u8> { (0..64).map(|at| key.get(at).copied().unwrap_or(0) ^ with).collect() };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(signed.concat()).finalize();
    let tag = Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize();
    let wanted = format!("v1,{}", STANDARD.encode(tag));
    header("webhook-signature").split(' ').any(|one| one == wanted)
}

fn messages(hooks: &Upstream) -> Vec<Value> {
    hooks.seen().iter().map(message).collect()
}

/// How often each type arrived.
fn types(messages: &[Value]) -> BTreeMap<String, usize> {
    let mut types = BTreeMap::new();
    for message in messages {
        *types.entry(message["type"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    types
}

/// As soon as so many arrived.
fn wait_for(hooks: &Upstream, count: usize) -> Vec<Value> {
    wait_until(&format!("{count} messages"), || hooks.seen().len() >= count);
    messages(hooks)
}

fn delivered(gate: &Gate, webhook: &str, outcome: &str) -> u64 {
    gate.metric(&format!("sluice_webhook_deliveries_total{{outcome=\"{outcome}\",webhook=\"{webhook}\"}}"))
}

fn waiting(gate: &Gate, webhook: &str) -> u64 {
    gate.metric(&format!("sluice_webhook_waiting{{environment=\"production\",webhook=\"{webhook}\"}}"))
}
