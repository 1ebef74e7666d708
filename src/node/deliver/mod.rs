//! Delivers notices to webhooks. Every node delivers; of the nodes that share a store, one sends each notice.
//!
//! A node first takes a notice in the store, and no other node sends it until that lease is over. A delivered notice is
//! removed. So every notice is sent at least once, with the same id at each attempt, and a node that dies in between
//! loses nothing. A webhook that fails gets longer and longer pauses of its own; no other webhook waits for it. A
//! notice that nobody took within its time is dropped, counted and logged.

mod content;
mod webhook_state;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};

use super::outlets::MAX_WAITING;
use super::{InForce, Node};
use crate::adapters::random::jittered;
use crate::adapters::webhook::{Came, Webhook};
use crate::audit::{Entry, EntryKind};
use crate::base::ids::Environment;
use crate::ledger::{
    Commit, CommitError, Content, Index, Keep, Kind, Number, Record, RecordKey, Step, StoreFault, StoreTime,
};
use crate::notify;
use crate::notify::{Message, outlet_of};
use webhook_state::WebhookLine;

/// The poll interval for notices that other nodes filed.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The poll interval where no webhook is configured, for notices of a former configuration.
const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(60);
/// Notices that are filed at nearly the same time are read together.
const GATHER: Duration = Duration::from_millis(20);
/// The most notices in one commit.
const BATCH: usize = 256;
/// The pause between two attempts at one notice; it doubles each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_hours(1);
/// The lease of a notice, as a multiple of the longest that one delivery may take.
const LEASES: u32 = 2;
/// How long a notice waits for what it looks up.
const MAX_LOOKUP: Duration = Duration::from_secs(60);
/// How long a notice for a webhook of another node's configuration is kept at most.
const LONGEST_KEEP: Duration = Duration::from_hours(30 * 24);

/// The parts that delivery needs.
#[derive(Clone, Debug)]
pub struct Delivering {
    pub node: Arc<Node>,
    pub environments: Vec<Environment>,
    pub webhooks: Vec<Arc<Webhook>>,
    pub in_force: Arc<InForce>,
    /// The console's address for links.
    pub console: Option<Arc<str>>,
}

/// Delivers as long as the process lives. A delivery that the end cuts off is made again after the next start.
pub async fn deliver(delivering: Delivering) {
    let mut post = Post::new(delivering);
    let every = if post.lines.is_empty() { IDLE_POLL_INTERVAL } else { POLL_INTERVAL };
    let node = post.with.node.clone();
    loop {
        for environment in post.with.environments.clone() {
            if let Err(fault) = post.poll(environment).await {
                node.told_of(&fault);
            }
        }
        tokio::select! {
            Some(Ok((taken, came))) = post.under_way.join_next() => post.ended(taken, came),
            () = node.outlets.news() => {}
            () = tokio::time::sleep(every) => {}
        }
        tokio::time::sleep(GATHER).await;
        while let Some(Ok((taken, came))) = post.under_way.try_join_next() {
            post.ended(taken, came);
        }
    }
}

/// A notice that this node has taken.
#[derive(Clone, Debug)]
struct TakenNotice {
    at: NoticeKey,
    version: Number,
    /// Attempts before this one.
    tries: u32,
}

/// The key of a notice: its environment and its name.
type NoticeKey = (Environment, String);

struct Post {
    with: Delivering,
    /// One line for each webhook, by name.
    lines: BTreeMap<String, WebhookLine>,
    /// Notices that are taken and not yet removed.
    busy: HashSet<NoticeKey>,
    /// Notices to leave alone until a time.
    later: HashMap<NoticeKey, Duration>,
    /// Notices that this node took last and could not deliver: it need not wait for its own lease.
    mine: HashMap<NoticeKey, Number>,
    under_way: JoinSet<(TakenNotice, Result<Came, JoinError>)>,
    /// Delivered notices that are to be removed.
    done: Vec<TakenNotice>,
}

