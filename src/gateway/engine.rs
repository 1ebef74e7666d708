//! The engine of a listener for callers. It has a connection of HTTP/1.1 for one request at a time: between requests the
//! guard alone waits, so that an idle connection takes little memory.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use pingora::apps::{HttpPersistentSettings, HttpServerApp, ServerApp};
use pingora::protocols::http::ServerSession;
use pingora::protocols::{ALPN, Stream};
use pingora::proxy::HttpProxy;
use pingora::server::ShutdownWatch;

use super::Gate;
use crate::edge::guard::GuardedStream;

/// The engine, with its limits set.
pub struct Engine(Arc<HttpProxy<Gate>>);

impl Engine {
    pub fn new(proxy: HttpProxy<Gate>) -> Engine {
        Engine(Arc::new(proxy))
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

#[async_trait]
impl ServerApp for Engine {
    async fn process_new(self: &Arc<Self>, mut stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        if matches!(stream.selected_alpn_proto(), Some(ALPN::H2)) {
            return self.0.process_new(stream, shutdown).await;
        }
        let mut settings = None;
        loop {
            let mut session = ServerSession::new_http1(stream);
            match settings {
                Some(settings) => HttpPersistentSettings::apply_to_session(settings, &mut session),
                None => {
                    // Some time: `request_filter` sets the right one.
                    session.set_keepalive((!*shutdown.borrow()).then_some(60));
                    let options = self.0.server_options();
                    session.set_keepalive_reuses_remaining(options.and_then(|of| of.keepalive_request_limit));
                }
            }
            let (ended, next) = self.0.process_new_http(session, shutdown).await?.consume();
            let mut waiting = GuardedStream::of(ended)?;
            if !waiting.begins().await {
                return None;
            }
            (stream, settings) = (waiting.into_stream(), next);
        }
    }
}
