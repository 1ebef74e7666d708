//! Thirty days of payments before the simulator: the statements of all days agree with what the test sent and upstream
//! lists, and with the journal.
//!
//! The machine of gate and simulator is paused for a day at a time; `SLUICE_SEED=N` runs another month.
#![cfg(target_arch = "x86_64")]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};
use sluice::adapters::audit::kept_operand_key;

use super::dice::Dice;
use super::gate::{before, foreign, pay_past, read};
use super::seeded::variable;
use super::statement::{cents, journalled, sums, today};
use super::{ACCOUNT, CREDENTIAL, offramp};
use crate::cases::claims::audit::entries;
use crate::cases::conformance::Simulated;
use crate::cases::console::{PEOPLE, ask};
use crate::support::clock::wait_until;
use crate::support::false_clock::FalseClock;
use crate::support::gate::sluice;
use crate::support::token::{ISSUER, claims, signed};
use crate::support::{Answer, Gate, get, post};

const DAYS: usize = 30;
const DAY_SECS: u64 = 86_400;
/// A little less than a day, so that each offramp is one state further at each day's calls.
const PACE_MS: &str = "86000000";
const OTHER_ACCOUNT: &str = "22222222-2222-4222-8222-222222222222";
const USER: &str = "0e8e9f1c-2f53-4a5e-9a52-6a1c0f7d4e22";
/// Amounts with an end of their own, and one that is refused.
const SCRIPTED: [&str; 9] = ["13.13", "14.14", "15.15", "16.16", "16.16", "18.18", "19.19", "20.20", "17.17"];
const RULES: &str = r#"
[[rule]]
id = "all"
effect = "allow"
when = { op = ["createOfframp", "createSwap"], amount = "(0, 5000] USD" }
[[rule]]
id = "large"
effect = "hold"
approval = "one"
when = { op = ["createOfframp"], amount = "(5000, 6000] USD" }
[approval.one]
all = [{ of = "ops", n = 1 }]
expires = "8h"
[group.ops]
members = ["people:ops-1", "people:ops-2"]
"#;

/// The nth requestId; it shares no digits with what gates never tell.
fn id(n: usize) -> String {
    format!("5d0e5b1e-6a3c-4f60-8d8e-a1b2c3d4{n:04}")
}

/// Operation, caller, destination, and the sum.
type Place = (String, String, String, String);
/// Count and cents.
type Sums = BTreeMap<Place, (u64, u64)>;

/// A payment that was sent, as the test knows it.
#[derive(Debug)]
struct Sent {
    request_id: String,
    operation: &'static str,
    caller: &'static str,
    to: &'static str,
    cents: u64,
    /// `open` and `unknown` are under way; other words are ends.
    standing: &'static str,
    is_new: bool,
}

/// The simulated machine: its gate, its upstream, and the day.
struct Month {
    simulated: Simulated,
    gate: Gate,
    clock: FalseClock,
    day: usize,
    dice: Dice,
    calls: usize,
    sent: Vec<Sent>,
}

impl Month {
    fn begin(seed: u64) -> Month {
        let clock = FalseClock::new();
        let variables = [clock.variables().to_vec(), vec![clock.pauses()]].concat();
        let simulated = Simulated::start_within(&["--pace-ms", PACE_MS], &variables);
        let setup = before(&simulated).file("policies/everything.toml", RULES).short_quiet_time();
        let setup = variables.iter().fold(setup, |setup, (name, value)| setup.variable(name, value));
        let gate = setup.start();
        wait_until("the baseline", || read(&gate) >= 1);
        Month { simulated, gate, clock, day: 0, dice: Dice::of(seed), calls: 0, sent: Vec::new() }
    }

    /// A token of the gate's time.
    fn token(&self, issuer: &str, subject: &str) -> String {
        let mut said = claims();
        let ahead = i64::try_from(self.day).unwrap() * i64::try_from(DAY_SECS).unwrap();
        for name in ["iat", "exp"] {
            said[name] = json!(said[name].as_i64().unwrap() + ahead);
        }
        (said["iss"], said["sub"], said["roles"]) = (json!(issuer), json!(subject), json!(["operator"]));
        signed(&said)
    }

