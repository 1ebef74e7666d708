//! What changed takes force while the gate runs: policies, contract, certificates and keys, all or nothing. With an error
//! anywhere in it none does, and what was good last stays.
//!
//! Every second it is looked at whether a file has changed. What changed is read when it has been the same twice in a row, so
//! that files which are being written, or many that belong together, are not taken by halves; after SIGHUP it is read at once.
//!
//! Where two people must agree, a set that is not proved to let no more pass waits until they have, here or at another
//! node; the set in force stays, also over a restart.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;

use super::live::{Live, need_restart};
use crate::adapters::glance;
use crate::adapters::policies::{Archive, LoadedPolicies, PolicyFolder};
use crate::adapters::supervisor::Supervisor;
use crate::base::digest::Fingerprint;
use crate::base::finding::{Finding, Severity};
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::commit::Commit;
use crate::config::{Config, Loosening};
use crate::journey::{Books, Candidate, InForce, activate};
use crate::policy::Policies;
use crate::stations::agree::{PEOPLE, Succession, took_force};
use crate::stations::claim::Owner;

const LOOK_EVERY: Duration = Duration::from_secs(1);

/// All that was read, and that can be run.
#[derive(Clone, Debug)]
pub struct Read {
    pub config: Config,
    /// The settings that are written, each with a digest of its value and of the files that it names.
    pub written: BTreeMap<String, Fingerprint>,
    pub folder: PolicyFolder,
    pub policies: LoadedPolicies,
    /// What was looked at besides the policies: files, and folders of files.
    pub files: Vec<PathBuf>,
}

/// Reads all again, or tells everything that is wrong with it.
#[derive(Clone)]
pub struct ReadAgain(pub Arc<dyn Fn() -> Result<Read, Vec<Finding>> + Send + Sync>);

impl fmt::Debug for ReadAgain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAgain").finish_non_exhaustive()
    }
}

/// What it takes to bring all up to date.
pub(super) struct Reload {
    pub read_again: ReadAgain,
    pub live: Live,
    pub supervisor: Supervisor,
    /// The settings of the start.
    pub written: BTreeMap<String, Fingerprint>,
    pub files: Vec<PathBuf>,
    pub folder: PolicyFolder,
    pub archive: Archive,
    pub loosening: Loosening,
    pub in_force: Arc<InForce>,
    pub books: Arc<Books>,
    /// Where agreements stand in the store.
    pub environment: Environment,
    /// SIGHUP came.
    pub asked: Arc<Notify>,
    /// A set that is not in force until two people agree.
    pub waiting: Option<LoadedPolicies>,
    /// What took force, and is not in the audit chain yet.
    pub untold: Vec<Commit>,
}

/// What a node begins with.
pub(super) struct Start {
    pub set: LoadedPolicies,
    pub waiting: Option<LoadedPolicies>,
    /// The version that was in force when this node ran last.
    pub before: Option<String>,
}

/// What is in force at a start: the set of the folder, or, where that waits for two people, the one that was in force.
pub(super) fn start(
    folder: &PolicyFolder,
    found: LoadedPolicies,
    archive: &Archive,
    loosening: Loosening,
) -> Result<Start, String> {
    let unusable = |error: io::Error| {
        format!("the policies cannot be archived beside the audit chain, in `{}`: {error}", archive.folder().display())
    };
    let before = archive.in_force().map_err(unusable)?;
    let former = match (&before, loosening) {
        (Some(version), Loosening::TwoPeople) if version != found.policies.version() => Some(
            folder.at(archive.folder_of(version)).load().map_err(|findings| former_unreadable(version, &findings))?,
        ),
        _ => None,
    };
    let (set, waiting) = match former {
        Some(former) if waits(folder, &former.policies, &found.policies, Timestamp::UNIX_EPOCH).is_some() => {
            (former, Some(found))
        }
        _ => (found, None),
    };
    archive.takes_force(&set).map_err(unusable)?;
    Ok(Start { set, waiting, before })
}

fn former_unreadable(version: &str, findings: &[Finding]) -> String {
    let told: Vec<String> = findings.iter().map(ToString::to_string).collect();
    format!(
        "the policies that were in force, version {version}, cannot be read from the archive, and those of the folder may \
         be looser; a start with `loosening = \"free\"` takes the folder's:\n{}",
        told.join("\n")
    )
}

/// The set as one that waits, unless it is proved that no more passes under it.
fn waits(folder: &PolicyFolder, old: &Policies, new: &Policies, since: Timestamp) -> Option<Candidate> {
    let changes = new.meaning.since(&old.meaning);
    if changes.is_empty() {
        return None;
    }
    Candidate::of(Arc::new(new.clone()), folder.difference(old, new), &changes, since)
}

