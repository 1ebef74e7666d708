//! How what a store keeps is laid out as ordered keys and values: one map of bytes to bytes.
//!
//! A key begins with the letter of its table. Text that something follows stands behind its length, times and numbers
//! stand in the order of their values, so that the order of the bytes is the order that is asked for.
//!
//! | key | value |
//! |---|---|
//! | `f` | the version of this format |
//! | `t` | the latest time of a commit |
//! | `n` environment | the number of the latest commit |
//! | `r` environment kind name | a record |
//! | `d` environment index due member | nothing |
//! | `m` environment index member | due |
//! | `s` environment limit key end begin | units spent in a slot, and until when they can matter |
//! | `h` environment limit key holder | what the holder reserved: end, begin, units |
//! | `o` environment number | an Entry that is not on disk yet |
//! | `x` time key | nothing; the record or slot under `key` changes then by its age alone |

use bytes::Bytes;

use crate::base::ids::Environment;
use crate::commit::{Content, Index, Kind, NodeId, Number, Outstanding, RecordKey, StoreFault, StoreTime, WindowKey};

/// The version of the format that this program writes.
pub(super) const FORMAT: u64 = 1;
/// What is kept until then is kept forever.
pub(super) const FOREVER: StoreTime = StoreTime::of_micros(i64::MAX);

/// All that a store keeps, one by one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Format(u64),
    Time(StoreTime),
    Last(Environment, Number),
    Record(RecordKey, Stored),
    /// A member of an index; it lies under two keys.
    Member {
        environment: Environment,
        index: Index,
        member: String,
        due: StoreTime,
    },
    Slot {
        environment: Environment,
        window: WindowKey,
        slot: Slot,
        spent: Spent,
    },
    Holder {
        environment: Environment,
        window: WindowKey,
        holder: String,
        slot: Slot,
        units: u64,
    },
    Outstanding(Outstanding),
    /// Follows from another item.
    Derived,
}

/// A record with the times of its keeping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub version: Number,
    pub at: StoreTime,
    pub whole_until: StoreTime,
    pub gone_at: StoreTime,
    pub content: Content,
}

impl Stored {
    /// When its age alone changes it next.
    pub fn turns(&self) -> Option<StoreTime> {
        let next = match self.content {
            Content::Whole(_) => self.whole_until,
            Content::Spent => self.gone_at,
        };
        (next != FOREVER).then_some(next)
    }
}

/// The time over which reservations are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub begin: StoreTime,
    pub end: StoreTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spent {
    pub units: u64,
    /// From then on no window reaches back to it.
    pub until: StoreTime,
}

impl Item {
    /// The keys and values of this item, those that follow from it included.
    pub fn pairs(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        match self {
            Item::Format(version) => vec![(format(), Writer::default().number(*version).0)],
            Item::Time(time) => vec![(time_key(), Writer::default().time(*time).0)],
            Item::Last(environment, number) => {
                vec![(last(*environment), Writer::default().number(number.as_u64()).0)]
            }
            Item::Record(key, stored) => {
                let at = record(key);
                let turn = stored.turns().map(|time| (expiry(time, &at), Vec::new()));
                [(at, stored_value(stored))].into_iter().chain(turn).collect()
            }
            Item::Member { environment, index, member: name, due: time } => vec![
                (due(*environment, *index, *time, name), Vec::new()),
                (member(*environment, *index, name), Writer::default().time(*time).0),
            ],
            Item::Slot { environment, window, slot: time, spent } => {
                let at = slot(*environment, window, *time);
                let value = Writer::default().time(spent.until).number(spent.units).0;
                vec![(expiry(spent.until, &at), Vec::new()), (at, value)]
            }
            Item::Holder { environment, window, holder: name, slot, units } => {
                let value = Writer::default().time(slot.end).time(slot.begin).number(*units).0;
                vec![(holder(*environment, window, name), value)]
            }
            Item::Outstanding(entry) => {
                let value = Writer::default().time(entry.at).text(entry.node.as_str()).rest(&entry.entry).0;
                vec![(outstanding(entry.environment, entry.number), value)]
            }
            Item::Derived => Vec::new(),
        }
    }

