//! A list that one thread fills and another waits on.

use std::io::{BufRead as _, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::clock::{PATIENCE, Watch};

#[derive(Debug)]
pub struct Shared<T> {
    inner: Arc<(Mutex<Vec<T>>, Condvar)>,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Shared { inner: self.inner.clone() }
    }
}

impl<T: Clone> Shared<T> {
    pub fn new() -> Shared<T> {
        Shared { inner: Arc::new((Mutex::new(Vec::new()), Condvar::new())) }
    }

    pub fn push(&self, one: T) {
        self.lock().push(one);
        self.inner.1.notify_all();
    }

    pub fn all(&self) -> Vec<T> {
        self.lock().clone()
    }

    /// A wait that was in vain leaves the list as it was.
    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.inner.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first thing that `find` makes of the list, as soon as there is one.
    pub fn wait<R>(&self, what: &str, mut find: impl FnMut(&[T]) -> Option<R>) -> R {
        let watch = Watch::start();
        let mut list = self.lock();
        loop {
            if let Some(found) = find(&list) {
                return found;
            }
            assert!(watch.elapsed() < PATIENCE, "waited in vain for {what}");
            list = self.inner.1.wait_timeout(list, watch.left()).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Something that happens once, and may be waited for.
#[derive(Clone, Debug)]
pub struct Signal(Shared<()>);

impl Signal {
    pub fn new() -> Signal {
        Signal(Shared::new())
    }

    pub fn give(&self) {
        self.0.push(());
    }

    pub fn wait(&self) {
        self.0.wait("a signal", |given| (!given.is_empty()).then_some(()));
    }
}

/// Reads the lines of a stream as they come.
pub fn follow<T: Clone + Send + 'static>(
    stream: impl Read + Send + 'static,
    into: Shared<T>,
    read: impl Fn(String) -> T + Send + 'static,
) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            into.push(read(line));
        }
    })
}
