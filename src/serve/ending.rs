//! Ends the process, in phases.
//!
//! | phase | meaning |
//! |---|---|
//! | `Leaving` | `/readyz` fails for as long as load balancers need to notice; everything is served, and clients are told that their connections end |
//! | `Closing` | waiting callers and streams get their answer now; then listeners close; requests on open connections are still served |
//! | `Refusing` | new requests get 503 `DRAINING`; running requests finish |
//! | `Over` | connections close when their last bytes are written |
//!
//! Late answers are waited for as long as anything else runs, and no longer.
//!
//! A second signal, and the end of `timeouts.grace_ms`, cut off what runs, and go to `Over`. A call of which nothing was
//! written is undone; one that was written, and not answered, has an unknown outcome.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Mutex, Notify, watch};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::adapters::clock::Stopwatch;
use crate::adapters::supervisor::Supervisor;
use crate::adapters::upstream::WireEnd;
use crate::edge::Phase;

/// How long open connections are served after listeners have closed, so that an active client learns from an answer
/// that its connection ends, instead of finding it closed.
const CLOSING_TIME: Duration = Duration::from_millis(500);
/// How long calls that are cut off may take to store their outcome.
const CUT_TIME: Duration = Duration::from_secs(3);
/// How long written bytes may take to leave at the end.
const LAST_BYTES_TIME: Duration = Duration::from_secs(1);

/// Ends the process in phases.
pub(super) struct OrderlyEnd {
    pub signals: Mutex<Signals>,
    /// Tells the reload of SIGHUP.
    pub asked: Arc<Notify>,
    pub died: watch::Receiver<bool>,
    pub phase: watch::Sender<Phase>,
    /// True from `Closing` on.
    pub stop: watch::Sender<bool>,
    pub requests: TaskTracker,
    pub sending: TaskTracker,
    pub listening: TaskTracker,
    pub wire_end: WireEnd,
    pub connections: TaskTracker,
    pub notice: Duration,
    pub grace: Duration,
    pub supervisor: Supervisor,
    /// Becomes true when a request was cut off.
    pub cut: watch::Sender<bool>,
    /// The rest of `grace` when all requests have finished.
    pub left: watch::Sender<Duration>,
}

/// The handled signals. They are caught from the start, so that an early one is neither lost nor fatal.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    pub fn catch(runtime: &Runtime) -> io::Result<Signals> {
        let _inside = runtime.enter();
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal that ends the process.
    async fn end(&mut self, asked: &Notify) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => {
                    tracing::info!("SIGHUP: reloading");
                    asked.notify_one();
                }
            }
        }
    }
}

#[async_trait]
impl ShutdownSignalWatch for OrderlyEnd {
    async fn recv(&self) -> ShutdownSignal {
        let mut signals = self.signals.lock().await;
        let mut died = self.died.clone();
        // If a part of the gate has failed, the end is not announced first: the gate accepts no more work.
        let is_announced = tokio::select! {
            () = signals.end(&self.asked) => true,
            _ = died.wait_for(|died| *died) => false,
        };
        self.supervisor.stopping();
        let is_done = tokio::select! {
            left = self.in_order(is_announced) => {
                self.left.send_replace(left.unwrap_or_default());
                left.is_some()
            }
            () = signals.end(&self.asked) => {
                tracing::warn!(open = self.requests.len(), "ending at once: a second signal came");
                self.requests.is_empty() && self.sending.is_empty()
            }
        };
        self.stop.send_replace(true);
        if !is_done {
            self.cut_off().await;
        }
        self.phase.send_replace(Phase::Over);
        self.cut.send_replace(!is_done);
        self.connections.close();
        if timeout(LAST_BYTES_TIME, self.connections.wait()).await.is_err() {
            tracing::debug!(open = self.connections.len(), "connections were still open at the end");
        }
        ShutdownSignal::FastShutdown
    }
}

impl OrderlyEnd {
    /// Cuts off what runs, and waits until it has stored its outcome.
    async fn cut_off(&self) {
        self.phase.send_replace(Phase::Refusing);
        self.wire_end.cut.cancel();
        self.wire_end.hang_up.cancel();
        let all = async {
            for tracker in [&self.sending, &self.listening] {
                tracker.close();
                tracker.wait().await;
            }
        };
        if timeout(CUT_TIME, all).await.is_err() {
            tracing::warn!(open = self.sending.len(), "calls that were cut off could not store their outcome in time");
        }
    }

    /// Waits until running requests have finished, or until the time is over. Returns the time that is left, if all have
    /// finished; what comes later is refused, or belongs to the gate itself, and can be repeated.
    async fn in_order(&self, is_announced: bool) -> Option<Duration> {
        if is_announced {
            self.phase.send_replace(Phase::Leaving);
            if !self.notice.is_zero() {
                tracing::info!(notice_secs = self.notice.as_secs(), "ending: not ready, but still serving");
                tokio::time::sleep(self.notice).await;
            }
        }
        let since = Stopwatch::start();
        self.stop.send_replace(true);
        self.phase.send_replace(if is_announced { Phase::Closing } else { Phase::Refusing });
        tracing::info!(open = self.requests.len(), "ending: no new connections; waiting for running requests");
        for tracker in [&self.requests, &self.sending, &self.listening, &self.connections] {
            tracker.close();
        }
        let all = async {
            let is_quiet = !is_announced || timeout(CLOSING_TIME, self.connections.wait()).await.is_ok();
            self.phase.send_replace(Phase::Refusing);
            if !is_quiet {
                tracing::info!(open = self.connections.len(), "ending: new requests on open connections are refused");
            }
            // A caller may have disconnected while its call is still being sent, and a call may be sent while the gate waits.
            while !(self.requests.is_empty() && self.sending.is_empty()) {
                self.requests.wait().await;
                self.sending.wait().await;
            }
            // Whoever waits for a late answer is in doubt already; only storing what was heard is finished.
            self.wire_end.hang_up.cancel();
            self.listening.wait().await;
        };
        let is_done = timeout(self.grace, all).await.is_ok();
        if !is_done {
            tracing::warn!(open = self.requests.len(), "requests were still open at the end of `timeouts.grace_ms`");
        }
        is_done.then(|| self.grace.saturating_sub(since.elapsed()))
    }
}
