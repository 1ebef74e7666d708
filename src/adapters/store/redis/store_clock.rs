//! The clock of the store and the time that goes by it, as a gate asks for them.

use super::RedisStore;
use super::pace::ComparedClock;
use super::reader::ReplyReader;
use super::script_args::Words;
use crate::base::ids::Environment;
use crate::ledger::{Number, StoreFault, StoreTime};

impl RedisStore {
    /// Returns the clock of the store that this gate compared last, and how it differed from what the gate expects.
    pub fn compared_clock(&self, environment: Environment) -> Option<ComparedClock> {
        self.pace(environment).compared()
    }

    /// Returns what must be added to the clock of the Redis for the time of the store to go on as this gate expects it.
    pub fn correction(&self, environment: Environment) -> Option<i64> {
        self.pace(environment).correction()
    }

    /// Whether the clock of the store has had another correction for a while than this one of the journal, which has all that
    /// the store had before. `latest` is the latest number of the store, `kept` that of the journal.
    pub fn is_corrected_otherwise(
        &self,
        environment: Environment,
        journalled: i64,
        (latest, kept): (Number, Number),
    ) -> bool {
        self.pace(environment).is_corrected_otherwise(journalled, latest, kept)
    }

    /// Takes the time of the store at the last heartbeat as right, and expects it to go on from there. Returns whether it did:
    /// not where the clock has another correction than this one of the journal.
    pub fn meets_clock(&self, environment: Environment, journalled: i64) -> bool {
        self.pace(environment).meet(journalled)
    }

    /// Expects the time of the store to go on from the latest one, with which its clock is being corrected.
    pub fn goes_on_from_latest(&self, environment: Environment) {
        self.pace(environment).go_on_from_latest();
    }

    /// Takes the clock of the Redis as right, as another gate finds it. Returns whether it did, as `meets_clock`.
    pub fn takes_clock(&self, environment: Environment, journalled: i64) -> bool {
        self.pace(environment).take_clock(journalled)
    }

    /// Returns the stored time, and the clock of the Redis; this gate believes neither yet.
    pub async fn times(&self, environment: Environment) -> Result<(StoreTime, StoreTime), StoreFault> {
        let mut told = ReplyReader::of(self.look(environment, "times", &Words::default()).await?);
        Ok((told.time()?, told.time()?))
    }

    /// Whether this gate knows from where the time of the store goes on.
    pub fn has_begun(&self, environment: Environment) -> bool {
        self.pace(environment).has_begun()
    }

    /// Goes on from a time, whatever the clock of the Redis shows, until this gate has settled.
    pub fn begins_at(&self, environment: Environment, from: StoreTime, clock: StoreTime) {
        self.pace(environment).begin(from, clock);
    }

    /// Goes by a time of day that others agree with, or by the clock of the Redis if it is alike.
    pub fn begins_settled_at(&self, environment: Environment, of_day: StoreTime, clock: StoreTime) {
        self.pace(environment).begin_settled(of_day, clock);
    }

    /// Compares the clock of the Redis, as the last heartbeat found it, with a time of day, and says whether others agree with
    /// that.
    pub fn settles(&self, environment: Environment, of_day: StoreTime, is_agreed: bool) {
        self.pace(environment).settle(of_day, is_agreed);
    }

    /// Whether this gate has compared the clock of the Redis with the time of day.
    pub fn is_settled(&self, environment: Environment) -> bool {
        self.pace(environment).is_settled()
    }

    /// Whether the store says that people have its clock followed again.
    pub fn says_followed(&self, environment: Environment) -> bool {
        self.pace(environment).says_followed()
    }

    /// Whether the store has had a time for a while that no gate can have told.
    pub fn has_foreign_time(&self, environment: Environment) -> bool {
        self.pace(environment).has_foreign_time()
    }

    /// Replaces such a time by that of the gates.
    pub async fn rights_time(&self, environment: Environment) -> Result<(), StoreFault> {
        self.look(environment, "right_time", &Words::default()).await.map(drop)
    }
}
