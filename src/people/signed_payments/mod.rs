//! Proves who agreed to each payment that needed signed approvals, from audit entries and archived sets alone.
//!
//! The auditor vouches for sets by their digests, in the order in which they took force; the first is the root. Entries are
//! nobody's word here: a vote counts by its signature alone, over a statement that is made anew from the entries, with the
//! keys of the sets of then and of the moment when the payment was sent. What the log does not say at all, such as a payment
//! that it says nobody was asked about, no signature proves.

mod acts;
mod record;
mod report;
mod story;

use std::collections::{BTreeMap, BTreeSet};

pub use record::PaymentRecord;
pub use report::{
    ActProof, PaymentProof, PeopleReport, SetBreak, Unproved, UnprovedAct, VerifiedSigner, VoteFault, moment,
};

use crate::audit::EntryKind;
use crate::base::ids::{Environment, HoldId};
use crate::ledger::StoreTime;
use crate::policy::ArchivedRules;
use record::{PeopleEntry, PlacedEntry, SentEntry, SetEntry, WrittenCause, WrittenDecision};
use story::{HoldStory, SetsThen};

/// The sets that an auditor has, and those that the auditor vouches for.
#[derive(Debug, Default)]
pub struct KnownSets {
    sets: BTreeMap<String, ArchivedRules>,
    /// In the order in which they took force.
    vouched: Vec<String>,
}

impl KnownSets {
    pub fn vouched(vouched: Vec<String>) -> KnownSets {
        KnownSets { sets: BTreeMap::new(), vouched }
    }

    /// Adds a set under the digest of what was read.
    pub fn add(&mut self, set: ArchivedRules) {
        self.sets.insert(set.version().to_owned(), set);
    }
}

impl PaymentRecord {
    /// Proves each payment, by these sets.
    pub fn prove(&self, sets: &KnownSets) -> PeopleReport {
        let mut report = PeopleReport::default();
        for environment in Environment::ALL {
            let mut walk = PeopleWalk::of(sets, environment);
            for ((_, number), entry) in self.entries.range((environment, 0)..=(environment, u64::MAX)) {
                walk.take(*number, entry, &mut report);
            }
        }
        report
    }
}

/// The entries of one environment, in their order.
struct PeopleWalk<'w> {
    sets: &'w KnownSets,
    environment: Environment,
    in_force: Option<String>,
    /// Whether the set in force is the next one of those that are vouched for, or people of a proved one signed it.
    is_proved: bool,
    /// How far the sets have come that were vouched for.
    furthest: usize,
    /// The proved sets that were in force so far.
    proved: BTreeSet<&'w str>,
    holds: BTreeMap<HoldId, HoldStory<'w>>,
    /// The holds of claims that wait.
    waiting: BTreeMap<&'w str, HoldId>,
    nonces: BTreeSet<&'w str>,
    /// The statements of recovery keys that were used.
    recoveries: BTreeSet<[u8; 32]>,
    /// The number of the last entry by which each freeze was made.
    frozen: BTreeMap<&'w str, u64>,
}

