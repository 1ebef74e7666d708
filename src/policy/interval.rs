//! Parses intervals as people write them: `(0, 5000]`, `[22, 24)`, `(5000, inf)`.

use std::fmt;

/// A range of whole numbers, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub least: u128,
    pub most: u128,
}

impl Interval {
    /// Parses an interval; `number` parses an end. An empty interval is refused.
    pub fn parse(text: &str, number: impl Fn(&str) -> Result<u128, String>) -> Result<Interval, String> {
        let inner = text.strip_prefix(['(', '[']).and_then(|rest| rest.strip_suffix([')', ']']));
        let (least, most) =
            inner.and_then(|inner| inner.split_once(',')).ok_or("an interval must be two numbers in brackets")?;
        let (least, most) = (least.trim(), most.trim());
        let low = number(least).map_err(|why| format!("`{}`: {why}", least.escape_debug()))?;
        let low = if text.starts_with('(') { low.checked_add(1) } else { Some(low) };
        let high = match most {
            "inf" if text.ends_with(')') => Some(u128::MAX),
            "inf" => return Err("`inf` is never included: write `inf)`".to_owned()),
            most => {
                let high = number(most).map_err(|why| format!("`{}`: {why}", most.escape_debug()))?;
                if text.ends_with(')') { high.checked_sub(1) } else { Some(high) }
            }
        };
        match low.zip(high) {
            Some((least, most)) if least <= most => Ok(Interval { least, most }),
            _ => Err("the interval is empty".to_owned()),
        }
    }

    pub fn contains(self, number: u128) -> bool {
        (self.least..=self.most).contains(&number)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most {
            u128::MAX => write!(f, "{} or more", self.least),
            most => write!(f, "{} to {most}", self.least),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Interval, String> {
        Interval::parse(text, |number| number.parse().map_err(|_| "no number".to_owned()))
    }

    #[test]
    fn brackets_say_whether_an_end_is_in() {
        for (text, least, most) in
            [("(0, 5]", 1, 5), ("[0, 5)", 0, 4), ("[5,5]", 5, 5), ("(5, inf)", 6, u128::MAX), ("[0, 1)", 0, 0)]
        {
            assert_eq!(read(text), Ok(Interval { least, most }), "{text}");
        }
        for wrong in
            ["", "5", "(5", "(5)", "(5, 5]", "(5, 6)", "[6, 5]", "[0, 0)", "(5, inf]", "(x, 5]", "(1, 2, 3)", "]1, 2["]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
