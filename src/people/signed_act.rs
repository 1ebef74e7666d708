//! Signed acts: what a person's passkey signs for an act of two people, and whose signatures count.
//!
//! A statement names exactly one act: a certain succession of sets, freeze, or attempt of a call. The signatures stay in
//! the entry of the act and in the record that it waits in: the gate of the second person verifies both, and so does an
//! auditor, with keys of a set. Other gates take the result from the store.

use serde::{Deserialize, Serialize};

use crate::audit::{Entry, EntryKind};
use crate::base::digest::{Fingerprint, plain_sha256};
use crate::base::ids::Environment;
use crate::base::json;
use crate::base::webauthn::{Assertion, AssertionError};
use crate::ledger::{Commit, Content, NodeId, Number, Record, RecordKey, Step};
use crate::policy::{SignableAct, Signing};
use crate::stations::claim::{JointWord, Owner};
use crate::stations::hold::{SentSignature, SignatureError, answered, ask, member_of};

/// The format of its records. No other is read.
const FORMAT: u64 = 1;

/// Exactly one act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "act", rename_all = "lowercase", deny_unknown_fields)]
pub enum PersonAct {
    /// A set takes force in place of another.
    Activation { from: String, to: String },
    /// A freeze that was made or changed by this commit is lifted.
    Unfreezing { freeze: String, version: Number },
    /// An attempt was executed, as this record of upstream shows.
    Executed { claim: String, attempt: Number, record: Fingerprint },
    /// An attempt was not executed.
    Absent { claim: String, attempt: Number },
    /// Nobody will know whether an attempt was executed.
    Abandoned { claim: String, attempt: Number },
}

/// A person's signature of an act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedWord {
    pub person: Owner,
    /// A random text that one act uses up.
    pub nonce: String,
    /// The version of the policies in force.
    pub policy: String,
    /// The id of the passkey.
    pub credential: String,
    pub assertion: Assertion,
}

/// An act, and the signatures of those who did it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedAct {
    pub environment: Environment,
    pub act: PersonAct,
    pub by: Vec<SignedWord>,
}

/// A challenge for the passkey of a person, and the stored form of it, until a word uses it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ActChallenge {
    pub person: Owner,
    pub act: PersonAct,
    pub nonce: String,
    pub policy: String,
}

/// What a passkey signs: JSON with its members in the order of their names.
#[derive(Serialize)]
struct ActStatement<'s> {
    statement: &'static str,
    act: &'s PersonAct,
    environment: &'static str,
    installation: &'s str,
    policy: &'s str,
    person: String,
    nonce: &'s str,
}

/// An act, and how a set wants it signed.
#[derive(Clone, Copy, Debug)]
pub struct ActTerms<'t> {
    pub environment: Environment,
    pub act: &'t PersonAct,
    pub signing: Option<&'t Signing>,
}

impl PersonAct {
    /// The act of one of two people on an attempt in doubt.
    pub fn on_attempt(word: JointWord, claim: &RecordKey, attempt: Number) -> PersonAct {
        let claim = claim.name.clone();
        match word {
            JointWord::Absent => PersonAct::Absent { claim, attempt },
            JointWord::Abandoned => PersonAct::Abandoned { claim, attempt },
        }
    }

    pub fn kind(&self) -> SignableAct {
        match self {
            PersonAct::Activation { .. } => SignableAct::Activation,
            PersonAct::Unfreezing { .. } => SignableAct::Unfreezing,
            PersonAct::Executed { .. } => SignableAct::Executed,
            PersonAct::Absent { .. } => SignableAct::Absent,
            PersonAct::Abandoned { .. } => SignableAct::Abandoned,
        }
    }
}

impl ActChallenge {
    /// Returns what the person is to sign; its SHA-256 is the challenge for the passkey.
    pub fn statement(&self, environment: Environment, signing: &Signing) -> String {
        let ActChallenge { person, act, nonce, policy } = self;
        statement(act, (person, nonce, policy), (environment, signing))
    }

    /// Records that a person was asked to sign.
    pub fn record(&self, environment: Environment, node: &NodeId) -> Commit {
        let step = ask(environment, &self.nonce, json::to_record(self, FORMAT));
        let entry = Entry::of(EntryKind::Challenged).by(&self.person.issuer, &self.person.subject);
        let entry = entry.with("act", self.act.kind()).with("nonce", self.nonce.as_str());
        let entry = entry.with("policy", self.policy.as_str()).to_bytes();
        Commit { environment, node: node.clone(), steps: vec![step], entry }
    }

    fn of_record(record: &Record) -> Option<ActChallenge> {
        let Content::Whole(bytes) = &record.content else { return None };
        json::from_record(bytes, FORMAT).ok()
    }
}

fn statement(
    act: &PersonAct,
    (person, nonce, policy): (&Owner, &str, &str),
    (environment, signing): (Environment, &Signing),
) -> String {
    json::to_form(&ActStatement {
        statement: "sluice-act-1",
        act,
        environment: environment.as_str(),
        installation: &signing.installation,
        policy,
        person: member_of(person),
        nonce,
    })
}

