//! Reloads policies, contract, certificates and keys while the gate runs, all or nothing: if any of them has an
//! error, the last good state stays in use.
//!
//! The files are checked every second. A change is read when two checks in a row found the same state, so that files
//! that are being written, or several files that belong together, are not read halfway; after SIGHUP they are read at
//! once.
//!
//! If two approvals are required, policies that are not proved to allow no more than before wait until two people have
//! approved them, on this node or another; the policies in force stay, even after a restart.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;

use super::reloadable::{ReloadableParts, settings_needing_restart};
use crate::adapters::file_stamp;
use crate::adapters::policies::{Archive, LoadedPolicies, PolicyFolder};
use crate::adapters::supervisor::Supervisor;
use crate::base::digest::Fingerprint;
use crate::base::finding::{Finding, Severity};
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::config::{Config, Loosening};
use crate::ledger::Commit;
use crate::node::{Candidate, InForce, Node, activate};
use crate::people::agreement::{PEOPLE, Succession, took_force};
use crate::policy::Policies;
use crate::stations::claim::Owner;

/// How often the files are checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// A configuration with its policies and contract, read and valid.
#[derive(Clone, Debug)]
pub struct StartConfig {
    pub config: Config,
    /// The settings of the file, each with a digest of its value and of the files that it names.
    pub written: BTreeMap<String, Fingerprint>,
    pub folder: PolicyFolder,
    pub policies: LoadedPolicies,
    /// The files and folders that were read besides the policies.
    pub files: Vec<PathBuf>,
}

/// Reads everything again; returns every error if there is one.
#[derive(Clone)]
pub struct ReadAgain(pub Arc<dyn Fn() -> Result<StartConfig, Vec<Finding>> + Send + Sync>);

impl fmt::Debug for ReadAgain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAgain").finish_non_exhaustive()
    }
}

/// The state of the reload.
pub(super) struct Reload {
    pub read_again: ReadAgain,
    pub reloadable: ReloadableParts,
    pub supervisor: Supervisor,
    /// The settings of the start.
    pub written: BTreeMap<String, Fingerprint>,
    pub files: Vec<PathBuf>,
    pub folder: PolicyFolder,
    pub archive: Archive,
    pub loosening: Loosening,
    pub in_force: Arc<InForce>,
    pub node: Arc<Node>,
    /// The environment whose store has the approvals.
    pub environment: Environment,
    /// Notified by SIGHUP.
    pub asked: Arc<Notify>,
    /// Policies that come into force when two people approve them.
    pub waiting: Option<LoadedPolicies>,
    /// Commits for policies that came into force, not yet in the audit log.
    pub unrecorded: Vec<Commit>,
}

/// The policies that a node starts with.
pub(super) struct StartPolicies {
    pub set: LoadedPolicies,
    pub waiting: Option<LoadedPolicies>,
    /// The version that was in force when this node last ran.
    pub before: Option<String>,
}

/// Chooses the policies of a start: those of the folder, or, if these wait for two approvals, those that were in force.
pub(super) fn start_policies(
    folder: &PolicyFolder,
    found: LoadedPolicies,
    archive: &Archive,
    loosening: Loosening,
) -> Result<StartPolicies, String> {
    let unusable = |error: io::Error| {
        format!("the policies cannot be archived beside the audit log, in `{}`: {error}", archive.folder().display())
    };
    let before = archive.in_force().map_err(unusable)?;
    let former = match (&before, loosening) {
        (Some(version), Loosening::TwoPeople) if version != found.policies.version() => Some(
            folder.at(archive.folder_of(version)).load().map_err(|findings| former_unreadable(version, &findings))?,
        ),
        _ => None,
    };
    let (set, waiting) = match former {
        Some(former) if candidate(folder, &former.policies, &found.policies, Timestamp::UNIX_EPOCH).is_some() => {
            (former, Some(found))
        }
        _ => (found, None),
    };
    archive.takes_force(&set).map_err(unusable)?;
    Ok(StartPolicies { set, waiting, before })
}

fn former_unreadable(version: &str, findings: &[Finding]) -> String {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    format!(
        "the policies that were in force, version {version}, cannot be read from the archive, and those of the folder may \
         allow more; to start with the folder's policies anyway, set `loosening = \"free\"`:\n{}",
        lines.join("\n")
    )
}

/// Returns the new policies as a candidate that waits for approval, unless they are proved to allow no more.
fn candidate(folder: &PolicyFolder, old: &Policies, new: &Policies, since: Timestamp) -> Option<Candidate> {
    let changes = new.meaning.since(&old.meaning);
    if changes.is_empty() {
        return None;
    }
    Candidate::of(Arc::new(new.clone()), folder.difference(old, new), &changes, since)
}

/// A stamp of all files; nothing if they could not be checked.
type FilesStamp = Option<Fingerprint>;

/// Decides when changed files are read.
#[derive(Debug)]
struct FileWatch {
    /// The stamp of the last read.
    read: FilesStamp,
    /// The stamp of the last check.
    last: FilesStamp,
}

