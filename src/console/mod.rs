//! The console: what people do to the gate, on a listener of their own.
//!
//! | file | what |
//! |---|---|
//! | `acts` | every act there is: its address, who may do it, what its body must be |
//! | `asked` | what an act is given |
//! | `browser` | what a browser shows: cookies, and which page asks |
//! | `changes` | a stream that tells when to look again |
//! | `decisions`, `history`, `story` | what happened, over time and one by one, from the audit chain |
//! | `desk` | the one way of a request: token, role, body, act, answer |
//! | `freezes`, `holds`, `policies`, `requests`, `sets`, `stand_ins` | what the acts do |
//! | `queue`, `view` | which holds are listed, and how one is seen |
//! | `oidc` | signing in at an OpenID provider |
//! | `session` | signing in and out |
//! | `told` | how records are told |
//! | `web` | the page, which does nothing but these acts |
//!
//! There is no side door: page and command line go this way as well. HTTP/1.1 comes through the same guard as everything
//! else; what is kept between requests, sessions, is in the store; and no answer may be kept by anybody.

mod acts;
mod asked;
mod browser;
mod changes;
mod decisions;
mod desk;
mod form;
mod freezes;
mod history;
mod holds;
mod oidc;
mod page;
mod person;
mod policies;
mod queue;
mod requests;
mod session;
mod sets;
mod stand_ins;
mod story;
mod told;
mod view;
mod web;

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
use crate::gateway::Inside;
use crate::gateway::guard::Watch;
use acts::PATHS;
use desk::Desk;
use web::FILES;

/// See the module.
pub struct Console {
    desk: Arc<Desk>,
    router: TowerToHyperService<Router>,
    /// After so many requests a connection ends.
    requests_per_connection: usize,
}

impl Console {
    pub fn new(config: &ConsoleConfig, inside: Inside) -> Result<Console, String> {
        let requests_per_connection = inside.limits.requests_per_connection;
        let desk = Arc::new(Desk::new(config, inside)?);
        let mut router = Router::new();
        for (path, acts) in PATHS {
            let serve =
                move |State(desk): State<Arc<Desk>>, request: Request| async move { desk.serve(acts, request).await };
            router = router.route(path, any(serve));
        }
        for file in FILES {
            let serve =
                move |State(desk): State<Arc<Desk>>, request: Request| async move { desk.file(*file, &request) };
            router = router.route(file.path, any(serve));
        }
        let nowhere = |State(desk): State<Arc<Desk>>, request: Request| async move { desk.serve(&[], request).await };
        let router = TowerToHyperService::new(router.fallback(nowhere).with_state(desk.clone()));
        Ok(Console { desk, router, requests_per_connection })
    }

    async fn answer(&self, request: hyper::Request<Incoming>, watch: Option<&Watch>, nth: usize) -> Response {
        let refusal = watch.and_then(Watch::refusal);
        let mut response = match refusal {
            Some(why) => self.desk.unreadable(why),
            None => match self.router.call(request.map(Body::new)).await {
                Ok(response) => response,
                Err(never) => match never {},
            },
        };
        let is_last = nth >= self.requests_per_connection || watch.is_some_and(Watch::is_crowded);
        if refusal.is_some() || is_last {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(watch) = watch {
            watch.answered();
        }
        response
    }
}

#[async_trait]
impl ServerApp for Console {
    async fn process_new(self: &Arc<Self>, stream: Stream, shutdown: &ShutdownWatch) -> Option<Stream> {
        let (watch, count) = (Watch::of(&stream), AtomicUsize::new(0));
        let service = service_fn(|request| {
            let nth = count.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            let watch = watch.as_ref();
            async move { Ok::<_, Infallible>(self.answer(request, watch, nth).await) }
        });
        // The guard keeps the times of heads and of silence. Who has ended its sending side can still read.
        let http = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(None)
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service);
        let (mut http, mut stop) = (std::pin::pin!(http), shutdown.clone());
        tokio::select! {
            _ended = http.as_mut() => return None,
            _told = stop.wait_for(|stopped| *stopped) => http.as_mut().graceful_shutdown(),
        }
        // A connection that breaks is the other side's affair.
        drop(http.await);
        None
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}
