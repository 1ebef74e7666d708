//! `description`: what a rule, a limit, an approval or a list is for, in the words of its author.
//!
//! A description decides nothing. Callers, approvers and auditors see it beside the name.

use std::collections::{BTreeMap, BTreeSet};

use super::document::DocumentTable;
use super::value_kind::ValueKind;

/// The most characters of a description: it is shown on one line.
const MAX_CHARACTERS: usize = 300;

/// The descriptions of a set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Descriptions {
    /// By the kind of table and the name.
    texts: BTreeMap<(&'static str, String), String>,
    /// The lists that a rule or a limit names.
    lists: BTreeMap<String, BTreeSet<String>>,
}

impl Descriptions {
    /// Takes the description out of a table, and notes the lists that the table names.
    pub(super) fn read(&mut self, kind: ValueKind, name: &str, table: &mut DocumentTable<'_>) {
        if table.form().field("description").is_none() {
            return;
        }
        let name = table.peek("id").unwrap_or(name).to_owned();
        if matches!(kind, ValueKind::Rule | ValueKind::Limit) {
            self.lists.insert(name.clone(), table.references());
        }
        let Some((place, text)) = table.text("description") else { return };
        if text.chars().count() > MAX_CHARACTERS {
            let fault = format!("`description` has more than {MAX_CHARACTERS} characters");
            table.fault(place, fault, "shorten it; people read it in one line");
        }
        self.texts.insert((kind.as_str(), name), text);
    }

    /// Returns each description, by kind and name.
    pub(super) fn all(&self) -> impl Iterator<Item = (String, &str)> {
        self.texts.iter().map(|((kind, name), text)| (format!("{kind} {name}"), text.as_str()))
    }

    pub(super) fn of(&self, kind: ValueKind, name: &str) -> Option<&str> {
        self.texts.get(&(kind.as_str(), name.to_owned())).map(String::as_str)
    }

    /// Returns the description of a rule or limit, and those of the lists that it names, in one line.
    pub(super) fn with_lists(&self, kind: ValueKind, name: &str) -> Option<String> {
        if self.texts.is_empty() {
            return None;
        }
        let own = self.of(kind, name).map(str::to_owned);
        let lists = self.lists.get(name).into_iter().flatten();
        let of_list = |list: &String| Some(format!("`@{list}`: {}", self.of(ValueKind::List, list)?));
        let all: Vec<String> = own.into_iter().chain(lists.filter_map(of_list)).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }
}
