//! The readings of changed files, as people were told of them: each says only what the one before did not.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::base::digest::Fingerprint;

/// After so many checks without a file that changes all the time, such files are over.
const OVER: u32 = 60;

/// What people were told of the last readings.
#[derive(Debug, Default)]
pub(super) struct ToldReadings {
    /// The texts that changed nothing.
    unchanged: Option<Fingerprint>,
    restless: BTreeSet<PathBuf>,
    /// For how many checks no file has been restless.
    calm: u32,
}

impl ToldReadings {
    /// Tells that policies mean what they meant before; of files that change all the time, once for the same texts.
    pub fn unchanged(&mut self, texts: &[(String, String)], version: &str) {
        let texts: Vec<&[u8]> = texts.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]).collect();
        let texts = Some(Fingerprint::of(&texts));
        if self.unchanged != texts || self.restless.is_empty() {
            tracing::info!(version, "policies were reloaded: no change in meaning");
        }
        self.unchanged = texts;
    }

    /// Tells of files that are read although they change, once until others do, or until they have stood still for a while.
    pub fn restless(&mut self, files: &BTreeSet<PathBuf>) {
        self.calm = if files.is_empty() { self.calm.saturating_add(1) } else { 0 };
        if self.calm >= OVER && !std::mem::take(&mut self.restless).is_empty() {
            tracing::info!("no file of the configuration or of the policies changes all the time any more");
        }
        if files.is_subset(&self.restless) {
            return;
        }
        self.restless.extend(files.iter().cloned());
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        tracing::warn!(
            files = files.join(", "),
            remedy = "write a file only when its content changes, under another name first, and then rename it",
            "files of the configuration or of the policies change all the time: the gate reads them while they \
             change, every ten seconds"
        );
    }
}
