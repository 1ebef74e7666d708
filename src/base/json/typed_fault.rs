//! The faults of typed values, with the path to the inner value at fault.

use std::fmt;

use serde::de::{self, Expected, Unexpected};

use super::reader::JsonFaultKind;

/// A fault on its way out of the nested values.
#[derive(Debug)]
pub(super) enum TypedFault {
    /// At the place of the reader.
    Json(JsonFaultKind),
    Form(Box<FormFault>),
}

#[derive(Debug)]
pub(super) struct FormFault {
    pub reason: String,
    pub offset: Option<usize>,
    /// The innermost step first.
    pub path: Vec<PathStep>,
}

/// A step to an inner value. The names of a map are data, and no part of a path.
#[derive(Debug)]
pub(super) enum PathStep {
    Member(&'static str),
    Item(usize),
}

impl TypedFault {
    pub fn form(reason: String) -> TypedFault {
        TypedFault::Form(Box::new(FormFault { reason, offset: None, path: Vec::new() }))
    }

    /// Adds the place, unless an inner value has named a better one.
    pub fn at(mut self, offset: usize) -> TypedFault {
        if let TypedFault::Form(fault) = &mut self {
            fault.offset.get_or_insert(offset);
        }
        self
    }

    pub fn below(mut self, step: PathStep) -> TypedFault {
        if let TypedFault::Form(fault) = &mut self {
            fault.path.push(step);
        }
        self
    }
}

impl From<JsonFaultKind> for TypedFault {
    fn from(reason: JsonFaultKind) -> TypedFault {
        TypedFault::Json(reason)
    }
}

impl fmt::Display for TypedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TypedFault::Json(reason) => reason.fmt(f),
            TypedFault::Form(fault) => f.write_str(&fault.reason),
        }
    }
}

impl std::error::Error for TypedFault {}

impl de::Error for TypedFault {
    fn custom<T: fmt::Display>(reason: T) -> TypedFault {
        TypedFault::form(reason.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> TypedFault {
        TypedFault::form(format!("{} stands here; {} is expected", kind(found), expected_kind(expected)))
    }

    fn invalid_value(_found: Unexpected<'_>, expected: &dyn Expected) -> TypedFault {
        TypedFault::form(format!("the value is not possible here; {} is expected", expected_kind(expected)))
    }

    fn invalid_length(length: usize, expected: &dyn Expected) -> TypedFault {
        TypedFault::form(format!("{length} items stand here; {} is expected", expected_kind(expected)))
    }

    fn unknown_variant(_variant: &str, known: &'static [&'static str]) -> TypedFault {
        TypedFault::form(format!("the word is not known; known are {}", listed(known)))
    }

    fn unknown_field(_field: &str, known: &'static [&'static str]) -> TypedFault {
        TypedFault::form(format!("the member is not known; known are {}", listed(known)))
    }

    fn missing_field(field: &'static str) -> TypedFault {
        TypedFault::form(format!("the member `{field}` is missing"))
    }
}

/// Returns the kind of the value in the text, without the value itself.
pub(super) fn kind(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "`true` or `false`",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
        Unexpected::Str(_) | Unexpected::Char(_) | Unexpected::Bytes(_) => "a text",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::Seq => "a list",
        Unexpected::Map => "an object",
        _ => "something else",
    }
}

pub(super) fn expected_kind(expected: &dyn Expected) -> String {
    let expected = expected.to_string();
    match expected.as_str() {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" => format!("a whole number ({expected})"),
        "a string" | "a borrowed string" | "string" => "a text".to_owned(),
        "a boolean" => "`true` or `false`".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        _ => expected,
    }
}

pub(super) fn listed(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
