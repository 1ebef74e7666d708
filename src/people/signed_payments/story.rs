//! One hold, as the entries tell it: what was shown last, who voted, and whether that proves a payment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::record::{HeldEntry, PlacedEntry, ReopenedEntry, SentEntry, VotedEntry, WrittenCause, digest};
use super::report::{PaymentProof, Unproved, VerifiedSigner, VoteFault};
use crate::audit::EntryKind;
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::ledger::StoreTime;
use crate::policy::{ArchivedRules, Signing, Voices, each_alone};
use crate::stations::claim::Owner;
use crate::stations::hold::{SignedVote, VotedCall, member_of};

const SECOND: Duration = Duration::from_secs(1);

/// A hold.
pub(super) struct HoldStory<'w> {
    held: &'w HeldEntry,
    /// The approvals that it asked for, or why they are not known.
    asked: Result<BTreeSet<String>, Unproved>,
    /// When its approvals expire; `None` where no set says that.
    pub until: Option<StoreTime>,
    /// The reasons that people were shown last.
    causes: &'w [WrittenCause],
    votes: Vec<ToldVote<'w>>,
    pub ended: Option<EntryKind>,
    /// The number of the entry by which it was sent, unless that was certainly not executed.
    pub sent: Option<u64>,
    /// The kind of an entry that cannot be read.
    pub incomplete: Option<EntryKind>,
    /// The numbers of its entries.
    pub numbers: BTreeSet<u64>,
}

/// A vote.
struct ToldVote<'w> {
    entry: &'w PlacedEntry,
    person: Owner,
    voted: &'w VotedEntry,
    /// Its challenge was used before.
    is_used: bool,
}

/// The sets by which votes are verified.
#[derive(Clone, Copy)]
pub(super) struct SetsThen<'w> {
    pub sets: &'w BTreeMap<String, ArchivedRules>,
    /// The sets that were in force so far, and are proved.
    pub proved: &'w BTreeSet<&'w str>,
    /// The set by which the payment was sent.
    pub now: &'w ArchivedRules,
    pub environment: Environment,
}

