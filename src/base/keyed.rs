//! Keyed names: digests that reveal nothing without the key.

use ring::hmac;

use super::digest::hex;

/// The shortest key, in bytes: shorter ones could be guessed.
pub const SHORTEST_KEY: usize = 16;
/// The bytes kept of a digest: enough that no two names ever collide.
const KEPT_BYTES: usize = 12;
const KEY_ID_BYTES: usize = 4;

/// The key for personal operands.
#[derive(Clone, Debug)]
pub struct OperandKey(hmac::Key);

impl OperandKey {
    /// Returns `None` where the key is too short.
    pub fn of(bytes: &[u8]) -> Option<OperandKey> {
        (bytes.len() >= SHORTEST_KEY).then(|| OperandKey(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// The keyed form of a name: equal names have equal forms. No identifier begins with `#`, as these forms do.
    pub fn name(&self, kind: &str, text: &str) -> String {
        format!("#{}", self.digest(kind, text, KEPT_BYTES))
    }

    /// The id of the key, which reveals nothing of it.
    pub fn id(&self) -> String {
        self.digest("key", "", KEY_ID_BYTES)
    }

    fn digest(&self, kind: &str, text: &str, length: usize) -> String {
        let mut context = hmac::Context::with_key(&self.0);
        context.update(kind.as_bytes());
        context.update(&[0]);
        context.update(text.as_bytes());
        hex(context.sign().as_ref().get(..length).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_depends_on_the_key_and_on_what_it_is_a_name_of() {
        let (one, other) = (OperandKey::of(&[1; 32]).unwrap(), OperandKey::of(&[2; 32]).unwrap());
        assert_eq!(one.name("name", "anna"), one.name("name", "anna"));
        assert_ne!(one.name("name", "anna"), one.name("text", "anna"));
        assert_ne!(one.name("name", "anna"), other.name("name", "anna"));
        assert_ne!(one.id(), other.id());
        assert_eq!(one.name("name", "anna").len(), 1 + 2 * KEPT_BYTES);
        assert!(OperandKey::of(&[1; 15]).is_none());
    }
}
