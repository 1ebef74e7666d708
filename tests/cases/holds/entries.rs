//! Votes, remarks and challenges leave a bounded number of entries; what takes an approval away goes on.

use serde_json::json;

use super::signed::{Enrolled, ask_to_sign};
use super::{RULES, approver, ask, gate, held, say, shown, text};
use crate::support::{Answer, Gate, Upstream};

const FULL: (u16, &str) = (429, "RATE_LIMITED");

fn comment(gate: &Gate, hold: &serde_json::Value, who: &str) -> Answer {
    let body = json!({"text": "looked"});
    ask(gate, "POST", &format!("holds/{}/comment", text(hold, "id")), &approver(who), Some(body))
}

#[test]
fn a_person_votes_and_remarks_so_often_and_always_withdraws_and_rejects() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).set_raw("console", "entries_per_hour", "6").start();
    let (first, second) = (held(&gate, "r-1"), held(&gate, "r-2"));
    assert_eq!(say(&gate, "approve", &first, "ops-1").status, 200);
    assert_eq!(comment(&gate, &first, "ops-1").status, 200);
    assert_eq!(say(&gate, "approve", &second, "ops-1").status, 200);
    for refused in [comment(&gate, &second, "ops-1"), comment(&gate, &second, "ops-1")] {
        assert_eq!((refused.status, refused.code().as_str()), FULL, "{refused}");
        assert!(refused.header("retry-after").is_some(), "{refused}");
    }
    assert_eq!(say(&gate, "withdraw", &first, "ops-1").json()["changed"], true);
    let again = say(&gate, "approve", &first, "ops-1");
    assert_eq!((again.status, again.code().as_str()), FULL, "{again}");
    assert_eq!(say(&gate, "approve", &first, "finance-1").status, 200, "others have room");
    assert_eq!(say(&gate, "reject", &second, "ops-1").status, 200);
    assert_eq!(text(&shown(&gate, &second), "state"), "rejected");
}

#[test]
fn a_person_asks_for_so_many_challenges() {
    let upstream = Upstream::start();
    let people = Enrolled::new();
    let gate = gate(&upstream, &people.rules()).set_raw("console", "entries_per_hour", "4").start();
    let hold = held(&gate, "r-1");
    let asked = |who: &str| {
        let answer = ask_to_sign(&gate, &hold, who);
        (answer.status, answer.code())
    };
    assert_eq!([asked("ops-1").0, asked("ops-1").0], [200, 200]);
    assert_eq!(asked("ops-1"), (FULL.0, FULL.1.to_owned()));
    assert_eq!(asked("finance-1").0, 200);
}
