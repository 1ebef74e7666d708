//! Gaps in this gate's own journal. Where no journal of another gate has the numbers, money is closed until a person opens
//! it: a store that loses its memory later could not be rebuilt from what is left.

use std::path::Path;

use super::Node;
use super::retry::Retry;
use crate::adapters::audit::{keep_told_gaps, missing_files, told_gaps};
use crate::base::ids::Environment;
use crate::ledger::{CommitError, StoreFault};
use crate::stations::claim::{self, Forgotten, Freeze};

const REMEDY: &str = "find out from upstream's records what was paid with these numbers, then open money with `sluice unfreeze \
                      --restored`";

/// Closes money at a start where files are missing in the middle of the journal; once for each gap.
pub async fn close_for_missing_files(node: &Node, folder: &Path) -> Result<(), StoreFault> {
    let failed = |error: std::io::Error| StoreFault::Away(format!("the journal cannot be looked at: {error}"));
    let (gaps, told) = (missing_files(folder, &node.id).map_err(failed)?, told_gaps(folder, &node.id).map_err(failed)?);
    for gap in gaps.iter().filter(|gap| !told.contains(&(gap.first, gap.last))) {
        for (environment, first, last) in &gap.numbers {
            let why = format!(
                "{}, with numbers {first} to {last} of {environment}: put it back from an archive or a copy; otherwise {REMEDY}",
                gap.text()
            );
            close_if_nobody_has(node, *environment, (*first, *last), &why).await?;
        }
    }
    if gaps.is_empty() && told.is_empty() {
        return Ok(());
    }
    keep_told_gaps(folder, &node.id, &gaps).map_err(failed)
}

/// Closes money where the store no longer has entries that this journal lacks, and no other journal has them.
pub(super) async fn close_for_lost_entries(
    node: &Node,
    environment: Environment,
    first: u64,
    last: u64,
) -> Result<(), StoreFault> {
    // Of a store that nobody shares, the start compares the journal.
    if !node.others.are_known(environment) {
        return Ok(());
    }
    if !node.others.met_lately(environment, node.clock.elapsed()) {
        let why = "this gate stood still, and another may bear its name: its journal is looked at again after it met the store";
        return Err(StoreFault::Away(why.to_owned()));
    }
    let why = format!(
        "neither the store nor a journal that is known has the entries {first} to {last} of {environment}: start each gate that \
         does not run, with its `audit.folder`; otherwise {REMEDY}"
    );
    close_if_nobody_has(node, environment, (first, last), &why).await
}

async fn close_if_nobody_has(
    node: &Node,
    environment: Environment,
    (first, last): (u64, u64),
    why: &str,
) -> Result<(), StoreFault> {
    if node.others.have(environment, first, last) == Some(true) {
        tracing::warn!(%environment, first, last, why, "this journal has a gap; the journal of another gate has these entries");
        return Ok(());
    }
    let key = Freeze::Restored.key(environment);
    let mut retry = Retry::default();
    loop {
        let (record, _) = node.store.read(&key).await?;
        let (before, forgotten) = Forgotten::of_record(record);
        // The journal may wait for the very numbers that are missing, so this entry is not waited for.
        match node.store.commit(claim::closed_for_gap(environment, before, forgotten, why, &node.id)).await {
            Ok(_) => {
                tracing::error!(%environment, first, last, why, "this journal has a gap: money is closed until a person opens it");
                return Ok(());
            }
            Err(CommitError::Fault(fault)) => return Err(fault),
            Err(CommitError::Rejected { .. }) => retry.conflict().await?,
        }
    }
}
