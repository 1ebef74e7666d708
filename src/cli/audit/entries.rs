//! Audit entries: the filter that selects them and the words that show them.

use std::collections::BTreeMap;

use clap::Args;
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::Offset;
use serde_json::Value;

use super::files::Chosen;
use crate::audit::{EntryKind, FileSource as _, LineBody, LineReader, Numbers, read_line, split_steps};
use crate::base::ids::Environment;
use crate::base::json::{self, Limits};
use crate::base::visible::visible;
use crate::cli::complain;
use crate::cli::progress::ProgressLine;
use crate::ledger::Outstanding;
use crate::stations::check::claim_name;

/// Selects entries; an entry must meet every condition that is given.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct EntryFilter {
    /// Only entries of this request, by its requestId; letter case counts, unless it is a UUID
    #[arg(long, visible_alias = "claim", value_name = "ID")]
    pub(in crate::cli) request_id: Option<String>,
    /// Only the entry with this number
    #[arg(long)]
    number: Option<u64>,
    /// Only entries of this environment: production or sandbox
    #[arg(long, value_parser = environment)]
    environment: Option<Environment>,
    /// Only entries of this operation (createSwap)
    #[arg(long)]
    operation: Option<String>,
    /// Only entries whose owner has this subject
    #[arg(long)]
    subject: Option<String>,
    /// Only entries of acts of this person, by their subject or as ISSUER/SUBJECT
    #[arg(long, value_name = "PERSON")]
    by: Option<String>,
    /// Only entries of this kind (sending, executed, unknown, frozen)
    #[arg(long, value_name = "KIND", value_parser = kind)]
    what: Option<EntryKind>,
    /// Only entries of this day, in UTC
    #[arg(long, value_name = "YYYY-MM-DD", value_parser = day)]
    day: Option<Date>,
}

/// An entry with its parsed JSON.
#[derive(Clone, Debug)]
pub(in crate::cli) struct ShownEntry {
    pub(in crate::cli) outstanding: Outstanding,
    pub(in crate::cli) entry: Value,
}

fn environment(text: &str) -> Result<Environment, String> {
    Environment::parse(text).ok_or_else(|| "expected `production` or `sandbox`".to_owned())
}

fn kind(text: &str) -> Result<EntryKind, String> {
    EntryKind::parse(text).ok_or_else(|| {
        let kinds: Vec<&str> = EntryKind::ALL.map(EntryKind::as_str).to_vec();
        format!("no entry is of this kind; the kinds are {}", kinds.join(", "))
    })
}

fn day(text: &str) -> Result<Date, String> {
    let date = Date::strptime("%Y-%m-%d", text).ok().filter(|date| date.to_string() == text);
    date.ok_or_else(|| "expected a day such as 2026-11-20".to_owned())
}

impl EntryFilter {
    /// The likely reason why nothing matches.
    pub(in crate::cli) fn hint(&self) -> &'static str {
        match self.request_id {
            Some(_) => "; upper and lower case letters of a requestId differ",
            None => "",
        }
    }

    pub(in crate::cli) fn matches(&self, shown: &ShownEntry) -> bool {
        let Outstanding { environment, number, .. } = &shown.outstanding;
        let is = |wanted: &Option<String>, found: String| wanted.as_ref().is_none_or(|wanted| *wanted == found);
        let is_request = self.request_id.as_ref().is_none_or(|wanted| {
            let (claim, request_id, name) = (shown.text("claim"), shown.text("requestId"), claim_name(wanted));
            claim == *wanted || claim == name || claim_name(&request_id) == name
        });
        is_request
            && self.number.is_none_or(|wanted| wanted == number.as_u64())
            && self.environment.is_none_or(|wanted| wanted == *environment)
            && is(&self.operation, shown.text("operation"))
            && is(&self.subject, shown.text("owner.subject"))
            && self.by.as_ref().is_none_or(|person| shown.is_by(person))
            && self.what.is_none_or(|what| what.as_str() == shown.text("what"))
            && self.day.is_none_or(|day| shown.moment().is_some_and(|at| Offset::UTC.to_datetime(at).date() == day))
    }
}

