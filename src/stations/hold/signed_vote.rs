//! Signed votes: what a voter's passkey signs, and whether a stored vote is signed.
//!
//! A signature is for a statement: the hold, its bytes, its causes and their figures, the approvals, the set of policies and
//! the person. A gate makes the statement anew from the hold and its bytes each time that it counts votes, and verifies the
//! signature with the keys of the set in force. So a vote counts for a signed approval on nobody's word, and stand-ins never do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::amounts::SignedAmounts;
use super::owners::member_of;
use super::rebuild::read_again;
use super::signature::{MAX_TOGETHER, SentSignature, SignatureError, SignedVote, VoteChallenge};
use super::state::{Hold, Vote};
use super::voting::VoteContext;
use crate::audit::{Entry, EntryKind};
use crate::base::digest::{Fingerprint, plain_sha256};
use crate::base::ids::{Environment, HoldId};
use crate::base::json;
use crate::base::json::written_as::base64url;
use crate::base::webauthn::{Assertion, AssertionError};
use crate::catalog::Catalog;
use crate::ledger::{Commit, Content, Keep, Kind, NodeId, Number, Record, RecordKey, Step, Versioned};
use crate::policy::{Signing, Voices};
use crate::stations::check::Intent;
use crate::stations::claim::Owner;

/// The format of these records. No other is read.
const FORMAT: u64 = 3;
/// How long a person has to sign.
pub const CHALLENGE_TIME: Duration = Duration::from_secs(300);
pub const NONCE_BYTES: usize = 32;

/// The stored form of a challenge, until a vote uses it up.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChallengeRecord {
    person: Owner,
    hold: HoldId,
    challenge: VoteChallenge,
}

/// The stored form of the last counter of a passkey, and the assertion that had it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CounterRecord {
    counter: u32,
    assertion: Fingerprint,
}

/// What a passkey signs: JSON with its members in the order of their names.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VoteStatement<'s> {
    statement: &'static str,
    word: &'static str,
    environment: &'static str,
    installation: &'s str,
    hold: &'s HoldId,
    version: Number,
    approvals: &'s BTreeSet<Arc<str>>,
    amounts: &'s SignedAmounts,
    fingerprint: Fingerprint,
    causes: Fingerprint,
    figures: Fingerprint,
    policy: &'s str,
    person: String,
    nonce: &'s str,
}

/// What a passkey signs for several votes at once: JSON with its members in the order of their names.
#[derive(Serialize)]
struct ListStatement<'s> {
    digests: &'s [Fingerprint],
    statement: &'static str,
}

/// The call that a vote is for: its hold, its bytes, what they say that it moves, and the reasons that people were shown.
#[derive(Clone, Copy, Debug)]
pub struct VotedCall<'c> {
    pub hold: &'c HoldId,
    pub fingerprint: Fingerprint,
    pub amounts: &'c SignedAmounts,
    pub causes: Fingerprint,
    pub figures: Fingerprint,
}

impl VoteChallenge {
    /// Returns the statement of a person's vote on a hold; its SHA-256 is the challenge for the passkey, or stands in the
    /// list that is.
    pub fn statement(
        &self,
        call: VotedCall<'_>,
        person: &Owner,
        (environment, signing): (Environment, &Signing),
    ) -> String {
        json::to_form(&VoteStatement {
            statement: "sluice-vote-1",
            word: "approve",
            environment: environment.as_str(),
            installation: &signing.installation,
            hold: call.hold,
            version: self.version,
            approvals: &self.approvals,
            amounts: call.amounts,
            fingerprint: call.fingerprint,
            causes: call.causes,
            figures: call.figures,
            policy: &self.policy,
            person: member_of(person),
            nonce: &self.nonce,
        })
    }

    /// Records that a person was asked to sign.
    pub fn record(&self, here: Versioned<'_, Hold>, person: &Owner, node: &NodeId) -> Commit {
        let environment = here.key.environment;
        let of = ChallengeRecord { person: person.clone(), hold: here.value.id.clone(), challenge: self.clone() };
        let step = ask(environment, &self.nonce, json::to_record(&of, FORMAT));
        let entry = Entry::of(EntryKind::Challenged).by(&person.issuer, &person.subject).with("hold", of.hold.as_str());
        let entry = entry.with("nonce", self.nonce.as_str()).with("policy", self.policy.as_str());
        Commit { environment, node: node.clone(), steps: vec![step], entry: entry.to_bytes() }
    }

