//! The words that Sluice says itself, with the status and the shape of each.

use crate::catalog::Shape;

/// One of Sluice's own codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    MalformedRequest,
    TargetTooLong,
    HeadTooLarge,
    RequestTimeout,
    OperationNotFound,
    MethodNotAllowed,
    Unauthorized,
    Forbidden,
    PolicyDenied,
    LimitExceeded,
    ApprovalRequired,
    ApprovalRejected,
    ApprovalExpired,
    ApprovalCancelled,
    ApprovalBlocked,
    RateLimited,
    KeysUnavailable,
    InvalidJson,
    InvalidRequest,
    UnsupportedMediaType,
    BodyTooLarge,
    UpstreamUnavailable,
    UpstreamTimeout,
    /// Upstream's own error, whose words do not go further.
    UpstreamError,
    OutcomeUnknown,
    Overloaded,
    RequestInProgress,
    RequestIdSpent,
    RequestIdReused,
    StoreUnavailable,
    AuditUnavailable,
    Frozen,
    /// This gate is being stopped.
    Draining,
    RequestNotFound,
    NotInDoubt,
    TwoPeopleNeeded,
    TooEarly,
    HoldNotFound,
    /// It is another call that the person saw.
    OtherBytes,
    /// It is decided, or its time is over.
    HoldOver,
}

