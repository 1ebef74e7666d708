//! The correction of the store's clock: what gates add to a clock of the Redis that leapt.
//!
//! The Redis keeps the same number where anybody who can write it may change it. So a gate believes that number only where
//! it is the one that commits have.

use serde::{Deserialize, Serialize};

use crate::base::ids::Environment;
use crate::base::json;
use crate::ledger::{Keep, Kind, Number, RecordKey, Step};

/// The format of its record. No other is read.
const FORMAT: u64 = 1;

/// The record of a correction. Where there is none, nothing is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockCorrection {
    micros: i64,
}

impl ClockCorrection {
    pub fn key(environment: Environment) -> RecordKey {
        RecordKey { environment, kind: Kind::ClockCorrection, name: "clock".to_owned() }
    }

    /// Reads the microseconds that are added; `None` where the record is unreadable.
    pub fn read(record: &[u8]) -> Option<i64> {
        json::from_record::<ClockCorrection>(record, FORMAT).map(|correction| correction.micros).ok()
    }

    /// Returns the steps that set a correction. Guarded: the record is as `before` says.
    pub fn set(environment: Environment, before: Option<Number>, micros: i64) -> Vec<Step> {
        let (key, keep) = (Self::key(environment), Keep::Forever);
        let value = json::to_record(&ClockCorrection { micros }, FORMAT).into();
        let record = match before {
            None => Step::Create { key, value, keep },
            Some(version) => Step::Replace { key, version, value, keep },
        };
        vec![record, Step::CorrectClock { micros }]
    }

    /// Returns the steps with which people have the clock followed again. Time that was reported never runs back, so a clock
    /// that is behind stays corrected. Guarded: the correction is as `before` says.
    pub fn followed(environment: Environment, before: Option<(Number, i64)>) -> Vec<Step> {
        match before {
            Some((version, micros)) => Self::set(environment, Some(version), micros.max(0)),
            None => vec![Step::Absent(Self::key(environment)), Step::CorrectClock { micros: 0 }],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_followed_again_stays_corrected_where_it_is_behind() {
        let followed = |micros| ClockCorrection::followed(Environment::Production, Some((Number::new(7), micros)));
        for (micros, wanted) in [(-5, 0), (0, 0), (5, 5)] {
            let steps = followed(micros);
            let [Step::Replace { version, value, .. }, Step::CorrectClock { micros }] = steps.as_slice() else {
                panic!("{steps:?}")
            };
            assert_eq!((*version, *micros, ClockCorrection::read(value)), (Number::new(7), wanted, Some(wanted)));
        }
        assert_eq!(ClockCorrection::read(b"of another time"), None);
    }
}
