//! The behaviour of the simulator, without sockets and without waiting.

mod contract;
mod money;
mod reading;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::*;

#[derive(Debug, Default)]
struct HandClock {
    elapsed_ms: AtomicI64,
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        let start: Timestamp = "2025-03-01T12:00:00Z".parse().unwrap();
        start + SignedDuration::from_millis(self.elapsed_ms.load(Ordering::SeqCst))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.elapsed_ms.load(Ordering::SeqCst).unsigned_abs())
    }
}

/// Built once: it is what takes longest.
pub(super) fn catalog() -> Arc<Catalog> {
    static CATALOG: OnceLock<Arc<Catalog>> = OnceLock::new();
    CATALOG.get_or_init(|| Arc::new(whole_catalog(&SchemaFiles::built_in()).unwrap())).clone()
}

/// A simulator, its clock, and calls without a network.
struct Bench {
    simulator: Arc<Simulator>,
    clock: Arc<HandClock>,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(Settings::default())
    }

    fn with(settings: Settings) -> Bench {
        let clock = Arc::new(HandClock::default());
        let simulator = Simulator::new(catalog(), clock.clone(), settings);
        Bench { simulator, clock }
    }

    fn pass(&self, secs: i64) {
        self.clock.elapsed_ms.fetch_add(secs * 1_000, Ordering::SeqCst);
    }

    fn get(&self, target: &str) -> (u16, Value) {
        self.send("GET", target, None, Some("Bearer token"))
    }

    fn post(&self, target: &str, body: &Value) -> (u16, Value) {
        self.send("POST", target, Some(body.to_string()), Some("Bearer token"))
    }

    fn send(&self, method: &str, target: &str, body: Option<String>, authorization: Option<&str>) -> (u16, Value) {
        let mut headers = vec![("content-type".to_owned(), b"application/json".to_vec())];
        headers.extend(authorization.map(|a| ("authorization".to_owned(), a.as_bytes().to_vec())));
        let head = CallHead { method: method.parse().unwrap(), target: target.to_owned(), headers };
        let (operation, strike) = self.simulator.strike(&head);
        let body = body.unwrap_or_default();
        match self.simulator.deliver(&head, operation, Some(body.as_bytes()), strike) {
            Delivery::Http { status, body, .. } => (status, serde_json::from_slice(&body).unwrap()),
            Delivery::Wire { .. } => panic!("no fault was asked for"),
        }
    }

    /// An identifier of the seeded data.
    fn seeded(&self, pointer: &str) -> String {
        self.simulator.data().pointer(pointer).unwrap().as_str().unwrap().to_owned()
    }
}

fn swap(request_id: &str, extra: Value) -> Value {
    let mut body = json!({
        "requestId": request_id,
        "source": {"chain": "POLYGON", "currency": "usdt", "amount": "250.50"},
        "destination": {"chain": "POLYGON", "currency": "usdc"},
    });
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    body
}

fn offramp(request_id: &str, amount: &str) -> Value {
    json!({
        "requestId": request_id,
        "source": {"chain": "POLYGON", "currency": "usdc", "amount": amount},
        "destination": {"currency": "usd", "accountId": "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11"},
    })
}

fn details<'v>(record: &'v Value, name: &str) -> &'v Value {
    &record["transferDetails"][name]
}
