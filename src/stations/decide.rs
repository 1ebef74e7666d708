//! Decides on a call: every rule, on the call and on the stored facts.
//!
//! Only this station makes an [`Allowed`]: from rules that allow the call, or from rules that hold it and a complete quorum
//! for exactly that call. An `Allowed` owns its [`Intent`], so that one decision begins one attempt. Without it no claim
//! begins and no read is sent. A decision names its rules and the stored facts that it assumed; the commit that acts on it
//! guards these facts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::check::Intent;
use crate::base::digest::Fingerprint;
use crate::base::keyed::OperandKey;
use crate::base::pointer::Pointer;
use crate::catalog::Class;
use crate::ledger::{Index, Step, StoreTime, WindowKey};
use crate::policy::{
    Cause, Effect, Facts, HoldCauses, Mode, OverWindow, Policies, PolicyRequest, Progress, Reason, Reservation, Stated,
    Verdict, View, Voices, fact_parts, operands,
};

/// A decision holds for this long before and after the time that it assumed.
const ABOUT: Duration = Duration::from_secs(60);

/// The decision on one call; each form owns the call.
#[derive(Debug)]
pub enum Decision {
    Allowed(Allowed),
    /// The call waits for people.
    Held(Held),
    Denied(Denied),
}

/// The right to begin one attempt of one call.
#[derive(Debug)]
pub struct Allowed {
    intent: Intent,
    grounds: Grounds,
}

/// A call that needs approvals.
#[derive(Debug)]
pub struct Held {
    intent: Intent,
    grounds: Grounds,
}

/// A call that the rules refuse.
#[derive(Debug)]
pub struct Denied {
    intent: Intent,
    grounds: Grounds,
}

/// The votes on one call, as they count today.
#[derive(Clone, Debug)]
pub struct Consent {
    /// The call that the voters saw.
    pub fingerprint: Fingerprint,
    /// Approvals that were asked for before; each is still needed as long as the policies define it.
    pub asked: BTreeSet<Arc<str>>,
    /// The rules and limits that the voters were shown, with their figures.
    pub causes: HoldCauses,
    /// The people who approved, and the members they approved for, each once.
    pub people: Voices,
    /// For each approval that takes only signed votes, the people whose signatures were verified.
    pub signed: BTreeMap<Arc<str>, Voices>,
}

/// The decision on a held call when it is to be released.
#[derive(Debug)]
pub enum ReleaseDecision {
    Released(Allowed),
    /// It needs approvals that it does not have.
    Waits(Unreached),
    Denied(Denied),
}

/// A held call that needs more approvals by the rules of today.
#[derive(Debug)]
pub struct Unreached {
    grounds: Grounds,
    /// The approvals that it needs.
    pub asked: BTreeSet<Arc<str>>,
    /// Rules or limits that its voters were not shown, or larger figures: then it needs all approvals again. Without them,
    /// more approvals, or other people, are needed.
    pub other_causes: Option<HoldCauses>,
}

/// The verdict of a decision, and the stored facts that it assumed.
#[derive(Debug)]
pub struct Grounds {
    pub verdict: Verdict,
    /// The version of the set that made it.
    pub policy: Arc<str>,
    /// The assumed time of the store.
    now: StoreTime,
    /// The windows that the store reported as full.
    exceeded: Vec<WindowKey>,
    /// The descriptions of the rules and limits that made the decision.
    described: BTreeMap<String, String>,
    /// The body fields that rules name.
    places: Vec<Pointer>,
    /// The limits that have a full window.
    full: BTreeSet<String>,
    /// The approvals that are complete.
    reached: BTreeSet<Arc<str>>,
    /// Whether its destinations are known from its execution on.
    makes_known: bool,
    /// The causes that the voters were shown: a limit among them whose approval is complete permits as much as it said.
    shown: HoldCauses,
}

/// Decides on a call by the rules in force.
pub fn decide(intent: Intent, policies: &Policies, facts: &Facts) -> Decision {
    let grounds = evaluate(&intent, policies, facts);
    match grounds.verdict.effect {
        Effect::Allow => Decision::Allowed(Allowed { intent, grounds }),
        Effect::Hold => Decision::Held(Held { intent, grounds }),
        Effect::Deny => Decision::Denied(Denied { intent, grounds }),
    }
}

