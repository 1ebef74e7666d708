//! A queue for one reading thread, which is woken once for all that comes in a moment, and not for each thing: to wake a
//! thread costs more than most things that are passed to it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A queue of things that are read together, as a `B`.
#[derive(Debug)]
pub struct GatheringQueue<B> {
    /// How long the reader waits for more, once there is something.
    moment: Duration,
    waiting: Mutex<Waiting<B>>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Waiting<B> {
    batch: B,
    has_some: bool,
    /// The reader sleeps until there is something.
    reader_sleeps: bool,
    is_over: bool,
    /// The reader has taken everything and asks for no more.
    is_read: bool,
}

impl<B: Default> GatheringQueue<B> {
    pub fn new(moment: Duration) -> GatheringQueue<B> {
        GatheringQueue { moment, waiting: Mutex::default(), changed: Condvar::new() }
    }

    /// Adds to what waits, and never waits itself for the reader.
    pub fn add<T>(&self, add: impl FnOnce(&mut B) -> T) -> T {
        let mut waiting = self.lock();
        let added = add(&mut waiting.batch);
        waiting.has_some = true;
        if std::mem::take(&mut waiting.reader_sleeps) {
            drop(waiting);
            self.changed.notify_all();
        }
        added
    }

    /// Takes all that waits, once there is something and its moment is over; `None` after the end.
    pub fn take(&self) -> Option<B> {
        let mut waiting = self.lock();
        waiting.reader_sleeps = !waiting.has_some;
        let is_idle = |waiting: &mut Waiting<B>| !waiting.has_some && !waiting.is_over;
        let waiting = self.changed.wait_while(waiting, is_idle).unwrap_or_else(PoisonError::into_inner);
        let gathered = self.changed.wait_timeout_while(waiting, self.moment, |waiting| !waiting.is_over);
        let (mut waiting, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        waiting.reader_sleeps = false;
        if std::mem::take(&mut waiting.has_some) {
            return Some(std::mem::take(&mut waiting.batch));
        }
        waiting.is_read = true;
        self.changed.notify_all();
        None
    }

    /// Lets the reader take what waits at once, and nothing after it.
    pub fn end(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    /// Waits until the reader has taken everything after the end; false where that takes too long.
    pub fn await_read(&self, patience: Duration) -> bool {
        let all = self.changed.wait_timeout_while(self.lock(), patience, |waiting| !waiting.is_read);
        all.unwrap_or_else(PoisonError::into_inner).0.is_read
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<B>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    const MOMENT: Duration = Duration::from_millis(1);
    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn everything_is_read_in_its_order() {
        let queue = Arc::new(GatheringQueue::<Vec<u32>>::new(MOMENT));
        let reader = {
            let queue = queue.clone();
            thread::spawn(move || std::iter::from_fn(|| queue.take()).flatten().collect::<Vec<_>>())
        };
        for number in 0..10_000 {
            queue.add(|batch| batch.push(number));
            if number % 1_000 == 0 {
                thread::yield_now();
            }
        }
        queue.end();
        assert!(queue.await_read(PATIENCE));
        assert_eq!(reader.join().unwrap(), (0..10_000).collect::<Vec<_>>());
    }

    #[test]
    fn a_reader_takes_in_one_batch_what_came_while_it_was_busy() {
        let queue = GatheringQueue::<Vec<u32>>::new(MOMENT);
        for number in 0..3 {
            queue.add(|batch| batch.push(number));
        }
        assert_eq!(queue.take(), Some(vec![0, 1, 2]));
        queue.end();
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn an_end_before_everything_is_read_loses_nothing() {
        let queue = GatheringQueue::<Vec<u32>>::new(PATIENCE);
        queue.add(|batch| batch.push(1));
        queue.end();
        assert_eq!((queue.take(), queue.take()), (Some(vec![1]), None));
        assert!(queue.await_read(Duration::ZERO));
    }

    #[test]
    fn nobody_waits_for_a_reader_that_does_not_read() {
        let queue = GatheringQueue::<Vec<u32>>::new(MOMENT);
        queue.add(|batch| batch.push(1));
        queue.end();
        assert!(!queue.await_read(Duration::ZERO));
    }
}
