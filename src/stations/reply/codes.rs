//! Sluice's own error codes, each with its status and shape.

use crate::base::word_enum::word_enum;
use crate::catalog::ErrorShape;

word_enum! {
    /// One of Sluice's own error codes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Code {
        MalformedRequest = "MALFORMED_REQUEST",
        TargetTooLong = "TARGET_TOO_LONG",
        HeadTooLarge = "HEAD_TOO_LARGE",
        RequestTimeout = "REQUEST_TIMEOUT",
        OperationNotFound = "OPERATION_NOT_FOUND",
        MethodNotAllowed = "METHOD_NOT_ALLOWED",
        Unauthorized = "UNAUTHORIZED",
        Forbidden = "FORBIDDEN",
        PolicyDenied = "POLICY_DENIED",
        LimitExceeded = "LIMIT_EXCEEDED",
        ApprovalRequired = "APPROVAL_REQUIRED",
        ApprovalRejected = "APPROVAL_REJECTED",
        ApprovalExpired = "APPROVAL_EXPIRED",
        ApprovalCancelled = "APPROVAL_CANCELLED",
        ApprovalBlocked = "APPROVAL_BLOCKED",
        RateLimited = "RATE_LIMITED",
        /// The caller or its environment has too many calls that wait for people.
        TooManyHolds = "TOO_MANY_HOLDS",
        TooManyRefusals = "TOO_MANY_REFUSALS",
        KeysUnavailable = "KEYS_UNAVAILABLE",
        InvalidJson = "INVALID_JSON",
        InvalidRequest = "INVALID_REQUEST",
        UnsupportedMediaType = "UNSUPPORTED_MEDIA_TYPE",
        BodyTooLarge = "BODY_TOO_LARGE",
        UpstreamUnavailable = "UPSTREAM_UNAVAILABLE",
        UpstreamTimeout = "UPSTREAM_TIMEOUT",
        /// Upstream's own error, whose text is not passed on.
        UpstreamError = "UPSTREAM_ERROR",
        OutcomeUnknown = "OUTCOME_UNKNOWN",
        /// Nobody will ever know the outcome.
        OutcomeAbandoned = "OUTCOME_ABANDONED",
        Overloaded = "OVERLOADED",
        RequestInProgress = "REQUEST_IN_PROGRESS",
        RequestIdSpent = "REQUEST_ID_SPENT",
        RequestIdReused = "REQUEST_ID_REUSED",
        StoreUnavailable = "STORE_UNAVAILABLE",
        AuditUnavailable = "AUDIT_UNAVAILABLE",
        /// The policies or the contract in force cannot be run here.
        PoliciesUnavailable = "POLICIES_UNAVAILABLE",
        Frozen = "FROZEN",
        /// This gate is shutting down.
        Draining = "DRAINING",
        RequestNotFound = "REQUEST_NOT_FOUND",
        NotInDoubt = "NOT_IN_DOUBT",
        TwoPeopleNeeded = "TWO_PEOPLE_NEEDED",
        /// There is no room for the freeze of another caller.
        TooManyFreezes = "TOO_MANY_FREEZES",
        TooEarly = "TOO_EARLY",
        /// The gate that sent the call has not been heard since.
        SenderAway = "SENDER_AWAY",
        /// Somebody showed upstream's record that the call was executed.
        SaidExecuted = "SAID_EXECUTED",
        /// A gate that was heard just now is not gone.
        GateHeard = "GATE_HEARD",
        HoldNotFound = "HOLD_NOT_FOUND",
        /// The person saw another call.
        OtherBytes = "OTHER_BYTES",
        /// The person was shown other rules, limits or figures.
        OtherCauses = "OTHER_CAUSES",
        /// The hold is decided or expired.
        HoldOver = "HOLD_OVER",
        /// The hold takes no more votes, or no more comments.
        HoldFull = "HOLD_FULL",
        /// The approval takes only signed votes.
        SignatureRequired = "SIGNATURE_REQUIRED",
        /// The signature of the vote does not count.
        SignatureRefused = "SIGNATURE_REFUSED",
        /// No checkpoint covers the entries of a receipt yet.
        ReceiptNotReady = "RECEIPT_NOT_READY",
        /// There can be no receipt here.
        ReceiptUnavailable = "RECEIPT_UNAVAILABLE",
    }
}

