//! The statuses of an offramp, and the way through them that its outcome takes.

use super::super::outcome::Outcome;

/// The statuses that the simulator uses, of those that the interface lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Created,
    OpenQuote,
    AwaitingFunds,
    CryptoInitiated,
    CryptoPending,
    CryptoProcessed,
    FiatInitiated,
    FiatPending,
    Completed,
    FiatFailed,
    FiatReturned,
    CryptoFailed,
    QuoteFailed,
    InReview,
}

impl Status {
    /// One status further with every pace; the last one stays.
    pub(super) fn path(outcome: Outcome) -> &'static [Status] {
        use Status::{
            AwaitingFunds, Completed, Created, CryptoFailed, CryptoInitiated, CryptoPending, CryptoProcessed,
            FiatFailed, FiatInitiated, FiatPending, FiatReturned, InReview, OpenQuote, QuoteFailed,
        };
        match outcome {
            Outcome::Completed | Outcome::Refused => &[
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
            Outcome::QuoteFailed => &[Created, OpenQuote, QuoteFailed],
            Outcome::CryptoFailed => &[Created, OpenQuote, AwaitingFunds, CryptoInitiated, CryptoFailed],
            Outcome::FiatFailed => {
                &[Created, OpenQuote, CryptoPending, CryptoProcessed, FiatInitiated, FiatPending, FiatFailed]
            }
            Outcome::FiatReturned => &[Created, OpenQuote, CryptoPending, CryptoProcessed, FiatPending, FiatReturned],
            Outcome::InReview => &[Created, OpenQuote, CryptoPending, InReview],
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Status::Created => "CREATED",
            Status::OpenQuote => "OPEN_QUOTE",
            Status::AwaitingFunds => "AWAITING_FUNDS",
            Status::CryptoInitiated => "CRYPTO_INITIATED",
            Status::CryptoPending => "CRYPTO_PENDING",
            Status::CryptoProcessed => "CRYPTO_PROCESSED",
            Status::FiatInitiated => "FIAT_INITIATED",
            Status::FiatPending => "FIAT_PENDING",
            Status::Completed => "COMPLETED",
            Status::FiatFailed => "FIAT_FAILED",
            Status::FiatReturned => "FIAT_RETURNED",
            Status::CryptoFailed => "CRYPTO_FAILED",
            Status::QuoteFailed => "QUOTE_FAILED",
            Status::InReview => "IN_REVIEW",
        }
    }

    /// How far the value itself has come.
    pub(super) fn reached(self) -> Reached {
        match self {
            Status::Created | Status::QuoteFailed | Status::CryptoFailed => Reached::Nothing,
            Status::OpenQuote | Status::AwaitingFunds | Status::CryptoInitiated => Reached::Deposit,
            Status::CryptoPending | Status::CryptoProcessed | Status::InReview => Reached::Chain,
            Status::FiatInitiated
            | Status::FiatPending
            | Status::Completed
            | Status::FiatFailed
            | Status::FiatReturned => Reached::Bank,
        }
    }

    pub(super) fn is_failure(self) -> bool {
        matches!(self, Status::QuoteFailed | Status::CryptoFailed | Status::FiatFailed)
    }
}

/// Where an offramp's value is, in the order of its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reached {
    /// Nowhere: nothing can be, or is to be, collected.
    Nothing,
    /// The deposit can be collected.
    Deposit,
    /// A transaction is on the chain.
    Chain,
    /// A payment is with the bank.
    Bank,
}
