//! Counts the values of a text before it is read.

use super::reader::plain_length;

/// Returns how many values a text of JSON has, without building one; at least as many as the parser finds in it.
pub fn count_values(text: &[u8]) -> usize {
    let (mut rest, mut count, mut is_inside) = (text, 1_usize, false);
    while !rest.is_empty() {
        let step = if is_inside {
            let plain = plain_length(rest);
            match rest.get(plain) {
                Some(b'\\') => plain.saturating_add(2),
                found => {
                    is_inside = found != Some(&b'"');
                    plain.saturating_add(1)
                }
            }
        } else {
            let quote = rest.iter().position(|byte| *byte == b'"');
            let outside = quote.and_then(|at| rest.get(..at)).unwrap_or(rest);
            let begins = outside.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
            count = count.saturating_add(begins);
            is_inside = quote.is_some();
            outside.len().saturating_add(1)
        };
        rest = rest.get(step..).unwrap_or_default();
    }
    count
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::count_values;
    use crate::base::json::{FlatJson, FormError, JsonFaultKind, Limits, from_slice, parse};

    #[test]
    fn no_fewer_are_counted_than_the_text_has() {
        for (text, count) in [
            ("0", 1),
            ("[]", 2),
            ("[1,2]", 3),
            (r#"{"a":{"b,[{":"\"],[,\\"},"c":[{}]}"#, 6),
            (r#"["\\",1,"\\\"",2]"#, 5),
        ] {
            assert_eq!(count_values(text.as_bytes()), count, "{text}");
            assert!(FlatJson::parse(text.as_bytes(), Limits::REQUEST).unwrap().count() <= count, "{text}");
        }
        for broken in ["", "\"", "\"\\", "[\"\u{1},", "{{{{"] {
            assert!(count_values(broken.as_bytes()) <= broken.len() + 1, "{broken}");
        }
    }

    #[test]
    fn a_text_has_no_more_values_than_its_bound() {
        let few = Limits { values: 3, ..Limits::REQUEST };
        let many = JsonFaultKind::TooManyValues { most: 3 };
        for (text, fits) in [
            ("[1,2]", true),
            (r#"{"a":1,"b":[]}"#, true),
            (r#"{"a":{"b":{}}}"#, true),
            ("[1,2,3]", false),
            (r#"{"a":1,"b":[0]}"#, false),
            ("[[],[{}]]", false),
            (r#"{"a":1,"b":2,"c":3}"#, false),
        ] {
            let tree = parse(text.as_bytes(), few);
            assert_eq!(tree.as_ref().err().map(|fault| fault.reason), (!fits).then_some(many), "{text}");
            assert_eq!(FlatJson::parse(text.as_bytes(), few).map(|flat| flat.root().to_tree()), tree, "{text}");
            let typed = from_slice::<Value>(text.as_bytes(), few).map_err(|fault| match fault {
                FormError::Json(fault) => fault,
                other => panic!("{other}"),
            });
            assert_eq!(typed, tree, "{text}");
        }
        let told = parse(b"[0,0,0]", few).unwrap_err().to_string();
        assert!(
            told.ends_with("more than 3 values, each item and each member counted; send fewer in one call"),
            "{told}"
        );
    }
}
