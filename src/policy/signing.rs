//! `[signing]` and `[[passkey]]`: the keys of people whose signed votes count, and the pages that may ask for signatures.
//!
//! Each passkey has a proof: the key itself signed whom it belongs to, on a page of the domain. So a set has no key that
//! cannot sign, no key under another person's name, and none of another domain.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Value, json};

use super::KnownNames;
use super::document::{DocumentTable, PolicyPlace};
use super::field_form::FieldValue::{List, Name, Pattern, Text, Word, Words};
use super::field_form::{PolicyTable, Sort, base64url_pattern, optional, required};
use super::recovery_keys::RecoveryKeys;
use crate::base::digest::plain_sha256;
use crate::base::finding::Finding;
use crate::base::json;
use crate::base::json::written_as::base64url;
use crate::base::webauthn::{Assertion, AssertionError, AssertionTerms, PasskeyKey, SyncedKeys};
use crate::base::word_enum::word_enum;

/// The longest id of a credential, by WebAuthn.
const MAX_CREDENTIAL_BYTES: usize = 1023;
const LOCALHOST: &str = "localhost";

pub(super) static SIGNING: PolicyTable = PolicyTable {
    name: "signing",
    doc: "How votes are signed with passkeys.",
    fields: &[
        required(
            "installation",
            Text,
            "write for example `installation = \"treasury\"`",
            "A name of this installation. Every signature names it, so that none counts in another installation.",
        ),
        required(
            "rp_id",
            Text,
            "write the domain of the console: `rp_id = \"sluice.example.com\"`",
            "The domain that the passkeys belong to, or `localhost`. With another domain, everybody enrols again.",
        ),
        required(
            "origins",
            List(&Text),
            "write for example `origins = [\"https://sluice.example.com\"]`",
            "The addresses where people sign, on the console or another host: `https://` and a host of that domain.",
        ),
        optional(
            "synced",
            Word(|| SyncedKeys::ALL.map(SyncedKeys::as_str).into()),
            "Whether passkeys count that can be copied to other devices by a cloud. Default: `refuse`.",
        ),
        optional(
            "acts",
            Words(|| SignableAct::ALL.map(SignableAct::as_str).into()),
            "The acts of two people that both must sign: taking another set in force, lifting a freeze, and saying that a \
             call was executed, that it was not, or that nobody will know. Default: none.",
        ),
    ],
    base: None,
    one_of: &[],
};

pub(super) static PASSKEY: PolicyTable = PolicyTable {
    name: "passkey",
    doc: "A passkey of a person. The console's page writes this table when the person enrols.",
    fields: &[
        required("person", Name(Sort::Caller), "write for example `person = \"console:anna\"`", "The person."),
        required("name", Text, "write for example `name = \"key ring\"`", "A name for the device."),
        required(
            "credential",
            Pattern(base64url_pattern),
            "copy it from the console",
            "The id of the credential, in base64url.",
        ),
        required(
            "key",
            Pattern(base64url_pattern),
            "copy it from the console",
            "The public key: a COSE key in base64url.",
        ),
        required(
            "proof",
            Pattern(|| "^[A-Za-z0-9_-]+([.][A-Za-z0-9_-]+){2}$".to_owned()),
            "copy it from the console",
            "The signature of this key on whom it belongs to: three texts in base64url, with dots between.",
        ),
    ],
    base: None,
    one_of: &[],
};

word_enum! {
    /// An act that takes two people, and that a set may want signed by both.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub enum SignableAct {
        /// Another set of policies takes force, whether it is looser or stricter.
        Activation = "activation",
        Unfreezing = "unfreezing",
        Executed = "executed",
        Absent = "absent",
        Abandoned = "abandoned",
    }
}

/// The ground of signed votes and acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    pub installation: String,
    pub rp_id: String,
    pub origins: BTreeSet<String>,
    pub synced: SyncedKeys,
    pub acts: BTreeSet<SignableAct>,
    /// By the id of the credential.
    pub passkeys: BTreeMap<String, Passkey>,
    /// The keys that may enrol passkeys; `None` if there are none.
    pub recovery: Option<RecoveryKeys>,
}

/// A key, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passkey {
    /// As in groups.
    pub person: String,
    pub name: String,
    pub key: PasskeyKey,
}

/// What a key signs when its person enrols.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Enrolment<'e> {
    statement: &'static str,
    rp_id: &'e str,
    person: &'e str,
    credential: &'e str,
    key: &'e str,
}

