//! The console: the API and the page through which people operate the gate, on a listener of their own.
//!
//! | file | contents |
//! |---|---|
//! | `acts` | the table of all acts: path, role, body and handler |
//! | `believed_sessions` | the sessions that the store showed lately, for `rates` |
//! | `browser` | cookies, and the check that a request comes from the console's own page |
//! | `changes` | the stream that tells clients when to fetch data again |
//! | `decisions`, `history`, `history_query`, `story` | past decisions and entries, from the audit log |
//! | `export`, `history_export` | files that people take out, and their audit entries |
//! | `foreign` | payments that upstream lists and no gate sent |
//! | `held_answer` | large answers, whose memory counts until they are written |
//! | `form`, `page` | query parsing: form-encoded values, and paging |
//! | `freezes`, `holds`, `policies`, `requests`, `sets`, `stand_ins` | the acts themselves |
//! | `named_call` | the call that a path names, and the answer where the store has no record of it |
//! | `oidc`, `provider` | sign-in at an OpenID provider |
//! | `pass_tables` | the largest amounts that the policies let pass, and the room for sets that are tried |
//! | `payment_index`, `payments` | the newest payments in memory; lists, sums and exports of them |
//! | `person` | people and their roles |
//! | `rates` | how often people and addresses may ask |
//! | `queue`, `ranks`, `rank_memory`, `view` | the list of holds and its orders, and a hold as a person may see it |
//! | `readers` | turns to read the audit log |
//! | `render` | JSON of records |
//! | `receipts` | proofs that the journal has a payment, the votes on a hold, or one's own act |
//! | `request`, `server`, `state` | the request of an act, the parts of every answer, and what the console shares |
//! | `router` | the path of a request: credentials, role, body, act, answer |
//! | `signature` | the signature in the body of a vote or an act, and the answers where it does not count |
//! | `signing` | what a signed vote or act must name, and a person's own passkeys |
//! | `session` | sign-in, sessions and sign-out |
//! | `trial_sets` | a set of policies that somebody tries: compared, and put nowhere |
//! | `web` | the page, which uses only these acts |
//!
//! There is no other way in: the page and the command line use the same acts. HTTP/1.1 connections pass the same
//! guard as callers' connections; sessions are kept in the store; no answer may be cached.

mod acts;
mod believed_sessions;
mod request;
mod router;
mod browser;
mod changes;
mod decisions;
mod export;
mod server;
mod foreign;
mod form;
mod freezes;
mod held_answer;
mod history;
mod history_export;
mod history_query;
mod holds;
mod named_call;
mod nodes;
mod oidc;
mod page;
mod pass_tables;
mod payment_index;
mod payments;
mod person;
mod policies;
mod provider;
mod queue;
mod rank_memory;
mod ranks;
mod rates;
mod readers;
mod receipts;
mod requests;
mod session;
mod sets;
mod signature;
mod signing;
mod stand_ins;
mod state;
mod story;
mod trial_sets;
mod render;
mod view;
mod web;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::any;
use http::header::{CONNECTION, HeaderValue};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use pingora::apps::ServerApp;
use pingora::protocols::Stream;
use pingora::server::ShutdownWatch;

use crate::config::ConsoleConfig;

use crate::edge::guard::ConnectionWatch;
use crate::edge::hosts::HostNames;
use acts::{ACTS, acts_at};
pub use pass_tables::PolicyAnalyses;
pub use person::role_names;
pub use render::name_of;
use request::PeerAddress;
use server::ConsoleServer;
pub use state::ConsoleState;
use web::FILES;

/// The console's server.
pub struct Console {
    server: Arc<ConsoleServer>,
    router: TowerToHyperService<Router>,
    hosts: HostNames,
    /// How many requests a connection may carry.
    requests_per_connection: usize,
    /// The most that a connection has in memory of what it reads or writes, besides whole answers.
    buffer_bytes: usize,
}

impl Console {
    pub fn new(config: &ConsoleConfig, inside: ConsoleState) -> Result<Console, String> {
        let requests_per_connection = inside.limits.requests_per_connection;
        // A head must fit, with room to read on.
        let buffer_bytes = inside.limits.head_bytes.saturating_add(16 * 1024);
        let server = Arc::new(ConsoleServer::new(config, inside, acts::contracts()?)?);
        let mut router = Router::new();
        for path in ACTS.iter().map(|act| act.path).collect::<BTreeSet<_>>() {
            let serve = move |State(server): State<Arc<ConsoleServer>>, request: Request| async move {
                server.serve(acts_at(path).collect(), request).await
            };
            router = router.route(path, any(serve));
        }
        for file in FILES {
            let serve = move |State(server): State<Arc<ConsoleServer>>, request: Request| async move {
                server.file(*file, &request)
            };
            router = router.route(file.path, any(serve));
        }
        let nowhere = |State(server): State<Arc<ConsoleServer>>, request: Request| async move {
            server.serve(Vec::new(), request).await
        };
        let router = TowerToHyperService::new(router.fallback(nowhere).with_state(server.clone()));
        Ok(Console { server, router, hosts: HostNames::new(&config.hosts), requests_per_connection, buffer_bytes })
    }

    async fn answer(
        &self,
        mut request: hyper::Request<Incoming>,
        peer: PeerAddress,
        watch: Option<&ConnectionWatch>,
        nth: usize,
    ) -> Response {
        request.extensions_mut().insert(peer);
        let refusal = watch.and_then(ConnectionWatch::refusal);
        let mut response = match refusal {
            Some(why) => self.server.unreadable(why),
            None if !self.hosts.accept(request.uri(), request.headers()) => self.server.foreign_host(),
            None => match self.router.call(request.map(Body::new)).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
        };
        let is_last = nth >= self.requests_per_connection || watch.is_some_and(ConnectionWatch::is_last_answer);
        if refusal.is_some() || is_last {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(watch) = watch {
            watch.answered();
            response = held_answer::hold(response, watch);
        }
        response
    }
}

#[async_trait]
impl ServerApp for Console {
    async fn process_new(self: &Arc<Self>, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let (watch, count) = (ConnectionWatch::of(&stream), AtomicUsize::new(0));
        let peer = PeerAddress::of(&stream);
        let service = service_fn(|request| {
            let nth = count.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            let watch = watch.as_ref();
            async move { Ok::<_, Infallible>(self.answer(request, peer, watch, nth).await) }
        });
        // The guard enforces the time limits. A client that has closed its sending side can still read the answer.
        let http = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .half_close(true)
            .max_buf_size(self.buffer_bytes)
            .serve_connection(TokioIo::new(stream), service);
        let (mut http, mut stop) = (std::pin::pin!(http), shutdown.clone());
        tokio::select! {
            _ended = http.as_mut() => return None,
            _told = stop.wait_for(|stopped| *stopped) => http.as_mut().graceful_shutdown(),
        }
        // A connection that breaks is no error of the console.
        drop(http.await);
        None
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}
