//! The first of two words on an outcome, and how long a first word waits for the second.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::owner::Owner;
use crate::ledger::{Kind, RecordKey, StoreTime};
use crate::policy::SignableAct;

/// How long the first of two words waits for the second.
pub const WORD_LASTS: Duration = Duration::from_hours(24);

/// The first of two words on an outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FirstWord {
    pub by: Owner,
    /// The store's time at which it was said.
    #[serde(rename = "saidMicros")]
    pub said: StoreTime,
}

impl FirstWord {
    /// Whether it still waits for the second one.
    pub fn stands(&self, now: StoreTime) -> bool {
        now.since(self.said) < WORD_LASTS
    }
}

/// Returns the key of the words that a call was executed. While there is one, the call is not sent.
pub fn executed_key(claim: &RecordKey) -> RecordKey {
    let name = format!("{}/{}", SignableAct::Executed, claim.name);
    RecordKey { environment: claim.environment, kind: Kind::Agreement, name }
}
