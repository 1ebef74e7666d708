//! A node's membership: its heartbeats in the store, the watch over the store's memory, and the recovery after a loss.
//!
//! A node that finds less in the store than it knows marks the store as lost. Then nobody does anything with it until it was
//! rebuilt from a journal: see `rebuilding` and `deploy/docs/recovery.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thiserror::Error;

use super::gates::OtherJournal;
use super::heard_before::HeardBefore;
use super::node_facts::{FACTS_FORMAT, MAX_REFUSALS, NodeFacts, journals_begin, take_stated, unproven_process};
use super::{FolderFaults, InForce, Node};
use crate::adapters::audit::{AuditFolder, met_store};
use crate::adapters::random::nonce;
use crate::adapters::store::redis::{HeartbeatReply, HeartbeatVerdict, Life, Member, RAN_WITHIN, RedisStore};
use crate::adapters::store::replica::Replica;
use crate::adapters::store::sealed::Seals;
use crate::base::ids::Environment;
use crate::base::json;
use crate::ledger::{Content, InstallationId, NodeId, Number, Sender, StoreFault, StoreTime};
use crate::stations::claim::{Forgotten, Freeze, HeardGate};

/// The heartbeat interval.
pub(super) const BEAT: Duration = Duration::from_secs(1);
/// The poll interval while the node waits for something.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How long a start tries to join; longer than another node's missed heartbeats are tolerated.
const JOINS: Duration = Duration::from_secs(17);

/// This node's membership.
#[derive(Debug)]
pub struct Membership {
    /// The store with this node's guard against lost memory.
    pub store: Arc<RedisStore>,
    /// The store as this node's journal has it.
    pub replica: Arc<Replica>,
    pub seals: Seals,
    /// The installation that the store of production must belong to, if the configuration names it.
    pub installation: Option<InstallationId>,
    /// The environments that this gate serves.
    pub served: Vec<Environment>,
    /// All nodes that share the store, if the configuration lists them.
    pub all_nodes: Vec<NodeId>,
    /// How many other journals must have all that this one has before its gate retires.
    pub copies: usize,
    pub instance: String,
    /// An earlier process of this node, which has ended.
    pub former: Option<String>,
    /// The folder of this node's audit log.
    pub audit_folder: AuditFolder,
    /// Whether that folder is a copy, and no store has shown yet that it is not an old one.
    pub is_copy: AtomicBool,
    /// The policies in force, whose version other nodes compare.
    pub in_force: Arc<InForce>,
    /// The beginning of the journal from which a store was rebuilt, to which this gate has told what was before.
    pub told_before: Mutex<BTreeMap<Environment, u64>>,
    pub heard_before: HeardBefore,
    pub folder_faults: FolderFaults,
}

/// The reasons why this node cannot join.
#[derive(Debug, Error)]
pub enum JoinError {
    /// Another process runs under this node's name.
    #[error(
        "another gate with the same `store.node` runs on this store: give each gate its own name and its own \
                 `audit.folder`"
    )]
    Taken,
    /// The Redis holds the store of other gates.
    #[error(
        "this gate's journal belongs to another store than the one in this Redis, or somebody changed that one's `generation`: \
                 check `redis.url`, and whether the other gates say the same; if they do, keep every `audit.folder`, as the \
                 journals alone can tell what was paid (see SluiceStoreUnavailable in the runbook); if this gate alone says it \
                 and shall use their store, give it a new `audit.folder` and keep the old one"
    )]
    Foreign,
    /// Nobody created the store.
    #[error(
        "the store of production is empty, and nobody created it: run `sluice store create` once for a new installation; \
                 if gates of this installation have paid before, start one of those that still have their `audit.folder`"
    )]
    Uncreated,
    /// The journal lost entries.
    #[error(
        "the journal in `audit.folder` was cut: by the store's word it had entries that it no longer has; restore the folder from a \
                 copy, or give the gate a new folder and keep this one for the auditors; if nothing was cut, somebody changed the store"
    )]
    Cut,
    /// Other nodes are missing.
    #[error("the store is not open yet because other gates are missing: try again")]
    Alone,
    #[error(transparent)]
    Store(StoreFault),
}

