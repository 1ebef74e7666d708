//! The rules of the model: everything is allowed, within a limit that is less than what all callers ask for together.

use std::sync::atomic::Ordering;
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

use super::REQUEST_IDS;
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
max = "MAX USD"
over = "deny"
"#;
const HOUR: Duration = Duration::from_secs(3600);

/// What all calls together may move, in USD, and the rules that say so.
#[derive(Debug)]
pub struct ModelLimit {
    max: u64,
    pub snapshot: Arc<Snapshot>,
}

/// Less than what is asked for at once.
pub static NARROW: LazyLock<ModelLimit> = LazyLock::new(|| limit(31));
/// Less than what is asked for in all rounds of a long history.
pub static WIDE: LazyLock<ModelLimit> = LazyLock::new(|| limit(121));

fn limit(max: u64) -> ModelLimit {
    let metrics = Metrics::new().unwrap();
    let rates = Rates::new(Vec::new(), Arc::new(Local::new(0)), &metrics);
    let snapshot = InForce::new(CATALOG.clone(), policies(&CATALOG, max), rates, metrics).now();
    ModelLimit { max, snapshot }
}

fn policies(catalog: &Catalog, max: u64) -> Policies {
    let known = KnownNames { catalog, issuers: &["main"], can_share: false };
    read_policies(&[("model.toml".to_owned(), RULES.replace("MAX", &max.to_string()))], &known).unwrap().policies
}

impl World {
    /// From now on, others are asked for than the first half of these requestIds.
    pub fn asks_for_others(&self) {
        self.asked.fetch_add(REQUEST_IDS / 2, Ordering::SeqCst);
    }

    /// The requestIds that callers ask for now.
    pub fn asked_for(&self) -> Vec<String> {
        let asked = self.asked.load(Ordering::SeqCst);
        (asked - REQUEST_IDS..asked).map(|n| format!("request-{n}")).collect()
    }

    pub fn limit(&self) -> &'static ModelLimit {
        if self.asked.load(Ordering::SeqCst) > REQUEST_IDS { &WIDE } else { &NARROW }
    }

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
        assert!(moved <= self.limit().max * 1_000_000, "{moved} moved");
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
