//! A store that was set back knows neither what was sent since nor what was rejected.

use std::fs;
use std::path::Path;

use serde_json::json;

use super::{RULES, all_agree, answered, ask, gate, held, person, say, sent, state, swap};
use crate::support::Upstream;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn nothing_that_waited_in_a_store_that_was_set_back_is_sent() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let (paid, rejected) = (held(&gate, "m-1"), held(&gate, "m-2"));
    for hold in [&paid, &rejected] {
        assert_eq!(say(&gate, "approve", hold, "ops-1").status, 200);
    }
    let setup = gate.end();
    copy(&setup.path("sluice-data"), &setup.path("before"));
    let gate = setup.start();
    all_agree(&gate, &paid);
    assert_eq!(answered(&gate, &swap("m-1", "500")).status, 201);
    assert_eq!(say(&gate, "reject", &rejected, "ops-2").status, 200);
    let setup = gate.end();
    fs::remove_dir_all(setup.path("sluice-data")).unwrap();
    copy(&setup.path("before"), &setup.path("sluice-data"));

    let gate = setup.start();
    for hold in [&paid, &rejected] {
        assert_eq!(state(&gate, hold), "pending", "as the store knows it");
        all_agree(&gate, hold);
        assert_eq!(state(&gate, hold), "approved", "and it stays so");
    }
    let body = json!({"environment": "production", "scope": "restored", "reason": "looked at upstream's records"});
    assert_eq!(ask(&gate, "POST", "freezes/lift", &person("op", &["operator"]), Some(body)).status, 200);
    for (hold, request_id) in [(&paid, "m-1"), (&rejected, "m-2")] {
        assert_eq!(state(&gate, hold), "forgotten");
        let answer = swap(request_id, "500").send(gate.production());
        assert_eq!((answer.status, answer.code().as_str()), (403, "APPROVAL_EXPIRED"), "{answer}");
        // It may have been sent, as one of them was.
        assert_eq!(answer.outcome(), "unknown", "{answer}");
    }
    let later = held(&gate, "m-3");
    all_agree(&gate, &later);
    assert_eq!(answered(&gate, &swap("m-3", "500")).status, 201, "money is open again");
    assert_eq!(sent(&upstream), 2, "once each, and what was rejected never");
}