    fn operator(&self) -> String {
        self.token(PEOPLE, "ops-1")
    }

    fn simulator(&self) -> SocketAddr {
        self.simulated.url["http://".len()..].parse().unwrap()
    }

    /// Sends a call until the gate has met its store again since the pause.
    fn send(&self, path: &str, body: &Value, caller: &str) -> Answer {
        let mut last = None;
        wait_until("the gate to take calls", || {
            let call = post(path).without("Authorization");
            let call = call.header("Authorization", format!("Bearer {}", self.token(ISSUER, caller)));
            let answer = call.json(body.to_string()).send(self.gate.production());
            let is_taken = answer.status != 503;
            last = Some(answer);
            is_taken
        });
        last.unwrap()
    }

    fn pay(&mut self, operation: &'static str, amount: &str) {
        self.calls += 1;
        let request_id = id(self.calls);
        let caller = ["payroll", "treasury"][usize::try_from(self.dice.below(2)).unwrap()];
        let (path, body, to) = if operation == "createSwap" {
            let source = json!({"userId": USER, "chain": "POLYGON", "currency": "usdt", "amount": amount});
            let destination = json!({"userId": USER, "chain": "POLYGON", "currency": "usdc"});
            let body = json!({"requestId": request_id, "source": source, "destination": destination});
            ("/v2/wallets/swaps", body, USER)
        } else {
            let to = [ACCOUNT, OTHER_ACCOUNT][usize::try_from(self.dice.below(2)).unwrap()];
            let mut body = offramp(&request_id, amount);
            body["destination"]["accountId"] = json!(to);
            ("/v2/offramps", body, to)
        };
        let answer = self.send(path, &body, caller);
        let standing = match (answer.status, operation) {
            (201 | 200, "createSwap") => "settled",
            (201 | 200, _) => "open",
            (400, _) => "notExecuted",
            (502 | 504, _) => "unknown",
            // Held or denied: it was never sent.
            (202 | 403, _) => return,
            _ => panic!("{answer}"),
        };
        let cents = cents(amount);
        self.sent.push(Sent { request_id, operation, caller, to, cents, standing, is_new: true });
    }

    /// The calls of a day; returns the cents of those past the gate.
    fn calls_of_the_day(&mut self) -> Vec<u64> {
        for _ in 0..2 + self.dice.below(3) {
            let amount = format!("{}.{:02}", 40 + self.dice.below(4_000), self.dice.below(100));
            self.pay("createOfframp", &amount);
        }
        let scripted = SCRIPTED[usize::try_from(self.dice.below(9)).unwrap()];
        self.pay("createOfframp", scripted);
        self.pay("createSwap", &format!("{}.{:02}", 40 + self.dice.below(4_000), self.dice.below(100)));
        match self.day % 6 {
            1 => self.pay("createSwap", "33.33"),
            2 => self.pay("createOfframp", "5500.00"),
            3 => self.pay("createOfframp", "7000.00"),
            4 => self.pay("createOfframp", "33.33"),
            _ => {}
        }
        let mut past = Vec::new();
        if self.day % 5 == 2 {
            let n = self.day + 9_000;
            pay_past(&self.simulated, &id(n), &format!("77.{:02}", self.day));
            past.push(7_700 + u64::try_from(self.day).unwrap());
            pay_past(&self.simulated, &format!("test-deposit-m{n}"), "30");
        }
        past
    }

    /// The state of each offramp, as upstream lists it to anybody.
    fn listed(&self) -> BTreeMap<String, String> {
        let (mut states, mut before) = (BTreeMap::new(), String::new());
        loop {
            let call = get(format!("/v2/offramps?limit=100{before}")).without("Authorization");
            let call = call.header("Authorization", format!("Bearer {CREDENTIAL}"));
            let page = call.send(self.simulator()).json();
            let records = page["records"].as_array().unwrap();
            for record in records {
                let details = &record["transferDetails"];
                let text = |name: &str| details[name].as_str().unwrap().to_owned();
                states.insert(text("requestId"), text("status"));
            }
            if records.len() < 100 {
                return states;
            }
            before = format!("&createdBefore={}", page["nextCursor"].as_str().unwrap());
        }
    }

