//! Parses what the script stores: records, the slots of windows, and what holders hold of them.

use super::super::layout::{FOREVER, Spent, Stored, WindowSlot, broken};
use super::script_args;
use crate::ledger::{Content, Number, StoreFault, StoreTime, WindowKey};

/// The bytes of a slot, and of the times and the version of a record: four doubles.
const SLOT: usize = 32;
/// The bytes of the sum behind the slots of a window: five doubles.
const SUM: usize = 40;
/// The bytes of the numbers of a head: seven doubles.
const HEAD_NUMBERS: usize = 56;
/// The bytes before the name of a window that is held: the length of the name, and three doubles.
const HELD: usize = 28;

/// Parses a record: its version, when it was written, until when it is whole and when it is gone, as doubles; then `w` and
/// the content, or `s`. What is less than nothing has no end.
pub(super) fn record(packed: &[u8]) -> Result<Stored, StoreFault> {
    let unreadable = || broken("a record");
    let (head, rest) = packed.split_first_chunk::<SLOT>().ok_or_else(unreadable)?;
    let [version, at, whole_until, gone_at] = numbers(head).ok_or_else(unreadable)?;
    let until = |micros: i64| if micros < 0 { FOREVER } else { StoreTime::of_micros(micros) };
    let content = match rest.split_first() {
        Some((b'w', content)) => Content::Whole(content.to_vec().into()),
        Some((b's', [])) => Content::Spent,
        _ => return Err(unreadable()),
    };
    Ok(Stored {
        version: Number::new(u64::try_from(version).map_err(|_| unreadable())?),
        at: StoreTime::of_micros(at),
        whole_until: until(whole_until),
        gone_at: until(gone_at),
        content,
    })
}

/// Parses the slots of a window. The sum that may stand behind them says nothing more.
pub(super) fn slots(packed: &[u8]) -> Result<Vec<(WindowSlot, Spent)>, StoreFault> {
    let slots = match packed.len() % SLOT {
        0 => Some(packed),
        _ => packed.len().checked_sub(SUM).and_then(|length| packed.get(..length)),
    };
    match slots.map(<[u8]>::as_chunks::<SLOT>) {
        Some((slots, [])) => slots.iter().map(slot).collect(),
        _ => Err(broken("a window")),
    }
}

fn slot(packed: &[u8; SLOT]) -> Result<(WindowSlot, Spent), StoreFault> {
    let [begin, end, units, until] = numbers(packed).ok_or_else(|| broken("the numbers of a window"))?;
    let units = u64::try_from(units).map_err(|_| broken("the units of a window"))?;
    let slot = WindowSlot { begin: StoreTime::of_micros(begin), end: StoreTime::of_micros(end) };
    Ok((slot, Spent { units, until: StoreTime::of_micros(until) }))
}

/// Parses the head of a store: each node, and the highest number that it committed. Before them are seven doubles and two
/// texts, each behind its length.
pub(super) fn committed(head: &[u8]) -> Result<Vec<(&str, &str)>, StoreFault> {
    let unreadable = || broken("the head");
    let mut rest = head.get(HEAD_NUMBERS..).ok_or_else(unreadable)?;
    for _ in 0..2 {
        let (length, behind) = rest.split_first_chunk().ok_or_else(unreadable)?;
        rest = behind.get(usize::from(u16::from_le_bytes(*length))..).ok_or_else(unreadable)?;
    }
    let lines = std::str::from_utf8(rest).map_err(|_| unreadable())?;
    lines.lines().filter(|line| !line.is_empty()).map(|line| line.split_once(' ').ok_or_else(unreadable)).collect()
}

/// Returns so many doubles that are whole numbers.
fn numbers<const COUNT: usize>(packed: &[u8]) -> Option<[i64; COUNT]> {
    let (doubles, rest) = packed.as_chunks::<8>();
    let numbers: Option<Vec<i64>> = doubles.iter().map(|double| whole(f64::from_le_bytes(*double))).collect();
    numbers.filter(|_| rest.is_empty())?.try_into().ok()
}

/// Returns a whole number that a double holds exactly.
fn whole(double: f64) -> Option<i64> {
    let is_exact = double.fract() == 0.0 && double.abs() <= StoreTime::MAX_EXACT as f64;
    is_exact.then_some(double as i64)
}

