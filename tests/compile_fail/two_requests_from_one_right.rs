//! One right to send makes one request, and nobody copies a request.

use sluice::base::ids::TraceId;
use sluice::ports::Upstream;
use sluice::stations::forward::{Cleared, UpstreamOrigin, Outgoing, outgoing};

fn write_twice(cleared: Cleared, origin: &UpstreamOrigin, trace: &TraceId) {
    let _first = outgoing(cleared, origin, None, &Default::default(), trace);
    let _second = outgoing(cleared, origin, None, &Default::default(), trace);
}

async fn send_twice(upstream: &dyn Upstream, outgoing: Outgoing) {
    upstream.send(outgoing).await;
    upstream.send(outgoing).await;
}

fn copy(outgoing: &Outgoing) -> Outgoing {
    outgoing.clone()
}

fn main() {}
