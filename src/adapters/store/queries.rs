//! Queries on a store's ordered map.

use super::layout::{self, Item, LayoutReader, Spent, Stored, WindowSlot, broken};
use super::slots::reach;
use super::ticker::Ticker;
use crate::base::ids::Environment;
use crate::ledger::{
    Content, Index, IndexPart, InstallationId, Number, Outstanding, Query, QueryAnswer, Record, RecordKey, StoreFault,
    StoreTime, WindowKey, WindowSpan,
};

/// A key and its value.
pub(super) type Pair = (Vec<u8>, Vec<u8>);

/// An ordered map of bytes.
pub(super) trait StoreView {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreFault>;

    /// Returns at most `count` pairs from `from` up to but not including `to`, in order.
    fn range(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault>;

    /// Returns the same range from its end, the last pair first.
    fn range_back(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault>;

    /// Shows the slots of a window from a key on, in order: what follows the window in their keys, and their values.
    fn each_of_window(&self, window: &[u8], from: &[u8], show: &mut ShowPair<'_>) -> Result<(), StoreFault> {
        let pairs = self.range(from, &layout::behind(window), usize::MAX)?;
        pairs.iter().try_for_each(|(key, value)| show(key.get(window.len()..).unwrap_or_default(), value))
    }

    fn item(&self, key: &[u8]) -> Result<Option<Item>, StoreFault> {
        self.get(key)?.map(|value| Item::read(key, &value)).transpose()
    }
}

pub(super) type ShowPair<'s> = dyn FnMut(&[u8], &[u8]) -> Result<(), StoreFault> + 's;

/// Answers a query.
pub(super) fn answer(view: &impl StoreView, query: Query, ticker: &Ticker) -> Result<QueryAnswer, StoreFault> {
    Ok(match query {
        Query::Record(key) => {
            let now = ticker.now();
            QueryAnswer::Record(record(view, &key, now)?, now)
        }
        Query::Due { environment, index, until, count } => {
            QueryAnswer::Members(due(view, environment, index, until, count)?)
        }
        Query::Part { environment, index, part: of } => QueryAnswer::Members(part(view, environment, index, &of)?),
        Query::Member { environment, index, member: name } => {
            QueryAnswer::Due(member(view, environment, index, &name)?)
        }
        Query::Used { environment, windows, span } => {
            let now = ticker.now();
            let units = windows.iter().map(|window| used(view, environment, window, span, now));
            QueryAnswer::Units(units.collect::<Result<_, _>>()?)
        }
        Query::Windows { environment, limit, behind, count } => {
            QueryAnswer::Windows(windows(view, environment, limit.as_deref(), behind.as_ref(), count)?)
        }
        Query::Outbox { environment, after, count, .. } => {
            QueryAnswer::Entries(outbox(view, environment, after, count)?)
        }
        Query::Last(environment) | Query::DurableLast(environment) => {
            QueryAnswer::Number(Number::new(last(view, environment)?))
        }
        Query::Time => QueryAnswer::Time(ticker.now()),
        // A store over this map that can refuse writes answers this itself.
        Query::Refusal => QueryAnswer::Refusal(None),
    })
}

/// Returns the latest time of a commit; the default time before the first.
pub(super) fn time(view: &impl StoreView) -> Result<StoreTime, StoreFault> {
    let time = view.get(&layout::time_key())?.map(|value| LayoutReader(&value).time());
    time.unwrap_or(Ok(StoreTime::default()))
}

/// Returns the number of the latest commit; 0 before the first.
pub(super) fn last(view: &impl StoreView, environment: Environment) -> Result<u64, StoreFault> {
    view.get(&layout::last(environment))?.map_or(Ok(0), |value| LayoutReader(&value).number())
}

/// Returns the installation that an environment's store was created for.
pub(super) fn created(view: &impl StoreView, environment: Environment) -> Result<Option<InstallationId>, StoreFault> {
    match view.item(&layout::created(environment))? {
        None => Ok(None),
        Some(Item::Created(_, id)) => Ok(Some(id)),
        Some(_) => Err(broken("the id of an installation")),
    }
}

/// Returns the number up to which commits are unknown.
pub(super) fn begin(view: &impl StoreView, environment: Environment) -> Result<Number, StoreFault> {
    let begin = view.get(&layout::begin(environment))?.map_or(Ok(0), |value| LayoutReader(&value).number());
    begin.map(Number::new)
}

/// Returns a record as it is at `now`: expired parts are left out.
pub(super) fn record(view: &impl StoreView, key: &RecordKey, now: StoreTime) -> Result<Option<Record>, StoreFault> {
    Ok(stored(view, key)?.and_then(|stored| aged(stored, now)).map(|Stored { version, at, content, .. }| Record {
        version,
        at,
        content,
    }))
}

/// Returns a stored record, even an expired one.
pub(super) fn stored(view: &impl StoreView, key: &RecordKey) -> Result<Option<Stored>, StoreFault> {
    view.get(&layout::record(key))?.map(|value| LayoutReader(&value).stored()).transpose()
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

/// Returns when a member of an index is due.
pub(super) fn member(
    view: &impl StoreView,
    environment: Environment,
    index: Index,
    member: &str,
) -> Result<Option<StoreTime>, StoreFault> {
    view.get(&layout::member(environment, index, member))?.map(|value| LayoutReader(&value).time()).transpose()
}

pub(super) fn due(
    view: &impl StoreView,
    environment: Environment,
    index: Index,
    until: Option<StoreTime>,
    count: usize,
) -> Result<Vec<(StoreTime, String)>, StoreFault> {
    let all = layout::due_all(environment, index);
    let end = until.map_or_else(|| layout::behind(&all), |until| layout::with_time(&all, until));
    view.range(&all, &end, count)?.iter().map(|(key, _)| layout::read_due(key)).collect()
}

/// Returns a range of an index.
pub(super) fn part(
    view: &impl StoreView,
    environment: Environment,
    index: Index,
    part: &IndexPart,
) -> Result<Vec<(StoreTime, String)>, StoreFault> {
    let all = layout::due_all(environment, index);
    let (begin, end) = (all.clone(), layout::behind(&all));
    let last = part.behind.as_ref().map(|(at, member)| layout::due(environment, index, *at, member));
    let found = match last {
        _ if part.count == 0 => Vec::new(),
        Some(last) if part.backwards => view.range_back(&begin, &last, part.count)?,
        Some(mut last) => {
            // The smallest key after it.
            last.push(0);
            view.range(&last, &end, part.count)?
        }
        None if part.backwards => view.range_back(&begin, &end, part.count)?,
        None => view.range(&begin, &end, part.count)?,
    };
    found.iter().map(|(key, _)| layout::read_due(key)).collect()
}

/// Returns the units that count in a window at a time.
///
/// A slot counts fully as soon as the window touches it, whichever span it was written under: a limit whose span
/// changes does not start at zero.
pub(super) fn used(
    view: &impl StoreView,
    environment: Environment,
    window: &WindowKey,
    span: WindowSpan,
    now: StoreTime,
) -> Result<u64, StoreFault> {
    let (from, to) = reach(span, now)?;
    let slots = layout::slots(environment, window);
    let mut sum = 0_u64;
    // The earliest slot that ends after `from`.
    let first = layout::with_time(&slots, StoreTime::of_micros(from.as_micros().saturating_add(1)));
    view.each_of_window(&slots, &first, &mut |times, value| {
        let slot = LayoutReader(times).slot()?;
        let spent = LayoutReader(value).spent()?;
        // A slot may be swept late.
        if slot.begin < to && spent.until > now {
            sum = sum.saturating_add(spent.units);
        }
        Ok(())
    })?;
    Ok(sum)
}

/// Returns the windows that have slots, of one limit or of all, behind one of them.
pub(super) fn windows(
    view: &impl StoreView,
    environment: Environment,
    limit: Option<&str>,
    behind: Option<&WindowKey>,
    count: usize,
) -> Result<Vec<WindowKey>, StoreFault> {
    let all = layout::windows(environment, limit);
    let end = layout::behind(&all);
    let mut from = behind.map_or(all, |window| layout::behind(&layout::slots(environment, window)));
    let mut found = Vec::new();
    while found.len() < count {
        let Some((key, value)) = view.range(&from, &end, 1)?.pop() else { break };
        let Item::Slot { window, .. } = Item::read(&key, &value)? else { return Err(broken("a window")) };
        from = layout::behind(&layout::slots(environment, &window));
        found.push(window);
    }
    Ok(found)
}

pub(super) fn holder(
    view: &impl StoreView,
    environment: Environment,
    window: &WindowKey,
    name: &str,
) -> Result<Option<(WindowSlot, u64)>, StoreFault> {
    let Some(value) = view.get(&layout::holder(environment, window, name))? else { return Ok(None) };
    let mut value = LayoutReader(&value);
    Ok(Some((value.slot()?, value.number()?)))
}

pub(super) fn spent(
    view: &impl StoreView,
    environment: Environment,
    window: &WindowKey,
    slot: WindowSlot,
) -> Result<Option<Spent>, StoreFault> {
    view.get(&layout::slot(environment, window, slot))?.map(|value| LayoutReader(&value).spent()).transpose()
}

fn outbox(
    view: &impl StoreView,
    environment: Environment,
    after: Number,
    count: usize,
) -> Result<Vec<Outstanding>, StoreFault> {
    let from = layout::outstanding(environment, Number::new(after.as_u64().saturating_add(1)));
    let found = view.range(&from, &layout::behind(&layout::outbox(environment)), count)?;
    let item = |(key, value): &Pair| match Item::read(key, value)? {
        Item::Outstanding(entry) => Ok(entry),
        _ => Err(broken("the outbox")),
    };
    found.iter().map(item).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::BTreeMap;

    use super::super::layout::FOREVER;
    use super::super::plan;
    use super::*;
    use crate::ledger::Kind;

    /// A map that counts the pairs that are read.
    #[derive(Default)]
    struct CountedMap {
        map: BTreeMap<Vec<u8>, Vec<u8>>,
        read: Cell<usize>,
    }

    impl CountedMap {
        fn put(&mut self, item: &Item) {
            self.map.extend(item.pairs());
        }

        /// Returns how many pairs this reads.
        fn pairs_of<T>(&self, act: impl FnOnce(&CountedMap) -> T) -> (T, usize) {
            self.read.set(0);
            let done = act(self);
            (done, self.read.get())
        }

        fn count(&self, pairs: Vec<Pair>) -> Vec<Pair> {
            self.read.set(self.read.get() + pairs.len());
            pairs
        }
    }

    impl StoreView for CountedMap {
        fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, StoreFault> {
            self.read.set(self.read.get() + 1);
            StoreView::get(&self.map, key)
        }

        fn range(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault> {
            Ok(self.count(StoreView::range(&self.map, from, to, count)?))
        }

        fn range_back(&self, from: &[u8], to: &[u8], count: usize) -> Result<Vec<Pair>, StoreFault> {
            Ok(self.count(StoreView::range_back(&self.map, from, to, count)?))
        }
    }

    #[test]
    fn what_is_read_is_bounded_by_what_is_asked() {
        let (environment, mut map) = (Environment::Sandbox, CountedMap::default());
        let at = StoreTime::of_micros;
        for nth in 0..2_000 {
            let key = RecordKey { environment, kind: Kind::Claim, name: format!("claim-{nth}") };
            let content = Content::Whole(b"value".as_slice().into());
            let stored = Stored { version: Number::new(1), at: at(1), whole_until: at(nth), gone_at: FOREVER, content };
            map.put(&Item::Record(key, stored));
            let (index, member) = (Index::Sending, format!("claim-{nth}"));
            map.put(&Item::Member { environment, index, member, due: at(nth) });
        }
        for (nth, hour) in (0..40).flat_map(|nth| (0..50).map(move |hour| (nth, hour))) {
            let window = WindowKey { limit: "day".to_owned(), key: format!("caller-{nth}") };
            let (slot, spent) = (WindowSlot { begin: at(hour), end: at(hour + 1) }, Spent { units: 1, until: FOREVER });
            map.put(&Item::Slot { environment, window, slot, spent });
        }
        let (found, pairs) = map.pairs_of(|map| windows(map, environment, Some("day"), None, 5).unwrap());
        assert_eq!((found.len(), pairs), (5, 5));
        let (found, pairs) = map.pairs_of(|map| windows(map, environment, None, None, 1_000).unwrap());
        assert_eq!((found.len(), pairs), (40, 40));
        let (found, pairs) = map.pairs_of(|map| due(map, environment, Index::Sending, None, 5).unwrap());
        assert_eq!((found.len(), pairs), (5, 5));
        let last = IndexPart { backwards: true, behind: None, count: 5 };
        let (found, pairs) = map.pairs_of(|map| part(map, environment, Index::Sending, &last).unwrap());
        assert_eq!((found.len(), pairs), (5, 5));
        // Each expiry, and what expires.
        let ((swept, _), pairs) = map.pairs_of(|map| plan::sweep(map, at(10_000), 100).unwrap());
        assert_eq!((swept, pairs), (100, 200));
    }
}
