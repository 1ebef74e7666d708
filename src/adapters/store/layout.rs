//! The layout of a store as ordered keys and values: one map of bytes to bytes.
//!
//! A key begins with the letter of its table. Text that is followed by more has its length before it, and times and
//! numbers are encoded in the order of their values, so that the order of the bytes is the order that reads need.
//!
//! | key | value |
//! |---|---|
//! | `f` | the version of this format |
//! | `t` | the latest time of a commit |
//! | `i` environment | the id of the installation |
//! | `n` environment | the number of the latest commit |
//! | `r` environment kind name | a record |
//! | `d` environment index due member | nothing |
//! | `m` environment index member | due |
//! | `s` environment limit key end begin | units spent in a slot, and until when they can matter |
//! | `h` environment limit key holder | what the holder reserved: end, begin, units |
//! | `o` environment number | an entry that not every journal has yet |
//! | `c` environment node | the highest number of the node's own commits, in a replica |
//! | `e` environment | the number of the first entry with sealed steps, in a replica |
//! | `l` environment | the number of the first commit that was left out, in a replica |
//! | `b` environment | the number up to which commits are unknown, in a replica |
//! | `g` environment generation | nothing; a Redis that this store was moved from |
//! | `k` environment node | a node's journal, and the number up to which it has every entry |
//! | `x` time key | nothing; at that time the record or slot under `key` expires |
//! | `a` | the sealed sum of the whole content, except for `a`, `f` and `i` |

use super::layout_bytes::LayoutWriter;
pub(super) use super::layout_bytes::{LayoutReader, broken};
use crate::base::ids::Environment;
use crate::ledger::{
    Content, Index, InstallationId, JournalId, Kind, NodeId, Number, Outstanding, RecordKey, Sender, StoreFault,
    StoreTime, WindowKey,
};

/// The format version that this program writes: it changes with the form of any record, too.
pub(super) const FORMAT: u64 = 3;
/// The expiry of what is kept forever.
pub(super) const FOREVER: StoreTime = StoreTime::of_micros(i64::MAX);

/// All keys are before this one.
pub(super) const END: [u8; 1] = [u8::MAX];
/// The letter of the table of slots.
pub(super) const SLOTS: u8 = b's';

/// One item of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Format(u64),
    Time(StoreTime),
    /// The store was created, for this installation.
    Created(Environment, InstallationId),
    Last(Environment, Number),
    Record(RecordKey, Stored),
    /// A member of an index; it has two keys.
    Member {
        environment: Environment,
        index: Index,
        member: String,
        due: StoreTime,
    },
    Slot {
        environment: Environment,
        window: WindowKey,
        slot: WindowSlot,
        spent: Spent,
    },
    Holder {
        environment: Environment,
        window: WindowKey,
        holder: String,
        slot: WindowSlot,
        units: u64,
    },
    Outstanding(Outstanding),
    /// The highest number of a node's own commits, in a replica.
    Committed(Environment, NodeId, Number),
    /// The first entry whose steps are sealed, in a replica.
    SealedFrom(Environment, Number),
    /// The first commit that was left out, in a replica: it lacks something that the store had.
    LeftOut(Environment, Number),
    /// Commits up to this number are unknown here: the journal that this was made from begins behind it.
    Begin(Environment, Number),
    /// The generation of a Redis that this store was moved from.
    Former(Environment, String),
    /// The journal has every entry up to the number.
    Kept(Environment, Sender, Number),
    /// A key that follows from other items.
    Derived,
}

/// A record with its expiry times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub version: Number,
    pub at: StoreTime,
    pub whole_until: StoreTime,
    pub gone_at: StoreTime,
    pub content: Content,
}

impl Stored {
    /// Returns when the record expires next, in part or as a whole.
    pub fn turns(&self) -> Option<StoreTime> {
        let next = match self.content {
            Content::Whole(_) => self.whole_until,
            Content::Spent => self.gone_at,
        };
        (next != FOREVER).then_some(next)
    }
}

