//! The proofs in refusals of an upstream.

use crate::base::word_enum::word_enum;

/// The proofs in refusals of an environment's upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeliefConfig {
    /// Nothing between the gate and upstream can answer in its place: TLS to the host itself, or loopback.
    pub is_direct: bool,
    pub unlisted: UnlistedMode,
}

word_enum! {
    /// The proof in a well-formed refusal whose status and code the contract does not list.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum UnlistedMode {
        /// Nothing was executed, unless it says that the call was made before.
        Proves = "proves",
        /// Nothing: the outcome is unknown.
        Unknown = "unknown",
    }
}
