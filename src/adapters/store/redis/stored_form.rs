//! Parses what the script stores: records, the slots of windows, and what holders hold of them.

use super::super::layout::{FOREVER, Spent, Stored, WindowSlot, broken};
use super::script_args;
use crate::ledger::{Content, Number, StoreFault, StoreTime, WindowKey};

/// The bytes of a slot: four doubles.
const SLOT: usize = 32;

/// Parses a record: `version at whole gone `, then `w` and the content, or `s`.
pub(super) fn record(packed: &[u8]) -> Result<Stored, StoreFault> {
    let unreadable = || broken("a record");
    let mut parts = packed.splitn(5, |byte| *byte == b' ');
    let mut part = || parts.next().and_then(|part| std::str::from_utf8(part).ok());
    let [version, at, whole_until, gone_at] = [part(), part(), part(), part()];
    let number = |text: Option<&str>| text.and_then(|text| text.parse().ok()).ok_or_else(unreadable);
    let until = |text: Option<&str>| match text {
        Some("") => Ok(FOREVER),
        text => number(text).map(StoreTime::of_micros),
    };
    let content = match parts.next().and_then(<[u8]>::split_first) {
        Some((b'w', content)) => Content::Whole(content.to_vec().into()),
        Some((b's', [])) => Content::Spent,
        _ => return Err(unreadable()),
    };
    Ok(Stored {
        version: Number::new(u64::try_from(number(version)?).map_err(|_| unreadable())?),
        at: StoreTime::of_micros(number(at)?),
        whole_until: until(whole_until)?,
        gone_at: until(gone_at)?,
        content,
    })
}

/// Parses the slots of a window.
pub(super) fn slots(packed: &[u8]) -> Result<Vec<(WindowSlot, Spent)>, StoreFault> {
    let (slots, rest) = packed.as_chunks::<SLOT>();
    if !rest.is_empty() {
        return Err(broken("a window"));
    }
    slots.iter().map(slot).collect()
}

fn slot(packed: &[u8; SLOT]) -> Result<(WindowSlot, Spent), StoreFault> {
    let (doubles, _) = packed.as_chunks::<8>();
    let numbers: Option<Vec<i64>> = doubles.iter().map(|double| whole(f64::from_le_bytes(*double))).collect();
    match numbers.as_deref() {
        Some(&[begin, end, units, until]) => {
            let units = u64::try_from(units).map_err(|_| broken("the units of a window"))?;
            let slot = WindowSlot { begin: StoreTime::of_micros(begin), end: StoreTime::of_micros(end) };
            Ok((slot, Spent { units, until: StoreTime::of_micros(until) }))
        }
        _ => Err(broken("the numbers of a window")),
    }
}

/// Returns a whole number that a double holds exactly.
fn whole(double: f64) -> Option<i64> {
    let is_exact = double.fract() == 0.0 && double.abs() <= StoreTime::MAX_EXACT as f64;
    is_exact.then_some(double as i64)
}

/// Parses the parts of a holder: `length begin end units `, and the window, which is so long.
pub(super) fn holder(packed: &[u8]) -> Result<Vec<(WindowKey, WindowSlot, u64)>, StoreFault> {
    let unreadable = || broken("a holder");
    let mut rest = std::str::from_utf8(packed).map_err(|_| unreadable())?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let mut words = rest.splitn(5, ' ');
        let mut number = || words.next().and_then(|word| word.parse::<i64>().ok()).ok_or_else(unreadable);
        let (length, begin, end, units) = (number()?, number()?, number()?, number()?);
        let behind = words.next().ok_or_else(unreadable)?;
        let length = usize::try_from(length).map_err(|_| unreadable())?;
        let (window, next) = behind.split_at_checked(length).ok_or_else(unreadable)?;
        let window = script_args::parse_window(window).ok_or_else(unreadable)?;
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
    fn what_the_script_stores_is_read() {
        let stored = record(b"7 1795 20  wa b  c").unwrap();
        assert_eq!((stored.version, stored.at), (Number::new(7), StoreTime::of_micros(1795)));
        assert_eq!((stored.whole_until, stored.gone_at), (StoreTime::of_micros(20), FOREVER));
        assert_eq!(stored.content, Content::Whole("a b  c".into()));
        assert_eq!(record(b"7 1795   s").unwrap().content, Content::Spent);
        for unreadable in ["", "7 1795   ", "7 1795   x", "7 1795   sx", "x 1795   w", "7 1795 w", "-7 1   w"] {
            assert!(record(unreadable.as_bytes()).is_err(), "{unreadable}");
        }
        let doubles = |numbers: [f64; 4]| numbers.map(f64::to_le_bytes).concat();
        let window = [doubles([0.0, 60.0, 5.0, 99.0]), doubles([60.0, 120.0, 9_007_199_254_740_991.0, 180.0])].concat();
        let read = slots(&window).unwrap();
        assert_eq!(read.iter().map(|(_, spent)| spent.units).collect::<Vec<_>>(), [5, 9_007_199_254_740_991]);
        assert_eq!(read[1].0.begin, StoreTime::of_micros(60));
        for unreadable in [doubles([0.5, 1.0, 1.0, 1.0]), doubles([0.0, 1.0, -1.0, 1.0]), vec![0; 31]] {
            assert!(slots(&unreadable).is_err(), "{unreadable:?}");
        }
        let held = holder(b"5 0 60 3 1:a:b7 60 120 4 1:a:b c").unwrap();
        let windows: Vec<_> = held.iter().map(|(window, _, units)| (window.key.as_str(), *units)).collect();
        assert_eq!(windows, [("b", 3), ("b c", 4)]);
        for unreadable in ["9 0 60 3 1:a:b", "5 0 60 1:a:b", "5 0 60 -3 1:a:b", "5 0 60 3 1;a:b"] {
            assert!(holder(unreadable.as_bytes()).is_err(), "{unreadable}");
        }
    }
}