impl Code {
    pub const ALL: [Code; 40] = [
        Code::MalformedRequest,
        Code::TargetTooLong,
        Code::HeadTooLarge,
        Code::RequestTimeout,
        Code::OperationNotFound,
        Code::MethodNotAllowed,
        Code::Unauthorized,
        Code::Forbidden,
        Code::PolicyDenied,
        Code::LimitExceeded,
        Code::ApprovalRequired,
        Code::ApprovalRejected,
        Code::ApprovalExpired,
        Code::ApprovalCancelled,
        Code::ApprovalBlocked,
        Code::RateLimited,
        Code::KeysUnavailable,
        Code::InvalidJson,
        Code::InvalidRequest,
        Code::UnsupportedMediaType,
        Code::BodyTooLarge,
        Code::UpstreamUnavailable,
        Code::UpstreamTimeout,
        Code::UpstreamError,
        Code::OutcomeUnknown,
        Code::Overloaded,
        Code::RequestInProgress,
        Code::RequestIdSpent,
        Code::RequestIdReused,
        Code::StoreUnavailable,
        Code::AuditUnavailable,
        Code::Frozen,
        Code::Draining,
        Code::RequestNotFound,
        Code::NotInDoubt,
        Code::TwoPeopleNeeded,
        Code::TooEarly,
        Code::HoldNotFound,
        Code::OtherBytes,
        Code::HoldOver,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Code::MalformedRequest => "MALFORMED_REQUEST",
            Code::TargetTooLong => "TARGET_TOO_LONG",
            Code::HeadTooLarge => "HEAD_TOO_LARGE",
            Code::RequestTimeout => "REQUEST_TIMEOUT",
            Code::OperationNotFound => "OPERATION_NOT_FOUND",
            Code::MethodNotAllowed => "METHOD_NOT_ALLOWED",
            Code::Unauthorized => "UNAUTHORIZED",
            Code::Forbidden => "FORBIDDEN",
            Code::PolicyDenied => "POLICY_DENIED",
            Code::LimitExceeded => "LIMIT_EXCEEDED",
            Code::ApprovalRequired => "APPROVAL_REQUIRED",
            Code::RateLimited => "RATE_LIMITED",
            Code::KeysUnavailable => "KEYS_UNAVAILABLE",
            Code::InvalidJson => "INVALID_JSON",
            Code::InvalidRequest => "INVALID_REQUEST",
            Code::UnsupportedMediaType => "UNSUPPORTED_MEDIA_TYPE",
            Code::BodyTooLarge => "BODY_TOO_LARGE",
            Code::UpstreamUnavailable => "UPSTREAM_UNAVAILABLE",
            Code::UpstreamTimeout => "UPSTREAM_TIMEOUT",
            Code::UpstreamError => "UPSTREAM_ERROR",
            Code::OutcomeUnknown => "OUTCOME_UNKNOWN",
            Code::Overloaded => "OVERLOADED",
            Code::RequestInProgress => "REQUEST_IN_PROGRESS",
            Code::RequestIdSpent => "REQUEST_ID_SPENT",
            Code::RequestIdReused => "REQUEST_ID_REUSED",
            Code::StoreUnavailable => "STORE_UNAVAILABLE",
            Code::AuditUnavailable => "AUDIT_UNAVAILABLE",
            Code::Frozen => "FROZEN",
            Code::Draining => "DRAINING",
            Code::RequestNotFound => "REQUEST_NOT_FOUND",
            Code::NotInDoubt => "NOT_IN_DOUBT",
            Code::TwoPeopleNeeded => "TWO_PEOPLE_NEEDED",
            Code::TooEarly => "TOO_EARLY",
            Code::ApprovalRejected => "APPROVAL_REJECTED",
            Code::ApprovalExpired => "APPROVAL_EXPIRED",
            Code::ApprovalCancelled => "APPROVAL_CANCELLED",
            Code::ApprovalBlocked => "APPROVAL_BLOCKED",
            Code::HoldNotFound => "HOLD_NOT_FOUND",
            Code::OtherBytes => "OTHER_BYTES",
            Code::HoldOver => "HOLD_OVER",
        }
    }

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
            | Code::ApprovalBlocked => 403,
            Code::OperationNotFound | Code::RequestNotFound | Code::HoldNotFound => 404,
            Code::MethodNotAllowed => 405,
            Code::RequestTimeout => 408,
            Code::BodyTooLarge => 413,
            Code::TargetTooLong => 414,
            Code::RateLimited => 429,
            Code::HeadTooLarge => 431,
            Code::UnsupportedMediaType => 415,
            Code::UpstreamUnavailable | Code::UpstreamError => 502,
            Code::RequestInProgress
            | Code::RequestIdSpent
            | Code::NotInDoubt
            | Code::TwoPeopleNeeded
            | Code::TooEarly
            | Code::OtherBytes
            | Code::HoldOver => 409,
            Code::RequestIdReused => 422,
            Code::Overloaded
            | Code::KeysUnavailable
            | Code::StoreUnavailable
            | Code::AuditUnavailable
            | Code::Frozen
            | Code::Draining => 503,
            Code::UpstreamTimeout | Code::OutcomeUnknown => 504,
        }
    }

    pub fn shape(self) -> Shape {
        match self {
            Code::OperationNotFound | Code::MethodNotAllowed | Code::RequestNotFound | Code::HoldNotFound => Shape::B,
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
            | Code::RequestInProgress
            | Code::RequestIdSpent
            | Code::RequestIdReused
            | Code::NotInDoubt
            | Code::TwoPeopleNeeded
            | Code::TooEarly
            | Code::OtherBytes
            | Code::HoldOver => Shape::C,
            Code::Unauthorized
            | Code::UpstreamUnavailable
            | Code::UpstreamTimeout
            | Code::UpstreamError
            | Code::OutcomeUnknown
            | Code::Overloaded
            | Code::KeysUnavailable
            | Code::StoreUnavailable
            | Code::AuditUnavailable
            | Code::Frozen
            | Code::Draining => Shape::A,
        }
    }

    /// After how long it is worth trying again.
    pub(super) fn retry_after_secs(self) -> Option<u32> {
        match self {
            Code::Overloaded
            | Code::KeysUnavailable
            | Code::RequestInProgress
            | Code::StoreUnavailable
            | Code::AuditUnavailable
            | Code::Draining => Some(1),
            Code::Frozen => Some(60),
            _ => None,
        }
    }
}