impl FileWatch {
    /// Returns whether the files have changed since the last read, and not since the last check.
    fn is_due(&mut self, now: FilesStamp, is_asked: bool) -> bool {
        let is_stable = now == self.last;
        self.last = now;
        let is_due = is_asked || (is_stable && now != self.read);
        if is_due {
            self.read = now;
        }
        is_due
    }
}

impl Reload {
    /// Reloads for as long as the process runs. `before` is the version that was in force when this node last ran.
    pub async fn keep_current(mut self, before: Option<String>, seen: FilesStamp) {
        let mut watch = FileWatch { read: seen, last: seen };
        self.unrecorded.extend(before.and_then(|before| self.since(&before)));
        if let Some(found) = self.waiting.take() {
            self.apply_policies(found).await;
        }
        loop {
            let is_asked = tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => false,
                () = self.asked.notified() => true,
            };
            // A write during the read is another change, found by the next check.
            if watch.is_due(self.stamp().await, is_asked) {
                self.supervisor.reloading();
                self.reload().await;
                self.supervisor.ready();
                if is_asked {
                    self.reloadable.reload_files().await;
                }
            }
            self.apply_approved().await;
            self.record_changes().await;
        }
    }

    async fn stamp(&self) -> FilesStamp {
        let (folder, files) = (self.folder.clone(), self.files.clone());
        tokio::task::spawn_blocking(move || stamp_files(&folder, &files)).await.ok().flatten()
    }

    async fn reload(&mut self) {
        let ReadAgain(read) = self.read_again.clone();
        match tokio::task::spawn_blocking(move || read()).await {
            Ok(Ok(read)) => self.apply(read).await,
            Ok(Err(findings)) => self.keep_current_state(&findings),
            Err(error) => {
                self.keep_current_state(&[Finding::error("", format!("the configuration could not be read: {error}"))])
            }
        }
    }

    /// Applies everything that was read, or nothing.
    async fn apply(&mut self, read: StartConfig) {
        let prepared = match self.reloadable.prepare(&read.config) {
            Ok(prepared) => prepared,
            Err(error) => return self.keep_current_state(&[Finding::error("", error.to_string())]),
        };
        let (catalog, version) =
            (self.in_force.now().catalog.clone(), self.in_force.now().policies.version().to_owned());
        (self.folder, self.files) = (read.folder, read.files);
        if !self.apply_policies(read.policies).await {
            return;
        }
        let mut changed = self.reloadable.apply(prepared);
        let now = self.in_force.now();
        changed.extend(describe_contract_change(&catalog, &now.catalog));
        changed.extend((now.policies.version() != version).then(|| "policies".to_owned()));
        if !changed.is_empty() {
            tracing::info!(changed = changed.join("; "), "the reloaded configuration is in use");
        }
        let waits = settings_needing_restart(&self.written, &read.written);
        if !waits.is_empty() {
            tracing::warn!(settings = waits.join(", "), "these settings changed and need a restart");
        }
        self.node.metrics.reloaded(if changed.is_empty() { "unchanged" } else { "changed" }, waits.len());
    }

    /// Puts policies in force, or lets them wait for approval; returns `false` if neither was possible.
    async fn apply_policies(&mut self, found: LoadedPolicies) -> bool {
        for warning in &found.warnings {
            tracing::warn!(%warning, "policies");
        }
        let version = found.policies.version();
        let is_waiting = |set: &LoadedPolicies| set.policies.version() == version;
        if self.waiting.as_ref().is_some_and(is_waiting) {
            self.waiting = Some(found);
            return true;
        }
        let candidate = match self.loosening {
            Loosening::Free => Ok(None),
            Loosening::TwoPeople => {
                let (folder, old, new) = (self.folder.clone(), self.in_force.now(), found.policies.clone());
                let since = self.node.clock.now();
                tokio::task::spawn_blocking(move || candidate(&folder, &old.policies, &new, since)).await
            }
        };
        match candidate {
            Ok(None) => self.enforce(found, &[]).await,
            Ok(Some(candidate)) => {
                let (stays, direction) = (self.in_force.now(), candidate.difference.direction);
                let (stays, rates) = (stays.policies.version(), candidate.rates.join(", "));
                tracing::warn!(version, stays, ?direction, rates, "policies wait for two approvals");
                self.in_force.wait(candidate);
                self.node.metrics.policies_read("waiting");
                self.waiting = Some(found);
                true
            }
            Err(error) => {
                self.keep_current_state(&[Finding::error("", format!("the policies could not be compared: {error}"))]);
                false
            }
        }
    }

    /// Archives policies on disk, and then puts them in force.
    async fn enforce(&mut self, found: LoadedPolicies, people: &[Owner]) -> bool {
        let (archive, set) = (self.archive.clone(), found.clone());
        let kept = tokio::task::spawn_blocking(move || archive.takes_force(&set)).await;
        // Policies that cannot be archived, and so cannot be shown to an auditor, do not come into force.
        if let Err(error) = kept.map_err(io::Error::other).flatten() {
            let why = format!("the policies cannot be archived beside the audit log: {error}");
            self.keep_current_state(&[Finding::error("", why)]);
            return false;
        }
        self.waiting = None;
        let before = self.in_force.now().policies.version().to_owned();
        let changes = self.in_force.replace(found.catalog, found.policies);
        let now = self.in_force.now();
        let version = now.policies.version();
        if changes.is_empty() {
            self.node.metrics.policies_read("unchanged");
            tracing::info!(version, "policies were reloaded: no change in meaning");
        } else {
            self.node.metrics.policies_read("changed");
            tracing::info!(version, before, changes = %changes, "policies came into force");
            let succession = Succession { environment: self.environment, from: &before, to: version };
            self.unrecorded.push(took_force(succession, people, &self.node.id));
        }
        true
    }

    /// Returns the commit of policies that came into force by a start.
    fn since(&self, before: &str) -> Option<Commit> {
        let now = self.in_force.now();
        let succession = Succession { environment: self.environment, from: before, to: now.policies.version() };
        (succession.from != succession.to).then(|| took_force(succession, &[], &self.node.id))
    }

    /// Puts waiting policies in force when two people have approved them, on any node.
    async fn apply_approved(&mut self) {
        let Some(waiting) = self.waiting.clone() else { return };
        let now = self.in_force.now();
        let (from, to) = (now.policies.version(), waiting.policies.version());
        let succession = Succession { environment: self.environment, from, to };
        match activate::agreed(&self.node, succession).await {
            Ok(people) if people.len() >= PEOPLE => {
                self.enforce(waiting, &people).await;
            }
            Ok(_) => {}
            Err(fault) => self.node.told_of(&fault),
        }
    }

    /// Records in the audit log which policies came into force, as soon as the store is reachable.
    async fn record_changes(&mut self) {
        while let Some(commit) = self.unrecorded.first().cloned() {
            if let Err(fault) = self.node.commit(commit).await {
                return self.node.told_of(&fault);
            }
            self.unrecorded.remove(0);
        }
    }

    fn keep_current_state(&mut self, findings: &[Finding]) {
        self.waiting = None;
        let version = self.in_force.now().policies.version().to_owned();
        for finding in findings {
            tracing::error!(%finding, "policies");
        }
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
        tracing::error!(errors, version, "the new configuration or policies have errors; those in use stay");
        self.node.metrics.policies_read("refused");
        self.node.metrics.reload_refused();
        self.in_force.stay(format!("policies changed and have errors ({errors}); version {version} stays in force"));
    }
}