    pub fn read(key: &[u8], value: &[u8]) -> Result<Item, StoreFault> {
        let (mut key, mut value) = (Reader(key), Reader(value));
        let item = match key.byte()? {
            b'f' => Item::Format(value.number()?),
            b't' => Item::Time(value.time()?),
            b'n' => Item::Last(key.environment()?, Number::new(value.number()?)),
            b'r' => {
                let environment = key.environment()?;
                let kind = named(&key.text()?, &Kind::ALL, Kind::as_str)?;
                Item::Record(RecordKey { environment, kind, name: key.rest_text()? }, value.stored()?)
            }
            b'm' => {
                let environment = key.environment()?;
                let index = named(&key.text()?, &Index::ALL, Index::as_str)?;
                Item::Member { environment, index, member: key.rest_text()?, due: value.time()? }
            }
            b's' => {
                let (environment, window) = (key.environment()?, key.window()?);
                let slot = key.slot()?;
                let (until, units) = (value.time()?, value.number()?);
                Item::Slot { environment, window, slot, spent: Spent { units, until } }
            }
            b'h' => {
                let (environment, window, holder) = (key.environment()?, key.window()?, key.rest_text()?);
                Item::Holder { environment, window, holder, slot: value.slot()?, units: value.number()? }
            }
            b'o' => {
                let (environment, number) = (key.environment()?, Number::new(key.number()?));
                let (at, node) = (value.time()?, value.text()?);
                let node = NodeId::parse(&node).ok_or_else(|| broken("the name of a node"))?;
                Item::Outstanding(Outstanding { environment, number, at, node, entry: value.rest() })
            }
            b'd' | b'x' => Item::Derived,
            _ => return Err(broken("a table that this version does not know")),
        };
        Ok(item)
    }
}

pub(super) fn format() -> Vec<u8> {
    vec![b'f']
}

pub(super) fn time_key() -> Vec<u8> {
    vec![b't']
}

pub(super) fn last(environment: Environment) -> Vec<u8> {
    table(b'n', environment).0
}

pub(super) fn record(key: &RecordKey) -> Vec<u8> {
    table(b'r', key.environment).text(key.kind.as_str()).rest(key.name.as_bytes()).0
}

pub(super) fn due(environment: Environment, index: Index, time: StoreTime, member: &str) -> Vec<u8> {
    table(b'd', environment).text(index.as_str()).time(time).rest(member.as_bytes()).0
}

/// All of an index, in the order of time.
pub(super) fn due_all(environment: Environment, index: Index) -> Vec<u8> {
    table(b'd', environment).text(index.as_str()).0
}

pub(super) fn member(environment: Environment, index: Index, member: &str) -> Vec<u8> {
    table(b'm', environment).text(index.as_str()).rest(member.as_bytes()).0
}

pub(super) fn slot(environment: Environment, window: &WindowKey, slot: Slot) -> Vec<u8> {
    table(b's', environment).text(&window.limit).text(&window.key).time(slot.end).time(slot.begin).0
}

/// All slots of all windows, or of those of one limit.
pub(super) fn windows(environment: Environment, limit: Option<&str>) -> Vec<u8> {
    let all = table(b's', environment);
    limit.map_or_else(|| Writer(all.0.clone()), |limit| Writer(all.0.clone()).text(limit)).0
}

/// All slots of a window, in the order of their ends.
pub(super) fn slots(environment: Environment, window: &WindowKey) -> Vec<u8> {
    table(b's', environment).text(&window.limit).text(&window.key).0
}

pub(super) fn holder(environment: Environment, window: &WindowKey, holder: &str) -> Vec<u8> {
    table(b'h', environment).text(&window.limit).text(&window.key).rest(holder.as_bytes()).0
}

pub(super) fn outstanding(environment: Environment, number: Number) -> Vec<u8> {
    table(b'o', environment).number(number.as_u64()).0
}

/// The whole outbox of an environment, in the order of numbers.
pub(super) fn outbox(environment: Environment) -> Vec<u8> {
    table(b'o', environment).0
}

pub(super) fn expiry(time: StoreTime, key: &[u8]) -> Vec<u8> {
    Writer(vec![b'x']).time(time).rest(key).0
}

/// Everything that turns by its age, the earliest first.
pub(super) fn expiries() -> Vec<u8> {
    vec![b'x']
}

/// When, and which key.
pub(super) fn read_expiry(key: &[u8]) -> Result<(StoreTime, Vec<u8>), StoreFault> {
    let mut key = Reader(key);
    key.byte()?;
    Ok((key.time()?, key.rest().to_vec()))
}