/// Evaluates the rules on a call without deciding on it: for explanations, forecasts and rules that are not in force.
pub fn evaluate(intent: &Intent, policies: &Policies, facts: &Facts) -> Grounds {
    let verdict = policies.rules.decide(&policy_request(intent), facts);
    let is_full = |window: &&WindowKey| facts.exceeded.contains_key(&(window.limit.clone(), window.key.clone()));
    let exceeded = verdict.reservations.iter().map(|reservation| &reservation.window).filter(is_full).cloned();
    let described = verdict.reasons.iter().filter_map(|reason| {
        let text = policies.rules.descriptions.of_cause(&reason.cause)?;
        Some((reason.cause.name()?.to_owned(), text))
    });
    Grounds {
        described: described.collect(),
        now: facts.now,
        exceeded: exceeded.collect(),
        policy: policies.version().into(),
        places: policies.rules.places(&intent.operation().id).to_vec(),
        full: facts.exceeded.keys().map(|(limit, _)| limit.clone()).collect(),
        reached: BTreeSet::new(),
        makes_known: false,
        shown: HoldCauses::default(),
        verdict,
    }
}

/// Decides again on a held call: by the rules, facts and groups of this moment, and by the votes on it.
pub fn decide_release(intent: Intent, policies: &Policies, facts: &Facts, consent: &Consent) -> ReleaseDecision {
    let (intent, mut grounds) = match decide(intent, policies, facts) {
        Decision::Denied(denied) => return ReleaseDecision::Denied(denied),
        Decision::Allowed(Allowed { intent, grounds }) | Decision::Held(Held { intent, grounds }) => (intent, grounds),
    };
    let progress = progress(intent.fingerprint(), &grounds.verdict.approvals, policies, consent);
    let asked: BTreeSet<Arc<str>> = progress.iter().map(|one| one.name.clone()).collect();
    if let Some(causes) = unshown(&intent, &grounds, consent) {
        return ReleaseDecision::Waits(Unreached { grounds, asked, other_causes: Some(causes) });
    }
    let is_known = |approval: &Arc<str>| progress.iter().any(|one| one.name == *approval);
    let are_enough = progress.iter().all(Progress::is_reached) && grounds.verdict.approvals.iter().all(is_known);
    if !are_enough || consent.fingerprint != intent.fingerprint() {
        return ReleaseDecision::Waits(Unreached { grounds, asked, other_causes: None });
    }
    grounds.reached = asked;
    let is_complete = |approval: &Arc<str>| {
        let progress = self::progress(intent.fingerprint(), &[approval.clone()].into(), policies, consent);
        progress.iter().any(|one| one.name == *approval && one.is_reached())
    };
    grounds.makes_known = policies.rules.makes_known(intent.environment(), &consent.causes, is_complete);
    grounds.shown = consent.causes.clone();
    ReleaseDecision::Released(Allowed { intent, grounds })
}

/// Returns the causes of a held call if its voters were not shown all of them: votes do not count for these.
fn unshown(intent: &Intent, grounds: &Grounds, consent: &Consent) -> Option<HoldCauses> {
    let causes = HoldCauses::of(&grounds.verdict);
    (!consent.causes.cover(&causes) && consent.fingerprint == intent.fingerprint()).then_some(causes)
}

/// Returns what a held call needs if its voters were not shown all causes of today: its release would ask for it, too.
pub fn needed_anew(intent: &Intent, grounds: Grounds, policies: &Policies, consent: &Consent) -> Option<Unreached> {
    let other_causes = Some(unshown(intent, &grounds, consent)?);
    let progress = progress(intent.fingerprint(), &grounds.verdict.approvals, policies, consent);
    let asked = progress.into_iter().map(|one| one.name).collect();
    Some(Unreached { grounds, asked, other_causes })
}

