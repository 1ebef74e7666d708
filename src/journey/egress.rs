//! The egress: the one door out to upstream, for every journey.

use std::sync::Arc;

use http::HeaderMap;
use http::header::InvalidHeaderValue;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::SentCredential;
use crate::adapters::credential::Credential;
use crate::adapters::heard_dates::HeardDates;
use crate::adapters::rate::SharedRoom;
use crate::base::ids::{Environment, TraceId};
use crate::config::{BeliefConfig, UnlistedMode};
use crate::ports::{LateAnswer, SendResult, Upstream};
use crate::stations::claim::Owner;
use crate::stations::forward::{Cleared, Outgoing, Sent, UpstreamOrigin, outgoing};
use crate::stations::refusal::ProofTerms;
use crate::telemetry::Metrics;

/// The way to upstream, and the runtime on which sending goes on when nobody waits for it.
#[derive(Clone, Debug)]
pub struct Egress {
    pub upstream: Arc<dyn Upstream>,
    pub origin: UpstreamOrigin,
    pub environment: Environment,
    pub credential: Arc<Credential>,
    pub belief: BeliefConfig,
    /// The dates of upstream's answers.
    pub dates: Arc<HeardDates>,
    /// The runtime that carries writes to their end.
    pub runtime: Handle,
    /// The sends that an orderly end waits for.
    pub sending: TaskTracker,
    pub late_answers: LateAnswers,
}

/// The tasks that wait for late answers of an environment; an orderly end waits for them only as long as for the sends.
#[derive(Clone, Debug)]
pub struct LateAnswers {
    tasks: TaskTracker,
    runtime: Handle,
    /// Each is a connection, and a call that is remembered; every caller has a share.
    room: Arc<SharedRoom<Owner>>,
}

impl LateAnswers {
    pub fn new(all: usize, tasks: &TaskTracker, runtime: &Handle) -> LateAnswers {
        LateAnswers { tasks: tasks.clone(), runtime: runtime.clone(), room: SharedRoom::new(all) }
    }

    /// Waits in a task of its own; where the caller's part is full, the answer is given up.
    pub fn wait_for(
        &self,
        caller: Owner,
        (metrics, environment): (Metrics, Environment),
        waiting: impl Future<Output = ()> + Send + 'static,
    ) {
        let mut share = self.room.share_of(caller);
        if !share.grow(1) {
            tracing::warn!(
                %environment,
                "too many late answers to one caller, or to all, are waited for; this one is given up, and its outcome stays unknown"
            );
            return metrics.late_answer_given_up(environment);
        }
        let waiting = async move {
            let _share = share;
            waiting.await;
        };
        self.tasks.spawn_on(waiting, &self.runtime);
    }
}

impl Egress {
    /// Writes the request that leaves, with the token that upstream sees; returns the gate's own, if that is it.
    pub fn outgoing(
        &self,
        cleared: Cleared,
        headers: &HeaderMap,
        trace: &TraceId,
    ) -> Result<(Outgoing, SentCredential), InvalidHeaderValue> {
        let injected = self.credential.for_calls_of(self.environment);
        let outgoing = outgoing(cleared, &self.origin, injected.as_deref(), headers, trace)?;
        Ok((outgoing, SentCredential::new(self.environment, injected)))
    }

    /// The terms on which a refusal of this upstream proves that nothing was executed.
    pub fn proof_terms(&self, earlier_are_proven: bool) -> ProofTerms {
        ProofTerms {
            injected: self.credential.is_injected(),
            is_direct: self.belief.is_direct,
            is_strict: self.belief.unlisted == UnlistedMode::Unknown,
            earlier_are_proven,
        }
    }

    /// Sends, and so consumes the right to send. The answer's headers do not contain the credential that was sent; its
    /// body may.
    pub async fn send(&self, cleared: Cleared, headers: &HeaderMap, trace: &TraceId) -> (SendResult, SentCredential) {
        let Ok((outgoing, credential)) = self.outgoing(cleared, headers, trace) else {
            return (SendResult::only(Sent::NotWritten), SentCredential::new(self.environment, None));
        };
        let SendResult { sent, late } = self.upstream.send(outgoing).await;
        self.hears_date(&sent);
        (SendResult { sent: without_credential(sent, &credential), late }, credential)
    }

    /// Waits for a late answer to a call that was sent with this credential.
    pub async fn hear(&self, late: LateAnswer, credential: &SentCredential) -> Sent {
        let sent = late.heard().await;
        self.hears_date(&sent);
        without_credential(sent, credential)
    }

    fn hears_date(&self, sent: &Sent) {
        if let Sent::Answered { headers, .. } = sent {
            self.dates.hear("upstream", headers);
        }
    }
}

/// Removes the headers that contain the credential.
fn without_credential(mut sent: Sent, credential: &SentCredential) -> Sent {
    if let Sent::Answered { headers, .. } = &mut sent {
        credential.remove_revealing(headers);
    }
    sent
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Notify;

    use super::*;

    const ROOM: usize = 64;

    #[tokio::test]
    async fn a_caller_that_waits_for_too_many_late_answers_leaves_room_for_others() {
        let (tasks, metrics, end) = (TaskTracker::new(), Metrics::new().unwrap(), Arc::new(Notify::new()));
        let late = LateAnswers::new(ROOM, &tasks, &Handle::current());
        let heard = Arc::new(AtomicUsize::new(0));
        let wait = |subject: &str| {
            let (end, heard) = (Arc::clone(&end), Arc::clone(&heard));
            late.wait_for(Owner::named("main", subject), (metrics.clone(), Environment::Production), async move {
                end.notified().await;
                heard.fetch_add(1, Ordering::Relaxed);
            });
        };
        let given_up = || {
            let told = String::from_utf8(metrics.text().unwrap()).unwrap();
            let line = told.lines().find(|line| line.starts_with("sluice_late_answers_given_up_total{"));
            line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
        };
        for _ in 0..ROOM {
            wait("a");
        }
        assert_eq!((tasks.len(), given_up()), (ROOM / 2, ROOM / 2));
        wait("b");
        assert_eq!(tasks.len(), ROOM / 2 + 1);
        tasks.close();
        while !tasks.is_empty() {
            tokio::task::yield_now().await;
            end.notify_waiters();
        }
        assert_eq!(heard.load(Ordering::Relaxed), ROOM / 2 + 1);
        wait("a");
        assert_eq!((tasks.len(), given_up()), (1, ROOM / 2));
    }
}