/// How all looked; nothing where it could not be looked at.
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
    /// `before`: what was in force when this node ran last.
    pub async fn keep_current(mut self, before: Option<String>, seen: Seen) {
        let mut watch = Watch { read: seen, last: seen };
        self.untold.extend(before.and_then(|before| self.since(&before)));
        if let Some(found) = self.waiting.take() {
            self.take(found).await;
        }
        loop {
            let is_asked = tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => false,
                () = self.asked.notified() => true,
            };
            // What is written while it is read is seen as another change.
            if watch.is_due(self.look().await, is_asked) {
                self.supervisor.reloading();
                self.again().await;
                self.supervisor.ready();
                if is_asked {
                    self.live.look().await;
                }
            }
            self.hear().await;
            self.tell().await;
        }
    }

    async fn look(&self) -> Seen {
        let (folder, files) = (self.folder.clone(), self.files.clone());
        tokio::task::spawn_blocking(move || look(&folder, &files)).await.ok().flatten()
    }

    async fn again(&mut self) {
        let ReadAgain(read) = self.read_again.clone();
        match tokio::task::spawn_blocking(move || read()).await {
            Ok(Ok(read)) => self.take_all(read).await,
            Ok(Err(findings)) => self.stay(&findings),
            Err(error) => self.stay(&[Finding::error("", format!("nothing could be read: {error}"))]),
        }
    }

    /// All of it, or none.
    async fn take_all(&mut self, read: Read) {
        let made = match self.live.make(&read.config) {
            Ok(made) => made,
            Err(error) => return self.stay(&[Finding::error("", error.to_string())]),
        };
        let (catalog, version) =
            (self.in_force.now().catalog.clone(), self.in_force.now().policies.version().to_owned());
        (self.folder, self.files) = (read.folder, read.files);
        if !self.take(read.policies).await {
            return;
        }
        let mut changed = self.live.take(made);
        let now = self.in_force.now();
        changed.extend(contract(&catalog, &now.catalog));
        changed.extend((now.policies.version() != version).then(|| "policies".to_owned()));
        if !changed.is_empty() {
            tracing::info!(changed = changed.join("; "), "what was read again is in use");
        }
        let waits = need_restart(&self.written, &read.written);
        if !waits.is_empty() {
            tracing::warn!(settings = waits.join(", "), "these settings changed, and need a restart");
        }
        self.books.metrics.reloaded(if changed.is_empty() { "unchanged" } else { "changed" }, waits.len());
    }

    /// A set was found: it takes force, or waits. `false`: neither.
    async fn take(&mut self, found: LoadedPolicies) -> bool {
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
                let since = self.books.clock.now();
                tokio::task::spawn_blocking(move || waits(&folder, &old.policies, &new, since)).await
            }
        };
        match candidate {
            Ok(None) => self.enforce(found, &[]).await,
            Ok(Some(candidate)) => {
                let (stays, direction) = (self.in_force.now(), candidate.difference.direction);
                let (stays, rates) = (stays.policies.version(), candidate.rates.join(", "));
                tracing::warn!(version, stays, ?direction, rates, "policies wait until two people agree");
                self.in_force.wait(candidate);
                self.books.metrics.policies_read("waiting");
                self.waiting = Some(found);
                true
            }
            Err(error) => {
                self.stay(&[Finding::error("", format!("the policies could not be compared: {error}"))]);
                false
            }
        }
    }

    /// On disk that it is in force, then it is.
    async fn enforce(&mut self, found: LoadedPolicies, people: &[Owner]) -> bool {
        let (archive, set) = (self.archive.clone(), found.clone());
        let kept = tokio::task::spawn_blocking(move || archive.takes_force(&set)).await;
        // A set that is archived: what cannot be shown to an auditor takes no force.
        if let Err(error) = kept.map_err(io::Error::other).flatten() {
            let why = format!("the policies cannot be archived beside the audit chain: {error}");
            self.stay(&[Finding::error("", why)]);
            return false;
        }
        self.waiting = None;
        let before = self.in_force.now().policies.version().to_owned();
        let changes = self.in_force.replace(found.catalog, found.policies);
        let now = self.in_force.now();
        let version = now.policies.version();
        if changes.is_empty() {
            self.books.metrics.policies_read("unchanged");
            tracing::info!(version, "policies were read again: they mean what they meant");
        } else {
            self.books.metrics.policies_read("changed");
            tracing::info!(version, before, changes = %changes, "policies took force");
            let succession = Succession { environment: self.environment, from: &before, to: version };
            self.untold.push(took_force(succession, people, &self.books.node));
        }
        true
    }

    /// What took force by a start.
    fn since(&self, before: &str) -> Option<Commit> {
        let now = self.in_force.now();
        let succession = Succession { environment: self.environment, from: before, to: now.policies.version() };
        (succession.from != succession.to).then(|| took_force(succession, &[], &self.books.node))
    }

    /// What people said since, at any node.
    async fn hear(&mut self) {
        let Some(waiting) = self.waiting.clone() else { return };
        let now = self.in_force.now();
        let (from, to) = (now.policies.version(), waiting.policies.version());
        let succession = Succession { environment: self.environment, from, to };
        match activate::agreed(&self.books, succession).await {
            Ok(people) if people.len() >= PEOPLE => {
                self.enforce(waiting, &people).await;
            }
            Ok(_) => {}
            Err(fault) => self.books.told_of(&fault),
        }
    }

    /// What took force is brought to the audit chain, as soon as there is a store.
    async fn tell(&mut self) {
        while let Some(commit) = self.untold.first().cloned() {
            if let Err(fault) = self.books.commit(commit).await {
                return self.books.told_of(&fault);
            }
            self.untold.remove(0);
        }
    }

    fn stay(&mut self, findings: &[Finding]) {
        self.waiting = None;
        let version = self.in_force.now().policies.version().to_owned();
        for finding in findings {
            tracing::error!(%finding, "policies");
        }
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
        tracing::error!(errors, version, "policies with errors take no force; those in force stay");
        self.books.metrics.policies_read("refused");
        self.books.metrics.reload_refused();
        self.in_force.stay(format!("policies changed and have errors ({errors}); version {version} stays in force"));
    }
}

/// How all looks, as far as it is read again.
pub(super) fn look(folder: &PolicyFolder, files: &[PathBuf]) -> Seen {
    let (policies, others) = (folder.glance().ok()?, glance::look(files).ok()?);
    Some(Fingerprint::of(&[policies.to_hex().as_bytes(), others.to_hex().as_bytes()]))
}

/// What a contract has otherwise, in words.
fn contract(before: &Catalog, now: &Catalog) -> Option<String> {
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
