//! What traces tell: the stations of a request, and what its span says of it. Nothing personal, no amount, no path.

/// A part of the way of a request that has a span of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Station {
    Admit,
    Check,
    Decide,
    Commit,
    Record,
    Forward,
    Settle,
}

impl Station {
    /// In the order in which a request meets them, each with what it covers.
    pub const ALL: [(Station, &'static str); 7] = [
        (Station::Admit, "finding the operation, believing the token, rates"),
        (Station::Check, "reading the body, checking it against the contract"),
        (Station::Decide, "the rules"),
        (Station::Commit, "the one step in the store that claims, reserves, or lets it wait or refuses it"),
        (Station::Record, "bringing the entry to disk"),
        (Station::Forward, "upstream: from connecting to the end of its answer"),
        (Station::Settle, "storing the outcome"),
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Station::Admit => "admit",
            Station::Check => "check",
            Station::Decide => "decide",
            Station::Commit => "commit",
            Station::Record => "record",
            Station::Forward => "forward",
            Station::Settle => "settle",
        }
    }
}

/// What the span of a whole request says of it.
pub const ATTRIBUTES: [(&str, &str); 7] = [
    ("sluice.request_id", "`X-Request-Id`, as in the log"),
    ("sluice.environment", "`production` or `sandbox`"),
    ("http.request.method", "the method of the operation"),
    ("http.response.status_code", "what its caller got"),
    ("sluice.origin", "who answered: `gateway` or `upstream`"),
    ("sluice.outcome", "`executed`, `not-executed`, `held`, `unknown`, or `none` for reads"),
    ("sluice.code", "the code of a refusal"),
];
