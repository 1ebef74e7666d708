//! The form of the field tables: what a table of the policy language may hold, and what each field's value may be.
//!
//! `language` has the tables themselves. The parser, the JSON Schema and the manual read them.

use super::request::Field;
use crate::base::word_enum::word_enum;

/// A table of the policy language.
#[derive(Debug)]
pub(super) struct PolicyTable {
    /// The name in the manual.
    pub name: &'static str,
    pub doc: &'static str,
    pub fields: &'static [PolicyField],
    /// A table whose fields it has besides its own.
    pub base: Option<&'static PolicyTable>,
    /// Exactly one of these groups of fields must be written.
    pub one_of: &'static [&'static [&'static str]],
}

/// A field of a table.
#[derive(Debug)]
pub(super) struct PolicyField {
    pub name: &'static str,
    pub value: FieldValue,
    pub presence: FieldPresence,
    pub doc: &'static str,
}

/// Whether a field must be written; with the remedy if it is missing.
#[derive(Debug)]
pub(super) enum FieldPresence {
    Optional,
    Required(&'static str),
    /// Required if another field of its group in `one_of` is written.
    WithGroup(&'static str),
}

/// The values that a field may have.
#[derive(Debug)]
pub(super) enum FieldValue {
    Text,
    /// A text that this regular expression matches.
    Pattern(fn() -> String),
    Truth,
    /// A whole number.
    Number {
        least: u64,
        most: u64,
    },
    /// One of these words.
    Word(fn() -> Vec<&'static str>),
    /// A list of these words, perhaps empty.
    Words(fn() -> Vec<&'static str>),
    /// One name of the sort.
    Name(Sort),
    /// Names of the sort, each alone or with the day on which it expires.
    Members(Sort),
    /// Names of the sort, and lists of them as `@NAME`. If a condition only compares them with a field of the request, that
    /// field.
    Names(Sort, Option<Field>),
    /// An operation's id, a class, or `*`.
    Operations,
    /// An operation's id.
    Operation,
    OneOrMore(&'static FieldValue),
    List(&'static FieldValue),
    Table(&'static PolicyTable),
    Tables(&'static PolicyTable),
    /// Conditions on fields of the body, by JSON pointer; this is the table of a condition that is no word.
    BodyConditions(&'static PolicyTable),
    /// Values by JSON pointer.
    BodyValues,
    /// Texts by name.
    Texts,
    /// A value that a field of the body may have.
    Literal,
    /// Values that a field of the body may have, and lists of them as `@NAME`.
    Literals,
}

word_enum! {
    /// The sort of a name.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum Sort {
        User = "user",
        Wallet = "wallet",
        ExternalWallet = "external_wallet",
        Account = "account",
        Chain = "chain",
        Currency = "currency",
        Caller = "caller",
        Issuer = "issuer",
        Environment = "environment",
        Text = "text",
        Date = "date",
    }
}

/// The table of a condition that names must not be among others.
pub(super) static NOT_IN: PolicyTable = PolicyTable {
    name: "exclusion",
    doc: "Names that must not be there.",
    fields: &[PolicyField {
        name: "not_in",
        value: FieldValue::OneOrMore(&FieldValue::Text),
        presence: FieldPresence::Required("write for example `not_in = \"@LIST\"`"),
        doc: "Any names but these, and lists as `@NAME`.",
    }],
    base: None,
    one_of: &[],
};

/// The table of a member of a list that expires.
pub(super) static MEMBER: PolicyTable = PolicyTable {
    name: "member",
    doc: "A member of a list that expires.",
    fields: &[
        PolicyField {
            name: "name",
            value: FieldValue::Text,
            presence: FieldPresence::Required("write the name: `name = \"...\"`"),
            doc: "The name.",
        },
        PolicyField {
            name: "expires",
            value: FieldValue::Pattern(last_day_pattern),
            presence: FieldPresence::Required("write for example `expires = \"2026-12-31 Europe/Berlin\"`"),
            doc: "The last day on which it is in the list, and the zone of that day: `2026-12-31 Europe/Berlin`.",
        },
    ],
    base: None,
    one_of: &[],
};

pub(super) const fn required(
    name: &'static str,
    value: FieldValue,
    remedy: &'static str,
    doc: &'static str,
) -> PolicyField {
    PolicyField { name, value, presence: FieldPresence::Required(remedy), doc }
}

pub(super) const fn optional(name: &'static str, value: FieldValue, doc: &'static str) -> PolicyField {
    PolicyField { name, value, presence: FieldPresence::Optional, doc }
}

pub(super) const fn with_group(
    name: &'static str,
    value: FieldValue,
    remedy: &'static str,
    doc: &'static str,
) -> PolicyField {
    PolicyField { name, value, presence: FieldPresence::WithGroup(remedy), doc }
}

/// Returns the regular expression of bytes as base64url without padding.
pub(super) fn base64url_pattern() -> String {
    "^[A-Za-z0-9_-]+$".to_owned()
}

/// Returns the regular expression of a last day.
pub(super) fn last_day_pattern() -> String {
    "^[0-9]{4}-[0-9]{2}-[0-9]{2} [^ ]+$".to_owned()
}

impl PolicyField {
    pub(super) fn is_required(&self) -> bool {
        matches!(self.presence, FieldPresence::Required(_))
    }

    /// Returns what to write if the field is missing.
    pub(super) fn remedy(&self) -> &'static str {
        match self.presence {
            FieldPresence::Required(remedy) | FieldPresence::WithGroup(remedy) => remedy,
            FieldPresence::Optional => "write it",
        }
    }
}

impl PolicyTable {
    /// Returns its own fields, then those of its base.
    pub(super) fn all_fields(&self) -> impl Iterator<Item = &'static PolicyField> + use<> {
        let base: &'static [PolicyField] = self.base.map_or(&[], |base| base.fields);
        self.fields.iter().chain(base)
    }

    pub(super) fn field(&self, name: &str) -> Option<&'static PolicyField> {
        self.all_fields().find(|field| field.name == name)
    }

    /// Returns the groups of which exactly one must be written.
    pub(super) fn alternatives(&self) -> &'static [&'static [&'static str]] {
        match self.base {
            Some(base) if self.one_of.is_empty() => base.one_of,
            _ => self.one_of,
        }
    }

    /// Returns the table inside of a field. The conditions of a body have no fields of their own, only pointers.
    pub(super) fn inside(&'static self, name: &str) -> &'static PolicyTable {
        match self.field(name).map(|field| &field.value) {
            Some(FieldValue::Table(table) | FieldValue::Tables(table) | FieldValue::BodyConditions(table)) => table,
            Some(FieldValue::Names(..)) => &NOT_IN,
            Some(FieldValue::Members(_)) => &MEMBER,
            _ => self,
        }
    }
}