/// Parses the parts of a holder: the length of the name of a window, begin, end and units, and the name.
pub(super) fn holder(packed: &[u8]) -> Result<Vec<(WindowKey, WindowSlot, u64)>, StoreFault> {
    let unreadable = || broken("a holder");
    let (mut rest, mut parts) = (packed, Vec::new());
    while !rest.is_empty() {
        let (head, behind) = rest.split_first_chunk::<HELD>().ok_or_else(unreadable)?;
        let (length, head) = head.split_first_chunk().ok_or_else(unreadable)?;
        let [begin, end, units] = numbers(head).ok_or_else(unreadable)?;
        let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| unreadable())?;
        let (window, next) = behind.split_at_checked(length).ok_or_else(unreadable)?;
        let window = std::str::from_utf8(window).ok().and_then(script_args::parse_window).ok_or_else(unreadable)?;
        let slot = WindowSlot { begin: StoreTime::of_micros(begin), end: StoreTime::of_micros(end) };
        parts.push((window, slot, u64::try_from(units).map_err(|_| unreadable())?));
        rest = next;
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_has_a_line_for_each_node() {
        let head = |rest: &[u8]| [&[0; HEAD_NUMBERS][..], rest].concat();
        assert_eq!(committed(&head(b"\x02\0id\x01\0r\nleft 7\nright 12")).unwrap(), [("left", "7"), ("right", "12")]);
        assert!(committed(&head(b"\0\0\0\0")).unwrap().is_empty());
        for unreadable in [&b"\x05\0id"[..], b"\0\0\0", b"\0\0\0\0\nleft"] {
            assert!(committed(&head(unreadable)).is_err(), "{unreadable:?}");
        }
        assert!(committed(b"").is_err());
    }

    #[test]
    fn what_the_script_stores_is_read() {
        let doubles = |numbers: [f64; 4]| numbers.map(f64::to_le_bytes).concat();
        let written = |head: [f64; 4], rest: &[u8]| [&doubles(head)[..], rest].concat();
        let stored = record(&written([7.0, 1795.0, 20.0, -1.0], b"wa b  c")).unwrap();
        assert_eq!((stored.version, stored.at), (Number::new(7), StoreTime::of_micros(1795)));
        assert_eq!((stored.whole_until, stored.gone_at), (StoreTime::of_micros(20), FOREVER));
        assert_eq!(stored.content, Content::Whole("a b  c".into()));
        let head = [7.0, 1795.0, -1.0, -1.0];
        assert_eq!(record(&written(head, b"s")).unwrap().content, Content::Spent);
        let mut unreadable = vec![doubles(head), written(head, b"x"), written(head, b"sx"), vec![b'w'; 20]];
        unreadable.push(written([-7.0, 1.0, -1.0, -1.0], b"w"));
        unreadable.push(written([7.5, 1.0, -1.0, -1.0], b"w"));
        for unreadable in unreadable {
            assert!(record(&unreadable).is_err(), "{unreadable:?}");
        }
        let window = [doubles([0.0, 60.0, 5.0, 99.0]), doubles([60.0, 120.0, 9_007_199_254_740_991.0, 180.0])].concat();
        let read = slots(&window).unwrap();
        assert_eq!(read.iter().map(|(_, spent)| spent.units).collect::<Vec<_>>(), [5, 9_007_199_254_740_991]);
        assert_eq!(read[1].0.begin, StoreTime::of_micros(60));
        assert_eq!(slots(&[&window[..], &[7; SUM]].concat()).unwrap(), read);
        for unreadable in [doubles([0.5, 1.0, 1.0, 1.0]), doubles([0.0, 1.0, -1.0, 1.0]), vec![0; 31], vec![0; 33]] {
            assert!(slots(&unreadable).is_err(), "{unreadable:?}");
        }
        let part = |length: u32, units: f64, name: &str| {
            let numbers = [0.0, 60.0, units].map(f64::to_le_bytes).concat();
            [&length.to_le_bytes()[..], &numbers, name.as_bytes()].concat()
        };
        let held = holder(&[part(5, 3.0, "1:a:b"), part(7, 4.0, "1:a:b c")].concat()).unwrap();
        let windows: Vec<_> = held.iter().map(|(window, _, units)| (window.key.as_str(), *units)).collect();
        assert_eq!(windows, [("b", 3), ("b c", 4)]);
        for unreadable in [part(9, 3.0, "1:a:b"), part(5, -3.0, "1:a:b"), part(5, 3.0, "1;a:b"), vec![0; 27]] {
            assert!(holder(&unreadable).is_err(), "{unreadable:?}");
        }
    }
}
