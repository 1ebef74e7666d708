//! What each call of the script says first: numbers of a fixed size and three texts, then
//! two numbers that few calls have. The script unpacks them at once.

use crate::ledger::StoreTime;

/// Stands for a time that is not given.
pub(super) const NO_TIME: f64 = f64::INFINITY;

/// The bytes of the mark, of six numbers and of the lengths of three texts.
const NUMBERS: usize = 62;

/// Ends the answer to the call that begins with it, and no other.
pub(super) type CallMark = [u8; 8];

/// What each call of the script says first, in one argument.
#[derive(Debug)]
pub(super) struct ScriptHead<'c> {
    pub mark: CallMark,
    /// The clock that replaces that of the Redis, in tests.
    pub clock: Option<i64>,
    /// The latest time that the caller was told.
    pub told: StoreTime,
    /// The time that the caller expects, where it does.
    pub expected: Option<ExpectedTime>,
    pub node: &'c str,
    /// The generation of the store that the caller knows, and the highest number among its own commits.
    pub generation: &'c str,
    pub highest: u64,
    pub run: &'c str,
}

/// The time of the store that a gate expects, how far a clock may differ from it, both in microseconds, and what it adds
/// to the clock of the Redis until it has settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ExpectedTime {
    pub at: StoreTime,
    pub tolerance: u64,
    pub shift: Option<i64>,
}

impl ScriptHead<'_> {
    /// Returns the argument of the script.
    pub fn packed(&self) -> Vec<u8> {
        let of_expected = |expected: ExpectedTime| [expected.at.as_micros() as f64, expected.tolerance as f64];
        let numbers = [self.told.as_micros() as f64, self.highest as f64].into_iter();
        let numbers = numbers.chain(self.expected.map_or([NO_TIME; 2], of_expected));
        let texts = [self.node, self.generation, self.run];
        let length = texts.iter().map(|text| text.len()).sum::<usize>();
        let mut packed: Vec<u8> = Vec::with_capacity(length.saturating_add(NUMBERS));
        packed.extend_from_slice(&self.mark);
        numbers.for_each(|number| packed.extend_from_slice(&number.to_le_bytes()));
        for text in texts {
            // What is cut off is not what the store has: the script refuses the call.
            let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
            packed.extend_from_slice(&length.to_le_bytes());
            packed.extend_from_slice(text.as_bytes().get(..usize::from(length)).unwrap_or_default());
        }
        let shift = self.expected.and_then(|expected| expected.shift);
        if self.clock.is_some() || shift.is_some() {
            for time in [self.clock, shift] {
                packed.extend_from_slice(&time.map_or(NO_TIME, |time| time as f64).to_le_bytes());
            }
        }
        packed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_has_its_numbers_and_then_its_texts() {
        let expected = ExpectedTime { at: StoreTime::of_micros(4), tolerance: 5, shift: Some(-6) };
        let head = ScriptHead {
            mark: *b"one call",
            clock: None,
            told: StoreTime::of_micros(2),
            expected: Some(expected),
            node: "left",
            generation: "",
            highest: 3,
            run: "r",
        };
        let numbers = |numbers: &[f64]| numbers.iter().copied().flat_map(f64::to_le_bytes).collect::<Vec<_>>();
        let texts: &[u8] = b"\x04\0left\0\0\x01\0r";
        let wanted =
            [b"one call", &numbers(&[2.0, 3.0, 4.0, 5.0])[..], texts, &numbers(&[f64::INFINITY, -6.0])].concat();
        assert_eq!(head.packed(), wanted);
        // Most calls have neither a clock nor a shift.
        let settled = ScriptHead { expected: None, ..head };
        let wanted = [b"one call", &numbers(&[2.0, 3.0, f64::INFINITY, f64::INFINITY])[..], texts].concat();
        assert_eq!(settled.packed(), wanted);
    }
}
