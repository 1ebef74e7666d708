//! Ed25519 private keys in PEM files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::signature::Ed25519KeyPair;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use zeroize::Zeroizing;

use super::secret::Secret;

/// The DER prefix of a private key in PKCS#8 version 1, the form that other tools read and write; the seed follows.
const PKCS8_PREFIX: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

/// Writes the key that a random seed makes.
pub fn to_pem(seed: &[u8; 32]) -> Secret {
    let der = Zeroizing::new([PKCS8_PREFIX.as_slice(), seed].concat());
    let text = Zeroizing::new(STANDARD.encode(&*der));
    Secret::new(format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", &*text))
}

/// Reads the first key of a PEM file: PKCS#8 of version 1, or of version 2 with the right public key.
pub fn of_pem(pem: &[u8]) -> Option<Ed25519KeyPair> {
    let der = PrivateKeyDer::from_pem_slice(pem).ok()?;
    Ed25519KeyPair::from_pkcs8_maybe_unchecked(der.secret_der()).ok()
}

#[cfg(test)]
mod tests {
    use ring::signature::KeyPair as _;

    use super::*;
    use crate::base::digest::hex;

    /// Section 7.1 of RFC 8032, test 1; the form is that of `openssl genpkey -algorithm ed25519`.
    #[test]
    fn a_written_key_is_read_again() {
        let mut seed = [0; 32];
        let digits = b"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
        for (byte, pair) in seed.iter_mut().zip(digits.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        }
        let pem = to_pem(&seed);
        assert!(pem.reveal().contains("\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"));
        let pair = of_pem(pem.reveal().as_bytes()).unwrap();
        let public = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
        assert_eq!(hex(pair.public_key().as_ref()), public);
        assert!(of_pem(b"").is_none());
        assert!(of_pem(pem.reveal().replace("MC4C", "MC4D").as_bytes()).is_none());
    }
}
