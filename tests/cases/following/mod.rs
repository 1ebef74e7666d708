//! Payments after their send: their states, what limits count of them, and payments that no gate sent.

mod answers;
mod dice;
mod foreign_list;
mod gate;
mod hostile;
mod month;
mod older;
mod ordering;
mod pages;
mod paused_clock;
mod seeded;
mod statement;
mod world;

use serde_json::{Value, json};

use super::console::{console, operator};
use crate::support::Setup;

const CREDENTIAL: &str = "the-credential-of-the-gate";
const ACCOUNT: &str = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11";

const RULES: &str = r#"
[[rule]]
id = "offramps"
effect = "allow"
when = { op = ["createOfframp"], amount = "(0, 100000] USD" }
[[limit]]
id = "day"
ops = ["createOfframp"]
window = "rolling 24h"
per = ["environment"]
max = "100000 USD"
over = "deny"
[[limit]]
id = "calls"
ops = ["createOfframp"]
window = "rolling 24h"
per = ["environment"]
max = "1000 calls"
over = "deny"
"#;

/// A gate that follows soon, and again soon.
fn following(setup: Setup) -> Setup {
    console(setup)
        .set("production", "credential", CREDENTIAL)
        .set_raw("follow", "interval_ms", "100")
        .set_raw("follow", "longest_pause_ms", "200")
        .file("policies/everything.toml", RULES)
}

/// An offramp of this amount.
fn offramp(request_id: &str, amount: &str) -> Value {
    json!({
        "requestId": request_id,
        "source": {"userId": "0e8e9f1c-2f53-4a5e-9a52-6a1c0f7d4e22", "chain": "POLYGON", "currency": "usdc", "amount": amount},
        "destination": {"accountId": ACCOUNT},
    })
}

/// The nth requestId.
fn id(n: usize) -> String {
    format!("00000000-0000-4000-8000-{n:012}")
}
