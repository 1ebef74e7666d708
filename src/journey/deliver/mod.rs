//! Telling webhooks what was filed for them: every node does, and of those that share a store one sends each message.
//!
//! Who sends a message writes first that it does: no other node sends it until that time is over. What was taken is
//! removed; so it is sent at least once, and under the same name each time. A node that dies in the middle loses nothing.
//! A webhook that fails is given ever longer pauses of its own, and no other waits for it. What nobody took within the
//! time that it is kept is dropped, counted and logged.

mod content;
mod line;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{JoinError, JoinSet};

use super::outlets::MOST_WAITING;
use super::{Books, InForce};
use crate::adapters::random::jittered;
use crate::adapters::webhook::{Came, Webhook};
use crate::base::ids::Environment;
use crate::commit::{
    Commit, CommitError, Content, Index, Keep, Kind, Number, Record, RecordKey, Step, StoreFault, StoreTime,
};
use crate::stations::record::{Entry, What};
use crate::stations::tell::{self, Message, outlet_of};
use line::Line;

/// How often is looked for what other nodes filed.
const EVERY: Duration = Duration::from_secs(1);
/// The same, where there is no webhook: for what one of former times left behind.
const RARELY: Duration = Duration::from_secs(60);
/// What is filed at nearly one time is looked at together.
const GATHER: Duration = Duration::from_millis(20);
/// So much is written at one stroke.
const HANDFUL: usize = 256;
/// From one attempt to the next of the same message: so long, then ever twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_hours(1);
/// Until when another node may send what this one is sending: at least so many times what it may take.
const LEASES: u32 = 2;
/// What is not of any webhook here is kept for one elsewhere, but no longer than any keeps it.
const LONGEST_KEEP: Duration = Duration::from_hours(30 * 24);

/// All that delivering takes.
#[derive(Clone, Debug)]
pub struct Delivering {
    pub books: Arc<Books>,
    pub environments: Vec<Environment>,
    pub webhooks: Vec<Arc<Webhook>>,
    pub in_force: Arc<InForce>,
    /// Where people find the console.
    pub console: Option<Arc<str>>,
}

/// As long as the process lives. What is under way at its end is sent again after the next start.
pub async fn deliver(delivering: Delivering) {
    let mut post = Post::new(delivering);
    let every = if post.lines.is_empty() { RARELY } else { EVERY };
    let books = post.with.books.clone();
    loop {
        for environment in post.with.environments.clone() {
            if let Err(fault) = post.look(environment).await {
                books.told_of(&fault);
            }
        }
        tokio::select! {
            Some(Ok((taken, came))) = post.under_way.join_next() => post.ended(taken, came),
            () = books.outlets.news() => {}
            () = tokio::time::sleep(every) => {}
        }
        tokio::time::sleep(GATHER).await;
        while let Some(Ok((taken, came))) = post.under_way.try_join_next() {
            post.ended(taken, came);
        }
    }
}

/// A message that this node has taken.
#[derive(Clone, Debug)]
struct Taken {
    at: Place,
    version: Number,
    /// How often it was sent before.
    tries: u32,
}

/// Where a message lies: its environment and its name.
type Place = (Environment, String);

struct Post {
    with: Delivering,
    /// By the names of their webhooks.
    lines: BTreeMap<String, Line>,
    /// Taken, and not removed yet.
    busy: HashSet<Place>,
    /// Not to be looked at before this.
    later: HashMap<Place, Duration>,
    /// What this node took last and sent in vain: it does not wait for itself.
    mine: HashMap<Place, Number>,
    under_way: JoinSet<(Taken, Result<Came, JoinError>)>,
    /// Delivered, and to be removed.
    done: Vec<Taken>,
}

impl Post {
    fn new(with: Delivering) -> Post {
        let keep = |name: &str| with.books.outlets.iter().find(|outlet| outlet.name == name).map(|outlet| outlet.keep);
        let line = |webhook: &Arc<Webhook>| {
            let name = webhook.name();
            (name.to_owned(), Line::new(webhook.clone(), keep(name).unwrap_or(LONGEST_KEEP)))
        };
        let lines = with.webhooks.iter().map(line).collect();
        let (busy, later, mine, under_way, done) = Default::default();
        Post { with, lines, busy, later, mine, under_way, done }
    }

