//! A part that opens later than the process: it is verified first, or its disk cannot be used yet.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// A part that opens once, for all who share it.
pub struct Opening<T>(watch::Sender<Option<Arc<T>>>);

impl<T> Default for Opening<T> {
    fn default() -> Opening<T> {
        Opening(watch::Sender::new(None))
    }
}

impl<T> fmt::Debug for Opening<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening").field("is_there", &self.0.borrow().is_some()).finish()
    }
}

impl<T> Opening<T> {
    /// From now on calls reach this part.
    pub fn opens(&self, part: Arc<T>) {
        self.0.send_replace(Some(part));
    }

    /// Returns the part, if it is there.
    pub fn now(&self) -> Option<Arc<T>> {
        self.0.borrow().clone()
    }

    /// Waits until the part is there.
    pub async fn opened(&self) -> Arc<T> {
        let mut opened = self.0.subscribe();
        match opened.wait_for(Option::is_some).await.map(|part| part.clone()) {
            Ok(Some(part)) => part,
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }
}
