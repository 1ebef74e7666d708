//! The time of a shared store, from a gate's start on: where it goes on from, when it follows the clock of the Redis, and
//! whose word counts against that clock.

use super::Node;
use super::clock_watch::DateTrust;
use super::membership::Membership;
use super::node_facts::NodeFacts;
use crate::adapters::store::redis::{ALIKE_AT_START, HeartbeatReply};
use crate::base::ids::Environment;
use crate::ledger::{ClockLeap, StoreFault, StoreTime};
use crate::stations::claim::Freeze;

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

    /// Compares the clock of the Redis with that of this machine, once others agree with it, or at once where nobody is
    /// asked. Acts on a leap of the store's clock, on a time that somebody wrote, and on a pause of this machine.
    pub(super) async fn judges_time(
        &self,
        node: &Node,
        environment: Environment,
        heard: &HeartbeatReply,
    ) -> Result<(), StoreFault> {
        if !self.store.is_settled(environment) {
            let trust = node.clocks.trust_in(environment);
            if matches!(trust, DateTrust::Agrees | DateTrust::Unasked) {
                self.store.settles(environment, of_day(node), trust == DateTrust::Agrees);
            }
        } else {
            self.follows_people(node, environment)?;
            if self.store.has_foreign_time(environment) {
                node.contradicted(environment, None, "it has a time that no gate can have told");
                self.store.rights_time(environment).await?;
            }
            if self.served.contains(&environment) {
                self.judges_clock(node, environment, heard).await?;
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
    ) -> Result<(), StoreFault> {
        let others = heard.members.iter().filter(|member| member.node != node.id && heard.is_live(member));
        // A gate that has not compared its clock cannot say that nothing leapt.
        let facts = others.filter_map(|member| NodeFacts::read(&member.told)).filter(|facts| facts.is_clock_settled);
        let others: Vec<Option<ClockLeap>> =
            facts.map(|facts| facts.clock_leap_micros.map(ClockLeap::of_micros)).collect();
        if node.judge_clock(environment, self.store.leap(environment), &others).await? {
            self.store.meets_clock(environment);
        }
        Ok(())
    }

    /// Follows the clock of the Redis again where the journal has people's word for it: the store alone could say anything.
    fn follows_people(&self, node: &Node, environment: Environment) -> Result<(), StoreFault> {
        let is_closed = self.replica.record(&Freeze::Clock.key(environment))?.is_some();
        let was_closed = node.clocks.is_closed(environment, is_closed);
        if self.store.says_followed(environment) && was_closed && !is_closed {
            self.store.meets_clock(environment);
            node.clocks.is_opened(environment);
        }
        Ok(())
    }
}

fn of_day(node: &Node) -> StoreTime {
    StoreTime::of_micros(node.clock.now().as_microsecond())
}
