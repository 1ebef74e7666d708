//! The rules of the model: everything is allowed, within a limit that is less than what all callers ask for together.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::Value;
use sluice::adapters::rate::Local;
use sluice::catalog::Catalog;
use sluice::ledger::{WindowKey, WindowSpan};
use sluice::node::rates::Rates;
use sluice::node::{InForce, Snapshot};
use sluice::policy::{KnownNames, Policies, read_policies};
use sluice::stations::claim::ClaimState;
use sluice::telemetry::Metrics;

use super::world::{CATALOG, ENVIRONMENT, World};

const RULES: &str = r#"
[[rule]]
id = "everything"
effect = "allow"
when = { op = "*" }

[[limit]]
id = "all"
ops = ["createSwap"]
window = "rolling 1000h"
max = "31 USD"
over = "deny"
"#;
const MAX: u64 = 31_000_000;
const HOUR: Duration = Duration::from_secs(3600);

pub static SNAPSHOT: LazyLock<Arc<Snapshot>> = LazyLock::new(|| {
    let metrics = Metrics::new().unwrap();
    let rates = Rates::new(Vec::new(), Arc::new(Local::new(0)), &metrics);
    InForce::new(CATALOG.clone(), policies(&CATALOG), rates, metrics).now()
});

fn policies(catalog: &Catalog) -> Policies {
    let known = KnownNames { catalog, issuers: &["main"], can_share: false };
    read_policies(&[("model.toml".to_owned(), RULES.to_owned())], &known).unwrap().policies
}

impl World {
    /// What the window holds.
    pub async fn used(&self) -> u64 {
        let window = WindowKey { limit: "all".to_owned(), key: "{}".to_owned() };
        let span = WindowSpan::Rolling { bucket: HOUR * 1000 / 60, count: 60 };
        self.store.used(ENVIRONMENT, &window, span).await.unwrap()
    }

    /// No more was ever moved than the limit allows; and the window holds what was moved and what is in doubt, no more.
    pub async fn check_limit(&self) {
        let amount = |text: &str| text.parse::<u64>().unwrap() * 1_000_000;
        let moved: u64 = self.upstream.effects.lock().unwrap().iter().map(|effect| amount(&effect.asked.amount)).sum();
        assert!(moved <= MAX, "{moved} moved");
        let used = self.used().await;
        let (mut counted, mut is_exact) = (0, true);
        for (request_id, state) in self.claims().await {
            counted += match state {
                Some(ClaimState::Done { executed: true, .. }) => {
                    self.upstream.effects_of(&request_id).iter().map(|effect| amount(&effect.asked.amount)).sum()
                }
                // What was told of a journal has no body.
                Some(ClaimState::Unknown { sent, .. }) if sent.body.is_empty() => {
                    is_exact = false;
                    0
                }
                Some(ClaimState::Unknown { sent, .. }) => {
                    let body: Value = serde_json::from_slice(&sent.body).unwrap();
                    amount(body["source"]["amount"].as_str().unwrap())
                }
                Some(
                    ClaimState::Done { executed: false, .. }
                    | ClaimState::Sending { .. }
                    | ClaimState::Held
                    | ClaimState::Declined(_)
                    | ClaimState::Absent
                    | ClaimState::Abandoned,
                )
                | None => 0,
            };
        }
        assert!(used == counted || (used > counted && !is_exact), "the window holds {used} instead of {counted}");
    }
}