/// A change of what signed votes rest on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningChange {
    pub what: String,
    /// Whether other people or pages could complete an approval.
    pub loosens: bool,
}

/// Returns the challenge that a key signs when its person enrols: SHA-256 over these facts as JSON.
pub fn enrolment_challenge(rp_id: &str, person: &str, credential: &str, key: &str) -> [u8; 32] {
    let enrolment = Enrolment { statement: "sluice-passkey-1", rp_id, person, credential, key };
    plain_sha256(json::to_form(&enrolment).as_bytes())
}

impl Signing {
    /// Returns the credentials of a person, named as in groups.
    pub fn of(&self, person: &str) -> impl Iterator<Item = (&str, &Passkey)> {
        self.passkeys.iter().filter(move |(_, one)| one.person == person).map(|(id, one)| (id.as_str(), one))
    }

    /// Verifies that one of a person's keys signed a challenge on a page of the set; returns the key's counter.
    pub fn verify(
        &self,
        (person, credential): (&str, &str),
        challenge: &[u8],
        assertion: &Assertion,
    ) -> Result<u32, AssertionError> {
        let passkey = self.passkeys.get(credential).filter(|passkey| passkey.person == person);
        let passkey = passkey.ok_or(AssertionError::UnknownKey)?;
        let takes_origin = |origin: &str| self.origins.contains(origin);
        let (rp_id, synced) = (self.rp_id.as_str(), self.synced);
        assertion.verify(&passkey.key, AssertionTerms { rp_id, challenge, synced, takes_origin: &takes_origin })
    }

    /// Returns what is not the same as in an earlier set. More keys, other keys, and other pages could complete an approval
    /// that nobody completed before.
    pub(super) fn changes(before: Option<&Signing>, then: Option<&Signing>) -> Vec<SigningChange> {
        let mut changes = Vec::new();
        let mut add = |what: String, loosens: bool| changes.push(SigningChange { what, loosens });
        let parts = |of: Option<&Signing>| {
            of.map(|of| (of.installation.clone(), of.rp_id.clone(), of.origins.clone(), of.synced))
        };
        match (parts(before), parts(then)) {
            (Some(was), Some(is)) if was != is => {
                let is_less = was.0 == is.0 && was.1 == is.1 && is.2.is_subset(&was.2);
                let is_less = is_less && (was.3 == is.3 || is.3 == SyncedKeys::Refuse);
                add("the domain, the pages or the kinds of passkeys that sign votes".to_owned(), !is_less);
            }
            (Some(_), None) => add("votes are signed no longer".to_owned(), true),
            (None, Some(_)) => add("votes can be signed".to_owned(), false),
            _ => {}
        }
        let acts = |of: Option<&Signing>| of.map(|of| of.acts.clone()).unwrap_or_default();
        for act in acts(before).symmetric_difference(&acts(then)) {
            let is_now = acts(then).contains(act);
            let words = if is_now { "must be signed now" } else { "need not be signed any more" };
            add(format!("acts of `{act}` {words}"), !is_now);
        }
        let none = BTreeMap::new();
        let keys = |of: Option<&'_ Signing>| of.map_or_else(|| none.clone(), |of| of.passkeys.clone());
        let (was, is) = (keys(before), keys(then));
        let is_same = |one: &Passkey, other: &Passkey| one.key == other.key && one.person == other.person;
        for (credential, passkey) in &is {
            let of = || format!("passkey `{}` of `{}`", passkey.name, passkey.person);
            match was.get(credential) {
                None => add(format!("{} is added", of()), true),
                Some(before) if !is_same(before, passkey) => add(format!("{} is another", of()), true),
                Some(before) if before.name != passkey.name => add(format!("{} has another name", of()), false),
                Some(_) => {}
            }
        }
        for passkey in was.iter().filter(|(credential, _)| !is.contains_key(*credential)).map(|(_, passkey)| passkey) {
            add(format!("passkey `{}` of `{}` is removed", passkey.name, passkey.person), false);
        }
        let recovery = |of: Option<&'_ Signing>| of.and_then(|of| of.recovery.clone());
        for (what, loosens) in RecoveryKeys::changes(recovery(before).as_ref(), recovery(then).as_ref()) {
            add(what, loosens);
        }
        changes
    }

