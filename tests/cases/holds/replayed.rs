//! What waited for people, decided again from the record.

use super::{RULES, all_agree, answered, gate, held, swap};
use crate::cases::rules::replay::{changed, replay};
use crate::support::Upstream;

const LIMIT: &str = "[[limit]]\nid = \"hour\"\nops = [\"createSwap\"]\nwindow = \"rolling 1h\"\nper = [\"environment\"]\nmax = \"700 USD\"\nover = \"deny\"\n";

#[test]
fn a_released_hold_replays_as_the_same_and_counts_once() {
    let upstream = Upstream::start();
    let rules = format!("{RULES}{LIMIT}");
    let gate = gate(&upstream, &rules).start();
    let hold = held(&gate, "p-1");
    all_agree(&gate, &hold);
    assert_eq!(answered(&gate, &swap("p-1", "500")).status, 201);
    for (name, status) in [("p-2", 201), ("p-3", 201), ("p-4", 403)] {
        assert_eq!(swap(name, "100").send(gate.production()).status, status, "{name}");
    }
    let setup = gate.end();
    let (config, folder) = (setup.write(), setup.path("sluice-audit"));
    let config = ["--config", config.to_str().unwrap()];

    let (code, report, said) = replay(&setup, &rules, &[&folder], &config);
    assert_eq!((code, report["same"].as_u64(), changed(&report)), (0, Some(4), Vec::new()), "{said}");

    // What these rules let pass at once counts from then on, and not again when it went.
    let at_once = rules.replace("effect = \"hold\"\napproval = \"dual\"", "effect = \"allow\"");
    let (code, report, said) = replay(&setup, &at_once, &[&folder], &config);
    let found: Vec<(String, u64)> = changed(&report).into_iter().map(|(what, count, _)| (what, count)).collect();
    assert_eq!((code, report["same"].as_u64()), (0, Some(3)), "{said}");
    assert!(matches!(&found[..], [(what, 1)] if what.starts_with("hold allow")), "{said}");
}
