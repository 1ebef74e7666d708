//! What audit files say of decisions, each commit once, in the order of their numbers.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::base::ids::{Environment, OperationId};
use crate::cli::audit::entries::{Shown, each};
use crate::cli::audit::files::Chosen;
use crate::policy::{Operands, Recorded};

/// What a commit was.
#[derive(Debug)]
pub(super) enum Event {
    Decided(Box<Decided>),
    /// What waited for people goes: no other decision of the same request, but it counts.
    Released(Box<Decided>),
    /// A decision that was written down without what it was made of.
    Untold {
        day: String,
    },
    /// Certainly nothing was executed of this attempt.
    GivenBack {
        attempt: u64,
    },
    Other,
}

/// A decision that can be made again.
#[derive(Debug)]
pub(super) struct Decided {
    pub recorded: Recorded,
    pub effect: String,
    /// In UTC.
    pub day: String,
    /// By which people know it.
    pub name: String,
}

#[derive(Debug, Default)]
pub(super) struct Record {
    events: BTreeMap<(Environment, u64), Event>,
    unreadable: u64,
}

impl Record {
    /// An Entry that stands in two files counts once.
    pub fn read(files: &[Chosen], mut progress: impl FnMut(u64)) -> anyhow::Result<Record> {
        let (mut record, mut count) = (Record::default(), 0_u64);
        record.unreadable = each(files, |shown| {
            count = count.saturating_add(1);
            progress(count);
            let key = (shown.outstanding.environment, shown.outstanding.number.as_u64());
            record.events.entry(key).or_insert_with(|| event(&shown));
            Ok(())
        })?;
        Ok(record)
    }

    pub fn events(&self) -> impl Iterator<Item = (Environment, &Event)> {
        self.events.iter().map(|((environment, _), event)| (*environment, event))
    }

    /// The ids of the keys that names stand under.
    pub fn keys(&self) -> BTreeSet<String> {
        let key = |event: &Event| match event {
            Event::Decided(decided) => Some(decided.recorded.operands.key.clone()),
            Event::Released(released) => Some(released.recorded.operands.key.clone()),
            Event::Untold { .. } | Event::GivenBack { .. } | Event::Other => None,
        };
        self.events.values().filter_map(key).collect()
    }

    /// What is missing, so that limits may count less than they should.
    pub fn gaps(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for environment in Environment::ALL {
            let numbers = self.events.range((environment, 0)..=(environment, u64::MAX)).map(|((_, number), _)| *number);
            let (mut first, mut last, mut count) = (None, 0, 0_u64);
            for number in numbers {
                first.get_or_insert(number);
                (last, count) = (number, count.saturating_add(1));
            }
            let Some(first) = first else { continue };
            if first > 1 {
                notes.push(format!("{environment} begins at number {first}: what limits counted before is not known"));
            }
            let missing = last.saturating_sub(first).saturating_add(1).saturating_sub(count);
            if missing > 0 {
                notes.push(format!("{missing} entries of {environment} are missing between {first} and {last}"));
            }
        }
        if self.unreadable > 0 {
            let count = self.unreadable;
            notes.push(format!("{count} lines are not as they were written; `sluice audit verify` says where"));
        }
        notes
    }
}

fn event(shown: &Shown) -> Event {
    let attempt = shown.entry.get("attempt").and_then(Value::as_u64);
    let what = shown.text("what");
    match (what.as_str(), attempt) {
        ("not-executed" | "undone", Some(attempt)) => Event::GivenBack { attempt },
        (_, None) if shown.entry.get("decision").is_some() => match decided(shown) {
            Some(decided) if what == "sending" && decided.recorded.hold.is_some() => Event::Released(Box::new(decided)),
            Some(decided) => Event::Decided(Box::new(decided)),
            None => Event::Untold { day: day(shown) },
        },
        _ => Event::Other,
    }
}

fn decided(shown: &Shown) -> Option<Decided> {
    let name = |path: &str| Some(shown.text(path)).filter(|text| !text.is_empty());
    let outstanding = &shown.outstanding;
    let number = outstanding.number.as_u64();
    let recorded = Recorded {
        environment: outstanding.environment,
        number,
        at: outstanding.at,
        operation: OperationId::new(&name("operation")?),
        issuer: name("owner.issuer")?,
        subject: name("owner.subject")?,
        requester: name("requester"),
        hold: name("hold"),
        operands: Operands::read(shown.entry.get("operands")?)?,
    };
    let known = name("requestId").or_else(|| name("claim")).unwrap_or_else(|| format!("number {number}"));
    Some(Decided { recorded, effect: name("decision.effect")?, day: day(shown), name: known })
}

fn day(shown: &Shown) -> String {
    shown.at().chars().take(10).collect()
}
