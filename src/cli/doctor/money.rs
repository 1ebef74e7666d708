//! Whether money is open, and who lifts what stops it.

use std::borrow::Cow;

use jiff::Timestamp;

use super::age;
use super::report::DoctorReport;
use crate::adapters::store::sealed::Sealed;
use crate::base::ids::Environment;
use crate::ledger::{Content, NodeId, StoreFault, StoreTime};
use crate::node::frozen_index::FrozenIndex;
use crate::ports::Store as _;
use crate::stations::claim::{self, Forgotten, Freeze};

/// The remedy where the audit log cannot be written.
pub(super) const MEND_AUDIT: &str =
    "check `audit.folder`: that it is there, and the space, the mount and the rights of its disk";

/// Reports the freezes; returns the nodes that must still restore their records from their audit logs.
pub(super) async fn check_money(
    store: &Sealed,
    environment: Environment,
    report: &mut DoctorReport,
) -> Result<Vec<NodeId>, StoreFault> {
    let now = store.time().await?;
    let mut waited_for = Vec::new();
    let mut is_open = true;
    let FrozenIndex { freezes, has_more } = FrozenIndex::read(store, environment, None).await?;
    if has_more {
        report.find(
            &format!(
                "{environment}: the store has more freezes than a gate reads, so that reads of all callers are refused"
            ),
            "lift the freezes of callers that are needed no more",
        );
    }
    for (since, freeze) in freezes {
        let name = freeze.name();
        // A freeze whose record cannot be read still freezes.
        let record = store.read(&freeze.key(environment)).await.ok().and_then(|(record, _)| record);
        let content = record.map(|record| record.content);
        let bytes = match &content {
            Some(Content::Whole(bytes)) => bytes.as_ref(),
            Some(Content::Spent) | None => b"",
        };
        let details = claim::frozen(bytes);
        let reason = details.reason.unwrap_or_else(|| "unknown".to_owned());
        report.freeze(environment, &name, age(now, since), details.by, &reason);
        is_open &= !matches!(freeze, Freeze::Restored | Freeze::Clock | Freeze::All);
        let (problem, remedy) = match freeze {
            Freeze::Restored => {
                let forgotten = Forgotten::read(bytes);
                let remedy = restored_remedy(environment, &forgotten, store.last_paid(environment).await?);
                waited_for = forgotten.nodes.into_keys().collect();
                ("money is closed: the store may have lost payments".to_owned(), remedy)
            }
            Freeze::Clock => (
                "money is closed: the clock of the store leapt".to_owned(),
                format!(
                    "set the clock of the store's machine right (NTP), then {}",
                    unfreeze_remedy(environment, " --clock")
                ),
            ),
            Freeze::GateClock(node) => (
                format!(
                    "the money of gate `{node}` is closed: the clock of its machine was not that of others at its start"
                ),
                format!(
                    "set that clock right (NTP), start the gate again, then {}",
                    unfreeze_remedy(environment, &format!(" --gate-clock {node}"))
                ),
            ),
            Freeze::All => ("money is frozen".to_owned(), unfreeze_remedy(environment, "")),
            Freeze::Operation(operation) => (
                format!("operation `{operation}` is frozen"),
                unfreeze_remedy(environment, &format!(" --operation {operation}")),
            ),
            Freeze::Reads(caller) => (
                format!("the reads of caller `{}/{}` are frozen", caller.issuer, caller.subject),
                unfreeze_remedy(environment, &format!(" --reads --caller {}", shell_word(&caller.to_string()))),
            ),
            Freeze::Caller(caller) => (
                format!("caller `{}/{}` is frozen", caller.issuer, caller.subject),
                unfreeze_remedy(environment, &format!(" --caller {}", shell_word(&caller.to_string()))),
            ),
        };
        report.find(&format!("{environment}: {problem} ({reason})"), &remedy);
    }
    report.money(environment, is_open);
    Ok(waited_for)
}

/// The command that lifts a freeze, and how many people it takes.
fn unfreeze_remedy(environment: Environment, which: &str) -> String {
    let people = match environment {
        Environment::Production => ", said by two operators",
        Environment::Sandbox => "",
    };
    format!("unfreeze with `sluice unfreeze --environment {environment}{which} --reason TEXT`{people}")
}

