//! The content of traces: the stations of a request, and the attributes of its span. No personal data, amount or path.

use crate::base::word_enum::word_enum;

word_enum! {
    /// A part of the way of a request that has a span of its own, in the order in which a request meets them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Station {
        Admit = "admit",
        Check = "check",
        Decide = "decide",
        Commit = "commit",
        Record = "record",
        Forward = "forward",
        Settle = "settle",
    }
}

impl Station {
    /// Returns what the span of this station covers.
    pub fn covers(self) -> &'static str {
        match self {
            Station::Admit => "finding the operation, verifying the token, rates",
            Station::Check => "reading the body, checking it against the contract",
            Station::Decide => "the rules",
            Station::Commit => "the atomic step in the store that claims and reserves, or records a hold or a denial",
            Station::Record => "writing the audit entry to disk",
            Station::Forward => "upstream: from connecting to the end of its answer",
            Station::Settle => "storing the outcome",
        }
    }
}

/// The attributes of a whole request's span.
pub const ATTRIBUTES: [(&str, &str); 7] = [
    ("sluice.request_id", "`X-Request-Id`, as in the log"),
    ("sluice.environment", "`production` or `sandbox`"),
    ("http.request.method", "the method of the operation"),
    ("http.response.status_code", "the status of the answer"),
    ("sluice.origin", "who answered: `gateway` or `upstream`"),
    ("sluice.outcome", "`executed`, `not-executed`, `held`, `unknown`, or `none` for reads"),
    ("sluice.code", "the code of a refusal"),
];
