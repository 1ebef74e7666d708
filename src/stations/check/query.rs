//! The query: read strictly, written again in one form.

use crate::catalog::{Place, Violation};

/// The longest name of a parameter that is repeated to its sender.
const LONGEST_NAME: usize = 64;

/// Names by which some servers take another method than the one on the request line.
const OVERRIDES: [&str; 6] =
    ["_method", "_httpmethod", "httpmethod", "x-http-method", "x-http-method-override", "x-method-override"];

/// Names and values. A name that stands twice has no one meaning, so it is refused.
pub(super) fn read(query: &str) -> Result<Vec<(String, String)>, Violation> {
    let mut parameters: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
            return Err(Violation::new("", "encoding", "names and values percent-encoded as UTF-8, without controls")
                .inside(Place::Query));
        };
        if OVERRIDES.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            return Err(Violation::new(name, "not", "no parameter that stands for another method").inside(Place::Query));
        }
        if parameters.iter().any(|(known, _)| *known == name) {
            return Err(Violation::new(shown(&name), "uniqueItems", "this parameter once only").inside(Place::Query));
        }
        parameters.push((name, value));
    }
    Ok(parameters)
}

/// A name as it is repeated to its sender.
pub(super) fn shown(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
}

/// The query that is sent: each name and value encoded in the one way.
pub(super) fn write(parameters: &[(String, String)]) -> String {
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
        let read_back = |q: &str| read(q).map(|p| write(&p)).map_err(|v| v.keyword);
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
