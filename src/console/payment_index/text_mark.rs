//! A mark of a text. It rules out most other texts as parts of it, without reading it.

/// One bit for each pair of bytes that stand side by side in a text; many pairs have the same bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::console) struct TextMark(u64);

impl TextMark {
    /// Marks a text that is in lower case.
    pub fn of(lower: &str) -> TextMark {
        let bit = |pair: &[u8]| {
            let number = pair.iter().fold(0_u32, |number, byte| number.wrapping_mul(256).wrapping_add((*byte).into()));
            // The upper bits of the product depend on both bytes.
            1_u64.wrapping_shl(number.wrapping_mul(0x9e37_79b1).wrapping_shr(26))
        };
        TextMark(lower.as_bytes().windows(2).map(bit).fold(0, |all, bit| all | bit))
    }

    /// Whether a text with this mark may contain one with the other.
    pub fn may_contain(self, other: TextMark) -> bool {
        self.0 & other.0 == other.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_denies_most_texts_and_none_that_is_in_it() {
        let text = "invoice-2026-11-28-77/münchen";
        let whole = TextMark::of(text);
        for (begin, _) in text.char_indices() {
            for (end, _) in text.char_indices().filter(|(end, _)| *end >= begin) {
                assert!(whole.may_contain(TextMark::of(&text[begin..end])), "{begin} {end}");
            }
        }
        let others = (0..1_000).map(|nth| format!("payroll-{nth}"));
        assert!(others.filter(|other| whole.may_contain(TextMark::of(other))).count() < 10);
    }
}