    /// What the statement of the day must say.
    fn expected(&mut self, past: &[u64]) -> Sums {
        let listed = self.listed();
        let mut sums = Sums::new();
        // The journal names payees by keyed digests.
        let key = kept_operand_key(&self.gate.path("sluice-data")).unwrap().unwrap();
        let mut count = |place: (&str, &str, &str), column: &str, cents: u64| {
            let (operation, caller, to) = place;
            let to = if to.is_empty() { String::new() } else { key.name("name", to) };
            let place = (operation.to_owned(), caller.to_owned(), to, column.to_owned());
            let sum = sums.entry(place).or_default();
            *sum = (sum.0 + 1, sum.1 + cents);
        };
        for one in &mut self.sent {
            let place = (one.operation, one.caller, one.to);
            let is_followed = one.operation == "createOfframp" && one.standing != "notExecuted";
            let now = match listed.get(&one.request_id).map(String::as_str) {
                _ if !is_followed => one.standing,
                Some("COMPLETED") => "settled",
                Some("QUOTE_FAILED" | "CANCELLED" | "CRYPTO_FAILED" | "FIAT_FAILED") => "failed",
                Some("FIAT_RETURNED" | "CRYPTO_RETURNED") => "returned",
                Some(_) => "open",
                None => panic!("upstream does not list {one:?}"),
            };
            let is_under_way = |standing: &str| matches!(standing, "open" | "unknown");
            if one.is_new {
                count(place, "sent", one.cents);
            } else if is_under_way(one.standing) {
                count(place, "opening", one.cents);
            } else if now != one.standing {
                count(place, "reopened", one.cents);
            }
            if one.is_new || is_under_way(now) || now != one.standing {
                count(place, now, one.cents);
            }
            (one.standing, one.is_new) = (now, false);
        }
        past.iter().for_each(|cents| count(("createOfframp", "", ""), "foreign", *cents));
        sums
    }

    /// Waits until the gate has read the list as it is now, and no offramp is in doubt.
    fn follow(&self) {
        let from = read(&self.gate);
        wait_until("the list to be read", || read(&self.gate) >= from + 3);
        let doubted = || {
            let answer = ask(&self.gate, "GET", "payments?status=unknown", &self.operator(), None);
            assert_eq!(answer.status, 200, "{answer}");
            let all = answer.json()["payments"].as_array().unwrap().clone();
            all.iter().filter(|one| one["operation"] == "createOfframp").count()
        };
        if doubted() > 0 {
            wait_until("the doubts to be settled", || doubted() == 0);
            let from = read(&self.gate);
            wait_until("the list to be read", || read(&self.gate) >= from + 3);
        }
    }

