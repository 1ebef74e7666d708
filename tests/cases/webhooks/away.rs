//! Webhooks that fail in every way: what was filed arrives in the end, under the same name, and others do not wait.

use serde_json::Value;

use super::{delivered, hook, hooked, message, messages, types, wait_for, waiting};
use crate::cases::holds::{held, text};
use crate::support::clock::wait_until;
use crate::support::upstream::{Reserved, answer};
use crate::support::{Act, Upstream};

const HELD: &str = r#"["hold.held"]"#;

#[test]
fn what_fails_is_sent_again_under_the_same_name_and_nothing_is_followed() {
    let (upstream, hooks, elsewhere) = (Upstream::start(), Upstream::start(), Upstream::start());
    let redirect = answer(307, &[("Location", &format!("{}/in/x", elsewhere.url()))], b"");
    hooks.next(Act::json(500, "{}")).next(Act::bytes(redirect)).next(Act::silence().close());
    let gate = hooked(&upstream, &hooks).set_raw("webhook.approvals", "events", HELD).start();
    held(&gate, "f-1");
    let told = wait_for(&hooks, 4);
    assert!(told.iter().all(|one| one["id"] == told[0]["id"] && one["data"] == told[0]["data"]), "{told:?}");
    wait_until("it to be done", || waiting(&gate, "approvals") == 0);
    let count = |outcome: &str| delivered(&gate, "approvals", outcome);
    assert_eq!([count("server_error"), count("redirect"), count("unreachable"), count("delivered")], [1, 1, 1, 1]);
    assert_eq!((hooks.seen().len(), elsewhere.connections()), (4, 0));
}

#[test]
fn one_that_hangs_does_not_hold_up_another_and_is_left_alone() {
    let (upstream, slow, quick) = (Upstream::start(), Upstream::start(), Upstream::start());
    slow.always(Act::silence().hang());
    let setup = hook(hooked(&upstream, &quick), "slow", &slow).set_raw("webhook.slow", "timeout_ms", "60_000");
    let gate = setup.set_raw("webhook.approvals", "events", HELD).start();
    for n in 0..12 {
        held(&gate, &format!("h-{n}"));
    }
    assert_eq!(types(&wait_for(&quick, 12)).get("hold.held"), Some(&12));
    assert!(slow.connections() <= 4, "{} at one time", slow.connections());
    assert_eq!(delivered(&gate, "slow", "delivered"), 0);
    wait_until("the messages to be counted", || waiting(&gate, "slow") == 12);
}

#[test]
fn a_time_that_is_asked_for_is_kept() {
    let (upstream, hooks) = (Upstream::start(), Upstream::start());
    hooks.next(Act::bytes(answer(429, &[("Retry-After", "3600")], b"")));
    let gate = hooked(&upstream, &hooks).set_raw("webhook.approvals", "events", HELD).start();
    held(&gate, "r-1");
    hooks.wait_for(0);
    let line = gate.log.wait("the log line of a failure", |lines| {
        lines.iter().find(|line| line["webhook"] == "approvals" && line["outcome"] == "client_error").cloned()
    });
    assert_eq!(line["pause_secs"], 3_600);
    held(&gate, "r-2");
    wait_until("both to wait", || waiting(&gate, "approvals") == 2);
    assert_eq!(hooks.seen().len(), 1);
}

#[test]
fn one_that_is_gone_rests_for_an_hour_or_until_the_next_start() {
    let (upstream, gone, other) = (Upstream::start(), Upstream::start(), Upstream::start());
    gone.next(Act::json(410, "{}"));
    let setup = hook(hooked(&upstream, &other), "gone", &gone).set_raw("webhook.approvals", "events", HELD);
    let setup = setup.set_raw("webhook.gone", "timeout_ms", "3_000");
    let gate = setup.set_raw("webhook.gone", "events", HELD).start();
    held(&gate, "g-1");
    wait_until("it to be gone", || delivered(&gate, "gone", "gone") == 1);
    let line = gate.log.wait("the log line of a 410", |lines| {
        lines.iter().find(|line| line["webhook"] == "gone" && line["outcome"] == "gone").cloned()
    });
    assert_eq!(line["pause_secs"], 3_600);
    held(&gate, "g-2");
    wait_for(&other, 2);
    wait_until("both to wait", || waiting(&gate, "gone") == 2);
    assert_eq!(gone.seen().len(), 1);
    let gate = gate.end().start();
    wait_until("both to arrive after the start", || waiting(&gate, "gone") == 0 && gone.seen().len() >= 3);
}

#[test]
fn an_answer_without_end_is_not_read() {
    let (upstream, hooks) = (Upstream::start(), Upstream::start());
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 16 << 20);
    hooks.always(Act::bytes([head.as_bytes(), &vec![b'x'; 16 << 20]].concat()));
    let gate = hooked(&upstream, &hooks).set_raw("webhook.approvals", "events", HELD).start();
    held(&gate, "b-1");
    wait_until("it to be delivered", || delivered(&gate, "approvals", "delivered") == 1);
    wait_until("nothing to wait", || waiting(&gate, "approvals") == 0);
    assert_eq!(hooks.seen().len(), 1);
}

#[test]
fn a_gate_that_is_killed_tells_it_after_its_next_start() {
    let (upstream, place) = (Upstream::start(), Reserved::new());
    let url = format!("{}/in/x", place.url());
    let nowhere = Upstream::start();
    let setup = hooked(&upstream, &nowhere).set("webhook.approvals", "url", &url);
    let setup = setup.set_raw("webhook.approvals", "timeout_ms", "2_000").set_raw("webhook.approvals", "events", HELD);
    let gate = setup.start();
    // Killed between the commit and the delivery: nobody is there yet.
    let first = held(&gate, "k-1");
    let setup = gate.kill();
    let hooks = place.start();
    hooks.next(Act::silence().hang());
    let gate = setup.start();
    // And while it is being delivered.
    let cut = message(&hooks.wait_for(0));
    let gate = gate.kill().start();
    let told = wait_for(&hooks, 2);
    assert_eq!((&told[1]["id"], &told[1]["data"]), (&cut["id"], &cut["data"]));
    assert_eq!(text(&cut["data"], "hold"), text(&first, "id"));
    wait_until("nothing to wait", || waiting(&gate, "approvals") == 0);
    let all: Vec<Value> = messages(&hooks);
    assert!(all.iter().all(|message| message["id"] == cut["id"]), "{all:?}");
}
