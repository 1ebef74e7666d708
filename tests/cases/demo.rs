//! The demo: its links lead to the console; and on a Redis, what one paid is known to the next.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use serde_json::json;

use super::claims::{assert_again, told};
use crate::support::clock::{PATIENCE, Watch, wait_until};
use crate::support::gate::sluice;
use crate::support::{Answer, Call, Redis, post};

const SWAP: &str = r#"{"requestId": "demo-1", "source": {"chain": "POLYGON", "currency": "usdt", "amount": "25.50"}, "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}}"#;

struct Demo {
    child: Child,
    production: SocketAddr,
    /// The links that sign in at the console, by who comes in.
    links: Vec<(String, String)>,
    token: String,
}

impl Demo {
    fn start(redis: &Redis) -> Demo {
        let mut demo = sluice(&["demo", "--port", "0", "--redis", &redis.url()]);
        let mut child = demo.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let watch = Watch::start();
        let mut after = |mark: &str| {
            let line = lines.find_map(|line| Some(line.unwrap().trim().strip_prefix(mark)?.to_owned()));
            assert!(watch.elapsed() < PATIENCE, "the demo is slow to say {mark}");
            line.unwrap()
        };
        let production = after("production  http://").parse().unwrap();
        let folder = after(". ").strip_suffix("/env").unwrap().to_owned();
        let read = |name: &str| std::fs::read_to_string(format!("{folder}/{name}")).unwrap();
        let rest =
            |text: &str, mark: &str| text.lines().find_map(|line| Some(line.strip_prefix(mark)?.to_owned())).unwrap();
        let links = ["ops-3, who approves      ", "finance-1, who approves  ", "ops-1, who operates      "];
        let links = links.map(|who| (who.trim().split(',').next().unwrap().to_owned(), rest(&read("links"), who)));
        let token = rest(&read("env"), "TOKEN=");
        after("What earlier demos executed in this Redis");
        std::thread::spawn(move || lines.for_each(drop));
        Demo { child, production, links: links.into(), token }
    }

    fn swap(&self) -> Answer {
        let call = post("/v2/wallets/swaps").json(SWAP);
        call.without("Authorization").header("Authorization", format!("Bearer {}", self.token)).send(self.production)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

#[test]
fn the_demo_s_links_lead_people_to_the_console() {
    let redis = Redis::start();
    let demo = Demo::start(&redis);
    for (who, link) in &demo.links {
        let (console, token) = link.strip_prefix("http://").unwrap().split_once("/#token=").unwrap();
        let console: SocketAddr = console.parse().unwrap();
        let page = Call::new("GET", "/").without("Authorization").without("Host").header("Host", console.to_string());
        let page = page.send(console);
        assert_eq!((page.status, page.header("Content-Type")), (200, Some("text/html; charset=utf-8".to_owned())));
        let sign_in = post("/sluice/v1/session").without("Authorization").header("Sluice-Console", "1");
        let sign_in = sign_in.without("Host").header("Host", console.to_string());
        let sign_in = sign_in.header("Origin", format!("http://{console}")).json(json!({ "token": token }).to_string());
        let answer = sign_in.send(console);
        assert_eq!(answer.status, 200, "{answer}");
        assert_eq!(answer.json()["person"]["subject"], json!(who));
    }
}

#[test]
fn a_demo_on_a_redis_knows_what_another_paid() {
    let redis = Redis::start();
    let first = Demo::start(&redis).swap();
    assert_eq!(told(&first), "201 - executed");
    assert_eq!(redis.ask(&["EXISTS", "sluice:{production}:r:claim:request/demo-1"]), ["1"]);
    // The first one was killed, and is waited for.
    let second = Demo::start(&redis);
    let mut again = None;
    wait_until("money to move", || {
        let answer = second.swap();
        let is_told = ![429, 503].contains(&answer.status);
        again = is_told.then_some(answer);
        is_told
    });
    assert_again(&first, &again.unwrap());
}
