//! The wake-up call for changes of holds on this node.

use std::sync::Arc;

use tokio::sync::watch;

/// Wakes those that wait for a change of a hold on this node.
#[derive(Clone, Debug)]
pub struct HoldChanges(Arc<watch::Sender<u64>>);

impl Default for HoldChanges {
    fn default() -> HoldChanges {
        HoldChanges(Arc::new(watch::Sender::new(0)))
    }
}

impl HoldChanges {
    pub fn happened(&self) {
        self.0.send_modify(|count| *count = count.wrapping_add(1));
    }

    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}
