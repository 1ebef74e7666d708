//! Encodes calls to the store as arguments of its script.

use std::fmt;
use std::io::Write as _;

use super::super::slots;
use super::call_head::NO_TIME;
use super::name_list::NameList;
use crate::base::ids::Environment;
use crate::ledger::{
    Index, Keep, Kind, MAX_UNITS, NodeId, Number, RecordKey, Step, StoreFault, StoreTime, WindowKey, WindowSpan,
};

/// Stands for how long a record is kept.
const FOREVER: i64 = -1;
/// The places before those of the keys that steps name: the head of the store.
const FIRST_PLACES: usize = 1;
/// The bytes in which the length of a name is told.
const NAME_LENGTH: usize = 3;

/// The arguments of one call of the script, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Words {
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<usize>,
}

/// The steps of a commit in one argument: a letter for each, and numbers of a fixed size, as the script unpacks them.
#[derive(Debug, Default)]
struct PackedSteps<'s> {
    bytes: Vec<u8>,
    /// The last place of the newest step, if that is one of those that want nothing there: places in a row are one.
    absent: Option<usize>,
    /// The keys that the steps read or write, without their root: each one once. Steps tell their places, which begin
    /// behind the first ones.
    keys: NameList,
    /// The other texts of the steps, in the same way; their places begin with 1.
    texts: NameList,
    values: Vec<&'s [u8]>,
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

    pub fn time(self, time: StoreTime) -> Words {
        self.shown(exact(time))
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
        let (letter, one, other) = reach(span)?;
        Ok(self.word([letter]).shown(one).shown(other))
    }

    /// Adds the time by which a commit must be at the store. The rest of its words comes next.
    pub fn limit(mut self, limit: Option<StoreTime>) -> Words {
        let limit = limit.map_or(NO_TIME, |limit| exact(limit) as f64);
        self.bytes.extend_from_slice(&limit.to_le_bytes());
        self
    }

    /// Adds a commit behind its limit: its node, `None` for the caller; the keys that the steps read or write, other texts
    /// of them, and the steps; the entry; the values of the steps.
    pub fn commit(mut self, node: Option<&NodeId>, entry: &[u8], steps: &[Step]) -> Result<Words, StoreFault> {
        let mut packed = PackedSteps::default();
        // Members of indexes are often names of records that are written: these keys come first.
        for step in steps {
            if let Step::Create { key, .. } | Step::Replace { key, .. } = step {
                packed.record(key);
            }
        }
        steps.iter().try_for_each(|step| packed.step(step))?;
        let node = node.map_or("", NodeId::as_str);
        self.bytes.push(u8::try_from(node.len()).map_err(|_| slots::senseless("a node with such a name"))?);
        self.bytes.extend_from_slice(node.as_bytes());
        let counts = [packed.keys.count(), packed.texts.count()];
        for count in counts {
            self.bytes.extend_from_slice(&place_of(count)?.to_le_bytes());
        }
        let of_names = counts.iter().sum::<usize>().saturating_mul(NAME_LENGTH);
        let of_values = packed.values.iter().map(|value| value.len()).sum::<usize>();
        let lengths = [of_names, packed.keys.bytes(), packed.texts.bytes(), packed.bytes.len(), entry.len(), of_values];
        self.bytes.reserve(lengths.into_iter().fold(0, usize::saturating_add));
        for name in packed.keys.all().chain(packed.texts.all()) {
            let length = u32::try_from(name.len()).map_or([u8::MAX; 4], u32::to_le_bytes);
            match length.split_at(NAME_LENGTH) {
                (length, [0]) => self.bytes.extend_from_slice(length),
                _ => return Err(slots::senseless("a name that is too long")),
            }
            self.bytes.extend_from_slice(name.as_bytes());
        }
        let words = self.word(&packed.bytes).word(entry);
        Ok(packed.values.iter().fold(words, Words::word))
    }
}

