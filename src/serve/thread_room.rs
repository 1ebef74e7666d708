//! Tries whether this process may have the threads of a gate: the engine panics where it gets none, in the midst of a start.

use std::sync::{Mutex, PoisonError};
use std::thread;

use super::start_error::StartError;

/// The threads that wait for files: of the store, of the audit log and of names.
pub(super) const BLOCKING_THREADS: usize = 16;
/// The threads of listeners, of the engine, of the store, the audit log, the log and of checks.
const OWN_THREADS: usize = 14;

/// Starts as many threads at once as a gate may have, and ends them.
pub(super) fn check_thread_room(workers: usize) -> Result<(), StartError> {
    let needed = workers.saturating_add(BLOCKING_THREADS).saturating_add(OWN_THREADS);
    let end = Mutex::new(());
    let waits = || drop(end.lock().unwrap_or_else(PoisonError::into_inner));
    thread::scope(|scope| {
        let held = end.lock().unwrap_or_else(PoisonError::into_inner);
        let mut started = 0_usize;
        while started < needed {
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, waits) {
                drop(held);
                return Err(StartError::Threads { started, needed, error });
            }
            started = started.saturating_add(1);
        }
        drop(held);
        Ok(())
    })
}
