//! The tasks that run as long as the process. If a required one ends, the process ends regularly: a gate that lacks a
//! part of itself must not move money.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};

/// A task, and the task that watches it.
type WatchedTask = (AbortHandle, JoinHandle<()>);

/// The long-running tasks of a process.
#[derive(Clone, Debug)]
pub(super) struct Workers {
    runtime: Handle,
    died: watch::Sender<bool>,
    tasks: Arc<Mutex<Vec<WatchedTask>>>,
}

impl Workers {
    pub fn new(runtime: Handle) -> Workers {
        Workers { runtime, died: watch::Sender::new(false), tasks: Arc::default() }
    }

    /// Spawns a task that must not end while the process runs: if it ends, the process ends.
    pub fn spawn_required(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        self.watch(name, false, work);
    }

    /// Spawns a task that may end when it has nothing to do; if it panics, the process ends.
    pub fn spawn_optional(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
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
            tracing::error!(worker = name, how, "a part of the gate failed: the process ends");
            died.send_replace(true);
        });
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).push((abort, watching));
    }

    /// Returns a receiver that becomes true when a task has failed.
    pub fn died(&self) -> watch::Receiver<bool> {
        self.died.subscribe()
    }

    /// Ends all tasks; what they held is released when this returns.
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
    async fn an_end_or_a_panic_ends_the_process_unless_the_task_may_end() {
        let workers = Workers::new(Handle::current());
        workers.spawn_optional("idle", async {});
        workers.spawn_required("busy", pending());
        tokio::task::yield_now().await;
        assert!(!*workers.died().borrow());
        workers.spawn_required("ends", async {});
        workers.died().wait_for(|died| *died).await.unwrap();
        let workers = Workers::new(Handle::current());
        workers.spawn_optional("panics", async { panic!("a bug") });
        workers.died().wait_for(|died| *died).await.unwrap();
    }

    #[tokio::test]
    async fn an_end_releases_what_tasks_held_and_is_no_failure() {
        let (workers, held) = (Workers::new(Handle::current()), Arc::new(()));
        let mine = held.clone();
        workers.spawn_required("holds", async move {
            let _mine = mine;
            pending::<()>().await;
        });
        workers.end().await;
        assert_eq!((Arc::strong_count(&held), *workers.died().borrow()), (1, false));
    }
}
