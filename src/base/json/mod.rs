//! The one JSON parser of Sluice: a text means one value, or is refused with the place and the reason.
//!
//! The parser refuses anything but UTF-8, a byte order mark, a second value, a duplicate member name, a lone surrogate,
//! and nesting, numbers or many values beyond a bound. Numbers are kept as written. In requests it also refuses numbers that common
//! parsers read differently: exponents, negative zero, more than 15 digits.
//!
//! The value is a tree ([`parse`]), a list of pieces of the text ([`FlatJson`]), or of a type that `serde` knows
//! ([`from_slice`], [`from_record`]); the rules are the same.
//!
//! ```
//! use sluice::base::json::{self, Limits};
//!
//! let twice = json::parse(br#"{"amount": "1", "amount": "9"}"#, Limits::REQUEST);
//! assert_eq!(twice.unwrap_err().to_string(), "line 1, column 17: a name appears twice in one object");
//! ```

mod count;
mod flat;
mod in_form;
mod limits;
mod reader;
mod sorted;
mod tree;
mod typed;
mod typed_fault;
mod typed_items;
pub mod written_as;

pub use count::count_values;
pub use flat::{FlatChildren, FlatJson, FlatKind, FlatValue, flat_number};
pub use in_form::members_in_form;
pub use limits::{Limits, TREE_BYTES_A_VALUE};
pub use reader::{JsonError, JsonFaultKind};
pub use sorted::{object_of, put_member, to_form, to_record};
pub use tree::{parse, to_bytes};
pub use typed::{FormError, from_record, from_slice};
pub(crate) use written_as::written_as_text;

#[cfg(test)]
mod tests;
