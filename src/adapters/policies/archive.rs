//! Keeps every policy set that took force, by version, so that an auditor can read the rules of a decision.
//!
//! Before the audit log is opened the archive makes the folder of the log; later it never does, and reads nothing in another one.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::LoadedPolicies;
use crate::adapters::audit::AuditFolder;
use crate::adapters::regular_file::read_regular_text;
use crate::base::json;
use crate::ledger::{NodeId, Number};

/// The suffix of a folder that is being written.
const UNFINISHED: &str = ".unfinished";
/// The prefix of the file that says which version is in force; the node's name follows.
const IN_FORCE: &str = "in-force.";
/// The prefix of the file that says what this node's folder proposed last; the node's name follows.
const PROPOSED: &str = "proposed.";
/// The prefix of the file that says which set this node believed last; the node's name follows.
const FOLLOWED: &str = "followed.";
/// The format of that file. No other is read.
const FORMAT: u64 = 1;
/// Why a note says nothing.
const NO_VERSION: &str = "it names no version";
/// The steps by which a gate goes on without each of these files.
const WITHOUT_IN_FORCE: &str = "it says which policies ran here last; remove it, and start again: until the store names the policies in \
                                force, those of the folder decide on reads";
const WITHOUT_PROPOSED: &str = "it says which policies this gate's folder proposed last; remove it, and start again: a change of the folder \
                                that was not proposed yet is proposed when its files change again";
const WITHOUT_FOLLOWED: &str = "it says which policies this gate believed last, and which signatures led there; compare what \
                                `sluice audit show --what took-force` says with what people agreed to, then remove it, and start again: \
                                the gate believes what `in-force` beside it, or `policies_root`, names";
/// The meaning of the set, beside its text: the digest of the catalogue, and classes and lists in full.
const MEANING: &str = "meaning.json";

/// A folder with a subfolder for each version.
#[derive(Clone, Debug)]
pub struct Archive {
    audit: AuditFolder,
    folder: PathBuf,
    /// Names the version that last decided at this node: nodes may share the folder.
    pointer: PathBuf,
    /// Names what this node's folder proposed last.
    proposed: PathBuf,
    /// Names the set that this node believed last.
    followed: PathBuf,
}

/// The version that a folder proposed last, and the activation that it was to replace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposed {
    pub version: String,
    /// 0: none.
    pub replaces: Number,
}

/// The set that a node believed last, and what led to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FollowedSets {
    pub version: String,
    /// How many successions led to it; `None` where the node has not met the store yet.
    pub successions: Option<u64>,
    /// The set that the configuration named as one to begin from.
    pub root: Option<String>,
    /// The marks of the signatures that led here: none of them counts again.
    pub used: BTreeSet<String>,
}

impl Archive {
    /// Returns the archive beside the audit log.
    pub fn beside(audit: &AuditFolder, node: &NodeId) -> Archive {
        let folder = audit.join("policies");
        let file = |prefix: &str| folder.join(format!("{prefix}{node}"));
        let (pointer, proposed, followed) = (file(IN_FORCE), file(PROPOSED), file(FOLLOWED));
        Archive { audit: audit.clone(), pointer, proposed, followed, folder }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the version that was last in force at this node; `None` before the first.
    pub fn in_force(&self) -> io::Result<Option<String>> {
        let Some(text) = self.note(&self.pointer, WITHOUT_IN_FORCE)? else { return Ok(None) };
        match is_version(text.trim()) {
            true => Ok(Some(text.trim().to_owned())),
            false => Err(damaged(&self.pointer, NO_VERSION, WITHOUT_IN_FORCE)),
        }
    }

    /// Returns what this node's folder proposed last; `None` before the first.
    pub fn proposed(&self) -> io::Result<Option<Proposed>> {
        let Some(text) = self.note(&self.proposed, WITHOUT_PROPOSED)? else { return Ok(None) };
        let parts = text.trim().split_once(' ').filter(|(version, _)| is_version(version));
        let parts = parts.and_then(|(version, number)| Some((version.to_owned(), number.parse().ok()?)));
        let (version, number) = parts.ok_or_else(|| damaged(&self.proposed, NO_VERSION, WITHOUT_PROPOSED))?;
        Ok(Some(Proposed { version, replaces: Number::new(number) }))
    }

    /// Records what this node's folder proposes; on disk when this returns.
    pub fn propose(&self, proposed: &Proposed) -> io::Result<()> {
        self.write(&self.proposed, &format!("{} {}\n", proposed.version, proposed.replaces.as_u64()))
    }

    /// Returns the set that this node believed last; `None` before the first.
    pub fn followed(&self) -> io::Result<Option<FollowedSets>> {
        let Some(text) = self.note(&self.followed, WITHOUT_FOLLOWED)? else { return Ok(None) };
        let read = json::from_record(text.trim().as_bytes(), FORMAT);
        read.map(Some).map_err(|fault| damaged(&self.followed, &fault.to_string(), WITHOUT_FOLLOWED))
    }

    /// Records which set this node believes; on disk when this returns.
    pub fn follow(&self, followed: &FollowedSets) -> io::Result<()> {
        self.write(&self.followed, &format!("{}\n", json::to_record(followed, FORMAT)))
    }

    /// Returns the meaning of a set, if it is kept here.
    pub fn meaning(&self, version: &str) -> io::Result<Option<Vec<u8>>> {
        Ok(read_if_there(&self.folder_of(version).join(MEANING))?.map(String::into_bytes))
    }

    /// Returns the folder of a version.
    pub fn folder_of(&self, version: &str) -> PathBuf {
        self.folder.join(version)
    }

    /// Keeps a set, and records that it is in force; on disk when this returns.
    pub fn takes_force(&self, set: &LoadedPolicies) -> io::Result<()> {
        self.keep(set)?;
        self.write(&self.pointer, &format!("{}\n", set.policies.version()))
    }

    /// Reads a note of this node; one that is no text is damaged.
    fn note(&self, path: &Path, without: &str) -> io::Result<Option<String>> {
        self.audit.check()?;
        read_if_there(path).map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => damaged(path, &error.to_string(), without),
            _ => error,
        })
    }

    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        self.audit.make_inside(&self.folder)?;
        let unfinished = path.with_file_name(format!("{}{UNFINISHED}", path.file_name().unwrap_or_default().display()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, path)?;
        File::open(&self.folder)?.sync_all()
    }

    /// Keeps a set; on disk when this returns. Two texts of the same meaning have one version: the first one is kept.
    pub fn keep(&self, set: &LoadedPolicies) -> io::Result<()> {
        let version = set.policies.version();
        self.audit.check()?;
        let whole = self.folder.join(version);
        if whole.exists() {
            return Ok(());
        }
        self.audit.make_inside(&self.folder)?;
        let unfinished = self.folder.join(format!("{version}{UNFINISHED}"));
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished)?;
        }
        self.audit.make_inside(&unfinished)?;
        let meaning = (MEANING.to_owned(), format!("{:#}\n", set.policies.meaning.to_json()));
        for (name, text) in set.texts.iter().chain([&meaning]) {
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(unfinished.join(name))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
        }
        File::open(&unfinished)?.sync_all()?;
        fs::rename(&unfinished, &whole)?;
        File::open(&self.folder)?.sync_all()
    }
}

fn read_if_there(path: &Path) -> io::Result<Option<String>> {
    match read_regular_text(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_version(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit())
}

fn damaged(path: &Path, why: &str, without: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("`{}` is damaged: {why}; {without}", path.display()))
}
