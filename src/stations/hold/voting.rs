//! The rules of voting: who may act on a hold.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::owners::{Owners, member_of};
use super::signature::SignatureError;
use super::stand_ins::StandIns;
use super::state::{Hold, HoldNote, Vote};
use crate::base::digest::Fingerprint;
use crate::base::ids::Environment;
use crate::catalog::Catalog;
use crate::ledger::{Step, StoreTime};
use crate::policy::{Rules, Voices, each_person};
use crate::stations::claim::Owner;
use crate::stations::decide::{Consent, Grounds};

/// An action on a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoteAction {
    Approve,
    Withdraw,
    Reject,
    Comment,
}

/// The reasons why an action is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoteRefusal {
    /// The person saw another call.
    OtherBytes,
    /// The person was shown other causes, or other figures of them.
    OtherCauses,
    /// The person asked for it.
    Asked,
    /// The person is in none of the groups that must approve.
    NotAsked,
    /// The hold is decided or expired.
    Over(&'static str),
    /// The hold has as many votes as are stored.
    FullOfVotes,
    /// The hold has as many remarks as are stored.
    FullOfNotes,
    /// The hold has as many remarks of this person as are stored.
    FullOfOwnNotes,
    /// An approval takes only signed votes.
    NotSigned,
    /// An approval takes only signed votes, and the person has no passkey in the policies in force.
    NotEnrolled,
    BadSignature(SignatureError),
}

/// The call that a person saw, and the causes that the person was shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenHold {
    pub fingerprint: Option<Fingerprint>,
    pub causes: Option<Fingerprint>,
}

/// The approvals that a hold needs now.
#[derive(Clone, Debug)]
pub struct NeededApprovals {
    pub names: BTreeSet<Arc<str>>,
    /// The guards of the stored facts by which today's rules ask for them: a commit that writes them down has these.
    pub guards: Vec<Step>,
}

impl NeededApprovals {
    /// Those that were asked for before, as far as the policies still define them, and those that today's rules ask for;
    /// `today` is `None` where today's contract has no such call.
    pub fn of(hold: &Hold, rules: &Rules, today: Option<&Grounds>) -> NeededApprovals {
        let before = hold.asked.iter().filter(|name| rules.approvals.contains_key(*name));
        let of_today = today.into_iter().flat_map(|grounds| &grounds.verdict.approvals);
        let guards = today.map(Grounds::guards).unwrap_or_default();
        NeededApprovals { names: before.chain(of_today).cloned().collect(), guards }
    }
}

/// The most votes of one hold, and the most remarks.
const MAX_WORDS: usize = 100;
/// The most remarks of one person, who leaves room for others.
pub const MAX_OWN_NOTES: usize = 20;

/// The groups, owners and stand-ins by which votes count at a time.
#[derive(Clone, Copy, Debug)]
pub struct VoteContext<'h> {
    /// The contract that the rules were read for.
    pub catalog: &'h Catalog,
    pub rules: &'h Rules,
    pub owners: &'h Owners,
    pub stand_ins: &'h StandIns,
    pub environment: Environment,
    pub now: StoreTime,
}

/// The reasons why a hold can only be rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// The policies define none of its approvals any more.
    NoApproval,
    /// The groups have too few people, without the requesters.
    TooFew,
}

impl Stuck {
    pub fn in_words(self) -> &'static str {
        match self {
            Stuck::NoApproval => {
                "nobody can approve it: the policies in force define none of the approvals that it waits for"
            }
            Stuck::TooFew => "nobody can complete the quorum: the groups have too few people who may approve it",
        }
    }
}

impl VoteContext<'_> {
    /// Returns the members for whom a person votes: themselves, and the members they stand in for. A requester votes
    /// for nobody, and nobody votes for a requester.
    pub fn voice(&self, hold: &Hold, person: &Owner) -> BTreeSet<String> {
        if hold.is_asked_by(person, self.owners) {
            return BTreeSet::new();
        }
        let others = self.stand_ins.members(person, self.now);
        let others = others.filter(|member| !hold.is_asked_by(member, self.owners));
        [person].into_iter().chain(others).map(member_of).collect()
    }

    /// Returns whether a person votes for a member of one of these approvals; on a signed approval, nobody votes for
    /// another.
    pub fn is_asked(&self, hold: &Hold, person: &Owner, asked: &BTreeSet<Arc<str>>) -> bool {
        let (voice, oneself) = (self.voice(hold, person), member_of(person));
        let counts = |approval: &str, member: &String| !self.rules.is_signed(approval) || *member == oneself;
        let may_say =
            |approval: &str, member: &String| counts(approval, member) && self.rules.may_say(approval, member);
        asked.iter().any(|approval| voice.iter().any(|member| may_say(approval, member)))
    }

    /// Returns whether one of these approvals takes the person's vote only with a signature.
    pub fn must_sign(&self, person: &Owner, asked: &BTreeSet<Arc<str>>) -> bool {
        let member = member_of(person);
        asked.iter().any(|approval| self.rules.is_signed(approval) && self.rules.may_say(approval, &member))
    }

    /// Returns why even all eligible people would not complete the quorum, if so. A stand-in adds no vote beyond the
    /// member's.
    pub fn stuck(&self, hold: &Hold, asked: &BTreeSet<Arc<str>>) -> Option<Stuck> {
        if asked.is_empty() {
            return Some(Stuck::NoApproval);
        }
        let is_other = |member: &&String| {
            let (issuer, subject) = member.split_once(':').unwrap_or(("", member));
            !hold.is_asked_by(&self.owners.person(issuer, subject), self.owners)
        };
        let others = || self.rules.groups.values().flatten().filter(is_other).cloned();
        let all = each_person(others());
        let enrolled = each_person(others().filter(|person| self.rules.is_enrolled(person)));
        let is_within_reach = |approval: &Arc<str>| {
            let people = if self.rules.is_signed(approval) { &enrolled } else { &all };
            self.rules.progress(approval, people).is_some_and(|all| all.is_reached())
        };
        (!asked.iter().all(is_within_reach)).then_some(Stuck::TooFew)
    }
}

