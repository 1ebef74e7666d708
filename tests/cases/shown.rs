//! `sluice demo`: what it promises to whoever tries it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use serde_json::json;

use crate::support::clock::wait_until;
use crate::support::gate::sluice;
use crate::support::{Answer, post};

/// A running demo, what its screen says, and its steps with the values of their variables.
struct Demo {
    process: Child,
    screen: String,
    env: String,
    steps: String,
}

impl Demo {
    fn start() -> Demo {
        let mut process = sluice(&["demo", "--port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut screen = String::new();
        while !screen.ends_with("Ctrl-C ends the demo and removes its files.\n") {
            screen.push_str(&format!("{}\n", lines.next().unwrap().unwrap()));
        }
        let folder = screen.lines().find_map(|line| line.trim().strip_prefix(". ")?.strip_suffix("/env")).unwrap();
        let env = std::fs::read_to_string(format!("{folder}/env")).unwrap();
        let mut steps = std::fs::read_to_string(format!("{folder}/steps")).unwrap();
        for (name, value) in env.lines().filter_map(|line| line.split_once('=')).filter(|(name, _)| !name.contains(' '))
        {
            steps = steps.replace(&format!("${name}"), value);
        }
        // What it logs afterwards is read by somebody, so that it never waits.
        std::thread::spawn(move || lines.count());
        Demo { process, screen, env, steps }
    }

    /// The rest of the first line that begins so.
    fn told(&self, start: &str) -> &str {
        let mut all = self.screen.lines().chain(self.env.lines()).chain(self.steps.lines());
        all.find_map(|line| line.trim_start().strip_prefix(start)).unwrap().trim()
    }

    fn swap(&self, request_id: &str, amount: &str) -> Answer {
        let body = json!({
            "requestId": request_id,
            "source": {"chain": "POLYGON", "currency": "usdt", "amount": amount},
            "destination": {"chain": "POLYGON", "currency": "usdc", "walletAddress": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"},
        });
        let production: SocketAddr = self.told("production  http://").parse().unwrap();
        let call = post("/v2/wallets/swaps").json(body.to_string());
        let token = format!("Bearer {}", self.told("TOKEN="));
        call.without("Authorization").header("Authorization", token).send(production)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let interrupt = format!("kill -INT {}", self.process.id());
        Command::new("sh").args(["-c", &interrupt]).status().unwrap();
        let status = self.process.wait().unwrap();
        assert!(std::thread::panicking() || status.success(), "{status}");
    }
}

#[test]
fn the_demo_shows_what_rules_and_limits_do() {
    let demo = Demo::start();
    assert!(demo.screen.lines().count() <= 30, "one screen: {}", demo.screen);
    assert_eq!(demo.screen.matches("#token=").count(), 1, "one link with a token");
    let said = |answer: Answer| format!("{} {}", answer.status, answer.code());
    let first = demo.swap("demo-2", "25.50");
    assert_eq!((first.status, first.outcome().as_str()), (201, "executed"), "{first}");
    assert_eq!(said(demo.swap("demo-3-larger", "5000")), "202 -");
    assert_eq!(said(demo.swap("demo-3-largest", "30000")), "403 POLICY_DENIED");
    for n in 1..=3 {
        assert_eq!(demo.swap(&format!("demo-3-{n}"), &format!("2{n}")).status, 201, "{n}");
    }
    assert_eq!(said(demo.swap("demo-3-4", "24")), "202 -");
    assert_eq!(demo.swap("demo-2", "25.50").header("sluice-replayed").as_deref(), Some("true"));

    let line = demo.told("SLUICE_TOKEN=");
    let (token, words) = line.split_once(" sluice ").unwrap();
    let words: Vec<&str> = words.split(' ').collect();
    let told = sluice(&words).env("SLUICE_TOKEN", token).output().unwrap();
    let text = String::from_utf8(told.stdout).unwrap();
    let used =
        "unapproved-per-caller for environment production, caller demo:you: 91.5 USD of 5000 USD used, 4908.5 USD left";
    assert!(text.contains(used), "{text}");

    // The line that explains, as it stands there.
    let line = demo.told("sluice policy explain ");
    let (before, given) = line.split_once(" --given '").unwrap();
    let words = ["policy", "explain"].into_iter().chain(before.split(' '));
    let words: Vec<&str> = words.chain(["--given", given.trim_end_matches('\'')]).collect();
    let told = sluice(&words).output().unwrap();
    let text = String::from_utf8(told.stdout).unwrap();
    assert!(text.starts_with("hold\n  value: 5000 USD\n  because: rule larger-payments"), "{text}");
}

#[test]
fn the_demo_has_something_to_approve_by_command_line() {
    let demo = Demo::start();
    let waits = demo.swap("demo-9", "2500");
    assert_eq!((waits.status, waits.outcome().as_str()), (202, "held"), "{waits}");
    let hold = waits.json()["hold"]["id"].as_str().unwrap().to_owned();
    let lines = demo.steps.lines().map(str::trim_start).filter(|line| line.contains("sluice approvals "));
    let mut run = 0;
    for line in lines {
        let (token, words) = line.strip_prefix("SLUICE_TOKEN=").unwrap().split_once(" sluice ").unwrap();
        let words = words.replace("HOLD", &hold);
        let words: Vec<&str> = words.split(' ').collect();
        // A vote without a terminal needs it said.
        let yes = words.contains(&"approve").then_some("--yes");
        let words: Vec<&str> = words.into_iter().chain(yes).collect();
        let told = sluice(&words).env("SLUICE_TOKEN", token).output().unwrap();
        let text = String::from_utf8([told.stdout, told.stderr].concat()).unwrap();
        assert!(told.status.success() && text.contains(&hold), "{line}: {text}");
        run += 1;
    }
    assert_eq!(run, 3);
    wait_until("it to be sent", || demo.swap("demo-9", "2500").status == 201);
}
