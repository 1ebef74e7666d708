//! The part of an entry for programs: the steps of its commit and their values, with which a store can make the commit
//! again, and the numbers before it that have no entry.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use memchr::memmem;
use serde_json::Value;

use super::entry::Entry;
use crate::base::json::{self, JsonError, Limits};

/// The member of an entry that holds the steps, in plain or sealed.
const STEPS: &str = "steps";
/// The member of an entry that holds the values that the steps name, in their order.
const VALUES: &str = "values";
const PARTS: [&str; 2] = [STEPS, VALUES];
/// The members of an entry that explain numbers without an entry, as [`UnusedNumbers`] has them.
const ABOVE: &str = "above";
const BEHIND: &str = "upTo";
const BEGINS: &str = "begins";

/// Returns the entry with the steps of its commit, which are a text in the one form of JSON, and the values that they
/// name; `None` where the entry is not a JSON object.
pub fn with_steps(entry: &[u8], steps: &str, values: &[&Bytes]) -> Result<Option<Bytes>, JsonError> {
    let values = if values.is_empty() { String::new() } else { written_values(values) };
    let put = [(STEPS, steps), (VALUES, values.as_str())];
    let put: Vec<(&str, &str)> = put.into_iter().filter(|(_, text)| !text.is_empty()).collect();
    if let Some(members) = json::members_in_form(entry, Limits::ANSWER) {
        let length = entry.len().saturating_add(steps.len()).saturating_add(values.len()).saturating_add(24);
        let mut with = Vec::with_capacity(length);
        let mut members: Vec<(&str, &str)> =
            members.into_iter().filter(|(name, _)| !PARTS.contains(name)).chain(put).collect();
        members.sort_unstable_by_key(|(name, _)| *name);
        put_members(members.iter(), &mut with);
        return Ok(Some(with.into()));
    }
    let Value::Object(mut members) = json::parse(entry, Limits::ANSWER)? else { return Ok(None) };
    members.retain(|name, _| !PARTS.contains(&name.as_str()));
    for (name, text) in put {
        members.insert(name.to_owned(), json::parse(text.as_bytes(), Limits::ANSWER)?);
    }
    Ok(Some(json::to_bytes(&Value::Object(members)).into()))
}

/// Returns an entry in its one form without the values of its steps; `None` where it has not exactly these.
pub fn without_values(entry: &[u8], values: &[&Bytes]) -> Option<Bytes> {
    let members = json::members_in_form(entry, Limits::ANSWER)?;
    let (_, written) = members.iter().find(|(name, _)| *name == VALUES)?;
    if *written != written_values(values) {
        return None;
    }
    let mut without = Vec::with_capacity(entry.len().saturating_sub(written.len()));
    put_members(members.iter().filter(|(name, _)| *name != VALUES), &mut without);
    Some(without.into())
}

/// Returns the entry from which [`without_values`] took these values.
pub fn with_values(entry: &[u8], values: &[&Bytes]) -> Option<Bytes> {
    let members = json::members_in_form(entry, Limits::ANSWER)?;
    let written = written_values(values);
    let mut with = Vec::with_capacity(entry.len().saturating_add(written.len()).saturating_add(16));
    let (before, behind) = members.split_at(members.partition_point(|(name, _)| *name < VALUES));
    put_members(before.iter().chain(&[(VALUES, written.as_str())]).chain(behind), &mut with);
    Some(with.into())
}

/// Writes values as an array of base64.
fn written_values(values: &[&Bytes]) -> String {
    let length = values.iter().map(|value| value.len().saturating_mul(4).div_ceil(3).saturating_add(6)).sum::<usize>();
    let mut written = String::with_capacity(length.saturating_add(2));
    for (nth, value) in values.iter().enumerate() {
        written.push_str(if nth == 0 { "[\"" } else { ",\"" });
        STANDARD.encode_string(value, &mut written);
        written.push('"');
    }
    written.push(']');
    written
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
    /// The number behind which the journal begins from which the store was rebuilt. What comes later does not know what was
    /// before.
    pub begins: u64,
}

impl UnusedNumbers {
    /// Writes them into an entry.
    pub fn stated(self, entry: Entry) -> Entry {
        entry.with(BEHIND, self.behind).with(ABOVE, self.last).with(BEGINS, self.begins)
    }

    /// Whether an entry that explains these numbers is the next one of a journal that ends at `highest`.
    pub fn explains_behind(self, highest: u64) -> bool {
        self.behind <= highest && highest <= self.last
    }
}

/// Returns the numbers before an entry that it explains. A journal that lacks entries before those is not explained.
pub fn unused_before(entry: &[u8]) -> Option<UnusedNumbers> {
    // Few entries have them. A name that is written with escapes has a backslash.
    if memmem::find(entry, BEHIND.as_bytes()).is_none() && memmem::find(entry, b"\\u").is_none() {
        return None;
    }
    if let Some(members) = json::members_in_form(entry, Limits::ANSWER) {
        return unused_of_members(&members);
    }
    unused_of_tree(&json::parse(entry, Limits::ANSWER).ok()?)
}

fn unused_of_members(members: &[(&str, &str)]) -> Option<UnusedNumbers> {
    let number = |wanted| members.iter().find(|(name, _)| *name == wanted)?.1.parse().ok();
    Some(UnusedNumbers { behind: number(BEHIND)?, last: number(ABOVE)?, begins: number(BEGINS)? })
}

