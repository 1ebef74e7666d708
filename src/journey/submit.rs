//! A write, from its checked head to its answer.
//!
//! Reads downward. What is sent is sent from a task of its own, which the caller's hanging up does not cancel.

use std::sync::Arc;

use http::HeaderMap;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use crate::adapters::clock::Stopwatch;
use crate::base::ids::TraceId;
use crate::ports::Upstream;
use crate::stations::admit::Admitted;
use crate::stations::check::check;
use crate::stations::forward::{Cleared, Loss, Origin, Sent, clear, outgoing};
use crate::stations::reply::{Refusal, Reply, refused, settled};
use crate::stations::settle::settle;

/// What a journey needs: the way to upstream, and a place where sending goes on when nobody waits for it.
#[derive(Clone, Debug)]
pub struct Road {
    pub upstream: Arc<dyn Upstream>,
    pub origin: Origin,
    /// Where sending runs.
    pub runtime: Handle,
    /// What a shutdown waits for.
    pub sending: TaskTracker,
}

/// The answer to a write, and how long upstream took for its part.
#[derive(Debug)]
pub struct Submitted {
    pub reply: Reply,
    pub upstream_time: Option<std::time::Duration>,
}

pub async fn submit(road: &Road, admitted: Admitted, headers: &HeaderMap, body: &[u8], trace: &TraceId) -> Submitted {
    let operation = admitted.operation().clone();

    let intent = match check(admitted, headers, body) {
        Ok(intent) => intent,
        Err(refusal) => return not_sent(refused(&Refusal::Check(refusal), Some(&operation))),
    };
    let request_id = intent.request_id().cloned();
    let cleared = clear(intent);

    let since = Stopwatch::start();
    let sent = send(road, cleared, headers, trace).await;
    let upstream_time = Some(since.elapsed());

    let outcome = settle(&operation, sent);
    Submitted { reply: settled(outcome, &operation, request_id.as_ref()), upstream_time }
}

/// Uses up the right to send, in a task that outlives the caller.
pub async fn send(road: &Road, cleared: Cleared, headers: &HeaderMap, trace: &TraceId) -> Sent {
    let Ok(outgoing) = outgoing(cleared, &road.origin, headers, trace) else {
        return Sent::NotWritten;
    };
    let upstream = road.upstream.clone();
    let task = road.sending.spawn_on(async move { upstream.send(outgoing).await }, &road.runtime);
    match task.await {
        Ok(sent) => sent,
        Err(error) => {
            tracing::error!(%error, "a task that was sending did not end; its outcome is unknown");
            Sent::Lost(Loss::Broken)
        }
    }
}

fn not_sent(reply: Reply) -> Submitted {
    Submitted { reply, upstream_time: None }
}
