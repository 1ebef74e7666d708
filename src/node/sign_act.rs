//! Signatures of acts: what a person is asked to sign, and whether a word is signed as the set in force wants it.

use super::Node;
use super::approve::AskedSignature;
use crate::adapters::random::bytes;
use crate::base::ids::Environment;
use crate::base::json::written_as::base64url;
use crate::ledger::{Step, StoreFault};
use crate::people::signed_act::{ActChallenge, ActTerms, PersonAct, SignedWord};
use crate::policy::Policies;
use crate::stations::claim::Owner;
use crate::stations::hold::{NONCE_BYTES, SentSignature, SignatureError, challenge_key, counter_key, member_of};

/// A person's word on an act, as it was sent.
#[derive(Clone, Copy, Debug)]
pub struct SaidWord<'w> {
    pub person: &'w Owner,
    pub reason: &'w str,
    pub signature: Option<&'w SentSignature>,
}

/// The reasons why a word does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnsignedAct {
    NotSigned,
    /// The policies in force have no passkey of this person.
    NotEnrolled,
    BadSignature(SignatureError),
    Store(StoreFault),
}

impl From<StoreFault> for UnsignedAct {
    fn from(fault: StoreFault) -> UnsignedAct {
        UnsignedAct::Store(fault)
    }
}

/// Asks a person to sign an act.
pub async fn ask(
    node: &Node,
    policies: &Policies,
    environment: Environment,
    act: PersonAct,
    person: &Owner,
) -> Result<AskedSignature, UnsignedAct> {
    let random = bytes::<NONCE_BYTES>();
    let nonce = random.ok_or_else(|| StoreFault::Away("the operating system gives no random bytes".to_owned()))?;
    let signing = policies.rules.signing.as_ref().ok_or(UnsignedAct::NotEnrolled)?;
    let credentials: Vec<String> = signing.of(&member_of(person)).map(|(id, _)| id.to_owned()).collect();
    if credentials.is_empty() {
        return Err(UnsignedAct::NotEnrolled);
    }
    let (nonce, policy) = (base64url::encoded(&nonce), policies.version().to_owned());
    let challenge = ActChallenge { person: person.clone(), act, nonce, policy };
    let statement = challenge.statement(environment, signing);
    if node.commit_lasting_act(person, challenge.record(environment, &node.id)).await?.is_none() {
        return Err(UnsignedAct::Store(StoreFault::Away("the challenge was not recorded".to_owned())));
    }
    Ok(AskedSignature { nonce: challenge.nonce, statement, rp_id: signing.rp_id.clone(), credentials })
}

/// Verifies the signature of a word, if there is one. Returns it, with the steps that use up what it answers; fails where
/// there is none and the set in force wants one.
pub(super) async fn take(
    node: &Node,
    terms: ActTerms<'_>,
    policy: &str,
    said: SaidWord<'_>,
) -> Result<(Option<SignedWord>, Vec<Step>), UnsignedAct> {
    let Some(sent) = said.signature else {
        let is_enrolled = |person: &Owner| {
            let keys = terms.signing.map(|signing| signing.of(&member_of(person)).count());
            keys.unwrap_or_default() > 0
        };
        return match (terms.must_be_signed(), is_enrolled(said.person)) {
            (false, _) => Ok((None, Vec::new())),
            (true, true) => Err(UnsignedAct::NotSigned),
            (true, false) => Err(UnsignedAct::NotEnrolled),
        };
    };
    let environment = terms.environment;
    let (challenge, _) = node.store.read(&challenge_key(environment, &sent.nonce)).await?;
    let (counter, _) = node.store.read(&counter_key(environment, &sent.credential)).await?;
    match terms.take(sent, (said.person, policy), (challenge.as_ref(), counter.as_ref())) {
        Ok((signed, steps)) => {
            // A key that a newer set has no more does not count, also if that set takes force at this moment.
            let guard = node.activations.guard_of_act(environment, policy);
            let guard = guard.ok_or(UnsignedAct::BadSignature(SignatureError::OtherPolicies))?;
            Ok((Some(signed), steps.into_iter().chain(guard).collect()))
        }
        Err(refused) => {
            node.metrics.signature_refused(environment.as_str(), refused.as_str());
            tracing::warn!(act = terms.act.kind().as_str(), reason = %refused, "the signature of an act is refused");
            Err(UnsignedAct::BadSignature(refused))
        }
    }
}
