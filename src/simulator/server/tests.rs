//! Each fault, seen from the other end of a real socket.

use std::io::ErrorKind;
use std::net::SocketAddr;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::*;
use crate::ports::Clock;
use crate::simulator::Settings;
use crate::simulator::tests::catalog;

const SWAP: &str =
    r#"{"requestId": "s-1", "source": {"currency": "usdt", "amount": "5"}, "destination": {"currency": "usdc"}}"#;
/// Long enough to be sure that nothing comes.
const PATIENCE: Duration = Duration::from_millis(300);

#[derive(Debug)]
struct StoppedClock;

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        "2025-03-01T12:00:00Z".parse().unwrap()
    }

    fn elapsed(&self) -> Duration {
        Duration::ZERO
    }
}

struct ServedSimulator {
    simulator: Arc<Simulator>,
    address: SocketAddr,
}

/// The bytes that the other end saw.
#[derive(Debug)]
struct SeenCall {
    bytes: Vec<u8>,
    end: Seeing,
}

#[derive(Debug, PartialEq, Eq)]
enum Seeing {
    /// A whole answer; the connection stays.
    Whole,
    Closed,
    Reset,
    Silent,
}

impl SeenCall {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    fn body(&self) -> String {
        self.text().split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default()
    }

    fn status(&self) -> String {
        self.text().split(' ').nth(1).unwrap_or_default().to_owned()
    }
}

