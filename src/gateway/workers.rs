//! What runs as long as the process does. If any of it dies, the process ends in order: a gate that is half blind must
//! not move money on.

use std::future::Future;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

/// The long-running tasks of a process.
#[derive(Debug)]
pub(super) struct Workers {
    runtime: Handle,
    died: watch::Sender<bool>,
    /// Each with the one that watches it.
    tasks: Mutex<Vec<(AbortHandle, JoinHandle<()>)>>,
}

impl Workers {
    pub fn new(runtime: Handle) -> Workers {
        Workers { runtime, died: watch::Sender::new(false), tasks: Mutex::default() }
    }

    /// Work that never ends by itself: if it does, it has died.
    pub fn keep(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.watch(name, false, work);
    }

    /// Work that ends where there is nothing to do.
    pub fn help(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.watch(name, true, work);
    }

    fn watch(&self, name: &'static str, may_end: bool, work: impl Future<Output = ()> + Send + 'static) {
        let task = self.runtime.spawn(work);
        let (abort, died) = (task.abort_handle(), self.died.clone());
        let watching = self.runtime.spawn(async move {
            let how = match task.await {
                Ok(()) if may_end => return,
                Ok(()) => "it ended",
                Err(error) if error.is_cancelled() => return,
                Err(_) => "it panicked",
            };
            tracing::error!(worker = name, how, "a part of the gate has died: the process ends");
            died.send_replace(true);
        });
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push((abort, watching));
    }

    /// Becomes true when one has died.
    pub fn died(&self) -> watch::Receiver<bool> {
        self.died.subscribe()
    }

    /// Ends all of them; what they held is given back when this returns.
    pub async fn end(&self) {
        let tasks = std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        tasks.iter().for_each(|(task, _)| task.abort());
        for (_, watching) in tasks {
            watching.await.ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn whoever_ends_or_panics_is_noticed_and_whoever_may_end_is_not() {
        let workers = Workers::new(Handle::current());
        workers.help("idle", async {});
        workers.keep("busy", pending());
        tokio::task::yield_now().await;
        assert!(!*workers.died().borrow());
        workers.keep("ends", async {});
        workers.died().wait_for(|died| *died).await.unwrap();
        let workers = Workers::new(Handle::current());
        workers.help("panics", async { panic!("a bug") });
        workers.died().wait_for(|died| *died).await.unwrap();
    }

    #[tokio::test]
    async fn an_end_gives_back_what_was_held_and_is_no_death() {
        let (workers, held) = (Workers::new(Handle::current()), Arc::new(()));
        let mine = held.clone();
        workers.keep("holds", async move {
            let _mine = mine;
            pending::<()>().await;
        });
        workers.end().await;
        assert_eq!((Arc::strong_count(&held), *workers.died().borrow()), (1, false));
    }
}