impl ActTerms<'_> {
    /// Whether only signed words count.
    pub fn must_be_signed(&self) -> bool {
        self.signing.is_some_and(|signing| signing.acts.contains(&self.act.kind()))
    }

    /// Whether a person's word counts.
    pub fn counts(&self, person: &Owner, signed: Option<&SignedWord>) -> bool {
        if !self.must_be_signed() {
            return true;
        }
        signed.is_some_and(|signed| signed.person == *person && self.verify(signed).is_ok())
    }

    /// Verifies a signature of this act; returns the passkey's counter.
    pub(super) fn verify(&self, signed: &SignedWord) -> Result<u32, AssertionError> {
        let signing = self.signing.ok_or(AssertionError::UnknownKey)?;
        let SignedWord { person, nonce, policy, .. } = signed;
        let statement = statement(self.act, (person, nonce, policy), (self.environment, signing));
        let by = (member_of(person), signed.credential.as_str());
        signing.verify((&by.0, by.1), &plain_sha256(statement.as_bytes()), &signed.assertion)
    }

    /// Takes a signature that was just sent, by the records of its challenge and of the passkey's counter. Returns it, and
    /// the steps that use the challenge up and note the counter.
    pub fn take(
        &self,
        sent: &SentSignature,
        (person, policy): (&Owner, &str),
        (challenge, counter): (Option<&Record>, Option<&Record>),
    ) -> Result<(SignedWord, Vec<Step>), SignatureError> {
        // An act is signed alone.
        if !sent.together.is_empty() {
            return Err(AssertionError::OtherChallenge.into());
        }
        let record = challenge.ok_or(SignatureError::NoChallenge)?;
        let asked = ActChallenge::of_record(record);
        let asked = asked.filter(|asked| asked.person == *person && asked.act == *self.act);
        let asked = asked.ok_or(SignatureError::NoChallenge)?;
        if asked.policy != policy {
            return Err(SignatureError::OtherPolicies);
        }
        let ActChallenge { person, nonce, policy, .. } = asked;
        let (credential, assertion) = (sent.credential.clone(), sent.assertion.clone());
        let signed = SignedWord { person, nonce, policy, credential, assertion };
        let now = self.verify(&signed)?;
        Ok((signed, answered(self.environment, sent, now, (record, counter))?))
    }
}

impl SignedAct {
    /// Returns an act with the signatures that there are; `None` where there are none.
    pub fn of(
        environment: Environment,
        act: &PersonAct,
        by: impl IntoIterator<Item = Option<SignedWord>>,
    ) -> Option<SignedAct> {
        let by: Vec<_> = by.into_iter().flatten().collect();
        (!by.is_empty()).then(|| SignedAct { environment, act: act.clone(), by })
    }