    /// Returns the parts of a set's meaning.
    pub(super) fn parts(&self) -> impl Iterator<Item = (String, Value)> {
        let Signing { installation, rp_id, origins, synced, acts, passkeys, recovery } = self;
        let synced = synced.as_str();
        let own =
            json!({"installation": installation, "rp_id": rp_id, "origins": origins, "synced": synced, "acts": acts});
        let recovery = recovery.iter().flat_map(RecoveryKeys::parts);
        [("signing".to_owned(), own)].into_iter().chain(passkeys.iter().map(passkey_part)).chain(recovery)
    }
}

/// Returns the part of a passkey in a set's meaning.
pub(super) fn passkey_part((credential, one): (&String, &Passkey)) -> (String, Value) {
    let key = base64url::encoded(&one.key.to_cose());
    (format!("passkey {credential}"), json!({"person": one.person, "name": one.name, "key": key}))
}

/// `[signing]`.
pub(super) fn read_signing(mut table: DocumentTable<'_>, findings: &mut Vec<Finding>) -> Option<Signing> {
    let installation = table.required("installation", DocumentTable::text);
    let rp_id = table.required("rp_id", DocumentTable::text);
    let origins = table.required("origins", |table, name| table.texts(name, false));
    let synced = match table.has("synced") {
        true => table.choice("synced", &SyncedKeys::WORDS),
        false => {
            table.take("synced");
            Some(SyncedKeys::Refuse)
        }
    };
    if let Some((place, id)) = rp_id.as_ref().filter(|(_, id)| !is_domain(id)) {
        let fault = format!("`rp_id` cannot be `{}`", id.escape_debug());
        table.fault(
            *place,
            fault,
            "write a domain in lower case, or `localhost`: browsers make no passkeys for addresses",
        );
    }
    let acts = table.texts("acts", true).unwrap_or_default();
    let acts =
        acts.iter().filter_map(|(place, act)| table.choice_of("acts", *place, act, &SignableAct::WORDS)).collect();
    for (place, origin) in origins.iter().flatten() {
        if rp_id.as_ref().is_some_and(|(_, id)| is_domain(id) && !is_origin_of(origin, id)) {
            let fault = format!("a page of `{}` cannot use passkeys of `rp_id`", origin.escape_debug());
            table.fault(*place, fault, "write `https://`, a host of that domain, and the port unless it is 443");
        }
    }
    let is_good = table.end(findings);
    let origins = origins?.into_iter().map(|(_, origin)| origin).collect();
    let (installation, rp_id) = (installation?.1, rp_id?.1);
    let (passkeys, recovery) = (BTreeMap::new(), None);
    let read = Signing { installation, rp_id, origins, synced: synced?, acts, passkeys, recovery };
    is_good.then_some(read)
}

/// `[[passkey]]`; adds it to the keys of `[signing]`, which is `None` where that is missing or has mistakes.
pub(super) fn read_passkey(
    mut table: DocumentTable<'_>,
    known: &KnownNames<'_>,
    signing: Option<&mut Signing>,
    findings: &mut Vec<Finding>,
) {
    let place = table.place;
    let person = table.required("person", DocumentTable::text);
    if let Some(person) = person.clone() {
        super::rate::callers(&mut table, vec![person], known);
    }
    let name = table.required("name", DocumentTable::text);
    let credential = table.required("credential", |table, name| table.base64url(name, MAX_CREDENTIAL_BYTES));
    let key = table.required("key", |table, name| table.base64url(name, usize::MAX));
    let proof = table.required("proof", |table, name| {
        let (place, text) = table.text(name)?;
        let proof = proof_of(&text);
        if proof.is_none() {
            table.fault(place, "`proof` is not three texts in base64url", "copy it from the console again");
        }
        proof.map(|proof| (place, proof))
    });
    if let (Some((_, person)), Some((_, name)), Some((_, credential)), Some(key), Some(proof), Some(signing)) =
        (person, name, credential, key, proof, signing)
    {
        let passkey = passkey_of(&mut table, (person, name, &credential), key, proof, signing);
        let is_new = |passkey: &Passkey| {
            let others = &signing.passkeys;
            !others.contains_key(&credential) && others.values().all(|other| other.key != passkey.key)
        };
        match passkey {
            Some(passkey) if is_new(&passkey) => drop(signing.passkeys.insert(credential, passkey)),
            Some(_) => table.fault(place, "another passkey has the same credential or key", "remove one of them"),
            None => {}
        }
    }
    table.end(findings);
}

