//! The configuration of witnesses.

use std::time::Duration;

use crate::audit::NoteKey;
use crate::base::word_enum::word_enum;

/// One witness.
#[derive(Clone, Debug)]
pub struct WitnessConfig {
    pub name: String,
    pub url: String,
    pub key: NoteKey,
    pub ca_pem: Option<Vec<u8>>,
}

/// The witnesses of the journal, and how many of them must sign by when.
#[derive(Clone, Debug)]
pub struct WitnessingConfig {
    pub witnesses: Vec<WitnessConfig>,
    /// How many must sign a checkpoint.
    pub needed: usize,
    /// How long lines may wait for them.
    pub within: Duration,
    pub unwitnessed: UnwitnessedMode,
}

word_enum! {
    /// The consequence of too few signatures.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum UnwitnessedMode {
        /// People are told.
        Alert = "alert",
        /// Money is closed as well until they sign.
        Close = "close",
    }
}