impl Post {
    fn new(with: Delivering) -> Post {
        let keep = |name: &str| with.node.outlets.iter().find(|outlet| outlet.name == name).map(|outlet| outlet.keep);
        let line = |webhook: &Arc<Webhook>| {
            let name = webhook.name();
            (name.to_owned(), WebhookLine::new(webhook.clone(), keep(name).unwrap_or(LONGEST_KEEP)))
        };
        let lines = with.webhooks.iter().map(line).collect();
        let (busy, later, mine, under_way, done) = Default::default();
        Post { with, lines, busy, later, mine, under_way, done }
    }

    /// Reads the filed notices once, starts deliveries, and removes what was delivered.
    async fn poll(&mut self, environment: Environment) -> Result<(), StoreFault> {
        self.remove(environment).await?;
        let node = self.with.node.clone();
        let (now, elapsed) = (node.time().await?, node.clock.elapsed());
        let most = MAX_WAITING.saturating_mul(self.lines.len().saturating_add(1));
        let waiting = node.store.due(environment, Index::Message, None, most).await?;
        self.measure(environment, now, &waiting);
        self.later.retain(|_, until| *until > elapsed);
        let names: HashSet<&str> = waiting.iter().map(|(_, member)| member.as_str()).collect();
        self.mine.retain(|(of, member), _| *of != environment || names.contains(member.as_str()));
        let (mut late, mut chosen) = (Vec::new(), Vec::new());
        for (since, member) in waiting {
            let place = (environment, member);
            if self.busy.contains(&place) {
                continue;
            }
            let line = self.lines.get_mut(outlet_of(&place.1));
            if now.since(since) >= line.as_ref().map_or(LONGEST_KEEP, |line| line.keep) {
                late.push(place.1);
            } else if !self.later.contains_key(&place) && line.is_some_and(|line| line.begin(elapsed)) {
                chosen.push(place.1);
            }
        }
        let came = self.take(environment, now, chosen, &mut late).await;
        late.truncate(BATCH);
        came.and(self.drop_late(environment, late).await)
    }

    fn measure(&self, environment: Environment, now: StoreTime, waiting: &[(StoreTime, String)]) {
        for name in self.lines.keys() {
            let mut of_it = waiting.iter().filter(|(_, member)| outlet_of(member) == name).map(|(since, _)| *since);
            let oldest = of_it.next();
            let count = of_it.count().saturating_add(usize::from(oldest.is_some()));
            let age = oldest.map(|since| now.since(since)).unwrap_or_default();
            self.with.node.outlets.waiting(name, environment, count);
            self.with.node.metrics.untold_waiting(environment.as_str(), name, count, age);
        }
    }

    /// Takes the chosen notices that no other node has, and sends them. A notice that was removed is late.
    async fn take(
        &mut self,
        environment: Environment,
        now: StoreTime,
        chosen: Vec<String>,
        late: &mut Vec<String>,
    ) -> Result<(), StoreFault> {
        let mut ready = BTreeMap::new();
        for member in &chosen {
            match self.read_notice(environment, now, member).await {
                Ok(NoticeState::Ready(record, message)) => {
                    ready.insert(member.clone(), (record, message));
                }
                Ok(NoticeState::Later(wait)) => self.put_off(environment, member, wait),
                Ok(NoticeState::Nothing) => late.push(member.clone()),
                Err(fault) => {
                    chosen.iter().for_each(|member| self.leave(member));
                    return Err(fault);
                }
            }
        }
        let items = ready.iter().filter_map(|(member, (record, message))| {
            Some((member.clone(), vec![self.taking(environment, now, member, record, message)?]))
        });
        let items: Vec<_> = items.collect();
        let taken = match self.commit(environment, EntryKind::Telling, items).await {
            Ok(taken) => taken,
            Err(fault) => {
                chosen.iter().for_each(|member| self.leave(member));
                return Err(fault);
            }
        };
        for member in chosen {
            let found = ready.remove(&member).filter(|_| taken.as_ref().is_some_and(|(_, all)| all.contains(&member)));
            match (found, &taken) {
                (Some((record, message)), Some((version, _))) => {
                    let message = message.next(record.at);
                    self.send(environment, member, *version, message).await;
                }
                _ => {
                    self.leave(&member);
                    self.later.entry((environment, member)).or_insert_with(|| later(&self.with.node, POLL_INTERVAL));
                }
            }
        }
        Ok(())
    }