/// Takes a key whose proof is of this person, key and domain.
fn passkey_of(
    table: &mut DocumentTable<'_>,
    (person, name, credential): (String, String, &str),
    (key_place, key_text): (PolicyPlace, String),
    (proof_place, proof): (PolicyPlace, Assertion),
    signing: &Signing,
) -> Option<Passkey> {
    let key = match PasskeyKey::of_cose(&base64url::decoded(&key_text)?) {
        Ok(key) => key,
        Err(error) => {
            table.fault(key_place, format!("`key` is refused: {error}"), "enrol another authenticator");
            return None;
        }
    };
    let Signing { rp_id, synced, .. } = signing;
    let challenge = enrolment_challenge(rp_id, &person, credential, &key_text);
    let takes_origin = |origin: &str| is_origin_of(origin, rp_id);
    let terms = AssertionTerms { rp_id, challenge: &challenge, synced: *synced, takes_origin: &takes_origin };
    match proof.verify(&key, terms) {
        Ok(_) => Some(Passkey { person, name, key }),
        Err(error) => {
            let remedy = match error {
                AssertionError::OtherDomain | AssertionError::OtherOrigin => {
                    "a passkey works for one domain: have its person enrol again, on a page of this one"
                }
                _ => "have the person enrol again, and copy all that the console shows",
            };
            table.fault(proof_place, format!("`proof` is refused: {error}"), remedy);
            None
        }
    }
}

fn proof_of(text: &str) -> Option<Assertion> {
    let mut parts = text.split('.').map(base64url::decoded);
    let (authenticator_data, client_data, signature) = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(Assertion { authenticator_data, client_data, signature })
}

/// Returns whether a text can be the domain of passkeys: names in lower case, and no address of a network.
fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let last = text.rsplit('.').next().unwrap_or_default();
    // Browsers take a name whose last part is a number for an address, `0x7f` too.
    let is_name = text.contains('.') && last.starts_with(|c: char| c.is_ascii_lowercase());
    text == LOCALHOST || (text.len() <= 253 && is_name && text.split('.').all(is_label))
}

/// Returns whether a text is the origin of a page of a domain, as browsers write it.
pub fn is_origin_of(origin: &str, rp_id: &str) -> bool {
    let (is_tls, rest) = match (origin.strip_prefix("https://"), origin.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return false,
    };
    let (host, port) = rest.split_once(':').map_or((rest, None), |(host, port)| (host, Some(port)));
    let default = if is_tls { "443" } else { "80" };
    let is_port = |port: &str| {
        port != default
            && !port.starts_with('0')
            && port.bytes().all(|b| b.is_ascii_digit())
            && port.parse::<u16>().is_ok()
    };
    let is_below = host.strip_suffix(rp_id).is_some_and(|above| above.is_empty() || above.ends_with('.'));
    is_domain(host) && is_below && (is_tls || host == LOCALHOST) && port.is_none_or(is_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_a_name_and_an_origin_is_below_it() {
        for good in ["localhost", "example.com", "a-b.example.com", "x1.io"] {
            assert!(is_domain(good), "{good}");
        }
        for bad in [
            "",
            "com",
            "10.0.0.1",
            "1.2.3.4",
            "[::1]",
            "Example.com",
            "a..b",
            "-a.com",
            "a_b.com",
            "ex.com.",
            "a.1",
            "1.2.3.0x7f",
        ] {
            assert!(!is_domain(bad), "{bad}");
        }
        let table = [
            ("https://example.com", "example.com", true),
            ("https://sluice.example.com:8443", "example.com", true),
            ("http://localhost:9000", "localhost", true),
            ("https://localhost", "localhost", true),
            ("http://example.com", "example.com", false),
            ("https://evilexample.com", "example.com", false),
            ("https://example.com.evil.io", "example.com", false),
            ("https://example.com:443", "example.com", false),
            ("https://example.com:0443", "example.com", false),
            ("https://example.com/", "example.com", false),
            ("https://user@example.com", "example.com", false),
            ("https://EXAMPLE.com", "example.com", false),
            ("https://example.com", "sluice.example.com", false),
            ("wss://example.com", "example.com", false),
            ("null", "example.com", false),
        ];
        for (origin, rp_id, is_of) in table {
            assert_eq!(is_origin_of(origin, rp_id), is_of, "{origin} {rp_id}");
        }
    }
}
