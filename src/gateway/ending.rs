//! What ends a process, and in which order.
//!
//! | phase | what is so |
//! |---|---|
//! | `Leaving` | `/readyz` fails, for as long as load balancers need to notice; all is served, and open connections are told that they end |
//! | `Closing` | who waits or listens hears what is known now; then listeners close; what comes over open connections is served still |
//! | `Refusing` | what comes now gets 503 `DRAINING`; what runs is waited for |
//! | `Over` | connections are let go of when what was written to them is out |
//!
//! A second signal, and the end of the grace, go to `Over` at once. Nothing that was sent is forgotten by that: what is
//! cut off is in doubt at the next start.

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

use crate::adapters::supervisor::Supervisor;

/// How long open connections are served after listeners have closed: whoever is calling hears with an answer that the
/// connection ends, and does not find it closed.
const QUIET: Duration = Duration::from_millis(500);
/// For what is written already to go out.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How far the end of a process has come; see the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Serving,
    Leaving,
    Closing,
    Refusing,
    Over,
}

/// Ends in order what runs.
pub(super) struct Ending {
    pub signals: Mutex<Signals>,
    /// What is to be read again is told of SIGHUP.
    pub asked: Arc<Notify>,
    pub died: watch::Receiver<bool>,
    pub phase: watch::Sender<Phase>,
    /// True from `Closing` on.
    pub stop: watch::Sender<bool>,
    pub requests: TaskTracker,
    pub sending: TaskTracker,
    pub connections: TaskTracker,
    pub notice: Duration,
    pub grace: Duration,
    pub supervisor: Supervisor,
    /// Becomes true when something was cut off.
    pub cut: watch::Sender<bool>,
}

/// The signals that mean something. They are caught from the start: one that comes early is not lost, and kills nothing.
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

    /// Until one comes that ends the process.
    async fn end(&mut self, asked: &Notify) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hangup.recv() => {
                    tracing::info!("SIGHUP: all that can be reloaded is read again");
                    asked.notify_one();
                }
            }
        }
    }
}

#[async_trait]
impl ShutdownSignalWatch for Ending {
    async fn recv(&self) -> ShutdownSignal {
        let mut signals = self.signals.lock().await;
        let mut died = self.died.clone();
        // A gate that is half blind announces nothing: it begins nothing more.
        let is_announced = tokio::select! {
            () = signals.end(&self.asked) => true,
            _ = died.wait_for(|died| *died) => false,
        };
        self.supervisor.stopping();
        tokio::select! {
            () = self.in_order(is_announced) => {}
            () = signals.end(&self.asked) => {
                tracing::warn!(open = self.requests.len(), "ending at once: it was asked for a second time");
            }
        }
        let is_done = self.requests.is_empty() && self.sending.is_empty();
        self.stop.send_replace(true);
        self.phase.send_replace(Phase::Over);
        self.cut.send_replace(!is_done);
        self.connections.close();
        if timeout(LAST_WORDS, self.connections.wait()).await.is_err() {
            tracing::debug!(open = self.connections.len(), "connections were still open at the end");
        }
        ShutdownSignal::FastShutdown
    }
}

impl Ending {
    /// Until all that ran has ended, or the time is over.
    async fn in_order(&self, is_announced: bool) {
        if is_announced {
            self.phase.send_replace(Phase::Leaving);
            if !self.notice.is_zero() {
                tracing::info!(notice_secs = self.notice.as_secs(), "ending: not ready any more, and serving still");
                tokio::time::sleep(self.notice).await;
            }
        }
        self.stop.send_replace(true);
        self.phase.send_replace(if is_announced { Phase::Closing } else { Phase::Refusing });
        tracing::info!(open = self.requests.len(), "ending: no new connections, waiting for what runs");
        for tracker in [&self.requests, &self.sending, &self.connections] {
            tracker.close();
        }
        let all = async {
            let is_quiet = !is_announced || timeout(QUIET, self.connections.wait()).await.is_ok();
            self.phase.send_replace(Phase::Refusing);
            if !is_quiet {
                tracing::info!(
                    open = self.connections.len(),
                    "ending: what comes over open connections now is refused"
                );
            }
            self.requests.wait().await;
            // A caller may have left; what was sent for it has not.
            self.sending.wait().await;
        };
        if timeout(self.grace, all).await.is_err() {
            tracing::warn!(open = self.requests.len(), "requests were still open when the time for ending was over");
        }
    }
}
