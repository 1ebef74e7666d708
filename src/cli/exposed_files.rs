//! Files and folders that other users of the machine can change or, where they are secret, read.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::Loaded;
use crate::adapters::machine::lies_in_memory;
use crate::base::finding::Finding;
use crate::base::ids::Environment;
use crate::config::is_loopback;

const OTHERS_READ: u32 = 0o004;
const OTHERS_WRITE: u32 = 0o002;
const OTHERS_ENTER: u32 = 0o001;
const GROUP_READ: u32 = 0o040;
const GROUP_WRITE: u32 = 0o020;
/// A group can enter a folder as a group or as others.
const GROUP_ENTER: u32 = 0o011;
/// In such a folder only the owner of a file replaces it, as in `/tmp`.
const STICKY: u32 = 0o1000;

/// Returns a finding for every file and folder that a gate reads or writes and that others could misuse.
pub(super) fn exposed_files(loaded: &Loaded) -> Vec<Finding> {
    let policies = loaded.config.policies.iter().flat_map(|folder| {
        let files = loaded.policies.texts.iter().map(|(name, _)| folder.join(name));
        std::iter::once(folder.clone()).chain(files)
    });
    let all: Vec<PathBuf> = loaded.looked_at.iter().cloned().chain(policies).collect();
    let written = all.iter().filter(|path| may(path, OTHERS_WRITE)).map(|path| {
        let text = "every user of this machine can change it, and so decide what the gate does";
        exposed(path, text, "chmod o-w")
    });
    let read = loaded
        .secret_files
        .iter()
        .filter(|path| may(path, OTHERS_READ))
        .map(|path| exposed(path, "it contains a secret, and every user of this machine can read it", "chmod o-r"));
    let read_by_group = loaded.secret_files.iter().filter(|path| may_group(path, GROUP_READ)).map(|path| {
        let text = "it contains a secret, and every user of its group can read it";
        let remedy = "run this as the gate's user, if the group is the gate's own; otherwise chmod g-r";
        exposed(path, text, remedy)
    });
    let all = written.chain(read).chain(read_by_group).chain(folders_of_others(&all));
    let all = all.chain(kept_folders(loaded)).chain(keys_beside(loaded)).chain(operands_beside(loaded));
    all.chain(among_policies(loaded)).chain(in_memory(loaded)).collect()
}

