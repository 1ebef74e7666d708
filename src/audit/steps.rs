//! The part of an entry for programs: the steps of its commit, with which a store can make the commit again, and the
//! numbers before it that have no entry.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::Value;

use crate::base::json::{self, JsonError, Limits};

/// The member of an entry that holds the steps, in plain or sealed.
const STEPS: &str = "steps";
/// The members of an entry that explain numbers without an entry: the last of them, and the number before the first.
pub const ABOVE: &str = "above";
pub const BEHIND: &str = "upTo";

/// Returns the entry with the steps of its commit, which are a text in the one form of JSON; `None` where the entry is
/// not a JSON object.
pub fn with_steps(entry: &[u8], steps: &str) -> Result<Option<Bytes>, JsonError> {
    if let Some(members) = json::members_in_form(entry, Limits::ANSWER) {
        let mut with =
            Vec::with_capacity(entry.len().saturating_add(steps.len()).saturating_add(STEPS.len()).saturating_add(4));
        let (before, behind) = members.split_at(members.partition_point(|(name, _)| *name < STEPS));
        let behind = behind.iter().filter(|(name, _)| *name != STEPS);
        put_members(before.iter().chain(&[(STEPS, steps)]).chain(behind), &mut with);
        return Ok(Some(with.into()));
    }
    let Value::Object(mut members) = json::parse(entry, Limits::ANSWER)? else { return Ok(None) };
    members.insert(STEPS.to_owned(), json::parse(steps.as_bytes(), Limits::ANSWER)?);
    Ok(Some(json::to_bytes(&Value::Object(members)).into()))
}

/// Writes an object of members that are in their one form.
fn put_members<'m>(members: impl Iterator<Item = &'m (&'m str, &'m str)>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (name, value) in members {
        let comma = if out.len() > 1 { "," } else { "" };
        [comma, "\"", name, "\":", value].iter().for_each(|part| out.extend_from_slice(part.as_bytes()));
    }
    out.push(b'}');
}

/// Numbers that no entry has, and never will: a rebuild of a store left them out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnusedNumbers {
    /// The number before the first of them.
    pub behind: u64,
    pub last: u64,
}

impl UnusedNumbers {
    /// Whether an entry that explains these numbers is the next one of a journal that ends at `highest`.
    pub fn explains_behind(self, highest: u64) -> bool {
        self.behind <= highest && highest <= self.last
    }
}

/// Returns the numbers before an entry that it explains. A journal that lacks entries before those is not explained.
pub fn unused_before(entry: &[u8]) -> Option<UnusedNumbers> {
    // Few entries have it, and the others need not be built.
    if let Some(members) = json::members_in_form(entry, Limits::ANSWER) {
        return unused_of_members(&members);
    }
    unused_of_tree(&json::parse(entry, Limits::ANSWER).ok()?)
}

fn unused_of_members(members: &[(&str, &str)]) -> Option<UnusedNumbers> {
    let number = |wanted| members.iter().find(|(name, _)| *name == wanted)?.1.parse().ok();
    Some(UnusedNumbers { behind: number(BEHIND)?, last: number(ABOVE)? })
}

fn unused_of_tree(entry: &Value) -> Option<UnusedNumbers> {
    let number = |name: &str| entry.get(name)?.as_u64();
    Some(UnusedNumbers { behind: number(BEHIND)?, last: number(ABOVE)? })
}

/// An entry, and the steps that it held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitEntry<'e> {
    /// The entry as it was without steps, in its one form.
    pub bare: Vec<u8>,
    /// JSON.
    pub steps: Option<Cow<'e, str>>,
    /// The numbers before it that it explains.
    pub unused: Option<UnusedNumbers>,
}

/// Takes the steps out of an entry.
pub fn split_steps(entry: &[u8]) -> Result<SplitEntry<'_>, JsonError> {
    if let Some(members) = json::members_in_form(entry, Limits::ANSWER) {
        let steps = members.iter().find(|(name, _)| *name == STEPS).map(|(_, steps)| Cow::Borrowed(*steps));
        let without = entry.len().saturating_sub(steps.as_deref().map_or(0, str::len));
        let mut bare = Vec::with_capacity(without);
        put_members(members.iter().filter(|(name, _)| *name != STEPS), &mut bare);
        return Ok(SplitEntry { bare, steps, unused: unused_of_members(&members) });
    }
    let mut entry = json::parse(entry, Limits::ANSWER)?;
    let unused = unused_of_tree(&entry);
    let steps = entry.as_object_mut().and_then(|members| members.remove(STEPS));
    Ok(SplitEntry { bare: json::to_bytes(&entry), steps: steps.map(|steps| steps.to_string().into()), unused })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_in_another_spelling_is_split_alike() {
        let entries = [
            r#"{"a":1,"steps":"AAAA","what":"sending"}"#,
            r#"{"steps":[{"after":5}]}"#,
            r#"{"a":{"steps":1}}"#,
            r#"{"above":7,"steps":[],"upTo":5}"#,
            r#"{"above":7}"#,
            r#"{"above":7.0,"upTo":5}"#,
            r#"{"a":{"above":7,"upTo":5}}"#,
            "{}",
        ];
        for entry in entries {
            let spaced = format!(" {entry}");
            assert_eq!(split_steps(entry.as_bytes()), split_steps(spaced.as_bytes()), "{entry}");
            assert_eq!(unused_before(entry.as_bytes()), unused_before(spaced.as_bytes()), "{entry}");
        }
        for entry in entries {
            for steps in ["[]", r#"[{"after":5}]"#, "\"AAAA\""] {
                let with = with_steps(entry.as_bytes(), steps).unwrap().unwrap();
                assert_eq!(with_steps(format!(" {entry}").as_bytes(), steps).unwrap().unwrap(), with, "{entry}");
                let split = split_steps(&with).unwrap();
                assert_eq!(split.steps.as_deref(), Some(steps), "{entry}");
                assert_eq!(split.bare, split_steps(entry.as_bytes()).unwrap().bare, "{entry}");
            }
        }
        assert_eq!(with_steps(b"[]", "[]"), Ok(None));
        assert_eq!(unused_before(entries[3].as_bytes()), Some(UnusedNumbers { behind: 5, last: 7 }));
        let split = split_steps(entries[0].as_bytes()).unwrap();
        assert_eq!(
            (split.bare.as_slice(), split.steps.as_deref()),
            (&br#"{"a":1,"what":"sending"}"#[..], Some("\"AAAA\""))
        );
    }
}
