//! The policies that a start begins with, before the store has named those in force.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use crate::adapters::disk_trouble::is_trouble;
use crate::adapters::policies::{Archive, FollowedSets, LoadedPolicies, PolicyFolder, Proposed};
use crate::base::ids::Environment;
use crate::config::{Config, Loosening};
use crate::ledger::Number;
use crate::node::stored_policies::StoredPolicies;
use crate::node::{InForce, Node};

/// Chooses the policies of a start: those that this gate last ran, or those of the folder where there are none, or where
/// they cannot be read again. They decide on reads until the store has named the policies in force.
pub(super) fn start_policies(
    folder: &PolicyFolder,
    found: &LoadedPolicies,
    archive: &Archive,
) -> Result<LoadedPolicies, String> {
    let unusable = |error: io::Error| match error.kind() {
        // A damaged note says which file it is, and what to do.
        io::ErrorKind::InvalidData => error.to_string(),
        _ => format!(
            "the policies cannot be archived beside the audit log, in `{}`: {error}",
            archive.folder().display()
        ),
    };
    match archived(found, archive) {
        Ok(()) => {}
        // It is done when the node is opened, once that disk can be used.
        Err(error) if is_trouble(&error) => {
            tracing::warn!(%error, "the policies cannot be archived yet beside the audit log");
        }
        Err(error) => return Err(unusable(error)),
    }
    let Some(version) = archive.in_force().map_err(unusable)? else { return Ok(found.clone()) };
    let former = match version == found.policies.version() {
        true => None,
        false => folder.at(archive.folder_of(&version)).load().ok(),
    };
    Ok(former.filter(|former| former.policies.version() == version).unwrap_or_else(|| found.clone()))
}

/// Keeps the policies of the folder in the archive. Where this gate never ran here, they are in force at first.
pub(super) fn archived(found: &LoadedPolicies, archive: &Archive) -> io::Result<()> {
    archive.keep(found)?;
    if archive.proposed()?.is_none() {
        // The folder of a gate that never ran here changes nothing for the others.
        archive.propose(&Proposed { version: found.policies.version().to_owned(), replaces: Number::new(0) })?;
    }
    if archive.in_force()?.is_none() { archive.takes_force(found) } else { Ok(()) }
}

/// Returns the policies of the store, which take the place of those that run.
pub(super) fn stored_policies(
    config: &Config,
    (node, in_force): (&Arc<Node>, &Arc<InForce>),
    archive: Archive,
    folder: &PolicyFolder,
    running: LoadedPolicies,
) -> Result<Arc<StoredPolicies>, String> {
    let unusable = |error: io::Error| match error.kind() {
        io::ErrorKind::InvalidData => error.to_string(),
        _ => format!("the archive of policies beside the audit log cannot be used: {error}"),
    };
    let (followed, last) = (archive.followed().map_err(unusable)?, archive.in_force().map_err(unusable)?);
    let version = last.unwrap_or_else(|| running.policies.version().to_owned());
    let first = FollowedSets { version, successions: None, root: None, used: BTreeSet::new() };
    Ok(Arc::new(StoredPolicies {
        node: node.clone(),
        in_force: in_force.clone(),
        environments: config.environments.iter().map(|one| one.environment).collect(),
        archive,
        folder: folder.clone(),
        two_people: config.loosening == Loosening::TwoPeople,
        has_people: config.console.is_some()
            && config.environments.iter().any(|one| one.environment == Environment::Production),
        root: config.policies_root.clone(),
        followed: followed.unwrap_or(first).into(),
        is_unnoted: AtomicBool::default(),
        running: Arc::new(running).into(),
        whole_at: Mutex::default(),
        turn: tokio::sync::Mutex::default(),
    }))
}
