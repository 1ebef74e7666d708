//! The refusals of upstream that the contract does not list, with a bound on what upstream can make a label of.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::{Metrics, OTHERS};
use crate::stations::refusal::is_plain_code;

/// The most codes that have their own series.
const MAX_CODES: usize = 64;
/// The most refusals that are listed for operators.
const MAX_LISTED: usize = 64;
/// The label of refusals without a code; no code has parentheses.
const NO_CODE: &str = "(none)";

/// A refusal that was seen and that the contract does not list.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnlistedRefusal {
    pub environment: String,
    pub operation: String,
    pub status: u16,
    /// `(none)` or `(others)` where no code can be shown.
    pub code: String,
}

#[derive(Debug, Default)]
pub(super) struct UnlistedRefusals(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    codes: BTreeSet<String>,
    refusals: BTreeSet<UnlistedRefusal>,
}

impl UnlistedRefusals {
    /// Returns the label of a code, which upstream chose.
    fn note(&self, environment: &str, operation: &str, status: u16, code: Option<&str>) -> String {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let label = match code {
            None => NO_CODE,
            Some(code) if seen.codes.contains(code) => code,
            Some(code) if is_plain_code(code) && seen.codes.len() < MAX_CODES => {
                seen.codes.insert(code.to_owned());
                code
            }
            Some(_) => OTHERS,
        };
        let refusal = UnlistedRefusal {
            environment: environment.to_owned(),
            operation: operation.to_owned(),
            status,
            code: label.to_owned(),
        };
        if seen.refusals.len() < MAX_LISTED {
            seen.refusals.insert(refusal);
        }
        label.to_owned()
    }

    fn all(&self) -> Vec<UnlistedRefusal> {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        seen.refusals.iter().cloned().collect()
    }
}

impl Metrics {
    /// Counts a refusal of a write that the contract does not list.
    pub fn unlisted(&self, environment: &str, operation: &str, status: u16, code: Option<&str>) {
        let code = self.unlisted.note(environment, operation, status, code);
        self.all.unlisted.with_label_values(&[environment, operation, &status.to_string(), &code]).inc();
    }

    /// Returns the refusals that the contract does not list and that were seen since the start.
    pub fn unlisted_refusals(&self) -> Vec<UnlistedRefusal> {
        self.unlisted.all()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_words_and_few() {
        let seen = UnlistedRefusals::default();
        let note = |code: Option<&str>| seen.note("production", "createSwap", 400, code);
        assert_eq!(note(Some("INVALID_REQUEST")), "INVALID_REQUEST");
        assert_eq!(note(Some("invalidRequest2")), "invalidRequest2");
        assert_eq!(note(None), "(none)");
        let long = "X".repeat(49);
        for code in ["", "two words", "anna@example.com", "1ST", "ACCOUNT_12345", "ÄRGER", "a-b", "(none)", &long] {
            assert_eq!(note(Some(code)), "(others)", "{code}");
        }
        for number in 0..100 {
            note(Some(&format!("CODE_{number}")));
        }
        assert_eq!(note(Some("CODE_1")), "CODE_1");
        assert_eq!(note(Some("CODE_99")), "(others)");
        assert!(seen.0.lock().unwrap().codes.len() == 64 && seen.all().len() == 64);
    }
}