impl Membership {
    /// Joins, before anything else is asked of the store.
    pub async fn join(&self, node: &Arc<Node>) -> Result<(), JoinError> {
        for environment in Environment::ALL {
            let own = self.replica.committed(environment).map_err(JoinError::Store)?.get(&node.id).copied();
            let met = met_store(&self.audit_folder, &node.id, environment);
            self.store.knows(environment, own.unwrap_or_default().as_u64(), met);
            self.remembers_newest(node, environment).await.map_err(JoinError::Store)?;
        }
        self.begins_to_hear(node).map_err(JoinError::Store)?;
        // Until it is known where the journal begins.
        for environment in &self.served {
            node.watched.set_lacking(*environment, true, node.clock.elapsed());
        }
        let until = node.clock.elapsed().saturating_add(JOINS);
        for environment in Environment::ALL {
            let (mut its_beat, mut enrolled) = (None, None);
            loop {
                let heard = match self.begins_time(node, environment).await {
                    Ok(()) => self.beat(node, environment).await,
                    Err(fault) => Err(fault),
                };
                let is_damaged = self.store.damage(environment).is_some();
                self.has_mended(node, environment).await.map_err(JoinError::Store)?;
                let why = match &heard {
                    Ok(heard) if heard.verdict == HeartbeatVerdict::Well => {
                        let since = *enrolled.get_or_insert(heard.at);
                        // Whoever rebuilds a lost store must know of this gate before it pays.
                        if heard.is_heard_by_all(&node.id, since, RAN_WITHIN) {
                            break;
                        }
                        JoinError::Alone
                    }
                    Ok(heard) if heard.verdict == HeartbeatVerdict::Taken => {
                        let beat = heard.members.iter().find(|one| one.node == node.id).map(|one| one.beat);
                        // The other process still sends heartbeats.
                        if *its_beat.get_or_insert(beat) < beat {
                            return Err(JoinError::Taken);
                        }
                        JoinError::Taken
                    }
                    Ok(heard) if heard.verdict == HeartbeatVerdict::Foreign => return Err(JoinError::Foreign),
                    Ok(heard) if heard.verdict == HeartbeatVerdict::Cut => return Err(JoinError::Cut),
                    Ok(heard) if heard.verdict == HeartbeatVerdict::Uncreated => {
                        if self.served.contains(&environment) {
                            return Err(JoinError::Uncreated);
                        }
                        break;
                    }
                    Ok(_) => JoinError::Alone,
                    // It is being rebuilt.
                    Err(fault) if is_damaged => JoinError::Store(fault.clone()),
                    Err(fault @ StoreFault::Broken(_)) => return Err(JoinError::Store(fault.clone())),
                    Err(fault) => JoinError::Store(fault.clone()),
                };
                if node.clock.elapsed() > until {
                    return Err(why);
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// Sends heartbeats as long as the process lives; returns when another process has taken this node's name.
    pub async fn stay(self: Arc<Membership>, node: Arc<Node>) {
        let mut connections = self.store.connections();
        // It is told once of each.
        let mut foreign = BTreeSet::new();
        loop {
            let mut pause = BEAT;
            for environment in Environment::ALL {
                match self.beat(&node, environment).await.map(|heard| heard.verdict) {
                    Ok(HeartbeatVerdict::Well) => match node.is_gone(environment).await {
                        Ok(false) => drop(foreign.remove(&environment)),
                        // The proofs that it holds come first.
                        Ok(true) if node.open.earliest(environment) == Some(Number::new(0)) => {}
                        Ok(true) => {
                            tracing::error!(
                                %environment,
                                "two people declared this gate and its journal gone; it ends: start it with a new `audit.folder`"
                            );
                            return;
                        }
                        Err(fault) => node.told_of(&fault),
                    },
                    Ok(HeartbeatVerdict::Taken) => {
                        tracing::error!("{}; this one ends", JoinError::Taken);
                        return;
                    }
                    Ok(HeartbeatVerdict::Foreign) => {
                        if foreign.insert(environment) {
                            tracing::error!(%environment, "{}", JoinError::Foreign);
                        }
                    }
                    Ok(HeartbeatVerdict::Cut) => {
                        tracing::error!(%environment, "{}; it ends", JoinError::Cut);
                        return;
                    }
                    // Nobody serves it.
                    Ok(HeartbeatVerdict::Uncreated) => {}
                    Ok(
                        HeartbeatVerdict::Meeting
                        | HeartbeatVerdict::Differs
                        | HeartbeatVerdict::Uncompared
                        | HeartbeatVerdict::Gathering
                        | HeartbeatVerdict::Lost,
                    ) => pause = POLL_INTERVAL,
                    Err(fault) => self.told_of(&node, &fault),
                }
            }
            if node.clocks.leaps.waits_for_others(node.clock.elapsed()) {
                pause = POLL_INTERVAL;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.store.doubted() => {}
                () = node.contradictions.noted() => {}
                Ok(()) = connections.changed() => {}
            }
        }
    }

    /// Tells the store and other gates what they lack and this node's audit log holds, as long as the process lives.
    pub async fn keep_remembering(self: Arc<Membership>, node: Arc<Node>) {
        tokio::join!(self.remember(&node), self.exchange_snapshots(&node));
    }

    async fn remember(&self, node: &Arc<Node>) {
        loop {
            let mut is_awaited = false;
            for environment in Environment::ALL {
                is_awaited |= self.recover(node, environment).await && self.served.contains(&environment);
                if let Err(fault) = self.dismiss_gone(node, environment).await {
                    node.told_of(&fault);
                }
            }
            if !is_awaited && let Err(fault) = self.counts_as_original(node) {
                self.told_of(node, &fault);
            }
            tokio::time::sleep(BEAT).await;
        }
    }

    /// Nothing waits any more for gates that two people declared gone.
    async fn dismiss_gone(&self, node: &Node, environment: Environment) -> Result<(), StoreFault> {
        for sender in node.unheard_and_gone(environment).await? {
            tracing::info!(%environment, from = %sender, "two people declared this gate gone: nothing waits for it any more");
            self.store.dismiss(environment, &sender).await?;
        }
        Ok(())
    }

    /// Has a store rebuilt that cannot be read, because somebody changed it. Returns whether it does.
    async fn has_mended(&self, node: &Node, environment: Environment) -> Result<bool, StoreFault> {
        let Some(why) = self.store.damage(environment) else { return Ok(false) };
        if !self.store.mend(environment).await? {
            return Ok(false);
        }
        node.found_damage(environment, &why);
        node.contradictions.are_told(environment);
        Ok(true)
    }

    async fn beat(&self, node: &Arc<Node>, environment: Environment) -> Result<HeartbeatReply, StoreFault> {
        self.has_mended(node, environment).await?;
        if node.contradictions.are_enough(environment) {
            self.store.distrust(environment).await?;
            node.contradictions.are_told(environment);
        }
        self.joins_the_store_s_history(node, environment).await?;
        let mut life = self.life(node, environment, false);
        if let Some((kept, newest)) = self.newest(node, environment).await? {
            // The journal may go on meanwhile: the two are about one number.
            (life.kept, life.newest) = (kept, Some(newest));
        }
        let mut heard = self.store.beat(environment, &life).await?;
        if let Some(instance) = unproven_process(&heard, &node.id, node.clock.now().as_microsecond()) {
            life.former = Some(instance);
            heard = self.store.beat(environment, &life).await?;
        }
        take_stated(&mut heard);
        if self.served.contains(&environment) {
            node.heard.time(heard.at, node.clock.elapsed());
        }
        let others = heard.members.iter().filter(|member| member.node != node.id && !member.is_retired);
        let facts = others.clone().filter_map(|member| NodeFacts::read(&member.told));
        if let Some(longest) = facts.filter_map(|facts| facts.fence_micros).max() {
            node.fence.others_have(Duration::from_micros(longest));
        }
        let journals = others.filter_map(other_journal).collect();
        node.others.hear(environment, heard.members.iter().filter_map(heard_gate).collect(), journals);
        if let Some(since) = heard.lost {
            self.learns_of_loss(node, environment, since).await?;
        }
        if heard.verdict == HeartbeatVerdict::Well {
            node.others.all_is_well(environment, node.clock.elapsed());
            self.judges_time(node, environment, &heard).await?;
            node.audit.resume(environment);
            node.losses.meets(environment, &heard.run);
            self.meets_again(node, environment, &heard.generation)?;
            self.compares_journals(node, environment, &heard);
            self.keeps_heard(node, environment, &heard);
            if self.served.contains(&environment) {
                node.metrics.journals_begin(environment.as_str(), journals_begin(&heard).as_u64());
            }
            node.store_lost_outcomes(environment);
        }
        if matches!(heard.verdict, HeartbeatVerdict::Differs | HeartbeatVerdict::Uncompared) {
            self.closes_for_another_history(node, environment, &heard, None).await?;
        }
        let is_lost = matches!(heard.verdict, HeartbeatVerdict::Gathering | HeartbeatVerdict::Lost);
        if let Some(since) = heard.lost.filter(|_| is_lost)
            && self.take_snapshot(node, environment, Some(since)).await?
        {
            return Ok(heard);
        }
        // A Redis that a few Sentinels name alone may be any Redis.
        let is_cut_off = node.fence.is_unnamed(environment, node.clock.elapsed());
        if heard.verdict == HeartbeatVerdict::Lost && !is_cut_off {
            node.fresh.are_lost(environment);
            self.rebuild(node, environment, &heard).await.map_err(|fault| match fault {
                // The next heartbeat tries again.
                StoreFault::Broken(why) => StoreFault::Away(format!("the rebuild of the store failed: {why}")),
                fault => fault,
            })?;
        }
        Ok(heard)
    }

    /// Sends nothing more that was committed before a loss, and acknowledges the loss.
    async fn learns_of_loss(&self, node: &Node, environment: Environment, since: StoreTime) -> Result<(), StoreFault> {
        // Nothing else is done with the store until it is whole again.
        self.store.waits(environment);
        if node.losses.learn(environment, since) {
            let suspended = node.audit.suspend(environment).await;
            suspended
                .map_err(|fault| StoreFault::Away(format!("the journal cannot be closed for a rebuild: {fault}")))?;
            node.losses.acknowledge(environment, since);
        }
        Ok(())
    }

    /// Returns the number up to which the journal knows what was done with money.
    pub(super) fn knows_up_to(&self, node: &Node, environment: Environment) -> Result<Number, StoreFault> {
        let highest = node.audit.highest(environment);
        let known = self.closed_by(environment)?.and_then(|forgotten| forgotten.known_up_to);
        Ok(known.map_or(highest, Number::new))
    }

    /// Returns what closes money, as the replica has it.
    pub(super) fn closed_by(&self, environment: Environment) -> Result<Option<Forgotten>, StoreFault> {
        let key = Freeze::Restored.key(environment);
        let Some(record) = self.replica.record(&key)? else { return Ok(None) };
        Ok(Some(match record.content {
            Content::Whole(sealed) => Forgotten::read(&self.seals.open(&key, sealed)?),
            Content::Spent => Forgotten::read(b""),
        }))
    }

    pub(super) fn life(&self, node: &Node, environment: Environment, leaves: bool) -> Life {
        let now = self.in_force.now();
        let HeardGate { sender, at, open_from, .. } = node.heard_itself(environment);
        let unlisted = node.metrics.unlisted_refusals().into_iter();
        let (kept, acknowledges) = (node.audit.highest(environment), node.losses.acknowledged(environment));
        let facts = NodeFacts {
            software: env!("CARGO_PKG_VERSION").to_owned(),
            policies: now.policies.version().to_owned(),
            contract: now.catalog.digest().to_hex(),
            clock_micros: node.clock.now().as_microsecond(),
            journal: sender.journal,
            fence_micros: node.fence.length().map(|fence| u64::try_from(fence.as_micros()).unwrap_or(u64::MAX)),
            at,
            open_from,
            journal_begins: self.replica.begin(environment).unwrap_or(Number::new(u64::MAX)),
            knows_up_to: self.knows_up_to(node, environment).unwrap_or_default(),
            kept,
            own: self.store.highest(environment),
            followed: self.replica.followed_lately(environment),
            is_compared: !self.store.must_compare(environment),
            left_out: self.replica.left_out(environment).ok().flatten(),
            acknowledges,
            is_journal_new: self.is_journal_new(node, environment),
            is_copy: self.is_copy.load(Ordering::Acquire),
            well_at: self.store.well_at(environment).filter(|_| self.knows_of_all(environment)),
            had_since: self.heard_before.had_since(environment),
            closed_by: self.closed_by(environment).ok().flatten(),
            leaves,
            clock: self.testimony(node, environment),
            asks: node.clocks.leaps.question(environment),
            unlisted: unlisted.filter(|one| one.environment == environment.as_str()).take(MAX_REFUSALS).collect(),
        };
        let told = json::to_record(&facts, FACTS_FORMAT);
        Life {
            instance: self.instance.clone(),
            former: self.former.clone(),
            // People create the store of production.
            fresh: if environment == Environment::Production { String::new() } else { nonce().0 },
            installation: self.installation.clone().filter(|_| environment == Environment::Production),
            told,
            acknowledges,
            journal: node.journal.clone(),
            kept,
            newest: None,
        }
    }

    /// Tells what this node knows, once all of it is in its files. Returns whether the store may still wait for it.
    async fn recover(&self, node: &Arc<Node>, environment: Environment) -> bool {
        let waits = match node.store.read(&Freeze::Restored.key(environment)).await {
            Ok((record, _)) => Forgotten::of_record(record).1,
            Err(fault) => {
                node.told_of(&fault);
                return true;
            }
        };
        if self.is_journal_new(node, environment) {
            let told = self.first_meets(node, environment, &waits).await;
            told.unwrap_or_else(|fault| self.told_of(node, &fault));
            return true;
        }
        let is_awaited = waits.nodes.contains_key(&node.id);
        match self.must_tell_from(node, environment, &waits) {
            Ok(Some(from)) => {
                if self.reports(node, environment, &waits, from).await {
                    self.has_told_before(environment, &waits);
                }
            }
            Ok(None) => {}
            Err(fault) => node.told_of(&fault),
        }
        is_awaited
    }
}

fn heard_gate(member: &Member) -> Option<HeardGate> {
    let NodeFacts { journal, at, open_from, leaves, .. } = NodeFacts::read(&member.told)?;
    let sender = Sender { node: member.node.clone(), journal };
    Some(HeardGate { sender, at, open_from, has_left: leaves })
}

fn other_journal(member: &Member) -> Option<OtherJournal> {
    let facts = NodeFacts::read(&member.told)?;
    Some(OtherJournal { begins: facts.journal_begins, kept: member.kept.min(facts.kept) })
}
