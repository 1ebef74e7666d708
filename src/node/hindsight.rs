//! What a set that waits would have changed: the decisions in this gate's journal, decided again by both sets.
//!
//! The journal is read backwards from its end, off the path of money, and within bounds of time and memory. What is not
//! read, or was not recorded, is said and never guessed.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use crate::adapters::audit::{ReadBudget, Skip, read_backwards};
use crate::audit::{LineBody, read_line, split_steps};
use crate::base::json::{self, Limits};
use crate::base::keyed::OperandKey;
use crate::catalog::Catalog;
use crate::ledger::{NodeId, Outstanding, StoreTime};
use crate::policy::{DecisionHistory, Policies, ReplayRecord};

/// How much of the journal is read.
const BUDGET: ReadBudget = ReadBudget { bytes: 1024 * 1024 * 1024, time: Duration::from_secs(20) };
/// How many entries are kept at once.
const MAX_ENTRIES: usize = 2_500;
/// No window reaches back further.
const LONGEST_WINDOW: Duration = Duration::from_hours(24 * 90);

/// The two sets and what decides by them.
#[derive(Clone, Copy, Debug)]
pub struct Hindsight<'h> {
    pub in_force: &'h Policies,
    pub waiting: &'h Policies,
    pub catalog: &'h Catalog,
    pub key: &'h OperandKey,
}

impl Hindsight<'_> {
    /// Decides the newest decisions of a gate's journal by both sets; reading ends where `ends` says so.
    pub fn of_journal(self, folder: &Path, node: &NodeId, ends: &dyn Fn() -> bool) -> DecisionHistory {
        self.within(folder, node, BUDGET, (MAX_ENTRIES, ends))
    }

    fn within(
        self,
        folder: &Path,
        node: &NodeId,
        budget: ReadBudget,
        (most, ends): (usize, &dyn Fn() -> bool),
    ) -> DecisionHistory {
        let (mut record, mut count) = (ReplayRecord::default(), 0_usize);
        let (mut begins, mut is_whole): (Option<StoreTime>, bool) = (None, false);
        let read = read_backwards(folder, node, None, budget, &|_| Skip::No, &mut |line, _| {
            let outstanding = match read_line(line).map(|line| line.body) {
                Ok(LineBody::Entry(outstanding)) => outstanding,
                Ok(_) => return ControlFlow::Continue(()),
                Err(_) => {
                    record.add_unreadable(1);
                    return ControlFlow::Continue(());
                }
            };
            let begin = *begins.get_or_insert_with(|| before(outstanding.at));
            count = count.saturating_add(1);
            add(&mut record, outstanding.clone());
            is_whole = outstanding.at < begin;
            if count >= most || is_whole || ends() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let Hindsight { in_force, waiting, catalog, key } = self;
        let mut history = DecisionHistory::of(in_force, waiting, catalog, key, &record);
        match read {
            // The windows begin where the reading ended.
            Ok(Some(_)) if !is_whole => {
                history.note(format!("only the newest {count} entries of the journal were read"))
            }
            Ok(_) => {}
            Err(error) => {
                tracing::error!(%error, "cannot read the journal for what a waiting set would have changed");
                history.note("the journal cannot be read, or only in part".to_owned());
            }
        }
        history
    }
}

/// Returns the begin of the longest window that ends at a time.
fn before(at: StoreTime) -> StoreTime {
    let length = i64::try_from(LONGEST_WINDOW.as_micros()).unwrap_or(i64::MAX);
    StoreTime::of_micros(at.as_micros().saturating_sub(length))
}

fn add(record: &mut ReplayRecord, outstanding: Outstanding) {
    let bare = split_steps(&outstanding.entry).map_or(outstanding.entry.clone(), |split| split.bare.into());
    match json::parse(&bare, Limits::ANSWER) {
        Ok(entry) => record.add(&outstanding, &entry),
        Err(_) => record.add_unreadable(1),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;

    use super::*;
    use crate::adapters::audit::{AuditFiles, AuditSettings};
    use crate::adapters::clock::SystemClock;
    use crate::base::ids::Environment;
    use crate::catalog::SchemaFiles;
    use crate::ledger::Number;
    use crate::ports::AuditSink as _;

    /// Only the newest entries are kept, and the reader is told.
    #[tokio::test]
    async fn what_is_read_and_kept_is_bounded_and_said() {
        let (folder, node) = (tempfile::tempdir().unwrap(), NodeId::parse("a").unwrap());
        let audit = AuditFiles::open(AuditSettings::of(folder.path(), node.clone()), Arc::new(SystemClock)).unwrap();
        for number in 1..=9 {
            let entry = Bytes::from_static(br#"{"what":"denied","decision":{"effect":"deny"}}"#);
            let (number, at) = (Number::new(number), StoreTime::of_micros(1_790_000_000_000_000));
            let entry = Outstanding { environment: Environment::Sandbox, number, at, node: node.clone(), entry };
            audit.append(vec![entry]).await.unwrap();
        }
        let catalog = Catalog::build(&SchemaFiles::built_in(), &[]).unwrap();
        let (policies, key) = (Policies::of_everything(&catalog), OperandKey::of(&[7; 32]).unwrap());
        let hindsight = Hindsight { in_force: &policies, waiting: &policies, catalog: &catalog, key: &key };
        let all = hindsight.of_journal(folder.path(), &node, &|| false).as_json();
        assert_eq!(
            (&all["windows"][0]["cannotSay"][0]["count"], all["notes"].as_array().unwrap().len()),
            (&9.into(), 0)
        );
        let some = hindsight.within(folder.path(), &node, BUDGET, (4, &|| false)).as_json();
        assert_eq!(
            (&some["windows"][2]["decisions"], &some["windows"][2]["cannotSay"][0]["count"]),
            (&0.into(), &4.into())
        );
        assert!(some["notes"].to_string().contains("only the newest 4 entries of the journal were read"), "{some}");
        let none = ReadBudget { bytes: 0, time: Duration::ZERO };
        let some = hindsight.within(folder.path(), &node, none, (MAX_ENTRIES, &|| false)).as_json();
        assert!(some["notes"].to_string().contains("only the newest"), "{some}");
        let ended = hindsight.of_journal(folder.path(), &node, &|| true).as_json();
        assert!(ended["notes"].to_string().contains("only the newest 1 entries"), "{ended}");
    }
}
