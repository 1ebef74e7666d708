//! Policies that changed take force while the gate runs; those with an error do not, and the last good ones stay.
//!
//! The folder is looked at every second. What changed is read when it has been the same twice in a row, so that files which
//! are being written, or many that belong together, are not taken by halves; after SIGHUP it is read at once.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use crate::adapters::policies::{Archive, LoadedPolicies, PolicyFolder};
use crate::base::digest::Fingerprint;
use crate::base::finding::{Finding, Severity};
use crate::journey::InForce;
use crate::telemetry::Metrics;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What it takes to bring policies up to date.
pub(super) struct Reload {
    pub folder: PolicyFolder,
    pub archive: Archive,
    pub in_force: Arc<InForce>,
    pub metrics: Metrics,
    /// SIGHUP came.
    pub asked: Arc<Notify>,
}

/// How a folder looked; nothing where it could not be looked at.
type Seen = Option<Fingerprint>;

/// When it is time to read.
#[derive(Debug)]
struct Watch {
    /// As it looked when it was read.
    read: Seen,
    /// As it looked last.
    last: Seen,
}

impl Watch {
    /// Whether it changed, and has come to rest since.
    fn is_due(&mut self, now: Seen, is_asked: bool) -> bool {
        let is_at_rest = now == self.last;
        self.last = now;
        let is_due = is_asked || (is_at_rest && now != self.read);
        if is_due {
            self.read = now;
        }
        is_due
    }
}

impl Reload {
    /// `seen`: how the folder looked when it was read at the start.
    pub async fn keep_current(self, seen: Fingerprint) {
        let mut watch = Watch { read: Some(seen), last: Some(seen) };
        loop {
            let is_asked = tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => false,
                () = self.asked.notified() => true,
            };
            // What is written while it is read is seen as another change.
            if watch.is_due(self.look().await, is_asked) {
                self.again().await;
            }
        }
    }

    async fn look(&self) -> Seen {
        let folder = self.folder.clone();
        tokio::task::spawn_blocking(move || folder.glance().ok()).await.ok().flatten()
    }

    async fn again(&self) {
        let (folder, archive) = (self.folder.clone(), self.archive.clone());
        let read = tokio::task::spawn_blocking(move || loaded(&folder, &archive)).await;
        match read {
            Ok(Ok(loaded)) => self.take(loaded),
            Ok(Err(findings)) => self.stay(&findings),
            Err(error) => self.stay(&[Finding::error("", format!("the policies could not be read: {error}"))]),
        }
    }

    fn take(&self, loaded: LoadedPolicies) {
        for warning in &loaded.warnings {
            tracing::warn!(%warning, "policies");
        }
        let version = loaded.policies.version().to_owned();
        let before = self.in_force.now().policies.version().to_owned();
        let changes = self.in_force.replace(loaded.policies);
        let outcome = if changes.is_empty() { "unchanged" } else { "changed" };
        self.metrics.policies_read(outcome);
        if changes.is_empty() {
            tracing::info!(version, "policies were read again: they mean what they meant");
        } else {
            tracing::info!(version, before, changes = %changes, "policies took force");
        }
    }

    fn stay(&self, findings: &[Finding]) {
        let version = self.in_force.now().policies.version().to_owned();
        for finding in findings {
            tracing::error!(%finding, "policies");
        }
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
        tracing::error!(errors, version, "policies with errors take no force; those in force stay");
        self.metrics.policies_read("refused");
        self.in_force.stay(format!("policies changed and have errors ({errors}); version {version} stays in force"));
    }
}

/// A set that is archived: what cannot be shown to an auditor takes no force.
fn loaded(folder: &PolicyFolder, archive: &Archive) -> Result<LoadedPolicies, Vec<Finding>> {
    let loaded = folder.load()?;
    archive.keep(&loaded).map_err(|error| {
        vec![Finding::error("", format!("the policies cannot be archived beside the audit chain: {error}"))]
    })?;
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_written_is_not_read_before_it_is_at_rest() {
        let seen = |text: &str| Some(Fingerprint::of(&[text.as_bytes()]));
        let mut watch = Watch { read: seen("a"), last: seen("a") };
        let looks = [
            ("a", false, false),
            ("a b", false, false),
            ("a b c", false, false),
            ("a b c", false, true),
            ("a b c", false, false),
            ("d", false, false),
            ("a b c", false, false),
            ("a b c", false, false),
            // Who asks means now.
            ("e", true, true),
            ("e", false, false),
            ("f", false, false),
            ("f", false, true),
        ];
        for (at, (now, is_asked, is_due)) in looks.into_iter().enumerate() {
            assert_eq!(watch.is_due(seen(now), is_asked), is_due, "{at}");
        }
        // A folder that went away, and came back as it was.
        let looks = [None, None, None, seen("f"), seen("f"), seen("f")];
        assert_eq!(looks.map(|now| watch.is_due(now, false)), [false, true, false, false, true, false]);
    }
}
