//! May it go: every rule on the call and on what is known of it.
//!
//! Only this station makes an [`Allowed`], and without one no claim is begun and no read is sent: from rules that let a
//! call pass, or from rules that hold it and people enough who agreed to exactly it. A decision names the rules that made
//! it and the stored facts that it assumed; the commit that acts on it guards those facts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::check::Intent;
use crate::base::digest::Fingerprint;
use crate::base::keyed::OperandKey;
use crate::base::pointer::Pointer;
use crate::catalog::Class;
use crate::commit::{Index, Step, StoreTime, WindowKey};
use crate::policy::{
    Asked, Cause, Effect, Facts, Mode, Policies, Progress, Reason, Reservation, Stated, Verdict, View, Voices, operands,
};

/// A decision holds for this long before and after the time that it assumed.
const ABOUT: Duration = Duration::from_secs(60);

/// What is to become of a call.
#[derive(Debug)]
pub enum Decision {
    Allowed(Allowed),
    /// It waits for people.
    Held(Held),
    Denied(Denied),
}

/// The right to be begun, with what must be reserved for it.
#[derive(Debug)]
pub struct Allowed(Grounds);

#[derive(Debug)]
pub struct Held(Grounds);

#[derive(Debug)]
pub struct Denied(Grounds);

/// What people said of one call, as it counts today.
#[derive(Clone, Debug)]
pub struct Consent {
    /// The call that they saw.
    pub fingerprint: Fingerprint,
    /// Approvals that were asked for before; each is asked for still, as long as there is one of the name.
    pub asked: BTreeSet<Arc<str>>,
    /// Who agreed, and for whom, as groups name their members; nobody twice.
    pub people: Voices,
}

/// What becomes of a call that waited for people.
#[derive(Debug)]
pub enum Again {
    Released(Allowed),
    /// It takes more people, or others.
    Waits(Vec<Progress>),
    Denied(Denied),
}

/// What a decision stands on.
#[derive(Debug)]
pub struct Grounds {
    pub verdict: Verdict,
    /// The version of the set that made it.
    pub policy: Arc<str>,
    /// The store's time, as it was assumed.
    now: StoreTime,
    /// The windows that the store was found to have no room in.
    exceeded: Vec<WindowKey>,
    /// The places of the body that rules name.
    places: Vec<Pointer>,
    /// The limits that were found to have a full window.
    full: BTreeSet<String>,
    /// The approvals that people have reached: the limits that name them do not bind this call.
    reached: BTreeSet<Arc<str>>,
}

pub fn decide(intent: &Intent, policies: &Policies, facts: &Facts) -> Decision {
    let asked = asked(intent);
    let verdict = policies.rules.decide(&asked, facts);
    let is_full = |window: &&WindowKey| facts.exceeded.contains(&(window.limit.clone(), window.key.clone()));
    let exceeded = verdict.reservations.iter().map(|reservation| &reservation.window).filter(is_full).cloned();
    let grounds = Grounds {
        now: facts.now,
        exceeded: exceeded.collect(),
        policy: policies.version().into(),
        places: policies.rules.places(&intent.operation().id).to_vec(),
        full: facts.exceeded.iter().map(|(limit, _)| limit.clone()).collect(),
        reached: BTreeSet::new(),
        verdict,
    };
    match grounds.verdict.effect {
        Effect::Allow => Decision::Allowed(Allowed(grounds)),
        Effect::Hold => Decision::Held(Held(grounds)),
        Effect::Deny => Decision::Denied(Denied(grounds)),
    }
}

/// The same for a call that waits for people: by the rules, facts and groups of now, and by what people said.
pub fn decide_again(intent: &Intent, policies: &Policies, facts: &Facts, consent: &Consent) -> Again {
    let mut grounds = match decide(intent, policies, facts) {
        Decision::Denied(denied) => return Again::Denied(denied),
        Decision::Allowed(Allowed(grounds)) | Decision::Held(Held(grounds)) => grounds,
    };
    let progress = progress(intent.fingerprint(), &grounds.verdict.approvals, policies, consent);
    let is_known = |approval: &Arc<str>| progress.iter().any(|one| one.name == *approval);
    let are_enough = progress.iter().all(Progress::is_reached) && grounds.verdict.approvals.iter().all(is_known);
    if !are_enough || consent.fingerprint != intent.fingerprint() {
        return Again::Waits(progress);
    }
    grounds.reached = progress.into_iter().map(|one| one.name).collect();
    Again::Released(Allowed(grounds))
}

/// How far people have brought each approval that a call takes: those that were asked for before, and those that the
/// rules ask for now. Who agreed to another call has agreed to nothing.
pub fn progress(
    fingerprint: Fingerprint,
    now: &BTreeSet<Arc<str>>,
    policies: &Policies,
    consent: &Consent,
) -> Vec<Progress> {
    let nobody = Voices::new();
    let people = if consent.fingerprint == fingerprint { &consent.people } else { &nobody };
    consent.asked.union(now).filter_map(|approval| policies.rules.progress(approval, people)).collect()
}