/// Returns the progress of each approval: those that were asked for before, and those that the rules ask for now. A
/// vote for another call counts for nothing.
pub fn progress(
    fingerprint: Fingerprint,
    now: &BTreeSet<Arc<str>>,
    policies: &Policies,
    consent: &Consent,
) -> Vec<Progress> {
    let nobody = Voices::new();
    let people = |approval: &str| match policies.rules.is_signed(approval) {
        _ if consent.fingerprint != fingerprint => &nobody,
        true => consent.signed.get(approval).unwrap_or(&nobody),
        false => &consent.people,
    };
    consent.asked.union(now).filter_map(|approval| policies.rules.progress(approval, people(approval))).collect()
}

/// Returns each form of a call's destination, as the index of paid destinations knows them.
pub fn destinations(intent: &Intent, policies: &Policies) -> Vec<String> {
    View::of(&policy_request(intent), &policies.rules.valuation, &Facts::default()).acquaintances()
}

/// Returns the names of the stored facts about a call's destination that rules may use.
pub fn paid_facts(intent: &Intent, policies: &Policies) -> Vec<String> {
    policies.rules.facts_about(&destinations(intent, policies))
}

/// The name of a destination in that index: a digest, which tells nobody the destination.
pub fn paid_name(destination: &str) -> String {
    Fingerprint::of(&[destination.as_bytes()]).to_hex()
}

fn policy_request(intent: &Intent) -> PolicyRequest<'_> {
    let caller = intent.caller();
    PolicyRequest {
        environment: intent.environment(),
        operation: intent.operation(),
        issuer: caller.issuer(),
        subject: caller.subject(),
        requester: caller.requester(),
        roles: caller.roles(),
        path: intent.path(),
        path_parameters: intent.path_parameters(),
        body: Stated::Whole(intent.value()),
        movement: intent.movement(),
    }
}

impl Decision {
    /// Gives the decision up: the call can be decided on again.
    pub fn into_intent(self) -> Intent {
        match self {
            Decision::Allowed(Allowed { intent, .. })
            | Decision::Held(Held { intent, .. })
            | Decision::Denied(Denied { intent, .. }) => intent,
        }
    }

    pub fn intent(&self) -> &Intent {
        match self {
            Decision::Allowed(Allowed { intent, .. })
            | Decision::Held(Held { intent, .. })
            | Decision::Denied(Denied { intent, .. }) => intent,
        }
    }

    pub fn grounds(&self) -> &Grounds {
        match self {
            Decision::Allowed(Allowed { grounds, .. })
            | Decision::Held(Held { grounds, .. })
            | Decision::Denied(Denied { grounds, .. }) => grounds,
        }
    }
}

impl Allowed {
    pub fn intent(&self) -> &Intent {
        &self.intent
    }

    pub fn grounds(&self) -> &Grounds {
        &self.grounds
    }

    /// Gives the right up: the call can be decided on again.
    pub fn into_intent(self) -> Intent {
        self.intent
    }
}

impl Held {
    pub fn intent(&self) -> &Intent {
        &self.intent
    }

    pub fn grounds(&self) -> &Grounds {
        &self.grounds
    }

    pub fn into_intent(self) -> Intent {
        self.intent
    }
}

impl Unreached {
    pub fn grounds(&self) -> &Grounds {
        &self.grounds
    }
}

impl Denied {
    pub fn intent(&self) -> &Intent {
        &self.intent
    }

    pub fn grounds(&self) -> &Grounds {
        &self.grounds
    }

    pub fn into_intent(self) -> Intent {
        self.intent
    }

    /// Returns whether a full window is the only reason.
    pub fn is_for_a_full_window(&self) -> bool {
        let is_full = |reason: &Reason| match &reason.cause {
            Cause::Limit(limit) => self.grounds.full.contains(&**limit),
            Cause::Rule(_) | Cause::Gate => false,
        };
        self.grounds.verdict.reasons.iter().all(is_full)
    }

    /// Returns whether limits are the only reason.
    pub fn is_over_limit(&self) -> bool {
        self.grounds.verdict.reasons.iter().all(|reason| matches!(reason.cause, Cause::Limit(_)))
    }
}

impl Grounds {
    /// The assumed time of the store.
    pub fn now(&self) -> StoreTime {
        self.now
    }

