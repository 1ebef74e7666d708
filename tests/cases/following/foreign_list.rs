//! The list of payments that no gate sent, in pages.

use serde_json::Value;

use super::gate::{before, foreign, pay_past, read};
use super::{id, operator};
use crate::cases::conformance::Simulated;
use crate::cases::console::ask;
use crate::support::Gate;
use crate::support::clock::wait_until;
use crate::support::gate::sluice;

const PAST: usize = 103;

fn page(gate: &Gate, query: &str) -> Value {
    let answer = ask(gate, "GET", &format!("payments/foreign{query}"), &operator("ops-1"), None);
    crate::cases::console::policies::assert_described(&answer, "foreignPayments");
    answer.json()
}

fn requests(list: &Value) -> Vec<String> {
    list["payments"].as_array().unwrap().iter().map(|one| one["requestId"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn all_payments_that_no_gate_sent_are_listed_in_pages_the_newest_first() {
    let simulated = Simulated::start();
    let gate = before(&simulated).start();
    wait_until("the baseline", || read(&gate) >= 1);
    (1..=PAST).for_each(|n| pay_past(&simulated, &id(n), "1.50"));
    wait_until("each to be found", || foreign(&gate, "unknown-request") == PAST as u64);

    let newest_first: Vec<String> = (1..=PAST).rev().map(id).collect();
    let first = page(&gate, "?limit=100");
    assert_eq!((requests(&first).len(), &requests(&first)[..]), (100, &newest_first[..100]));
    let rest = page(&gate, &format!("?limit=100&after={}", first["next"].as_str().unwrap()));
    assert_eq!((requests(&rest), &rest["next"]), (newest_first[100..].to_vec(), &Value::Null));
    assert_eq!(requests(&page(&gate, "")).len(), 50);
    // Pages of any length have each payment once.
    let (mut told, mut after) = (Vec::new(), String::new());
    loop {
        let part = page(&gate, &format!("?limit=7{after}"));
        told.extend(requests(&part));
        let Some(next) = part["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(told, newest_first);
    for odd in ["?after=x", "?after=production:1", "?after=production:1:foreign", "?limit=0", "?limit=101", "?state=x"]
    {
        assert_eq!(ask(&gate, "GET", &format!("payments/foreign{odd}"), &operator("o"), None).status, 400, "{odd}");
    }

    let url = format!("http://{}", gate.console().unwrap());
    let command = |more: &[&str]| {
        let mut command = sluice(&[&["payments", "foreign", "--console", &url], more].concat());
        String::from_utf8(command.env("SLUICE_TOKEN", operator("ops-1")).output().unwrap().stdout).unwrap()
    };
    assert_eq!(command(&[]).lines().filter(|line| line.contains("unknown-request")).count(), PAST);
    let all: Value = serde_json::from_str(&command(&["--output", "json"])).unwrap();
    assert_eq!((requests(&all), all["lists"].as_array().unwrap().len()), (newest_first, 1));
}
