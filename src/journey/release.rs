//! Sending what people agreed to: every node looks for it, and one of them does it.
//!
//! It is decided anew, by the rules, groups and limits of now, and read again from its bytes. From its commit on it goes
//! the way of every write. A node that dies before that commit loses nothing; after it, the claim tells what is known.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::books::NotBegun;
use super::holds::key;
use super::submit::carry_on;
use super::{Books, Exchange, InForce, Road};
use crate::adapters::otlp::{Spans, Tracer};
use crate::base::ids::{Environment, HoldId};
use crate::commit::{Index, Record, StoreFault};
use crate::policy::{Policies, Progress};
use crate::stations::check::Intent;
use crate::stations::claim::{Decline, Declined, From, Standpoint};
use crate::stations::decide::{Again, Denied, decide_again};
use crate::stations::hold::{self, Here, Hold, State, read_again};

/// How often is looked for what other nodes approved, and for what expires.
const EVERY: Duration = Duration::from_secs(1);
/// How many are looked at in one go.
const HANDFUL: usize = 256;
/// How many are sent at one time.
const AT_ONCE: usize = 16;
/// What has no way now, as its window is full or money is frozen, is looked at again after so long.
const STANDS: Duration = Duration::from_secs(5);
const DECISIONS: usize = 4;

/// All that releasing takes.
#[derive(Clone, Debug)]
pub struct Releasing {
    pub books: Arc<Books>,
    pub road: Road,
    pub in_force: Arc<InForce>,
    pub tracer: Option<Tracer>,
}

/// What came of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Released {
    /// It is over for this node: sent, declined, reopened, or another's.
    Over,
    /// It stays approved, and is tried again.
    Stands,
}