impl<'w> HoldStory<'w> {
    pub fn begun(
        held: &'w HeldEntry,
        asked: Result<BTreeSet<String>, Unproved>,
        until: Option<StoreTime>,
    ) -> HoldStory<'w> {
        let (votes, numbers, causes) = (Vec::new(), BTreeSet::new(), &held.causes);
        HoldStory { held, asked, until, causes, votes, ended: None, sent: None, incomplete: None, numbers }
    }

    /// Reopens the hold, by the set in force. The time of an approval counts from when it is first asked for.
    pub fn reopen(&mut self, reopened: &'w ReopenedEntry, set: Option<&ArchivedRules>, at: StoreTime) {
        self.causes = &reopened.causes;
        if let Ok(asked) = &mut self.asked {
            let new = reopened.approvals.iter().filter(|name| !asked.contains(*name));
            let approvals = new.filter_map(|name| set?.rules.approvals.get(name.as_str()));
            // Gates count from the first entry in whole seconds.
            let ends = approvals.map(|approval| at.plus(approval.expires).plus(SECOND));
            self.until = self.until.into_iter().chain(ends).min();
            asked.extend(reopened.approvals.iter().cloned());
        }
    }

    /// A later vote of a person replaces the earlier one.
    pub fn vote(&mut self, entry: &'w PlacedEntry, voted: &'w VotedEntry, is_used: bool) {
        let person = voted.by.owner();
        self.withdraw(&person);
        self.votes.push(ToldVote { entry, person, voted, is_used });
    }

    pub fn withdraw(&mut self, person: &Owner) {
        self.votes.retain(|vote| !vote.person.is_same_person(person));
    }

    /// Returns whether a payment of this hold needed signed approvals; fails where they are not proved.
    pub fn prove(
        &self,
        (sent, at): (&SentEntry, StoreTime),
        asked: BTreeSet<String>,
        then: SetsThen<'_>,
        proof: &mut PaymentProof,
    ) -> Result<bool, Unproved> {
        let before = self.asked.as_ref().map_err(Clone::clone)?;
        let all = before.iter().chain(&asked).chain(&sent.decision.approved);
        let signed: BTreeSet<&String> = all.filter(|approval| then.now.rules.is_signed(approval)).collect();
        if signed.is_empty() {
            return Ok(false);
        }
        proof.reasons = self.causes.iter().map(|cause| cause.text.clone()).collect();
        let incomplete = self.incomplete.map(Unproved::Incomplete);
        let ended = self.ended.map(Unproved::Ended).or(self.sent.map(Unproved::SentBefore));
        incomplete.or(ended).map_or(Ok(()), Err)?;
        self.is_as_held(sent, then.now)?;
        self.verify_votes(then, proof);
        for approval in signed {
            let signers = proof.signers.iter().filter(|signer| signer.approvals.contains(approval.as_str()));
            let voices: Voices = each_alone(signers.map(|signer| signer.person.clone()));
            let progress = then.now.rules.progress(approval, &voices);
            if let Some(progress) = progress.filter(|progress| !progress.is_reached()) {
                let (given, needed) = (progress.given, progress.needed);
                return Err(Unproved::TooFew { approval: approval.clone(), given, needed });
            }
        }
        let until = self.until.ok_or(Unproved::NoExpiry)?;
        if at >= until {
            return Err(Unproved::Expired { sent: at, until });
        }
        Ok(true)
    }

    /// Checks that what was sent is what people were shown.
    fn is_as_held(&self, sent: &SentEntry, now: &ArchivedRules) -> Result<(), Unproved> {
        if sent.fingerprint != self.held.fingerprint {
            return Err(Unproved::OtherBytes);
        }
        let (held, moved) = (self.held.amounts(), sent.amounts());
        if held.is_none() || held != moved {
            return Err(Unproved::OtherAmounts);
        }
        let cause = |name: &str| self.causes.iter().find(|cause| cause.rule.as_deref() == Some(name));
        let asks = |name: &&String| now.asked_by(name).is_some();
        if let Some(name) = sent.decision.by.iter().filter(asks).find(|name| cause(name).is_none()) {
            return Err(Unproved::OtherReasons(name.clone()));
        }
        for excess in &sent.decision.may_exceed {
            let shown = format!("up to {}:", excess.up_to);
            if !cause(&excess.limit).is_some_and(|cause| cause.text.contains(&shown)) {
                let (limit, up_to) = (excess.limit.clone(), excess.up_to.clone());
                return Err(Unproved::BeyondShown { limit, up_to });
            }
        }
        Ok(())
    }

    /// Verifies each signed vote, and notes who signed and which votes count for nothing.
    fn verify_votes(&self, then: SetsThen<'_>, proof: &mut PaymentProof) {
        let mut people: Vec<&Owner> = Vec::new();
        for vote in &self.votes {
            let Some(signed) = &vote.voted.signed else { continue };
            let is_counted = people.iter().any(|one| one.is_same_person(&vote.person));
            let verified = if is_counted { Err(VoteFault::SamePerson) } else { self.verify(vote, signed, then) };
            let (person, place) = (member_of(&vote.person), vote.entry.place.clone());
            match verified {
                Ok(passkey) => {
                    people.push(&vote.person);
                    let (at, approvals) = (vote.entry.at, signed.challenge.approvals.clone());
                    proof.signers.push(VerifiedSigner { person, passkey, at, place, approvals });
                }
                Err(fault) => proof.refused.push((place, person, fault)),
            }
        }
    }

    /// Verifies a signed vote; returns the name of its passkey.
    fn verify(&self, vote: &ToldVote<'_>, signed: &SignedVote, then: SetsThen<'_>) -> Result<String, VoteFault> {
        let challenge = &signed.challenge;
        if vote.is_used {
            return Err(VoteFault::Again);
        }
        if self.held.is_asked_by(&vote.person) {
            return Err(VoteFault::Asked);
        }
        let causes = digest(self.causes);
        if vote.voted.causes != causes {
            return Err(VoteFault::OtherReasons);
        }
        if self.held.amounts().as_ref() != Some(&challenge.amounts) {
            return Err(VoteFault::OtherAmounts);
        }
        let shown = challenge.version.as_u64();
        if !self.numbers.contains(&shown) {
            return Err(VoteFault::NotShown(shown));
        }
        let figures: Fingerprint = vote.voted.figures.ok_or(VoteFault::Incomplete)?;
        let (hold, fingerprint) = (&self.held.hold, self.held.fingerprint);
        let call = VotedCall { hold, fingerprint, amounts: &challenge.amounts, causes, figures };
        let other = || VoteFault::OtherSet(challenge.policy.clone());
        let set = then.sets.get(&challenge.policy).filter(|set| then.proved.contains(set.version()));
        let ground = |set: &'_ ArchivedRules| set.rules.signing.clone().ok_or_else(other);
        let verify = |signing: &Signing| signed.verify(call, &vote.person, (then.environment, signing));
        verify(&ground(set.ok_or_else(other)?)?).map_err(|error| VoteFault::Then(error.to_string()))?;
        let now = ground(then.now)?;
        verify(&now).map_err(|error| VoteFault::Now(error.to_string()))?;
        Ok(now.passkeys.get(&signed.credential).map_or_else(String::new, |passkey| passkey.name.clone()))
    }
}