    /// One look at what waits: some of it is sent, and what was delivered is removed.
    async fn look(&mut self, environment: Environment) -> Result<(), StoreFault> {
        self.remove(environment).await?;
        let books = self.with.books.clone();
        let (now, elapsed) = (books.time().await?, books.clock.elapsed());
        let most = MOST_WAITING.saturating_mul(self.lines.len().saturating_add(1));
        let waiting = books.store.due(environment, Index::Message, None, most).await?;
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
        late.truncate(HANDFUL);
        came.and(self.drop_late(environment, late).await)
    }

    fn measure(&self, environment: Environment, now: StoreTime, waiting: &[(StoreTime, String)]) {
        for name in self.lines.keys() {
            let mut of_it = waiting.iter().filter(|(_, member)| outlet_of(member) == name).map(|(since, _)| *since);
            let oldest = of_it.next();
            let count = of_it.count().saturating_add(usize::from(oldest.is_some()));
            let age = oldest.map(|since| now.since(since)).unwrap_or_default();
            self.with.books.outlets.waiting(name, environment, count);
            self.with.books.metrics.untold_waiting(environment.as_str(), name, count, age);
        }
    }

    /// Takes those of the chosen that no other node has, and sends them. What is not there any more is late.
    async fn take(
        &mut self,
        environment: Environment,
        now: StoreTime,
        chosen: Vec<String>,
        late: &mut Vec<String>,
    ) -> Result<(), StoreFault> {
        let mut ready = BTreeMap::new();
        for member in &chosen {
            match self.read(environment, now, member).await {
                Ok(Found::Ready(record, message)) => {
                    ready.insert(member.clone(), (record, message));
                }
                Ok(Found::Later(wait)) => self.put_off(environment, member, wait),
                Ok(Found::Nothing) => late.push(member.clone()),
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
        let taken = match self.commit(environment, What::Telling, items).await {
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
                    self.later.entry((environment, member)).or_insert_with(|| later(&self.with.books, EVERY));
                }
            }
        }
        Ok(())
    }

    async fn read(&self, environment: Environment, now: StoreTime, member: &str) -> Result<Found, StoreFault> {
        let (record, _) = self.with.books.store.read(&key(environment, member)).await?;
        let Some(record) = record else { return Ok(Found::Nothing) };
        let Content::Whole(bytes) = &record.content else { return Ok(Found::Nothing) };
        let is_mine = self.mine.get(&(environment, member.to_owned())) == Some(&record.version);
        match tell::read(bytes) {
            Ok(message) => match message.not_before.filter(|until| *until > now && !is_mine) {
                Some(until) => Ok(Found::Later(until.since(now))),
                None => Ok(Found::Ready(record, Box::new(message))),
            },
            Err(unreadable) => {
                tracing::error!(webhook = outlet_of(member), error = %unreadable, "a message is not told");
                Ok(Found::Later(LONGEST_PAUSE))
            }
        }
    }

