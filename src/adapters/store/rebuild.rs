//! Builds the embedded store of a folder anew from the journal beside it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::changes_writer::ChangesWriter;
use super::embedded::FILE;
use super::opened_journal::{JournalNews, OpenedJournal};
use super::queries;
use super::repeated::{self, RepeatedCommit};
use super::replica::Replica;
use super::sealed::Seals;
use crate::adapters::audit::{Follower as _, newest_snapshot};
use crate::adapters::disk_trouble::is_trouble;
use crate::audit::Highest;
use crate::base::ids::Environment;
use crate::ledger::{InstallationId, NodeId, Number, Outstanding, StoreFault};

/// How many bytes of changes are gathered before they are written. As many are written meanwhile.
const GATHERED: usize = 48 << 20;
/// How often it is told how far the rebuild is.
const TOLD_EVERY: Duration = Duration::from_millis(500);
/// The name of a store that was replaced, before its number.
const REPLACED: &str = "store.redb.replaced-";
/// How many stores that were replaced stay.
const KEPT_COPIES: usize = 3;
/// The most faults that are listed; more are only counted.
const LISTED: usize = 100;

/// What a store is built from.
#[derive(Clone, Copy, Debug)]
pub struct RebuildSource<'s> {
    pub journal: &'s Path,
    /// The node whose journal it is.
    pub node: &'s NodeId,
    pub seals: &'s Seals,
    /// The installation that the store of production belongs to, if it is known.
    pub installation: Option<&'s InstallationId>,
    /// Whether the journal is a copy, which may be an old one.
    pub is_copy: bool,
    /// Why the store that is replaced may have had more than the journal, if it may.
    pub ahead: Option<&'s str>,
}

/// What a journal made of a store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Commits that were made again.
    pub commits: u64,
    /// Numbers that are missing in the journal, the first of them.
    pub missing: Vec<(Environment, Number, Number)>,
    /// Entries whose commit could not be made again, the first of them with the reason.
    pub left_out: Vec<(Environment, Number, String)>,
    /// How many entries were left out.
    pub left_out_count: u64,
    /// Where the files stop to be what was written.
    pub flaw: Option<String>,
    /// The highest number of each environment.
    pub last: Highest,
    /// Whether the journal is a copy, which may be an old one.
    pub is_copy: bool,
    /// Why the store that was replaced may have had more than the journal.
    pub ahead: Option<String>,
}

impl Rebuilt {
    /// Whether the journal proves that nothing is missing.
    pub fn is_whole(&self) -> bool {
        self.missing.is_empty()
            && self.left_out_count == 0
            && self.flaw.is_none()
            && !self.is_copy
            && self.ahead.is_none()
    }

    /// Returns why money stays closed in an environment.
    pub fn what_is_missing(&self, environment: Environment) -> Option<String> {
        let missing = self.missing.iter().filter(|(of, ..)| *of == environment);
        let mut reasons: Vec<String> = missing
            .map(|(_, first, last)| format!("numbers {first} to {last} are missing in the journal"))
            .chain(
                self.left_out
                    .iter()
                    .filter(|(of, ..)| *of == environment)
                    .map(|(_, number, why)| format!("entry {number} could not be repeated: {why}")),
            )
            .chain(self.flaw.clone())
            .chain(self.copied(environment))
            .chain(self.ahead.clone())
            .collect();
        let more = reasons.len().saturating_sub(3);
        reasons.truncate(3);
        if more > 0 {
            reasons.push(format!("{more} more"));
        }
        (!reasons.is_empty())
            .then(|| format!("the store was lost, and its rebuild is not whole: {}", reasons.join("; ")))
    }

    /// An environment without any commit has nothing to lose.
    fn copied(&self, environment: Environment) -> Option<String> {
        let has_commits = self.last.get(&environment).is_some_and(|last| *last > 0);
        let why = "the audit folder is a copy, and whether it is the newest is not known";
        (self.is_copy && has_commits).then(|| why.to_owned())
    }

    fn take(&mut self, entry: &Outstanding, made: RepeatedCommit) {
        let (environment, number) = (entry.environment, entry.number);
        let last = self.last.entry(environment).or_default();
        *last = (*last).max(number.as_u64());
        let why = match made {
            RepeatedCommit::Known => return,
            RepeatedCommit::Made { missing } => {
                self.commits = self.commits.saturating_add(1);
                if let Some((first, last)) = missing
                    && self.missing.len() < LISTED
                {
                    self.missing.push((environment, first, last));
                }
                return;
            }
            other => other.contradiction().unwrap_or_default(),
        };
        self.left_out_count = self.left_out_count.saturating_add(1);
        if self.left_out.len() < LISTED {
            self.left_out.push((environment, number, why));
        }
    }
}

/// Builds the store from a journal, and puts it in the place of the one in `folder`, which stays beside it
/// under another name. No process may have the store open. `told` hears how many commits were made.
pub fn rebuild(folder: &Path, source: RebuildSource<'_>, told: &mut dyn FnMut(u64)) -> Result<Rebuilt, StoreFault> {
    let building = folder.join("rebuilding");
    match fs::remove_dir_all(&building) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(&building, &error)),
        _ => {}
    }
    let rebuilt = build(&building, source, told)?;
    let (store, new) = (folder.join(FILE), building.join(FILE));
    if store.exists() {
        keep_aside(folder)?;
    }
    let moved = fs::rename(&new, &store).and_then(|()| File::open(folder)?.sync_all());
    moved.and_then(|()| fs::remove_dir_all(&building)).map_err(|error| failed(&store, &error))?;
    Ok(rebuilt)
}

