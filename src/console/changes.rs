//! A stream of server-sent events that tells a client when to fetch data again.
//!
//! An event says only that something was written in an environment, on any node, that other policies are in force or wait
//! here, or that money can move at this gate or not for other reasons than before; the client fetches what it may see.
//! The stream ends soon after the session that opened it.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::browser::CookieValue;
use super::render;
use super::request::{ActRequest, violated};
use super::server::ConsoleServer;
use super::session;
use crate::adapters::clock::Stopwatch;
use crate::adapters::rate::RoomShare;
use crate::base::ids::Environment;
use crate::ledger::Number;
use crate::node::Snapshot;
use crate::people::session::SessionId;
use crate::stations::claim::Owner;
use crate::stations::reply::{Reply, ok_json};

/// How often writes of other nodes are looked for.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How often a silent stream sends a comment, so that the client does not take it for broken.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(5);
/// How often the session is checked.
const SESSION_CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// The longest time of a stream; then the client reconnects, and its token is checked again.
const MAX_STREAM_TIME: Duration = Duration::from_secs(600);

/// Checks a request for the stream; the stream follows the answer if its status is 200.
pub(super) fn open(request: &ActRequest) -> Reply {
    match request.query.first() {
        Some((name, _)) => violated(vec![render::unknown_parameter(name)]),
        None => ok_json(200, &Value::Null),
    }
}

/// Returns the body of a streamed answer. It holds `room` until it ends.
pub(super) fn stream(server: Arc<ConsoleServer>, shown: CookieValue<SessionId>, room: RoomShare<Owner>) -> Body {
    let (events, receiver) = mpsc::channel(8);
    tokio::spawn(async move {
        send_changes(&server, &shown, &events).await;
        drop(room);
    });
    Body::new(Events(receiver))
}

/// Sends events until the client disconnects, the stream's time or the session ends, or the process stops.
async fn send_changes(server: &ConsoleServer, shown: &CookieValue<SessionId>, events: &mpsc::Sender<Bytes>) {
    let inside = &server.inside;
    let mut checked = Stopwatch::start();
    let (begun, mut stopping) = (Stopwatch::start(), inside.stopping.clone());
    let mut changes = inside.node.changes.subscribe();
    let mut known: Vec<(Environment, Option<Number>)> = inside.environments.iter().map(|one| (*one, None)).collect();
    let mut silent = Stopwatch::start();
    let (mut rules, mut stops) = (RulesShown::of(server), inside.readiness.reasons());
    while begun.elapsed() < MAX_STREAM_TIME && !*stopping.borrow() {
        let rules_now = RulesShown::of(server);
        if !rules_now.is_same(&rules) {
            // Every environment is told, also one whose store cannot be asked now.
            known.iter_mut().for_each(|(_, last)| *last = None);
        }
        rules = rules_now;
        let stops_now = inside.readiness.reasons();
        if stops_now != stops {
            let data = json!({ "ready": stops_now.is_empty() });
            if !send_event(events, format!("event: money\ndata: {data}\n\n")).await {
                return;
            }
            stops = stops_now;
        }
        for (environment, last) in &mut known {
            let now = match inside.node.store.last(*environment).await {
                Ok(now) => now,
                Err(fault) => {
                    inside.node.told_of(&fault);
                    continue;
                }
            };
            if last.replace(now) != Some(now) {
                let data = json!({ "environment": environment.as_str(), "number": now.as_u64() });
                if !send_event(events, format!("event: changed\ndata: {data}\n\n")).await {
                    return;
                }
                silent = Stopwatch::start();
            }
        }
        if silent.elapsed() >= HEARTBEAT_INTERVAL {
            if !send_event(events, ":\n\n".to_owned()).await {
                return;
            }
            silent = Stopwatch::start();
        }
        if checked.elapsed() >= SESSION_CHECK_INTERVAL {
            if is_over(server, shown).await {
                return;
            }
            checked = Stopwatch::start();
        }
        tokio::select! {
            Ok(()) = changes.changed() => {}
            Ok(()) = stopping.changed() => {}
            () = events.closed() => return,
            () = sleep(POLL_INTERVAL) => {}
        }
    }
}

/// What the page shows of policies. No commit tells that a set begins to wait, nor what it would have changed.
struct RulesShown {
    snapshot: Arc<Snapshot>,
    is_history_known: bool,
}

impl RulesShown {
    fn of(server: &ConsoleServer) -> RulesShown {
        let snapshot = server.inside.in_force.now();
        let is_history_known = snapshot.candidate.as_ref().is_some_and(|waiting| waiting.history().is_some());
        RulesShown { snapshot, is_history_known }
    }

    fn is_same(&self, other: &RulesShown) -> bool {
        Arc::ptr_eq(&self.snapshot, &other.snapshot) && self.is_history_known == other.is_history_known
    }
}

/// Returns whether the session has ended; `false` while the store cannot be reached.
async fn is_over(server: &ConsoleServer, shown: &CookieValue<SessionId>) -> bool {
    let CookieValue::One(id) = shown else { return false };
    session::person(server, id, false).await.is_err_and(|reply| reply.status == 401)
}

/// Sends an event; returns `false` if the client no longer reads.
async fn send_event(events: &mpsc::Sender<Bytes>, text: String) -> bool {
    matches!(timeout(HEARTBEAT_INTERVAL, events.send(Bytes::from(text))).await, Ok(Ok(())))
}

struct Events(mpsc::Receiver<Bytes>);

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
