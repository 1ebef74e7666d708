//! A payment that was sent after its approvals had expired is not proved, by the times of the entries.

use std::time::Duration;

use serde_json::json;

use super::proved::{payment, proofs, rewrite, two_payments, verify};
use crate::support::files::copy_folder;

/// How long approvals of these tests last.
const EXPIRES: Duration = Duration::from_secs(8 * 3_600);
const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_payment_that_was_sent_after_its_approval_expired_is_not_proved() {
    let (setup, root) = two_payments();
    let folder = setup.path("sluice-audit");
    for (name, late, is_proved) in [
        ("in time", EXPIRES - MINUTE, true),
        ("a little late", EXPIRES, false),
        ("a month late", Duration::from_secs(30 * 86_400), false),
    ] {
        let copy = setup.path(name);
        copy_folder(&folder, &copy);
        rewrite(&copy, &|entries| {
            let is_sent = |says: &serde_json::Value| says["what"] == "sending" && says["requestId"] == "p-1";
            let sent = entries.iter().position(|(_, says)| is_sent(says)).unwrap();
            for (entry, _) in &mut entries[sent..] {
                entry.at = entry.at.plus(late);
            }
        });
        let (code, told) = proofs(&copy, &[&root]);
        assert_eq!((code == 0, &payment(&told, "p-1")["proved"]), (is_proved, &json!(is_proved)), "{name}: {told:#}");
        assert_eq!(payment(&told, "p-2")["proved"], true, "{name}: its hold began later: {told:#}");
        let reason = payment(&told, "p-1")["reason"].as_str().unwrap_or_default().to_owned();
        assert_eq!(reason.contains("its approval had expired: it was sent at"), !is_proved, "{name}: {reason}");
        let (_, text) = verify(&copy, &[&root], "table");
        let sent_at = payment(&told, "p-1")["at"].as_str().unwrap();
        assert!(text.contains(&format!("createSwap p-1, sent at {sent_at}: ")), "{text}");
    }
}
