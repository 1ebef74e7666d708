//! Releases approved holds: every node looks for them, and one node sends each.
//!
//! The call is read again from its stored bytes and decided on again, by the rules, groups and limits of this moment.
//! From its commit on it goes the way of every write. A node that dies before that commit loses nothing; after it, the
//! claim tells what is known.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::Egress;
use super::submit::carry_on;
use crate::adapters::otlp::{Spans, Tracer};
use crate::base::ids::{Environment, HoldId};
use crate::ledger::{Commit, Index, Record, StoreFault, Versioned};
use crate::node::holds::key;
use crate::node::{Exchange, InForce, Node, NotBegun, Snapshot};
use crate::stations::check::Intent;
use crate::stations::claim::{AttemptSource, Decline, Declined};
use crate::stations::decide::{Denied, ReleaseDecision, decide_release};
use crate::stations::hold::{self, Hold, HoldState, read_again};

/// The poll interval for holds that other nodes approved, and for expiries.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The most holds of one pass.
const BATCH: usize = 256;
/// The most releases at once.
const AT_ONCE: usize = 16;
/// The pause for a hold that cannot be sent now, because a window is full or money is frozen.
const STANDS: Duration = Duration::from_secs(5);
const DECISIONS: usize = 4;

/// The parts that releasing needs.
#[derive(Clone, Debug)]
pub struct Releasing {
    pub node: Arc<Node>,
    pub egress: Egress,
    pub in_force: Arc<InForce>,
    pub tracer: Option<Tracer>,
}

/// The result of one release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Released {
    /// This node is done with it: sent, ended, reopened, or another node's.
    Over,
    /// The hold stays approved, and is tried again.
    Stands,
}

/// Releases as long as the process lives, until it is to stop.
pub async fn release(releasing: Releasing, mut stopping: watch::Receiver<bool>) {
    let environment = releasing.egress.environment;
    let mut changes = releasing.node.changes.subscribe();
    let mut later: HashMap<HoldId, Duration> = HashMap::new();
    let mut under_way: JoinSet<(HoldId, Result<Released, JoinError>)> = JoinSet::new();
    let mut busy: Vec<HoldId> = Vec::new();
    loop {
        // An orderly stop waits for this pass, so that no release begins after the stop has looked for the last one.
        let pass = releasing.egress.sending.token();
        if *stopping.borrow() {
            drop(pass);
            // Releases that have begun go on in tasks of their own.
            return std::future::pending().await;
        }
        let now = releasing.node.clock.elapsed();
        later.retain(|_, at| *at > now);
        // Holds that wait for a retry do not hide the others.
        let count = BATCH.saturating_add(later.len()).saturating_add(busy.len());
        match due(&releasing.node, environment, Index::Approved, count).await {
            Ok(due) => {
                for id in due {
                    if busy.contains(&id) || later.contains_key(&id) || under_way.len() >= AT_ONCE {
                        continue;
                    }
                    busy.push(id.clone());
                    let (mine, of) = (releasing.clone(), id.clone());
                    // A release that has begun ends: an orderly stop waits for it, as for every write.
                    let sending = &releasing.egress.sending;
                    let going = sending.spawn_on(async move { mine.one(&of).await }, &releasing.egress.runtime);
                    under_way.spawn(async move { (id, going.await) });
                }
            }
            Err(fault) => releasing.node.told_of(&fault),
        }
        if let Err(fault) = expire(&releasing.node, environment).await {
            releasing.node.told_of(&fault);
        }
        drop(pass);
        tokio::select! {
            Some(Ok((id, came))) = under_way.join_next() => {
                busy.retain(|one| *one != id);
                // Whatever the result, the hold rests for a while.
                let pause = if matches!(came, Ok(Released::Over)) { POLL_INTERVAL } else { STANDS };
                later.insert(id, releasing.node.clock.elapsed().saturating_add(pause));
                if let Err(error) = came {
                    tracing::error!(%environment, %error, "the task of a release ended early; if it had begun to send, the outcome is unknown");
                }
            }
            Ok(()) = changes.changed() => {}
            Ok(()) = stopping.changed() => {}
            () = tokio::time::sleep(POLL_INTERVAL) => {}
        }
    }
}