/// The span of time over which reservations are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WindowSlot {
    pub begin: StoreTime,
    pub end: StoreTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spent {
    pub units: u64,
    /// From this time on no window reaches back to the slot.
    pub until: StoreTime,
}

impl Item {
    /// Returns the keys and values of this item, including those derived from it.
    pub fn pairs(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        match self {
            Item::Format(version) => vec![(format(), LayoutWriter::default().number(*version).0)],
            Item::Time(time) => vec![(time_key(), LayoutWriter::default().time(*time).0)],
            Item::Created(environment, id) => {
                vec![(created(*environment), LayoutWriter::default().rest(id.as_str().as_bytes()).0)]
            }
            Item::Last(environment, number) => {
                vec![(last(*environment), LayoutWriter::default().number(number.as_u64()).0)]
            }
            Item::Record(key, stored) => {
                let at = record(key);
                let turn = stored.turns().map(|time| (expiry(time, &at), Vec::new()));
                [(at, stored_value(stored))].into_iter().chain(turn).collect()
            }
            Item::Member { environment, index, member: name, due: time } => vec![
                (due(*environment, *index, *time, name), Vec::new()),
                (member(*environment, *index, name), LayoutWriter::default().time(*time).0),
            ],
            Item::Slot { environment, window, slot: time, spent } => {
                let at = slot(*environment, window, *time);
                let value = LayoutWriter::default().time(spent.until).number(spent.units).0;
                vec![(expiry(spent.until, &at), Vec::new()), (at, value)]
            }
            Item::Holder { environment, window, holder: name, slot, units } => {
                let value = LayoutWriter::default().time(slot.end).time(slot.begin).number(*units).0;
                vec![(holder(*environment, window, name), value)]
            }
            Item::Outstanding(entry) => {
                let value = LayoutWriter::default().time(entry.at).text(entry.node.as_str()).rest(&entry.entry).0;
                vec![(outstanding(entry.environment, entry.number), value)]
            }
            Item::Committed(environment, node, number) => {
                let key = LayoutWriter(committed(*environment)).rest(node.as_str().as_bytes()).0;
                vec![(key, LayoutWriter::default().number(number.as_u64()).0)]
            }
            Item::SealedFrom(environment, number) => {
                vec![(sealed_from(*environment), LayoutWriter::default().number(number.as_u64()).0)]
            }
            Item::LeftOut(environment, number) => {
                vec![(left_out(*environment), LayoutWriter::default().number(number.as_u64()).0)]
            }
            Item::Begin(environment, number) => {
                vec![(begin(*environment), LayoutWriter::default().number(number.as_u64()).0)]
            }
            Item::Former(environment, generation) => {
                vec![(table(b'g', *environment).rest(generation.as_bytes()).0, Vec::new())]
            }
            Item::Kept(environment, by, number) => {
                let value = LayoutWriter::default().text(by.journal.as_str()).number(number.as_u64()).0;
                vec![(LayoutWriter(kept(*environment)).rest(by.node.as_str().as_bytes()).0, value)]
            }
            Item::Derived => Vec::new(),
        }
    }

