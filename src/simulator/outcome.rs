//! Source amounts that script an outcome, so that a demo or a test can see every end.
//!
//! | amount | end |
//! |---|---|
//! | 13.13 | QUOTE_FAILED (a swap: FAILED), error `QUOTE_EXPIRED` |
//! | 14.14 | CRYPTO_FAILED (a swap: FAILED), error `TRANSACTION_REJECTED` |
//! | 15.15 | FIAT_FAILED (a swap: FAILED), error `FAILED_TO_CREATE_PAYMENT` |
//! | 16.16 | FIAT_RETURNED (a swap: COMPLETED) |
//! | 17.17 | refused with 400 and `INSUFFICIENT_BALANCE`; nothing happens |
//! | 18.18 | IN_REVIEW, and stays there (a swap: COMPLETED) |
//! | 19.19 | CRYPTO_RETURNED (a swap: COMPLETED) |
//! | 20.20 | CANCELLED, before its deposit (a swap: COMPLETED) |

use super::decimal::SimulatorDecimal;

/// The scripted outcome of a swap or an offramp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptedOutcome {
    Completed,
    QuoteFailed,
    CryptoFailed,
    FiatFailed,
    FiatReturned,
    Refused,
    InReview,
    CryptoReturned,
    Cancelled,
}

/// The explanation of a failed record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScriptedFailure {
    pub(super) code: &'static str,
    pub(super) details: &'static str,
}

impl ScriptedOutcome {
    pub(super) fn of(sent: SimulatorDecimal) -> ScriptedOutcome {
        match sent.millionths() {
            13_130_000 => ScriptedOutcome::QuoteFailed,
            14_140_000 => ScriptedOutcome::CryptoFailed,
            15_150_000 => ScriptedOutcome::FiatFailed,
            16_160_000 => ScriptedOutcome::FiatReturned,
            17_170_000 => ScriptedOutcome::Refused,
            18_180_000 => ScriptedOutcome::InReview,
            19_190_000 => ScriptedOutcome::CryptoReturned,
            20_200_000 => ScriptedOutcome::Cancelled,
            _ => ScriptedOutcome::Completed,
        }
    }

    pub(super) fn is_failure(self) -> bool {
        self.failure().is_some()
    }

    pub(super) fn failure(self) -> Option<ScriptedFailure> {
        let (code, details) = match self {
            ScriptedOutcome::QuoteFailed => ("QUOTE_EXPIRED", "the quote expired before it was accepted"),
            ScriptedOutcome::CryptoFailed => ("TRANSACTION_REJECTED", "the chain rejected the transaction"),
            ScriptedOutcome::FiatFailed => ("FAILED_TO_CREATE_PAYMENT", "the bank refused the payment"),
            ScriptedOutcome::Completed
            | ScriptedOutcome::FiatReturned
            | ScriptedOutcome::Refused
            | ScriptedOutcome::InReview
            | ScriptedOutcome::CryptoReturned
            | ScriptedOutcome::Cancelled => return None,
        };
        Some(ScriptedFailure { code, details })
    }
}
