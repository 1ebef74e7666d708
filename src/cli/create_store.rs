//! `sluice store create`: creates the store of production, which no gate does.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use tokio::runtime::Runtime;

use super::{Sources, configuration_error, print};
use crate::adapters::audit::{audit_files, knows_environment};
use crate::adapters::random::nonce;
use crate::adapters::redis::ShardConnections;
use crate::adapters::store::embedded;
use crate::adapters::store::redis::RedisStore;
use crate::base::ids::Environment;
use crate::config::{Config, StoreKind};
use crate::ledger::InstallationId;
use crate::telemetry::Metrics;

/// How long to wait for a Redis.
const REDIS_WAIT: Duration = Duration::from_secs(10);
/// The store that people create; gates create that of the sandbox.
const CREATED: Environment = Environment::Production;

pub(super) fn create(sources: &Sources) -> anyhow::Result<()> {
    let config = sources.load().map_err(|findings| configuration_error(&findings))?.config;
    let found = create_in(&config, None)?;
    let (belongs_to, is_new) = match found {
        Some(id) => (id, false),
        None => {
            has_no_journal(&config.audit.folder)?;
            (create_now(&config)?, true)
        }
    };
    match &config.store.installation {
        Some(wanted) if belongs_to != wanted.as_str() => bail!(
            "there is a store of production already, and it belongs to installation `{belongs_to}`, not to `{}`: check \
             `store.installation`, and which store the configuration names",
            wanted.as_str()
        ),
        Some(_) => print(&format!("The store of production belongs to installation `{belongs_to}`.\n")),
        None => print(&format!(
            "{}\nKeep its id in the configuration of every gate, so that none uses another store by mistake:\n\n[store]\n\
             installation = \"{belongs_to}\"\n",
            if is_new { "Created the store of production." } else { "The store of production exists already." }
        )),
    }
}

/// Creates the store; returns the installation that it belongs to.
pub(super) fn create_now(config: &Config) -> anyhow::Result<String> {
    let id = match &config.store.installation {
        Some(id) => id.clone(),
        None => InstallationId::parse(&nonce().0).context("a new id cannot be made")?,
    };
    create_in(config, Some(&id))?.context("the store was not created")
}

/// Creates the store, if an id is given; returns the installation that it belongs to, if it exists then.
fn create_in(config: &Config, id: Option<&InstallationId>) -> anyhow::Result<Option<String>> {
    match config.store.kind {
        StoreKind::Embedded => {
            let id = embedded::create(&config.store.folder, CREATED, id)?;
            Ok(id.map(|id| id.as_str().to_owned()))
        }
        StoreKind::Redis => {
            let of = config.redis.as_ref().ok_or_else(|| anyhow!("no Redis is configured: set `redis.url`"))?;
            let runtime = Runtime::new()?;
            let redis = ShardConnections::new(of, &Metrics::new()?)?;
            runtime.spawn(redis.clone().keep_connected());
            runtime.block_on(redis.ready_within(REDIS_WAIT))?;
            let created = runtime.block_on(RedisStore::new(redis).create(CREATED, id));
            created.map_err(|fault| anyhow!("the store cannot be created: {fault}"))
        }
    }
}

/// An installation with a journal had a store.
fn has_no_journal(folder: &Path) -> anyhow::Result<()> {
    if !folder.exists() {
        return Ok(());
    }
    let unreadable = || format!("the journal in `{}` cannot be read", folder.display());
    let files = audit_files(folder).with_context(unreadable)?;
    for file in files {
        if knows_environment(&file, CREATED).with_context(unreadable)? {
            bail!(
                "`{}` has entries of production, so there was a store: start the gate, which builds the store from its journal",
                file.path.display()
            );
        }
    }
    Ok(())
}
