//! The query: parsed strictly, and written again in one form.

use crate::catalog::{BodyPlace, Violation};

/// The longest parameter name that an error repeats.
const LONGEST_NAME: usize = 64;

/// Parameter names by which some servers override the method.
const OVERRIDES: [&str; 6] =
    ["_method", "_httpmethod", "httpmethod", "x-http-method", "x-http-method-override", "x-method-override"];

/// Parses names and values. A name that occurs twice has no single meaning, so it is refused.
pub(super) fn parse_query(query: &str) -> Result<Vec<(String, String)>, Violation> {
    let mut parameters: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
            return Err(Violation::new(
                "",
                "encoding",
                "names and values percent-encoded as UTF-8, without control characters",
            )
            .inside(BodyPlace::Query));
        };
        if OVERRIDES.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            return Err(Violation::new(name, "not", "no parameter that overrides the method").inside(BodyPlace::Query));
        }
        if parameters.iter().any(|(known, _)| *known == name) {
            return Err(
                Violation::new(shown(&name), "uniqueItems", "this parameter once only").inside(BodyPlace::Query)
            );
        }
        parameters.push((name, value));
    }
    Ok(parameters)
}

/// A parameter name as an error repeats it.
pub(super) fn shown(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}

/// Writes the query that is sent; each name and value has one encoding.
pub(super) fn query_text(parameters: &[(String, String)]) -> String {
    let pairs: Vec<String> =
        parameters.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    pairs.join("&")
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                u8::try_from(high << 4 | low).ok()?
            }
            b'+' => b' ',
            b'"' | b'#' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => return None,
            0x21..=0x7e => byte,
            _ => return None,
        });
    }
    let text = String::from_utf8(out).ok()?;
    (!text.chars().any(char::is_control)).then_some(text)
}

fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~".contains(&b);
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if plain(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_one_reading() {
        let read_back = |q: &str| parse_query(q).map(|p| query_text(&p)).map_err(|v| v.keyword);
        for (given, sent) in [
            ("", ""),
            ("limit=10&userId=u-1", "limit=10&userId=u-1"),
            ("firstName=Ada+Lovelace&email=a%40b.example", "firstName=Ada%20Lovelace&email=a%40b.example"),
            ("name=%c3%a9&flag", "name=%C3%A9&flag="),
            ("a=1=2&&b=%2B", "a=1%3D2&b=%2B"),
        ] {
            assert_eq!(read_back(given), Ok(sent.to_owned()), "{given}");
        }
        for bad in ["a=%", "a=%4", "a=%zz", "a=%ff", "a=%00", "a=%0a", "a=\u{e9}", "a=#b", "a=<b>", "a=b\\c", "a={b}"] {
            assert_eq!(read_back(bad), Err("encoding".to_owned()), "{bad}");
        }
        for override_key in ["_method=DELETE", "_METHOD=x", "x%2dhttp-method-override=PUT"] {
            assert_eq!(read_back(override_key), Err("not".to_owned()), "{override_key}");
        }
        for twice in ["limit=1&limit=2", "limit=1&%6cimit=2"] {
            assert_eq!(read_back(twice), Err("uniqueItems".to_owned()), "{twice}");
        }
    }
}
