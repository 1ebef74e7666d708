//! Source amounts that bring bad luck, so that a demo or a test can see every end.
//!
//! | amount | end |
//! |---|---|
//! | 13.13 | QUOTE_FAILED (a swap: FAILED), error `QUOTE_EXPIRED` |
//! | 14.14 | CRYPTO_FAILED (a swap: FAILED), error `TRANSACTION_REJECTED` |
//! | 15.15 | FIAT_FAILED (a swap: FAILED), error `FAILED_TO_CREATE_PAYMENT` |
//! | 16.16 | FIAT_RETURNED (a swap: COMPLETED) |
//! | 17.17 | refused with 400 and `INSUFFICIENT_BALANCE`; nothing happens |
//! | 18.18 | IN_REVIEW, and stays there (a swap: COMPLETED) |

use super::decimal::Decimal;

/// What becomes of a swap or an offramp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Completed,
    QuoteFailed,
    CryptoFailed,
    FiatFailed,
    FiatReturned,
    Refused,
    InReview,
}

/// How a failed record explains itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: &'static str,
    pub(super) details: &'static str,
}

impl Outcome {
    pub(super) fn of(sent: Decimal) -> Outcome {
        match sent.millionths() {
            13_130_000 => Outcome::QuoteFailed,
            14_140_000 => Outcome::CryptoFailed,
            15_150_000 => Outcome::FiatFailed,
            16_160_000 => Outcome::FiatReturned,
            17_170_000 => Outcome::Refused,
            18_180_000 => Outcome::InReview,
            _ => Outcome::Completed,
        }
    }

    pub(super) fn is_failure(self) -> bool {
        self.failure().is_some()
    }

    pub(super) fn failure(self) -> Option<Failure> {
        let (code, details) = match self {
            Outcome::QuoteFailed => ("QUOTE_EXPIRED", "the quote expired before it was accepted"),
            Outcome::CryptoFailed => ("TRANSACTION_REJECTED", "the chain rejected the transaction"),
            Outcome::FiatFailed => ("FAILED_TO_CREATE_PAYMENT", "the bank did not take the payment"),
            Outcome::Completed | Outcome::FiatReturned | Outcome::Refused | Outcome::InReview => return None,
        };
        Some(Failure { code, details })
    }
}
