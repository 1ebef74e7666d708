//! What the script answers, read word by word.

use super::{OBSTACLE, Told};
use crate::commit::{Content, Found, NodeId, Number, Obstacle, Record, StoreFault, StoreTime};

pub(super) fn unreadable() -> StoreFault {
    StoreFault::Broken("the answer of the Redis is not as its script gives it".to_owned())
}

pub(super) fn stood(told: &mut Reader) -> Result<(StoreTime, Vec<Obstacle>), StoreFault> {
    let at = told.time()?;
    let mut obstacles = Vec::new();
    while !told.is_at_end() {
        let step = usize::try_from(told.number()?.as_u64()).map_err(|_| unreadable())?;
        let mut words = told.part(OBSTACLE.saturating_sub(1))?;
        let found = match words.next()?.as_slice() {
            b"nothing" => Found::Nothing,
            b"record" => Found::Record(words.record()?),
            b"time" => Found::Time,
            b"membership" => Found::Membership,
            b"reserved" => Found::Reserved,
            b"used" => Found::Used(words.number()?.as_u64()),
            _ => return Err(unreadable()),
        };
        obstacles.push(Obstacle { step, found });
    }
    Ok((at, obstacles))
}

/// What the script told.
pub(super) struct Reader(std::vec::IntoIter<Vec<u8>>);

impl Reader {
    pub fn of(told: Told) -> Reader {
        Reader(told.into_iter())
    }

    pub fn is_at_end(&self) -> bool {
        self.0.len() == 0
    }

    pub fn next(&mut self) -> Result<Vec<u8>, StoreFault> {
        self.0.next().ok_or_else(unreadable)
    }

    pub fn part(&mut self, words: usize) -> Result<Reader, StoreFault> {
        let part: Told = self.0.by_ref().take(words).collect();
        if part.len() == words { Ok(Reader::of(part)) } else { Err(unreadable()) }
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
