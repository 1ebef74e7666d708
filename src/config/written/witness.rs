//! A witness as written.

use super::Placed;
use crate::audit::NoteKey;
use crate::config::WitnessConfig;

#[derive(Default)]
pub(in crate::config) struct WrittenWitness {
    pub name: String,
    pub url: Option<Placed<String>>,
    pub key: Option<Placed<NoteKey>>,
    pub ca: Option<Placed<Vec<u8>>>,
}

impl WrittenWitness {
    pub fn meant(self) -> Option<WitnessConfig> {
        let (url, key) = (self.url?.value, self.key?.value);
        Some(WitnessConfig { name: self.name, url, key, ca_pem: self.ca.map(|ca| ca.value) })
    }
}