async fn due(node: &Node, environment: Environment, index: Index, count: usize) -> Result<Vec<HoldId>, StoreFault> {
    let now = node.time().await?;
    let due = node.store.due(environment, index, Some(now), count).await?;
    Ok(due.into_iter().filter_map(|(_, name)| HoldId::parse(&name)).collect())
}

/// Expires the holds whose time is over, once.
pub async fn expire(node: &Node, environment: Environment) -> Result<(), StoreFault> {
    for id in due(node, environment, Index::Held, BATCH).await? {
        let key = key(environment, &id);
        match node.find_hold(&key).await {
            Ok(Some((record, hold))) => {
                let here = Versioned { key: &key, version: record.version, at: record.at, value: &hold };
                match node.decline(here, Declined { how: Decline::Expired, reason: None }, None, Vec::new()).await {
                    Ok(_) => {}
                    Err(fault @ StoreFault::Broken(_)) => node.told_of(&fault),
                    Err(fault) => return Err(fault),
                }
            }
            Ok(None) => {}
            // A record that cannot be read does not stop the others.
            Err(fault @ StoreFault::Broken(_)) => node.told_of(&fault),
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

impl Releasing {
    /// Tries to send one approved hold.
    async fn one(&self, id: &HoldId) -> Released {
        match self.try_one(id).await {
            Ok(came) => came,
            Err(fault) => {
                self.node.told_of(&fault);
                Released::Stands
            }
        }
    }

    async fn try_one(&self, id: &HoldId) -> Result<Released, StoreFault> {
        let (node, environment) = (&self.node, self.egress.environment);
        let key = key(environment, id);
        let Some((record, hold)) = node.find_hold(&key).await? else { return Ok(Released::Over) };
        let here = Versioned { key: &key, version: record.version, at: record.at, value: &hold };
        if hold.state != HoldState::Approved {
            return Ok(Released::Over);
        }
        if !self.egress.credential.is_injected() {
            tracing::error!(%environment, hold = %id, "an approved call cannot be sent: the gate has no credential of its own (`credential`)");
            return Ok(Released::Stands);
        }
        // The call is read, decided on and counted for by one set and its contract.
        let by = self.in_force.now();
        let Some(intent) = read_again(&by.catalog, self.egress.environment, &hold) else {
            tracing::error!(%environment, hold = %id, "an approved call is blocked: today's contract has no such call, or its bytes are not those that were approved");
            let reason = Some("today's contract has no such call".to_owned());
            node.decline(here, Declined { how: Decline::Blocked, reason }, None, Vec::new()).await?;
            return Ok(Released::Over);
        };
        self.decide_and_send(here, &record, &by, intent).await
    }

    async fn decide_and_send(
        &self,
        here: Versioned<'_, Hold>,
        record: &Record,
        by: &Snapshot,
        intent: Intent,
    ) -> Result<Released, StoreFault> {
        let (node, hold) = (&self.node, here.value);
        let Some((claim_key, claim_record, claim)) = node.claim_of(self.egress.environment, hold).await? else {
            node.end_orphan(here).await?;
            return Ok(Released::Over);
        };
        let of_claim = Versioned { key: &claim_key, version: claim_record.version, at: claim_record.at, value: &claim };
        let policies = &*by.policies;
        // By another set than the one in force, nothing is decided on this hold.
        if !node.activations.is_in_force(self.egress.environment, policies.version()) {
            return Ok(Released::Stands);
        }
        let (stand_ins, now) = node.stand_ins(self.egress.environment).await?;
        let mut facts = node.stored_facts(&intent, policies, now).await?;
        let exchange = self.exchange(hold);
        let mut intent = intent;
        for _ in 0..DECISIONS {
            if here.deadline() <= facts.now {
                // The hold has expired by the store's own time: `expire` ends it.
                return Ok(Released::Stands);
            }
            let hearing = node.hearing(self.egress.environment, (&by.catalog, policies), &stand_ins, facts.now);
            let consent = hold.consent(&hearing);
            let allowed = match decide_release(intent, policies, &facts, &consent) {
                ReleaseDecision::Released(allowed) => allowed,
                ReleaseDecision::Waits(unreached) => {
                    return self.reopened(here, hold::reopen(here, unreached, &policies.rules, &node.id)).await;
                }
                ReleaseDecision::Denied(denied) if denied.is_for_a_full_window() => {
                    node.metrics.hold(self.egress.environment.as_str(), "full");
                    return Ok(Released::Stands);
                }
                ReleaseDecision::Denied(denied) => return self.block(here, &denied).await,
            };
            let Some(mut steps) = hold::released(here, &node.terms) else { return Ok(Released::Over) };
            let voters = hold.votes.iter().map(|vote| &vote.person);
            steps.extend(stand_ins.guards(self.egress.environment, voters, facts.now));
            let from = AttemptSource::Held { here: of_claim, hold: &hold.id, steps };
            match node.begin(allowed, &exchange, from).await {
                Ok(attempt) => {
                    node.hold_ended(here, "released");
                    node.changes.happened();
                    let headers = hold.headers.clone();
                    carry_on(self.egress.clone(), node.clone(), attempt, headers, exchange).await;
                    node.changes.happened();
                    return Ok(Released::Over);
                }
                Err(withdrawn) => match (withdrawn.why, withdrawn.intent) {
                    (NotBegun::StaleFacts(learnt), Some(back)) => {
                        node.learn(self.egress.environment, &mut facts, learnt);
                        intent = back;
                    }
                    (NotBegun::Raced, _) => return Ok(Released::Over),
                    // The hold's own claim is there, where nothing can begin.
                    (
                        NotBegun::StaleFacts(_)
                        | NotBegun::Claimed(..)
                        | NotBegun::SaidExecuted
                        | NotBegun::OtherSet
                        | NotBegun::Frozen
                        | NotBegun::ClockDoubted
                        | NotBegun::Forgotten
                        | NotBegun::StoreAway
                        | NotBegun::AuditAway
                        | NotBegun::NoRoomForRefusal
                        | NotBegun::NoPlaceForHold(_),
                        _,
                    ) => return Ok(Released::Stands),
                },
            }
        }
        tracing::warn!(
            environment = %self.egress.environment,
            hold = %hold.id,
            version = record.version.as_u64(),
            "the facts that decisions assumed changed again and again"
        );
        Ok(Released::Stands)
    }

    /// Continues the trace of the held call.
    fn exchange(&self, hold: &Hold) -> Exchange {
        let traced = self.tracer.as_ref().map(|tracer| tracer.begin(&hold.headers)).unwrap_or_default();
        Exchange { id: hold.trace.clone(), spans: Spans::named(traced, "release", self.egress.environment.as_str()) }
    }

    /// Reopens a hold that needs more approvals by today's rules and limits. Where the decision assumed what is no longer so,
    /// the hold stays approved and is decided on again, from the facts that the store has then.
    async fn reopened(&self, here: Versioned<'_, Hold>, commit: Option<Commit>) -> Result<Released, StoreFault> {
        if let Some(commit) = commit
            && self.node.commit(commit).await?.is_some()
        {
            self.node.metrics.hold(here.key.environment.as_str(), "reopened");
            self.node.changes.happened();
        }
        Ok(Released::Over)
    }

    /// Ends a hold that today's rules deny; where they would no longer, it stays approved and is decided on again.
    async fn block(&self, here: Versioned<'_, Hold>, denied: &Denied) -> Result<Released, StoreFault> {
        let reasons = denied.grounds().verdict.reasons.iter();
        let told = reasons.map(|reason| match reason.cause.name() {
            Some(name) => format!("{} (`{name}`)", reason.text),
            None => reason.text.clone(),
        });
        let reason = Some(told.collect::<Vec<_>>().join("; "));
        self.node.decline(here, Declined { how: Decline::Blocked, reason }, None, denied.grounds().guards()).await?;
        Ok(Released::Over)
    }
}
