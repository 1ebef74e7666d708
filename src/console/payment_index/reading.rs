//! Fills the book of payments from the journal of this gate: the newest entries first, a bounded part at a time.
//!
//! Nothing is read until somebody looks at payments. The first answer comes after one short reading; a task reads the
//! rest, and every later question reads what was written since.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::beginning::late_beginning;
use super::book::{PaymentBook, PaymentKey};
use super::fact::{PaymentFact, behind};
use super::row::EntrySpan;
use super::stage::ForeignFact;
use crate::adapters::audit::{FilePosition, ReadBudget, Skip, read_backwards};
use crate::base::ids::OperationId;
use crate::catalog::{Catalog, Class};
use crate::ledger::{NodeId, StoreTime};

/// How much is read before an answer, and at a time behind it.
const BEFORE_ANSWER: ReadBudget = ReadBudget { bytes: 64 * 1024 * 1024, time: Duration::from_millis(150) };
const AT_A_TIME: ReadBudget = ReadBudget { bytes: 16 * 1024 * 1024, time: Duration::from_millis(40) };
/// The pause between two parts, so that others get to the book and to the processor.
const PAUSE: Duration = Duration::from_millis(20);

/// A part of the journal that is not read yet.
#[derive(Clone, Copy, Debug)]
struct UnreadPart {
    /// Where it ends; `None` is the end of the journal.
    upper: Option<FilePosition>,
    /// Where it begins; `None` is the beginning of the journal.
    lower: Option<FilePosition>,
    /// The time of the oldest entry that was read right behind it.
    read_to: Option<StoreTime>,
}

/// The book and how far the journal is in it.
#[derive(Debug)]
pub(in crate::console) struct ReadBook {
    pub book: PaymentBook,
    /// The newest part last.
    unread: Vec<UnreadPart>,
    /// The end of what was read.
    newest: Option<FilePosition>,
    /// The time from which on the journal has every entry, where it begins behind the first one.
    begins: Option<StoreTime>,
}

/// The payments of this gate's journal.
#[derive(Debug)]
pub(in crate::console) struct PaymentIndex {
    folder: PathBuf,
    node: NodeId,
    read: Mutex<ReadBook>,
    is_filling: AtomicBool,
}

impl PaymentIndex {
    pub fn new(folder: PathBuf, node: NodeId, most: usize) -> PaymentIndex {
        let unread = vec![UnreadPart { upper: None, lower: None, read_to: None }];
        let read = ReadBook { book: PaymentBook::new(most), unread, newest: None, begins: None };
        PaymentIndex { folder, node, read: Mutex::new(read), is_filling: AtomicBool::new(false) }
    }

    /// Reads what was written since, and some of what is still unread; blocks. Returns the book for one question.
    pub fn caught_up(&self, catalog: &Catalog) -> std::io::Result<MutexGuard<'_, ReadBook>> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if read.newest.is_some() {
            let part = UnreadPart { upper: None, lower: read.newest, read_to: None };
            read.unread.push(part);
        }
        self.read_on(&mut read, catalog, BEFORE_ANSWER)?;
        Ok(read)
    }

    /// Returns where the entries of a claim are; `None` where the book does not know, or nobody has looked at payments.
    pub fn span_of(&self, catalog: &Catalog, key: &PaymentKey) -> std::io::Result<Option<EntrySpan>> {
        if self.read.lock().unwrap_or_else(PoisonError::into_inner).newest.is_none() {
            return Ok(None);
        }
        let read = self.caught_up(catalog)?;
        // What was written since must be in the book.
        let is_current = read.unread.iter().all(|part| part.lower.is_none());
        let span = read.book.span_of(key).filter(|_| is_current);
        let known = |span: EntrySpan| EntrySpan { begin: span.begin.filter(|_| read.has_whole_journal()), ..span };
        Ok(span.map(known))
    }

    /// Reads the rest in a task of its own, unless one does already.
    pub fn fill(self: &Arc<Self>, catalog: Arc<Catalog>, mut stopping: watch::Receiver<bool>) {
        if self.is_filling.swap(true, Ordering::AcqRel) {
            return;
        }
        let index = self.clone();
        tokio::spawn(async move {
            loop {
                let (index, catalog) = (index.clone(), catalog.clone());
                let part = tokio::task::spawn_blocking(move || {
                    let mut read = index.read.lock().unwrap_or_else(PoisonError::into_inner);
                    index.read_on(&mut read, &catalog, AT_A_TIME).map(|()| read.unread.is_empty())
                });
                match part.await {
                    Ok(Ok(false)) => {}
                    Ok(Ok(true)) => break,
                    Ok(Err(error)) => {
                        tracing::warn!(%error, "the audit log cannot be read for the list of payments");
                        break;
                    }
                    Err(error) => {
                        tracing::error!(%error, "a task that read the audit log failed");
                        break;
                    }
                }
                if tokio::time::timeout(PAUSE, stopping.wait_for(|stopped| *stopped)).await.is_ok() {
                    break;
                }
            }
            index.is_filling.store(false, Ordering::Release);
        });
    }

    /// Reads within a budget, the newest unread part first.
    fn read_on(&self, read: &mut ReadBook, catalog: &Catalog, budget: ReadBudget) -> std::io::Result<()> {
        let ReadBook { book, unread, newest, begins } = read;
        let is_money = |operation: &str| {
            catalog.operation(&OperationId::new(operation)).is_none_or(|known| known.class == Class::Money)
        };
        let Some(part) = unread.pop() else { return Ok(()) };
        let (mut end, mut was_reached, mut read_to) = (None, false, part.read_to);
        let place = read_backwards(&self.folder, &self.node, part.upper, budget, &|_| Skip::No, &mut |line, place| {
            if part.lower.is_some_and(|lower| place < lower) {
                was_reached = true;
                return ControlFlow::Break(());
            }
            end.get_or_insert(behind(line, place));
            if let Some(fact) = PaymentFact::of_line(line, place) {
                read_to = Some(fact.at);
                if is_money(&fact.operation) {
                    book.add(fact);
                }
            } else if let Some(foreign) = ForeignFact::of_line(line) {
                book.add_foreign(foreign);
            }
            ControlFlow::Continue(())
        })?;
        *newest = (*newest).max(end);
        match place {
            Some(place) if !was_reached => unread.push(UnreadPart { upper: Some(place), lower: part.lower, read_to }),
            None if part.lower.is_none() => *begins = late_beginning(&self.folder, &self.node)?,
            Some(_) | None => {}
        }
        if book.is_full() {
            // What is older would be dropped at once.
            unread.retain(|part| part.lower.is_some());
            book.drop_before(read_to);
        }
        Ok(())
    }
}

impl ReadBook {
    /// Whether every line of the journal that is on disk is in the book.
    fn has_whole_journal(&self) -> bool {
        self.unread.is_empty() && self.book.dropped_before.is_none()
    }

    /// Whether every payment is in the book: the whole journal, which begins with the first entry.
    pub fn is_complete(&self) -> bool {
        self.has_whole_journal() && self.begins.is_none()
    }

    /// Whether reading goes on.
    pub fn is_filling(&self) -> bool {
        !self.unread.is_empty()
    }

    /// The time since which it has every payment; `None` where it has all, or none yet.
    pub fn since(&self) -> Option<StoreTime> {
        let read_to = self.unread.last().and_then(|part| part.read_to);
        read_to.max(self.book.dropped_before).max(self.begins)
    }
}
