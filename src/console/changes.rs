//! A stream that tells its reader when to look again, as server-sent events.
//!
//! It says that something was written in an environment, on whatever node, and not what: whoever may see it asks for it. It
//! ends soon after the session that it was opened with.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::Frame;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{sleep, timeout};

use super::browser::Shown;
use super::desk::Desk;
use super::session;
use crate::adapters::clock::Stopwatch;
use crate::base::ids::Environment;
use crate::commit::Number;
use crate::stations::session::SessionId;

/// How often other nodes' work is looked for.
const EVERY: Duration = Duration::from_secs(1);
/// A reader that hears nothing for longer would take the stream for dead.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// How often the session is looked at.
const LOOK: Duration = Duration::from_secs(5);
/// Then its reader comes again, with a token that is still good.
const LONGEST: Duration = Duration::from_secs(600);

/// The body of an answer that does not end soon. `room`: it is one of those that are open.
pub(super) fn stream(desk: Arc<Desk>, shown: Shown<SessionId>, room: OwnedSemaphorePermit) -> Body {
    let (events, told) = mpsc::channel(8);
    tokio::spawn(async move {
        tell(&desk, &shown, &events).await;
        drop(room);
    });
    Body::new(Events(told))
}

/// Until its reader is gone, its time or session is over, or the process ends.
async fn tell(desk: &Desk, shown: &Shown<SessionId>, events: &mpsc::Sender<Bytes>) {
    let inside = &desk.inside;
    let mut looked = Stopwatch::start();
    let (begun, mut stopping) = (Stopwatch::start(), inside.stopping.clone());
    let mut changes = inside.books.changes.heard();
    let mut known: Vec<(Environment, Option<Number>)> = inside.environments.iter().map(|one| (*one, None)).collect();
    let mut silent = Stopwatch::start();
    while begun.elapsed() < LONGEST && !*stopping.borrow() {
        for (environment, last) in &mut known {
            let now = match inside.books.store.last(*environment).await {
                Ok(now) => now,
                Err(fault) => {
                    inside.books.told_of(&fault);
                    continue;
                }
            };
            if last.replace(now) != Some(now) {
                let data = json!({ "environment": environment.as_str(), "number": now.as_u64() });
                if !say(events, format!("event: changed\ndata: {data}\n\n")).await {
                    return;
                }
                silent = Stopwatch::start();
            }
        }
        if silent.elapsed() >= SIGN_OF_LIFE {
            if !say(events, ":\n\n".to_owned()).await {
                return;
            }
            silent = Stopwatch::start();
        }
        if looked.elapsed() >= LOOK {
            if is_over(desk, shown).await {
                return;
            }
            looked = Stopwatch::start();
        }
        tokio::select! {
            _changed = changes.changed() => {}
            _stopped = stopping.changed() => {}
            () = events.closed() => return,
            () = sleep(EVERY) => {}
        }
    }
}

/// Where the store is away, nobody can say so.
async fn is_over(desk: &Desk, shown: &Shown<SessionId>) -> bool {
    let Shown::One(id) = shown else { return false };
    session::person(desk, id, false).await.is_err_and(|reply| reply.status == 401)
}

/// `false`: its reader does not read any more.
async fn say(events: &mpsc::Sender<Bytes>, text: String) -> bool {
    matches!(timeout(SIGN_OF_LIFE, events.send(Bytes::from(text))).await, Ok(Ok(())))
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