impl<'s> PackedSteps<'s> {
    fn step(&mut self, step: &'s Step) -> Result<(), StoreFault> {
        let absent = self.absent.take();
        match step {
            Step::Absent(key) => {
                let place = self.record(key);
                // The script makes as many steps of it as there are places.
                match absent.filter(|before| before.saturating_add(1) == place) {
                    Some(_) => self.bytes.truncate(self.bytes.len().saturating_sub(size_of::<u16>())),
                    None => self.letter(b'a').place(place)?,
                }
                self.absent = Some(place);
                self.place(place)
            }
            Step::Version { key, version } => {
                let place = self.record(key);
                self.letter(b'v').place(place)?;
                self.number(version.as_u64())
            }
            Step::Before(time) => self.letter(b'<').time(*time),
            Step::After(time) => self.letter(b'>').time(*time),
            Step::Above(number) => self.letter(b'^').number(number.as_u64()),
            Step::KeepPace => self.alone(b'k'),
            Step::CorrectClock { micros } => self.letter(b'C').micros(*micros),
            Step::FollowClock => self.alone(b'f'),
            Step::Member { index, member } => self.letter(b'm').member(*index, member),
            Step::NotMember { index, member } => self.letter(b'n').member(*index, member),
            Step::Since { index, member, at } => {
                self.letter(b'M').member(*index, member)?;
                self.time(*at)
            }
            Step::NotSince { index, member, at } => {
                self.letter(b'N').member(*index, member)?;
                self.time(*at)
            }
            Step::Create { key, value, keep } => self.put(b'c', key, None, value, *keep),
            Step::Replace { key, version, value, keep } => self.put(b'r', key, Some(*version), value, *keep),
            Step::Delete { key, version } => {
                let place = self.record(key);
                self.letter(b'd').place(place)?;
                self.number(version.as_u64())
            }
            Step::IndexAdd { index, member, due } => {
                self.letter(b'+').member(*index, member)?;
                self.micros(StoreTime::micros(*due))
            }
            Step::IndexEarliest { index, member, ago } => {
                self.letter(b'e').member(*index, member)?;
                self.micros(StoreTime::micros(*ago))
            }
            Step::IndexRemove { index, member } => self.letter(b'-').member(*index, member),
            Step::Reserve { window, span, holder, units, max } => {
                self.reserve(window, *span, holder, *units, (*max).min(MAX_UNITS))
            }
            Step::Force { window, span, holder, units } => self.reserve(window, *span, holder, *units, MAX_UNITS),
            Step::Book { window, span, units, at } => self.booked(b'b', window, *span, *units, *at),
            Step::Unbook { window, span, units, at } => self.booked(b't', window, *span, *units, *at),
            Step::Settle { window, holder } => {
                // The window is not read: the holder tells all of it.
                let (name, holder) = (self.texts.place(format_args!("{}", WindowName(window))), self.holder(holder));
                self.letter(b's').place(name)?;
                self.place(holder)
            }
            Step::GiveBack { window, holder } => {
                let (window, holder) = (self.window(window), self.holder(holder));
                self.letter(b'g').place(window)?;
                self.place(holder)
            }
        }
    }

    fn record(&mut self, key: &RecordKey) -> usize {
        self.key(format_args!(":r:{}:{}", key.kind.as_str(), key.name))
    }

    fn window(&mut self, window: &WindowKey) -> usize {
        self.key(format_args!(":s:{}", WindowName(window)))
    }

    fn holder(&mut self, holder: &str) -> usize {
        self.key(format_args!(":h:{holder}"))
    }

    fn key(&mut self, name: fmt::Arguments<'_>) -> usize {
        self.keys.place(name).saturating_add(FIRST_PLACES)
    }

    fn letter(&mut self, letter: u8) -> &mut Self {
        self.bytes.push(letter);
        self
    }

    fn alone(&mut self, letter: u8) -> Result<(), StoreFault> {
        self.letter(letter);
        Ok(())
    }

    fn place(&mut self, place: usize) -> Result<(), StoreFault> {
        self.bytes.extend_from_slice(&place_of(place)?.to_le_bytes());
        Ok(())
    }

    fn micros(&mut self, micros: i64) -> Result<(), StoreFault> {
        self.bytes.extend_from_slice(&micros.to_le_bytes());
        Ok(())
    }

