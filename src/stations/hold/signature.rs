//! The signature of a vote, as it is sent and as a vote keeps it.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::amounts::SignedAmounts;
use crate::base::digest::Fingerprint;
use crate::base::webauthn::{Assertion, AssertionError};
use crate::ledger::Number;

/// The facts that a signature names beside those of the hold itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VoteChallenge {
    /// A random text that one vote uses up.
    pub nonce: String,
    /// The commit that wrote the hold as the voter was shown it.
    pub version: Number,
    pub approvals: BTreeSet<Arc<str>>,
    /// What the call moves.
    pub amounts: SignedAmounts,
    /// The version of the policies in force.
    pub policy: String,
}

/// How many votes one signature can be for.
pub const MAX_TOGETHER: usize = 32;

/// The signature of a vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedVote {
    pub challenge: VoteChallenge,
    /// The id of the passkey.
    pub credential: String,
    pub assertion: Assertion,
    /// The SHA-256 of each statement that was signed with it, its own among them; empty: it was signed alone.
    pub together: Vec<Fingerprint>,
}

/// A signature as a person sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentSignature {
    pub nonce: String,
    pub credential: String,
    pub assertion: Assertion,
    /// As a vote keeps it. An act is signed alone.
    pub together: Vec<Fingerprint>,
}

/// The reasons why a signature is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SignatureError {
    #[error("it answers no challenge of yours for this: it was used before, is older than five minutes, or another's")]
    NoChallenge,
    #[error("other policies took force since you were asked to sign")]
    OtherPolicies,
    #[error(transparent)]
    Refused(#[from] AssertionError),
    #[error("the counter of your authenticator stands where it stood before: somebody may have a copy of it")]
    Copied,
}

impl SignatureError {
    /// Returns the reason in one word, for counting.
    pub fn as_str(self) -> &'static str {
        match self {
            SignatureError::NoChallenge | SignatureError::OtherPolicies => "stale",
            SignatureError::Copied => "copied",
            SignatureError::Refused(error) => match error {
                AssertionError::AuthenticatorData | AssertionError::ClientData => "form",
                AssertionError::OtherDomain | AssertionError::OtherOrigin => "origin",
                AssertionError::NotVerified => "unverified",
                AssertionError::Synced => "synced",
                AssertionError::OtherChallenge => "statement",
                AssertionError::Signature => "signature",
                AssertionError::UnknownKey => "key",
            },
        }
    }
}
