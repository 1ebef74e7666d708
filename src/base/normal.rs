//! One normal form per identifier, so that another spelling cannot pass a list, a limit or a claim.
//!
//! Requests and fingerprints keep the caller's spelling.

use sha3::{Digest as _, Keccak256};

use super::digest::hex;

/// No address is longer. Reading base58 takes the square of its length, so what is longer is not read.
const LONGEST_ADDRESS: usize = 64;
/// How many letters at each end of an address people compare at least.
const SEEN_LETTERS: usize = 3;
const UUID_DIGITS: usize = 32;

/// The address format of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    Evm,
    Solana,
    Tron,
}

impl AddressKind {
    /// Returns the format by the chain's name in the interface; `None` for an unknown chain.
    pub fn of_chain(chain: &str) -> Option<AddressKind> {
        match chain.to_ascii_uppercase().as_str() {
            "ETHEREUM" | "POLYGON" | "POLYGON_MAINNET" | "BASE" => Some(AddressKind::Evm),
            "SOLANA" => Some(AddressKind::Solana),
            "TRON" => Some(AddressKind::Tron),
            _ => None,
        }
    }

    /// Returns the format by the look of an address, where no chain is stated: only EVM addresses look like this.
    pub fn of_address(address: &str) -> Option<AddressKind> {
        let digits = address.strip_prefix("0x")?;
        (digits.len() == 40 && digits.bytes().all(|b| b.is_ascii_hexdigit())).then_some(AddressKind::Evm)
    }

    /// The format in words.
    pub fn expected(self) -> &'static str {
        match self {
            AddressKind::Evm => "an EVM address: 0x and 40 hex digits, with a valid checksum where the case is mixed",
            AddressKind::Solana => "a Solana address: 32 bytes in base58",
            AddressKind::Tron => "a Tron address: base58 with a valid checksum, starting with T",
        }
    }

    /// Returns the normal form; `None` if the text is not such an address.
    pub fn normal(self, address: &str) -> Option<String> {
        if address.len() > LONGEST_ADDRESS {
            return None;
        }
        match self {
            AddressKind::Evm => evm(address),
            AddressKind::Solana => solana(address),
            AddressKind::Tron => tron(address),
        }
    }
}

/// The known address formats in words.
pub const KNOWN_ADDRESSES: &str = "an EVM, Solana or Tron address, with a valid checksum";

/// Returns the normal form of an address of this kind or, without a kind, of any known kind; `None` for other text.
///
/// No text is an address of two kinds: their lengths in bytes differ.
pub fn known_wallet(kind: Option<AddressKind>, text: &str) -> Option<String> {
    match kind {
        Some(kind) => kind.normal(text),
        None => {
            [AddressKind::Evm, AddressKind::Tron, AddressKind::Solana].into_iter().find_map(|kind| kind.normal(text))
        }
    }
}

/// Normalises an address of this kind, or of the kind it looks like; other text stays as it is.
pub fn wallet(kind: Option<AddressKind>, text: String) -> String {
    known_wallet(kind, &text).unwrap_or(text)
}

/// Normalises a UUID to lower case and the usual hyphens; other text stays as it is. Whoever stores UUIDs as numbers reads
/// 32 hex digits as one wherever the hyphens are, and without any.
pub fn uuid(text: &str) -> String {
    if is_uuid(text) {
        return text.to_ascii_lowercase();
    }
    let digits: String = text.chars().filter(|c| *c != '-').take(UUID_DIGITS.saturating_add(1)).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..UUID_DIGITS].map(|part| digits.get(part).unwrap_or_default());
    let is_uuid = digits.len() == UUID_DIGITS && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if is_uuid { parts.join("-").to_ascii_lowercase() } else { text.to_owned() }
}

/// Returns whether a text is a UUID as it is usually written: eight, four, four, four and twelve hex digits.
pub fn is_uuid(text: &str) -> bool {
    // A long text is not looked through.
    text.len() == 36
        && text.split('-').map(str::len).eq([8, 4, 4, 4, 12])
        && text.bytes().all(|b| b == b'-' || b.is_ascii_hexdigit())
}

fn evm(address: &str) -> Option<String> {
    let digits = address.strip_prefix("0x")?;
    if digits.len() != 40 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let lower = digits.to_ascii_lowercase();
    let one_case = digits == lower || digits == digits.to_ascii_uppercase();
    (one_case || digits == checksummed(&lower)).then(|| format!("0x{lower}"))
}

/// EIP-55: a letter is upper case where the digest of the lower case digits has a digit of 8 or more.
fn checksummed(lower: &str) -> String {
    let digest = hex(&Keccak256::digest(lower.as_bytes()));
    let cased = |(digit, mark): (char, char)| if mark >= '8' { digit.to_ascii_uppercase() } else { digit };
    lower.chars().zip(digest.chars()).map(cased).collect()
}

