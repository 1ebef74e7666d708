//! A write, from its checked head to its answer.
//!
//! Reads downward. What is sent is sent from a task of its own, which the caller's hanging up does not cancel.

use http::HeaderMap;

use super::Road;
use crate::adapters::clock::Stopwatch;
use crate::base::ids::TraceId;
use crate::stations::admit::Admitted;
use crate::stations::check::check;
use crate::stations::forward::{AnswerBody, clear};
use crate::stations::reply::{Refusal, Reply, refused, settled};
use crate::stations::settle::{Outcome, settle};

/// The answer to a write, and how long upstream took for its part.
#[derive(Debug)]
pub struct Submitted {
    pub reply: Reply,
    /// It is upstream's own answer to an executed call, whole, and not checked.
    pub unchecked: bool,
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
    let sent = road.send(cleared, None, headers, trace).await;
    let upstream_time = Some(since.elapsed());

    let outcome = settle(&operation, road.credential.is_injected(), sent);
    let unchecked = matches!(outcome, Outcome::Executed { body: AnswerBody::Complete(_), .. });
    Submitted { unchecked, reply: settled(outcome, &operation, request_id.as_ref()), upstream_time }
}

fn not_sent(reply: Reply) -> Submitted {
    Submitted { reply, unchecked: false, upstream_time: None }
}
