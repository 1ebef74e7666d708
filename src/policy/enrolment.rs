//! Sets that only add passkeys to another: whether one does, and the one that does.

use serde_json::Value;

use super::archived_rules::ArchivedRules;
use super::document::{self, DocumentEntry};
use super::language::table_of;
use super::meaning::Meaning;
use super::signing::{Signing, passkey_part, read_passkey};
use super::value_kind::ValueKind;
use super::{KnownNames, in_order};
use crate::base::finding::{Finding, Severity};

/// What the names of passkeys begin with in a set's meaning.
const PASSKEY_PART: &str = "passkey ";

/// A passkey that one set has and the set before had not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddedPasskey {
    pub credential: String,
    pub person: String,
    pub name: String,
    /// A COSE key in base64url.
    pub key: String,
}

/// Returns the passkeys that a set has besides; fails with what else differs, where anything else does.
pub fn only_enrolled(before: &Meaning, then: &Meaning) -> Result<Vec<AddedPasskey>, Vec<String>> {
    let changes = then.since(before);
    let (enrolled, added): (Vec<String>, Vec<String>) =
        changes.added.into_iter().partition(|name| name.starts_with(PASSKEY_PART));
    let others: Vec<String> = [added, changes.removed, changes.changed].concat();
    if !others.is_empty() {
        return Err(others);
    }
    let text = |part: &Value, name: &str| part.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let passkey = |of: &String| {
        let (credential, part) = (of.strip_prefix(PASSKEY_PART)?.to_owned(), then.part(of)?);
        let [person, name, key] = ["person", "name", "key"].map(|name| text(part, name));
        Some(AddedPasskey { credential, person, name, key })
    };
    Ok(enrolled.iter().filter_map(passkey).collect())
}

/// Returns the meaning of an archived set with the passkeys of some files besides, each a name and its text.
pub fn with_passkeys(
    before: &ArchivedRules,
    files: &[(String, String)],
    known: &KnownNames<'_>,
) -> Result<Meaning, Vec<Finding>> {
    let (mut findings, mut signing) = (Vec::new(), before.rules.signing.clone());
    for (file, text) in files {
        for DocumentEntry { kind, mut table, .. } in document::entries(file, text, table_of, &mut findings) {
            if kind == ValueKind::Passkey {
                read_passkey(table, known, signing.as_mut(), &mut findings);
            } else {
                let place = table.place;
                table.fault(
                    place,
                    format!("this is no passkey: `{}`", kind.heading()),
                    "give tables `[[passkey]]` alone",
                );
                table.forget_all();
                table.end(&mut findings);
            }
        }
    }
    if findings.iter().any(|finding| finding.severity == Severity::Error) {
        return Err(in_order(findings));
    }
    let passkeys = signing.iter().flat_map(|Signing { passkeys, .. }| passkeys.iter().map(passkey_part));
    Ok(before.meaning.with(passkeys))
}
