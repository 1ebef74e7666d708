//! The time of a shared store, from a gate's start on: where it goes on from, when it follows the clock of the Redis, and
//! whose word counts against that clock.

use super::Node;
use super::clock_leaps::{ClockTestimony, LeapConsequence, OtherClocks};
use super::clock_watch::DateTrust;
use super::membership::Membership;
use super::node_facts::NodeFacts;
use crate::adapters::store::redis::{ALIKE_AT_START, HeartbeatReply, Member};
use crate::base::ids::Environment;
use crate::ledger::{Content, Number, Record, StoreFault, StoreTime};
use crate::stations::claim::{ClockCorrection, Freeze};

impl Membership {
    /// Decides from where the time of the store goes on, before anything else is asked of it. Nobody knows for how long the
    /// gates were down, so it is the last time that is known. A stored time that is ahead of this machine's clock is
    /// believed only where that clock is wrong.
    pub(super) async fn begins_time(&self, node: &Node, environment: Environment) -> Result<(), StoreFault> {
        if self.store.has_begun(environment) {
            return Ok(());
        }
        let (stored, clock) = self.store.times(environment).await?;
        let (journalled, of_day) = (self.replica.time()?, of_day(node));
        let is_ahead = stored > of_day.plus(ALIKE_AT_START);
        let from = match node.clocks.trust_in(environment) {
            _ if !is_ahead => stored.max(journalled),
            DateTrust::Differs => stored.max(journalled),
            DateTrust::Agrees | DateTrust::Unasked => {
                tracing::error!(
                    %environment,
                    seconds = stored.since(of_day).as_secs(),
                    "the time in the store is ahead of this machine's clock: somebody wrote it, or the clock of the Redis was wrong; \
                     this gate does not go by it"
                );
                self.store.begins_settled_at(environment, journalled.max(of_day), clock);
                return Ok(());
            }
            DateTrust::Waiting => {
                let why = "its time is ahead of this machine's clock, and nobody has told the date since the start of this gate: \
                           set the clocks of both machines right";
                return Err(StoreFault::Away(why.to_owned()));
            }
        };
        // A store of which nobody knows anything has nothing that a wrong time could end.
        if from > StoreTime::default() {
            self.store.begins_at(environment, from, clock);
        }
        Ok(())
    }

    /// The same for all environments. Nothing may be asked of the store before that makes its time go on.
    pub async fn begins_times(&self, node: &Node) -> Result<(), StoreFault> {
        for environment in Environment::ALL {
            self.begins_time(node, environment).await?;
        }
        Ok(())
    }

    /// Compares the clock of the Redis with that of this machine, once others agree with it, or at once where nobody is
    /// asked. Acts on a leap of the store's clock, on a time that somebody wrote, and on a pause of this machine.
    pub(super) async fn judges_time(
        &self,
        node: &Node,
        environment: Environment,
        heard: &HeartbeatReply,
    ) -> Result<(), StoreFault> {
        node.clocks.leaps.hears(environment, questions(node, heard));
        if !self.store.is_settled(environment) {
            let trust = node.clocks.trust_in(environment);
            if matches!(trust, DateTrust::Agrees | DateTrust::Unasked) {
                self.store.settles(environment, of_day(node), trust == DateTrust::Agrees);
            }
        } else {
            let correction = self.correction(node, environment).await?;
            self.follows_people(node, environment, correction)?;
            // A gate whose own clock may be wrong says nothing of the stored time.
            let sees_leap = self.store.compared_clock(environment).is_some_and(|compared| compared.leap.is_some());
            if self.store.has_foreign_time(environment) && !sees_leap {
                node.contradicted(environment, None, "it has a time that no gate can have told");
                self.store.rights_time(environment).await?;
            }
            if self.served.contains(&environment) {
                let numbers = (heard.last, self.replica.last(environment)?);
                if correction.is_some_and(|micros| self.store.is_corrected_otherwise(environment, micros, numbers)) {
                    let why = "its clock is corrected otherwise than any commit says";
                    node.contradicted(environment, None, why);
                    node.close_for_clock(environment, why, self.store.correction(environment)).await?;
                }
                self.judges_clock(node, environment, heard, correction).await?;
            }
        }
        if self.store.is_settled(environment) {
            node.clocks.settles(environment);
        }
        node.clocks.meets_store(&*node.clock);
        Ok(())
    }

