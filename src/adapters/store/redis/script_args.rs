//! Encodes calls to the store as arguments of its script.

use std::time::Duration;

use super::super::slots;
use crate::base::ids::Environment;
use crate::ledger::{Keep, Kind, MAX_UNITS, RecordKey, Step, StoreFault, StoreTime, WindowKey, WindowSpan};

/// The arguments of one call of the script.
#[derive(Clone, Debug, Default)]
pub struct Words(Vec<Vec<u8>>);

impl Words {
    pub fn all(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Vec::as_slice)
    }

    pub fn word(mut self, word: impl AsRef<[u8]>) -> Words {
        self.0.push(word.as_ref().to_vec());
        self
    }

    pub fn then(mut self, rest: &Words) -> Words {
        self.0.extend_from_slice(&rest.0);
        self
    }

    pub fn number(self, number: u64) -> Words {
        self.word(number.to_string())
    }

    pub fn time(self, time: StoreTime) -> Words {
        self.word(time.as_micros().clamp(-StoreTime::MAX_EXACT, StoreTime::MAX_EXACT).to_string())
    }

    pub fn record(self, key: &RecordKey) -> Words {
        let kind = key.kind.as_str();
        self.word([kind.as_bytes(), b":", key.name.as_bytes()].concat())
    }

    /// Adds a window: the limit with its length before it, so that no two windows have one name.
    pub fn window(self, window: &WindowKey) -> Words {
        self.word(format!("{}:{}:{}", window.limit.len(), window.limit, window.key))
    }

    pub fn span(self, span: WindowSpan) -> Result<Words, StoreFault> {
        // An invalid span is refused here; the returned slot does not matter.
        slots::slot_of(span, StoreTime::default())?;
        match span {
            WindowSpan::Rolling { bucket, count } => {
                let micros = i64::try_from(bucket.as_micros()).ok().filter(|micros| *micros <= StoreTime::LONGEST);
                let micros = micros.ok_or_else(|| slots::senseless("a bucket that is too long"))?;
                Ok(self.word("r").word(micros.to_string()).number(u64::from(count)))
            }
            WindowSpan::Fixed { from, to } => Ok(self.word("f").time(from).time(to)),
        }
    }

    pub fn steps(self, steps: &[Step]) -> Result<Words, StoreFault> {
        steps.iter().try_fold(self, Words::step)
    }

    fn step(self, step: &Step) -> Result<Words, StoreFault> {
        Ok(match step {
            Step::Absent(key) => self.word("absent").record(key),
            Step::Version { key, version } => self.word("version").record(key).number(version.as_u64()),
            Step::Before(time) => self.word("before").time(*time),
            Step::After(time) => self.word("after").time(*time),
            Step::Above(number) => self.word("above").number(number.as_u64()),
            Step::KeepPace => self.word("keep_pace"),
            Step::FollowClock => self.word("follow_clock"),
            Step::Member { index, member } => self.word("member").word(index.as_str()).word(member),
            Step::NotMember { index, member } => self.word("not_member").word(index.as_str()).word(member),
            Step::Since { index, member, at } => self.word("since").word(index.as_str()).word(member).time(*at),
            Step::NotSince { index, member, at } => self.word("not_since").word(index.as_str()).word(member).time(*at),
            Step::Create { key, value, keep } => self.word("create").record(key).word(value).keep(*keep),
            Step::Replace { key, version, value, keep } => {
                self.word("replace").record(key).number(version.as_u64()).word(value).keep(*keep)
            }
            Step::Delete { key, version } => self.word("delete").record(key).number(version.as_u64()),
            Step::IndexAdd { index, member, due } => {
                self.word("index_add").word(index.as_str()).word(member).duration(*due)
            }
            Step::IndexEarliest { index, member, ago } => {
                self.word("index_earliest").word(index.as_str()).word(member).duration(*ago)
            }
            Step::IndexRemove { index, member } => self.word("index_remove").word(index.as_str()).word(member),
            Step::Reserve { window, span, holder, units, max } => {
                self.reserve(window, *span, holder, *units, (*max).min(MAX_UNITS))?
            }
            Step::Force { window, span, holder, units } => self.reserve(window, *span, holder, *units, MAX_UNITS)?,
            Step::Book { window, span, units, at } => {
                let words = self.word("book").window(window).number((*units).min(MAX_UNITS)).time(*at);
                words.span(*span)?
            }
            Step::Unbook { window, span, units, at } => {
                let words = self.word("unbook").window(window).number((*units).min(MAX_UNITS)).time(*at);
                words.span(*span)?
            }
            Step::Settle { window, holder } => self.word("settle").window(window).word(holder),
            Step::GiveBack { window, holder } => self.word("give_back").window(window).word(holder),
        })
    }

    fn reserve(
        self,
        window: &WindowKey,
        span: WindowSpan,
        holder: &str,
        units: u64,
        max: u64,
    ) -> Result<Words, StoreFault> {
        // One unit too many is refused just as many are, and is still exact.
        let units = units.min(MAX_UNITS.saturating_add(1));
        self.word("reserve").window(window).word(holder).number(units).number(max).span(span)
    }

    fn keep(self, keep: Keep) -> Words {
        match keep {
            Keep::Forever => self.word("").word(""),
            Keep::For { whole, spent } => self.duration(whole).duration(spent),
        }
    }

    fn duration(self, time: Duration) -> Words {
        self.word(StoreTime::micros(time).to_string())
    }
}

/// Parses the window out of a slot's name among the expiries: `s`, its begin, its end, its window.
pub(super) fn window(name: &[u8]) -> Option<WindowKey> {
    let name = std::str::from_utf8(name).ok()?.strip_prefix('s')?;
    parse_window(name.splitn(3, ' ').nth(2)?)
}

/// Parses what [`Words::window`] writes.
pub fn parse_window(name: &str) -> Option<WindowKey> {
    let (length, rest) = name.split_once(':')?;
    let (limit, key) = rest.split_at_checked(length.parse().ok()?)?;
    Some(WindowKey { limit: limit.to_owned(), key: key.strip_prefix(':')?.to_owned() })
}

/// Parses what [`Words::record`] writes.
pub(super) fn parse_record(environment: Environment, name: &str) -> Option<RecordKey> {
    let (kind, name) = name.split_once(':')?;
    Some(RecordKey { environment, kind: Kind::parse(kind)?, name: name.to_owned() })
}