/// As long as the process lives, until it is to stop.
pub async fn release(releasing: Releasing, mut stopping: watch::Receiver<bool>) {
    let environment = releasing.road.environment;
    let mut changes = releasing.books.changes.heard();
    let mut later: HashMap<HoldId, Duration> = HashMap::new();
    let mut under_way: JoinSet<(HoldId, Result<Released, JoinError>)> = JoinSet::new();
    let mut busy: Vec<HoldId> = Vec::new();
    loop {
        if *stopping.borrow() {
            // What was begun goes on in tasks of its own.
            return std::future::pending().await;
        }
        let now = releasing.books.clock.elapsed();
        later.retain(|_, at| *at > now);
        // Those that stand do not keep the others from being seen.
        let count = HANDFUL.saturating_add(later.len()).saturating_add(busy.len());
        match due(&releasing.books, environment, Index::Approved, count).await {
            Ok(due) => {
                for id in due {
                    if busy.contains(&id) || later.contains_key(&id) || under_way.len() >= AT_ONCE {
                        continue;
                    }
                    busy.push(id.clone());
                    let (mine, of) = (releasing.clone(), id.clone());
                    // What is begun ends: an end of the process waits for it, as for every write.
                    let sending = &releasing.road.sending;
                    let going = sending.spawn_on(async move { mine.one(&of).await }, &releasing.road.runtime);
                    under_way.spawn(async move { (id, going.await) });
                }
            }
            Err(fault) => releasing.books.told_of(&fault),
        }
        if let Err(fault) = expire(&releasing.books, environment).await {
            releasing.books.told_of(&fault);
        }
        tokio::select! {
            Some(Ok((id, came))) = under_way.join_next() => {
                busy.retain(|one| *one != id);
                // Whatever came of it, it is not looked at again at once.
                let pause = if matches!(came, Ok(Released::Over)) { EVERY } else { STANDS };
                later.insert(id, releasing.books.clock.elapsed().saturating_add(pause));
                if let Err(error) = came {
                    tracing::error!(%error, "a release did not end; if it had begun, its outcome is unknown");
                }
            }
            _changed = changes.changed() => {}
            _stopped = stopping.changed() => {}
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}

async fn due(books: &Books, environment: Environment, index: Index, count: usize) -> Result<Vec<HoldId>, StoreFault> {
    let now = books.time().await?;
    let due = books.store.due(environment, index, Some(now), count).await?;
    Ok(due.into_iter().filter_map(|(_, name)| HoldId::parse(&name)).collect())
}

/// One look at what people did not decide in time.
pub async fn expire(books: &Books, environment: Environment) -> Result<(), StoreFault> {
    for id in due(books, environment, Index::Held, HANDFUL).await? {
        let key = key(environment, &id);
        match books.find_hold(&key).await {
            Ok(Some((record, hold))) => {
                let here = Here { key: &key, version: record.version, at: record.at, hold: &hold };
                books.decline(here, Declined { how: Decline::Expired, reason: None }, None).await?;
            }
            Ok(None) => {}
            // One that cannot be read does not stand in the way of the others.
            Err(fault @ StoreFault::Broken(_)) => books.told_of(&fault),
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

impl Releasing {
    /// Tries to send one that was approved.
    async fn one(&self, id: &HoldId) -> Released {
        match self.try_one(id).await {
            Ok(came) => came,
            Err(fault) => {
                self.books.told_of(&fault);
                Released::Stands
            }
        }
    }

    async fn try_one(&self, id: &HoldId) -> Result<Released, StoreFault> {
        let (books, key) = (&self.books, key(self.road.environment, id));
        let Some((record, hold)) = books.find_hold(&key).await? else { return Ok(Released::Over) };
        let here = Here { key: &key, version: record.version, at: record.at, hold: &hold };
        if hold.state != State::Approved {
            return Ok(Released::Over);
        }
        if !self.road.credential.is_injected() {
            tracing::error!(hold = %id, "people agreed to a call, and the gate has no credential of its own to send it with");
            return Ok(Released::Stands);
        }
        let Some(intent) = read_again(&self.in_force.now().catalog, self.road.environment, &hold) else {
            tracing::error!(hold = %id, "what people agreed to is no call of the contract any more, or not what they saw");
            let reason = Some("it is no call of today's contract".to_owned());
            books.decline(here, Declined { how: Decline::Blocked, reason }, None).await?;
            return Ok(Released::Over);
        };
        self.decide_and_send(here, &record, intent).await
    }

    async fn decide_and_send(&self, here: Here<'_>, record: &Record, intent: Intent) -> Result<Released, StoreFault> {
        let (books, hold) = (&self.books, here.hold);
        let Some((claim_key, claim_record, claim)) = books.claim_of(self.road.environment, hold).await? else {
            return Ok(Released::Over);
        };
        let of_claim =
            Standpoint { key: &claim_key, version: claim_record.version, at: claim_record.at, claim: &claim };
        let policies = &self.in_force.now().policies;
        let (stand_ins, _) = books.stand_ins(self.road.environment).await?;
        let mut facts = books.facts(&intent, policies);
        let exchange = self.exchange(hold);
        for _ in 0..DECISIONS {
            if here.deadline() <= facts.now {
                // The expiry has it, by the store's own time.
                return Ok(Released::Stands);
            }
            let consent = hold.consent(&books.hearing(policies, &stand_ins, facts.now));
            let allowed = match decide_again(&intent, policies, &facts, &consent) {
                Again::Released(allowed) => allowed,
                Again::Waits(progress) => return self.reopen(here, &progress, policies).await,
                Again::Denied(denied) if denied.is_for_a_full_window() => {
                    books.metrics.hold(self.road.environment.as_str(), "full");
                    return Ok(Released::Stands);
                }
                Again::Denied(denied) => return self.block(here, &denied).await,
            };
            let Some(mut steps) = hold::released(here, &books.terms) else { return Ok(Released::Over) };
            let voters = hold.votes.iter().map(|vote| &vote.person);
            steps.extend(stand_ins.guards(self.road.environment, voters, facts.now));
            let from = From::Held { here: of_claim, hold: &hold.id, steps };
            match books.begin(&intent, &allowed, &exchange, from).await {
                Ok(attempt) => {
                    books.hold_ended(here, "released");
                    books.changes.happened();
                    let headers = hold.headers.clone();
                    carry_on(self.road.clone(), books.clone(), intent, attempt, headers, exchange).await;
                    books.changes.happened();
                    return Ok(Released::Over);
                }
                Err(NotBegun::Otherwise(learnt)) => books.learn(self.road.environment, &mut facts, learnt),
                Err(NotBegun::Moved) => return Ok(Released::Over),
                // Its own claim is what stands there, where nothing can be begun.
                Err(
                    NotBegun::Claimed(..)
                    | NotBegun::Frozen
                    | NotBegun::Forgotten
                    | NotBegun::StoreAway
                    | NotBegun::AuditAway,
                ) => return Ok(Released::Stands),
            }
        }
        tracing::warn!(hold = %hold.id, version = record.version.as_u64(), "what decisions stand on changed again and again");
        Ok(Released::Stands)
    }

    /// It goes on with the trace of the call that waited.
    fn exchange(&self, hold: &Hold) -> Exchange {
        let traced = self.tracer.as_ref().map(|tracer| tracer.begin(&hold.headers)).unwrap_or_default();
        Exchange { id: hold.trace.clone(), spans: Spans::named(traced, "release", self.road.environment.as_str()) }
    }

    /// It takes more people than agreed.
    async fn reopen(&self, here: Here<'_>, progress: &[Progress], policies: &Policies) -> Result<Released, StoreFault> {
        let asked = progress.iter().map(|one| one.name.clone()).collect();
        if let Some(commit) = hold::reopen(here, asked, &policies.rules, &self.books.node)
            && self.books.commit(commit).await?.is_some()
        {
            self.books.metrics.hold(here.key.environment.as_str(), "reopened");
            self.books.changes.happened();
        }
        Ok(Released::Over)
    }

    async fn block(&self, here: Here<'_>, denied: &Denied) -> Result<Released, StoreFault> {
        let reasons = denied.grounds().verdict.reasons.iter();
        let told = reasons.map(|reason| match reason.cause.name() {
            Some(name) => format!("{} (`{name}`)", reason.text),
            None => reason.text.clone(),
        });
        let reason = Some(told.collect::<Vec<_>>().join("; "));
        self.books.decline(here, Declined { how: Decline::Blocked, reason }, None).await?;
        Ok(Released::Over)
    }
}
