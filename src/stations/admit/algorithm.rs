//! The algorithms that a signature may have.

use aws_lc_rs::{hmac, signature};

/// One algorithm of JSON Web Signatures. `none` is not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Ps256,
    Ps384,
    Ps512,
    Es256,
    Es384,
    Es512,
    EdDsa,
    Hs256,
    Hs384,
    Hs512,
}

/// The kind of key that an algorithm needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    Rsa,
    P256,
    P384,
    P521,
    Ed25519,
    Shared,
}

impl Algorithm {
    pub const ALL: [Algorithm; 13] = [
        Algorithm::Rs256,
        Algorithm::Rs384,
        Algorithm::Rs512,
        Algorithm::Ps256,
        Algorithm::Ps384,
        Algorithm::Ps512,
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::Es512,
        Algorithm::EdDsa,
        Algorithm::Hs256,
        Algorithm::Hs384,
        Algorithm::Hs512,
    ];

    /// As headers of tokens write it, in exact case.
    pub fn parse(text: &str) -> Option<Algorithm> {
        Algorithm::ALL.into_iter().find(|a| a.as_str() == text)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Rs384 => "RS384",
            Algorithm::Rs512 => "RS512",
            Algorithm::Ps256 => "PS256",
            Algorithm::Ps384 => "PS384",
            Algorithm::Ps512 => "PS512",
            Algorithm::Es256 => "ES256",
            Algorithm::Es384 => "ES384",
            Algorithm::Es512 => "ES512",
            Algorithm::EdDsa => "EdDSA",
            Algorithm::Hs256 => "HS256",
            Algorithm::Hs384 => "HS384",
            Algorithm::Hs512 => "HS512",
        }
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
            Algorithm::Es512 => KeyKind::P521,
            Algorithm::EdDsa => KeyKind::Ed25519,
            Algorithm::Hs256 | Algorithm::Hs384 | Algorithm::Hs512 => KeyKind::Shared,
        }
    }

    /// A shared secret shorter than the digest is weaker than it looks.
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
            Algorithm::Es512 => Some(&signature::ECDSA_P521_SHA512_FIXED),
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
