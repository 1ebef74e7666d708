//! Parses the replies of the script, word by word.

use bytes::Bytes;

use super::{OBSTACLE, ScriptReply, wire_entry};
use crate::ledger::{Conflict, ConflictCause, Content, NodeId, Number, Record, StoreFault, StoreTime};

pub(super) fn unreadable() -> StoreFault {
    StoreFault::Broken("the reply of the Redis does not have the form of its script".to_owned())
}

pub(super) fn read_conflicts(told: &mut ReplyReader) -> Result<(StoreTime, Vec<Conflict>), StoreFault> {
    let at = told.time()?;
    let mut conflicts = Vec::new();
    while !told.is_at_end() {
        let step = usize::try_from(told.number()?.as_u64()).map_err(|_| unreadable())?;
        let mut words = told.part(OBSTACLE.saturating_sub(1))?;
        let found = match words.next()?.as_slice() {
            b"nothing" => ConflictCause::Nothing,
            b"record" => ConflictCause::Record(words.record()?),
            b"time" => ConflictCause::Time,
            b"membership" => ConflictCause::Membership,
            b"reserved" => ConflictCause::Reserved,
            b"used" => ConflictCause::Used(words.number()?.as_u64()),
            _ => return Err(unreadable()),
        };
        conflicts.push(Conflict { step, found });
    }
    Ok((at, conflicts))
}

/// A reply of the script.
pub(super) struct ReplyReader(std::vec::IntoIter<Vec<u8>>);

impl ReplyReader {
    pub fn of(told: ScriptReply) -> ReplyReader {
        ReplyReader(told.into_iter())
    }

    pub fn is_at_end(&self) -> bool {
        self.0.len() == 0
    }

    pub fn next(&mut self) -> Result<Vec<u8>, StoreFault> {
        self.0.next().ok_or_else(unreadable)
    }

    pub fn part(&mut self, words: usize) -> Result<ReplyReader, StoreFault> {
        let part: ScriptReply = self.0.by_ref().take(words).collect();
        if part.len() == words { Ok(ReplyReader::of(part)) } else { Err(unreadable()) }
    }

    pub fn text(&mut self) -> Result<String, StoreFault> {
        String::from_utf8(self.next()?).map_err(|_| unreadable())
    }

    pub fn node(&mut self) -> Result<NodeId, StoreFault> {
        NodeId::parse(&self.text()?).ok_or_else(unreadable)
    }

    pub fn number(&mut self) -> Result<Number, StoreFault> {
        self.text()?.parse().map(Number::new).map_err(|_| unreadable())
    }

    pub fn time(&mut self) -> Result<StoreTime, StoreFault> {
        self.text()?.parse().map(StoreTime::of_micros).map_err(|_| unreadable())
    }

    pub fn entry(&mut self) -> Result<Bytes, StoreFault> {
        wire_entry::entry_of(self.next()?)
    }

    pub fn record(&mut self) -> Result<Record, StoreFault> {
        let (version, at) = (self.number()?, self.time()?);
        let (state, content) = (self.next()?, self.next()?);
        let content = match state.as_slice() {
            b"whole" => Content::Whole(content.into()),
            b"spent" => Content::Spent,
            _ => return Err(unreadable()),
        };
        Ok(Record { version, at, content })
    }
}
