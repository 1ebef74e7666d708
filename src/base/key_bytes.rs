//! The bytes of a key that people write as text.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

const KEY_LENGTH: usize = 32;

/// Whether a text can be the id of a key: 1 to 64 of `A-Za-z0-9._-`.
pub fn is_key_id(id: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=64).contains(&id.len()) && id.bytes().all(allowed)
}

/// Returns the 32 bytes that are written as base64 or as 64 hexadecimal digits.
pub fn key_bytes(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let is_hex = text.len() == KEY_LENGTH * 2 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let bytes = if is_hex {
        let byte = |at: usize| u8::from_str_radix(text.get(at..at.checked_add(2)?)?, 16).ok();
        (0..KEY_LENGTH * 2).step_by(2).map(byte).collect::<Option<Vec<u8>>>()?
    } else {
        let bare = text.trim_end_matches('=');
        STANDARD_NO_PAD.decode(bare).or_else(|_| URL_SAFE_NO_PAD.decode(bare)).ok()?
    };
    (bytes.len() == KEY_LENGTH).then(|| Zeroizing::new(bytes))
}