/// Returns the folders that the gate writes, each with its setting.
fn written_folders(loaded: &Loaded) -> [(&'static str, &Path); 2] {
    [("store.folder", &loaded.config.store.folder), ("audit.folder", &loaded.config.audit.folder)]
}

/// Returns a finding for every folder of the gate in which others can write.
fn kept_folders(loaded: &Loaded) -> Vec<Finding> {
    let found = written_folders(loaded).into_iter().filter_map(|(name, folder)| {
        let who = match (may(folder, OTHERS_WRITE), may_group(folder, GROUP_WRITE)) {
            (true, _) => "every user of this machine",
            (false, true) => "every user of its group",
            (false, false) => return None,
        };
        let text = format!("it is `{name}`, and {who} can remove or replace what the gate keeps in it");
        Some(exposed(folder, &text, "chmod go-w"))
    });
    found.collect()
}

/// Returns a finding if the gate would write a key of its own into the audit log's folder.
fn operands_beside(loaded: &Loaded) -> Option<Finding> {
    let (store, audit) = (&loaded.config.store.folder, &loaded.config.audit.folder);
    let is_inside = loaded.config.audit.operand_key.is_none() && real(store)?.starts_with(real(audit)?);
    let text = "`store.folder` lies in `audit.folder`: the key for personal names that the gate writes there goes with every copy of \
                the audit log";
    let remedy = "give `store.folder` a folder of its own, or set `audit.operand_key`";
    is_inside.then(|| Finding::insecure(&store.display().to_string(), text).remedy(remedy))
}

/// Returns a finding for every folder that the gate writes and that is the folder of policies, or in it, or around it.
fn among_policies(loaded: &Loaded) -> Vec<Finding> {
    let Some(policies) = loaded.config.policies.as_ref().and_then(|folder| real(folder)) else { return Vec::new() };
    let is_among = |folder: &Path| {
        real(folder).is_some_and(|folder| folder.starts_with(&policies) || policies.starts_with(&folder))
    };
    let found = written_folders(loaded).into_iter().filter(|(_, folder)| is_among(folder)).map(|(name, folder)| {
        let text = format!(
            "`{name}` and the folder of policies are the same, or one lies in the other: whoever may write there for the gate \
             decides what is paid, and a copy or a restore of the one replaces the other"
        );
        Finding::insecure(&folder.display().to_string(), text).remedy("give each a folder of its own")
    });
    found.collect()
}

/// Returns a finding for every folder of the gate that is in memory, where real money may move: a simulator on this machine
/// moves none.
fn in_memory(loaded: &Loaded) -> Vec<Finding> {
    let production = loaded.config.environments.iter().find(|of| of.environment == Environment::Production);
    if production.is_none_or(|of| is_loopback(&of.upstream.host)) {
        return Vec::new();
    }
    let found = written_folders(loaded).into_iter().filter(|(_, folder)| is_in_memory(folder)).map(|(name, folder)| {
        let text = format!("it is `{name}`, and lies in memory: a start of the machine loses what was paid");
        Finding::insecure(&folder.display().to_string(), text).remedy("name a folder on a disk")
    });
    found.collect()
}

/// Whether a folder is in memory, or will be when it is made.
fn is_in_memory(folder: &Path) -> bool {
    real(folder).is_some_and(|real| real.ancestors().find_map(|there| lies_in_memory(there).ok()).unwrap_or(false))
}

/// Returns the path without links, also where its end does not exist yet.
fn real(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().find_map(|there| Some(there.canonicalize().ok()?.join(path.strip_prefix(there).ok()?)))
}

/// Returns a finding for every folder in which others can put another file in the place of one of these.
fn folders_of_others(files: &[PathBuf]) -> Vec<Finding> {
    let real = files.iter().filter_map(|path| path.canonicalize().ok());
    let folders: BTreeSet<PathBuf> =
        real.flat_map(|path| path.ancestors().skip(1).map(Path::to_owned).collect::<Vec<_>>()).collect();
    let is_sticky = |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & STICKY != 0);
    let open =
        folders.iter().filter(|folder| may(folder, OTHERS_WRITE) && !is_sticky(folder) && !files.contains(folder));
    let text =
        "every user of this machine can put another file in the place of one in it, and so decide what the gate does";
    open.map(|folder| exposed(folder, text, "chmod o-w")).collect()
}

/// Returns a finding for every secret in a folder that it protects: whoever gets the folder, or a backup of it, has both.
fn keys_beside(loaded: &Loaded) -> Vec<Finding> {
    let folders = written_folders(loaded);
    let is_inside = |secret: &Path, folder: &Path| {
        let secret = secret.canonicalize();
        secret.is_ok_and(|secret| folder.canonicalize().is_ok_and(|folder| secret.starts_with(folder)))
    };
    let found = loaded.secret_files.iter().flat_map(|secret| {
        folders.iter().filter(move |(_, folder)| is_inside(secret, folder)).map(move |(name, _)| {
            let text = format!(
                "it contains a secret and lies in `{name}`: whoever gets that folder, or a backup of it, has both"
            );
            Finding::insecure(&secret.display().to_string(), text).remedy("move it to a folder of its own")
        })
    });
    found.collect()
}

fn exposed(path: &Path, text: &str, remedy: &str) -> Finding {
    let path = path.display().to_string();
    Finding::insecure(&path, text).remedy(format!("{remedy} {path}"))
}

/// Returns whether others have this right to the file, and to the folders on the way to it.
fn may(path: &Path, right: u32) -> bool {
    let mode = |path: &Path| fs::metadata(path).map(|found| found.permissions().mode());
    let Ok(path) = path.canonicalize() else { return false };
    let has = |path: &Path, right: u32| mode(path).is_ok_and(|mode| mode & right != 0);
    has(&path, right) && path.ancestors().skip(1).all(|folder| has(folder, OTHERS_ENTER))
}

/// Returns whether a group that is not the gate's own has this right to the file.
fn may_group(path: &Path, right: u32) -> bool {
    let own = rustix::process::getegid().as_raw();
    let Ok(path) = path.canonicalize() else { return false };
    let can_enter =
        |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & GROUP_ENTER != 0);
    fs::metadata(&path).is_ok_and(|found| found.gid() != own && found.permissions().mode() & right != 0)
        && path.ancestors().skip(1).all(can_enter)
}
