//! A journal whose entries are read and opened on threads of their own, a bounded part ahead of who takes them.

use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, SendError, SyncSender};
use std::thread::{Scope, ScopedJoinHandle};

use bytes::Bytes;

use super::repeated::ReadEntry;
use super::sealed::Seals;
use crate::adapters::audit::{JournalPart, read_journal};
use crate::audit::{Highest, InOrder};
use crate::base::ids::Environment;
use crate::ledger::{NodeId, Outstanding};

/// How many parts lie between two threads.
const QUEUE: usize = 24;
/// How many entries, and how many of their bytes, make a part.
const PART: usize = 256;
const PART_BYTES: usize = 512 << 10;

/// What comes next in a journal. `R` is what is known of an entry besides its words.
pub(super) enum JournalNews<R> {
    Entry(Outstanding, R),
    /// The journal goes on behind this number: entries before it are missing.
    GoesOn(Environment, u64),
}

/// A journal that is being read.
pub(super) struct OpenedJournal<'s> {
    /// What comes, in the order in which it is made.
    pub news: Receiver<Vec<JournalNews<ReadEntry>>>,
    reader: ScopedJoinHandle<'s, io::Result<Option<String>>>,
}

impl<'s> OpenedJournal<'s> {
    /// Reads a node's journal behind these numbers.
    pub fn begin<'e>(
        scope: &'s Scope<'s, 'e>,
        (folder, node): (&'e Path, &'e NodeId),
        behind: Highest,
        seals: &'e Seals,
    ) -> Self {
        let (read, to_open) = mpsc::sync_channel(QUEUE);
        let (opened, news) = mpsc::sync_channel(QUEUE);
        let reader = scope.spawn(move || read_in_order(folder, node, behind, read));
        scope.spawn(move || open_entries(seals, to_open, opened));
        OpenedJournal { news, reader }
    }

    /// Returns where the files stop to be what was written, once all news were taken.
    pub fn end(self) -> io::Result<Option<String>> {
        drop(self.news);
        self.reader.join().unwrap_or_else(|_| Err(io::Error::other("the thread that read it has panicked")))
    }
}

/// News on their way to another thread.
struct NewsSender<R> {
    to: SyncSender<Vec<JournalNews<R>>>,
    part: Vec<JournalNews<R>>,
    bytes: usize,
}

impl<R> NewsSender<R> {
    fn send(&mut self, news: JournalNews<R>) -> io::Result<()> {
        if let JournalNews::Entry(entry, _) = &news {
            self.bytes = self.bytes.saturating_add(entry.entry.len());
        }
        self.part.push(news);
        if self.part.len() < PART && self.bytes < PART_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.bytes = 0;
        let sent = self.to.send(std::mem::take(&mut self.part));
        sent.map_err(|SendError(_)| io::Error::other("nobody takes it"))
    }
}

fn read_in_order(
    folder: &Path,
    node: &NodeId,
    behind: Highest,
    to: SyncSender<Vec<JournalNews<()>>>,
) -> io::Result<Option<String>> {
    let mut sender = NewsSender { to, part: Vec::new(), bytes: 0 };
    let mut order = InOrder::behind(behind.clone());
    let flaw = read_journal(folder, node, &behind, &mut |part| match part {
        JournalPart::Entry(entry) => {
            let ready = order.add(entry);
            ready.into_iter().try_for_each(|entry| sender.send(JournalNews::Entry(entry, ())))
        }
        JournalPart::File(header) => header.highest.iter().try_for_each(|(&environment, &number)| {
            let Some(waited) = order.go_on(environment, &header) else { return Ok(()) };
            waited.into_iter().try_for_each(|entry| sender.send(JournalNews::Entry(entry, ())))?;
            sender.send(JournalNews::GoesOn(environment, number))
        }),
    })?;
    order.rest().try_for_each(|entry| sender.send(JournalNews::Entry(entry, ())))?;
    sender.flush()?;
    Ok(flaw)
}

/// Opens entries until there are no more, or nobody takes them.
fn open_entries(seals: &Seals, parts: Receiver<Vec<JournalNews<()>>>, opened: SyncSender<Vec<JournalNews<ReadEntry>>>) {
    for part in parts {
        let open = |news| match news {
            JournalNews::Entry(entry, ()) => {
                let read = ReadEntry::of(&entry, seals);
                // Its words are not needed any more.
                JournalNews::Entry(Outstanding { entry: Bytes::new(), ..entry }, read)
            }
            JournalNews::GoesOn(environment, number) => JournalNews::GoesOn(environment, number),
        };
        if opened.send(part.into_iter().map(open).collect()).is_err() {
            return;
        }
    }
}
