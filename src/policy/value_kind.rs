//! The kinds of tables of the policy language.

use crate::base::word_enum::word_enum;

word_enum! {
    /// The kinds of tables, in the order in which they are read: each uses names only of those before it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum ValueKind {
        Rate = "rate",
        Asset = "asset",
        Value = "value",
        Group = "group",
        List = "list",
        Signing = "signing",
        Passkey = "passkey",
        Recovery = "recovery",
        RecoveryKey = "recovery_key",
        Approval = "approval",
        Rule = "rule",
        Limit = "limit",
        Invariant = "invariant",
        Test = "test",
    }
}

/// The TOML form of a kind of table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `[[kind]]`, any number of them.
    Listed,
    /// `[kind.name]`.
    Named,
    /// `[kind]`.
    Single,
}

impl ValueKind {
    pub(super) fn form(self) -> Form {
        match self {
            ValueKind::Rate
            | ValueKind::Passkey
            | ValueKind::RecoveryKey
            | ValueKind::Rule
            | ValueKind::Limit
            | ValueKind::Invariant
            | ValueKind::Test => Form::Listed,
            ValueKind::Approval | ValueKind::Group | ValueKind::List | ValueKind::Asset => Form::Named,
            ValueKind::Value | ValueKind::Signing | ValueKind::Recovery => Form::Single,
        }
    }

    /// The heading of one of its tables.
    pub(super) fn heading(self) -> String {
        match self.form() {
            Form::Listed => format!("[[{self}]]"),
            Form::Named => format!("[{self}.NAME]"),
            Form::Single => format!("[{self}]"),
        }
    }
}
