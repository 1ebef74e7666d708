//! What an answer that is an error means for the store: nothing was written, or nobody knows.

use crate::adapters::redis::{Unanswered, refusal};
use crate::ledger::{StoreFault, WriteRefusal};

/// The error code for: the store does not match what the node knows.
pub(super) const OTHER: &str = "OTHER";
/// The error code for: the store has something that no gate writes so.
pub(super) const DAMAGED: &str = "DAMAGED";
/// Further error codes for which nothing was written: people read the words of the Redis, or of the script.
const NOT_BEGUN: [&str; 12] = [
    "DENIED",
    "NOPERM",
    "LOADING",
    "MASTERDOWN",
    "NOAUTH",
    "BUSY",
    "CLUSTERDOWN",
    "MOVED",
    "ASK",
    "TRYAGAIN",
    "CROSSSLOT",
    "WRONGPASS",
];

/// Maps an error; `asked` builds the fault for calls that the Redis may have executed.
pub(super) fn fault(unanswered: Unanswered, asked: impl FnOnce(String) -> StoreFault) -> StoreFault {
    match unanswered {
        Unanswered::Away(why) => StoreFault::Away(why.into_owned()),
        Unanswered::Lost(why) => asked(why),
        Unanswered::Refused(code, why) if code == "SLUICE" => StoreFault::Broken(why),
        Unanswered::Refused(code, why) if code == DAMAGED => StoreFault::Broken(format!(
            "somebody changed the store: {why}; a gate that knew it, and has its `audit.folder`, has it rebuilt"
        )),
        Unanswered::Refused(code, _) if refusal(&code).is_some() => {
            let why = refusal(&code).map(WriteRefusal::explanation).unwrap_or_default();
            StoreFault::Away(format!("it refuses writes: {why}"))
        }
        Unanswered::Refused(code, why) if code == OTHER => StoreFault::Away(why),
        Unanswered::Refused(code, _) if code == "NOSCRIPT" => {
            StoreFault::Away("it lost the scripts of the gates, and gets them again".to_owned())
        }
        Unanswered::Refused(code, why) if NOT_BEGUN.contains(&code.as_str()) => {
            StoreFault::Away(format!("the Redis refused it: {code} {why}"))
        }
        Unanswered::Refused(code, why) => asked(format!("the Redis failed: {code} {why}")),
    }
}
