//! A journal entry about a money call, reduced to what the list of payments needs.

use serde_json::Value;

use super::stage::PaymentStage;
use crate::adapters::audit::FilePosition;
use crate::audit::{EntryKind, LineBody, read_line, split_steps};
use crate::base::ids::Environment;
use crate::base::json::{self, Limits};
use crate::base::money::Decimal;
use crate::base::word_enum::word_enum;
use crate::ledger::StoreTime;

word_enum! {
    /// What became of a money call, in the words of the console.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub(in crate::console) enum PaymentStatus {
        /// Upstream executed it.
        Paid = "paid",
        /// It is being sent.
        Sending = "sending",
        /// It waits for people's approval, or for its release.
        Waiting = "waiting",
        /// Upstream may have executed it.
        Unknown = "unknown",
        /// The rules, upstream or people refused it.
        Refused = "refused",
        /// Its caller cancelled it.
        Cancelled = "cancelled",
        /// Too few people approved it in time.
        Expired = "expired",
        /// It was certainly not executed and may be sent again.
        NotSent = "not-sent",
        /// Two people said that it was not executed, which proves nothing; it may be sent again.
        Absent = "absent",
        /// Two people gave it up.
        GivenUp = "given-up",
        /// Upstream executed it, and it did not arrive.
        Failed = "failed",
        /// Upstream executed it, and it came back.
        Returned = "returned",
    }
}

/// What an entry says of a call besides its status.
#[derive(Debug)]
pub(in crate::console) enum FactKind {
    /// The call was decided: what it moves, and by which rules.
    Decided(Box<DecidedCall>),
    Voted {
        issuer: String,
        subject: String,
        is_withdrawn: bool,
    },
    Other,
}

/// One entry.
#[derive(Debug)]
pub(in crate::console) struct PaymentFact {
    pub environment: Environment,
    /// The record name of its claim.
    pub claim: String,
    pub number: u64,
    pub at: StoreTime,
    pub place: FilePosition,
    /// Where the next line begins.
    pub end: FilePosition,
    pub operation: String,
    pub issuer: String,
    pub subject: String,
    pub hold: Option<String>,
    /// `None` where the entry changes nothing in the call's status.
    pub status: Option<PaymentStatus>,
    /// The words of the event, for people.
    pub event: &'static str,
    /// Upstream's status code.
    pub answered: Option<u64>,
    /// The state that upstream's list shows.
    pub state: Option<String>,
    /// The stage that the payment reaches by this entry.
    pub stage: Option<PaymentStage>,
    /// What is wrong with the payment in upstream's list.
    pub problem: Option<String>,
    /// Whether the call was, or may have been, executed more than once.
    pub is_repeated: bool,
    pub kind: FactKind,
}

/// The call as it was decided.
#[derive(Debug)]
pub(in crate::console) struct DecidedCall {
    pub requester: Option<String>,
    pub rules: Vec<String>,
    pub amount: Option<Decimal>,
    /// The currency of the amount.
    pub currency: Option<String>,
    pub chain: Option<String>,
    /// The currency of the other side.
    pub other_currency: Option<String>,
    /// In micro-USD.
    pub value: Option<u64>,
    /// The keyed names of each end, such as `wallet #1a2b`.
    pub from: Option<String>,
    pub to: Option<String>,
    /// Whether a destination had never been paid before.
    pub is_first: bool,
}