    pub fn read(key: &[u8], value: &[u8]) -> Result<Item, StoreFault> {
        let (mut key, mut value) = (LayoutReader(key), LayoutReader(value));
        let item = match key.byte()? {
            b'f' => Item::Format(value.number()?),
            b't' => Item::Time(value.time()?),
            b'i' => {
                let (environment, id) = (key.environment()?, InstallationId::parse(&value.rest_text()?));
                Item::Created(environment, id.ok_or_else(|| broken("the id of an installation"))?)
            }
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
            SLOTS => {
                let (environment, window) = (key.environment()?, key.window()?);
                let slot = key.slot()?;
                Item::Slot { environment, window, slot, spent: value.spent()? }
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
            b'c' => {
                let (environment, node) = (key.environment()?, NodeId::parse(&key.rest_text()?));
                let node = node.ok_or_else(|| broken("the name of a node"))?;
                Item::Committed(environment, node, Number::new(value.number()?))
            }
            b'e' => Item::SealedFrom(key.environment()?, Number::new(value.number()?)),
            b'l' => Item::LeftOut(key.environment()?, Number::new(value.number()?)),
            b'b' => Item::Begin(key.environment()?, Number::new(value.number()?)),
            b'g' => Item::Former(key.environment()?, key.rest_text()?),
            b'k' => {
                let (environment, node) = (key.environment()?, NodeId::parse(&key.rest_text()?));
                let (journal, number) = (JournalId::parse(&value.text()?), Number::new(value.number()?));
                let by = node.zip(journal).map(|(node, journal)| Sender { node, journal });
                Item::Kept(environment, by.ok_or_else(|| broken("the name of a journal"))?, number)
            }
            b'a' | b'd' | b'x' => Item::Derived,
            _ => return Err(broken("a table that this version does not know")),
        };
        Ok(item)
    }
}

pub(super) fn format() -> Vec<u8> {
    vec![b'f']
}

pub(super) fn content_sum() -> Vec<u8> {
    vec![b'a']
}

/// Whether the sum of the content has this key. The format and the installation are checked on their own, and
/// `sluice store create` writes them without the seal keys.
pub(super) fn is_summed(key: &[u8]) -> bool {
    !matches!(key.first(), Some(b'a' | b'f' | b'i') | None)
}

pub(super) fn time_key() -> Vec<u8> {
    vec![b't']
}

pub(super) fn created(environment: Environment) -> Vec<u8> {
    table(b'i', environment).0
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

/// Returns the prefix of all members of an index, in the order of time.
pub(super) fn due_all(environment: Environment, index: Index) -> Vec<u8> {
    table(b'd', environment).text(index.as_str()).0
}

pub(super) fn member(environment: Environment, index: Index, member: &str) -> Vec<u8> {
    table(b'm', environment).text(index.as_str()).rest(member.as_bytes()).0
}

pub(super) fn slot(environment: Environment, window: &WindowKey, slot: WindowSlot) -> Vec<u8> {
    LayoutWriter(slots(environment, window)).time(slot.end).time(slot.begin).0
}

/// Returns the prefix of all slots of all windows, or of those of one limit.
pub(super) fn windows(environment: Environment, limit: Option<&str>) -> Vec<u8> {
    let all = table(SLOTS, environment);
    limit.map_or_else(|| LayoutWriter(all.0.clone()), |limit| LayoutWriter(all.0.clone()).text(limit)).0
}

/// Returns the prefix of all slots of a window, in the order of their ends.
pub(super) fn slots(environment: Environment, window: &WindowKey) -> Vec<u8> {
    table(SLOTS, environment).text(&window.limit).text(&window.key).0
}

/// Returns the prefix of all slots of the window that a key is a slot of; `None` for a key of another table.
pub(super) fn window_of_slot(key: &[u8]) -> Option<&[u8]> {
    const TIMES: usize = 16;
    key.get(..key.len().checked_sub(TIMES)?).filter(|_| key.first() == Some(&SLOTS))
}

pub(super) fn holder(environment: Environment, window: &WindowKey, holder: &str) -> Vec<u8> {
    table(b'h', environment).text(&window.limit).text(&window.key).rest(holder.as_bytes()).0
}

pub(super) fn outstanding(environment: Environment, number: Number) -> Vec<u8> {
    table(b'o', environment).number(number.as_u64()).0
}

/// Returns the prefix of the highest commits of all nodes.
pub(super) fn committed(environment: Environment) -> Vec<u8> {
    table(b'c', environment).0
}

/// Returns the prefixes of all that a store holds of an environment, except for entries.
pub(super) fn contents(environment: Environment) -> [Vec<u8>; 4] {
    [b'r', b'm', SLOTS, b'h'].map(|letter| table(letter, environment).0)
}

pub(super) fn sealed_from(environment: Environment) -> Vec<u8> {
    table(b'e', environment).0
}

pub(super) fn left_out(environment: Environment) -> Vec<u8> {
    table(b'l', environment).0
}

pub(super) fn begin(environment: Environment) -> Vec<u8> {
    table(b'b', environment).0
}

/// Returns the prefix of what all journals have.
fn kept(environment: Environment) -> Vec<u8> {
    table(b'k', environment).0
}

/// Returns the prefix of the whole outbox of an environment, in the order of numbers.
pub(super) fn outbox(environment: Environment) -> Vec<u8> {
    table(b'o', environment).0
}

pub(super) fn expiry(time: StoreTime, key: &[u8]) -> Vec<u8> {
    LayoutWriter(Vec::with_capacity(key.len().saturating_add(9))).byte(b'x').time(time).rest(key).0
}

/// Returns the prefix of all expiries, the earliest first.
pub(super) fn expiries() -> Vec<u8> {
    vec![b'x']
}

/// Parses an expiry key: the time, and the key that expires.
pub(super) fn read_expiry(key: &[u8]) -> Result<(StoreTime, Vec<u8>), StoreFault> {
    let mut key = LayoutReader(key);
    key.byte()?;
    Ok((key.time()?, key.rest().to_vec()))
}

/// Returns the key of the slot that a key says expired by a time; `None` for every other key.
pub(super) fn expired_slot(key: &[u8], until: StoreTime) -> Option<&[u8]> {
    let mut expiry = LayoutReader(key.strip_prefix(b"x")?);
    let (time, LayoutReader(of)) = (expiry.time().ok()?, expiry);
    (time <= until && of.first() == Some(&SLOTS)).then_some(of)
}

/// Parses a due key: the time, and the member.
pub(super) fn read_due(key: &[u8]) -> Result<(StoreTime, String), StoreFault> {
    let mut key = LayoutReader(key);
    key.byte()?;
    key.environment()?;
    key.text()?;
    Ok((key.time()?, key.rest_text()?))
}

/// `prefix` with a time behind it.
pub(super) fn with_time(prefix: &[u8], time: StoreTime) -> Vec<u8> {
    LayoutWriter(prefix.to_vec()).time(time).0
}

/// Returns the first key after all keys that begin with `prefix`.
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

fn stored_value(stored: &Stored) -> Vec<u8> {
    const HEAD: usize = 33;
    let content = match &stored.content {
        Content::Whole(value) => value.len(),
        Content::Spent => 0,
    };
    let value = LayoutWriter(Vec::with_capacity(content.saturating_add(HEAD)));
    let head = value.number(stored.version.as_u64()).time(stored.at);
    let head = head.time(stored.whole_until).time(stored.gone_at);
    match &stored.content {
        Content::Whole(value) => head.byte(b'w').rest(value).0,
        Content::Spent => head.byte(b's').0,
    }
}

fn table(letter: u8, environment: Environment) -> LayoutWriter {
    LayoutWriter::key(letter).text(environment.as_str())
}

fn named<T: Copy>(name: &str, all: &[T], name_of: impl Fn(T) -> &'static str) -> Result<T, StoreFault> {
    all.iter().copied().find(|one| name_of(*one) == name).ok_or_else(|| broken("a name in a key"))
}

impl LayoutReader<'_> {
    fn environment(&mut self) -> Result<Environment, StoreFault> {
        named(&self.text()?, &Environment::ALL, Environment::as_str)
    }

    fn window(&mut self) -> Result<WindowKey, StoreFault> {
        Ok(WindowKey { limit: self.text()?, key: self.text()? })
    }

    pub(super) fn slot(&mut self) -> Result<WindowSlot, StoreFault> {
        let end = self.time()?;
        Ok(WindowSlot { begin: self.time()?, end })
    }

    pub(super) fn spent(&mut self) -> Result<Spent, StoreFault> {
        let until = self.time()?;
        Ok(Spent { units: self.number()?, until })
    }

    pub(super) fn stored(&mut self) -> Result<Stored, StoreFault> {
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