    async fn judges_clock(
        &self,
        node: &Node,
        environment: Environment,
        heard: &HeartbeatReply,
        correction: Option<i64>,
    ) -> Result<(), StoreFault> {
        let told = others(node, heard).filter_map(|member| NodeFacts::read(&member.told)?.clock).collect();
        let running = others(node, heard).filter(|member| heard.is_live(member)).count();
        let others = OtherClocks { running, told };
        let (own, right) = (self.store.compared_clock(environment), self.store.correction(environment));
        match node.judge_clock(environment, own, &others, right).await? {
            LeapConsequence::KeepsOwn => {}
            LeapConsequence::GoesOn => self.store.goes_on_from_latest(environment),
            LeapConsequence::TakesTime => self.takes_clock(node, environment, correction).await?,
            LeapConsequence::TakesTimeAndCloses => {
                // INVARIANT: nothing begins here from now on until the journal has that the money of this gate is closed.
                node.clocks.must_close(environment);
                self.takes_clock(node, environment, correction).await?;
            }
        }
        if node.clocks.is_to_close(environment) {
            let why = "its monotonic clock differed by minutes from the clock of the store, which another gate finds right: its machine \
                       was paused, or its clock is wrong";
            node.close_gate(environment, why).await?;
            node.clocks.has_closed(environment);
        }
        Ok(())
    }

    /// Takes the clock that others find right. What this gate told the store before may be far ahead of it.
    async fn takes_clock(
        &self,
        node: &Node,
        environment: Environment,
        correction: Option<i64>,
    ) -> Result<(), StoreFault> {
        if correction.is_some_and(|micros| self.store.takes_clock(environment, micros)) {
            node.clocks.leaps.is_settled(environment);
            self.store.rights_time(environment).await?;
        }
        Ok(())
    }

    /// Follows the clock of the Redis again where the journal has people's word for it, and the correction that they left: the
    /// store alone could say anything.
    fn follows_people(&self, node: &Node, environment: Environment, correction: Option<i64>) -> Result<(), StoreFault> {
        let is_closed = self.replica.record(&Freeze::Clock.key(environment))?.is_some();
        let was_closed = node.clocks.is_closed(environment, is_closed);
        let is_followed = self.store.says_followed(environment) && was_closed && !is_closed;
        if is_followed && correction.is_some_and(|micros| self.store.meets_clock(environment, micros)) {
            node.clocks.is_opened(environment);
        }
        Ok(())
    }

    /// Returns what this gate says of the clock of the store; `None` before it has compared it.
    pub(super) fn testimony(&self, node: &Node, environment: Environment) -> Option<ClockTestimony> {
        let answers = node.clocks.leaps.heard(environment);
        self.store.compared_clock(environment).map(|compared| ClockTestimony::of(compared, answers))
    }

    /// Returns the correction of the clock as the journal has it; `None` where it has none.
    pub(super) fn journalled_correction(&self, environment: Environment) -> Result<Option<i64>, StoreFault> {
        let key = ClockCorrection::key(environment);
        let Some(mut record) = self.replica.record(&key)? else { return Ok(None) };
        if let Content::Whole(sealed) = &record.content {
            record.content = Content::Whole(self.seals.open(&key, sealed.clone())?);
        }
        correction_of(&record).map(Some)
    }

    /// Returns the correction that commits made. One from before the journal began is read from the store; `None` where that
    /// cannot be read, as before this gate has joined.
    async fn correction(&self, node: &Node, environment: Environment) -> Result<Option<i64>, StoreFault> {
        let journalled = self.journalled_correction(environment)?;
        if journalled.is_some() || self.replica.begin(environment)? == Number::default() {
            return Ok(Some(journalled.unwrap_or_default()));
        }
        let Ok((record, _)) = node.store.read(&ClockCorrection::key(environment)).await else { return Ok(None) };
        Ok(record.map_or(Some(0), |record| correction_of(&record).ok()))
    }
}

/// Reads the record of a correction, which is open.
pub(super) fn correction_of(record: &Record) -> Result<i64, StoreFault> {
    let read = match &record.content {
        Content::Whole(bytes) => ClockCorrection::read(bytes),
        Content::Spent => None,
    };
    read.ok_or_else(|| StoreFault::Broken("the correction of the store's clock cannot be read".to_owned()))
}

/// Returns what other gates ask of the clock of the store. The heartbeats of one whose own clock is behind look old.
fn questions(node: &Node, heard: &HeartbeatReply) -> Vec<String> {
    others(node, heard).filter_map(|member| NodeFacts::read(&member.told)?.asks).collect()
}

fn others<'a>(node: &'a Node, heard: &'a HeartbeatReply) -> impl Iterator<Item = &'a Member> {
    heard.members.iter().filter(|member| member.node != node.id && !member.is_retired)
}

fn of_day(node: &Node) -> StoreTime {
    StoreTime::of_micros(node.clock.now().as_microsecond())
}
