//! Encodes calls to the store as arguments of its script.

use std::fmt;
use std::io::Write as _;
use std::time::Duration;

use super::super::slots;
use crate::base::ids::Environment;
use crate::ledger::{Keep, Kind, MAX_UNITS, RecordKey, Step, StoreFault, StoreTime, WindowKey, WindowSpan};

/// The arguments of one call of the script, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Words {
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
}

/// The keys that the steps of a commit read or write, without their root: each one once.
#[derive(Debug, Default)]
struct StepKeys(Vec<String>);

impl StepKeys {
    /// Returns the place of a key among them, from 1 on.
    fn place(&mut self, key: String) -> usize {
        let known = self.0.iter().position(|known| *known == key);
        let at = known.unwrap_or_else(|| {
            self.0.push(key);
            self.0.len().saturating_sub(1)
        });
        at.saturating_add(1)
    }

    fn record(&mut self, key: &RecordKey) -> usize {
        self.place([":r:", key.kind.as_str(), ":", &key.name].concat())
    }

    fn window(&mut self, window: &WindowKey) -> usize {
        self.place(format!(":s:{}", WindowName(window)))
    }

    fn holder(&mut self, holder: &str) -> usize {
        self.place([":h:", holder].concat())
    }
}

/// A window in the names of keys: the limit with its length before it, so that no two windows have one name.
struct WindowName<'w>(&'w WindowKey);

impl fmt::Display for WindowName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WindowKey { limit, key } = self.0;
        write!(f, "{}:{limit}:{key}", limit.len())
    }
}

