//! Patterns of the contract in the words of people who fill in a field.

/// Patterns that are more than some characters in a row, each with what it wants.
const WORDS: [(&str, &str); 13] = [
    ("^[^\\x00-\\x1f\\x7f]*[^\\x00-\\x20\\x7f][^\\x00-\\x1f\\x7f]*$", "one line of text that is not blank"),
    ("^[0-9]{1,20}\\.[0-9]{1,20}$", "two numbers with a dot between them"),
    ("^[0-9]{1,20}\\.[0-9]{1,20}\\.[0-9]{1,20}$", "three numbers with dots between them"),
    ("^[A-Za-z0-9._-]{1,120}\\.toml$", "the name of a `.toml` file, of `A-Za-z0-9._-`"),
    ("^[0-9]{1,30}(\\.[0-9]{1,18})?$", "an amount such as 12.5, with at most 18 decimals"),
    ("^[0-9]{1,30}(\\.[0-9]{1,4})?$", "an amount such as 12.5, with at most 4 decimals"),
    ("^([0-9]{1,30}(\\.[0-9]{1,18})?)?$", "an amount such as 12.5, with at most 18 decimals, or nothing"),
    ("^-?[0-9]+(\\.[0-9]+)?$", "a number such as -12.5"),
    ("^([1-9][0-9]?|100)$", "a whole number from 1 to 100"),
    ("^([0-9]|[1-9][0-9]|100)$", "a whole number from 0 to 100"),
    ("[1-9]", "a number above 0"),
    ("[A-Za-z0-9_-]|\\.\\.\\.", "more than one or two dots"),
    ("^[0-9]+$", "a whole number"),
];

/// Says what a pattern wants. One that is not known is shown as it is.
pub(super) fn described_pattern(pattern: &str) -> String {
    let known = WORDS.into_iter().find(|(known, _)| *known == pattern).map(|(_, words)| words.to_owned());
    known.or_else(|| characters(pattern)).unwrap_or_else(|| format!("text of the form {pattern}"))
}

/// Describes `^[CHARACTERS]COUNT$`.
fn characters(pattern: &str) -> Option<String> {
    let (class, count) = pattern.strip_prefix("^[")?.strip_suffix('$')?.split_once(']')?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'-');
    if class.is_empty() || !class.bytes().all(is_plain) {
        return None;
    }
    let count = match count {
        "+" => "1 or more".to_owned(),
        count => {
            let count = count.strip_prefix('{')?.strip_suffix('}')?;
            let (least, most) = count.split_once(',').unwrap_or((count, count));
            let (least, most) = (least.parse::<u32>().ok()?, most.parse::<u32>().ok()?);
            if least == most { least.to_string() } else { format!("{least} to {most}") }
        }
    };
    Some(format!("{count} of `{class}`"))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_pattern_is_told_in_words() {
        for (pattern, words) in [
            ("^[A-Za-z0-9._-]{1,128}$", "1 to 128 of `A-Za-z0-9._-`"),
            ("^[0-9a-f]{64}$", "64 of `0-9a-f`"),
            ("^[A-Za-z0-9._:-]+$", "1 or more of `A-Za-z0-9._:-`"),
            ("^[A-Z]{3}$", "3 of `A-Z`"),
            ("^[^a]+$", "text of the form ^[^a]+$"),
            ("^[a-z]{2,}$", "text of the form ^[a-z]{2,}$"),
            ("^(a|b)$", "text of the form ^(a|b)$"),
        ] {
            assert_eq!(described_pattern(pattern), words);
        }
    }

    fn patterns(schema: &Value, found: &mut Vec<String>) {
        match schema {
            Value::Object(members) => {
                found.extend(members.get("pattern").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|member| patterns(member, found));
            }
            Value::Array(items) => items.iter().for_each(|item| patterns(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_pattern_that_ships_has_words() {
        let mut found = Vec::new();
        for file in std::fs::read_dir("schemas").unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "json") {
                patterns(&serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap(), &mut found);
            }
        }
        assert!(found.len() > 20, "{found:?}");
        for pattern in found {
            assert!(!described_pattern(&pattern).contains('^'), "{pattern} has no words");
        }
    }
}
