//! The books of this process: opened and brought up to date before anything is served, and kept while it runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::adapters::clock::SystemClock;
use crate::adapters::store::memory::Memory;
use crate::adapters::unsettled::Unsettled;
use crate::base::ids::Environment;
use crate::commit::Keep;
use crate::config::{Config, TimeoutsConfig};
use crate::journey::Books;
use crate::journey::upkeep::{RecoverError, drain, recover, search_and_sweep, watch_leases};
use crate::stations::claim::Terms;
use crate::telemetry::Metrics;

/// Entries that are on their way to the disk and that nobody waits for.
const ON_THEIR_WAY: usize = 16_384;
/// For the store and the audit chain, before the first byte of a call is sent.
const BOOKKEEPING: Duration = Duration::from_secs(10);
/// What clocks and schedulers may take on top of every timeout.
const SLACK: Duration = Duration::from_secs(10);
/// From an unknown outcome to the first look for its record.
const SETTLING: Duration = Duration::from_secs(15);

/// Why the books cannot be opened.
#[derive(Debug)]
pub enum BooksError {
    Recover(RecoverError),
}

impl std::fmt::Display for BooksError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BooksError::Recover(error) => write!(f, "what was left of an earlier run cannot be taken up: {error}"),
        }
    }
}

impl std::error::Error for BooksError {}

pub(super) fn open(config: &Config, runtime: &Runtime, metrics: &Metrics) -> Result<Arc<Books>, BooksError> {
    let clock = Arc::new(SystemClock);
    let store = Memory::new(clock.clone());
    let audit = Nothing;
    let (entries, on_their_way) = mpsc::channel(ON_THEIR_WAY);
    let books = Arc::new(Books {
        store: Arc::new(store),
        audit: Arc::new(audit),
        clock,
        node: config.store.node.clone(),
        terms: terms(config),
        unsettled: Some(Unsettled::new(config.store.folder.join("unsettled"))),
        metrics: metrics.clone(),
        drain: entries,
    });
    let environments: Vec<Environment> = config.environments.iter().map(|one| one.environment).collect();
    runtime.spawn(drain(books.clone(), on_their_way));
    runtime.block_on(recover(&books, &environments)).map_err(BooksError::Recover)?;
    runtime.spawn(watch_leases(books.clone(), environments.clone()));
    runtime.spawn(search_and_sweep(books.clone(), environments));
    Ok(books)
}

fn terms(config: &Config) -> Terms {
    let TimeoutsConfig { connect, tls_handshake, write, answer, .. } = config.timeouts;
    let reach = connect.saturating_add(tls_handshake).saturating_mul(2);
    let begin_within = BOOKKEEPING.saturating_add(reach);
    let sending = write.saturating_mul(3).saturating_add(answer).saturating_add(SLACK);
    Terms {
        begin_within,
        lease: begin_within.saturating_add(sending),
        first_look: SETTLING,
        keep: Keep::For { whole: config.store.answers, spent: config.store.spent },
    }
}

#[derive(Debug)]
struct Nothing;
#[async_trait::async_trait]
impl crate::ports::AuditSink for Nothing {
    async fn append(&self, _: Vec<crate::commit::Outstanding>) -> Result<(), crate::ports::AuditFault> {
        Ok(())
    }
    fn is_well(&self) -> bool {
        true
    }
}