impl Words {
    pub fn all(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| self.bytes.get(begin..*end).unwrap_or_default())
    }

    /// Returns how many arguments these are, and how many bytes they have.
    pub fn size(&self) -> (usize, usize) {
        (self.ends.len(), self.bytes.len())
    }

    pub fn word(mut self, word: impl AsRef<[u8]>) -> Words {
        self.bytes.extend_from_slice(word.as_ref());
        self.ended()
    }

    fn ended(mut self) -> Words {
        self.ends.push(self.bytes.len());
        self
    }

    fn shown(mut self, word: impl fmt::Display) -> Words {
        // Writing to memory does not fail.
        if write!(self.bytes, "{word}").is_err() {
            tracing::error!("an argument of the store's script cannot be written");
        }
        self.ended()
    }

    pub fn then(mut self, rest: &Words) -> Words {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(&rest.bytes);
        self.ends.extend(rest.ends.iter().map(|end| before.saturating_add(*end)));
        self
    }

    pub fn number(self, number: u64) -> Words {
        self.shown(number)
    }

    fn place(self, place: usize) -> Words {
        self.shown(place)
    }

    pub fn time(self, time: StoreTime) -> Words {
        self.shown(time.as_micros().clamp(-StoreTime::MAX_EXACT, StoreTime::MAX_EXACT))
    }

    pub fn record(mut self, key: &RecordKey) -> Words {
        for part in [key.kind.as_str(), ":", &key.name] {
            self.bytes.extend_from_slice(part.as_bytes());
        }
        self.ended()
    }

    pub fn window(self, window: &WindowKey) -> Words {
        self.shown(WindowName(window))
    }

    pub fn span(self, span: WindowSpan) -> Result<Words, StoreFault> {
        // An invalid span is refused here; the returned slot does not matter.
        slots::slot_of(span, StoreTime::default())?;
        match span {
            WindowSpan::Rolling { bucket, count } => {
                let micros = i64::try_from(bucket.as_micros()).ok().filter(|micros| *micros <= StoreTime::LONGEST);
                let micros = micros.ok_or_else(|| slots::senseless("a bucket that is too long"))?;
                Ok(self.word("r").shown(micros).number(u64::from(count)))
            }
            WindowSpan::Fixed { from, to } => Ok(self.word("f").time(from).time(to)),
        }
    }

    /// Adds the keys that the steps read or write, and the steps, which tell the places of their keys.
    pub fn steps(self, steps: &[Step]) -> Result<Words, StoreFault> {
        let mut keys = StepKeys::default();
        let steps = steps.iter().try_fold(Words::default(), |words, step| words.step(step, &mut keys))?;
        let named = keys.0.iter().fold(self.place(keys.0.len()), Words::word);
        Ok(named.then(&steps))
    }

    fn step(self, step: &Step, keys: &mut StepKeys) -> Result<Words, StoreFault> {
        Ok(match step {
            Step::Absent(key) => self.word("absent").place(keys.record(key)),
            Step::Version { key, version } => self.word("version").place(keys.record(key)).number(version.as_u64()),
            Step::Before(time) => self.word("before").time(*time),
            Step::After(time) => self.word("after").time(*time),
            Step::Above(number) => self.word("above").number(number.as_u64()),
            Step::KeepPace => self.word("keep_pace"),
            Step::CorrectClock { micros } => self.word("correct_clock").shown(*micros),
            Step::FollowClock => self.word("follow_clock"),
            Step::Member { index, member } => self.word("member").word(index.as_str()).word(member),
            Step::NotMember { index, member } => self.word("not_member").word(index.as_str()).word(member),
            Step::Since { index, member, at } => self.word("since").word(index.as_str()).word(member).time(*at),
            Step::NotSince { index, member, at } => self.word("not_since").word(index.as_str()).word(member).time(*at),
            Step::Create { key, value, keep } => self.word("create").place(keys.record(key)).word(value).keep(*keep),
            Step::Replace { key, version, value, keep } => {
                self.word("replace").place(keys.record(key)).number(version.as_u64()).word(value).keep(*keep)
            }
            Step::Delete { key, version } => self.word("delete").place(keys.record(key)).number(version.as_u64()),
            Step::IndexAdd { index, member, due } => {
                self.word("index_add").word(index.as_str()).word(member).duration(*due)
            }
            Step::IndexEarliest { index, member, ago } => {
                self.word("index_earliest").word(index.as_str()).word(member).duration(*ago)
            }
            Step::IndexRemove { index, member } => self.word("index_remove").word(index.as_str()).word(member),
            Step::Reserve { window, span, holder, units, max } => {
                let places = (keys.window(window), keys.holder(holder));
                self.reserve(places, *span, *units, (*max).min(MAX_UNITS))?
            }
            Step::Force { window, span, holder, units } => {
                let places = (keys.window(window), keys.holder(holder));
                self.reserve(places, *span, *units, MAX_UNITS)?
            }
            Step::Book { window, span, units, at } => {
                let words = self.word("book").place(keys.window(window));
                words.number((*units).min(MAX_UNITS)).time(*at).span(*span)?
            }
            Step::Unbook { window, span, units, at } => {
                let words = self.word("unbook").place(keys.window(window));
                words.number((*units).min(MAX_UNITS)).time(*at).span(*span)?
            }
            Step::Settle { window, holder } => {
                self.word("settle").place(keys.window(window)).place(keys.holder(holder))
            }
            Step::GiveBack { window, holder } => {
                self.word("give_back").place(keys.window(window)).place(keys.holder(holder))
            }
        })
    }

    fn reserve(
        self,
        (window, holder): (usize, usize),
        span: WindowSpan,
        units: u64,
        max: u64,
    ) -> Result<Words, StoreFault> {
        // One unit too many is refused just as many are, and is still exact.
        let units = units.min(MAX_UNITS.saturating_add(1));
        self.word("reserve").place(window).place(holder).number(units).number(max).span(span)
    }

    fn keep(self, keep: Keep) -> Words {
        match keep {
            Keep::Forever => self.word("").word(""),
            Keep::For { whole, spent } => self.duration(whole).duration(spent),
        }
    }

    fn duration(self, time: Duration) -> Words {
        self.shown(StoreTime::micros(time))
    }
}

/// Returns where the names of the windows of a limit begin and end, in the order of bytes, as `ZRANGE … BYLEX` takes
/// them; of all windows without a limit.
pub(super) fn window_names(limit: Option<&str>) -> (String, String) {
    match limit {
        // The letter behind `:` is `;`.
        Some(limit) => (format!("[{}:{limit}:", limit.len()), format!("({}:{limit};", limit.len())),
        None => ("-".to_owned(), "+".to_owned()),
    }
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