impl<'w> PeopleWalk<'w> {
    fn of(sets: &'w KnownSets, environment: Environment) -> PeopleWalk<'w> {
        PeopleWalk {
            sets,
            environment,
            in_force: None,
            is_proved: false,
            furthest: 0,
            proved: BTreeSet::new(),
            holds: BTreeMap::new(),
            waiting: BTreeMap::new(),
            nonces: BTreeSet::new(),
            recoveries: BTreeSet::new(),
            frozen: BTreeMap::new(),
        }
    }

    fn take(&mut self, number: u64, entry: &'w PlacedEntry, report: &mut PeopleReport) {
        let hold = match &entry.says {
            PeopleEntry::TookForce(set) => return self.take_set(set, (number, entry), report),
            PeopleEntry::Held(held) => {
                let asked = self.asked_by(&held.decision);
                let until = self.expiry(&held.causes, entry.at);
                self.waiting.insert(&held.claim, held.hold.clone());
                let mut story = HoldStory::begun(held, asked, until);
                // No gate tells so twice: what a hold has come to stays.
                if let Some(before) = self.holds.get(&held.hold) {
                    (story.ended, story.sent) = (before.ended, before.sent);
                    story.until = story.until.min(before.until);
                }
                self.holds.insert(held.hold.clone(), story);
                &held.hold
            }
            PeopleEntry::Reopened(reopened) => {
                let set = self.set_in_force();
                if let Some(story) = self.holds.get_mut(&reopened.hold) {
                    story.reopen(reopened, set, entry.at);
                }
                &reopened.hold
            }
            PeopleEntry::Voted(voted) => {
                let is_used = voted.signed.as_ref().is_some_and(|signed| !self.nonces.insert(&signed.challenge.nonce));
                if let Some(story) = self.holds.get_mut(&voted.hold) {
                    story.vote(entry, voted, is_used);
                }
                &voted.hold
            }
            PeopleEntry::Withdrawn(withdrawn) => {
                if let Some(story) = self.holds.get_mut(&withdrawn.hold) {
                    story.withdraw(&withdrawn.by.owner());
                }
                &withdrawn.hold
            }
            PeopleEntry::Ended(hold, how) => {
                if let Some(story) = self.holds.get_mut(hold) {
                    story.ended = Some(*how);
                    self.waiting.retain(|_, waiting| waiting != hold);
                }
                hold
            }
            PeopleEntry::Sent(sent) => {
                match self.prove(sent, (number, entry)) {
                    Some(proof) => report.payments.push(proof),
                    None => report.others = report.others.saturating_add(1),
                }
                let Some(hold) = &sent.hold else { return };
                // People may say later that it was not executed; then the call is decided on anew.
                self.waiting.retain(|_, waiting| waiting != hold);
                if let Some(story) = self.holds.get_mut(hold) {
                    story.sent = Some(number);
                }
                hold
            }
            PeopleEntry::Acted(acted) => {
                report.acts.extend(self.prove_act(acted, (number, entry)));
                let Some(hold) = &acted.hold else { return };
                if acted.what == EntryKind::Undone
                    && let Some(story) = self.holds.get_mut(hold)
                {
                    story.sent = None;
                }
                hold
            }
            PeopleEntry::NotExecuted(hold) => {
                if let Some(story) = self.holds.get_mut(hold) {
                    story.sent = None;
                }
                hold
            }
            PeopleEntry::Frozen(name) => {
                self.frozen.insert(name, number);
                return;
            }
            PeopleEntry::OfHold(hold) => hold,
            PeopleEntry::Incomplete(kind, hold) => {
                match kind {
                    EntryKind::Sending => report.payments.push(incomplete(self.environment, (number, entry), *kind)),
                    EntryKind::TookForce
                    | EntryKind::Unfrozen
                    | EntryKind::Executed
                    | EntryKind::Undone
                    | EntryKind::Abandoned => {
                        report.acts.push(self.incomplete_act(*kind, (number, entry)));
                    }
                    _ => {}
                }
                match hold {
                    Some(hold) => {
                        if let Some(story) = self.holds.get_mut(hold) {
                            story.incomplete.get_or_insert(*kind);
                        }
                        hold
                    }
                    None => return,
                }
            }
        };
        if let Some(story) = self.holds.get_mut(hold) {
            story.numbers.insert(number);
        }
    }

    fn take_set(&mut self, set: &'w SetEntry, (number, entry): (u64, &PlacedEntry), report: &mut PeopleReport) {
        let before = set.before.as_deref().unwrap_or(&set.policy);
        let in_force = self.in_force.clone().unwrap_or_else(|| before.to_owned());
        self.establish(before);
        let follows = in_force == before;
        if !follows {
            let (took, before) = (set.policy.clone(), before.to_owned());
            report.breaks.push((entry.place.clone(), SetBreak { took, before, in_force }));
        }
        let recovered = set.recovery.as_ref().map(|signed| self.prove_recovery(set, signed, (number, entry)));
        let is_recovered = recovered.as_ref().is_some_and(|proof| proof.fault.is_none());
        report.acts.extend(recovered);
        if self.in_force.as_deref() != Some(&set.policy) {
            let signed = if follows { self.prove_activation(set, (number, entry)) } else { None };
            let is_signed = follows && (is_recovered || signed.is_some());
            report.acts.extend(signed);
            self.replace(&set.policy, is_signed);
        }
    }

    /// The first set that the log names was in force before.
    fn establish(&mut self, policy: &str) {
        if self.in_force.is_none() {
            self.replace(policy, false);
        }
    }

    /// A set takes force: it is proved if it is one of the next that are vouched for, or if people or recovery keys of the
    /// proved set before signed it. One that was in force before and was replaced is no next one.
    fn replace(&mut self, policy: &str, is_signed: bool) {
        let vouched = &self.sets.vouched;
        let next = vouched.iter().enumerate().skip(self.furthest).find(|(_, vouched)| *vouched == policy);
        self.is_proved = is_signed || next.is_some();
        if let Some((at, policy)) = next {
            self.furthest = at.saturating_add(1);
            self.proved.insert(policy);
        }
        if let Some((policy, _)) = self.sets.sets.get_key_value(policy).filter(|_| is_signed) {
            self.proved.insert(policy);
        }
        self.in_force = Some(policy.to_owned());
    }

    /// Returns the set in force, if it is proved, or why it is not.
    fn proved_set(&self, decided: &str) -> Result<&'w ArchivedRules, Unproved> {
        let in_force = self.in_force.as_deref().unwrap_or(decided);
        if in_force != decided {
            return Err(Unproved::OtherSet { decided: decided.to_owned(), in_force: in_force.to_owned() });
        }
        if !self.is_proved {
            return Err(Unproved::NotVouched(in_force.to_owned()));
        }
        self.sets.sets.get(in_force).ok_or_else(|| Unproved::UnknownSet(in_force.to_owned()))
    }

