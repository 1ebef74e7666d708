//! What people do while the store waits for journals: the store may be rebuilt from one of them, which lacks it.
//!
//! So it is refused, except for freezes and gates that are declared gone: the gate that recorded them tells the rebuilt store
//! of them again (see `recovery`).

use super::Node;
use crate::base::ids::Environment;
use crate::ledger::{Commit, Content, Number, Receipt, Step, StoreFault};
use crate::stations::claim::{Forgotten, Freeze, Owner};

impl Node {
    /// Returns the guard of what a person does, who must not lose it with a rebuild: fails while the store waits for
    /// journals, for it may be rebuilt from one of them.
    pub(super) async fn lasting(&self, environment: Environment) -> Result<Step, StoreFault> {
        self.takes_acts(environment)?;
        let key = Freeze::Restored.key(environment);
        let (Some(record), _) = self.store.read(&key).await? else { return Ok(Step::Absent(key)) };
        match &record.content {
            Content::Whole(bytes) if !Forgotten::read(bytes).nodes.is_empty() => Err(StoreFault::AwaitsJournals),
            Content::Whole(_) | Content::Spent => Ok(Step::Version { key, version: record.version }),
        }
    }

    /// Fails where what people do may be lost, as another Redis may be in use than that of this gate.
    pub(super) fn takes_acts(&self, environment: Environment) -> Result<(), StoreFault> {
        let is_cut_off = self.fence.is_unnamed(environment, self.clock.elapsed());
        if is_cut_off { Err(StoreFault::FencedOff) } else { Ok(()) }
    }

    /// Returns the guard of lifting a freeze that was made or changed by this commit. Whoever opens a store that waits for
    /// journals needs none; what was frozen since the rebuild is told again together with its end.
    pub(super) async fn lasting_lift(
        &self,
        environment: Environment,
        what: &Freeze,
        version: Number,
    ) -> Result<Option<Step>, StoreFault> {
        self.takes_acts(environment)?;
        if *what == Freeze::Restored {
            return Ok(None);
        }
        match self.lasting(environment).await {
            Ok(guard) => Ok(Some(guard)),
            Err(StoreFault::AwaitsJournals) if self.is_since_rebuild(environment, version).await? => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    async fn is_since_rebuild(&self, environment: Environment, version: Number) -> Result<bool, StoreFault> {
        let (record, _) = self.store.read(&Freeze::Restored.key(environment)).await?;
        let Some(Content::Whole(bytes)) = record.map(|record| record.content) else { return Ok(true) };
        Ok(Forgotten::read(&bytes).known_up_to.is_some_and(|known| version.as_u64() > known))
    }

    /// Commits what a person did, and what no rebuild may lose. Returns `None` where a guard did not hold.
    pub(super) async fn commit_lasting(&self, mut commit: Commit) -> Result<Option<Receipt>, StoreFault> {
        let guard = self.lasting(commit.environment).await?;
        commit.steps.push(guard);
        self.commit(commit).await
    }

    /// The same, within the hourly room of a person.
    pub(super) async fn commit_lasting_act(
        &self,
        person: &Owner,
        mut commit: Commit,
    ) -> Result<Option<Receipt>, StoreFault> {
        let guard = self.lasting(commit.environment).await?;
        commit.steps.push(guard);
        self.commit_act(person, commit).await
    }
}