async fn served() -> ServedSimulator {
    let simulator = Simulator::new(catalog(), Arc::new(StoppedClock), Settings::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(Arc::clone(&simulator).serve(listener));
    ServedSimulator { simulator, address }
}

impl ServedSimulator {
    async fn swap(&self) -> SeenCall {
        self.send("POST", "/v2/wallets/swaps", SWAP).await
    }

    async fn send(&self, method: &str, target: &str, body: &str) -> SeenCall {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nhost: sim\r\nauthorization: Bearer t\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        see(&mut stream).await
    }

    async fn ask_for(&self, fault: Value) {
        let seen = self.send("POST", "/simulator/faults", &fault.to_string()).await;
        assert_eq!(seen.status(), "201", "{}", seen.text());
    }

    async fn swap_under(&self, fault: Value) -> SeenCall {
        self.ask_for(fault).await;
        self.swap().await
    }

    fn effects(&self) -> u64 {
        self.simulator.journal().effects_of("s-1")
    }
}

async fn see(stream: &mut TcpStream) -> SeenCall {
    let mut bytes = Vec::new();
    let mut buffer = [0_u8; 65536];
    let end = loop {
        if whole(&bytes) {
            break Seeing::Whole;
        }
        match timeout(PATIENCE, stream.read(&mut buffer)).await {
            Err(_) => break Seeing::Silent,
            Ok(Ok(0)) => break Seeing::Closed,
            Ok(Ok(count)) => bytes.extend_from_slice(&buffer[..count]),
            Ok(Err(error)) if error.kind() == ErrorKind::ConnectionReset => break Seeing::Reset,
            Ok(Err(error)) => panic!("{error}"),
        }
    };
    SeenCall { bytes, end }
}

fn whole(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    length.is_some_and(|n| n.trim().parse::<usize>().unwrap() == body.len())
}

#[tokio::test]
async fn faults_before_the_effect() {
    let served = served().await;
    let once = |kind: &str| json!({"kind": kind, "operation": "createSwap", "times": 1});
    let seen = served.swap_under(once("resetBeforeReading")).await;
    assert_eq!((seen.end, seen.bytes.len()), (Seeing::Reset, 0));
    let seen = served.swap_under(once("hangBeforeEffect")).await;
    assert_eq!((seen.end, seen.bytes.len()), (Seeing::Silent, 0));
    let received = served.simulator.journal().received;
    let read: Vec<bool> = received.iter().map(|r| r.body_read).collect();
    assert_eq!((read, served.effects()), (vec![false, true], 0));
    assert_eq!((served.swap().await.status().as_str(), served.effects()), ("201", 1));
}

#[tokio::test]
async fn faults_after_the_effect_without_an_answer() {
    let served = served().await;
    for (number, kind, end) in [
        (1, "resetAfterReceiving", Seeing::Reset),
        (2, "closeAfterReceiving", Seeing::Closed),
        (3, "hang", Seeing::Silent),
    ] {
        let seen = served.swap_under(json!({"kind": kind, "times": 1})).await;
        assert_eq!((seen.end, seen.bytes.len(), served.effects()), (end, 0, number), "{kind}");
    }
    assert_eq!(served.simulator.journal().last().unwrap().status, Some(201));
}

#[tokio::test]
async fn bodies_that_end_too_early() {
    let served = served().await;
    for (number, kind, end) in [(1, "cutBody", Seeing::Reset), (2, "stallBody", Seeing::Silent)] {
        let seen = served.swap_under(json!({"kind": kind, "times": 1})).await;
        assert_eq!((seen.status().as_str(), &seen.end, served.effects()), ("201", &end, number), "{kind}");
        assert!(seen.body().starts_with('{') && seen.body().len() > 100 && !seen.body().ends_with('}'), "{kind}");
    }
}

#[tokio::test]
async fn answers_that_are_none() {
    let served = served().await;
    let seen = served.swap_under(json!({"kind": "garbage", "times": 1})).await;
    assert!(seen.end == Seeing::Closed && !seen.text().contains("HTTP/1.1"), "{seen:?}");
    let seen = served.swap_under(json!({"kind": "html500", "times": 1})).await;
    assert!(seen.status() == "500" && seen.text().contains("text/html"), "{seen:?}");
    let seen = served.swap_under(json!({"kind": "redirect", "location": "https://x.example.com/", "times": 1})).await;
    assert!(seen.status() == "302" && seen.text().contains("location: https://x.example.com/"), "{seen:?}");
    let other = json!({"kind": "answer", "status": 418, "contentType": "text/plain", "body": "teapot", "times": 1});
    let seen = served.swap_under(other).await;
    assert_eq!((seen.status().as_str(), seen.body().as_str(), served.effects()), ("418", "teapot", 0));
    let json = json!({"kind": "answer", "status": 409, "body": {"error": "busy"}, "effect": true, "times": 1});
    let seen = served.swap_under(json).await;
    assert_eq!((seen.status().as_str(), seen.body().as_str(), served.effects()), ("409", r#"{"error":"busy"}"#, 1));
}

#[tokio::test]
async fn answers_that_are_wrong() {
    let served = served().await;
    let seen = served.swap_under(json!({"kind": "brokenJson", "times": 1})).await;
    assert!(seen.end == Seeing::Whole && serde_json::from_str::<Value>(&seen.body()).is_err(), "{seen:?}");
    let seen = served.swap_under(json!({"kind": "wrongShape", "times": 1})).await;
    assert_eq!((seen.status().as_str(), seen.body().as_str()), ("201", r#"{"unexpected":true}"#));
    let seen = served.swap_under(json!({"kind": "oversize", "bytes": 100_000, "times": 1})).await;
    assert!(seen.body().len() > 100_000 && serde_json::from_str::<Value>(&seen.body()).is_ok());
    assert_eq!(served.effects(), 3);
}

#[tokio::test]
async fn lies_about_the_call() {
    let served = served().await;
    let seen = served.swap_under(json!({"kind": "foreignRecord", "times": 1})).await;
    let body: Value = serde_json::from_str(&seen.body()).unwrap();
    assert_eq!(body["transferDetails"]["requestId"], "somebody-elses");
    for status in [400, 409] {
        let seen = served.swap_under(json!({"kind": "alreadyExists", "status": status, "times": 1})).await;
        assert_eq!((seen.status(), served.effects()), (status.to_string(), 1));
        assert!(seen.body().contains("already exists"), "{seen:?}");
    }
    let seen = served.swap_under(json!({"kind": "alreadyExists", "status": 200, "times": 1})).await;
    let again: Value = serde_json::from_str(&seen.body()).unwrap();
    assert_eq!((seen.status().as_str(), served.effects()), ("200", 1));
    assert_eq!(again["transferDetails"]["id"], body["transferDetails"]["id"], "it is the first record");
    assert_eq!(again["transferDetails"]["requestId"], "s-1");
    let seen = served.swap_under(json!({"kind": "echoCredential", "times": 1})).await;
    assert_eq!(seen.text().matches("Bearer t").count(), 2, "{seen:?}");
    assert_eq!(served.effects(), 2);
}

#[tokio::test]
async fn answers_that_come_in_odd_ways() {
    let served = served().await;
    let seen = served.swap_under(json!({"kind": "interim", "count": 3, "times": 1})).await;
    assert_eq!((seen.text().matches("HTTP/1.1 103").count(), seen.text().matches("HTTP/1.1 201").count()), (3, 1));
    let seen = served.swap_under(json!({"kind": "drip", "ms": 1, "times": 1})).await;
    assert_eq!((seen.status().as_str(), seen.end, served.effects()), ("201", Seeing::Whole, 2));
    let seen = served.swap_under(json!({"kind": "lateEffect", "ms": 100, "times": 1})).await;
    assert_eq!((seen.end, seen.bytes.len(), served.effects()), (Seeing::Closed, 0, 2));
    while served.effects() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_delay_comes_after_the_effect() {
    let served = served().await;
    let seen = served.swap_under(json!({"kind": "delay", "ms": 60_000, "times": 1})).await;
    assert_eq!((seen.end, served.effects()), (Seeing::Silent, 1));
    let seen = served.swap_under(json!({"kind": "delay", "ms": 30})).await;
    assert_eq!((seen.end, served.effects()), (Seeing::Whole, 2));
}

#[tokio::test]
async fn one_connection_serves_many_calls() {
    let served = served().await;
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    for _ in 0..3 {
        stream.write_all(b"GET /v2/users HTTP/1.1\r\nhost: sim\r\nauthorization: Bearer t\r\n\r\n").await.unwrap();
        assert_eq!(see(&mut stream).await.end, Seeing::Whole);
    }
}

#[tokio::test]
async fn control_answers() {
    let served = served().await;
    served.ask_for(json!({"kind": "hang", "operation": "listUsers", "percent": 50})).await;
    let shown: Value = serde_json::from_str(&served.send("GET", "/simulator/faults", "").await.body()).unwrap();
    assert_eq!(
        shown["waiting"][0],
        json!({"kind": "hang", "operation": "listUsers", "percent": 50, "times": null, "struck": 0})
    );
    served.send("DELETE", "/simulator/faults", "").await;
    let bad = served.send("POST", "/simulator/faults", r#"{"kind": "hang", "tmes": 1}"#).await;
    assert!(bad.status() == "400" && bad.body().contains("/tmes"), "{}", bad.text());
    served.swap().await;
    let shown: Value = serde_json::from_str(&served.send("GET", "/simulator/journal?last=1", "").await.body()).unwrap();
    assert_eq!((&shown["effectsByRequest"]["s-1"], &shown["received"][0]["body"]), (&json!(1), &json!(SWAP)));
    assert_eq!(shown["swaps"][0]["transferDetails"]["requestId"], "s-1");
    assert_eq!(served.send("PUT", "/simulator/journal", "").await.status(), "405");
    assert_eq!(served.send("GET", "/simulator/nothing", "").await.status(), "404");
    served.send("DELETE", "/simulator/journal", "").await;
    assert_eq!(served.effects(), 0);
    let data: Value = serde_json::from_str(&served.send("GET", "/simulator/data", "").await.body()).unwrap();
    assert_eq!(data["users"].as_array().unwrap().len(), 5);
}