/// A word of a command as a shell takes it. An issuer chooses the subjects of its tokens.
fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |one: char| one.is_ascii_alphanumeric() || "-_./:@%+=,".contains(one);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(format!("'{}'", text.replace('\'', "'\\''"))),
    }
}

fn restored_remedy(environment: Environment, forgotten: &Forgotten, last_paid: Option<StoreTime>) -> String {
    let open = format!(
        "Only when you know every payment that the store has lost, {}; a payment that no gate has restored may then be paid again",
        unfreeze_remedy(environment, " --restored")
    );
    let since = match last_paid.and_then(|at| Timestamp::from_microsecond(at.as_micros()).ok()) {
        Some(at) => format!("since {at}, when the store learned of the last one that it knows"),
        None => "at all: the store knows no payment".to_owned(),
    };
    let find = format!("find out what the payments API has paid {since} (the guide `recovery.md` says how)");
    let names: Vec<&str> = forgotten.nodes.keys().map(NodeId::as_str).collect();
    match (names.is_empty(), forgotten.by_person) {
        (true, _) => format!("a person must open it. First {find}. {open}"),
        (false, true) => format!(
            "it waits until {} have restored their records, and then for a person. First {find}. {open}",
            names.join(", ")
        ),
        (false, false) => format!(
            "it opens automatically when these gates have restored the records of their audit logs: {}. Start those that do \
             not run. If one never comes, {find}. {open}",
            names.join(", ")
        ),
    }
}

/// Returns the remedy for a reason of `/readyz/money`.
pub(super) fn remedy_of_stop(reason: &str, environment: Environment) -> String {
    match reason {
        "frozen" => {
            format!("`sluice freezes` says who froze it and why; {}", unfreeze_remedy(environment, ""))
        }
        "restored" => format!(
            "start every gate that has an audit log. If money stays closed, first find out what was paid since the last payment \
             that the store knows: `sluice freezes` says when that was, and the guide `recovery.md` how to compare. Only then \
             {}",
            unfreeze_remedy(environment, " --restored")
        ),
        "clock" => format!("set the clock of the store right, then {}", unfreeze_remedy(environment, " --clock")),
        "gate-clock" => {
            "set the clock of this machine right (NTP), and start the gate again; `sluice freezes` says more".to_owned()
        }
        "unwitnessed" => {
            "start the witnesses, or see why they refuse: the gate's log has the answer of each".to_owned()
        }
        "audit-failing" => MEND_AUDIT.to_owned(),
        "journal-begins" => {
            "start a gate that has run from the beginning, with its `audit.folder`: it tells this one what was before"
                .to_owned()
        }
        "disk-kept" => {
            "make room on the disks of `audit.folder` and `store.folder`, or lower `audit.production_bytes`".to_owned()
        }
        "policies-not-run" => {
            "if a record cannot be read, do what the reason says; otherwise give this gate the software and the configuration of \
             the gate that put the policies in force; if nobody signed them, the guide `runbook.md` says what to do"
                .to_owned()
        }
        "store-not-durable" => super::START_REPLICAS.to_owned(),
        "fence" => super::START_SENTINELS.to_owned(),
        "store-away" | "store-refuses-writes" => {
            "do what the reason says; otherwise check the store: its process, its disk and the network".to_owned()
        }
        "keys-unknown" => "check that the gate reaches the issuers of tokens".to_owned(),
        "upstream-unknown" => "check the name resolution of the gate's machine".to_owned(),
        "draining" => "the gate is ending: start it again".to_owned(),
        _ => "the gate's log says more".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_is_one_word_of_a_shell() {
        for (caller, word) in [
            ("tools/payroll", "tools/payroll"),
            ("tools/pay roll", "'tools/pay roll'"),
            ("tools/$(touch x)`y`\"z\"", "'tools/$(touch x)`y`\"z\"'"),
            ("tools/it's", "'tools/it'\\''s'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(caller), word);
        }
    }
}
