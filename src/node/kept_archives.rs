//! Sees to it that the store keeps the texts of the set in force: a gate that is new takes them from there.

use std::time::Duration;

use super::stored_policies::StoredPolicies;
use crate::base::ids::Environment;
use crate::ledger::{Commit, CommitError, ConflictCause, Number, Step, StoreFault, StoreTime};
use crate::people::activation;

/// How often it is looked whether the store has them.
const LOOK_INTERVAL: Duration = Duration::from_secs(20);

impl StoredPolicies {
    /// Looks now and then whether the store has the texts of the set that runs here, and puts them there again if not.
    pub(super) async fn keep_archives(&self) {
        let now = self.node.clock.elapsed();
        if self.whole_at().is_some_and(|at| now.saturating_sub(at) < LOOK_INTERVAL) {
            return;
        }
        let mut is_whole = true;
        for environment in &self.environments {
            // The first commit that needs a set archives it.
            if self.node.activations.number(*environment) == Number::new(0) {
                continue;
            }
            is_whole &= self.archives_again(*environment).await.unwrap_or_else(|fault| {
                self.node.told_of(&fault);
                false
            });
        }
        self.note_whole(is_whole.then_some(now));
    }

    /// Returns whether nothing was missing.
    async fn archives_again(&self, environment: Environment) -> Result<bool, StoreFault> {
        match self.archives(environment, &self.running()).await {
            Ok(steps) if steps.is_empty() => Ok(true),
            Ok(steps) => {
                tracing::error!(%environment, "the store had lost the texts of the policies in force: they are put there again");
                let version = self.in_force.now().policies.version().to_owned();
                self.node.commit(activation::archived_again(environment, &version, steps, &self.node.id)).await?;
                Ok(false)
            }
            // The journal has them, so that they come back with a rebuild alone.
            Err(StoreFault::Broken(why)) if self.lacks_archives(environment).await? => {
                self.node.contradicted(environment, None, &why);
                Ok(false)
            }
            Err(StoreFault::Broken(why)) => {
                self.node.told_of(&StoreFault::Broken(why));
                Ok(true)
            }
            Err(fault) => Err(fault),
        }
    }

    /// Whether one of the records is not in the store, whatever can be read of them. The commit that asks is never made.
    async fn lacks_archives(&self, environment: Environment) -> Result<bool, StoreFault> {
        let [set, contract] = self.archive_keys(environment);
        let steps = vec![Step::Absent(set), Step::Absent(contract), Step::Before(StoreTime::default())];
        let asks = Commit { steps, ..activation::archived_again(environment, "", Vec::new(), &self.node.id) };
        match self.node.try_commit(asks).await {
            Err(CommitError::Rejected { conflicts, .. }) => {
                let found = conflicts.iter().filter(|conflict| matches!(conflict.found, ConflictCause::Record(_)));
                Ok(found.count() < 2)
            }
            Ok(_) | Err(CommitError::Fault(StoreFault::Broken(_))) => Ok(false),
            Err(CommitError::Fault(fault)) => Err(fault),
        }
    }
}