    /// That this node sends it, and until when no other does.
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
            value: tell::write(&next),
            keep: Keep::For { whole: left, spent: Duration::ZERO },
        })
    }

    async fn send(&mut self, environment: Environment, member: String, version: Number, message: Message) {
        let Some(line) = self.lines.get(outlet_of(&member)) else { return };
        let webhook = line.webhook.clone();
        let body = content::body(&self.with, &webhook, environment, &message).await;
        let at = self.with.books.clock.now();
        let place = (environment, member);
        self.busy.insert(place.clone());
        let taken = Taken { at: place, version, tries: message.tries };
        let going = tokio::spawn(async move { webhook.send(&message.id, at, body).await });
        self.under_way.spawn(async move { (taken, going.await) });
    }

    /// Something was sent, and this came of it.
    fn ended(&mut self, taken: Taken, came: Result<Came, JoinError>) {
        let Some(line) = self.lines.get_mut(outlet_of(&taken.at.1)) else { return };
        let came = came.unwrap_or(Came::Unreachable);
        let books = &self.with.books;
        books.metrics.told(line.webhook.name(), came.as_str());
        line.ended(&came, books.clock.elapsed());
        match came {
            Came::Delivered(_) => self.done.push(taken),
            _ => {
                self.busy.remove(&taken.at);
                self.later.insert(taken.at.clone(), later(books, jittered(pause(taken.tries))));
                self.mine.insert(taken.at, taken.version);
            }
        }
    }

    /// What was delivered is not told again.
    async fn remove(&mut self, environment: Environment) -> Result<(), StoreFault> {
        let item = |taken: &Taken| {
            let (key, version) = (key(environment, &taken.at.1), taken.version);
            (taken.at.1.clone(), vec![Step::Delete { key, version }, remove(&taken.at.1)])
        };
        let of_it = self.done.iter().filter(|taken| taken.at.0 == environment).take(HANDFUL);
        let items: Vec<_> = of_it.map(item).collect();
        let names: HashSet<String> = items.iter().map(|(member, _)| member.clone()).collect();
        self.commit(environment, What::Told, items).await?;
        // What another node took meanwhile is its own.
        let is_here = |(of, member): &Place| *of == environment && names.contains(member);
        self.done.retain(|taken| !is_here(&taken.at));
        self.busy.retain(|place| !is_here(place));
        Ok(())
    }

    async fn drop_late(&self, environment: Environment, late: Vec<String>) -> Result<(), StoreFault> {
        let is_there = |member: &String| Step::Member { index: Index::Message, member: member.clone() };
        let items = late.iter().map(|member| (member.clone(), vec![is_there(member), remove(member)]));
        let Some((_, dropped)) = self.commit(environment, What::Told, items.collect()).await? else { return Ok(()) };
        for member in dropped {
            tracing::error!(webhook = outlet_of(&member), "it was not told in time, and is dropped");
            self.with.books.metrics.untold(outlet_of(&member), "late", 1);
        }
        Ok(())
    }

    /// Writes all of these at one stroke but those that stand otherwise by now; says under which number, and which.
    async fn commit(
        &self,
        environment: Environment,
        what: What,
        mut items: Vec<(String, Vec<Step>)>,
    ) -> Result<Option<(Number, HashSet<String>)>, StoreFault> {
        let books = &self.with.books;
        while !items.is_empty() {
            let names: Vec<&str> = items.iter().map(|(member, _)| member.as_str()).collect();
            let entry = Entry::of(what).with("messages", names).to_bytes();
            let steps: Vec<Step> = items.iter().flat_map(|(_, steps)| steps.clone()).collect();
            let commit = Commit { environment, node: books.node.clone(), steps, entry };
            match books.try_commit(commit).await {
                Ok(committed) => {
                    return Ok(Some((committed.number, items.into_iter().map(|(member, _)| member).collect())));
                }
                Err(CommitError::Stood { obstacles, .. }) => {
                    let each = items.first().map_or(1, |(_, steps)| steps.len()).max(1);
                    let stood: HashSet<usize> =
                        obstacles.iter().filter_map(|obstacle| obstacle.step.checked_div(each)).collect();
                    let mut at = 0_usize..;
                    items.retain(|_| at.next().is_some_and(|at| !stood.contains(&at)));
                    if stood.is_empty() {
                        return Err(StoreFault::Away("it did not say what stood in the way".to_owned()));
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
        self.later.insert((environment, member.to_owned()), later(&self.with.books, wait));
    }
}

/// What is found of a message that is due.
enum Found {
    Ready(Record, Box<Message>),
    /// Another node has it, or it cannot be read.
    Later(Duration),
    Nothing,
}

fn key(environment: Environment, member: &str) -> RecordKey {
    RecordKey { environment, kind: Kind::Message, name: member.to_owned() }
}

fn remove(member: &str) -> Step {
    Step::IndexRemove { index: Index::Message, member: member.to_owned() }
}

fn later(books: &Books, wait: Duration) -> Duration {
    books.clock.elapsed().saturating_add(wait)
}

/// After so many attempts.
fn pause(tries: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1_u32.checked_shl(tries).unwrap_or(u32::MAX)).min(LONGEST_PAUSE)
}
