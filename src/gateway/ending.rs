//! What ends a process, and in which order.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use pingora::server::{ShutdownSignal, ShutdownSignalWatch};
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Mutex, Notify, watch};
use tokio_util::task::TaskTracker;

/// The order in which a process ends.
pub(super) struct Ending {
    pub signals: Mutex<Signals>,
    /// What is to be read again is told of SIGHUP.
    pub asked: Arc<Notify>,
    pub died: watch::Receiver<bool>,
    pub stop: watch::Sender<bool>,
    pub requests: TaskTracker,
    pub sending: TaskTracker,
    pub grace: Duration,
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
                    tracing::info!("SIGHUP: the policies are read again");
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
        tokio::select! {
            () = signals.end(&self.asked) => (),
            _ = died.wait_for(|died| *died) => (),
        }
        self.stop.send_replace(true);
        tracing::info!(open = self.requests.len(), "ending: no new connections, waiting for what runs");
        self.requests.close();
        self.sending.close();
        let all = async {
            self.requests.wait().await;
            // A caller may have left; what was sent for it has not.
            self.sending.wait().await;
        };
        if tokio::time::timeout(self.grace, all).await.is_err() {
            tracing::warn!(open = self.requests.len(), "requests were still open when the time for ending was over");
        }
        ShutdownSignal::FastShutdown
    }
}
