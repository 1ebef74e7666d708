//! Entries as people look for them and read them.

use clap::Args;
use jiff::Timestamp;
use serde_json::Value;

use super::files::Chosen;
use crate::base::ids::Environment;
use crate::base::json::{self, Limits};
use crate::chain::{Body, Lines, Source as _, read_line};
use crate::commit::Outstanding;

/// Which entries; all conditions that are given must hold.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct Filter {
    /// Of one request, by its requestId
    #[arg(long, visible_alias = "claim", value_name = "ID")]
    pub(in crate::cli) request_id: Option<String>,
    /// Under one number
    #[arg(long)]
    number: Option<u64>,
    /// Of one environment: production or sandbox
    #[arg(long, value_parser = environment)]
    environment: Option<Environment>,
    /// Of one operation (createSwap)
    #[arg(long)]
    operation: Option<String>,
    /// Of one owner
    #[arg(long)]
    subject: Option<String>,
    /// What happened (sending, executed, unknown, frozen)
    #[arg(long)]
    what: Option<String>,
    /// Of one day, in UTC
    #[arg(long, value_name = "YYYY-MM-DD")]
    day: Option<String>,
}

/// An Entry with what it says.
#[derive(Clone, Debug)]
pub(in crate::cli) struct Shown {
    pub(in crate::cli) outstanding: Outstanding,
    pub(in crate::cli) entry: Value,
}

fn environment(text: &str) -> Result<Environment, String> {
    let found = Environment::ALL.into_iter().find(|environment| environment.as_str() == text);
    found.ok_or_else(|| "there are production and sandbox".to_owned())
}

impl Filter {
    pub(in crate::cli) fn takes(&self, shown: &Shown) -> bool {
        let Outstanding { environment, number, .. } = &shown.outstanding;
        let is = |wanted: &Option<String>, found: String| wanted.as_ref().is_none_or(|wanted| *wanted == found);
        let is_request = self.request_id.as_ref().is_none_or(|wanted| {
            [shown.text("claim"), shown.text("requestId")].iter().any(|found| found.eq_ignore_ascii_case(wanted))
        });
        is_request
            && self.number.is_none_or(|wanted| wanted == number.as_u64())
            && self.environment.is_none_or(|wanted| wanted == *environment)
            && is(&self.operation, shown.text("operation"))
            && is(&self.subject, shown.text("owner.subject"))
            && is(&self.what, shown.text("what"))
            && self.day.as_ref().is_none_or(|day| shown.at().starts_with(day.as_str()))
    }
}

impl Shown {
    pub(in crate::cli) fn of(outstanding: Outstanding) -> Shown {
        let entry = json::parse(&outstanding.entry, Limits::ANSWER).unwrap_or(Value::Null);
        Shown { outstanding, entry }
    }

    /// What stands under a path, as text; nothing where nothing is.
    pub(in crate::cli) fn text(&self, path: &str) -> String {
        match path.split('.').try_fold(&self.entry, |value, name| value.get(name)) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        }
    }

    pub(in crate::cli) fn at(&self) -> String {
        let at = Timestamp::from_microsecond(self.outstanding.at.as_micros());
        at.map_or_else(|_| String::new(), |at| format!("{at:.6}"))
    }

    /// What happened and how, without whose and what it was.
    pub(in crate::cli) fn event(&self) -> String {
        let mut text = plain(&self.text("what"));
        for (name, word) in [("attempt", "attempt"), ("status", "status"), ("trace", "trace")] {
            let value = self.text(name);
            if !value.is_empty() {
                text.push_str(&format!(", {word} {}", plain(&value)));
            }
        }
        const TOLD: [&str; 9] =
            ["what", "attempt", "status", "trace", "claim", "requestId", "operation", "owner", "fingerprint"];
        for (name, value) in self.entry.as_object().into_iter().flatten() {
            if !TOLD.contains(&name.as_str()) {
                text.push_str(&format!(", {} {}", plain(name), plain(&self.text_of(value))));
            }
        }
        text
    }

    /// Whose and what it was.
    pub(in crate::cli) fn subject(&self) -> String {
        let mut text = plain(&self.text("operation"));
        for (name, word) in [("claim", ""), ("requestId", ""), ("owner.subject", "by "), ("owner.issuer", "of ")] {
            let value = self.text(name);
            if !value.is_empty() {
                text.push_str(&format!(" {word}{}", plain(&value)));
            }
        }
        text.trim_start().to_owned()
    }

    fn text_of(&self, value: &Value) -> String {
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    }
}

/// Text that does nothing to a terminal.
pub(in crate::cli) fn plain(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

/// Shows every Entry of the files, in their order; says how many lines could not be read.
pub(in crate::cli) fn each(files: &[Chosen], mut with: impl FnMut(Shown) -> anyhow::Result<()>) -> anyhow::Result<u64> {
    let mut unreadable: u64 = 0;
    for file in files {
        let mut lines = Lines::of(file.open()?);
        while let Some(raw) = lines.following()? {
            match read_line(raw.bytes) {
                Ok(line) => {
                    if let Body::Entry(outstanding) = line.body {
                        with(Shown::of(outstanding))?;
                    }
                }
                Err(_) if !raw.is_whole => {}
                Err(_) => unreadable = unreadable.saturating_add(1),
            }
        }
    }
    Ok(unreadable)
}

/// Says it on standard error.
pub(in crate::cli) fn tell_unreadable(count: u64) {
    if count > 0 {
        eprintln!("{count} lines are not as they were written, and are left out; `sluice audit verify` says where");
    }
}
