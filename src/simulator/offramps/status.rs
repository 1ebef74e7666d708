//! The statuses of an offramp, and the path of each outcome through them.

use super::super::outcome::ScriptedOutcome;
use crate::base::word_enum::word_enum;

word_enum! {
    /// The statuses that the simulator uses, of those that the interface lists.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(super) enum OfframpStatus {
        Created = "CREATED",
        OpenQuote = "OPEN_QUOTE",
        AwaitingFunds = "AWAITING_FUNDS",
        CryptoInitiated = "CRYPTO_INITIATED",
        CryptoPending = "CRYPTO_PENDING",
        CryptoProcessed = "CRYPTO_PROCESSED",
        FiatInitiated = "FIAT_INITIATED",
        FiatPending = "FIAT_PENDING",
        Completed = "COMPLETED",
        FiatFailed = "FIAT_FAILED",
        FiatReturned = "FIAT_RETURNED",
        CryptoFailed = "CRYPTO_FAILED",
        QuoteFailed = "QUOTE_FAILED",
        InReview = "IN_REVIEW",
        CryptoReturned = "CRYPTO_RETURNED",
        Cancelled = "CANCELLED",
    }
}

impl OfframpStatus {
    /// Returns the path of an outcome: one status further with every pace; the last one stays.
    pub(super) fn path(outcome: ScriptedOutcome) -> &'static [OfframpStatus] {
        use OfframpStatus::{
            AwaitingFunds, Cancelled, Completed, Created, CryptoFailed, CryptoInitiated, CryptoPending,
            CryptoProcessed, CryptoReturned, FiatFailed, FiatInitiated, FiatPending, FiatReturned, InReview, OpenQuote,
            QuoteFailed,
        };
        match outcome {
            ScriptedOutcome::Completed | ScriptedOutcome::Refused => &[
                Created,
                OpenQuote,
                AwaitingFunds,
                CryptoInitiated,
                CryptoPending,
                CryptoProcessed,
                FiatInitiated,
                FiatPending,
                Completed,
            ],
            ScriptedOutcome::QuoteFailed => &[Created, OpenQuote, QuoteFailed],
            ScriptedOutcome::CryptoFailed => &[Created, OpenQuote, AwaitingFunds, CryptoInitiated, CryptoFailed],
            ScriptedOutcome::FiatFailed => {
                &[Created, OpenQuote, CryptoPending, CryptoProcessed, FiatInitiated, FiatPending, FiatFailed]
            }
            ScriptedOutcome::FiatReturned => {
                &[Created, OpenQuote, CryptoPending, CryptoProcessed, FiatPending, Completed, FiatReturned]
            }
            ScriptedOutcome::InReview => &[Created, OpenQuote, CryptoPending, InReview],
            ScriptedOutcome::CryptoReturned => {
                &[Created, OpenQuote, CryptoPending, CryptoProcessed, FiatPending, FiatFailed, CryptoReturned]
            }
            ScriptedOutcome::Cancelled => &[Created, OpenQuote, AwaitingFunds, Cancelled],
        }
    }

    /// Returns how far the value itself has come.
    pub(super) fn reached(self) -> Reached {
        match self {
            OfframpStatus::Created
            | OfframpStatus::QuoteFailed
            | OfframpStatus::CryptoFailed
            | OfframpStatus::Cancelled => Reached::Nothing,
            OfframpStatus::OpenQuote | OfframpStatus::AwaitingFunds | OfframpStatus::CryptoInitiated => {
                Reached::Deposit
            }
            OfframpStatus::CryptoPending
            | OfframpStatus::CryptoProcessed
            | OfframpStatus::InReview
            | OfframpStatus::CryptoReturned => Reached::Chain,
            OfframpStatus::FiatInitiated
            | OfframpStatus::FiatPending
            | OfframpStatus::Completed
            | OfframpStatus::FiatFailed
            | OfframpStatus::FiatReturned => Reached::Bank,
        }
    }

    pub(super) fn is_failure(self) -> bool {
        matches!(self, OfframpStatus::QuoteFailed | OfframpStatus::CryptoFailed | OfframpStatus::FiatFailed)
    }
}

/// Where an offramp's value is, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reached {
    /// Nowhere: nothing can be, or will be, collected.
    Nothing,
    /// The deposit can be collected.
    Deposit,
    /// A transaction is on the chain.
    Chain,
    /// A payment is with the bank.
    Bank,
}