/// Checks whether a person may act on a hold now: by today's groups and approvals, and the bytes that the person saw.
/// Every approver may reject a hold that nobody can complete.
pub fn may_say(
    (hold, written): (&Hold, StoreTime),
    say: VoteAction,
    person: &Owner,
    seen: SeenHold,
    asked: &BTreeSet<Arc<str>>,
    hearing: &VoteContext<'_>,
) -> Result<(), VoteRefusal> {
    if !hold.state.is_open() {
        return Err(VoteRefusal::Over(hold.state.as_str()));
    }
    if hold.deadline(written) <= hearing.now {
        return Err(VoteRefusal::Over("expired"));
    }
    if seen.fingerprint != Some(hold.fingerprint) && say != VoteAction::Comment {
        return Err(VoteRefusal::OtherBytes);
    }
    if say == VoteAction::Approve && seen.causes != Some(hold.causes.digest()) {
        return Err(VoteRefusal::OtherCauses);
    }
    if hold.is_asked_by(person, hearing.owners) && say != VoteAction::Comment {
        return Err(VoteRefusal::Asked);
    }
    let is_for_all = say == VoteAction::Comment || (say == VoteAction::Reject && hearing.stuck(hold, asked).is_some());
    if !is_for_all && !hearing.is_asked(hold, person, asked) {
        return Err(VoteRefusal::NotAsked);
    }
    match say {
        VoteAction::Approve if hold.votes.len() >= MAX_WORDS => Err(VoteRefusal::FullOfVotes),
        VoteAction::Comment if hold.notes.len() >= MAX_WORDS => Err(VoteRefusal::FullOfNotes),
        VoteAction::Comment if hold.notes_of(person).count() >= MAX_OWN_NOTES => Err(VoteRefusal::FullOfOwnNotes),
        VoteAction::Approve | VoteAction::Comment | VoteAction::Withdraw | VoteAction::Reject => Ok(()),
    }
}

impl Hold {
    /// The remarks of a person, in the order of time.
    fn notes_of(&self, person: &Owner) -> impl DoubleEndedIterator<Item = &HoldNote> {
        self.notes.iter().filter(move |note| note.person.is_same_person(person))
    }

    /// Whether this is the last remark of a person: saying it again says nothing more.
    pub fn has_said_last(&self, person: &Owner, text: &str) -> bool {
        self.notes_of(person).next_back().is_some_and(|last| last.text == text)
    }

    /// Returns what a person sees who looks at it now.
    pub fn seen(&self) -> SeenHold {
        SeenHold { fingerprint: Some(self.fingerprint), causes: Some(self.causes.digest()) }
    }

    /// The votes as they count now: those for its causes.
    pub fn consent(&self, hearing: &VoteContext<'_>) -> Consent {
        self.consent_with(hearing, None)
    }

    /// The votes as they would count if this person had signed, too.
    pub fn consent_with(&self, hearing: &VoteContext<'_>, supposed: Option<&Owner>) -> Consent {
        let (mut counted, mut people) = (Vec::<Owner>::new(), Voices::new());
        let causes = self.causes.digest();
        for Vote { person, .. } in self.votes.iter().filter(|vote| vote.causes == causes) {
            let voice = hearing.voice(self, person);
            let today = hearing.owners.as_today(person);
            if !voice.is_empty() && !counted.iter().any(|one| one.is_same_person(&today)) {
                people.insert(member_of(person), voice);
                counted.push(today);
            }
        }
        let signed = self.signed_voices(hearing, supposed);
        Consent {
            fingerprint: self.fingerprint,
            asked: self.asked.clone(),
            causes: self.causes.clone(),
            people,
            signed,
        }
    }
}
