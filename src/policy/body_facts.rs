//! The facts that a body states, as far as they are known.

use std::collections::BTreeMap;

use serde_json::Value;

use super::literal::{Literal, MissingFact};
use crate::base::pointer::Pointer;

/// A rule reads a field that was not recorded.
pub(super) const NOT_KEPT: MissingFact = MissingFact("the value of the field was not recorded");
pub(super) const NOT_KNOWN_PAID: MissingFact = MissingFact("it is not known whether the destination was paid before");

/// A whole body, or its recorded part.
#[derive(Clone, Copy, Debug)]
pub enum Stated<'a> {
    Whole(&'a Value),
    Kept(&'a KeptOperands),
}

/// The recorded part of a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptOperands {
    /// The literals in the fields that rules name; `None` if a field holds no literal.
    pub places: BTreeMap<String, Vec<Option<String>>>,
    /// The digest of the payment, if the body states no amount.
    pub payment: Option<String>,
}

impl Stated<'_> {
    pub(super) fn literals(&self, pointer: &Pointer) -> Result<Vec<Option<Literal>>, MissingFact> {
        match self {
            Stated::Whole(body) => Ok(pointer.all(body).into_iter().map(|(_, value)| Literal::of(value)).collect()),
            Stated::Kept(kept) => {
                let found = kept.places.get(pointer.as_str()).ok_or(NOT_KEPT)?;
                Ok(found.iter().map(|literal| literal.clone().map(Literal::Text)).collect())
            }
        }
    }
}
