//! Reloads policies, contract, certificates and keys while the gate runs, all or nothing: if any of them has an
//! error, the last good state stays in use.
//!
//! The files are checked every second. A change is read when two checks in a row found the same state, so that files
//! that are being written, or that belong together, are not read halfway; after SIGHUP they are read at once. A file without
//! policies that changes all the time is not waited for.
//!
//! The policies in force are those that the store names; a changed folder proposes others in their place, once. If two
//! approvals are required, policies that are not proved to allow no more, and contracts that bind calls otherwise, wait
//! until two people have approved them, on this node or another.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Notify;

use super::file_watch::{FileWatch, stamp_files};
use super::files_trouble::FilesTrouble;
use super::reading_again::{LateRead, READ_DEADLINE};
use super::reloadable::{ReloadableParts, settings_needing_restart};
use super::told_readings::ToldReadings;
use crate::adapters::audit::is_missing_folder;
use crate::adapters::disk_trouble::is_trouble;
use crate::adapters::file_stamp::FileStamps;
use crate::adapters::machine::has_descriptors;
use crate::adapters::policies::{LoadedPolicies, PolicyFolder};
use crate::adapters::supervisor::Supervisor;
use crate::base::digest::Fingerprint;
use crate::base::finding::{Finding, Severity};
use crate::catalog::Catalog;
use crate::config::Config;
use crate::ledger::Number;
use crate::node::hindsight::Hindsight;
use crate::node::stored_policies::{NotActivated, StoredPolicies};
use crate::node::{Candidate, InForce, Node, Snapshot, activate};
use crate::people::activation::{ActiveSet, Agreed};
use crate::people::agreement::Succession;
use crate::policy::{Policies, SignableAct};

/// How often the files are checked.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long a start waits until it knows which policies are in force; afterwards, reads are served without that.
const FIRST_LOOK: Duration = Duration::from_secs(5);

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
    pub stored: Arc<StoredPolicies>,
    /// The folder of this gate's audit log.
    pub audit_folder: PathBuf,
    pub in_force: Arc<InForce>,
    pub node: Arc<Node>,
    /// Notified by SIGHUP.
    pub asked: Arc<Notify>,
    /// The folder's proposal: policies that are to come into force, or that wait for two approvals.
    pub proposal: Option<LoadedPolicies>,
    /// The policies of the folder, where the store was not open yet when the start went on.
    pub unbegun: Option<LoadedPolicies>,
    /// The versions that were compared for the set that waits: in force, and proposed.
    pub compared: Option<(String, String)>,
    pub trouble: FilesTrouble,
    pub told: ToldReadings,
}

/// Returns the new policies as a candidate that waits for approval, unless they are proved to allow no more.
fn candidate(folder: &PolicyFolder, old: &Snapshot, new: &LoadedPolicies, since: Timestamp) -> Option<Candidate> {
    let changes = new.policies.meaning.since(&old.policies.meaning);
    if changes.is_empty() {
        return None;
    }
    let difference = folder.difference(&old.policies, &new.policies);
    let (old_catalog, new_catalog) = (&old.catalog, &new.catalog);
    let why = (old_catalog.binding() != new_catalog.binding(), old.policies.rules.must_sign(SignableAct::Activation));
    Candidate::of(Arc::new(new.policies.clone()), difference, &changes, why, since)
}

impl Reload {
    /// Takes what the store names, and then proposes the policies of the folder where they are others. If the store is not
    /// open yet, or does not answer in time, that happens later.
    pub async fn begin(&mut self, found: LoadedPolicies, is_open: bool) {
        if !is_open {
            self.unbegun = Some(found);
            return;
        }
        tokio::time::timeout(FIRST_LOOK, self.begin_now(found)).await.ok();
    }

    async fn begin_now(&mut self, found: LoadedPolicies) {
        let version = found.policies.version().to_owned();
        self.proposal = Some(found);
        if let Ok(active) = self.stored.follow().await
            && version == self.in_force.now().policies.version()
        {
            self.proposal = None;
            // Also where another gate put it in force: this folder does not come back with it by itself.
            if let Err(error) = self.stored.propose(&version, number(active.as_ref())) {
                self.not_archived(&error);
            }
        }
        self.consider().await;
    }

    /// Reloads for as long as the process runs.
    pub async fn keep_current(mut self, seen: Option<FileStamps>) {
        if let Some(found) = self.unbegun.take() {
            self.begin_now(found).await;
        }
        let (mut watch, mut late) = (FileWatch::new(seen, &self.files), LateRead::default());
        loop {
            let is_asked = tokio::select! {
                () = tokio::time::sleep(POLL_INTERVAL) => false,
                () = self.asked.notified() => true,
            };
            // A write during the read is another change, found by the next check.
            let is_asked = is_asked || late.has_ended();
            let reloaded = match self.stamp().await {
                Ok(now) if watch.is_due(&now, is_asked) => self.reload_now((&mut watch, &mut late), is_asked).await,
                Err(error) if !is_asked => {
                    self.trouble.tell(&error);
                    Ok(())
                }
                stamped => stamped.map(drop),
            };
            if let Err(error) = reloaded {
                watch.forget();
                self.trouble.tell(&error);
            }
            self.consider().await;
            self.trouble.end_of_look();
            self.told.restless(&watch.restless());
        }
    }

