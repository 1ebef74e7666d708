//! The form of an entry on its way to the Redis, in its outbox, and back.
//!
//! An entry holds the values of its steps, which the steps of the commit carry too. They cross once: the script takes
//! them from the steps, and puts them behind the entry in the outbox. The rest of the entry is packed.
//!
//! `v` or `w`, the lengths of the values with commas between, `;`, the packed entry without values, the values. Where it
//! begins with `v` the script adds the values.

use std::fmt::Write as _;

use bytes::Bytes;

use super::super::packed::{pack, unpack};
use super::unreadable;
use crate::audit::{split_steps, with_values, without_values};
use crate::ledger::{Step, StoreFault};

const BY_SCRIPT: char = 'v';
const WHOLE: char = 'w';

/// Returns the entry of a commit as the script takes it.
pub(super) fn for_commit(entry: &Bytes, steps: &[Step]) -> Vec<u8> {
    let values: Vec<&Bytes> = steps.iter().filter_map(Step::value).collect();
    match without_values(entry, &values) {
        Some(rest) => written(BY_SCRIPT, &rest, &values),
        None => whole(entry),
    }
}

/// Returns an entry as it stands in the outbox.
pub(super) fn whole(entry: &Bytes) -> Vec<u8> {
    let values = split_steps(entry).ok().and_then(|split| split.values()).unwrap_or_default();
    let mut values: Vec<&Bytes> = values.iter().collect();
    let rest = without_values(entry, &values).unwrap_or_else(|| {
        values.clear();
        entry.clone()
    });
    let mut written = written(WHOLE, &rest, &values);
    values.iter().for_each(|value| written.extend_from_slice(value));
    written
}

fn written(form: char, rest: &[u8], values: &[&Bytes]) -> Vec<u8> {
    let mut head = String::from(form);
    for (nth, value) in values.iter().enumerate() {
        // Writing to a text does not fail.
        write!(head, "{}{}", if nth == 0 { "" } else { "," }, value.len()).unwrap_or_default();
    }
    head.push(';');
    [head.as_bytes(), &pack(rest)].concat()
}

/// Returns the entry that stands in the outbox.
pub(super) fn entry_of(stored: Vec<u8>) -> Result<Bytes, StoreFault> {
    let stored = Bytes::from(stored);
    let ends = stored.iter().position(|byte| *byte == b';').ok_or_else(unreadable)?;
    let head = stored.get(..ends).and_then(|head| std::str::from_utf8(head).ok()).ok_or_else(unreadable)?;
    let lengths = head.strip_prefix([BY_SCRIPT, WHOLE]).ok_or_else(unreadable)?;
    let lengths: Vec<usize> = match lengths {
        "" => Vec::new(),
        lengths => lengths.split(',').map(str::parse).collect::<Result<_, _>>().map_err(|_| unreadable())?,
    };
    let in_all = lengths.iter().try_fold(0_usize, |sum, length| sum.checked_add(*length));
    let begins = in_all.and_then(|in_all| stored.len().checked_sub(in_all)).filter(|begins| *begins > ends);
    let begins = begins.ok_or_else(unreadable)?;
    let mut values = stored.slice(begins..);
    let rest = unpack(stored.slice(ends.saturating_add(1)..begins)).map_err(|_| unreadable())?;
    let values: Vec<Bytes> = lengths.into_iter().map(|length| values.split_to(length)).collect();
    if values.is_empty() {
        return Ok(rest);
    }
    with_values(&rest, &values.iter().collect::<Vec<_>>()).ok_or_else(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::with_steps;
    use crate::base::ids::Environment;
    use crate::ledger::{Keep, Kind, RecordKey, StoreTime};

    fn create(value: &'static [u8]) -> Step {
        let key = RecordKey { environment: Environment::Sandbox, kind: Kind::Claim, name: "request/a".to_owned() };
        Step::Create { key, value: value.into(), keep: Keep::Forever }
    }

    #[test]
    fn an_entry_comes_back_as_it_went() {
        let steps = [Step::Before(StoreTime::of_micros(5)), create(b"\0\xff"), create(b"")];
        let values: Vec<&Bytes> = steps.iter().filter_map(Step::value).collect();
        let bare: &[u8] = br#"{"at":"2026-11-26","operation":"createSwap","what":"sending"}"#;
        let entry = with_steps(bare, r#"[{"before":5}]"#, &values).unwrap().unwrap();
        let beside = for_commit(&entry, &steps);
        assert!(beside.starts_with(b"v2,0;"), "{beside:?}");
        // The script adds the values of the steps.
        assert_eq!(entry_of([&beside[..], b"\0\xff"].concat()).unwrap(), entry);
        assert_eq!(entry_of(whole(&entry)).unwrap(), entry);
        // Other values than those of the steps stand in the entry.
        for steps in [&steps[..2], &[create(b"\0\xfe"), create(b"")], &[]] {
            assert_eq!(entry_of(for_commit(&entry, steps)).unwrap(), entry);
        }
        let entries: [&[u8]; 6] =
            [b"{}", bare, b" {}", b"no JSON", br#"{"steps":[],"values":["AA"]}"#, br#"{"values":["AA=="]}"#];
        for entry in entries {
            assert_eq!(entry_of(for_commit(&Bytes::from_static(entry), &steps)).unwrap(), entry);
            assert_eq!(entry_of(whole(&Bytes::from_static(entry))).unwrap(), entry);
        }
    }

    #[test]
    fn what_is_no_entry_is_refused() {
        for stored in ["", "v", "x;{}", "v5;{}", "v1;{}", "v1,;{}a", "v-1;{}", "v99999999999999999999;{}", "w3;a"] {
            assert!(entry_of(stored.as_bytes().to_vec()).is_err(), "{stored}");
        }
        assert!(entry_of(b"w18446744073709551615,1;{}".to_vec()).is_err());
    }
}
