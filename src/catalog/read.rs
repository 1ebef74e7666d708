//! Reads JSON files that people write: every fault is noted with its place, and reading goes on.

use std::cell::RefCell;

use serde_json::{Map, Value};

use crate::base::finding::{Finding, nearest};
use crate::base::pointer::{Pointer, escape};

/// Collects the faults of one file.
pub(super) struct ContractFaults<'f> {
    file: &'f str,
    found: RefCell<Vec<Finding>>,
}

impl<'f> ContractFaults<'f> {
    pub(super) fn new(file: &'f str) -> ContractFaults<'f> {
        ContractFaults { file, found: RefCell::new(Vec::new()) }
    }

    pub(super) fn into_findings(self) -> Vec<Finding> {
        self.found.into_inner()
    }

    pub(super) fn note(&self, place: &str, text: impl Into<String>) {
        self.found.borrow_mut().push(Finding::error(self.file, text).at(place));
    }
}

/// A value in the file, and its place.
#[derive(Clone)]
pub(super) struct ContractNode<'f> {
    pub(super) value: &'f Value,
    pub(super) place: String,
    faults: &'f ContractFaults<'f>,
}

impl<'f> ContractNode<'f> {
    pub(super) fn root(value: &'f Value, faults: &'f ContractFaults<'f>) -> ContractNode<'f> {
        ContractNode { value, place: String::new(), faults }
    }

    pub(super) fn note(&self, text: impl Into<String>) {
        self.faults.note(&self.place, text);
    }

    pub(super) fn optional(&self, name: &str) -> Option<ContractNode<'f>> {
        let value = self.value.get(name)?;
        Some(ContractNode { value, place: format!("{}/{}", self.place, escape(name)), faults: self.faults })
    }

    pub(super) fn required(&self, name: &str) -> Option<ContractNode<'f>> {
        let node = self.optional(name);
        if node.is_none() {
            self.note(format!("`{name}` is missing"));
        }
        node
    }

    pub(super) fn members(&self) -> Vec<(&'f str, ContractNode<'f>)> {
        match self.value {
            Value::Object(members) => {
                members.iter().map(|(name, value)| (name.as_str(), self.child(name, value))).collect()
            }
            _ => {
                self.note("an object is expected here");
                Vec::new()
            }
        }
    }

    pub(super) fn items(&self) -> Vec<ContractNode<'f>> {
        match self.value {
            Value::Array(items) => items.iter().enumerate().map(|(at, v)| self.child(&at.to_string(), v)).collect(),
            _ => {
                self.note("a list is expected here");
                Vec::new()
            }
        }
    }

    pub(super) fn text(&self) -> Option<&'f str> {
        let text = self.value.as_str();
        if text.is_none() {
            self.note("a string is expected here");
        }
        text
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        let value = self.value.as_bool();
        if value.is_none() {
            self.note("true or false is expected here");
        }
        value
    }

    pub(super) fn pointer(&self) -> Option<Pointer> {
        let pointer = Pointer::parse(self.text()?);
        if pointer.is_none() {
            self.note("a JSON pointer is expected here, such as `/source/amount`");
        }
        pointer
    }

    /// One pointer or a list of them.
    pub(super) fn pointers(&self) -> Vec<Pointer> {
        match self.value {
            Value::Array(_) => self.items().iter().filter_map(ContractNode::pointer).collect(),
            _ => self.pointer().into_iter().collect(),
        }
    }

    /// Notes every unknown member.
    pub(super) fn only(&self, known: &[&str]) {
        let empty = Map::new();
        let members = self.value.as_object().unwrap_or(&empty);
        for name in members.keys().filter(|n| !known.contains(&n.as_str())) {
            let hint =
                nearest(name, known.iter().copied()).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            self.note(format!("`{name}` is not known here{hint}"));
        }
    }

    fn child(&self, name: &str, value: &'f Value) -> ContractNode<'f> {
        ContractNode { value, place: format!("{}/{}", self.place, escape(name)), faults: self.faults }
    }
}
