//! Writes gathered changes to a replica on a thread of its own, while the next ones are gathered.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::Scope;

use super::gathered::GatheredChanges;
use super::leaving_changes::LeavingChanges;
use super::repeated;
use super::replica::Replica;
use crate::ledger::StoreFault;

/// Changes, and whether they are on disk once they are written.
type ChangesToWrite = (Arc<LeavingChanges>, bool);

pub(super) struct ChangesWriter<'r> {
    replica: &'r Replica,
    to: SyncSender<ChangesToWrite>,
    written: Receiver<Result<(), StoreFault>>,
    is_busy: bool,
}

impl<'r> ChangesWriter<'r> {
    pub fn begin<'s>(scope: &'s Scope<'s, 'r>, replica: &'r Replica) -> Self {
        let (to, changes) = mpsc::sync_channel::<ChangesToWrite>(1);
        let (writes, written) = mpsc::sync_channel(1);
        scope.spawn(move || {
            for (changes, is_durable) in changes {
                let done = replica.write_changes(&changes, is_durable);
                // The other thread need not free them.
                drop(changes);
                if writes.send(done).is_err() {
                    return;
                }
            }
        });
        ChangesWriter { replica, to, written, is_busy: false }
    }

    /// Has what was gathered written. It waits for what was to be written before.
    pub fn write(&mut self, gathered: &mut GatheredChanges) -> Result<(), StoreFault> {
        self.send(gathered, false)
    }

    /// Has everything written, without what expired, and waits until it is on disk.
    pub fn write_all(&mut self, gathered: &mut GatheredChanges) -> Result<(), StoreFault> {
        // Few changes are left in memory when those that expired are looked for.
        self.send(gathered, false)?;
        self.wait(gathered)?;
        repeated::sweep(gathered)?;
        self.send(gathered, true)?;
        self.wait(gathered)
    }

    fn send(&mut self, gathered: &mut GatheredChanges, is_durable: bool) -> Result<(), StoreFault> {
        self.wait(gathered)?;
        self.to.send((gathered.leave()?, is_durable)).map_err(|_| ended())?;
        self.is_busy = true;
        Ok(())
    }

    fn wait(&mut self, gathered: &mut GatheredChanges) -> Result<(), StoreFault> {
        if std::mem::take(&mut self.is_busy) {
            self.written.recv().map_err(|_| ended())??;
            gathered.goes_on(self.replica.latest()?);
        }
        Ok(())
    }
}

fn ended() -> StoreFault {
    StoreFault::Away("the thread that writes the store has panicked".to_owned())
}
