//! Checks answers beside the stream, on a thread where no caller waits.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::base::ids::Environment;
use crate::catalog::{Operation, Violation};
use crate::stations::settle::drift;
use crate::telemetry::{GatheringQueue, Metrics};

/// The most answers that wait to be checked.
const WAITING: usize = 1_024;
/// How long an answer waits for others. Too many at once would keep calls waiting for the processor.
const MOMENT: Duration = Duration::from_millis(1);
/// The most bytes of answers that are kept at once, arriving or waiting.
const KEPT_BYTES: usize = 64 * 1024 * 1024;

/// An answer that was passed on.
#[derive(Debug)]
pub struct Observed {
    pub environment: Environment,
    pub operation: Arc<Operation>,
    pub status: u16,
    pub headers: HeaderMap,
    /// The body; `None` if it was too large, or there was no room for it.
    pub body: Option<Bytes>,
    /// The room that the body takes up.
    pub room: Option<OwnedSemaphorePermit>,
}

/// The queue of answers to check.
#[derive(Clone, Debug)]
pub struct Observer {
    queue: Arc<CheckQueue>,
    metrics: Metrics,
    room: Arc<Semaphore>,
}

/// Ends the work when nobody can queue an answer any more.
#[derive(Debug)]
struct CheckQueue(Arc<GatheringQueue<Vec<Observed>>>);

impl Drop for CheckQueue {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Observer {
    /// Makes the observer and its work, which one thread must run.
    pub fn new(metrics: Metrics) -> (Observer, impl FnOnce() + Send + 'static) {
        let queue = Arc::new(GatheringQueue::new(MOMENT));
        let (waiting, counted) = (Arc::clone(&queue), metrics.clone());
        let work = move || {
            while let Some(batch) = waiting.take() {
                for observed in batch {
                    check(&observed, &counted);
                }
            }
        };
        let (queue, room) = (Arc::new(CheckQueue(queue)), Arc::new(Semaphore::new(KEPT_BYTES)));
        (Observer { queue, metrics, room }, work)
    }

    /// Reserves room for this many bytes, if there is any.
    pub fn room(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.room.clone().try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()
    }

    /// Queues an answer and never waits: where checking falls behind, the answer is counted as unchecked.
    pub fn observe(&self, observed: Observed) {
        let is_queued = self.queue.0.add(|batch| {
            let has_room = batch.len() < WAITING;
            if has_room {
                batch.push(observed);
            }
            has_room
        });
        if !is_queued {
            self.metrics.left_unchecked();
        }
    }
}

fn check(observed: &Observed, metrics: &Metrics) {
    let Some(body) = &observed.body else {
        metrics.left_unchecked();
        return;
    };
    if let Some(violation) = drift(&observed.operation, observed.status, &observed.headers, body) {
        report_violations(observed.environment, &observed.operation, observed.status, &violation, metrics);
    }
}

/// Counts and logs an answer that violates the contract.
pub(super) fn report_violations(
    environment: Environment,
    operation: &Operation,
    status: u16,
    violation: &Violation,
    metrics: &Metrics,
) {
    let (environment, operation) = (environment.as_str(), operation.id.as_str());
    metrics.drifted(environment, operation);
    tracing::warn!(
        environment,
        operation,
        http.response.status_code = status,
        pointer = violation.pointer,
        keyword = violation.keyword,
        expected = violation.expected,
        "an answer of upstream violates the contract"
    );
}
