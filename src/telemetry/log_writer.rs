//! Writes the lines of the log on a thread of its own: lines that come together are written together, and nobody waits
//! for them to be written.

use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::gathering_queue::GatheringQueue;

/// How long a line waits for others.
const MOMENT: Duration = Duration::from_millis(10);
/// The most bytes that wait while what takes the log is slow.
const MAX_WAITING: usize = 8 << 20;
/// How long the process waits at its end for what takes the log.
const LAST_LINES: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
struct LineBatch {
    bytes: Vec<u8>,
    lost: u64,
}

/// The place where lines wait; each line is one `write`.
#[derive(Clone, Debug)]
pub(super) struct WaitingLines(Arc<GatheringQueue<LineBatch>>);

/// Writes the last lines when it is dropped.
#[derive(Debug)]
pub struct LogGuard(WaitingLines);

/// Starts the thread that writes.
pub(super) fn start(mut to: impl Write + Send + 'static) -> io::Result<(WaitingLines, LogGuard)> {
    let lines = WaitingLines(Arc::new(GatheringQueue::new(MOMENT)));
    let read = lines.clone();
    let write = move || {
        while let Some(batch) = read.0.take() {
            // Nobody could be told that the log cannot be written.
            to.write_all(&batch.bytes).and_then(|()| to.flush()).ok();
            if batch.lost > 0 {
                tracing::warn!(lost = batch.lost, "lines of the log were lost: they came faster than they are taken");
            }
        }
    };
    thread::Builder::new().name("log".to_owned()).spawn(write)?;
    Ok((lines.clone(), LogGuard(lines)))
}

impl Write for WaitingLines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.0.add(|batch| {
            if batch.bytes.len().saturating_add(line.len()) > MAX_WAITING {
                batch.lost = batch.lost.saturating_add(1);
            } else {
                batch.bytes.extend_from_slice(line);
            }
        });
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogGuard {
    fn drop(&mut self) {
        let WaitingLines(lines) = &self.0;
        lines.end();
        lines.await_read(LAST_LINES);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Passes on each piece that is written, once it may.
    struct SlowTaker(Receiver<()>, Sender<Vec<u8>>);

    impl Write for SlowTaker {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().ok();
            self.1.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_last_lines_are_written_before_the_guard_is_gone() {
        let ((go, may_go), (written, pieces)) = (channel(), channel());
        let (mut lines, guard) = start(SlowTaker(may_go, written)).unwrap();
        lines.write_all(b"one\n").unwrap();
        lines.write_all(b"two\n").unwrap();
        drop(go);
        drop(guard);
        assert_eq!(pieces.try_iter().flatten().collect::<Vec<_>>(), b"one\ntwo\n");
    }

    #[test]
    fn lines_for_which_there_is_no_room_are_lost_whole() {
        let ((go, may_go), (written, pieces)) = (channel(), channel());
        let (mut lines, guard) = start(SlowTaker(may_go, written)).unwrap();
        let line = [vec![b'x'; 99_999], vec![b'\n']].concat();
        for _ in 0..200 {
            lines.write_all(&line).unwrap();
        }
        drop(go);
        drop(guard);
        let all: Vec<u8> = pieces.try_iter().flatten().collect();
        assert!(!all.is_empty() && all.len() <= 2 * MAX_WAITING, "{}", all.len());
        assert!(all.chunks(line.len()).all(|one| one == line));
    }
}
