//! The way to upstream, as every journey takes it: the one door out.

use std::sync::Arc;

use http::HeaderMap;
use http::header::InvalidHeaderValue;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use crate::adapters::credential::Credential;
use crate::base::ids::{Environment, TraceId};
use crate::ports::{Lease, Upstream};
use crate::stations::forward::{Cleared, Origin, Outgoing, Sent, outgoing};

/// The way to upstream, and a place where sending goes on when nobody waits for it.
#[derive(Clone, Debug)]
pub struct Road {
    pub upstream: Arc<dyn Upstream>,
    pub origin: Origin,
    pub environment: Environment,
    pub credential: Arc<Credential>,
    /// Where writes are carried to their end.
    pub runtime: Handle,
    /// What a shutdown waits for.
    pub sending: TaskTracker,
}

impl Road {
    /// What leaves, with the token that upstream is to see.
    pub fn outgoing(
        &self,
        cleared: Cleared,
        headers: &HeaderMap,
        trace: &TraceId,
    ) -> Result<Outgoing, InvalidHeaderValue> {
        let injected = self.credential.for_calls_of(self.environment);
        outgoing(cleared, &self.origin, injected.as_deref(), headers, trace)
    }

    /// Uses up the right to send.
    pub async fn send(&self, cleared: Cleared, lease: Option<Lease>, headers: &HeaderMap, trace: &TraceId) -> Sent {
        match self.outgoing(cleared, headers, trace) {
            Ok(outgoing) => self.upstream.send(outgoing, lease).await,
            Err(_) => Sent::NotWritten,
        }
    }
}
