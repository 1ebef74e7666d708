//! Looks for what became of a record in the entries that this gate's journal does not have yet.

use bytes::Bytes;

use super::sealed::Sealed;
use crate::audit::unused_before;
use crate::ledger::{Content, Number, Outstanding, Record, RecordKey, Step, StoreFault};

/// How many entries are read at a time.
const BATCH: usize = 256;

impl Sealed {
    /// Whether a commit that the journal does not have yet removed or replaced the record; `None` where entries are missing
    /// before the next one, which the journal may have by now.
    pub(super) async fn is_written_behind(
        &self,
        key: &RecordKey,
        known_up_to: Number,
    ) -> Result<Option<bool>, StoreFault> {
        let mut behind = known_up_to;
        loop {
            let entries = self.inner.outbox(key.environment, behind, BATCH).await?;
            if entries.is_empty() {
                return Ok(Some(false));
            }
            for entry in entries {
                let is_next = entry.number.as_u64() == behind.as_u64().saturating_add(1);
                let is_explained =
                    || unused_before(&entry.entry).is_some_and(|unused| unused.explains_behind(behind.as_u64()));
                if !is_next && !is_explained() {
                    return Ok(None);
                }
                if self.steps_of(&entry)?.iter().any(|step| step.writes(key)) {
                    return Ok(Some(true));
                }
                behind = entry.number;
            }
        }
    }

    /// Whether a commit that the journal does not have yet left the record as it is there; `None` where its entry has left the
    /// outbox.
    pub(super) async fn is_left_behind(
        &self,
        key: &RecordKey,
        found: Option<&Record>,
    ) -> Result<Option<bool>, StoreFault> {
        let Some(found) = found else { return Ok(Some(true)) };
        let behind = Number::new(found.version.as_u64().saturating_sub(1));
        let next = self.inner.outbox(key.environment, behind, 1).await?.pop();
        let Some(entry) = next.filter(|entry| entry.number == found.version) else {
            let is_made = found.version <= self.inner.last(key.environment).await?;
            return Ok(if is_made { None } else { Some(false) });
        };
        let is_left = |value: &Bytes| found.content == Content::Spent || found.content == Content::Whole(value.clone());
        let leaves = |step: &Step| step.writes(key) && step.value().is_some_and(is_left);
        Ok(Some(entry.at == found.at && self.steps_of(&entry)?.iter().any(leaves)))
    }

    fn steps_of(&self, entry: &Outstanding) -> Result<Vec<Step>, StoreFault> {
        let kept = self.seals.steps(entry)?.filter(|kept| kept.are_made_at(entry.at));
        Ok(kept.map(|kept| kept.steps).unwrap_or_default())
    }
}
