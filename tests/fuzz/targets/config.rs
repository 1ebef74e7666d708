//! The configuration file.

use std::collections::BTreeMap;
use std::io;

use sluice::config::{ConfigWorld, parse_config};

use super::text;

/// Each text is read, or refused with at least one finding that can be shown.
pub fn config(input: &[u8]) {
    let Some(text) = text(input) else { return };
    let read_file = |_: &std::path::Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let world = ConfigWorld { environment: BTreeMap::new(), read_file: &read_file, is_folder: &|_| true };
    if let Err(findings) = parse_config(text, "etc/sluice.toml", &world) {
        assert!(!findings.is_empty(), "refused without a finding");
        assert!(findings.iter().all(|finding| !finding.to_string().is_empty()));
    }
}
