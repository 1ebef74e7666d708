//! The keys of the configuration that seal the store.

use std::sync::Arc;

use anyhow::anyhow;

use super::report::DoctorReport;
use crate::adapters::store::seal_check::SealCheck;
use crate::adapters::store::sealed::{Sealed, SealingKey, Seals};
use crate::config::Config;
use crate::ports::Store;

/// Returns a store as the keys open it.
pub(super) fn sealed(store: Arc<dyn Store>, config: &Config) -> anyhow::Result<Sealed> {
    Ok(Sealed::new(store, seals(config)?))
}

pub(super) fn seals(config: &Config) -> anyhow::Result<Seals> {
    let keys = config.store.seal_keys.iter().map(|(id, key)| SealingKey::new(id, key));
    let keys = keys.collect::<Result<Vec<_>, _>>().map_err(|error| anyhow!("`store.seal_key`: {error}"))?;
    Ok(Seals::new(keys).accepting_plain(config.store.allow_plain))
}

/// Whether the keys are those of their ids. With another one, nothing of the store opens, and a gate does not start.
pub(super) fn are_right(config: &Config, report: &mut DoctorReport) -> anyhow::Result<bool> {
    let compared = SealCheck::of(config, &seals(config)?).compare();
    if let Err(error) = &compared {
        let remedy = "put the right secret back: with this one, the gate does not start";
        report.find(&format!("`store.seal_key`: {error}"), remedy);
    }
    Ok(compared.is_ok())
}