    /// The statement of a day, from the command line.
    fn statement(&self, day: &str, zone: &str) -> Value {
        let url = format!("http://{}", self.gate.console().unwrap());
        let words = ["payments", "statement", "--day", day, "--zone", zone, "--console", &url, "--output", "json"];
        let output = sluice(&words).env("SLUICE_TOKEN", self.operator()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Takes the statement of a day out, and verifies it.
    fn verify(&self, day: &str, zone: &str) {
        let body = json!({"format": "jsonl", "statement": {"day": day, "zone": zone}});
        let answer = ask(&self.gate, "POST", "payments/export", &self.operator(), Some(body)).json();
        let file = self.gate.path("statement.jsonl");
        std::fs::write(&file, answer["content"].as_str().unwrap()).unwrap();
        let audit = self.gate.path("sluice-audit");
        let words = ["payments", "verify", file.to_str().unwrap(), "--audit", audit.to_str().unwrap()];
        let said = sluice(&words).output().unwrap();
        let (code, text) = (said.status.code(), String::from_utf8(said.stdout).unwrap());
        // The last day goes on.
        let is_early = text.contains("was not over");
        assert!(code == Some(if is_early { 3 } else { 0 }), "{day}: {code:?} {text}");
    }
}

/// The sums of a statement by operation, caller and destination.
fn stated(statement: &Value) -> Sums {
    let mut all = Sums::new();
    for line in statement["lines"].as_array().unwrap() {
        let text = |place: &str| line.pointer(place).and_then(Value::as_str).unwrap_or_default().to_owned();
        for (column, sum) in line["sums"].as_object().unwrap() {
            if sum["count"] != 0 {
                let place = (text("/operation"), text("/owner/subject"), text("/to/keyed"), column.clone());
                let entry = all.entry(place).or_default();
                entry.0 += sum["count"].as_u64().unwrap();
                entry.1 += cents(sum["amount"].as_str().unwrap());
            }
        }
    }
    all
}

#[test]
fn the_statements_of_a_simulated_month_add_up() {
    let mut month = Month::begin(variable("SLUICE_SEED").unwrap_or(1));
    let (first, zone) = today();
    let first: jiff::civil::Date = first.parse().unwrap();
    let mut expected = Vec::new();
    for day in 0..DAYS {
        if day > 0 {
            month.clock.pause(DAY_SECS);
            month.day = day;
        }
        let found = foreign(&month.gate, "unknown-request");
        let past = month.calls_of_the_day();
        month.follow();
        wait_until("the payment past the gate", || {
            foreign(&month.gate, "unknown-request") == found + u64::try_from(past.len()).unwrap()
        });
        let of_day = month.expected(&past);
        expected.push((first.saturating_add(jiff::Span::new().days(i64::try_from(day).unwrap())).to_string(), of_day));
    }
    let mut whole: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut carried = (0, 0);
    for (day, expected) in &expected {
        let statement = month.statement(day, &zone);
        assert_eq!(&stated(&statement), expected, "{day}");
        assert_eq!(sums(&statement, "lines"), sums(&statement, "totals"), "{day}");
        let told = sums(&statement, "lines");
        let of = |names: &[&str]| {
            let sums = names.iter().map(|name| told.get(*name).copied().unwrap_or_default());
            sums.fold((0, 0), |all, sum| (all.0 + sum.0, all.1 + sum.1))
        };
        assert_eq!(of(&["opening"]), carried, "{day} begins with what the day before ended with");
        carried = of(&["open", "unknown"]);
        let ended = of(&["settled", "failed", "returned", "notExecuted", "givenUp", "open", "unknown"]);
        assert_eq!(of(&["opening", "sent", "reopened"]), ended, "{day}");
        for (column, sum) in told {
            let all = whole.entry(column).or_default();
            *all = (all.0 + sum.0, all.1 + sum.1);
        }
    }
    for column in ["sent", "settled", "failed", "returned", "reopened", "notExecuted", "unknown", "foreign"] {
        assert!(whole.contains_key(column), "the month has none: {column}");
    }
    // The journal alone says the same of the month; upstream's list does not tell how swaps end.
    let journal = journalled(&month.gate);
    let swaps: Vec<u64> = month
        .sent
        .iter()
        .filter(|one| one.operation == "createSwap" && one.standing == "settled")
        .map(|one| one.cents)
        .collect();
    let of_swaps = (u64::try_from(swaps.len()).unwrap(), swaps.iter().sum::<u64>());
    whole.entry("settled".to_owned()).and_modify(|sum| *sum = (sum.0 - of_swaps.0, sum.1 - of_swaps.1));
    for column in ["sent", "settled", "failed", "returned", "reopened", "foreign"] {
        assert_eq!(whole.get(column), journal.get(column), "{column}");
    }
    let in_journal =
        entries(&month.gate.path("sluice-audit")).iter().filter(|line| line["entry"]["what"] == "sending").count();
    assert_eq!(in_journal, month.sent.len());
    for day in [0, DAYS / 2, DAYS - 1] {
        month.verify(&expected[day].0, &zone);
    }
}