impl Code {
    /// The status, where the code alone decides it.
    pub fn status(self) -> u16 {
        match self {
            Code::MalformedRequest | Code::InvalidJson | Code::InvalidRequest => 400,
            Code::Unauthorized => 401,
            Code::Forbidden
            | Code::PolicyDenied
            | Code::LimitExceeded
            | Code::ApprovalRequired
            | Code::ApprovalRejected
            | Code::ApprovalExpired
            | Code::ApprovalCancelled
            | Code::ApprovalBlocked
            | Code::SignatureRequired
            | Code::SignatureRefused => 403,
            Code::OperationNotFound | Code::RequestNotFound | Code::HoldNotFound => 404,
            Code::MethodNotAllowed => 405,
            Code::RequestTimeout => 408,
            Code::BodyTooLarge => 413,
            Code::TargetTooLong => 414,
            Code::RateLimited | Code::TooManyHolds | Code::TooManyRefusals => 429,
            Code::HeadTooLarge => 431,
            Code::UnsupportedMediaType => 415,
            Code::UpstreamUnavailable | Code::UpstreamError => 502,
            Code::RequestInProgress
            | Code::RequestIdSpent
            | Code::NotInDoubt
            | Code::TwoPeopleNeeded
            | Code::TooManyFreezes
            | Code::TooEarly
            | Code::SenderAway
            | Code::SaidExecuted
            | Code::GateHeard
            | Code::OutcomeAbandoned
            | Code::OtherBytes
            | Code::OtherCauses
            | Code::HoldOver
            | Code::HoldFull
            | Code::ReceiptNotReady
            | Code::ReceiptUnavailable => 409,
            Code::RequestIdReused => 422,
            Code::Overloaded
            | Code::KeysUnavailable
            | Code::StoreUnavailable
            | Code::AuditUnavailable
            | Code::PoliciesUnavailable
            | Code::Frozen
            | Code::Draining => 503,
            Code::UpstreamTimeout | Code::OutcomeUnknown => 504,
        }
    }

    pub fn shape(self) -> ErrorShape {
        match self {
            Code::OperationNotFound | Code::MethodNotAllowed | Code::RequestNotFound | Code::HoldNotFound => {
                ErrorShape::B
            }
            Code::MalformedRequest
            | Code::TargetTooLong
            | Code::HeadTooLarge
            | Code::RequestTimeout
            | Code::InvalidJson
            | Code::InvalidRequest
            | Code::UnsupportedMediaType
            | Code::BodyTooLarge
            | Code::Forbidden
            | Code::PolicyDenied
            | Code::LimitExceeded
            | Code::ApprovalRequired
            | Code::ApprovalRejected
            | Code::ApprovalExpired
            | Code::ApprovalCancelled
            | Code::ApprovalBlocked
            | Code::RateLimited
            | Code::TooManyHolds
            | Code::TooManyRefusals
            | Code::RequestInProgress
            | Code::RequestIdSpent
            | Code::RequestIdReused
            | Code::NotInDoubt
            | Code::TwoPeopleNeeded
            | Code::TooManyFreezes
            | Code::TooEarly
            | Code::SenderAway
            | Code::SaidExecuted
            | Code::GateHeard
            | Code::OutcomeAbandoned
            | Code::OtherBytes
            | Code::OtherCauses
            | Code::HoldOver
            | Code::HoldFull
            | Code::SignatureRequired
            | Code::SignatureRefused
            | Code::ReceiptNotReady
            | Code::ReceiptUnavailable => ErrorShape::C,
            Code::Unauthorized
            | Code::UpstreamUnavailable
            | Code::UpstreamTimeout
            | Code::UpstreamError
            | Code::OutcomeUnknown
            | Code::Overloaded
            | Code::KeysUnavailable
            | Code::StoreUnavailable
            | Code::AuditUnavailable
            | Code::PoliciesUnavailable
            | Code::Frozen
            | Code::Draining => ErrorShape::A,
        }
    }

    /// The seconds after which a retry makes sense.
    pub(super) fn retry_after_secs(self) -> Option<u32> {
        match self {
            Code::Overloaded
            | Code::KeysUnavailable
            | Code::RequestInProgress
            | Code::StoreUnavailable
            | Code::AuditUnavailable
            | Code::PoliciesUnavailable
            | Code::Draining => Some(1),
            Code::ReceiptNotReady => Some(5),
            Code::Frozen | Code::TooManyHolds | Code::TooManyRefusals => Some(60),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::SchemaFiles;
    use crate::stations::claim::Decline;

    /// Codes that only people get, at the console.
    const OF_THE_CONSOLE: [Code; 12] = [
        Code::NotInDoubt,
        Code::TwoPeopleNeeded,
        Code::TooManyFreezes,
        Code::TooEarly,
        Code::SenderAway,
        Code::SaidExecuted,
        Code::GateHeard,
        Code::OtherBytes,
        Code::OtherCauses,
        Code::HoldFull,
        Code::SignatureRequired,
        Code::SignatureRefused,
    ];

    #[test]
    fn the_contract_for_machines_names_every_code_and_every_end_of_a_hold() {
        let gate: serde_json::Value = serde_json::from_slice(SchemaFiles::of_gate()).unwrap();
        let words = |schema: &str| -> Vec<String> {
            serde_json::from_value(gate["components"]["schemas"][schema]["enum"].clone()).unwrap()
        };
        let codes = Code::ALL.into_iter().filter(|code| !OF_THE_CONSOLE.contains(code));
        assert_eq!(words("GateCode"), codes.map(|code| code.as_str().to_owned()).collect::<Vec<_>>());
        let open = ["pending", "approved", "released"];
        let ends = Decline::ALL.map(Decline::as_str);
        let (mut told, mut known) =
            (words("HoldState"), open.iter().chain(&ends).map(|word| (*word).to_owned()).collect::<Vec<_>>());
        told.sort();
        known.sort();
        assert_eq!(told, known);
        for code in words("GateCode") {
            let responses = gate["components"]["responses"].as_object().unwrap();
            let naming = |response: &serde_json::Value| {
                response["description"].as_str().is_some_and(|text| text.contains(&format!("`{code}`")))
            };
            assert!(responses.values().any(naming), "no response names {code}");
        }
    }
}
