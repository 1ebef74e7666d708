//! The signature algorithms of tokens.

use ring::{hmac, signature};

use crate::base::word_enum::word_enum;

word_enum! {
    /// One algorithm of JSON Web Signatures. `none` is not among them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Algorithm {
        Rs256 = "RS256",
        Rs384 = "RS384",
        Rs512 = "RS512",
        Ps256 = "PS256",
        Ps384 = "PS384",
        Ps512 = "PS512",
        Es256 = "ES256",
        Es384 = "ES384",
        EdDsa = "EdDSA",
        Hs256 = "HS256",
        Hs384 = "HS384",
        Hs512 = "HS512",
    }
}

/// The kind of key that an algorithm needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    Rsa,
    P256,
    P384,
    Ed25519,
    Shared,
}

impl Algorithm {
    /// Returns the algorithm that a key or a token names: by its name here or, for EdDSA on Ed25519, that of RFC 9864.
    pub(super) fn named(name: &str) -> Option<Algorithm> {
        if name == "Ed25519" { Some(Algorithm::EdDsa) } else { Algorithm::parse(name) }
    }

    pub fn kind(self) -> KeyKind {
        match self {
            Algorithm::Rs256
            | Algorithm::Rs384
            | Algorithm::Rs512
            | Algorithm::Ps256
            | Algorithm::Ps384
            | Algorithm::Ps512 => KeyKind::Rsa,
            Algorithm::Es256 => KeyKind::P256,
            Algorithm::Es384 => KeyKind::P384,
            Algorithm::EdDsa => KeyKind::Ed25519,
            Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512 => KeyKind::Shared,
        }
    }

    /// The shortest safe shared secret: one shorter than the digest weakens the signature.
    pub fn shortest_secret_bytes(self) -> Option<usize> {
        match self {
            Algorithm::Hs256 => Some(32),
            Algorithm::Hs384 => Some(48),
            Algorithm::Hs512 => Some(64),
            _ => None,
        }
    }

    pub(super) fn rsa(self) -> Option<&'static signature::RsaParameters> {
        match self {
            Algorithm::Rs256 => Some(&signature::RSA_PKCS1_2048_8192_SHA256),
            Algorithm::Rs384 => Some(&signature::RSA_PKCS1_2048_8192_SHA384),
            Algorithm::Rs512 => Some(&signature::RSA_PKCS1_2048_8192_SHA512),
            Algorithm::Ps256 => Some(&signature::RSA_PSS_2048_8192_SHA256),
            Algorithm::Ps384 => Some(&signature::RSA_PSS_2048_8192_SHA384),
            Algorithm::Ps512 => Some(&signature::RSA_PSS_2048_8192_SHA512),
            _ => None,
        }
    }

    pub(super) fn curve(self) -> Option<&'static dyn signature::VerificationAlgorithm> {
        match self {
            Algorithm::Es256 => Some(&signature::ECDSA_P256_SHA256_FIXED),
            Algorithm::Es384 => Some(&signature::ECDSA_P384_SHA384_FIXED),
            Algorithm::EdDsa => Some(&signature::ED25519),
            _ => None,
        }
    }

    pub fn hmac(self) -> Option<hmac::Algorithm> {
        match self {
            Algorithm::Hs256 => Some(hmac::HMAC_SHA256),
            Algorithm::Hs384 => Some(hmac::HMAC_SHA384),
            Algorithm::Hs512 => Some(hmac::HMAC_SHA512),
            _ => None,
        }
    }
}