    fn number(&mut self, number: u64) -> Result<(), StoreFault> {
        self.micros(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn time(&mut self, time: StoreTime) -> Result<(), StoreFault> {
        self.micros(exact(time))
    }

    fn member(&mut self, index: Index, member: &str) -> Result<(), StoreFault> {
        let index = index.as_str();
        let length = u8::try_from(index.len()).map_err(|_| slots::senseless("an index with such a name"))?;
        self.letter(length).bytes.extend_from_slice(index.as_bytes());
        // A key that ends with it has it already. The script counts bytes from 1 on.
        let ending = self.keys.all().enumerate().find_map(|(nth, key)| {
            let before = key.strip_suffix(member).filter(|before| before.ends_with(':'))?;
            Some((nth.saturating_add(FIRST_PLACES + 1), u8::try_from(before.len()).ok()?.checked_add(1)?))
        });
        let (place, cut) = ending.unwrap_or_else(|| (self.texts.place(format_args!("{member}")), 0));
        self.place(place)?;
        self.bytes.push(cut);
        Ok(())
    }

    fn put(
        &mut self,
        letter: u8,
        key: &RecordKey,
        version: Option<Number>,
        value: &'s [u8],
        keep: Keep,
    ) -> Result<(), StoreFault> {
        let place = self.record(key);
        self.values.push(value);
        self.letter(letter).place(place)?;
        if let Some(version) = version {
            self.number(version.as_u64())?;
        }
        let (whole, spent) = match keep {
            Keep::Forever => (FOREVER, 0),
            Keep::For { whole, spent } => (StoreTime::micros(whole), StoreTime::micros(spent)),
        };
        self.micros(whole)?;
        self.micros(spent)
    }

    fn reserve(
        &mut self,
        window: &WindowKey,
        span: WindowSpan,
        holder: &str,
        units: u64,
        max: u64,
    ) -> Result<(), StoreFault> {
        let (window, holder) = (self.window(window), self.holder(holder));
        self.letter(b'u').place(window)?;
        self.place(holder)?;
        // One unit too many is refused just as many are, and is still exact.
        self.number(units.min(MAX_UNITS.saturating_add(1)))?;
        self.number(max)?;
        self.span(span)
    }

    fn booked(
        &mut self,
        letter: u8,
        window: &WindowKey,
        span: WindowSpan,
        units: u64,
        at: StoreTime,
    ) -> Result<(), StoreFault> {
        let window = self.window(window);
        self.letter(letter).place(window)?;
        self.number(units.min(MAX_UNITS))?;
        self.time(at)?;
        self.span(span)
    }

    fn span(&mut self, span: WindowSpan) -> Result<(), StoreFault> {
        let (letter, one, other) = reach(span)?;
        self.letter(letter).micros(one)?;
        self.micros(other)
    }
}

fn place_of(place: usize) -> Result<u16, StoreFault> {
    u16::try_from(place).map_err(|_| slots::senseless("too many keys"))
}

fn exact(time: StoreTime) -> i64 {
    time.as_micros().clamp(-StoreTime::MAX_EXACT, StoreTime::MAX_EXACT)
}

/// Returns the kind of a span, and its bucket and their count, or its begin and its end.
fn reach(span: WindowSpan) -> Result<(u8, i64, i64), StoreFault> {
    // An invalid span is refused here; the returned slot does not matter.
    slots::slot_of(span, StoreTime::default())?;
    match span {
        WindowSpan::Rolling { bucket, count } => {
            let micros = i64::try_from(bucket.as_micros()).ok().filter(|micros| *micros <= StoreTime::LONGEST);
            let micros = micros.ok_or_else(|| slots::senseless("a bucket that is too long"))?;
            Ok((b'r', micros, i64::from(count)))
        }
        WindowSpan::Fixed { from, to } => Ok((b'f', exact(from), exact(to))),
    }
}

/// Returns where the names of the windows of a limit begin and end, in the order of bytes, as `ZRANGE … BYLEX` takes
/// them; of all windows without a limit. They begin behind a window, where one is given.
pub(super) fn window_names(limit: Option<&str>, behind: Option<&WindowKey>) -> (String, String) {
    let (from, to) = match limit {
        // The letter behind `:` is `;`.
        Some(limit) => (format!("[{}:{limit}:", limit.len()), format!("({}:{limit};", limit.len())),
        None => ("-".to_owned(), "+".to_owned()),
    };
    (behind.map_or(from, |window| format!("({}", WindowName(window))), to)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: &str) -> RecordKey {
        RecordKey { environment: Environment::Sandbox, kind: Kind::Claim, name: name.to_owned() }
    }

    #[test]
    fn steps_that_want_nothing_in_a_row_of_places_are_one() {
        let steps = [
            Step::Absent(claim("a")),
            Step::Absent(claim("b")),
            Step::Version { key: claim("a"), version: Number::new(7) },
            Step::Absent(claim("c")),
            Step::Absent(claim("b")),
            Step::IndexRemove { index: Index::Sending, member: "a".to_owned() },
            Step::IndexRemove { index: Index::Sending, member: "d".to_owned() },
        ];
        let words = Words::default().limit(None).commit(None, b"entry", &steps).unwrap();
        let words: Vec<&[u8]> = words.all().collect();
        let (head, rest) = words[0].split_at(13);
        assert_eq!(head, [&f64::INFINITY.to_le_bytes()[..], b"\0\x03\0\x01\0"].concat());
        let names: [&[u8]; 4] = [b"\x0a\0\0:r:claim:a", b"\x0a\0\0:r:claim:b", b"\x0a\0\0:r:claim:c", b"\x01\0\0d"];
        let packed: [&[u8]; 6] = [
            b"a\x02\0\x03\0",
            b"v\x02\0\x07\0\0\0\0\0\0\0",
            b"a\x04\0\x04\0",
            b"a\x03\0\x03\0",
            // A key ends with this one, and none with the other.
            b"-\x07sending\x02\0\x0a",
            b"-\x07sending\x01\0\0",
        ];
        assert_eq!(rest, [names.concat(), packed.concat()].concat());
        assert_eq!(words[1..], [b"entry"]);
    }

    #[test]
    fn more_keys_than_places_are_refused() {
        let last = usize::from(u16::MAX);
        assert!(PackedSteps::default().place(last).is_ok());
        assert!(PackedSteps::default().place(last + 1).is_err());
    }
}
