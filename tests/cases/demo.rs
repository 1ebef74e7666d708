//! The demo on a Redis: what one paid is known to the next.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Stdio};

use super::claims::{assert_again, told};
use crate::support::clock::{PATIENCE, Watch};
use crate::support::gate::sluice;
use crate::support::{Answer, Redis, post};

const SWAP: &str = r#"{"requestId": "demo-1", "source": {"chain": "POLYGON", "currency": "usdt", "amount": "25.50"}, "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"}}"#;

struct Demo {
    child: Child,
    production: SocketAddr,
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
        let token = after("TOKEN=");
        after("The store is in the Redis");
        std::thread::spawn(move || lines.for_each(drop));
        Demo { child, production, token }
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
fn a_demo_on_a_redis_knows_what_another_paid() {
    let redis = Redis::start();
    let first = Demo::start(&redis).swap();
    assert_eq!(told(&first), "201 - executed");
    assert_eq!(redis.ask(&["EXISTS", "sluice:{production}:r:claim:request/demo-1"]), ["1"]);
    assert_again(&first, &Demo::start(&redis).swap());
}
