//! Connections for money, opened ahead and never used before.
//!
//! A connection that carried a request may be closed by upstream at any moment; one that dies while a payment is written
//! to it makes an unknown outcome. So each connection carries one payment. Each payment that takes one has the next one
//! opened, so an idle gate keeps none, and a busy one about as many as it sends at once.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use super::money_line::UnusedLine;
use super::proven_age::{MAX_AGE, ProvenAge};
use crate::base::ids::Environment;
use crate::telemetry::Metrics;

/// The counts; each has its series from the start.
const EVENTS: [&str; 3] = ["opened", "used", "discarded"];
/// The most connections that wait.
const MAX_WAITING: usize = 32;

/// The waiting connections of one upstream. Times are of the node's monotonic clock.
pub(super) struct FreshPool {
    pub environment: Environment,
    metrics: Metrics,
    /// The oldest first.
    waiting: Mutex<Vec<WaitingLine>>,
    age: Mutex<ProvenAge>,
    max_age: Duration,
    /// How many more were asked for, and how many are being opened.
    wanted: AtomicUsize,
    opening: AtomicUsize,
    asked: Notify,
}

struct WaitingLine {
    line: UnusedLine,
    opened: Duration,
    /// When it was last seen alive.
    seen: Duration,
}

impl FreshPool {
    pub fn new(environment: Environment, metrics: Metrics, max_age: Duration) -> FreshPool {
        EVENTS.iter().for_each(|event| metrics.upstream_connection(environment.as_str(), event, 0));
        FreshPool {
            environment,
            metrics,
            waiting: Mutex::default(),
            age: Mutex::default(),
            max_age: max_age.min(MAX_AGE),
            wanted: AtomicUsize::new(0),
            opening: AtomicUsize::new(0),
            asked: Notify::new(),
        }
    }

    /// Takes the youngest connection that is young enough and clean, and asks for another one.
    pub fn take(&self, now: Duration) -> Option<UnusedLine> {
        self.wanted.fetch_add(1, Ordering::Relaxed);
        self.asked.notify_one();
        loop {
            let usable = self.with_age(|age| age.usable());
            let mut one = {
                let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
                waiting.pop_if(|one| now.saturating_sub(one.opened) <= usable)?
            };
            if one.line.is_clean() {
                return Some(one.line);
            }
            self.discard(one, now);
        }
    }

    /// Counts a connection that carries a call from now on.
    pub fn used(&self) {
        self.count("used");
    }

    /// Counts a connection that was opened, ahead or for a call that waits for it.
    pub fn opened(&self) {
        self.count("opened");
    }

    /// Adds a connection that was opened ahead; `None` where it could not be opened.
    pub fn put(&self, line: Option<UnusedLine>, now: Duration) {
        self.opening.fetch_sub(1, Ordering::Relaxed);
        if let Some(line) = line {
            self.opened();
            let one = WaitingLine { line, opened: now, seen: now };
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(one);
        }
    }

    /// Returns how many connections to open now. Each must be `put`.
    pub fn to_open(&self) -> usize {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).len();
        let room = MAX_WAITING.saturating_sub(waiting).saturating_sub(self.opening.load(Ordering::Relaxed));
        let count = self.wanted.swap(0, Ordering::Relaxed).min(room);
        self.opening.fetch_add(count, Ordering::Relaxed);
        count
    }

    /// Returns when a call asked for a connection, or, while some wait, after the interval.
    pub async fn next_look(&self, interval: Duration) {
        let is_empty = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        if is_empty && self.opening.load(Ordering::Relaxed) == 0 {
            return self.asked.notified().await;
        }
        tokio::time::timeout(interval, self.asked.notified()).await.ok();
    }

    /// Looks at every connection: discards what is dead or too old, and learns from what is alive.
    pub fn look_through(&self, now: Duration) {
        let all = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        let mut left = Vec::with_capacity(all.len());
        for mut one in all {
            let age = now.saturating_sub(one.opened);
            if !one.line.is_clean() {
                self.discard(one, now);
                continue;
            }
            self.with_age(|proven| proven.alive(age, now));
            one.seen = now;
            if age < self.max_age { left.push(one) } else { self.count("discarded") }
        }
        // Those that came meanwhile are younger.
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        left.append(&mut waiting);
        *waiting = left;
    }

    /// Discards a connection that upstream closed, or on which it spoke unasked.
    fn discard(&self, one: WaitingLine, now: Duration) {
        self.with_age(|proven| proven.dead(one.seen.saturating_sub(one.opened), now));
        self.count("discarded");
    }

    fn with_age<T>(&self, act: impl FnOnce(&mut ProvenAge) -> T) -> T {
        act(&mut self.age.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn count(&self, what: &str) {
        self.metrics.upstream_connection(self.environment.as_str(), what, 1);
    }
}
