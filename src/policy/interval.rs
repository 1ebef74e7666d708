//! Parses intervals as people write them: `(0, 5000]`, `[22, 24)`, `(5000, inf)`.

use std::fmt;

/// A range of whole numbers, both ends included. A range of hours may begin before midnight and end after it: then `least`
/// is greater than `most`.
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

    /// Parses an interval of the hours 0 to 24. One that begins later than it ends goes over midnight.
    pub fn parse_hours(text: &str) -> Result<Interval, String> {
        let number = |text: &str| match text.parse::<u128>() {
            Ok(hour) if hour <= 24 && text.bytes().all(|b| b.is_ascii_digit()) => Ok(hour),
            _ => Err("hours are 0 to 24".to_owned()),
        };
        let inner = text.strip_prefix(['(', '[']).and_then(|rest| rest.strip_suffix([')', ']']));
        let ends = inner.and_then(|inner| inner.split_once(',')).map(|(begin, end)| (begin.trim(), end.trim()));
        let Some((Ok(begin), Ok(end))) = ends.map(|(begin, end)| (number(begin), number(end))) else {
            return Interval::parse(text, number);
        };
        if begin <= end {
            return Interval::parse(text, number);
        }
        let least = if text.starts_with('(') { begin.saturating_add(1) } else { begin };
        let most = if text.ends_with(')') { end.checked_sub(1).unwrap_or(23) } else { end };
        Ok(Interval { least: least % 24, most })
    }

    pub fn contains(self, number: u128) -> bool {
        if self.least > self.most {
            return number >= self.least || number <= self.most;
        }
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
    fn hours_may_go_over_midnight() {
        let hours = |text: &str| -> Vec<u128> {
            let interval = Interval::parse_hours(text).unwrap();
            (0..24).filter(|hour| interval.contains(*hour)).collect()
        };
        assert_eq!(hours("[22, 6)"), [0, 1, 2, 3, 4, 5, 22, 23]);
        assert_eq!(hours("(22, 6]"), [0, 1, 2, 3, 4, 5, 6, 23]);
        assert_eq!(hours("[22, 0)"), [22, 23]);
        assert_eq!(hours("[23, 1)"), [0, 23]);
        assert_eq!(hours("(23, 1)"), [0]);
        assert_eq!(hours("[24, 2)"), [0, 1]);
        assert_eq!(hours("[22, 24)"), [22, 23]);
        assert_eq!(hours("[9, 17)"), [9, 10, 11, 12, 13, 14, 15, 16]);
        for wrong in ["[22, 22)", "[25, 6)", "[22, -1)", "22-6", "[5, 6", "(5, 6)", "[22, 6, 7)"] {
            assert!(Interval::parse_hours(wrong).is_err(), "{wrong}");
        }
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
