//! `[recovery]` and `[[recovery_key]]`: keys that lie offline, and enrol people's keys when too few people can sign.
//!
//! Several of them together put a set in force that only adds passkeys to the one before. They remove nothing and change
//! nothing, themselves included. Each key has signed its own name, so a set has none that cannot sign.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::document::DocumentTable;
use super::field_form::FieldValue::{Number, Pattern};
use super::field_form::{PolicyTable, base64url_pattern, required};
use super::rate;
use crate::base::digest::plain_sha256;
use crate::base::finding::Finding;
use crate::base::json;
use crate::base::json::written_as::base64url;
use crate::base::webauthn::PasskeyKey;

/// Nobody enrols a key alone.
const MIN_NEEDED: u64 = 2;
/// More than any company hands out.
const MAX_KEYS: u64 = 20;

pub(super) static RECOVERY: PolicyTable = PolicyTable {
    name: "recovery",
    doc: "How many recovery keys enrol people's passkeys together.",
    fields: &[required(
        "needs",
        Number { least: MIN_NEEDED, most: MAX_KEYS },
        "write for example `needs = 2`",
        "How many different recovery keys must sign.",
    )],
    base: None,
    one_of: &[],
};

pub(super) static RECOVERY_KEY: PolicyTable = PolicyTable {
    name: "recovery key",
    doc: "A key that lies offline and may only enrol passkeys. `sluice recovery new` prints this table.",
    fields: &[
        required(
            "id",
            Pattern(|| "^[a-z0-9-]{1,32}$".to_owned()),
            "write for example `id = \"safe-1\"`",
            "A name for the key, such as the place where it lies.",
        ),
        required(
            "key",
            Pattern(base64url_pattern),
            "copy it from `sluice recovery new`",
            "The public key: a COSE key in base64url, of Ed25519 or ES256.",
        ),
        required(
            "proof",
            Pattern(base64url_pattern),
            "copy it from `sluice recovery new`",
            "The signature of this key on its `id`.",
        ),
    ],
    base: None,
    one_of: &[],
};

/// The keys that may enrol people's keys together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecoveryKeys {
    /// How many different ones must sign.
    pub needs: usize,
    /// By their ids.
    pub keys: BTreeMap<String, PasskeyKey>,
}

/// What a recovery key signs when it is made.
#[derive(Serialize)]
struct RecoveryKeyName<'n> {
    statement: &'static str,
    id: &'n str,
    key: &'n str,
}

/// Returns what a recovery key signs when it is made: SHA-256 over its id and itself as JSON.
pub fn recovery_key_digest(id: &str, key: &str) -> [u8; 32] {
    plain_sha256(json::to_form(&RecoveryKeyName { statement: "sluice-recovery-key-1", id, key }).as_bytes())
}

impl RecoveryKeys {
    /// Returns what is not the same as in an earlier set, and whether more people, or fewer together, could enrol keys.
    pub(super) fn changes(before: Option<&RecoveryKeys>, then: Option<&RecoveryKeys>) -> Vec<(String, bool)> {
        let (mut changes, none) = (Vec::new(), BTreeMap::new());
        let needs = |of: Option<&RecoveryKeys>| of.map(|of| of.needs);
        match (needs(before), needs(then)) {
            (Some(was), Some(is)) if was != is => {
                changes.push((format!("{is} recovery keys enrol together, {was} before"), is < was));
            }
            _ => {}
        }
        let keys = |of: Option<&'_ RecoveryKeys>| of.map_or_else(|| none.clone(), |of| of.keys.clone());
        let (was, is) = (keys(before), keys(then));
        for (id, key) in &is {
            match was.get(id) {
                None => changes.push((format!("recovery key `{id}` is added"), true)),
                Some(before) if before != key => changes.push((format!("recovery key `{id}` is another"), true)),
                Some(_) => {}
            }
        }
        let removed = was.keys().filter(|id| !is.contains_key(*id));
        changes.extend(removed.map(|id| (format!("recovery key `{id}` is removed"), false)));
        changes
    }

    /// Returns the parts of a set's meaning.
    pub(super) fn parts(&self) -> impl Iterator<Item = (String, Value)> {
        let key = |(id, key): (&String, &PasskeyKey)| {
            (format!("recovery_key {id}"), json!({ "key": base64url::encoded(&key.to_cose()) }))
        };
        [("recovery".to_owned(), json!({ "needs": self.needs }))].into_iter().chain(self.keys.iter().map(key))
    }
}

/// `[recovery]`.
pub(super) fn read_recovery(mut table: DocumentTable<'_>, findings: &mut Vec<Finding>) -> Option<RecoveryKeys> {
    let needs = table.required("needs", DocumentTable::number).and_then(|needs| usize::try_from(needs).ok());
    let is_good = table.end(findings);
    needs.filter(|_| is_good).map(|needs| RecoveryKeys { needs, keys: BTreeMap::new() })
}

/// `[[recovery_key]]`; adds it to the keys of `[recovery]`, which is `None` where that is missing or has mistakes.
pub(super) fn read_recovery_key(
    mut table: DocumentTable<'_>,
    recovery: Option<&mut RecoveryKeys>,
    findings: &mut Vec<Finding>,
) {
    let place = table.place;
    let id = rate::id(&mut table);
    let key = table.required("key", |table, name| table.base64url(name, usize::MAX));
    let proof = table.required("proof", |table, name| table.base64url(name, usize::MAX));
    if let (Some(id), Some((key_place, key)), Some((proof_place, proof)), Some(recovery)) = (id, key, proof, recovery) {
        let proof = base64url::decoded(&proof).unwrap_or_default();
        match PasskeyKey::of_cose(&base64url::decoded(&key).unwrap_or_default()) {
            Err(error) => {
                table.fault(key_place, format!("`key` is refused: {error}"), "make another with `sluice recovery new`");
            }
            Ok(public) if !public.signed(&recovery_key_digest(&id, &key), &proof) => {
                let fault = "`proof` is not the signature of this key on its `id`";
                table.fault(proof_place, fault, "copy all that `sluice recovery new` printed");
            }
            Ok(public) if recovery.keys.contains_key(&*id) || recovery.keys.values().any(|other| *other == public) => {
                table.fault(place, "another recovery key has the same `id` or `key`", "remove one of them");
            }
            Ok(public) => drop(recovery.keys.insert(id.to_string(), public)),
        }
    }
    table.end(findings);
}
