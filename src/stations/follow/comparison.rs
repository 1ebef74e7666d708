//! Compares a listed record with the call that made it.

use crate::base::money::{Decimal, MicroUsd};
use crate::base::word_enum::word_enum;
use crate::catalog::{Movement, Party};
use crate::policy::Valuation;

word_enum! {
    /// Why a record of upstream is not what a gate sent.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum RecordProblem {
        /// No claim has its requestId.
        UnknownRequest = "unknown-request",
        /// The call with its requestId was never sent as this operation.
        NeverSent = "never-sent",
        /// Another record has its requestId, too.
        SecondRecord = "second-record",
        /// The record with its requestId was made before the call was sent.
        OlderRecord = "older-record",
        /// The record moves another amount, in another currency or on another chain.
        OtherAmount = "other-amount",
        /// The record pays, or charges, somebody else.
        OtherPayee = "other-payee",
        /// Its time contradicts its place in the list.
        FalseTime = "false-time",
        /// A whole page has its very time: others of that time may be hidden.
        CrowdedTime = "crowded-time",
    }
}

impl RecordProblem {
    /// Whether it is about the time of a record alone: such a record moves no other money.
    pub fn is_of_time(self) -> bool {
        matches!(self, RecordProblem::FalseTime | RecordProblem::CrowdedTime)
    }

    /// The problem in words.
    pub fn in_words(self) -> &'static str {
        match self {
            RecordProblem::UnknownRequest => "no gate sent a call with its requestId",
            RecordProblem::NeverSent => "the call with its requestId was held, refused, or is another operation",
            RecordProblem::SecondRecord => "another record has the same requestId",
            RecordProblem::OlderRecord => "it has the requestId of a call that was sent only later",
            RecordProblem::OtherAmount => "it moves another amount than the call asked for",
            RecordProblem::OtherPayee => "it pays somebody else than the call asked for",
            RecordProblem::FalseTime => "the time of its making contradicts its place in the list",
            RecordProblem::CrowdedTime => "a whole page has its time, so others of that time cannot be read",
        }
    }
}

/// Returns what a record says otherwise than the call. A field that only one of them states proves nothing.
pub fn problem_of(asked: &Movement, shown: &Movement) -> Option<RecordProblem> {
    let sides = [(&asked.source, &shown.source), (&asked.destination, &shown.destination)];
    let differs = |pick: fn(&Party) -> &Option<String>| {
        sides.iter().any(|(asked, shown)| match (pick(asked), pick(shown)) {
            (Some(asked), Some(shown)) => !asked.eq_ignore_ascii_case(shown),
            (None, _) | (_, None) => false,
        })
    };
    // Wallets are in their normal form: on some chains the case of letters matters.
    let is_other_wallet = sides.iter().any(|(asked, shown)| match (&asked.wallet, &shown.wallet) {
        (Some(asked), Some(shown)) => asked != shown,
        (None, _) | (_, None) => false,
    });
    let takes_other_fee = shown.fee_wallets.iter().any(|wallet| !asked.fee_wallets.contains(wallet));
    let is_other_payee =
        differs(|side| &side.user) || differs(|side| &side.account) || differs(|side| &side.external_wallet);
    let is_other_amount = sides.iter().any(|(asked, shown)| is_other(asked.amount.as_ref(), shown.amount.as_ref()));
    if is_other_payee || is_other_wallet || takes_other_fee {
        Some(RecordProblem::OtherPayee)
    } else if is_other_amount || differs(|side| &side.currency) || differs(|side| &side.chain) {
        Some(RecordProblem::OtherAmount)
    } else {
        None
    }
}

/// Returns whether two stated amounts differ.
fn is_other(asked: Option<&String>, shown: Option<&String>) -> bool {
    let (Some(asked), Some(shown)) = (asked, shown) else { return false };
    match (Decimal::parse(asked), Decimal::parse(shown)) {
        (Ok(asked), Ok(shown)) => asked.compare(shown).is_ne(),
        _ => asked != shown,
    }
}

/// Returns the value of what a record moves, where that is not what was counted: it states another amount, or the amount
/// that leaves, which the call left open. Fees count as they were asked for.
pub fn shown_value(asked: &Movement, shown: &Movement, valuation: &Valuation, now_secs: i64) -> Option<MicroUsd> {
    let is_source_new = match (&asked.source.amount, &shown.source.amount) {
        (None, Some(_)) => true,
        (asked, shown) => is_other(asked.as_ref(), shown.as_ref()),
    };
    if !is_source_new && !is_other(asked.destination.amount.as_ref(), shown.destination.amount.as_ref()) {
        return None;
    }
    let side = |asked: &Party, shown: &Party| Party {
        amount: shown.amount.clone().or_else(|| asked.amount.clone()),
        currency: shown.currency.clone().or_else(|| asked.currency.clone()),
        ..shown.clone()
    };
    let source = side(&asked.source, &shown.source);
    let destination = side(&asked.destination, &shown.destination);
    let whole = Movement { source, destination, ..asked.clone() };
    let value = valuation.value(&whole, now_secs);
    // Upstream may state what arrives with more decimals than its currency has.
    let of_source = || {
        let destination = Party { amount: None, ..whole.destination.clone() };
        valuation.value(&Movement { destination, ..whole.clone() }, now_secs)
    };
    value.or_else(|_| of_source()).ok()
}