impl PaymentFact {
    /// Reads a line; `None` where it says nothing of a claim.
    pub fn of_line(line: &[u8], place: FilePosition) -> Option<PaymentFact> {
        // Most other lines need no parsing.
        std::str::from_utf8(line).ok().filter(|text| text.contains("\"claim\":"))?;
        let Ok(LineBody::Entry(outstanding)) = read_line(line).map(|line| line.body) else { return None };
        let bare = split_steps(&outstanding.entry).ok()?.bare;
        let entry = json::parse(&bare, Limits::ANSWER).ok()?;
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let what = EntryKind::parse(&text("/what")?)?;
        let kind = match what {
            EntryKind::Sending | EntryKind::Held | EntryKind::Refused => {
                FactKind::Decided(Box::new(DecidedCall::of(&entry)))
            }
            EntryKind::Voted | EntryKind::Withdrawn => FactKind::Voted {
                issuer: text("/by/issuer")?,
                subject: text("/by/subject")?,
                is_withdrawn: what == EntryKind::Withdrawn,
            },
            _ => FactKind::Other,
        };
        let is_said = entry.get("saidBy").is_some();
        let (status, event) = match what {
            EntryKind::Followed => status_of_followed(&text("/meaning").unwrap_or_default()),
            EntryKind::Undone => status_of_undone(is_said, entry.get("hold").is_some()),
            what => status_of(what, entry.get("complete") == Some(&Value::Bool(true))),
        };
        Some(PaymentFact {
            environment: outstanding.environment,
            claim: text("/claim")?,
            number: outstanding.number.as_u64(),
            at: outstanding.at,
            place,
            end: behind(line, place),
            operation: text("/operation")?,
            issuer: text("/owner/issuer")?,
            subject: text("/owner/subject")?,
            hold: text("/hold"),
            status,
            event,
            answered: entry.get("status").and_then(Value::as_u64),
            state: text("/state").filter(|state| what == EntryKind::Followed && !state.is_empty()),
            stage: PaymentStage::of(what, &text("/meaning").unwrap_or_default(), is_said),
            problem: text("/problem").filter(|_| what == EntryKind::Followed),
            is_repeated: text("/executions").is_some_and(|word| word != "at-most-once"),
            kind,
        })
    }
}

/// Returns where the line behind this one begins.
pub(super) fn behind(line: &[u8], place: FilePosition) -> FilePosition {
    FilePosition { offset: place.offset.saturating_add(line.len() as u64).saturating_add(1), ..place }
}

impl DecidedCall {
    pub fn of(entry: &Value) -> DecidedCall {
        let text = |pointer: &str| entry.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let amount_of = |side: &str| text(&format!("/operands/{side}/amount"));
        // The amount that leaves counts; where only the one that arrives is stated, that one.
        let (main, other) = match amount_of("source") {
            Some(_) => ("source", "destination"),
            None => ("destination", "source"),
        };
        let rules = entry.pointer("/decision/by").and_then(Value::as_array).into_iter().flatten();
        let paid = entry.pointer("/operands/paid").and_then(Value::as_object);
        DecidedCall {
            requester: text("/requester"),
            rules: rules.filter_map(Value::as_str).map(str::to_owned).collect(),
            amount: amount_of(main).and_then(|text| Decimal::parse(&text).ok()),
            currency: text(&format!("/operands/{main}/currency")).map(|name| name.to_lowercase()),
            chain: text(&format!("/operands/{main}/chain")),
            other_currency: text(&format!("/operands/{other}/currency")).map(|name| name.to_lowercase()),
            value: entry.pointer("/operands/value").and_then(Value::as_u64),
            from: party_names(entry.pointer("/operands/source")),
            to: party_names(entry.pointer("/operands/destination")),
            is_first: paid.is_some_and(|paid| paid.values().any(|was_paid| *was_paid == Value::Bool(false))),
        }
    }
}

/// The ways to name an end of a payment: the member of the operands, and the word for people; the most exact one first.
pub(in crate::console) const WAYS: [(&str, &str); 4] =
    [("account", "account"), ("externalWallet", "external wallet"), ("wallet", "wallet"), ("user", "user")];

/// Joins the keyed names of one end.
fn party_names(party: Option<&Value>) -> Option<String> {
    let name = |(member, _): (&str, &str)| Some(format!("{member} {}", party?.get(member)?.as_str()?));
    let names: Vec<String> = WAYS.into_iter().filter_map(name).collect();
    (!names.is_empty()).then(|| names.join(" "))
}

