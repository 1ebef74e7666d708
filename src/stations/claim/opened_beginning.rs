//! The beginning of a journal for which a person has opened money: the next loss does not close money for it again.
//!
//! A store that was rebuilt from a journal that begins in the middle lacks what was before. Whoever opens money has answered
//! for that. The answer counts for journals that begin at that number or earlier. A rebuild from a journal that begins
//! earlier knows more, so from then on the answer counts only for the earlier beginning.

use serde::{Deserialize, Serialize};

use super::freeze;
use crate::base::ids::Environment;
use crate::base::json;
use crate::ledger::{Keep, Kind, Number, RecordKey, Step};

/// The format of its record. No other is read.
const FORMAT: u64 = 1;

/// The record of the number behind which the journal began for which a person opened money.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpenedBeginning {
    behind: Number,
}

impl OpenedBeginning {
    pub fn key(environment: Environment) -> RecordKey {
        RecordKey { environment, kind: Kind::Opened, name: "beginning".to_owned() }
    }

    /// Reads the number; an unreadable record opens no beginning.
    pub fn read(record: &[u8]) -> Number {
        json::from_record::<OpenedBeginning>(record, FORMAT).map(|opened| opened.behind).unwrap_or_default()
    }

    /// Returns the step with which the opening of a freeze by a person answers for what was before the journal; `None` where
    /// the freeze names no beginning. Guarded: the record is as `before` says.
    pub fn by_person(environment: Environment, freeze: &[u8], before: Option<Number>) -> Option<Step> {
        let forgotten = freeze::forgotten(freeze)?;
        let behind = forgotten.begins_behind.max(forgotten.joined_behind);
        (behind > 0).then(|| Self::written(environment, Number::new(behind), before))
    }

    /// Returns the step with which a rebuild from a journal that begins behind a number narrows what was opened; `None` where
    /// no later beginning was opened.
    pub fn narrowed(environment: Environment, begins: Number, (version, opened): (Number, Number)) -> Option<Step> {
        (begins < opened).then(|| Self::written(environment, begins, Some(version)))
    }

    fn written(environment: Environment, behind: Number, before: Option<Number>) -> Step {
        let (key, keep) = (Self::key(environment), Keep::Forever);
        let value = json::to_record(&OpenedBeginning { behind }, FORMAT).into();
        match before {
            None => Step::Create { key, value, keep },
            Some(version) => Step::Replace { key, version, value, keep },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuild_from_an_earlier_beginning_narrows_what_was_opened() {
        let opened = (Number::new(120), Number::new(100));
        let narrowed = |begins| OpenedBeginning::narrowed(Environment::Production, Number::new(begins), opened);
        for begins in [0, 50, 99] {
            let Some(Step::Replace { version, value, .. }) = narrowed(begins) else { panic!("{begins}") };
            assert_eq!((version, OpenedBeginning::read(&value)), (opened.0, Number::new(begins)));
        }
        // Only people open a later one.
        assert!([100, 101].into_iter().all(|begins| narrowed(begins).is_none()));
        assert_eq!(OpenedBeginning::read(b"of another time"), Number::default());
    }
}