impl ShownEntry {
    /// The steps of the commit are for stores, not for people.
    pub(in crate::cli) fn of(outstanding: Outstanding) -> ShownEntry {
        let bare = split_steps(&outstanding.entry).map_or(outstanding.entry.clone(), |split| split.bare.into());
        let entry = json::parse(&bare, Limits::ANSWER).unwrap_or(Value::Null);
        ShownEntry { outstanding: Outstanding { entry: bare, ..outstanding }, entry }
    }

    /// Returns the value at a path as text; empty if there is none.
    pub(in crate::cli) fn text(&self, path: &str) -> String {
        match path.split('.').try_fold(&self.entry, |value, name| value.get(name)) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    /// Returns whether this person acted, by their subject or as ISSUER/SUBJECT.
    fn is_by(&self, person: &str) -> bool {
        let (issuer, subject) = (self.text("by.issuer"), self.text("by.subject"));
        !subject.is_empty() && (subject == person || format!("{issuer}/{subject}") == person)
    }

    pub(in crate::cli) fn at(&self) -> String {
        self.moment().map_or_else(String::new, |at| format!("{at:.6}"))
    }

    fn moment(&self) -> Option<Timestamp> {
        Timestamp::from_microsecond(self.outstanding.at.as_micros()).ok()
    }

    /// Returns what happened and how, without its request and owner.
    pub(in crate::cli) fn event(&self) -> String {
        let mut text = visible(&self.text("what")).into_owned();
        for (name, word) in [("attempt", "attempt"), ("status", "status"), ("trace", "trace")] {
            let value = self.text(name);
            if !value.is_empty() {
                text.push_str(&format!(", {word} {}", visible(&value)));
            }
        }
        const SHOWN_ELSEWHERE: [&str; 9] =
            ["what", "attempt", "status", "trace", "claim", "requestId", "operation", "owner", "fingerprint"];
        for (name, value) in self.entry.as_object().into_iter().flatten() {
            if !SHOWN_ELSEWHERE.contains(&name.as_str()) {
                text.push_str(&format!(", {} {}", visible(name), visible(&self.text_of(value))));
            }
        }
        text
    }

    /// Returns the operation, the request and the owner.
    pub(in crate::cli) fn subject(&self) -> String {
        let mut text = visible(&self.text("operation")).into_owned();
        for (name, word) in [("claim", ""), ("requestId", ""), ("owner.subject", "by "), ("owner.issuer", "of ")] {
            let value = self.text(name);
            if !value.is_empty() {
                text.push_str(&format!(" {word}{}", visible(&value)));
            }
        }
        text.trim_start().to_owned()
    }

    fn text_of(&self, value: &Value) -> String {
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    }
}

/// Passes every entry of the files to `with`, in file order, and once if several journals have it; returns how many lines
/// could not be read. The progress line is removed at the end.
pub(in crate::cli) fn for_each_entry(
    files: &[Chosen],
    mut progress: ProgressLine,
    mut with: impl FnMut(ShownEntry) -> anyhow::Result<()>,
) -> anyhow::Result<u64> {
    let (mut unreadable, mut bytes) = (0_u64, 0_u64);
    let mut seen: BTreeMap<Environment, Numbers> = BTreeMap::new();
    for file in files {
        let mut lines = LineReader::of(file.open()?);
        let before = bytes;
        while let Some(raw) = lines.following()? {
            bytes = before.saturating_add(raw.end());
            progress.show(bytes);
            match read_line(raw.bytes) {
                Ok(line) => {
                    if let LineBody::Entry(outstanding) = line.body
                        && seen.entry(outstanding.environment).or_default().insert(outstanding.number.as_u64())
                    {
                        with(ShownEntry::of(outstanding))?;
                    }
                }
                Err(_) if !raw.is_whole => {}
                Err(_) => unreadable = unreadable.saturating_add(1),
            }
        }
    }
    Ok(unreadable)
}

/// Warns on standard error about lines that could not be read.
pub(in crate::cli) fn warn_unreadable(count: u64) {
    if count > 0 {
        complain(format_args!("{count} damaged lines were skipped; `sluice audit verify` shows where they are"));
    }
}