/// Returns the status after a new state in upstream's list, by what it means, and its words.
fn status_of_followed(meaning: &str) -> (Option<PaymentStatus>, &'static str) {
    let (status, event) = match meaning {
        "open" => (PaymentStatus::Paid, "executed, and under way"),
        "settled" => (PaymentStatus::Paid, "executed, and arrived"),
        "failed" => (PaymentStatus::Failed, "executed, and failed: it did not arrive"),
        "returned" => (PaymentStatus::Returned, "executed, and came back"),
        _ => return (None, ""),
    };
    (Some(status), event)
}

/// Returns the status after an attempt that was not executed, and its words.
fn status_of_undone(is_said: bool, is_held: bool) -> (Option<PaymentStatus>, &'static str) {
    let (status, event) = match (is_said, is_held) {
        (true, _) => (PaymentStatus::Absent, "two people said that it was not executed; it may be sent again"),
        (false, true) => (PaymentStatus::Waiting, "certainly not executed yet; the gate sends it again by itself"),
        (false, false) => (PaymentStatus::NotSent, "certainly not executed; it may be sent again"),
    };
    (Some(status), event)
}

/// Returns the status after an event and its words.
fn status_of(what: EntryKind, is_complete: bool) -> (Option<PaymentStatus>, &'static str) {
    let (status, event) = match what {
        EntryKind::Sending => (PaymentStatus::Sending, "sent upstream, and not answered yet"),
        EntryKind::Executed => (PaymentStatus::Paid, "upstream executed it"),
        EntryKind::NotExecuted => (PaymentStatus::Refused, "refused by upstream"),
        EntryKind::Unknown => (PaymentStatus::Unknown, "upstream may have executed it"),
        EntryKind::Abandoned => (PaymentStatus::GivenUp, "given up by two people; limits count it"),
        EntryKind::Refused => (PaymentStatus::Refused, "denied by the rules"),
        EntryKind::Held | EntryKind::Reopened => (PaymentStatus::Waiting, "waits for approval"),
        EntryKind::Approved => (PaymentStatus::Waiting, "approved, and not sent yet"),
        EntryKind::Voted if is_complete => (PaymentStatus::Waiting, "approved, and not sent yet"),
        EntryKind::Rejected => (PaymentStatus::Refused, "rejected by an approver"),
        EntryKind::Expired => (PaymentStatus::Expired, "too few people approved it in time"),
        EntryKind::Cancelled => (PaymentStatus::Cancelled, "cancelled by its caller"),
        EntryKind::Blocked => (PaymentStatus::Refused, "denied by the rules at its release"),
        _ => return (None, ""),
    };
    (Some(status), event)
}

#[cfg(test)]
impl PaymentFact {
    /// Returns an entry about a swap of production, for tests.
    pub fn of_swap(
        name: &str,
        (number, at): (u64, StoreTime),
        subject: &str,
        status: Option<PaymentStatus>,
        kind: FactKind,
    ) -> PaymentFact {
        PaymentFact {
            environment: Environment::Production,
            claim: name.to_owned(),
            number,
            at,
            place: FilePosition { sequence: 1, offset: number },
            end: FilePosition { sequence: 1, offset: number.saturating_add(1) },
            operation: "createSwap".to_owned(),
            issuer: "main".to_owned(),
            subject: subject.to_owned(),
            hold: None,
            status,
            event: "",
            answered: None,
            state: None,
            stage: None,
            problem: None,
            is_repeated: false,
            kind,
        }
    }
}

#[cfg(test)]
impl DecidedCall {
    /// Returns a call that moves this much USDC, for tests.
    pub fn of_amount(amount: &str) -> DecidedCall {
        let amount = Decimal::parse(amount).unwrap();
        DecidedCall {
            requester: Some("ann".to_owned()),
            rules: vec!["small".to_owned()],
            amount: Some(amount),
            currency: Some("usdc".to_owned()),
            chain: None,
            other_currency: None,
            value: amount.units(6).ok().and_then(|units| u64::try_from(units).ok()),
            from: None,
            to: Some("wallet #aa".to_owned()),
            is_first: true,
        }
    }
}
