//! The egress: the one door out to upstream, for every journey.

use std::sync::Arc;

use http::HeaderMap;
use http::header::InvalidHeaderValue;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::SentCredential;
use crate::adapters::credential::Credential;
use crate::adapters::heard_dates::HeardDates;
use crate::base::ids::{Environment, TraceId};
use crate::config::{BeliefConfig, UnlistedMode};
use crate::ports::{LateAnswer, SendResult, Upstream};
use crate::stations::forward::{Cleared, Outgoing, Sent, UpstreamOrigin, outgoing};
use crate::stations::refusal::ProofTerms;

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
    /// The tasks that wait for late answers; an orderly end waits for them only as long as for the sends.
    pub listening: TaskTracker,
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
        for name in credential.revealing_headers(headers) {
            headers.remove(name);
        }
    }
    sent
}
