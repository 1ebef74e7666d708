//! A store that was set back knows neither what was sent since nor what was rejected; the journal knows both.

use std::fs;

use super::{RULES, all_agree, answered, gate, held, say, sent, state, swap};
use crate::support::{Upstream, copy_folder};

#[test]
fn holds_stand_as_they_stood_after_the_store_was_set_back() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, RULES).start();
    let (paid, rejected) = (held(&gate, "m-1"), held(&gate, "m-2"));
    for hold in [&paid, &rejected] {
        assert_eq!(say(&gate, "approve", hold, "ops-1").status, 200);
    }
    let setup = gate.end();
    copy_folder(&setup.path("sluice-data"), &setup.path("before"));
    let gate = setup.start();
    all_agree(&gate, &paid);
    assert_eq!(answered(&gate, &swap("m-1", "500")).status, 201);
    assert_eq!(say(&gate, "reject", &rejected, "ops-2").status, 200);
    let waiting = held(&gate, "m-3");
    assert_eq!(say(&gate, "approve", &waiting, "ops-1").status, 200);
    let setup = gate.end();
    fs::remove_dir_all(setup.path("sluice-data")).unwrap();
    copy_folder(&setup.path("before"), &setup.path("sluice-data"));

    let gate = setup.start();
    assert_eq!(answered(&gate, &swap("m-1", "500")).status, 201, "it was paid, and is told so");
    assert_eq!(state(&gate, &paid), "released");
    assert_eq!(state(&gate, &rejected), "rejected");
    let answer = swap("m-2", "500").send(gate.production());
    assert_eq!((answer.status, answer.code().as_str()), (403, "APPROVAL_REJECTED"), "{answer}");
    assert_eq!(say(&gate, "approve", &rejected, "ops-3").status, 409);
    assert_eq!(state(&gate, &waiting), "pending", "with the vote that it had");
    all_agree(&gate, &waiting);
    assert_eq!(answered(&gate, &swap("m-3", "500")).status, 201, "money is open");
    assert_eq!(sent(&upstream), 2, "once each, and what was rejected never");
}