    async fn read_notice(
        &self,
        environment: Environment,
        now: StoreTime,
        member: &str,
    ) -> Result<NoticeState, StoreFault> {
        let (record, _) = self.with.node.store.read(&key(environment, member)).await?;
        let Some(record) = record else { return Ok(NoticeState::Nothing) };
        let Content::Whole(bytes) = &record.content else { return Ok(NoticeState::Nothing) };
        let is_mine = self.mine.get(&(environment, member.to_owned())) == Some(&record.version);
        match notify::decode_message(bytes) {
            Ok(message) => match message.not_before.filter(|until| *until > now && !is_mine) {
                Some(until) => Ok(NoticeState::Later(until.since(now))),
                None if !content::is_ready(&self.with, &message) && now.since(record.at) < MAX_LOOKUP => {
                    Ok(NoticeState::Later(POLL_INTERVAL))
                }
                None => Ok(NoticeState::Ready(record, Box::new(message))),
            },
            Err(unreadable) => {
                tracing::error!(webhook = outlet_of(member), error = %unreadable, "a notice cannot be read and is not sent");
                Ok(NoticeState::Later(LONGEST_PAUSE))
            }
        }
    }

    /// Writes that this node sends the notice, and until when.
    fn taking(
        &self,
        environment: Environment,
        now: StoreTime,
        member: &str,
        record: &Record,
        message: &Message,
    ) -> Option<Step> {
        let line = self.lines.get(outlet_of(member))?;
        let lease = line.webhook.timeout.saturating_mul(LEASES).max(pause(message.tries));
        let left = line.keep.saturating_sub(now.since(message.happened(record.at)));
        let next = message.clone().next(record.at);
        let next = Message { not_before: Some(now.plus(lease)), tries: message.tries.saturating_add(1), ..next };
        Some(Step::Replace {
            key: key(environment, member),
            version: record.version,
            value: notify::encode_message(&next),
            keep: Keep::For { whole: left, spent: Duration::ZERO },
        })
    }

    async fn send(&mut self, environment: Environment, member: String, version: Number, message: Message) {
        let Some(line) = self.lines.get(outlet_of(&member)) else { return };
        let webhook = line.webhook.clone();
        let body = content::body(&self.with, &webhook, environment, &message).await;
        let at = self.with.node.clock.now();
        let place = (environment, member);
        self.busy.insert(place.clone());
        let taken = TakenNotice { at: place, version, tries: message.tries };
        let going = tokio::spawn(async move { webhook.send(&message.id, at, body).await });
        self.under_way.spawn(async move { (taken, going.await) });
    }

    /// Records the result of a delivery.
    fn ended(&mut self, taken: TakenNotice, came: Result<Came, JoinError>) {
        let Some(line) = self.lines.get_mut(outlet_of(&taken.at.1)) else { return };
        let came = came.unwrap_or(Came::Unreachable);
        let node = &self.with.node;
        node.metrics.webhook_sent(line.webhook.name(), came.as_str());
        line.ended(&came, node.clock.elapsed());
        match came {
            Came::Delivered(_) => self.done.push(taken),
            _ => {
                self.busy.remove(&taken.at);
                self.later.insert(taken.at.clone(), later(node, jittered(pause(taken.tries))));
                self.mine.insert(taken.at, taken.version);
            }
        }
    }