    async fn stamp(&self) -> io::Result<FileStamps> {
        let (folder, files) = (self.folder.clone(), self.files.clone());
        tokio::task::spawn_blocking(move || stamp_files(&folder, &files)).await.map_err(io::Error::other)?
    }

    /// Returns a stamp of each policy file that every write changes.
    async fn stamp_writes(&self) -> io::Result<FileStamps> {
        let folder = self.folder.clone();
        tokio::task::spawn_blocking(move || folder.stamps_of_writes()).await.map_err(io::Error::other)?
    }

    async fn reload_now(&mut self, reads: (&mut FileWatch, &mut LateRead), is_asked: bool) -> io::Result<()> {
        if is_asked {
            self.told.tell_all();
        }
        self.supervisor.reloading();
        let reloaded = self.reload(reads).await;
        self.supervisor.ready();
        if is_asked {
            self.reloadable.reload_files().await;
        }
        reloaded
    }

    /// Reads all files; fails where no file descriptor was left, so that what could not be read says nothing.
    async fn reload(&mut self, (watch, late): (&mut FileWatch, &mut LateRead)) -> io::Result<()> {
        let ReadAgain(read) = self.read_again.clone();
        let before = self.stamp_writes().await?;
        match late.read_within(READ_DEADLINE, move || read()).await {
            Ok(read) => {
                watch.were_read(read.folder.stamps_of(&read.policies), &read.files);
                self.apply(read).await;
            }
            Err(findings) => {
                has_descriptors()?;
                self.keep_current_state(&findings);
                // Files that were being written are read again: what is wrong may be right meanwhile.
                if self.stamp_writes().await? != before {
                    watch.forget();
                }
            }
        }
        Ok(())
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
        self.node.metrics.reloaded(if changed.is_empty() { "unchanged" } else { "changed" }, waits.len());
        self.told.needs_restart(waits);
    }

    /// Proposes the policies of the folder; returns `false` if they can neither come into force nor wait.
    async fn apply_policies(&mut self, found: LoadedPolicies) -> bool {
        self.told.warnings(&found.warnings);
        self.proposal = Some(found);
        self.consider().await
    }

    /// Follows the store, and then puts the proposal in force, or lets it wait for approval; returns `false` if neither
    /// is possible. While the store is away, nothing comes into force.
    pub async fn consider(&mut self) -> bool {
        let active = match self.stored.follow().await {
            Ok(active) => active,
            Err(fault) => {
                self.stored.told_of(&fault);
                return true;
            }
        };
        let Some(found) = self.proposal.clone() else { return true };
        let now = self.in_force.now();
        // What a gate cannot run it cannot compare with anything, and its folder was not written for it.
        if self.node.activations.fault().is_some() {
            self.drop_candidate(&now);
            return true;
        }
        // Another set came into force meanwhile: the next look follows it.
        if active.as_ref().is_some_and(|active| active.set.version != now.policies.version()) {
            return true;
        }
        if found.policies.version() == now.policies.version() {
            return self.is_in_force(found, active.as_ref());
        }
        match self.is_live(&found, active.as_ref()) {
            Ok(true) => self.judge(found, active, now).await,
            Ok(false) => {
                self.withdraw();
                true
            }
            Err(error) => self.not_archived(&error),
        }
    }

    /// The folder says what is in force: nothing has to change.
    fn is_in_force(&mut self, found: LoadedPolicies, active: Option<&ActiveSet>) -> bool {
        if let Err(error) = self.stored.propose(found.policies.version(), number(active)) {
            return self.not_archived(&error);
        }
        (self.proposal, self.compared) = (None, None);
        self.told.unchanged(&found.texts, found.policies.version());
        self.stored.rewritten(found.clone());
        self.in_force.replace(found.catalog, found.policies);
        self.node.metrics.policies_read("unchanged");
        true
    }

    /// Whether the folder still proposes these policies in place of the set in force. A folder proposes once: what it
    /// proposed in place of an earlier set, or before this gate met the store, does not come back by itself.
    fn is_live(&self, found: &LoadedPolicies, active: Option<&ActiveSet>) -> io::Result<bool> {
        let (version, replaces) = (found.policies.version(), number(active));
        match self.stored.proposed()? {
            Some(proposed) if proposed.version == version => Ok(proposed.replaces == replaces),
            Some(_) | None => {
                self.stored.propose(version, replaces)?;
                Ok(true)
            }
        }
    }

    fn withdraw(&mut self) {
        (self.proposal, self.compared) = (None, None);
        let now = self.in_force.now();
        tracing::warn!(
            version = now.policies.version(),
            "the policies in force are others than those of the folder, which were proposed before: change the folder to \
             propose them again"
        );
        self.drop_candidate(&now);
    }

