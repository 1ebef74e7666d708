//! Rules and limits through the real gate: what passes, what is denied, and what is said of it.

mod answers;
mod hostile;
mod limits;
mod overspend;
pub(super) mod replay;

use crate::support::shape::fresh_id;
use crate::support::{Call, Gate, Setup, Upstream, post};

pub(super) const WALLET: &str = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";

/// A setup with these policies and no others.
pub(in crate::cases) fn ruled(upstream: &Upstream, policies: &str) -> Setup {
    Setup::of(upstream).file("policies/everything.toml", policies)
}

pub(super) fn gate(upstream: &Upstream, policies: &str) -> Gate {
    ruled(upstream, policies).start()
}

/// What passes everything else.
pub(in crate::cases) fn allow(when: &str) -> String {
    format!("[[rule]]\nid = \"allowed\"\neffect = \"allow\"\nwhen = {{ {when} }}\n")
}

pub(in crate::cases) fn limit(id: &str, lines: &str) -> String {
    format!("[[limit]]\nid = \"{id}\"\nops = [\"createSwap\"]\n{lines}\n")
}

pub(in crate::cases) fn swap_of(request_id: &str, amount: &str) -> Call {
    post("/v2/wallets/swaps").json(format!(
        r#"{{"requestId":"{request_id}","source":{{"chain":"POLYGON","currency":"usdt","amount":"{amount}"}},"destination":{{"chain":"POLYGON","currency":"usdc","walletAddress":"{WALLET}"}}}}"#
    ))
}

pub(super) fn swap(amount: &str) -> Call {
    swap_of(&fresh_id(), amount)
}