    /// Removes delivered notices, so that they are not sent again.
    async fn remove(&mut self, environment: Environment) -> Result<(), StoreFault> {
        let item = |taken: &TakenNotice| {
            let (key, version) = (key(environment, &taken.at.1), taken.version);
            (taken.at.1.clone(), vec![Step::Delete { key, version }, remove(&taken.at.1)])
        };
        let of_it = self.done.iter().filter(|taken| taken.at.0 == environment).take(BATCH);
        let items: Vec<_> = of_it.map(item).collect();
        let names: HashSet<String> = items.iter().map(|(member, _)| member.clone()).collect();
        self.commit(environment, EntryKind::Told, items).await?;
        // A notice that another node took meanwhile is that node's.
        let is_here = |(of, member): &NoticeKey| *of == environment && names.contains(member);
        self.done.retain(|taken| !is_here(&taken.at));
        self.busy.retain(|place| !is_here(place));
        Ok(())
    }

    async fn drop_late(&self, environment: Environment, late: Vec<String>) -> Result<(), StoreFault> {
        let is_there = |member: &String| Step::Member { index: Index::Message, member: member.clone() };
        let items = late.iter().map(|member| (member.clone(), vec![is_there(member), remove(member)]));
        let Some((_, dropped)) = self.commit(environment, EntryKind::Told, items.collect()).await? else {
            return Ok(());
        };
        for member in dropped {
            tracing::error!(webhook = outlet_of(&member), "a notice was not delivered in time and is dropped");
            self.with.node.metrics.webhook_dropped(outlet_of(&member), "late", 1);
        }
        Ok(())
    }

    /// Writes all of these in one commit, but those whose record has changed; returns the commit's number and which
    /// were written.
    async fn commit(
        &self,
        environment: Environment,
        what: EntryKind,
        mut items: Vec<(String, Vec<Step>)>,
    ) -> Result<Option<(Number, HashSet<String>)>, StoreFault> {
        let node = &self.with.node;
        while !items.is_empty() {
            let names: Vec<&str> = items.iter().map(|(member, _)| member.as_str()).collect();
            let entry = Entry::of(what).with("messages", names).to_bytes();
            let steps: Vec<Step> = items.iter().flat_map(|(_, steps)| steps.clone()).collect();
            let commit = Commit { environment, node: node.id.clone(), steps, entry };
            match node.try_commit(commit).await {
                Ok(committed) => {
                    return Ok(Some((committed.number(), items.into_iter().map(|(member, _)| member).collect())));
                }
                Err(CommitError::Rejected { conflicts, .. }) => {
                    let each = items.first().map_or(1, |(_, steps)| steps.len()).max(1);
                    let stood: HashSet<usize> =
                        conflicts.iter().filter_map(|conflict| conflict.step.checked_div(each)).collect();
                    let mut at = 0_usize..;
                    items.retain(|_| at.next().is_some_and(|at| !stood.contains(&at)));
                    if stood.is_empty() {
                        return Err(StoreFault::Away(
                            "the store rejected a commit without naming a conflict".to_owned(),
                        ));
                    }
                }
                Err(CommitError::Fault(fault)) => return Err(fault),
            }
        }
        Ok(None)
    }

    fn leave(&mut self, member: &str) {
        if let Some(line) = self.lines.get_mut(outlet_of(member)) {
            line.leave();
        }
    }

    fn put_off(&mut self, environment: Environment, member: &str, wait: Duration) {
        self.later.insert((environment, member.to_owned()), later(&self.with.node, wait));
    }
}

/// The state of a notice that is due.
enum NoticeState {
    Ready(Record, Box<Message>),
    /// Another node has it, or this version cannot read it.
    Later(Duration),
    Nothing,
}

fn key(environment: Environment, member: &str) -> RecordKey {
    RecordKey { environment, kind: Kind::Message, name: member.to_owned() }
}

fn remove(member: &str) -> Step {
    Step::IndexRemove { index: Index::Message, member: member.to_owned() }
}

fn later(node: &Node, wait: Duration) -> Duration {
    node.clock.elapsed().saturating_add(wait)
}

/// The pause after this many attempts.
fn pause(tries: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1_u32.checked_shl(tries).unwrap_or(u32::MAX)).min(LONGEST_PAUSE)
}
