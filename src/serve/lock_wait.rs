//! Waits at a start until the previous process has let go of its files.

use std::path::Path;
use std::time::Duration;

use crate::adapters::clock::Stopwatch;
use crate::adapters::supervisor::Supervisor;

/// How often a new process tries to open what another process still has.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How often the log repeats that it is still taken.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// How a start waits.
#[derive(Clone, Copy)]
pub(super) struct LockWait<'p> {
    pub supervisor: &'p Supervisor,
    pub wait: Duration,
}

impl LockWait<'_> {
    /// Opens what lies in a folder, and waits while the previous process still has it.
    pub fn open<T, E>(
        self,
        name: &'static str,
        folder: &Path,
        open: impl Fn() -> Result<T, E>,
        is_taken: impl Fn(&E) -> bool,
    ) -> Result<T, E> {
        let (since, mut logged) = (Stopwatch::start(), None::<Duration>);
        loop {
            match open() {
                Err(error) if is_taken(&error) && since.elapsed() < self.wait => {}
                opened => return opened,
            }
            if logged.is_none_or(|logged| since.elapsed().saturating_sub(logged) > LOG_INTERVAL) {
                logged = Some(since.elapsed());
                tracing::info!(
                    folder = %folder.display(),
                    waited_secs = since.elapsed().as_secs(),
                    at_most_secs = self.wait.as_secs(),
                    "another process has the {name}; waiting until it ends, and connections wait meanwhile"
                );
                self.supervisor.waiting(&format!("the process that has the {name}"));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}
