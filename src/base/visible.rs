//! Makes invisible characters visible, where a stored value is shown to people.
//!
//! A value may contain characters that a screen hides, or that change the order of others: a false address would read
//! as the known one. Such a character is shown as its number. The page of the console does the same in `dom.js`.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Characters that are invisible, look like a space, or change the direction of text, besides control characters.
const INVISIBLE: [(char, char); 29] = [
    ('\u{A0}', '\u{A0}'),
    ('\u{AD}', '\u{AD}'),
    ('\u{34F}', '\u{34F}'),
    ('\u{600}', '\u{605}'),
    ('\u{61C}', '\u{61C}'),
    ('\u{6DD}', '\u{6DD}'),
    ('\u{70F}', '\u{70F}'),
    ('\u{890}', '\u{891}'),
    ('\u{8E2}', '\u{8E2}'),
    ('\u{115F}', '\u{1160}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{17B4}', '\u{17B5}'),
    ('\u{180B}', '\u{180F}'),
    ('\u{2000}', '\u{200F}'),
    ('\u{2028}', '\u{202F}'),
    ('\u{205F}', '\u{206F}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{FE00}', '\u{FE0F}'),
    ('\u{FEFF}', '\u{FEFF}'),
    ('\u{FFA0}', '\u{FFA0}'),
    ('\u{FFF0}', '\u{FFFB}'),
    ('\u{110BD}', '\u{110BD}'),
    ('\u{110CD}', '\u{110CD}'),
    ('\u{13430}', '\u{1343F}'),
    ('\u{1BCA0}', '\u{1BCA3}'),
    ('\u{1D173}', '\u{1D17A}'),
    ('\u{E0000}', '\u{E0FFF}'),
];

/// Returns whether a screen hides the character, shows it as a space, or changes the order of text by it.
pub fn is_invisible(c: char) -> bool {
    c.is_control() || (!c.is_ascii() && INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&c)))
}

/// Writes each invisible character as `\u{202E}`.
///
/// ```
/// use sluice::base::visible::visible;
///
/// assert_eq!(visible("0x12\u{200B}34"), "0x12\\u{200B}34");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    written(text, is_invisible, |c, all| write!(all, "\\u{{{:X}}}", u32::from(c)))
}

/// Does what [`visible`] does, and keeps tabs and the ends of lines.
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    written(text, |c| !matches!(c, '\n' | '\t') && is_invisible(c), |c, all| write!(all, "\\u{{{:X}}}", u32::from(c)))
}

/// Writes each invisible character of a JSON text as JSON's own escape, such as `\u202e`; the text keeps its meaning.
pub fn visible_json(json: &str) -> Cow<'_, str> {
    // Strings of JSON contain no control characters of ASCII, and between strings they are blanks.
    let is_hidden = |c: char| !c.is_ascii() && is_invisible(c);
    written(json, is_hidden, |c, all| c.encode_utf16(&mut [0; 2]).iter().try_for_each(|u| write!(all, "\\u{u:04x}")))
}

fn written(
    text: &str,
    is_hidden: impl Fn(char) -> bool,
    write_one: impl Fn(char, &mut String) -> std::fmt::Result,
) -> Cow<'_, str> {
    if !text.chars().any(&is_hidden) {
        return text.into();
    }
    let mut all = String::with_capacity(text.len());
    for c in text.chars() {
        // Writing into a text cannot fail; what is not written must not pass unseen.
        if !is_hidden(c) || write_one(c, &mut all).is_err() {
            all.push(if is_hidden(c) { char::REPLACEMENT_CHARACTER } else { c });
        }
    }
    all.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_and_bidirectional_characters_are_shown_by_their_numbers() {
        assert_eq!(visible("pay \u{202E}eman"), "pay \\u{202E}eman");
        assert_eq!(
            visible("a\u{200B}b\u{FEFF}c\u{AD}\u{E0041}\u{A0}\u{3000}"),
            "a\\u{200B}b\\u{FEFF}c\\u{AD}\\u{E0041}\\u{A0}\\u{3000}"
        );
        assert_eq!(visible("line\n\u{1B}[31m"), "line\\u{A}\\u{1B}[31m");
        assert_eq!(visible_lines("line\nb\u{2066}"), "line\nb\\u{2066}");
        assert_eq!(visible("Zürich, 東京, Ωμέγα, שלום"), "Zürich, 東京, Ωμέγα, שלום");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let value = serde_json::json!({ "a\u{202E}": "x\u{E0041}y\u{200B}", "b": [1, "\n"] });
        for text in [value.to_string(), format!("{value:#}")] {
            let shown = visible_json(&text);
            assert!(!shown.chars().any(|c| !matches!(c, '\n' | '\t') && is_invisible(c)), "{shown}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }
}
