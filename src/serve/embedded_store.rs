//! Opens the embedded store, and builds it anew where it lacks what the journal beside it holds.

use tokio::runtime::Handle;

use super::open_node_error::OpenNodeError;
use crate::adapters::audit::{is_copy, keep_met_store, met_store};
use crate::adapters::store::embedded::{ContentVerdict, Embedded, OpenError};
use crate::adapters::store::rebuild::{RebuildSource, rebuild};
use crate::adapters::store::sealed::Seals;
use crate::audit::Highest;
use crate::base::ids::Environment;
use crate::config::Config;
use crate::ledger::{CommitError, InstallationId, StoreFault};
use crate::ports::Store as _;
use crate::stations::claim::{self, Freeze};
use crate::telemetry::PROGRESS_INTERVAL;

/// Why money closes where nobody knows what a damaged store had beyond its journal.
const DAMAGED_AHEAD: &str = "the file of the store is damaged, and the journal ends before it";

/// Whether the store ends before its journal.
pub(super) fn lacks_commits(store: &Embedded, runtime: &Handle, stood: &Highest) -> Result<bool, OpenNodeError> {
    for environment in Environment::ALL {
        let highest = stood.get(&environment).copied().unwrap_or_default();
        if runtime.block_on(store.last(environment)).map_err(OpenNodeError::Unreadable)?.as_u64() < highest {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the opened store, whose content is what gates made of it. `stood` has the highest numbers of the journal: a store
/// that ends before them lost commits, and is replaced by one that is built from the journal. So is one whose content was
/// changed, or whose file is damaged; where the journal ends before it, money closes instead, or as well.
pub(super) fn made_whole(
    store: Embedded,
    config: &Config,
    runtime: &Handle,
    stood: &Highest,
    seals: &Seals,
    open: impl Fn() -> Result<Embedded, OpenError>,
) -> Result<Embedded, OpenNodeError> {
    let Some(NumbersCompared { lacks, is_ahead }) = reached(&store, runtime, stood)? else {
        return replaced(store, config, seals, open, None);
    };
    let verdict = store.verify_content().map_err(OpenNodeError::Unreadable)?;
    let (store, is_writable) = match store.takes_transactions() {
        Ok(is_writable) => (store, is_writable),
        // The disk fails: what is on it can be read, and the store tells of it while it runs.
        Err(fault) => {
            tracing::warn!(%fault, "the store takes no transaction");
            drop(store);
            (open().map_err(OpenNodeError::Store)?, true)
        }
    };
    if verdict == ContentVerdict::Damaged || !is_writable {
        return replaced(store, config, seals, open, is_ahead.then_some(DAMAGED_AHEAD));
    }
    let store = if lacks {
        let store = match taken_in(store, config, runtime, stood, (verdict, &open))? {
            Ok(whole) => return Ok(whole),
            Err(unfit) => unfit,
        };
        tracing::error!("the store is built anew from the journal; the old file stays beside it");
        store
    } else {
        if is_content_authentic(&store, runtime, verdict).map_err(OpenNodeError::Unreadable)? {
            return Ok(store);
        }
        if is_ahead {
            let why = format!("{}, and the journal ends before it", store.told_of_change());
            close_incomplete(&store, config, runtime, seals, &why).map_err(OpenNodeError::Unreadable)?;
            return Ok(store);
        }
        let why = store.told_of_change();
        tracing::error!(why, "the store is built anew from the journal; the old file stays beside it");
        store
    };
    // The file must be closed before it can be replaced.
    drop(store);
    built_anew(config, seals, open, None)
}

/// How a store stands to the highest numbers of its journal.
struct NumbersCompared {
    lacks: bool,
    is_ahead: bool,
}

/// Compares a store with the highest numbers of its journal; `None` where its file is damaged.
fn reached(store: &Embedded, runtime: &Handle, stood: &Highest) -> Result<Option<NumbersCompared>, OpenNodeError> {
    let mut reached = NumbersCompared { lacks: false, is_ahead: false };
    for environment in Environment::ALL {
        let highest = stood.get(&environment).copied().unwrap_or_default();
        let last = match runtime.block_on(store.last(environment)) {
            Err(StoreFault::Broken(why)) => {
                tracing::error!(why, "the file of the store is damaged");
                return Ok(None);
            }
            last => last.map_err(OpenNodeError::Unreadable)?.as_u64(),
        };
        reached.is_ahead |= last > highest;
        if last < highest {
            reached.lacks = true;
            tracing::warn!(
                %environment,
                store = last,
                journal = highest,
                "the store lacks the last commits of its journal, as after a crash, or it was set back or emptied"
            );
        }
    }
    Ok(Some(reached))
}

/// Puts another store in the place of one whose file is damaged.
fn replaced(
    store: Embedded,
    config: &Config,
    seals: &Seals,
    open: impl Fn() -> Result<Embedded, OpenError>,
    ahead: Option<&str>,
) -> Result<Embedded, OpenNodeError> {
    tracing::error!("the file of the store is damaged and stays beside it; the store is built anew from the journal");
    drop(store);
    built_anew(config, seals, open, ahead)
}

/// Builds the store from the journal alone. No process has its file open. `ahead` says why the store before may have had more
/// than the journal.
fn built_anew(
    config: &Config,
    seals: &Seals,
    open: impl Fn() -> Result<Embedded, OpenError>,
    ahead: Option<&str>,
) -> Result<Embedded, OpenNodeError> {
    let mut told = 0;
    let (journal, node) = (&config.audit.folder, &config.store.node);
    let met = met_store(journal, node, Environment::Production).and_then(|id| InstallationId::parse(&id));
    let installation = met.or_else(|| config.store.installation.clone());
    let is_copy = is_copy(journal, node);
    let source = RebuildSource { journal, node, seals, installation: installation.as_ref(), is_copy, ahead };
    let rebuilt = rebuild(&config.store.folder, source, &mut |commits| {
        if commits.saturating_sub(told) >= PROGRESS_INTERVAL {
            told = commits;
            tracing::info!(commits, "the store is being built from the journal");
        }
    });
    let rebuilt = rebuilt.map_err(OpenNodeError::Rebuild)?;
    let (commits, is_whole) = (rebuilt.commits, rebuilt.is_whole());
    match is_whole {
        true => {
            tracing::warn!(
                commits,
                is_whole,
                "the store was built from the journal; only the sessions of people are lost"
            );
        }
        false => tracing::warn!(commits, is_whole, "the store was built from what the journal has, which is not all"),
    }
    for environment in Environment::ALL {
        if let Some(why) = rebuilt.what_is_missing(environment) {
            tracing::error!(
                %environment,
                why,
                "money is closed: find out what is missing (`sluice audit verify`, upstream's records), then open it with \
                 `sluice unfreeze --restored --environment ENVIRONMENT --reason TEXT`"
            );
        }
    }
    let store = open().map_err(OpenNodeError::Store)?;
    store.adopt_content().map_err(OpenNodeError::Unreadable)?;
    Ok(store)
}

/// Takes in what only the journal has. Returns the store as an error where it must be built anew: it is not as a gate left
/// it, the journal does not go on behind it, or the journal is a copy.
fn taken_in(
    store: Embedded,
    config: &Config,
    runtime: &Handle,
    stood: &Highest,
    (verdict, open): (ContentVerdict, impl Fn() -> Result<Embedded, OpenError>),
) -> Result<Result<Embedded, Embedded>, OpenNodeError> {
    let (journal, node) = (&config.audit.folder, &config.store.node);
    if verdict != ContentVerdict::Whole || is_copy(journal, node) {
        return Ok(Err(store));
    }
    let commits = match store.catch_up(journal, node) {
        Ok(commits) => commits,
        Err(StoreFault::Broken(why)) => {
            tracing::warn!(why, "the store cannot take in what only the journal has");
            return Ok(Err(store));
        }
        Err(fault) => return Err(OpenNodeError::Unreadable(fault)),
    };
    // The time of the store went on.
    drop(store);
    let store = open().map_err(OpenNodeError::Store)?;
    if lacks_commits(&store, runtime, stood)? {
        return Ok(Err(store));
    }
    tracing::info!(commits, "the store has taken the commits that it lacked from the journal");
    Ok(Ok(store))
}

/// Whether the store is as gates left it. A new one is, and one that was imported or restored is closed for money until
/// people know what it holds.
fn is_content_authentic(store: &Embedded, runtime: &Handle, verdict: ContentVerdict) -> Result<bool, StoreFault> {
    match verdict {
        ContentVerdict::Whole => return Ok(true),
        ContentVerdict::Changed | ContentVerdict::Damaged => return Ok(false),
        ContentVerdict::Unsummed => {}
    }
    for environment in Environment::ALL {
        let is_new = runtime.block_on(store.last(environment))?.as_u64() == 0;
        let key = Freeze::Restored.key(environment);
        if !is_new && runtime.block_on(store.read(&key))?.0.is_none() {
            return Ok(false);
        }
    }
    store.adopt_content().map(|()| true)
}

/// Closes money where the content was changed or lost, and the journal does not have all of it.
fn close_incomplete(
    store: &Embedded,
    config: &Config,
    runtime: &Handle,
    seals: &Seals,
    why: &str,
) -> Result<(), StoreFault> {
    tracing::error!(
        why,
        "money is closed: find out what is missing (`sluice audit verify`, upstream's records), then open it with \
         `sluice unfreeze --restored --environment ENVIRONMENT --reason TEXT`"
    );
    for environment in Environment::ALL {
        let before = runtime.block_on(store.read(&Freeze::Restored.key(environment)))?.0.map(|record| record.version);
        let above = runtime.block_on(store.last(environment))?;
        let commit = claim::restored(environment, before, above, ("sluice serve", why), &config.store.node);
        match runtime.block_on(store.commit(seals.sealed_commit(commit)?)) {
            Ok(_) => {}
            Err(CommitError::Fault(fault)) => return Err(fault),
            Err(CommitError::Rejected { .. }) => {
                return Err(StoreFault::Away(format!("{environment} cannot be closed")));
            }
        }
    }
    // Last: a start that ends before finds again what it found.
    store.adopt_content()
}

/// Checks that the store of production was created for this installation, and notes the installation beside the journal.
pub(super) fn belongs_here(
    store: &Embedded,
    config: &Config,
    runtime: &Handle,
    stood: &Highest,
) -> Result<(), OpenNodeError> {
    let environment = Environment::Production;
    let (folder, node) = (&config.audit.folder, &config.store.node);
    let met = met_store(folder, node, environment);
    let Some(id) = runtime.block_on(store.created(environment)).map_err(OpenNodeError::Unreadable)? else {
        let last = runtime.block_on(store.last(environment)).map_err(OpenNodeError::Unreadable)?;
        let is_new = last.as_u64() == 0 && stood.get(&environment).is_none_or(|highest| *highest == 0);
        let is_served = config.environments.iter().any(|one| one.environment == environment);
        return if is_new && is_served { Err(OpenNodeError::Uncreated) } else { Ok(()) };
    };
    let wanted = config.store.installation.as_ref().map(InstallationId::as_str);
    if let Some(other) = [wanted, met.as_deref()].into_iter().flatten().find(|wanted| *wanted != id.as_str()) {
        return Err(OpenNodeError::OtherInstallation { store: id, wanted: other.to_owned() });
    }
    if met.is_none() {
        keep_met_store(folder, node, environment, id.as_str()).map_err(OpenNodeError::JournalId)?;
    }
    Ok(())
}
