//! Verifies the embedded store beside a start: that reads its whole content, and reads need no store.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::embedded_store::{belongs_here, lacks_commits, made_whole};
use super::open_node_error::OpenNodeError;
use crate::adapters::clock::{Stopwatch, SystemClock};
use crate::adapters::store::embedded::{Embedded, OpenError, Options};
use crate::adapters::store::opening::OpeningStore;
use crate::adapters::store::sealed::Seals;
use crate::audit::Highest;
use crate::config::Config;
use crate::ledger::StoreFault;
use crate::node::Node;

/// A store whose lock is taken, and whose content is not verified yet.
#[derive(Debug)]
pub(super) struct UnverifiedStore {
    store: Embedded,
    config: Config,
    /// The highest numbers of the journal.
    stood: Highest,
    seals: Seals,
    opening: Arc<OpeningStore>,
}

/// Opens the file of the configured store.
pub(super) fn open_store(config: &Config, seals: &Seals) -> Result<Embedded, OpenError> {
    let options = Options { seals: seals.clone(), trusts_clock: false, ..Options::default() };
    Embedded::open(&config.store.folder, Arc::new(SystemClock), options)
}

impl UnverifiedStore {
    /// Checks what takes no time: that the store is of this installation, where it has all commits of its journal.
    pub(super) fn new(
        store: Embedded,
        config: &Config,
        runtime: &Handle,
        stood: &Highest,
        seals: &Seals,
    ) -> Result<UnverifiedStore, OpenNodeError> {
        if !lacks_commits(&store, runtime, stood)? {
            belongs_here(&store, config, runtime, stood)?;
        }
        let (config, stood, seals) = (config.clone(), stood.clone(), seals.clone());
        Ok(UnverifiedStore { store, config, stood, seals, opening: Arc::default() })
    }

    /// Returns the store as calls reach it, once it is verified.
    pub(super) fn opening(&self) -> Arc<OpeningStore> {
        self.opening.clone()
    }

    /// Verifies the whole content, or builds the store anew from the journal; then the store opens. Returns whether it was
    /// left by a gate that was killed.
    pub(super) async fn verified(self, node: &Node) -> Result<bool, OpenNodeError> {
        node.watched.starts(Some("its content is still being verified".to_owned()));
        let runtime = Handle::current();
        let verified = tokio::task::spawn_blocking(move || self.verify(&runtime)).await;
        verified.map_err(|error| OpenNodeError::Unreadable(StoreFault::Away(error.to_string())))?
    }

    fn verify(self, runtime: &Handle) -> Result<bool, OpenNodeError> {
        let UnverifiedStore { store, config, stood, seals, opening } = self;
        let since = Stopwatch::start();
        let store = made_whole(store, &config, runtime, &stood, &seals, || open_store(&config, &seals))?;
        let needs_journal = store.takes_over();
        belongs_here(&store, &config, runtime, &stood)?;
        let millis = u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(millis, "the content of the store is verified");
        opening.opens(Arc::new(store));
        Ok(needs_journal)
    }
}
