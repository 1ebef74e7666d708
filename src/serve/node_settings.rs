//! Turns the configuration into the settings of the node's parts.

use super::open_node_error::OpenNodeError;
use crate::adapters::audit::{AuditSettings, Checkpoints, SigningKey};
use crate::config::{Config, LongestWrite, QuietTime, TimeoutsConfig, WebhookConfig};
use crate::ledger::Keep;
use crate::node::{ClockWatch, JournalBounds, JournalRoom, Outlets};
use crate::notify::Outlet;
use crate::stations::claim::Terms;
use crate::stations::hold::HoldRoom;

/// A checkpoint is signed after this many entries, or after `audit.checkpoint_seconds`.
const CHECKPOINT_ENTRIES: u64 = 1_000;

pub(super) fn audit_settings(config: &Config) -> Result<AuditSettings, OpenNodeError> {
    let checkpoints = config.audit.checkpoint_key.as_ref().map(|pem| {
        let key = SigningKey::of_pem(pem.reveal().as_bytes()).ok_or(OpenNodeError::CheckpointKey)?;
        let is_witnessed = !config.audit.witnessing.witnesses.is_empty();
        let (every_entries, every) = (CHECKPOINT_ENTRIES, config.audit.checkpoint_every);
        Ok(Checkpoints { key, every_entries, every, to_log: true, is_witnessed })
    });
    Ok(AuditSettings {
        rotate_bytes: u64::try_from(config.audit.file_bytes).unwrap_or(u64::MAX),
        checkpoints: checkpoints.transpose()?,
        ..AuditSettings::of(&config.audit.folder, config.store.node.clone())
    })
}

pub(super) fn outlets(config: &Config) -> Outlets {
    let outlet = |webhook: &WebhookConfig| Outlet {
        name: webhook.name.clone(),
        events: webhook.events.clone(),
        environments: webhook.environments.clone(),
        keep: webhook.keep,
    };
    Outlets::new(config.webhooks.iter().map(outlet).collect())
}

pub(super) fn hold_room(config: &Config) -> HoldRoom {
    let units = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    HoldRoom { holds: units(config.limits.holds), bytes: units(config.limits.holds_bytes) }
}

pub(super) fn clock_watch(config: &Config) -> ClockWatch {
    let uncompared = config.environments.iter().filter(|one| one.asks_date).map(|one| one.environment);
    ClockWatch::comparing(uncompared.collect())
}

pub(super) fn entry_room(config: &Config) -> JournalRoom {
    let kept = if config.environments.len() > 1 { config.audit.production_bytes } else { 0 };
    let folders = vec![config.audit.folder.clone(), config.store.folder.clone()];
    // Twice what may wait at a time.
    let held_bytes = config.limits.holds_bytes.saturating_mul(2);
    let acts = config.console.as_ref().map_or(0, |console| console.entries_per_hour);
    let most = JournalBounds { refusals: config.limits.refusals, held_bytes, acts };
    JournalRoom::new(most, folders, u64::try_from(kept).unwrap_or(u64::MAX))
}

pub(super) fn terms(config: &Config) -> Terms {
    let TimeoutsConfig { commit, connect, tls_handshake, write, answer, .. } = config.timeouts;
    let longest = LongestWrite::of(commit, connect, tls_handshake, write, answer);
    Terms {
        begin_within: longest.begin,
        lease: longest.whole,
        first_look: config.reconcile.first_look,
        quiet: QuietTime::of(&config.timeouts).from_commit,
        keep: Keep::For { whole: config.store.answers, spent: config.store.spent },
    }
}