/// Each way in which the destination of a call is named: what may have been paid before.
pub fn destinations(intent: &Intent, policies: &Policies) -> Vec<String> {
    View::of(&asked(intent), &policies.rules.valuation, &Facts::default()).destinations()
}

/// The name of a destination among those that were paid: it tells nobody where that is.
pub fn paid_name(destination: &str) -> String {
    Fingerprint::of(&[destination.as_bytes()]).to_hex()
}

fn asked(intent: &Intent) -> Asked<'_> {
    let caller = intent.caller();
    Asked {
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
    pub fn grounds(&self) -> &Grounds {
        match self {
            Decision::Allowed(Allowed(grounds)) | Decision::Held(Held(grounds)) | Decision::Denied(Denied(grounds)) => {
                grounds
            }
        }
    }
}

impl Allowed {
    pub fn grounds(&self) -> &Grounds {
        &self.0
    }
}

impl Held {
    pub fn grounds(&self) -> &Grounds {
        &self.0
    }
}

impl Denied {
    pub fn grounds(&self) -> &Grounds {
        &self.0
    }

    /// It is denied because a window has no room now, and for nothing else.
    pub fn is_for_a_full_window(&self) -> bool {
        let is_full = |reason: &Reason| match &reason.cause {
            Cause::Limit(limit) => self.0.full.contains(&**limit),
            Cause::Rule(_) | Cause::Gate => false,
        };
        self.0.verdict.reasons.iter().all(is_full)
    }

    /// It is denied for a limit, and for nothing else.
    pub fn is_over_limit(&self) -> bool {
        self.0.verdict.reasons.iter().all(|reason| matches!(reason.cause, Cause::Limit(_)))
    }
}

impl Grounds {
    /// The facts that it assumed, as guards.
    pub fn guards(&self) -> Vec<Step> {
        let guard = |(destination, is_paid): (&String, &bool)| {
            let (index, member) = (Index::Paid, paid_name(destination));
            if *is_paid { Step::Member { index, member } } else { Step::NotMember { index, member } }
        };
        let times = [Step::After(self.now.minus(ABOUT)), Step::Before(self.now.plus(ABOUT))];
        times.into_iter().chain(self.verdict.assumed.iter().map(guard)).collect()
    }

    /// What is reserved with the claim, for this holder. A limit in shadow mode counts, and stands in nobody's way.
    pub fn reservations(&self, holder: &str) -> Vec<Step> {
        let step = |reservation: &Reservation| {
            let Reservation { window, span, units, max, mode, over } = reservation;
            let (window, span, holder, units) = (window.clone(), *span, holder.to_owned(), *units);
            let is_agreed = over.as_ref().is_some_and(|approval| self.reached.contains(approval));
            if is_agreed || (*mode == Mode::Shadow && self.exceeded.contains(&window)) {
                Step::Force { window, span, holder, units }
            } else {
                Step::Reserve { window, span, holder, units, max: *max }
            }
        };
        self.verdict.reservations.iter().map(step).collect()
    }

    pub fn windows(&self) -> impl Iterator<Item = &WindowKey> {
        self.verdict.reservations.iter().map(|reservation| &reservation.window)
    }

    /// The destinations that are paid once the call is executed, by their names among those.
    pub fn paid(&self, class: Class) -> Vec<String> {
        let names = self.verdict.destinations.iter().map(|destination| paid_name(destination));
        if class == Class::Money { names.collect() } else { Vec::new() }
    }

    /// What the rules read, so that it can be decided again.
    pub fn operands(&self, intent: &Intent, key: &OperandKey) -> Value {
        operands(&asked(intent), &self.places, self.now, &self.verdict, key)
    }

    /// As an Entry tells it.
    pub fn told(&self) -> Value {
        let by: Vec<&str> = self.verdict.reasons.iter().filter_map(|reason| reason.cause.name()).collect();
        let mut told = json!({ "effect": self.verdict.effect.as_str(), "by": by, "policy": &*self.policy });
        if let (false, Some(members)) = (self.reached.is_empty(), told.as_object_mut()) {
            members.insert("approved".to_owned(), self.reached.iter().map(|name| Value::from(&**name)).collect());
        }
        told
    }
}

/// What made a decision, as its caller is told: rules and limits by their ids, and why in words.
pub fn reasons_told(reasons: &[Reason]) -> Vec<Value> {
    let told = |reason: &Reason| match reason.cause.name() {
        Some(name) => json!({ "rule": name, "text": reason.text }),
        None => json!({ "text": reason.text }),
    };
    reasons.iter().map(told).collect()
}
