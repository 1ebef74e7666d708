//! Reads the meaning of an archived set back: who may approve what, and with which keys.
//!
//! Its digest is the version of the set, so the archive needs nobody's word, and neither the contract nor the texts.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use thiserror::Error;

use super::meaning::Meaning;
use super::rate::Mode;
use super::recovery_keys::RecoveryKeys;
use super::request::Valuation;
use super::rules::Rules;
use super::signing::{Passkey, SignableAct, Signing};
use super::words::{Approval, Groups, Need};
use crate::base::json::written_as::base64url;
use crate::base::json::{self, Limits};
use crate::base::webauthn::{PasskeyKey, SyncedKeys};

/// What a set says of people.
#[derive(Clone, Debug)]
pub struct ArchivedRules {
    /// All that was read; its digest is the version of the set.
    pub meaning: Meaning,
    /// Its groups, approvals and keys; it has no rules.
    pub rules: Rules,
    /// The approval that each rule or limit asks for.
    asks: BTreeMap<String, Arc<str>>,
}

/// The text is no meaning of a set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("it is not the meaning of a set of policies: {0}")]
pub struct UnreadableMeaning(String);

impl ArchivedRules {
    /// Reads the file `meaning.json` of an archived set.
    pub fn read(text: &[u8]) -> Result<ArchivedRules, UnreadableMeaning> {
        let read = json::parse(text, Limits::ANSWER).map_err(|error| UnreadableMeaning(error.reason.to_string()))?;
        let Value::Object(parts) = read else { return Err(UnreadableMeaning("it is no object".to_owned())) };
        let parts: BTreeMap<String, Value> = parts.into_iter().collect();
        let meaning = Meaning::of_parts(parts);
        let (mut approvals, mut groups, mut asks) = (BTreeMap::new(), Groups::new(), BTreeMap::new());
        let (mut signing, mut passkeys) = (None, BTreeMap::new());
        let (mut needs, mut keys) = (None, BTreeMap::new());
        for (name, part) in meaning.parts() {
            let wrong = || UnreadableMeaning(format!("the part `{name}`"));
            match name.split_once(' ') {
                Some(("approval", name)) => {
                    drop(approvals.insert(Arc::<str>::from(name), approval(part).ok_or_else(wrong)?));
                }
                Some(("group", name)) => drop(groups.insert(name.to_owned(), texts(part).ok_or_else(wrong)?)),
                Some(("rule" | "limit", name)) => {
                    let asked = ["approval", "over"].iter().find_map(|member| part.get(*member)?.as_str());
                    let is_enforced = part.get("mode").and_then(Value::as_str) == Some(Mode::Enforce.as_str());
                    asks.extend(asked.filter(|_| is_enforced).map(|asked| (name.to_owned(), Arc::from(asked))));
                }
                Some(("passkey", name)) => drop(passkeys.insert(name.to_owned(), passkey(part).ok_or_else(wrong)?)),
                Some(("recovery_key", id)) => drop(keys.insert(id.to_owned(), key(part).ok_or_else(wrong)?)),
                None if name == "recovery" => needs = Some(needed(part).ok_or_else(wrong)?),
                None if name == "signing" => signing = Some(ground(part).ok_or_else(wrong)?),
                _ => {}
            }
        }
        let mut rules = Rules::new(Vec::new(), Vec::new(), approvals, groups, Valuation::default());
        let recovery = needs.map(|needs| RecoveryKeys { needs, keys });
        rules.signing = signing.map(|signing| Signing { passkeys, recovery, ..signing });
        Ok(ArchivedRules { meaning, rules, asks })
    }

    /// Returns the digest of what was read.
    pub fn version(&self) -> &str {
        self.meaning.version()
    }

    /// Returns the approval that a rule or limit asks for.
    pub fn asked_by(&self, name: &str) -> Option<&Arc<str>> {
        self.asks.get(name)
    }
}

fn member<'v>(part: &'v Value, name: &str) -> Option<&'v str> {
    part.get(name)?.as_str()
}

fn texts<C: FromIterator<String>>(part: &Value) -> Option<C> {
    part.as_array()?.iter().map(|text| text.as_str().map(str::to_owned)).collect()
}

fn approval(part: &Value) -> Option<Approval> {
    let signed = part.get("signed").map_or(Some(false), Value::as_bool)?;
    let expires = Duration::from_secs(part.get("expires_secs")?.as_u64()?);
    Some(Approval { need: need(part.get("need")?)?, expires, signed })
}

fn need(part: &Value) -> Option<Need> {
    let needs = |part: &Value| part.as_array()?.iter().map(need).collect::<Option<Vec<_>>>();
    let members: &Map<String, Value> = part.as_object()?;
    match (members.get("all"), members.get("any")) {
        (Some(all), None) => Some(Need::All(needs(all)?)),
        (None, Some(any)) => Some(Need::Any(needs(any)?)),
        (None, None) => {
            Some(Need::People { group: member(part, "of")?.to_owned(), count: members.get("n")?.as_u64()? })
        }
        (Some(_), Some(_)) => None,
    }
}

fn ground(part: &Value) -> Option<Signing> {
    Some(Signing {
        installation: member(part, "installation")?.to_owned(),
        rp_id: member(part, "rp_id")?.to_owned(),
        origins: texts(part.get("origins")?)?,
        synced: SyncedKeys::parse(member(part, "synced")?)?,
        acts: part
            .get("acts")?
            .as_array()?
            .iter()
            .map(|act| SignableAct::parse(act.as_str()?))
            .collect::<Option<_>>()?,
        passkeys: BTreeMap::new(),
        recovery: None,
    })
}

fn passkey(part: &Value) -> Option<Passkey> {
    Some(Passkey {
        person: member(part, "person")?.to_owned(),
        name: member(part, "name")?.to_owned(),
        key: key(part)?,
    })
}

fn key(part: &Value) -> Option<PasskeyKey> {
    PasskeyKey::of_cose(&base64url::decoded(member(part, "key")?)?).ok()
}

fn needed(part: &Value) -> Option<usize> {
    usize::try_from(part.get("needs")?.as_u64()?).ok()
}