fn build(building: &Path, source: RebuildSource<'_>, told: &mut dyn FnMut(u64)) -> Result<Rebuilt, StoreFault> {
    let replica = Replica::open(building, source.seals.clone()).map_err(|error| match error.may_pass() {
        true => StoreFault::Away(error.to_string()),
        false => StoreFault::Broken(error.to_string()),
    })?;
    if let Some(id) = source.installation {
        replica.belongs_to(id)?;
    }
    let rebuilt = fill(&replica, source, GATHERED, told)?;
    // Before anything can be served from it: a start that ends early must not open money at the next one.
    for environment in Environment::ALL {
        if let Some(why) = rebuilt.what_is_missing(environment) {
            replica.close_money(environment, &why, source.node)?;
        }
    }
    Ok(rebuilt)
}

/// Takes the newest snapshot beside the journal, and returns how far it reaches. One that is unfit is left: the journal
/// alone may be whole.
fn begin_with_snapshot(replica: &Replica, journal: &Path, node: &NodeId) -> Result<Highest, StoreFault> {
    let newest = newest_snapshot(journal, node).map_err(|error| failed(journal, &error))?;
    let restored = newest.snapshot.map(|snapshot| replica.restore(&snapshot)).transpose().map_err(StoreFault::Away)?;
    let unfit = newest.unfit.iter().map(ToString::to_string).chain(restored.flatten());
    unfit.for_each(|why| tracing::error!(why, "a snapshot beside the journal cannot be used"));
    replica.reached().map_err(StoreFault::Away)
}

/// Makes all commits of a journal in a new replica, on a thread of its own: this one tells how far it is.
fn fill(
    replica: &Replica,
    source: RebuildSource<'_>,
    gathered: usize,
    told: &mut dyn FnMut(u64),
) -> Result<Rebuilt, StoreFault> {
    let made = AtomicU64::new(0);
    thread::scope(|scope| {
        let (ends, ended) = mpsc::channel::<()>();
        let made = &made;
        let filling = scope.spawn(move || {
            let _ends = ends;
            repeat_all(replica, source, gathered, made)
        });
        while ended.recv_timeout(TOLD_EVERY) == Err(RecvTimeoutError::Timeout) {
            told(made.load(Ordering::Relaxed));
        }
        told(made.load(Ordering::Relaxed));
        filling.join().unwrap_or_else(|_| Err(StoreFault::Away("the thread that built it has panicked".to_owned())))
    })
}

fn repeat_all(
    replica: &Replica,
    source: RebuildSource<'_>,
    gathered: usize,
    made: &AtomicU64,
) -> Result<Rebuilt, StoreFault> {
    let RebuildSource { journal, node, seals, is_copy, ahead, .. } = source;
    let behind = begin_with_snapshot(replica, journal, node)?;
    let mut rebuilt = Rebuilt { last: behind.clone(), is_copy, ahead: ahead.map(str::to_owned), ..Rebuilt::default() };
    let mut gathered = replica.gather(gathered)?;
    rebuilt.flaw = thread::scope(|scope| {
        let opened = OpenedJournal::begin(scope, (journal, node), behind, seals);
        let mut writer = ChangesWriter::begin(scope, replica);
        for news in opened.news.iter().flatten() {
            match news {
                JournalNews::Entry(entry, read) => {
                    let repeated = replica.repeat(&mut gathered, &entry, read)?;
                    rebuilt.take(&entry, repeated);
                    made.store(rebuilt.commits, Ordering::Relaxed);
                }
                JournalNews::GoesOn(environment, number) => {
                    let first = queries::last(&gathered, environment)?.saturating_add(1);
                    repeated::pass_over(&mut gathered, environment, Number::new(number))?;
                    writer.write_all(&mut gathered)?;
                    // Entries that waited behind the gap may reach as far.
                    if first <= number {
                        rebuilt.missing.push((environment, Number::new(first), Number::new(number)));
                    }
                }
            }
            if gathered.are_enough() {
                writer.write(&mut gathered)?;
            }
        }
        writer.write_all(&mut gathered)?;
        opened.end().map_err(|error| failed(journal, &error))
    })?;
    Ok(rebuilt)
}

/// Gives the store of a folder another name, under which it stays. The first one that was replaced stays as well, and the
/// latest ones: starts that fail again and again fill no disk. No process may have the store open.
pub fn keep_aside(folder: &Path) -> Result<PathBuf, StoreFault> {
    let mut all = replaced(folder).map_err(|error| failed(folder, &error))?;
    let nth = all.last().map_or(1, |last| last.saturating_add(1));
    let named = |nth: u32| folder.join(format!("{REPLACED}{nth}"));
    fs::rename(folder.join(FILE), named(nth)).map_err(|error| failed(&named(nth), &error))?;
    all.push(nth);
    let to_remove = all.len().saturating_sub(KEPT_COPIES);
    for nth in all.iter().skip(1).take(to_remove) {
        fs::remove_file(named(*nth)).map_err(|error| failed(&named(*nth), &error))?;
    }
    Ok(named(nth))
}

/// Returns the numbers of the stores that were replaced in a folder.
fn replaced(folder: &Path) -> io::Result<Vec<u32>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let nth = name.to_str().and_then(|name| name.strip_prefix(REPLACED)).and_then(|nth| nth.parse::<u32>().ok());
        all.extend(nth);
    }
    all.sort_unstable();
    Ok(all)
}

fn failed(path: &Path, error: &io::Error) -> StoreFault {
    let why = format!("`{}`: {error}", path.display());
    if is_trouble(error) { StoreFault::Away(why) } else { StoreFault::Broken(why) }
}

#[cfg(test)]
mod tests;