    fn drop_candidate(&self, now: &Snapshot) {
        if now.candidate.is_some() {
            self.in_force.replace(now.catalog.clone(), Policies::clone(&now.policies));
        }
    }

    async fn judge(&mut self, found: LoadedPolicies, active: Option<ActiveSet>, now: Arc<Snapshot>) -> bool {
        let takes_two = self.stored.takes_two(active.as_ref(), &now, &found);
        if !takes_two && !now.policies.rules.must_sign(SignableAct::Activation) {
            return self.activate(&found, active.as_ref(), None).await;
        }
        let (from, to) = (now.policies.version().to_owned(), found.policies.version().to_owned());
        let (compared, in_force) = (Some((from.clone(), to.clone())), now.clone());
        if self.compared != compared || now.candidate.is_none() {
            let (folder, new, since) = (self.folder.clone(), found.clone(), self.node.clock.now());
            match tokio::task::spawn_blocking(move || candidate(&folder, &now, &new, since)).await {
                Ok(None) => return self.activate(&found, active.as_ref(), None).await,
                Ok(Some(candidate)) => self.wait(candidate, number(active.as_ref())),
                Err(error) => {
                    let why = format!("the policies could not be compared: {error}");
                    self.keep_current_state(&[Finding::error("", why)]);
                    return false;
                }
            }
            self.compared = compared;
        }
        let (environment, replaces) = (self.stored.leading(), number(active.as_ref()));
        let succession = Succession { environment, replaces, from: &from, to: &to };
        match activate::agreement(&self.node, (&in_force.policies, &found.policies), succession).await {
            Ok(Some(agreed)) => self.activate(&found, active.as_ref(), Some(&agreed)).await,
            Ok(None) => true,
            Err(fault) => {
                self.node.told_of(&fault);
                true
            }
        }
    }

    /// Lets a set wait in place of the one that this commit put in force.
    fn wait(&self, candidate: Candidate, replaces: Number) {
        let (stays, direction) = (self.in_force.now(), candidate.difference.direction);
        let (version, stays) = (candidate.policies.version(), stays.policies.version());
        let rates = candidate.rates.join(", ");
        tracing::warn!(version, stays, ?direction, rates, "policies wait for two approvals");
        self.in_force.wait(candidate);
        self.node.metrics.policies_read("waiting");
        self.look_back(replaces);
    }

    /// Has the past decisions decided by the set that waits, beside everything else, and then tells webhooks of it.
    fn look_back(&self, replaces: Number) {
        let (now, node, folder) = (self.in_force.now(), self.node.clone(), self.audit_folder.clone());
        let (snapshot, reader) = (now.clone(), node.clone());
        let read = tokio::task::spawn_blocking(move || {
            let Some(candidate) = &snapshot.candidate else { return };
            let (in_force, waiting) = (&snapshot.policies, &candidate.policies);
            let hindsight = Hindsight { in_force, waiting, catalog: &snapshot.catalog, key: &reader.operand_key };
            candidate.note_history(hindsight.of_journal(&folder, &reader.id, &|| false));
        });
        let (environment, in_force) = (self.stored.leading(), self.in_force.clone());
        tokio::spawn(async move {
            if let Err(error) = read.await {
                tracing::error!(%error, "what the waiting policies would have changed is not known");
            }
            activate::tell_of_waiting(&node, environment, &in_force, (replaces, &now)).await;
        });
    }

    async fn activate(&mut self, found: &LoadedPolicies, active: Option<&ActiveSet>, agreed: Option<&Agreed>) -> bool {
        match self.stored.activate(found, active, agreed).await {
            Ok(()) => {
                (self.proposal, self.compared) = (None, None);
                true
            }
            Err(NotActivated::Archive(error)) => self.not_archived(&error),
            // The next look shows what is in force now.
            Err(NotActivated::Raced) => true,
            Err(NotActivated::Store(fault)) => {
                self.node.told_of(&fault);
                true
            }
        }
    }

    fn not_archived(&mut self, error: &io::Error) -> bool {
        // The next look tries again.
        if is_trouble(error) {
            // The watch of the audit log tells of a folder that is missing.
            if !is_missing_folder(error) {
                self.trouble.tell(error);
            }
            return true;
        }
        let why = format!("the policies cannot be archived beside the audit log: {error}");
        self.keep_current_state(&[Finding::error("", why)]);
        false
    }

    fn keep_current_state(&mut self, findings: &[Finding]) {
        (self.proposal, self.compared) = (None, None);
        let version = self.in_force.now().policies.version().to_owned();
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
        self.told.errors(findings, errors, &version);
        self.node.metrics.policies_read("refused");
        self.node.metrics.reload_refused();
        self.in_force.stay(format!("policies changed and have errors ({errors}); version {version} stays in force"));
    }
}

/// The commit that put the set in force; 0 where there is none.
fn number(active: Option<&ActiveSet>) -> Number {
    active.map_or(Number::new(0), |active| active.number)
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