/// Returns an address as people write it, from its normal form: EVM with its checksum, Solana and Tron in base58; other
/// text stays as it is.
///
/// ```
/// use sluice::base::normal::shown_wallet;
///
/// let shown = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
/// assert_eq!(shown_wallet(&shown.to_lowercase()), shown);
/// ```
pub fn shown_wallet(normal: &str) -> String {
    let bytes_of = |digits: &str| digest_bytes(digits).filter(|bytes| !bytes.is_empty());
    if let Some(digits) = normal.strip_prefix("0x").filter(|digits| digits.len() == 40) {
        return evm(normal)
            .map_or_else(|| normal.to_owned(), |_| format!("0x{}", checksummed(&digits.to_ascii_lowercase())));
    }
    if let Some(bytes) = normal.strip_prefix("solana:").and_then(bytes_of) {
        return bs58::encode(bytes).into_string();
    }
    if let Some(bytes) = normal.strip_prefix("tron:").and_then(bytes_of) {
        return bs58::encode(bytes).with_check().into_string();
    }
    normal.to_owned()
}

/// Returns the letters of an address that people compare, in lower case: the first ones and the last ones. `None` for UUIDs,
/// and for what is shorter.
///
/// ```
/// use sluice::base::normal::seen_ends;
///
/// assert_eq!(seen_ends("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed").as_deref(), Some("5aaaed"));
/// ```
pub fn seen_ends(normal: &str) -> Option<String> {
    if is_uuid(normal) {
        return None;
    }
    let shown = shown_wallet(normal);
    let letters = shown.strip_prefix("0x").unwrap_or(&shown).to_ascii_lowercase();
    let last = letters.len().checked_sub(SEEN_LETTERS)?;
    Some(format!("{}{}", letters.get(..SEEN_LETTERS)?, letters.get(last..)?))
}

/// Parses hex digits.
fn digest_bytes(digits: &str) -> Option<Vec<u8>> {
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at.checked_add(2)?)?, 16).ok();
    (0..digits.len()).step_by(2).map(pair).collect()
}

fn solana(address: &str) -> Option<String> {
    let bytes = bs58::decode(address).into_vec().ok()?;
    (bytes.len() == 32).then(|| format!("solana:{}", hex(&bytes)))
}

fn tron(address: &str) -> Option<String> {
    let bytes = bs58::decode(address).with_check(Some(0x41)).into_vec().ok()?;
    (bytes.len() == 21).then(|| format!("tron:{}", hex(&bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_as_people_write_it() {
        for written in [
            "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
            "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t",
            "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
        ] {
            assert_eq!(shown_wallet(&known_wallet(None, written).unwrap()), written);
        }
        for other in ["9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11", "0x12", "solana:", "tron:zz", ""] {
            assert_eq!(shown_wallet(other), other);
        }
    }

    #[test]
    fn evm_addresses_in_any_case_are_one() {
        let checksummed = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed";
        let normal = Some("0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed".to_owned());
        assert_eq!(evm(checksummed), normal);
        assert_eq!(evm(&checksummed.to_lowercase()), normal);
        assert_eq!(evm("0x5AAEB6053F3E94C9B9A09F33669435E7EF1BEAED"), normal);
    }

    #[test]
    fn what_is_no_evm_address_is_refused() {
        for bad in [
            "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD",
            "0X5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
            "5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
            "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beae",
            " 0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
            "",
        ] {
            assert_eq!(evm(bad), None, "{bad}");
        }
    }

    #[test]
    fn solana_and_tron_addresses_are_their_bytes() {
        assert!(solana("So11111111111111111111111111111111111111112").is_some());
        assert_eq!(solana("So1111111111111111111111111111111111111111"), None);
        assert!(tron("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t").is_some());
        assert_eq!(tron("TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6T"), None);
    }

    #[test]
    fn text_in_no_known_form_has_no_normal_form() {
        for bad in [
            "0X5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
            "5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
            "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed\n",
            "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed\u{200B}",
            "\u{FEFF}0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
            "0x0000000000000000000000005aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
            "0x５aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
            "eip155:137:0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed",
            "vitalik.eth",
            "1So11111111111111111111111111111111111111112",
            "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t ",
        ] {
            assert_eq!(known_wallet(None, bad), None, "{bad}");
        }
    }

    #[test]
    fn uuids_in_any_case_are_one() {
        let text = "9F1C0E8E-2F53-4A5E-9A52-6A1C0F7D4E11";
        assert_eq!(uuid(text), text.to_lowercase());
        assert_eq!(uuid("Not-A-Uuid"), "Not-A-Uuid");
    }

    #[test]
    fn uuids_with_other_hyphens_are_one() {
        let normal = "9f1c0e8e-2f53-4a5e-9a52-6a1c0f7d4e11";
        for text in [
            "9f1c0e8e2f534a5e9a526a1c0f7d4e11",
            "9F1C0E8E2F534A5E9A526A1C0F7D4E11",
            "9f1c-0e8e-2f53-4a5e-9a52-6a1c-0f7d-4e11",
            "-9f1c0e8e2f53--4a5e9a526a1c0f7d4e11-",
        ] {
            assert_eq!(uuid(text), normal, "{text}");
            assert!(!is_uuid(text), "{text}");
        }
        for other in [
            "9f1c0e8e2f534a5e9a526a1c0f7d4e1",
            "9f1c0e8e2f534a5e9a526a1c0f7d4e111",
            "9f1c0e8e2f534a5e9a526a1c0f7d4e1g",
            "9f1c0e8e_2f53_4a5e_9a52_6a1c0f7d4e11",
            "\u{661}f1c0e8e2f534a5e9a526a1c0f7d4e1",
            "--------------------------------",
            "",
        ] {
            assert_eq!(uuid(other), other);
        }
    }
}