    /// Returns the people whose signatures count by the keys of a set: each once. Only the name of a person is signed, so
    /// nothing else tells two people apart.
    pub fn signers(&self, signing: &Signing) -> Vec<&SignedWord> {
        let terms = ActTerms { environment: self.environment, act: &self.act, signing: Some(signing) };
        let mut counted: Vec<&SignedWord> = Vec::new();
        for word in &self.by {
            let plain = |word: &SignedWord| Owner::named(&word.person.issuer, &word.person.subject);
            let is_it = |one: &SignedWord| member_of(&one.person) == member_of(&word.person);
            let is_again = counted.iter().any(|one| is_it(one) || plain(one).is_same_person(&plain(word)));
            if !is_again && terms.verify(word).is_ok() {
                counted.push(word);
            }
        }
        counted
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::json::written_as::base64url;
    use crate::base::webauthn::tests::soft_key::{SigningPage, SoftAssertion, SoftKey};
    use crate::base::webauthn::{PasskeyKey, SyncedKeys};
    use crate::ledger::{Keep, StoreTime};
    use crate::policy::Passkey;

    const HERE: Environment = Environment::Production;

    fn answer(key: &SoftKey, statement: &str) -> Assertion {
        let page = SigningPage::of("example.com", "https://example.com");
        let SoftAssertion { authenticator_data, client_data, signature } =
            key.sign(&plain_sha256(statement.as_bytes()), &page);
        Assertion { authenticator_data, client_data, signature }
    }

    fn person(subject: &str) -> Owner {
        Owner::named("people", subject)
    }

    pub(crate) fn signing(keys: &[(&str, &SoftKey)]) -> Signing {
        let passkey = |(who, key): &(&str, &SoftKey)| {
            let passkey = Passkey {
                person: format!("people:{who}"),
                name: "a key".to_owned(),
                key: PasskeyKey::of_cose(&key.cose()).unwrap(),
            };
            (key.credential.clone(), passkey)
        };
        Signing {
            installation: "unit".to_owned(),
            rp_id: "example.com".to_owned(),
            origins: ["https://example.com".to_owned()].into(),
            synced: SyncedKeys::Refuse,
            acts: SignableAct::ALL.into(),
            passkeys: keys.iter().map(passkey).collect::<BTreeMap<_, _>>(),
            recovery: None,
        }
    }

    fn activation(to: &str) -> PersonAct {
        PersonAct::Activation { from: "1".to_owned(), to: to.to_owned() }
    }

    pub(crate) fn word(who: &str, key: &SoftKey, act: &PersonAct, nonce: &str, signing: &Signing) -> SignedWord {
        let (person, policy) = (person(who), "1".to_owned());
        let statement = statement(act, (&person, nonce, &policy), (HERE, signing));
        let assertion = answer(key, &statement);
        SignedWord { person, nonce: nonce.to_owned(), policy, credential: key.credential.clone(), assertion }
    }

    #[test]
    fn two_people_sign_exactly_one_act_with_keys_of_their_own() {
        let (a, b, c) = (SoftKey::es256(), SoftKey::eddsa(), SoftKey::es256());
        let signing = signing(&[("a", &a), ("b", &b), ("c", &c)]);
        let act = activation("2");
        let is_complete = |environment: Environment, act: &PersonAct, by: &[&SignedWord]| {
            let by = by.iter().map(|word| (*word).clone()).collect();
            SignedAct { environment, act: act.clone(), by }.signers(&signing).len() == 2
        };
        let (of_a, of_b) = (word("a", &a, &act, "n1", &signing), word("b", &b, &act, "n2", &signing));
        assert!(is_complete(HERE, &act, &[&of_a, &of_b]));
        let again = word("a", &a, &act, "n3", &signing);
        for few in [vec![&of_a], vec![&of_a, &of_a], vec![&of_a, &again]] {
            assert!(!is_complete(HERE, &act, &few), "one person is one");
        }
        assert!(!is_complete(Environment::Sandbox, &act, &[&of_a, &of_b]));
        let lift = PersonAct::Unfreezing { freeze: "all".to_owned(), version: Number::new(7) };
        for other in [activation("3"), PersonAct::Activation { from: "0".to_owned(), to: "2".to_owned() }, lift] {
            assert!(!is_complete(HERE, &other, &[&of_a, &of_b]), "{other:?}");
        }
        // A key of one person under the name of another, and a key of nobody.
        let posing = SignedWord { person: person("c"), ..of_b.clone() };
        let stranger = word("c", &SoftKey::es256(), &act, "n4", &signing);
        for bad in [&posing, &stranger] {
            assert!(!is_complete(HERE, &act, &[&of_a, bad]), "{bad:?}");
        }
        for changed in [
            SignedWord { nonce: "n9".to_owned(), ..of_b.clone() },
            SignedWord { policy: "0".to_owned(), ..of_b.clone() },
        ] {
            assert!(!is_complete(HERE, &act, &[&of_a, &changed]));
        }
    }

    #[test]
    fn a_challenge_is_answered_once_by_its_person_for_its_act_under_its_policies() {
        let (a, b) = (SoftKey::es256(), SoftKey::eddsa());
        let signing = signing(&[("a", &a), ("b", &b)]);
        let act = activation("2");
        let terms = ActTerms { environment: HERE, act: &act, signing: Some(&signing) };
        let nonce = base64url::encoded(&[7; 32]);
        let asked =
            ActChallenge { person: person("a"), act: act.clone(), nonce: nonce.clone(), policy: "1".to_owned() };
        let commit = asked.record(HERE, &NodeId::parse("gate").unwrap());
        let Some(Step::Create { value, keep: Keep::For { .. }, .. }) = commit.steps.first() else {
            panic!("{commit:?}")
        };
        let content = Content::Whole(value.clone());
        let record = Record { version: Number::new(3), at: StoreTime::of_micros(1), content };
        let assertion = answer(&a, &asked.statement(HERE, &signing));
        let sent = SentSignature { nonce, credential: a.credential.clone(), assertion, together: Vec::new() };
        let take = |terms: ActTerms<'_>, who: &str, policy: &str, record: Option<&Record>| {
            terms.take(&sent, (&person(who), policy), (record, None)).map(|(word, steps)| (word.person, steps.len()))
        };
        assert_eq!(take(terms, "a", "1", Some(&record)), Ok((person("a"), 2)));
        let listed = SentSignature { together: vec![Fingerprint::of(&[]); 2], ..sent.clone() };
        let refused = terms.take(&listed, (&person("a"), "1"), (Some(&record), None)).map(|_| ());
        assert_eq!(refused, Err(AssertionError::OtherChallenge.into()), "an act is signed alone");
        assert_eq!(take(terms, "b", "1", Some(&record)), Err(SignatureError::NoChallenge));
        assert_eq!(take(terms, "a", "1", None), Err(SignatureError::NoChallenge));
        assert_eq!(take(terms, "a", "2", Some(&record)), Err(SignatureError::OtherPolicies));
        let other = activation("3");
        assert_eq!(take(ActTerms { act: &other, ..terms }, "a", "1", Some(&record)), Err(SignatureError::NoChallenge));
        let spent = Record { content: Content::Spent, ..record.clone() };
        assert_eq!(take(terms, "a", "1", Some(&spent)), Err(SignatureError::NoChallenge));
        let none = ActTerms { signing: None, ..terms };
        assert!(none.counts(&person("a"), None) && !terms.counts(&person("a"), None));
    }
}
