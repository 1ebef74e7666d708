//! What can be seen in a store.

use super::layout::{self, Item, Slot, Spent, Stored, broken};
use crate::base::ids::Environment;
use crate::commit::{
    Content, Index, NodeId, Number, Outstanding, Record, RecordKey, Span, StoreFault, StoreTime, WindowKey,
};
use crate::ports::Part;

/// How much of the outbox is looked at in one go.
const OUTBOX_STRIDE: usize = 256;

/// A key and what lies under it.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// An ordered map of bytes.
pub(super) trait View {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreFault>;

    /// What stands from `from` on and before `to`, in order, at most `count`.
    fn range(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault>;

    /// The same from its end, the last first.
    fn range_back(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault>;

    fn item(&self, key: &[u8]) -> Result<Option<Item>, StoreFault> {
        self.get(key)?.map(|value| Item::read(key, &value)).transpose()
    }
}

/// The latest time of a commit.
pub(super) fn time(view: &impl View) -> Result<StoreTime, StoreFault> {
    match view.item(&layout::time_key())? {
        None => Ok(StoreTime::of_micros(i64::MIN)),
        Some(Item::Time(time)) => Ok(time),
        Some(_) => Err(broken("the time")),
    }
}

/// The number of the latest commit; 0 before the first.
pub(super) fn last(view: &impl View, environment: Environment) -> Result<u64, StoreFault> {
    match view.item(&layout::last(environment))? {
        None => Ok(0),
        Some(Item::Last(_, number)) => Ok(number.as_u64()),
        Some(_) => Err(broken("the number of the latest commit")),
    }
}

/// The record as its age has made it.
pub(super) fn record(view: &impl View, key: &RecordKey, now: StoreTime) -> Result<Option<Record>, StoreFault> {
    Ok(stored(view, key)?.and_then(|stored| aged(stored, now)).map(|Stored { version, at, content, .. }| Record {
        version,
        at,
        content,
    }))
}

/// The record as it lies there, however old.
pub(super) fn stored(view: &impl View, key: &RecordKey) -> Result<Option<Stored>, StoreFault> {
    match view.item(&layout::record(key))? {
        None => Ok(None),
        Some(Item::Record(_, stored)) => Ok(Some(stored)),
        Some(_) => Err(broken("a record")),
    }
}

pub(super) fn aged(stored: Stored, now: StoreTime) -> Option<Stored> {
    if now >= stored.gone_at && stored.gone_at != layout::FOREVER {
        None
    } else if now >= stored.whole_until && stored.whole_until != layout::FOREVER {
        Some(Stored { content: Content::Spent, ..stored })
    } else {
        Some(stored)
    }
}

/// When a member of an index is due.
pub(super) fn member(
    view: &impl View,
    environment: Environment,
    index: Index,
    member: &str,
) -> Result<Option<StoreTime>, StoreFault> {
    match view.item(&layout::member(environment, index, member))? {
        None => Ok(None),
        Some(Item::Member { due, .. }) => Ok(Some(due)),
        Some(_) => Err(broken("a member of an index")),
    }
}

pub(super) fn due(
    view: &impl View,
    environment: Environment,
    index: Index,
    until: Option<StoreTime>,
    count: usize,
) -> Result<Vec<(StoreTime, String)>, StoreFault> {
    let all = layout::due_all(environment, index);
    let end = until.map_or_else(|| layout::behind(&all), |until| layout::with_time(&all, until));
    view.range(&all, &end, count)?.iter().map(|(key, _)| layout::read_due(key)).collect()
}

/// A part of an index.
pub(super) fn part(
    view: &impl View,
    environment: Environment,
    index: Index,
    part: &Part,
) -> Result<Vec<(StoreTime, String)>, StoreFault> {
    let all = layout::due_all(environment, index);
    let (begin, end) = (all.clone(), layout::behind(&all));
    let last = part.behind.as_ref().map(|(at, member)| layout::due(environment, index, *at, member));
    let found = match last {
        _ if part.count == 0 => Vec::new(),
        Some(last) if part.backwards => view.range_back(&begin, &last, part.count)?,
        Some(mut last) => {
            // The first key behind it.
            last.push(0);
            view.range(&last, &end, part.count)?
        }
        None if part.backwards => view.range_back(&begin, &end, part.count)?,
        None => view.range(&begin, &end, part.count)?,
    };
    found.iter().map(|(key, _)| layout::read_due(key)).collect()
}

/// What counts in a window at a time.
///
/// A slot counts whole as soon as the window touches it, whichever span it was written under: a limit whose span is
/// changed does not begin at nothing.
pub(super) fn used(
    view: &impl View,
    environment: Environment,
    window: &WindowKey,
    span: Span,
    now: StoreTime,
) -> Result<u64, StoreFault> {
    let (from, to) = reach(span, now)?;
    let slots = layout::slots(environment, window);
    let mut sum = 0_u64;
    // The earliest slot that reaches beyond `from`.
    let first = layout::with_time(&slots, StoreTime::of_micros(from.as_micros().saturating_add(1)));
    for (key, value) in view.range(&first, &layout::behind(&slots), usize::MAX)? {
        match Item::read(&key, &value)? {
            Item::Slot { slot, spent, .. } if slot.begin < to => sum = sum.saturating_add(spent.units),
            Item::Slot { .. } => {}
            _ => return Err(broken("a window")),
        }
    }
    Ok(sum)
}

/// The windows that have slots, of one limit or of all.
pub(super) fn windows(
    view: &impl View,
    environment: Environment,
    limit: Option<&str>,
    count: usize,
) -> Result<Vec<WindowKey>, StoreFault> {
    let mut from = layout::windows(environment, limit);
    let end = layout::behind(&from);
    let mut found = Vec::new();
    while found.len() < count {
        let Some((key, value)) = view.range(&from, &end, 1)?.pop() else { break };
        let Item::Slot { window, .. } = Item::read(&key, &value)? else { return Err(broken("a window")) };
        from = layout::behind(&layout::slots(environment, &window));
        found.push(window);
    }
    Ok(found)
}

/// The slot that a reservation made now falls into, and until when it can matter; none outside of a fixed span.
pub(super) fn slot_of(span: Span, now: StoreTime) -> Result<Option<(Slot, StoreTime)>, StoreFault> {
    match span {
        Span::Rolling { bucket, count } => {
            let (begin, length) = bucket_of(bucket, now)?;
            let end = begin.saturating_add(length);
            let until = end.saturating_add(length.saturating_mul(i64::from(count)));
            let slot = Slot { begin: StoreTime::of_micros(begin), end: StoreTime::of_micros(end) };
            Ok(Some((slot, StoreTime::of_micros(until))))
        }
        Span::Fixed { from, to } if from < to => {
            Ok((from <= now && now < to).then_some((Slot { begin: from, end: to }, to)))
        }
        Span::Fixed { .. } => Err(senseless("a span that ends before it begins")),
    }
}

/// From where to where a window reaches, seen from a time.
fn reach(span: Span, now: StoreTime) -> Result<(StoreTime, StoreTime), StoreFault> {
    match span {
        Span::Rolling { bucket, count } => {
            let (begin, length) = bucket_of(bucket, now)?;
            let from = begin.saturating_sub(length.saturating_mul(i64::from(count)));
            Ok((StoreTime::of_micros(from), layout::FOREVER))
        }
        Span::Fixed { from, to } if from < to => Ok((from, to)),
        Span::Fixed { .. } => Err(senseless("a span that ends before it begins")),
    }
}

/// Where the bucket of a time begins, and how long it is.
fn bucket_of(bucket: std::time::Duration, now: StoreTime) -> Result<(i64, i64), StoreFault> {
    let length = i64::try_from(bucket.as_micros()).map_err(|_| senseless("a bucket without end"))?;
    let into = now.as_micros().checked_rem_euclid(length).ok_or_else(|| senseless("a bucket without length"))?;
    Ok((now.as_micros().saturating_sub(into), length))
}

pub(super) fn holder(
    view: &impl View,
    environment: Environment,
    window: &WindowKey,
    name: &str,
) -> Result<Option<(Slot, u64)>, StoreFault> {
    match view.item(&layout::holder(environment, window, name))? {
        None => Ok(None),
        Some(Item::Holder { slot, units, .. }) => Ok(Some((slot, units))),
        Some(_) => Err(broken("a reservation")),
    }
}

pub(super) fn spent(
    view: &impl View,
    environment: Environment,
    window: &WindowKey,
    slot: Slot,
) -> Result<Option<Spent>, StoreFault> {
    match view.item(&layout::slot(environment, window, slot))? {
        None => Ok(None),
        Some(Item::Slot { spent, .. }) => Ok(Some(spent)),
        Some(_) => Err(broken("a window")),
    }
}

pub(super) fn outbox(
    view: &impl View,
    environment: Environment,
    node: &NodeId,
    count: usize,
) -> Result<Vec<Outstanding>, StoreFault> {
    outbox_of(view, environment, count, |of| of == node)
}

pub(super) fn others_outbox(
    view: &impl View,
    environment: Environment,
    node: &NodeId,
    count: usize,
) -> Result<Vec<Outstanding>, StoreFault> {
    outbox_of(view, environment, count, |of| of != node)
}

fn outbox_of(
    view: &impl View,
    environment: Environment,
    count: usize,
    is_meant: impl Fn(&NodeId) -> bool,
) -> Result<Vec<Outstanding>, StoreFault> {
    let all = layout::outbox(environment);
    let end = layout::behind(&all);
    let mut found = Vec::new();
    let mut from = all;
    loop {
        let stride = view.range(&from, &end, OUTBOX_STRIDE)?;
        for (key, value) in &stride {
            match Item::read(key, value)? {
                Item::Outstanding(entry) if is_meant(&entry.node) => found.push(entry),
                Item::Outstanding(_) => {}
                _ => return Err(broken("the outbox")),
            }
            if found.len() >= count {
                found.truncate(count);
                return Ok(found);
            }
        }
        let Some((key, value)) = stride.last().filter(|_| stride.len() == OUTBOX_STRIDE) else { return Ok(found) };
        let Item::Outstanding(entry) = Item::read(key, value)? else { return Err(broken("the outbox")) };
        from = layout::outstanding(environment, Number::new(entry.number.as_u64().saturating_add(1)));
    }
}

pub(super) fn senseless(what: &str) -> StoreFault {
    StoreFault::Broken(format!("the commit asks for {what}"))
}
