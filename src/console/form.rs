//! Parses form-encoded names and values.

/// Parses a query; returns nothing if a name appears twice or something is malformed.
pub(super) fn pairs(query: &str) -> Option<Vec<(String, String)>> {
    let mut found: Vec<(String, String)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=')?;
        let (name, value) = (unescaped(name)?, unescaped(value)?);
        if found.iter().any(|(known, _)| *known == name) {
            return None;
        }
        found.push((name, value));
    }
    Some(found)
}

/// Decodes a name or a value.
pub(super) fn unescaped(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
                let digits = std::str::from_utf8(&digits).ok().filter(|_| is_hex)?;
                u8::from_str_radix(digits, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_read_in_one_way() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs("a=b%40c&d=e+f%C3%A9&g="), Some(vec![pair("a", "b@c"), pair("d", "e fé"), pair("g", "")]));
        assert_eq!(pairs(""), Some(Vec::new()));
        for odd in ["a", "a=1&a=2", "a=1&%61=2", "a=%4", "a=%zz", "a=%+1", "a=%ff", "a=%00", "a=%0a"] {
            assert_eq!(pairs(odd), None, "{odd}");
        }
    }
}
