//! Comments on holds: how many there may be, and that a repeated one stands once.

use serde_json::{Value, json};

use super::{RULES, approver, ask, gate, held, say, shown, text};
use crate::support::{Answer, Gate, Upstream};

fn comment(gate: &Gate, hold: &Value, who: &str, text_of: &str) -> Answer {
    let path = format!("holds/{}/comment", text(hold, "id"));
    ask(gate, "POST", &path, &approver(who), Some(json!({"text": text_of})))
}

#[test]
fn one_person_leaves_room_for_the_comments_of_others_and_a_full_list_is_named() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "c-1");
    for n in 0..20 {
        assert_eq!(comment(&gate, &hold, "stranger", &format!("comment {n}")).status, 200, "{n}");
    }
    let refused = comment(&gate, &hold, "stranger", "one more");
    assert_eq!((refused.status, refused.code().as_str()), (409, "HOLD_FULL"), "{refused}");
    assert!(refused.text().contains("20 comments of yours"), "{refused}");
    for who in ["stranger-2", "stranger-3", "stranger-4"] {
        (0..20).for_each(|n| assert_eq!(comment(&gate, &hold, who, &format!("{n}")).status, 200));
    }
    (0..20).for_each(|n| assert_eq!(comment(&gate, &hold, "ops-1", &format!("{n}")).status, 200));
    let refused = comment(&gate, &hold, "ops-2", "too late");
    assert_eq!((refused.status, refused.code().as_str()), (409, "HOLD_FULL"), "{refused}");
    assert!(refused.text().contains("as many comments as it takes; votes go on"), "{refused}");
    assert_eq!(say(&gate, "approve", &hold, "ops-2").status, 200);

    // A row has their number alone: a hundred comments of each hold would be megabytes.
    let row = ask(&gate, "GET", "holds", &approver("ops-1"), None).json()["holds"][0].clone();
    assert_eq!((&row["noteCount"], &row["notes"]), (&json!(100), &Value::Null));
    let shown = shown(&gate, &hold);
    assert_eq!((&shown["noteCount"], shown["notes"].as_array().unwrap().len()), (&json!(100), 100));
}

#[test]
fn a_comment_whose_answer_was_lost_may_be_repeated() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let hold = held(&gate, "c-2");
    for (who, words, is_new) in [
        ("ops-1", "is this known?", true),
        ("ops-1", "is this known?", false),
        ("ops-2", "is this known?", true),
        ("ops-1", "is this known?", false),
        ("ops-1", "it is", true),
        ("ops-1", "is this known?", true),
    ] {
        let answer = comment(&gate, &hold, who, words);
        assert_eq!((answer.status, &answer.json()["changed"]), (200, &json!(is_new)), "{who}: {words}");
    }
    assert_eq!(shown(&gate, &hold)["notes"].as_array().unwrap().len(), 4);
}