    /// Returns the approvals that a decision asks for, by the set in force; or why they are not known.
    fn asked_by(&mut self, decision: &WrittenDecision) -> Result<BTreeSet<String>, Unproved> {
        self.establish(&decision.policy);
        let set = self.proved_set(&decision.policy)?;
        Ok(decision.by.iter().filter_map(|name| set.asked_by(name)).map(|name| name.to_string()).collect())
    }

    fn set_in_force(&self) -> Option<&'w ArchivedRules> {
        self.sets.sets.get(self.in_force.as_ref()?)
    }

    /// Returns until when a call can be sent that waits for the approvals of these reasons from an entry on, by the set in
    /// force: a gate counts the shortest time of them, in whole seconds. `None` where none of them asks for an approval.
    fn expiry(&self, causes: &[WrittenCause], at: StoreTime) -> Option<StoreTime> {
        let set = self.set_in_force()?;
        let asked = causes.iter().filter_map(|cause| set.asked_by(cause.rule.as_deref()?));
        let times = asked.filter_map(|name| set.rules.approvals.get(name)).map(|approval| approval.expires);
        times.min().map(|time| at.plus(time))
    }

    /// Proves a payment; `None` where it needed no signed approval.
    fn prove(&mut self, sent: &'w SentEntry, (number, entry): (u64, &'w PlacedEntry)) -> Option<PaymentProof> {
        let asked = self.asked_by(&sent.decision);
        let mut proof = begun(self.environment, sent, (number, entry));
        match self.proof_of(sent, asked, &mut proof) {
            Ok(true) => Some(proof),
            Ok(false) => None,
            Err(fault) => Some(PaymentProof { fault: Some(fault), ..proof }),
        }
    }

    /// Returns whether a payment needed signed approvals; fails where it is not proved.
    fn proof_of(
        &self,
        sent: &SentEntry,
        asked: Result<BTreeSet<String>, Unproved>,
        proof: &mut PaymentProof,
    ) -> Result<bool, Unproved> {
        let asked = asked?;
        let now = self.proved_set(&sent.decision.policy)?;
        let Some(hold) = &sent.hold else {
            let is_waiting = sent.claim.as_deref().is_some_and(|claim| self.waiting.contains_key(claim));
            return if is_waiting || !asked.is_empty() { Err(Unproved::WithoutHold) } else { Ok(false) };
        };
        let story = self.holds.get(hold).ok_or(Unproved::NotHeld)?;
        let then = SetsThen { sets: &self.sets.sets, proved: &self.proved, now, environment: self.environment };
        story.prove((sent, proof.at), asked, then, proof)
    }
}

fn begun(environment: Environment, sent: &SentEntry, (number, entry): (u64, &PlacedEntry)) -> PaymentProof {
    PaymentProof {
        environment,
        number,
        at: entry.at,
        place: entry.place.clone(),
        operation: sent.operation.clone(),
        request_id: sent.request_id.clone(),
        hold: sent.hold.as_ref().map(ToString::to_string),
        fingerprint: Some(sent.fingerprint),
        policy: sent.decision.policy.clone(),
        amounts: sent.amounts(),
        reasons: Vec::new(),
        signers: Vec::new(),
        refused: Vec::new(),
        fault: None,
    }
}

/// A payment whose own entry cannot be read.
fn incomplete(environment: Environment, (number, entry): (u64, &PlacedEntry), kind: EntryKind) -> PaymentProof {
    PaymentProof {
        environment,
        number,
        at: entry.at,
        place: entry.place.clone(),
        operation: String::new(),
        request_id: None,
        hold: None,
        fingerprint: None,
        policy: String::new(),
        amounts: None,
        reasons: Vec::new(),
        signers: Vec::new(),
        refused: Vec::new(),
        fault: Some(Unproved::Incomplete(kind)),
    }
}
