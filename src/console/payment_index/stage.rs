//! The stages of a payment after its send, and the records that no gate sent: what statements of a day are made of.

use serde_json::Value;

use crate::audit::{EntryKind, LineBody, read_line, split_steps};
use crate::base::ids::Environment;
use crate::base::json::{self, Limits};
use crate::base::money::Decimal;
use crate::base::word_enum::word_enum;
use crate::ledger::StoreTime;
use crate::stations::follow::RecordProblem;

word_enum! {
    /// How far a payment is, after it was sent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(in crate::console) enum PaymentStage {
        /// It is being sent.
        Sending = "sending",
        /// Upstream executed it: the end of those that no list shows.
        Executed = "executed",
        /// Upstream's list shows it on its way.
        Open = "open",
        /// Upstream may have executed it.
        Unknown = "unknown",
        /// It arrived.
        Settled = "settled",
        /// It did not arrive.
        Failed = "failed",
        /// It came back.
        Returned = "returned",
        /// Upstream did not execute it.
        NotExecuted = "not-executed",
        /// Two people said that upstream did not execute it.
        Absent = "absent",
        /// Two people gave it up.
        GivenUp = "given-up",
    }
}

impl PaymentStage {
    /// Returns the stage after an entry; `meaning` is that of a state in upstream's list, `is_said` whether people said it.
    pub fn of(what: EntryKind, meaning: &str, is_said: bool) -> Option<PaymentStage> {
        Some(match (what, meaning) {
            (EntryKind::Sending, _) => PaymentStage::Sending,
            (EntryKind::Executed, _) => PaymentStage::Executed,
            (EntryKind::Unknown, _) => PaymentStage::Unknown,
            (EntryKind::Undone, _) if is_said => PaymentStage::Absent,
            (EntryKind::NotExecuted | EntryKind::Undone, _) => PaymentStage::NotExecuted,
            (EntryKind::Abandoned, _) => PaymentStage::GivenUp,
            (EntryKind::Followed, "open") => PaymentStage::Open,
            (EntryKind::Followed, "settled") => PaymentStage::Settled,
            (EntryKind::Followed, "failed") => PaymentStage::Failed,
            (EntryKind::Followed, "returned") => PaymentStage::Returned,
            _ => return None,
        })
    }
}

/// When a payment reached a stage, and the number of the entry that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::console) struct StageMark {
    pub number: u64,
    pub at: StoreTime,
    pub stage: PaymentStage,
}

/// A record in upstream's list that no claim explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::console) struct ForeignFact {
    pub environment: Environment,
    pub number: u64,
    pub at: StoreTime,
    pub operation: String,
    pub amount: Option<Decimal>,
    pub currency: Option<String>,
    pub chain: Option<String>,
}

impl ForeignFact {
    /// Reads a line; `None` where it is about something else.
    pub fn of_line(line: &[u8]) -> Option<ForeignFact> {
        std::str::from_utf8(line).ok().filter(|text| text.contains("\"foreign\""))?;
        let Ok(LineBody::Entry(outstanding)) = read_line(line).map(|line| line.body) else { return None };
        let entry = json::parse(&split_steps(&outstanding.entry).ok()?.bare, Limits::ANSWER).ok()?;
        let text = |name: &str| entry.get(name).and_then(Value::as_str).map(str::to_owned);
        if text("what").as_deref() != Some(EntryKind::Foreign.as_str()) {
            return None;
        }
        let problem = text("problem");
        if problem.as_deref().and_then(RecordProblem::parse).is_some_and(RecordProblem::is_of_time) {
            return None;
        }
        Some(ForeignFact {
            environment: outstanding.environment,
            number: outstanding.number.as_u64(),
            at: outstanding.at,
            operation: text("operation")?,
            amount: text("amount").and_then(|amount| Decimal::parse(&amount).ok()),
            currency: text("currency").map(|name| name.to_lowercase()),
            chain: text("chain"),
        })
    }
}
