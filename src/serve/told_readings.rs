//! The readings of changed files, as people were told of them: each says only what the one before did not.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::base::digest::Fingerprint;
use crate::base::finding::Finding;

/// After so many checks without a file that changes all the time, such files are over.
const OVER: u32 = 60;

/// The findings of the last readings, as people were told of them.
#[derive(Debug, Default)]
pub(super) struct ToldReadings {
    findings: BTreeSet<String>,
    restart: Vec<String>,
    /// The texts that changed nothing.
    unchanged: Option<Fingerprint>,
    restless: BTreeSet<PathBuf>,
    /// For how many checks no file has been restless.
    calm: u32,
}

impl ToldReadings {
    /// Somebody asks for a reload, and wants to see all that comes of it.
    pub fn tell_all(&mut self) {
        (self.findings, self.restart, self.unchanged) = (BTreeSet::new(), Vec::new(), None);
    }

    /// Tells the findings of a faulty reading that the one before did not have.
    pub fn errors(&mut self, findings: &[Finding], errors: usize, version: &str) {
        self.unchanged = None;
        let (news, is_other) = self.news(findings);
        for finding in news {
            match finding.is_error() {
                true => tracing::error!(%finding, "policies"),
                false => tracing::warn!(warning = %finding, "policies"),
            }
        }
        if is_other {
            tracing::error!(errors, version, "the new configuration or policies have errors; those in use stay");
        }
    }

    /// Tells the warnings of a sound reading that the one before did not have.
    pub fn warnings(&mut self, warnings: &[Finding]) {
        for warning in self.news(warnings).0 {
            tracing::warn!(%warning, "policies");
        }
    }

    /// Returns the findings that the reading before did not have, and whether there are others than then.
    fn news<'f>(&mut self, findings: &'f [Finding]) -> (Vec<&'f Finding>, bool) {
        let texts: BTreeSet<String> = findings.iter().map(ToString::to_string).collect();
        let told = std::mem::replace(&mut self.findings, texts);
        let news = findings.iter().filter(|finding| !told.contains(&finding.to_string())).collect();
        (news, told != self.findings)
    }

    /// Tells which settings need a restart, if they are others than before.
    pub fn needs_restart(&mut self, settings: Vec<String>) {
        if settings != self.restart && !settings.is_empty() {
            tracing::warn!(settings = settings.join(", "), "these settings changed and need a restart");
        }
        self.restart = settings;
    }

    /// Tells that policies mean what they meant before; of files that change all the time, once for the same texts.
    pub fn unchanged(&mut self, texts: &[(String, String)], version: &str) {
        let texts: Vec<&[u8]> = texts.iter().flat_map(|(name, text)| [name.as_bytes(), text.as_bytes()]).collect();
        let texts = Some(Fingerprint::of(&texts));
        if self.unchanged != texts || self.restless.is_empty() {
            tracing::info!(version, "policies were reloaded: no change in meaning");
        }
        self.unchanged = texts;
    }

    /// Tells of files that change all the time, once until others do, or until they have stood still for a while.
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
            "files of the configuration or of the policies change all the time: policies are read only once they stand \
             still, or after SIGHUP; other files are read while they change, every ten seconds"
        );
    }
}
