//! What a limit counts apart: the key of its windows.

use super::request::Field;

pub(super) const KEYS: [(&str, LimitKey); 10] = [
    ("environment", LimitKey::Names(Field::Environment)),
    ("caller", LimitKey::Names(Field::Caller)),
    ("issuer", LimitKey::Names(Field::Issuer)),
    ("role", LimitKey::Names(Field::Role)),
    ("user", LimitKey::Names(Field::User)),
    ("chain", LimitKey::Names(Field::Chain)),
    ("currency", LimitKey::Names(Field::Currency)),
    ("operation", LimitKey::Operation),
    ("destination", LimitKey::Destination),
    ("payment", LimitKey::Payment),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LimitKey {
    Names(Field),
    Operation,
    Destination,
    Payment,
}

impl LimitKey {
    /// Whether the caller cannot choose the key anew with each request.
    pub fn is_given(self) -> bool {
        match self {
            LimitKey::Names(field) => field.is_of_caller(),
            LimitKey::Operation => true,
            LimitKey::Destination | LimitKey::Payment => false,
        }
    }

    /// Whether it tells callers apart, or whom they pay.
    pub fn names_people(self) -> bool {
        match self {
            LimitKey::Names(field) => !matches!(field, Field::Environment | Field::Chain | Field::Currency),
            LimitKey::Operation => false,
            LimitKey::Destination | LimitKey::Payment => true,
        }
    }
}