fn unused_of_tree(entry: &Value) -> Option<UnusedNumbers> {
    let number = |name: &str| entry.get(name)?.as_u64();
    Some(UnusedNumbers { behind: number(BEHIND)?, last: number(ABOVE)?, begins: number(BEGINS)? })
}

/// An entry, and the steps that it held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitEntry<'e> {
    /// The entry as it was without steps, in its one form.
    pub bare: Vec<u8>,
    /// JSON.
    pub steps: Option<Cow<'e, str>>,
    /// The values that the steps name, as JSON.
    values: Option<Cow<'e, str>>,
    /// The numbers before it that it explains.
    pub unused: Option<UnusedNumbers>,
}

impl SplitEntry<'_> {
    /// Returns the values that the steps name; `None` where they are not an array of base64.
    pub fn values(&self) -> Option<Vec<Bytes>> {
        let Some(values) = &self.values else { return Some(Vec::new()) };
        // Base64 has neither commas nor escapes.
        let values = values.strip_prefix('[')?.strip_suffix(']')?.split(',');
        let decoded = |text: &str| STANDARD.decode(text.strip_prefix('"')?.strip_suffix('"')?).ok();
        values.map(|value| decoded(value).map(Bytes::from)).collect()
    }
}

/// Takes the steps and their values out of an entry.
pub fn split_steps(entry: &[u8]) -> Result<SplitEntry<'_>, JsonError> {
    if let Some(members) = json::members_in_form(entry, Limits::ANSWER) {
        let [steps, values] =
            PARTS.map(|part| members.iter().find(|(name, _)| *name == part).map(|(_, text)| Cow::Borrowed(*text)));
        let taken = [&steps, &values].into_iter().flatten().map(|text| text.len()).sum();
        let mut bare = Vec::with_capacity(entry.len().saturating_sub(taken));
        put_members(members.iter().filter(|(name, _)| !PARTS.contains(name)), &mut bare);
        return Ok(SplitEntry { bare, steps, values, unused: unused_of_members(&members) });
    }
    let mut entry = json::parse(entry, Limits::ANSWER)?;
    let unused = unused_of_tree(&entry);
    let [steps, values] = PARTS.map(|part| {
        let text = entry.as_object_mut().and_then(|members| members.remove(part));
        text.map(|text| text.to_string().into())
    });
    Ok(SplitEntry { bare: json::to_bytes(&entry), steps, values, unused })
}

/// Returns the steps of an entry, as [`split_steps`] takes them out of it.
pub fn steps_in(entry: &[u8]) -> Option<Cow<'_, str>> {
    match json::members_in_form(entry, Limits::ANSWER) {
        Some(members) => members.into_iter().find(|(name, _)| *name == STEPS).map(|(_, text)| Cow::Borrowed(text)),
        None => split_steps(entry).ok()?.steps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_in_another_spelling_is_split_alike() {
        let entries = [
            r#"{"a":1,"steps":"AAAA","what":"sending"}"#,
            r#"{"steps":[{"after":5}]}"#,
            r#"{"a":{"steps":1,"values":2}}"#,
            r#"{"steps":[],"upTo":3,"values":["AAA=",""],"what":"done"}"#,
            r#"{"above":7,"begins":2,"steps":[],"upTo":5}"#,
            r#"{"above":7}"#,
            r#"{"above":7.0,"begins":2,"upTo":5}"#,
            r#"{"a":{"above":7,"begins":2,"upTo":5}}"#,
            r#"{"above":7,"begins":2,"up\u0054o":5}"#,
            "{}",
        ];
        for entry in entries {
            let spaced = format!(" {entry}");
            assert_eq!(split_steps(entry.as_bytes()), split_steps(spaced.as_bytes()), "{entry}");
            assert_eq!(unused_before(entry.as_bytes()), unused_before(spaced.as_bytes()), "{entry}");
            let split = split_steps(entry.as_bytes()).unwrap();
            assert_eq!(
                (unused_before(entry.as_bytes()), steps_in(entry.as_bytes())),
                (split.unused, split.steps),
                "{entry}"
            );
        }
        for entry in entries {
            for steps in ["[]", r#"[{"after":5}]"#, "\"AAAA\""] {
                for values in [&[][..], &[&Bytes::from_static(b"")], &[&"a".into(), &vec![0, 255].into()]] {
                    let with = with_steps(entry.as_bytes(), steps, values).unwrap().unwrap();
                    let spaced = with_steps(format!(" {entry}").as_bytes(), steps, values).unwrap().unwrap();
                    assert_eq!(spaced, with, "{entry}");
                    let split = split_steps(&with).unwrap();
                    assert_eq!(split.steps.as_deref(), Some(steps), "{entry}");
                    assert_eq!(split.values().unwrap().iter().collect::<Vec<_>>(), values, "{entry}");
                    assert_eq!(split.bare, split_steps(entry.as_bytes()).unwrap().bare, "{entry}");
                }
            }
        }
        assert_eq!(with_steps(b"[]", "[]", &[]), Ok(None));
        for values in ["5", "[5]", r#"["?"]"#, r#"["AAA"]"#] {
            assert!(
                split_steps(format!(r#"{{"values":{values}}}"#).as_bytes()).unwrap().values().is_none(),
                "{values}"
            );
        }
        assert_eq!(unused_before(entries[4].as_bytes()), Some(UnusedNumbers { behind: 5, last: 7, begins: 2 }));
        let split = split_steps(entries[0].as_bytes()).unwrap();
        assert_eq!(
            (split.bare.as_slice(), split.steps.as_deref()),
            (&br#"{"a":1,"what":"sending"}"#[..], Some("\"AAAA\""))
        );
    }
}
