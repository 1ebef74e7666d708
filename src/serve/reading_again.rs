//! Reads the configuration again, within a time: what hangs, such as a file on a disk that does not answer, is told and not
//! waited for.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::base::finding::Finding;

/// How long reading may take; afterwards the newest files count as faulty.
pub(super) const READ_DEADLINE: Duration = Duration::from_secs(30);

/// A read that took too long, and may still be under way.
#[derive(Debug, Default)]
pub(super) struct LateRead(Option<JoinHandle<()>>);

impl LateRead {
    /// Whether a read that took too long has ended since; the files are read once more then.
    pub fn has_ended(&mut self) -> bool {
        self.0.take_if(|late| late.is_finished()).is_some()
    }

    /// Reads on a thread that may block. While an earlier read hangs, no other one begins.
    pub async fn read_within<T: Send + 'static>(
        &mut self,
        deadline: Duration,
        read: impl FnOnce() -> Result<T, Vec<Finding>> + Send + 'static,
    ) -> Result<T, Vec<Finding>> {
        if self.0.as_ref().is_some_and(|late| !late.is_finished()) {
            return Err(vec![unread("an earlier attempt to read the files has not ended")]);
        }
        let (answer, waiting) = tokio::sync::oneshot::channel();
        // Nobody waits for an answer that comes too late.
        let reading = tokio::task::spawn_blocking(move || drop(answer.send(read())));
        match timeout(deadline, waiting).await {
            Ok(Ok(read)) => read,
            Ok(Err(error)) => Err(vec![unread(&error.to_string())]),
            Err(_) => {
                self.0 = Some(reading);
                Err(vec![unread(&format!("reading the files took more than {} s", deadline.as_secs()))])
            }
        }
    }
}

fn unread(why: &str) -> Finding {
    Finding::error("", format!("the configuration could not be read: {why}"))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// It is told each time, no second thread hangs beside it, and its end is noticed.
    #[tokio::test]
    async fn a_read_that_hangs_is_told_and_not_waited_for() {
        let mut late = LateRead::default();
        let (ends, waits) = mpsc::channel::<()>();
        let hang = move || {
            waits.recv().ok();
            Ok(1)
        };
        let short = Duration::from_millis(20);
        let why = |read: Result<i32, Vec<Finding>>| read.unwrap_err()[0].to_string();
        assert!(why(late.read_within(short, hang).await).contains("took more than"));
        assert!(!late.has_ended());
        assert!(why(late.read_within(short, || Ok(2)).await).contains("has not ended"));
        ends.send(()).unwrap();
        while !late.has_ended() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(late.read_within(short, || Ok(3)).await.unwrap(), 3);
    }
}