/// When, and who.
pub(super) fn read_due(key: &[u8]) -> Result<(StoreTime, String), StoreFault> {
    let mut key = Reader(key);
    key.byte()?;
    key.environment()?;
    key.text()?;
    Ok((key.time()?, key.rest_text()?))
}

/// `prefix` with a time behind it.
pub(super) fn with_time(prefix: &[u8], time: StoreTime) -> Vec<u8> {
    Writer(prefix.to_vec()).time(time).0
}

/// The first key that does not begin with `prefix` and stands behind all that do.
pub(super) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(byte) = end.pop() {
        if let Some(next) = byte.checked_add(1) {
            end.push(next);
            break;
        }
    }
    end
}

pub(super) fn broken(what: &str) -> StoreFault {
    StoreFault::Broken(format!("{what} is not as this version of Sluice writes it"))
}

fn stored_value(stored: &Stored) -> Vec<u8> {
    let head = Writer::default().number(stored.version.as_u64()).time(stored.at);
    let head = head.time(stored.whole_until).time(stored.gone_at);
    match &stored.content {
        Content::Whole(value) => head.byte(b'w').rest(value).0,
        Content::Spent => head.byte(b's').0,
    }
}

fn table(letter: u8, environment: Environment) -> Writer {
    Writer(vec![letter]).text(environment.as_str())
}

fn named<T: Copy>(name: &str, all: &[T], name_of: impl Fn(T) -> &'static str) -> Result<T, StoreFault> {
    all.iter().copied().find(|one| name_of(*one) == name).ok_or_else(|| broken("a name in a key"))
}

#[derive(Debug, Default)]
struct Writer(Vec<u8>);

impl Writer {
    fn byte(mut self, byte: u8) -> Writer {
        self.0.push(byte);
        self
    }

    fn number(self, number: u64) -> Writer {
        self.rest(&number.to_be_bytes())
    }

    /// The sign turned over, so that what was before 1970 stands first.
    fn time(self, time: StoreTime) -> Writer {
        self.rest(&(time.as_micros() ^ i64::MIN).to_be_bytes())
    }

    fn text(self, text: &str) -> Writer {
        self.number(text.len() as u64).rest(text.as_bytes())
    }

    fn rest(mut self, bytes: &[u8]) -> Writer {
        self.0.extend_from_slice(bytes);
        self
    }
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], StoreFault> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(|| broken("the length of what is stored"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn eight(&mut self) -> Result<[u8; 8], StoreFault> {
        self.take(8)?.try_into().map_err(|_| broken("a number"))
    }

    fn byte(&mut self) -> Result<u8, StoreFault> {
        self.take(1)?.first().copied().ok_or_else(|| broken("the length of what is stored"))
    }

    fn number(&mut self) -> Result<u64, StoreFault> {
        self.eight().map(u64::from_be_bytes)
    }

    fn time(&mut self) -> Result<StoreTime, StoreFault> {
        self.eight().map(|bytes| StoreTime::of_micros(i64::from_be_bytes(bytes) ^ i64::MIN))
    }

    fn text(&mut self) -> Result<String, StoreFault> {
        let length = usize::try_from(self.number()?).map_err(|_| broken("a length"))?;
        text(self.take(length)?)
    }

    fn rest_text(&mut self) -> Result<String, StoreFault> {
        text(std::mem::take(&mut self.0))
    }

    fn rest(&mut self) -> Bytes {
        Bytes::copy_from_slice(std::mem::take(&mut self.0))
    }

    fn environment(&mut self) -> Result<Environment, StoreFault> {
        named(&self.text()?, &Environment::ALL, Environment::as_str)
    }

    fn window(&mut self) -> Result<WindowKey, StoreFault> {
        Ok(WindowKey { limit: self.text()?, key: self.text()? })
    }

    fn slot(&mut self) -> Result<Slot, StoreFault> {
        let end = self.time()?;
        Ok(Slot { begin: self.time()?, end })
    }

    fn stored(&mut self) -> Result<Stored, StoreFault> {
        let (version, at) = (Number::new(self.number()?), self.time()?);
        let (whole_until, gone_at) = (self.time()?, self.time()?);
        let content = match self.byte()? {
            b'w' => Content::Whole(self.rest()),
            b's' => Content::Spent,
            _ => return Err(broken("a record")),
        };
        Ok(Stored { version, at, whole_until, gone_at, content })
    }
}

fn text(bytes: &[u8]) -> Result<String, StoreFault> {
    String::from_utf8(bytes.to_vec()).map_err(|_| broken("a name"))
}
