//! What the refusals of an upstream prove.

use crate::base::word_enum::word_enum;

/// What the refusals of an environment's upstream prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeliefConfig {
    /// Nothing between the gate and upstream can answer in its place: TLS to the host itself, or loopback.
    pub is_direct: bool,
    pub unlisted: UnlistedMode,
}

word_enum! {
    /// What a well-formed refusal proves whose status and code the contract does not list.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum UnlistedMode {
        /// Nothing was executed, unless it says that the call was made before.
        Proves = "proves",
        /// Nothing: the outcome is unknown.
        Unknown = "unknown",
    }
}