    /// Reads the challenge of a person on a hold.
    fn of_record(record: Option<&Record>, person: &Owner, hold: &HoldId) -> Option<VoteChallenge> {
        let Content::Whole(bytes) = &record?.content else { return None };
        let read: ChallengeRecord = json::from_record(bytes, FORMAT).ok()?;
        (read.person == *person && read.hold == *hold).then_some(read.challenge)
    }
}

/// Returns the SHA-256 that a passkey signs for several votes at once, from the SHA-256 of each statement.
pub fn list_challenge(digests: &[Fingerprint]) -> [u8; 32] {
    let list = ListStatement { digests, statement: "sluice-votes-1" };
    plain_sha256(json::to_form(&list).as_bytes())
}

/// Keeps a challenge for as long as a person has to sign.
pub fn ask(environment: Environment, nonce: &str, challenge: String) -> Step {
    let keep = Keep::For { whole: CHALLENGE_TIME, spent: Duration::ZERO };
    Step::Create { key: challenge_key(environment, nonce), value: challenge.into(), keep }
}

/// Returns the key of a challenge.
pub fn challenge_key(environment: Environment, nonce: &str) -> RecordKey {
    RecordKey { environment, kind: Kind::Challenge, name: nonce.to_owned() }
}

/// Returns the key of a passkey's counter.
pub fn counter_key(environment: Environment, credential: &str) -> RecordKey {
    let name = Fingerprint::of(&[credential.as_bytes()]).to_hex();
    RecordKey { environment, kind: Kind::Counter, name }
}

/// Returns whether a text can be a nonce.
pub fn is_nonce(text: &str) -> bool {
    base64url::decoded(text).is_some_and(|bytes| bytes.len() == NONCE_BYTES)
}

impl SentSignature {
    /// Verifies a signature that was just sent, by the records of its challenge and of the passkey's counter. Returns it as
    /// a vote keeps it, and the steps that use the challenge up and note the counter.
    pub fn verify(
        &self,
        (environment, call): (Environment, VotedCall<'_>),
        person: &Owner,
        (signing, policy): (&Signing, &str),
        (challenge, counter): (Option<&Record>, Option<&Record>),
    ) -> Result<(SignedVote, Vec<Step>), SignatureError> {
        let found = VoteChallenge::of_record(challenge, person, call.hold).zip(challenge);
        let (asked, record) = found.ok_or(SignatureError::NoChallenge)?;
        if asked.policy != policy {
            return Err(SignatureError::OtherPolicies);
        }
        let (credential, assertion, together) =
            (self.credential.clone(), self.assertion.clone(), self.together.clone());
        let signed = SignedVote { challenge: asked, credential, assertion, together };
        let now = signed.verify(call, person, (environment, signing))?;
        Ok((signed, answered(environment, self, now, (record, counter))?))
    }
}

/// Returns the steps that use a challenge up and note the counter `now` of the passkey that answered it.
pub fn answered(
    environment: Environment,
    sent: &SentSignature,
    now: u32,
    (challenge, counter): (&Record, Option<&Record>),
) -> Result<Vec<Step>, SignatureError> {
    let key = counter_key(environment, &sent.credential);
    let before = counter.and_then(counter_of);
    let Assertion { authenticator_data, client_data, signature } = &sent.assertion;
    let noted =
        CounterRecord { counter: now, assertion: Fingerprint::of(&[authenticator_data, client_data, signature]) };
    // One assertion for several votes moves the counter once.
    let is_stuck =
        before.as_ref().is_some_and(|before| before.counter > 0 && now <= before.counter && *before != noted);
    if is_stuck {
        return Err(SignatureError::Copied);
    }
    let value = json::to_record(&noted, FORMAT).into();
    let note = match counter.map(|record| record.version) {
        None => Step::Create { key, value, keep: Keep::Forever },
        Some(version) if before.is_some_and(|before| before.counter == now) => Step::Version { key, version },
        // A counter that cannot be read says nothing, and is written anew.
        Some(version) => Step::Replace { key, version, value, keep: Keep::Forever },
    };
    let used = Step::Delete { key: challenge_key(environment, &sent.nonce), version: challenge.version };
    Ok(vec![used, note])
}

fn counter_of(record: &Record) -> Option<CounterRecord> {
    let Content::Whole(bytes) = &record.content else { return None };
    json::from_record(bytes, FORMAT).ok()
}

impl SignedVote {
    /// Verifies that a person signed a vote on this call and what it moves; returns the passkey's counter.
    pub fn verify(
        &self,
        call: VotedCall<'_>,
        person: &Owner,
        ground: (Environment, &Signing),
    ) -> Result<u32, AssertionError> {
        if self.challenge.amounts != *call.amounts {
            return Err(AssertionError::OtherChallenge);
        }
        let statement = self.challenge.statement(call, person, ground);
        let signed = self.signed_for(&statement).ok_or(AssertionError::OtherChallenge)?;
        let voter = member_of(person);
        ground.1.verify((&voter, &self.credential), &signed, &self.assertion)
    }

