//! Seals anew what stays in the store, once at each start: it is from before the first seal key, or a former key sealed it.
//!
//! What does not stay goes when its time is over: claims with `answers_days`, holds when they are decided. So a key is
//! out of use after that time, and so is plain text.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::stored_policies::StoredPolicies;
use crate::adapters::policies::Proposed;
use crate::adapters::store::outdated_seals::OutdatedSeals;
use crate::adapters::store::sealed::Seals;
use crate::adapters::store::snapshot::SnapshotSource;
use crate::audit::{Entry, EntryKind};
use crate::base::ids::Environment;
use crate::ledger::{Commit, Content, Keep, Kind, Number, RecordKey, Step, StoreFault};
use crate::people::activation;
use crate::people::succession::SetSuccession;

/// How long to wait before the next attempt.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How often records in plain text are counted.
const COUNT_INTERVAL: Duration = Duration::from_hours(1);

impl StoredPolicies {
    /// Seals anew what stays, and then says now and then how much plain text is left, as long as it is taken.
    pub async fn keep_sealed(self: Arc<StoredPolicies>, source: Arc<dyn SnapshotSource>, seals: Seals) {
        if !seals.is_sealing() {
            return;
        }
        // The store answers once it is open, and what an earlier run left is settled.
        while self.node.store.time().await.is_err() {
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
        for environment in self.environments.clone() {
            let last = loop {
                match self.seal_anew(environment, &source, &seals).await {
                    Ok(last) => break last,
                    Err(fault) => self.node.told_of(&fault),
                }
                tokio::time::sleep(RETRY_INTERVAL).await;
            };
            // What a journal makes of a Redis is behind it for a moment.
            while source.content().and_then(|content| content.last(environment)).is_ok_and(|reached| reached < last) {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
        let mut told = BTreeMap::new();
        while seals.takes_plain() {
            for environment in &self.environments {
                match outdated(*environment, &source, &seals).await {
                    Ok(found) => self.tell_of_left(*environment, &found, &mut told),
                    Err(fault) => self.node.told_of(&fault),
                }
            }
            tokio::time::sleep(COUNT_INTERVAL).await;
        }
    }

    /// Returns the number of the last commit by which that was done.
    async fn seal_anew(
        &self,
        environment: Environment,
        source: &Arc<dyn SnapshotSource>,
        seals: &Seals,
    ) -> Result<Number, StoreFault> {
        let (mut records, mut last) = (0_usize, Number::default());
        for key in outdated(environment, source, seals).await?.lasting {
            match self.seal_record_anew(&key).await {
                Ok(Some(number)) => (records, last) = (records.saturating_add(1), number),
                Ok(None) => {}
                // Whoever needs the record says that it cannot be read.
                Err(StoreFault::Broken(why)) => tracing::warn!(%environment, why, "a record cannot be sealed anew"),
                Err(fault) => return Err(fault),
            }
        }
        if records > 0 {
            tracing::info!(%environment, records, "records of the store that stay were sealed anew, with the key of now");
        }
        Ok(last)
    }

    /// Writes a record with the same content; returns the number of the commit. Another gate may have done it meanwhile.
    async fn seal_record_anew(&self, key: &RecordKey) -> Result<Option<Number>, StoreFault> {
        // No other set comes into force meanwhile.
        let turn = self.turn.lock().await;
        let (record, _) = self.node.store.read(key).await?;
        let Some(record) = record else { return Ok(None) };
        let Content::Whole(value) = &record.content else { return Ok(None) };
        // Signatures of recovery keys are judged by the time at which their record was written.
        if SetSuccession::read(&record).is_some_and(|(succession, _)| succession.recovery.is_some()) {
            return Ok(None);
        }
        let (before, environment) = (record.version, key.environment);
        let step = Step::Replace { key: key.clone(), version: before, value: value.clone(), keep: Keep::Forever };
        let entry = Entry::of(EntryKind::SealedAnew).with("record", key.kind.as_str());
        let commit = Commit { environment, node: self.node.id.clone(), steps: vec![step], entry: entry.to_bytes() };
        let Some(receipt) = self.node.commit(commit).await? else { return Ok(None) };
        if key.kind == Kind::InForce {
            let mut active = activation::active(&record).map_err(|why| self.node.unreadable(&why))?;
            active.number = receipt.number();
            self.node.activations.note_active(environment, &active);
            self.proposes_still(environment, before, active.number);
        }
        drop(turn);
        Ok(Some(receipt.number()))
    }

    /// What this gate's folder proposed in place of the set in force, it proposes in place of the same set still.
    fn proposes_still(&self, environment: Environment, before: Number, now: Number) {
        let proposed = self.proposed().ok().flatten();
        let Some(Proposed { version, .. }) = proposed.filter(|one| one.replaces == before) else { return };
        if environment == self.leading()
            && let Err(error) = self.propose(&version, now)
        {
            tracing::warn!(%error, "the policies of the folder have to be proposed again: change them");
        }
    }

    fn tell_of_left(&self, environment: Environment, found: &OutdatedSeals, told: &mut BTreeMap<Environment, u64>) {
        let plain = found.plain;
        self.node.metrics.plain_records(environment.as_str(), plain);
        if told.insert(environment, plain) == Some(plain) {
            return;
        }
        if plain == 0 {
            tracing::info!(%environment, "no record in plain text is left: `store.allow_plain` is of no use any more");
        } else {
            tracing::warn!(
                %environment,
                plain,
                "records in plain text are left; each goes when its time is over, claims after `answers_days`"
            );
        }
    }
}

/// Looks through a store at one moment, on a thread of its own.
async fn outdated(
    environment: Environment,
    source: &Arc<dyn SnapshotSource>,
    seals: &Seals,
) -> Result<OutdatedSeals, StoreFault> {
    let (source, seals) = (source.clone(), seals.clone());
    let looked = tokio::task::spawn_blocking(move || source.content()?.outdated_seals(environment, &seals)).await;
    looked.unwrap_or_else(|error| Err(StoreFault::Away(error.to_string())))
}