/// Returns a stamp of all files that can be reloaded.
pub(super) fn stamp_files(folder: &PolicyFolder, files: &[PathBuf]) -> FilesStamp {
    let (policies, others) = (folder.glance().ok()?, file_stamp::stamp_files(files).ok()?);
    Some(Fingerprint::of(&[policies.to_hex().as_bytes(), others.to_hex().as_bytes()]))
}

/// Describes how a contract has changed.
fn describe_contract_change(before: &Catalog, now: &Catalog) -> Option<String> {
    if before.digest() == now.digest() {
        return None;
    }
    let lacks = |one: &Catalog, other: &Catalog| -> Vec<String> {
        let is_on = |id| other.operation(id).is_some_and(|operation| operation.enabled);
        let ids = one.operations().iter().filter(|operation| operation.enabled).map(|operation| &operation.id);
        ids.filter(|id| !is_on(id)).map(ToString::to_string).collect()
    };
    let (added, removed) = (lacks(now, before).join(", "), lacks(before, now).join(", "));
    Some(match (added.as_str(), removed.as_str()) {
        ("", "") => "contract".to_owned(),
        (added, "") => format!("contract, with {added}"),
        ("", removed) => format!("contract, without {removed}"),
        (added, removed) => format!("contract, with {added}, without {removed}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_being_written_is_not_read_before_it_is_stable() {
        let seen = |text: &str| Some(Fingerprint::of(&[text.as_bytes()]));
        let mut watch = FileWatch { read: seen("a"), last: seen("a") };
        let looks = [
            ("a", false, false),
            ("a b", false, false),
            ("a b c", false, false),
            ("a b c", false, true),
            ("a b c", false, false),
            ("d", false, false),
            ("a b c", false, false),
            ("a b c", false, false),
            // After SIGHUP, files are read at once.
            ("e", true, true),
            ("e", false, false),
            ("f", false, false),
            ("f", false, true),
        ];
        for (at, (now, is_asked, is_due)) in looks.into_iter().enumerate() {
            assert_eq!(watch.is_due(seen(now), is_asked), is_due, "{at}");
        }
        // A folder that disappeared, and came back unchanged.
        let looks = [None, None, None, seen("f"), seen("f"), seen("f")];
        assert_eq!(looks.map(|now| watch.is_due(now, false)), [false, true, false, false, true, false]);
    }
}