    /// Returns the SHA-256 that a passkey signs for a statement: its own, or that of the list in which it must be.
    fn signed_for(&self, statement: &str) -> Option<[u8; 32]> {
        let own = plain_sha256(statement.as_bytes());
        if self.together.is_empty() {
            return Some(own);
        }
        let is_listed = self.together.iter().any(|digest| digest.as_bytes() == own);
        (is_listed && self.together.len() <= MAX_TOGETHER).then(|| list_challenge(&self.together))
    }
}

impl Hold {
    /// Reads from its bytes, by this contract, what its call moves. Bytes that are no longer the held call move nothing.
    pub fn stated_amounts(&self, catalog: &Catalog, environment: Environment) -> SignedAmounts {
        SignedAmounts::stated_by(read_again(catalog, environment, self).as_ref().and_then(Intent::movement))
    }

    /// Returns what votes are for. The amounts are those that its bytes state.
    pub fn voted_call<'c>(&'c self, amounts: &'c SignedAmounts) -> VotedCall<'c> {
        let (causes, figures) = (self.causes.digest(), self.causes.figures_digest());
        VotedCall { hold: &self.id, fingerprint: self.fingerprint, amounts, causes, figures }
    }

    /// Returns whose signatures count for each signed approval: each person once, for themselves. `supposed` counts as if
    /// this person had signed now.
    pub(super) fn signed_voices(
        &self,
        hearing: &VoteContext<'_>,
        supposed: Option<&Owner>,
    ) -> BTreeMap<Arc<str>, Voices> {
        let rules = hearing.rules;
        let Some(signing) = rules.signing.as_ref().filter(|_| rules.has_signed()) else { return BTreeMap::new() };
        let ground = (hearing.environment, signing);
        let amounts = match self.votes.iter().any(|vote| vote.signed.is_some()) {
            true => self.stated_amounts(hearing.catalog, hearing.environment),
            false => SignedAmounts::default(),
        };
        let approvals_of = |vote: &Vote| {
            let signed = vote.signed.as_ref()?;
            signed.verify(self.voted_call(&amounts), &vote.person, ground).ok()?;
            Some((vote.person.clone(), Some(signed.challenge.approvals.clone())))
        };
        let causes = self.causes.digest();
        let supposed = supposed.filter(|person| rules.is_enrolled(&member_of(person)));
        let signed = self.votes.iter().filter(|vote| vote.causes == causes).filter_map(approvals_of);
        let (mut all, mut people) = (BTreeMap::<Arc<str>, Voices>::new(), Vec::<Owner>::new());
        for (person, approvals) in supposed.map(|person| (person.clone(), None)).into_iter().chain(signed) {
            let today = hearing.owners.as_today(&person);
            let is_again = people.iter().any(|one| one.is_same_person(&today));
            if is_again || self.is_asked_by(&person, hearing.owners) {
                continue;
            }
            people.push(today);
            let is_for = |name: &Arc<str>| approvals.as_ref().is_none_or(|approvals| approvals.contains(name));
            for (name, _) in rules.approvals.iter().filter(|(name, approval)| approval.signed && is_for(name)) {
                let member = member_of(&person);
                all.entry(name.clone()).or_default().insert(member.clone(), BTreeSet::from([member]));
            }
        }
        all
    }
}
