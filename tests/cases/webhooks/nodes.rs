//! Gates that share a store tell each thing once, and remind once.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{hooked, messages, types, waiting};
use crate::cases::holds::{RULES, held, text};
use crate::support::clock::{Watch, wait_until};
use crate::support::{Gate, Redis, Setup, Upstream};

fn shared(setup: Setup, redis: &Redis, node: &str) -> Setup {
    let setup = setup.set("store", "kind", "redis").set("store", "node", node);
    setup.set("redis", "url", &redis.url()).set_raw("redis", "timeout_ms", "1000")
}

fn pair(upstream: &Upstream, hooks: &Upstream, redis: &Redis, rules: &str) -> [Gate; 2] {
    ["left", "right"].map(|node| {
        let setup = hooked(upstream, hooks).file("policies/everything.toml", rules);
        shared(setup, redis, node).start().ready()
    })
}

#[test]
fn each_is_told_once_by_one_of_them() {
    let (upstream, hooks, redis) = (Upstream::start(), Upstream::start(), Redis::start_kept());
    let gates = pair(&upstream, &hooks, &redis, RULES);
    let holds: BTreeSet<String> =
        (0..20).map(|n| text(&held(&gates[n % 2], &format!("p-{n}")), "id").to_owned()).collect();
    wait_until("all to be told", || {
        let told: BTreeSet<String> =
            messages(&hooks).iter().map(|message| text(&message["data"], "hold").to_owned()).collect();
        told == holds
    });
    wait_until("nothing to wait", || gates.iter().all(|gate| waiting(gate, "approvals") == 0));
    assert_eq!(types(&messages(&hooks)).get("hold.held"), Some(&20));
}

#[test]
fn what_a_killed_gate_filed_is_told_by_another() {
    let (upstream, hooks, redis) = (Upstream::start(), Upstream::start(), Redis::start_kept());
    let [left, right] = pair(&upstream, &hooks, &redis, RULES);
    hooks.next(crate::support::Act::silence().hang());
    let setup = shared(hooked(&upstream, &hooks), &redis, "left").set_raw("webhook.approvals", "timeout_ms", "1000");
    let right = shared(right.end(), &redis, "right").set_raw("webhook.approvals", "timeout_ms", "1000").start();
    drop(left);
    let left = setup.start().ready();
    let hold = held(&left, "o-1");
    hooks.wait_for(0);
    drop(left.kill());
    wait_until("another to tell it", || hooks.seen().len() >= 2);
    let told = messages(&hooks);
    assert_eq!((&told[0]["id"], text(&told[1]["data"], "hold")), (&told[1]["id"], text(&hold, "id")));
    wait_until("nothing to wait", || waiting(&right, "approvals") == 0);
}

/// A minute is the shortest time that people can be given, and half of it theirs before they are reminded.
#[test]
fn people_are_reminded_once() {
    let (upstream, hooks, redis) = (Upstream::start(), Upstream::start(), Redis::start_kept());
    let rules = RULES.replace("expires = \"8h\"", "expires = \"1m\"");
    let gates = pair(&upstream, &hooks, &redis, &rules);
    let holds = [held(&gates[0], "m-1"), held(&gates[1], "m-2")];
    let soon = |gate: &Gate| gate.metric(r#"sluice_holds_expiring{environment="production"}"#);
    wait_until("both to be counted", || gates.iter().all(|gate| soon(gate) == 2));
    let (watch, reminded) = (Watch::start(), || {
        let all = messages(&hooks);
        all.into_iter().filter(|message| message["type"] == "hold.reminder").collect::<Vec<_>>()
    });
    while reminded().len() < 2 {
        assert!(watch.elapsed() < Duration::from_secs(50), "nobody is reminded");
        std::thread::park_timeout(Duration::from_millis(200));
    }
    assert!(watch.elapsed() > Duration::from_secs(20), "half of the time was not over");
    let told: BTreeSet<String> = reminded().iter().map(|one| text(&one["data"], "hold").to_owned()).collect();
    assert_eq!(told, holds.iter().map(|hold| text(hold, "id").to_owned()).collect());
    wait_until("nothing to wait", || gates.iter().all(|gate| waiting(gate, "approvals") == 0));
    assert_eq!(reminded().len(), 2, "each once");
}
