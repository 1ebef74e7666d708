//! A rebuilt store that waits for journals may be rebuilt again, without what people do meanwhile: it is refused, or told again.

use serde_json::{Value, json};

use super::stand_ins::name;
use super::{RULES, all_agree, answered, approver, ask, gate, held, on_redis, person, say, swap, text};
use crate::cases::nodes::all_have_it;
use crate::support::clock::wait_until;
use crate::support::shape::{operation, valid};
use crate::support::{Answer, Gate, Redis, Setup, Upstream, get, post};

/// Two gates whose Redis lost its memory: the first one rebuilt it, and waits for the journal of the other one, which knows more.
struct Awaiting {
    upstream: Upstream,
    redis: Redis,
    here: Gate,
    away: Setup,
}

impl Awaiting {
    /// `before` acts while both gates run.
    fn after(before: impl FnOnce(&Gate)) -> Awaiting {
        let (upstream, redis) = (Upstream::start(), Redis::start_kept());
        let [here, away] = ["here", "away"]
            .map(|node| on_redis(gate(&upstream, RULES).short_quiet_time(), &redis, node).start().ready());
        before(&here);
        all_have_it(&redis);
        here.signal("STOP");
        assert_eq!(swap("of-the-other", "5").send(away.production()).status, 201);
        let away = away.kill();
        redis.ask(&["FLUSHALL"]);
        here.signal("CONT");
        wait_until("money to be closed", || swap("new", "5").send(here.production()).code() == "FROZEN");
        Awaiting { upstream, redis, here, away }
    }

    /// The other gate comes, and the Redis is rebuilt from its journal.
    fn comes(self) -> (Upstream, Redis, [Gate; 2]) {
        let gates = [self.here, self.away.start().ready()];
        for gate in &gates {
            wait_until("money to open", || swap("after", "5").send(gate.production()).status == 201);
        }
        (self.upstream, self.redis, gates)
    }
}

/// Nothing was done, and the answer says why.
fn is_refused(answer: &Answer) {
    assert_eq!((answer.status, answer.code().as_str()), (503, "STORE_UNAVAILABLE"), "{answer}");
    assert!(answer.text().contains("waits for the journals of other gates"), "{answer}");
}

fn act(gate: &Gate, path: &str, who: &str, body: Value) -> Answer {
    let mut body = body;
    body["environment"] = json!("production");
    body["reason"] = json!("a drill");
    ask(gate, "POST", path, &person(who, &["operator", "approver"]), Some(body))
}

fn gone(gate: &Gate, node: &str, who: &str) -> Answer {
    act(gate, "nodes/gone", who, json!({"node": node, "journal": "0".repeat(32)}))
}

fn cancel(gate: &Gate, hold: &Value) -> Answer {
    post(format!("/sluice/v1/holds/{}/cancel", text(hold, "id"))).send(gate.production())
}

#[test]
fn what_people_do_while_journals_are_awaited_is_refused_or_told_again() {
    let (mut holds, frozen) = (Vec::new(), json!({"scope": {"operation": "createOfframp"}}));
    let awaiting = Awaiting::after(|gate| {
        holds.push(held(gate, "h-1"));
        assert_eq!(say(gate, "approve", &holds[0], "ops-1").status, 200);
        assert_eq!(act(gate, "freezes", "op", frozen.clone()).status, 201);
    });
    let (here, hold) = (&awaiting.here, &holds[0]);
    for (what, who) in [("approve", "ops-2"), ("reject", "ops-2"), ("withdraw", "ops-1")] {
        is_refused(&say(here, what, hold, who));
    }
    let comment = json!({"text": "why?"});
    is_refused(&ask(here, "POST", &format!("holds/{}/comment", text(hold, "id")), &approver("ops-2"), Some(comment)));
    is_refused(&cancel(here, hold));
    is_refused(&name(here, "ops-2", "dora", 3600));
    is_refused(&act(here, "freezes/lift", "op", frozen.clone()));
    let change = valid(operation("updateUser")).send(here.production());
    assert_eq!((change.status, change.code().as_str()), (503, "FROZEN"), "no hold begins: {change}");
    // What only stops money works.
    let other = json!({"scope": {"operation": "cancelSwap"}});
    assert_eq!(act(here, "freezes", "op", other.clone()).status, 201);
    assert_eq!(act(here, "freezes", "op", json!({"scope": "all"})).status, 201);
    assert_eq!(act(here, "freezes/lift", "op", json!({"scope": "all"})).status, 202);
    assert_eq!(act(here, "freezes/lift", "op-2", json!({"scope": "all"})).status, 200);
    assert_eq!((gone(here, "ghost", "op").status, gone(here, "ghost", "op-2").status), (202, 200));
    assert_eq!(gone(here, "half-a-ghost", "op").status, 202);

    let (upstream, _redis, gates) = awaiting.comes();
    for gate in &gates {
        let listed = ask(gate, "GET", "freezes", &approver("x"), None).text();
        assert!(listed.contains("createOfframp") && listed.contains("cancelSwap"), "{listed}");
        assert!(!listed.contains("\"all\"") && !listed.contains("restored"), "{listed}");
        let listed = ask(gate, "GET", "nodes", &approver("x"), None).json();
        let ghost = listed["nodes"].as_array().unwrap().iter().find(|one| one["node"] == "ghost").cloned();
        assert_eq!(ghost.map(|ghost| ghost["gone"].clone()), Some(json!(true)), "{listed}");
    }
    let [here, away] = &gates;
    assert_eq!(gone(away, "half-a-ghost", "op-2").status, 200, "the first word stands");
    assert_eq!(name(away, "ops-3", "dora", 3600).status, 201);
    let later = held(here, "h-2");
    all_agree(away, &later);
    assert_eq!(answered(here, &swap("h-2", "500")).status, 201);
    assert!(get("/v2/users").send(away.production()).status < 300);
    drop(upstream);
}