    /// The assumed facts, as guards of a commit.
    pub fn guards(&self) -> Vec<Step> {
        let guard = |(name, is_known): (&String, &bool)| {
            let (destination, cooldown) = fact_parts(name);
            let member = paid_name(destination);
            let (index, at) = (Index::Known, self.now.minus(cooldown));
            match (cooldown.is_zero(), *is_known) {
                (true, true) => Step::Member { index: Index::Paid, member },
                (true, false) => Step::NotMember { index: Index::Paid, member },
                (false, true) => Step::Since { index, member, at },
                (false, false) => Step::NotSince { index, member, at },
            }
        };
        let times = [Step::After(self.now.minus(ABOUT)), Step::Before(self.now.plus(ABOUT))];
        times.into_iter().chain(self.verdict.assumed.iter().map(guard)).collect()
    }

    /// The reservations that the claim makes, for this holder. A limit in shadow mode counts and never refuses.
    pub fn reservations(&self, holder: &str) -> Vec<Step> {
        let step = |reservation: &Reservation| {
            let Reservation { window, span, units, max, mode, .. } = reservation;
            let (window, span, holder, units) = (window.clone(), *span, holder.to_owned(), *units);
            if *mode == Mode::Shadow && self.exceeded.contains(&window) {
                Step::Force { window, span, holder, units }
            } else {
                let max = self.approved(reservation).map_or(*max, |over| over.up_to);
                Step::Reserve { window, span, holder, units, max }
            }
        };
        self.verdict.reservations.iter().map(step).collect()
    }

    /// Returns what a window may contain beyond its limit: as much as the voters of the approval that the limit asked
    /// for were shown, if it is complete.
    fn approved(&self, reservation: &Reservation) -> Option<&OverWindow> {
        let approval = reservation.over.as_ref().filter(|approval| self.reached.contains(*approval))?;
        self.shown.beyond(reservation, approval).filter(|over| over.up_to > reservation.max)
    }

    pub fn reserved(&self) -> &[Reservation] {
        &self.verdict.reservations
    }

    /// Whether people approved its destinations: these are known from its execution on.
    pub fn makes_known(&self) -> bool {
        self.makes_known
    }

    /// The destinations that count as paid after the execution, by their names in the index.
    pub fn paid(&self, class: Class) -> Vec<String> {
        let names = self.verdict.payees.iter().map(|payee| paid_name(payee));
        if class == Class::Money { names.collect() } else { Vec::new() }
    }

    /// The operands that the rules read, for a later replay of the decision.
    pub fn operands(&self, intent: &Intent, key: &OperandKey) -> Value {
        operands(&policy_request(intent), &self.places, self.now, &self.verdict, key)
    }

    /// The decision as the audit entry has it.
    pub fn to_json(&self) -> Value {
        let by: Vec<&str> = self.verdict.reasons.iter().filter_map(|reason| reason.cause.name()).collect();
        let mut told = json!({ "effect": self.verdict.effect.as_str(), "by": by, "policy": &*self.policy });
        if let (false, Some(members)) = (self.reached.is_empty(), told.as_object_mut()) {
            members.insert("approved".to_owned(), self.reached.iter().map(|name| Value::from(&**name)).collect());
            let beyond =
                |one: &Reservation| Some(json!({ "limit": one.window.limit, "upTo": self.approved(one)?.words }));
            let exceeding: Vec<Value> = self.verdict.reservations.iter().filter_map(beyond).collect();
            if !exceeding.is_empty() {
                members.insert("mayExceed".to_owned(), exceeding.into());
            }
        }
        if let (false, Some(members)) = (self.described.is_empty(), told.as_object_mut()) {
            members.insert("descriptions".to_owned(), json!(self.described));
        }
        told
    }
}

/// The reasons as the caller gets them: rules and limits by id, each with a text.
pub fn reasons_told(reasons: &[Reason]) -> Vec<Value> {
    let told = |reason: &Reason| match reason.cause.name() {
        Some(name) => json!({ "rule": name, "text": reason.text }),
        None => json!({ "text": reason.text }),
    };
    reasons.iter().map(told).collect()
}
