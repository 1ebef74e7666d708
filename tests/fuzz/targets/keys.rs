//! Documents with keys.

use sluice::stations::admit::{KeyKind, KeySet};

pub fn jwks(input: &[u8]) {
    let first = KeySet::from_jwks(input).map_err(|fault| fault.to_string());
    let again = KeySet::from_jwks(input).map_err(|fault| fault.to_string());
    assert_eq!(first.is_ok(), again.is_ok());
    assert_eq!(first.err(), again.err());
}

pub fn pem(input: &[u8]) {
    if let Err(fault) = KeySet::from_pem(input) {
        assert!(!fault.to_string().is_empty());
    }
    KeyKind::of_public_key(input);
}
